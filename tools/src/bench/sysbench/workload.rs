//! Workloads of sysbench: scripts, numbers of threads, sizes of the tables.

use std::time::Duration;

use crate::bench::plan::Plan;

/// Threads by which the targets judge.
pub const JUDGED: u32 = 16;
/// Runs of each case in a full run, and of those by which the targets judge.
const ROUNDS: usize = 3;
const JUDGED_ROUNDS: usize = 5;

/// A script of sysbench, and what the targets ask of it.
#[derive(Clone, Copy)]
pub struct Script {
    /// Its name without `oltp_`.
    pub name: &'static str,
    /// Whether each transaction changes something, and reads nothing else.
    pub writes: bool,
    /// Whether it runs with a binary log too. One that only reads writes none.
    pub logged: bool,
}

const fn script(name: &'static str, writes: bool, logged: bool) -> Script {
    Script { name, writes, logged }
}

/// All scripts. Those whose tables grow or shrink come last.
const SCRIPTS: [Script; 8] = [
    script("point_select", false, false),
    script("read_only", false, false),
    script("read_write", false, true),
    script("write_only", true, true),
    script("update_index", true, true),
    script("update_non_index", true, true),
    script("delete", true, true),
    script("insert", true, true),
];

/// A script with a number of threads.
#[derive(Clone, Copy)]
pub struct Case {
    /// The script.
    pub script: Script,
    /// Sessions at once.
    pub threads: u32,
    /// Whether the tables were written for a while before.
    pub is_aged: bool,
}

impl Case {
    /// Its name in a report.
    pub fn name(&self, binary_log: bool) -> String {
        let prefix = if binary_log { "binlog/" } else { "" };
        let aged = if self.is_aged { "aged/" } else { "" };
        format!("{prefix}{aged}{}/{}", self.script.name, self.threads)
    }
}

/// Scripts that run on aged tables as well, and the one that ages them.
const ON_AGED: [&str; 2] = ["read_only", "read_write"];
pub const AGING: &str = "write_only";

/// Cases in the order in which they run. A quick run has the most telling ones first and leaves out
/// those that time does not allow.
pub fn cases(plan: &Plan, binary_log: bool) -> Vec<Case> {
    let of = |name: &str, threads| {
        let script = *SCRIPTS.iter().find(|script| script.name == name).expect("a script of the list");
        Case { script, threads, is_aged: false }
    };
    let aged = |threads| ON_AGED.map(|name| Case { is_aged: true, ..of(name, threads) });
    if plan.quick {
        let named = |names: &[(&str, u32)]| names.iter().map(|(name, threads)| of(name, *threads)).collect();
        if binary_log {
            return named(&[("write_only", 16), ("update_non_index", 16)]);
        }
        let first: Vec<Case> = named(&[("write_only", 16), ("point_select", 16)]);
        let last: Vec<Case> =
            named(&[("read_write", 16), ("update_index", 16), ("insert", 16), ("read_only", 16), ("write_only", 1)]);
        return first.into_iter().chain(aged(JUDGED)).chain(last).collect();
    }
    let scripts = SCRIPTS.iter().filter(|script| script.logged || !binary_log);
    let threads = plan.threads.map_or(vec![1, 4, 16, 64], |threads| vec![threads]);
    let on_aged = aged(plan.threads.unwrap_or(JUDGED)).into_iter().filter(|_| !binary_log);
    let of_script = |&script| threads.iter().map(move |&threads| Case { script, threads, is_aged: false });
    let (resizing, others): (Vec<_>, Vec<_>) = scripts.partition(|script| ["delete", "insert"].contains(&script.name));
    let others = others.into_iter().flat_map(of_script);
    others.chain(on_aged).chain(resizing.into_iter().flat_map(of_script)).collect()
}

/// Runs of a case.
pub fn rounds(plan: &Plan, case: Case) -> usize {
    match case.threads {
        _ if plan.quick => 1,
        JUDGED => JUDGED_ROUNDS,
        _ => ROUNDS,
    }
}

/// How long the tables are written before the cases on aged tables.
pub fn aging(plan: &Plan) -> Duration {
    Duration::from_secs(plan.size(60, 5))
}

/// How long a run lasts.
pub fn lasting(plan: &Plan) -> Duration {
    Duration::from_secs(plan.size(6, 2))
}

#[cfg(test)]
mod tests {
    use super::{JUDGED, cases};
    use crate::bench::plan::Plan;

    /// A target of a case that never runs would be met by nobody and missed by nobody.
    #[test]
    fn every_script_runs_with_the_threads_by_which_it_is_judged() {
        let full = Plan::new(false, true);
        let judged = |binary_log| cases(&full, binary_log).iter().filter(|case| case.threads == JUDGED).count();
        assert_eq!((judged(false), judged(true)), (10, 6));
        assert!(cases(&Plan::new(true, true), true).iter().all(|case| case.script.logged));
    }
}
