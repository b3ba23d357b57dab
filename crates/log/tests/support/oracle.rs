//! A workload whose transactions follow from their number, and an oracle that knows what a recovery
//! must find.
//!
//! Marks carry a step and a transaction's number. The trace says which marks lie before a crash;
//! the CSNs, which the workload learns while it runs, are remembered beside it.

use perdura_log::{Csn, Log, LogTxn, Recovery};
use perdura_pmem::sim::{Mark, Random};
use perdura_pmem::trace::{ack, mark};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// Steps that a transaction is about to take, or has been told are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Step {
    Preparing = 1,
    Prepared,
    RollingBack,
    RolledBack,
    Committing,
    Committed,
    Storing,
}

const STEPS: [Step; 7] = [
    Step::Preparing,
    Step::Prepared,
    Step::RollingBack,
    Step::RolledBack,
    Step::Committing,
    Step::Committed,
    Step::Storing,
];

fn payload(step: Step, number: u64) -> u64 {
    (step as u64) << 56 | number
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    Commit,
    PrepareCommit,
    PrepareRollback,
    Abandon,
}

/// Transaction `number`: its plan, its chunks, its last body.
pub fn plan(number: u64) -> (Plan, Vec<Vec<u8>>, Vec<u8>) {
    let mut random = Random::new(number);
    let plan = match random.below(10) {
        0..6 => Plan::Commit,
        6..8 => Plan::PrepareCommit,
        8 => Plan::PrepareRollback,
        _ => Plan::Abandon,
    };
    let mut bytes = |most: u64| {
        let len = 8 + random.below(most);
        let mut body = number.to_le_bytes().to_vec();
        body.extend((8..len).map(|index| (number * 31 + index) as u8));
        body
    };
    let chunks = if number.is_multiple_of(5) { (0..1 + number % 3).map(|_| bytes(300)).collect() } else { Vec::new() };
    let last = bytes(if number.is_multiple_of(11) { 700 } else { 40 });
    (plan, chunks, last)
}

/// All redo of a transaction.
pub fn expected(number: u64) -> Vec<u8> {
    let (_, chunks, last) = plan(number);
    chunks.into_iter().flatten().chain(last).collect()
}

/// CSNs by transaction number, as the workload learnt them.
#[derive(Default)]
pub struct Ledger(Mutex<BTreeMap<u64, Csn>>);

impl Ledger {
    fn note(&self, number: u64, csn: Csn) {
        self.0.lock().expect("unpoisoned").insert(number, csn);
    }

    pub fn all(&self) -> BTreeMap<u64, Csn> {
        self.0.lock().expect("unpoisoned").clone()
    }
}

/// Runs transaction `number` to its end. `between` runs after it was prepared, and while its words
/// are being stored.
pub fn run(log: &Log, ledger: &Ledger, session: u64, number: u64, between: &mut dyn FnMut()) {
    let (plan, chunks, last) = plan(number);
    let mut txn = log.begin(session);
    for chunk in &chunks {
        txn.append_chunk(chunk).expect("the log grows");
    }
    if matches!(plan, Plan::PrepareCommit | Plan::PrepareRollback) {
        mark(payload(Step::Preparing, number));
        txn.prepare(&number.to_le_bytes(), &last).expect("the log grows");
        ack(payload(Step::Prepared, number));
        between();
    }
    match plan {
        Plan::Abandon => txn.rollback().expect("nothing is written"),
        Plan::PrepareRollback => {
            mark(payload(Step::RollingBack, number));
            txn.rollback().expect("running");
            ack(payload(Step::RolledBack, number));
        }
        Plan::Commit | Plan::PrepareCommit => finish(log, ledger, txn, (number, plan, &last), between),
    }
}

fn finish(log: &Log, ledger: &Ledger, mut txn: LogTxn, what: (u64, Plan, &[u8]), between: &mut dyn FnMut()) {
    let (number, plan, last) = what;
    let reservation = (plan == Plan::Commit).then(|| txn.reserve(last.len()).expect("the log grows"));
    mark(payload(Step::Committing, number));
    let csn = match reservation {
        Some(reservation) => txn.commit(reservation, last),
        None => txn.commit_prepared(),
    };
    ledger.note(number, csn);
    assert!(log.wait_durable(csn));
    log.publish(csn);
    assert!(log.wait_visible(csn));
    ack(payload(Step::Committed, number));
    // Others get far before its words are stored.
    for _ in 0..if number.is_multiple_of(13) { 600 } else { number % 5 } {
        between();
    }
    mark(payload(Step::Storing, number));
    log.stored(csn);
}

