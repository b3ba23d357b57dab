//! Results of a suite: the tests that ran and those that failed, in two engines compared.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

/// Results of one run.
#[derive(Debug, PartialEq)]
pub struct Results {
    /// Names of the tests that failed, in whichever way.
    pub failed: BTreeSet<String>,
    /// Tests that ran, failed ones included, skipped ones not.
    pub ran: u64,
}

/// A test that fails with Perdura alone, as is known.
pub struct Known {
    /// A part of the test's name.
    pub name: &'static str,
    pub why: &'static str,
}

/// Prints how the runs compare, and closes with `N passed, N failed`: a test fails here if it fails
/// with Perdura alone and that is not known. Where the suite `is_whole`, each known one must fail.
pub fn compare(suite: &str, known: &[Known], is_whole: bool, theirs: &Results, ours: &Results) -> Result<()> {
    let alone: Vec<&String> = ours.failed.difference(&theirs.failed).collect();
    let reason = |test: &str| known.iter().find(|known| test.contains(known.name));
    println!(
        "{suite}: {} fail with both, {} with InnoDB alone, {} with Perdura alone",
        ours.failed.intersection(&theirs.failed).count(),
        theirs.failed.difference(&ours.failed).count(),
        alone.len()
    );
    for test in &alone {
        match reason(test) {
            Some(known) => println!("{suite}: fails with Perdura alone, as is known: {test}: {}", known.why),
            None => println!("{suite}: fails with Perdura alone: {test}"),
        }
    }
    let unknown = alone.iter().filter(|test| reason(test).is_none()).count();
    println!("{} passed, {unknown} failed", ours.ran.saturating_sub(alone.len() as u64));
    ensure!(ours.ran > 0 && ours.ran == theirs.ran, "{} tests ran with Perdura, {} with InnoDB", ours.ran, theirs.ran);
    ensure!(unknown == 0, "{unknown} tests fail with Perdura alone");
    let is_met = |known: &&Known| alone.iter().any(|test| test.contains(known.name));
    let unmet: Vec<&str> = known.iter().filter(|known| !is_met(known)).map(|known| known.name).collect();
    ensure!(!is_whole || unmet.is_empty(), "no longer fail, so take them out of the list: {}", unmet.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Known, Results, compare};

    fn results(failed: &[&str], ran: u64) -> Results {
        Results { failed: failed.iter().map(|&name| name.to_owned()).collect(), ran }
    }

    /// A suite that has not run, or only by half, would have no failures.
    #[test]
    fn a_failure_of_ours_alone_and_a_test_that_did_not_run_count() {
        let compare = |theirs: Results, ours: Results| compare("x", &[], true, &theirs, &ours);
        assert!(compare(results(&["a", "b"], 9), results(&["a"], 9)).is_ok());
        assert!(compare(results(&["a"], 9), results(&["b"], 9)).is_err());
        assert!(compare(results(&[], 9), results(&[], 8)).is_err());
        assert!(compare(results(&[], 0), results(&[], 0)).is_err());
    }

    /// A list that is not kept would hide the next failure of the same test.
    #[test]
    fn a_known_failure_does_not_count_and_must_be_there() {
        let known = [Known { name: "b", why: "no such keys" }];
        let compare = |is_whole: bool, ours: Results| compare("x", &known, is_whole, &results(&[], 9), &ours);
        assert!(compare(true, results(&["a.b"], 9)).is_ok());
        assert!(compare(true, results(&["a.b", "c"], 9)).is_err());
        assert!(compare(true, results(&[], 9)).is_err());
        assert!(compare(false, results(&[], 9)).is_ok());
    }
}
