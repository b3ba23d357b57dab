//! The two servers: sends each step to both and judges the outcomes.

use std::collections::BTreeMap;

use anyhow::Result;

use super::outcome::{LOCK_WAIT, Outcome, difference};
use super::side::Side;
use super::step::{Kind, Step};
use super::tracker::{Explained, Tracker};
use crate::drive::server::Place;

/// The judgement of a step.
pub enum Verdict {
    /// The outcomes agree.
    Same(Outcome),
    /// Only one server refuses, and the wider locks of InnoDB explain it. The session's transaction
    /// was rolled back on both.
    Explained,
    /// The outcomes differ.
    Different(Box<Difference>),
}

/// A difference.
pub struct Difference {
    /// Description of the difference.
    pub what: String,
    /// Perdura's outcome.
    pub ours: Outcome,
    /// InnoDB's.
    pub theirs: Outcome,
    /// The transactions that are open in InnoDB, if it has waited for one.
    pub holders: Vec<String>,
}

/// Perdura and InnoDB.
pub struct Pair {
    /// Perdura.
    pub ours: Side,
    /// InnoDB.
    pub theirs: Side,
    /// Number of explained refusals, by explanation.
    pub explained: BTreeMap<Explained, u64>,
}

impl Pair {
    /// Starts both, Perdura's on the media that `place` names.
    pub fn start(place: Place) -> Result<Self> {
        let (ours, theirs) = (Side::start("Perdura", place)?, Side::start("InnoDB", Place::of_environment())?);
        Ok(Self { ours, theirs, explained: BTreeMap::new() })
    }

    /// Drops all tables on both.
    pub fn reset(&mut self) -> Result<()> {
        self.ours.reset()?;
        self.theirs.reset()
    }

    fn both(&mut self, step: &Step) -> (Outcome, Outcome) {
        let (ours, theirs) = (&mut self.ours, &mut self.theirs);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| theirs.execute(step));
            let outcome = ours.execute(step);
            (outcome, other.join().expect("a session does not panic"))
        })
    }

    /// Runs a step on both and compares. Fails if a server does not restart.
    pub fn run(&mut self, tracker: &Tracker, step: &Step) -> Result<Verdict> {
        if let Kind::Restart { kill } = step.kind {
            self.ours.restart(kill)?;
            self.theirs.restart(kill)?;
            return Ok(Verdict::Same(Outcome::nothing()));
        }
        let (ours, theirs) = self.both(step);
        let (ours, theirs) = (named_alike(step, ours), named_alike(step, theirs.in_our_numbers()));
        let Some(what) = difference(step, &ours, &theirs) else { return Ok(Verdict::Same(theirs)) };
        if let Some(reason) = tracker.explain(step, &ours, &theirs) {
            *self.explained.entry(reason).or_default() += 1;
            self.both(&Step::new(step.session, Kind::Rollback, "ROLLBACK"));
            return Ok(Verdict::Explained);
        }
        let holders = if theirs.code() == Some(LOCK_WAIT) { self.theirs.open_transactions() } else { Vec::new() };
        Ok(Verdict::Different(Box::new(Difference { what, ours, theirs, holders })))
    }
}

/// SHOW CREATE TABLE without the engine's name, the next value of AUTO_INCREMENT, and when columns
/// are computed.
fn named_alike(step: &Step, mut outcome: Outcome) -> Outcome {
    if let (Outcome::Done { sets, .. }, true) = (&mut outcome, step.text.starts_with("SHOW CREATE")) {
        for cell in sets.iter_mut().flatten().flatten().flatten() {
            let text =
                String::from_utf8_lossy(cell).replace("ENGINE=Perdura", "ENGINE=").replace("ENGINE=InnoDB", "ENGINE=");
            let text = text.replace("ENGINE = Perdura", "ENGINE = ").replace("ENGINE = InnoDB", "ENGINE = ");
            *cell = without_next_value(&text).replace(") VIRTUAL", ") STORED").into_bytes();
        }
    }
    outcome
}

fn without_next_value(text: &str) -> String {
    const WORD: &str = " AUTO_INCREMENT=";
    let Some((before, after)) = text.split_once(WORD) else { return text.to_owned() };
    format!("{before}{}", after.trim_start_matches(|digit: char| digit.is_ascii_digit()))
}