/// Knowledge at the moment of a crash.
pub struct Oracle {
    steps: BTreeMap<u64, BTreeSet<Step>>,
    csns: BTreeMap<u64, Csn>,
    numbers: BTreeMap<Csn, u64>,
    /// Up to here a recovery has redone what was durable, stored or not.
    pub redone: Csn,
}

impl Oracle {
    pub fn new(marks: &[Mark], csns: &BTreeMap<u64, Csn>) -> Oracle {
        let mut steps = BTreeMap::<u64, BTreeSet<Step>>::new();
        for mark in marks {
            let step = STEPS[(mark.payload >> 56) as usize - 1];
            steps.entry(mark.payload << 8 >> 8).or_default().insert(step);
        }
        let numbers = csns.iter().map(|(number, csn)| (*csn, *number)).collect();
        Oracle { steps, csns: csns.clone(), numbers, redone: 0 }
    }

    fn has(&self, number: u64, step: Step) -> bool {
        self.steps.get(&number).is_some_and(|steps| steps.contains(&step))
    }

    /// Compares what a recovery found. `Err` says what is wrong.
    pub fn check(&self, recovery: &Recovery) -> Result<(), String> {
        let checkpoint = recovery.superblock.checkpoint_csn;
        let csns: Vec<Csn> = recovery.committed.iter().map(|commit| commit.csn).collect();
        if csns != (checkpoint + 1..=recovery.horizon).collect::<Vec<_>>() {
            return Err(format!("commits {csns:?} between {checkpoint} and {}", recovery.horizon));
        }
        for csn in 1..=checkpoint {
            let number = self.numbers.get(&csn).ok_or(format!("checkpoint {checkpoint} covers unknown CSN {csn}"))?;
            if csn > self.redone && !self.has(*number, Step::Storing) {
                return Err(format!("checkpoint {checkpoint} covers {csn}, which is not stored"));
            }
        }
        for commit in &recovery.committed {
            let number = self.numbers.get(&commit.csn).ok_or(format!("CSN {} was never taken", commit.csn))?;
            if !self.has(*number, Step::Committing) {
                return Err(format!("transaction {number} was not committing yet"));
            }
            if crate::support::redo(recovery, &commit.bodies) != expected(*number) {
                return Err(format!("redo of transaction {number} is not what it wrote"));
            }
        }
        self.check_prepared(recovery)
    }

    fn check_prepared(&self, recovery: &Recovery) -> Result<(), String> {
        let mut prepared = BTreeSet::new();
        for one in &recovery.prepared {
            let number = u64::from_le_bytes(one.xid[..].try_into().map_err(|_| "a name of another length")?);
            prepared.insert(number);
            if crate::support::redo(recovery, &one.bodies) != expected(number) {
                return Err(format!("redo of prepared transaction {number} is not what it wrote"));
            }
        }
        if prepared.len() != recovery.prepared.len() {
            return Err("a transaction is prepared twice".to_owned());
        }
        for number in self.steps.keys().chain(&prepared) {
            let committed = self.csns.get(number).is_some_and(|csn| *csn <= recovery.horizon);
            let is_prepared = prepared.contains(number);
            let has = |step| self.has(*number, step);
            if has(Step::Committed) && !committed {
                return Err(format!("transaction {number} was acknowledged and is lost; horizon {}", recovery.horizon));
            }
            if committed && is_prepared {
                return Err(format!("transaction {number} is both committed and prepared"));
            }
            if is_prepared && (!has(Step::Preparing) || has(Step::RolledBack)) {
                return Err(format!("transaction {number} is prepared at the wrong time"));
            }
            if has(Step::Prepared) && !has(Step::RollingBack) && !committed && !is_prepared {
                return Err(format!("prepared transaction {number} is lost"));
            }
        }
        Ok(())
    }
}
