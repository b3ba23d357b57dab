//! Shortens the list of steps that leads to a difference by replaying parts of it.

use anyhow::Result;

use super::outcome::Outcome;
use super::pair::{Difference, Pair, Verdict};
use super::report;
use super::step::{Kind, Step};
use super::tracker::Tracker;

/// Steps older than this are dropped in one attempt, if the difference stays.
const FIRST_CUT: usize = 400;

/// Shortens the log and prints the rest.
pub fn print(pair: &mut Pair, log: &[Step]) -> Result<()> {
    println!("sqldiff: shortening {} steps", log.len());
    let mut steps = log.to_vec();
    let Some((_, mut difference)) = replay(pair, &steps)? else {
        println!("sqldiff: replayed on emptied servers the difference does not come again");
        return Ok(());
    };
    let mut chunk = steps.len().saturating_sub(FIRST_CUT).max(steps.len() / 2).max(1);
    loop {
        let mut start = 0;
        while start < steps.len() {
            let end = (start + chunk).min(steps.len());
            let without: Vec<Step> = steps[..start].iter().chain(&steps[end..]).cloned().collect();
            match replay(pair, &without)? {
                Some((length, found)) => {
                    steps = without[..length].to_vec();
                    difference = found;
                }
                None => start = end,
            }
        }
        if chunk == 1 {
            break;
        }
        chunk = chunk.div_ceil(3).min(steps.len().max(1));
    }
    println!("sqldiff: {} steps are enough:\n{}", steps.len(), report::script(&steps.iter().collect::<Vec<_>>()));
    report::print_outcomes(&difference);
    Ok(())
}

/// Sends the steps to emptied servers. Returns the number of steps up to a difference and the
/// difference, if there is one.
///
/// A list that the generator would not have made counts as one without a difference, and so does
/// one whose last step is not the one that differs. The generator makes no statement outside a
/// transaction that InnoDB refuses alone.
fn replay(pair: &mut Pair, steps: &[Step]) -> Result<Option<(usize, Box<Difference>)>> {
    let Some(last) = steps.last() else { return Ok(None) };
    pair.reset()?;
    let mut tracker = Tracker::default();
    for (index, step) in steps.iter().enumerate() {
        if tracker.snapshot_comes_late(step) {
            return Ok(None);
        }
        match pair.run(&tracker, step)? {
            Verdict::Same(outcome) => tracker.note(step, &outcome),
            Verdict::Explained => {
                if !matches!(step.kind, Kind::Query | Kind::LockingQuery) && !tracker.session(step.session).is_open {
                    return Ok(None);
                }
                tracker.note(&Step::new(step.session, Kind::Rollback, "ROLLBACK"), &Outcome::nothing());
            }
            Verdict::Different(difference) if step.text == last.text => return Ok(Some((index + 1, difference))),
            Verdict::Different(_) => return Ok(None),
        }
    }
    Ok(None)
}
