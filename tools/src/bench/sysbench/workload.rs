//! Workloads of sysbench: scripts, numbers of threads, sizes of the tables.

use std::time::Duration;

use crate::bench::plan::Plan;

/// Threads by which the targets judge.
pub const JUDGED: u32 = 16;
/// Runs of each case in a full run.
pub const ROUNDS: usize = 3;

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
}

/// Cases in the order in which they run. A quick run has the most telling ones first and leaves out
/// those that time does not allow.
pub fn cases(plan: &Plan, binary_log: bool) -> Vec<Case> {
    let of = |name: &str, threads| {
        let script = *SCRIPTS.iter().find(|script| script.name == name).expect("a script of the list");
        Case { script, threads }
    };
    if plan.quick {
        let names: &[(&str, u32)] = if binary_log {
            &[("write_only", 16), ("update_non_index", 16)]
        } else {
            &[
                ("write_only", 16),
                ("point_select", 16),
                ("read_write", 16),
                ("update_index", 16),
                ("write_only", 1),
                ("insert", 16),
                ("read_only", 16),
            ]
        };
        return names.iter().map(|(name, threads)| of(name, *threads)).collect();
    }
    let scripts = SCRIPTS.iter().filter(|script| script.logged || !binary_log);
    let threads = plan.threads.map_or(vec![1, 4, 16, 64], |threads| vec![threads]);
    scripts.flat_map(|&script| threads.iter().map(move |&threads| Case { script, threads })).collect()
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
        assert_eq!((judged(false), judged(true)), (8, 6));
        assert!(cases(&Plan::new(true, true), true).iter().all(|case| case.script.logged));
    }
}
