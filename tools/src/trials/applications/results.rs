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

/// Prints how the runs compare, and closes with `N passed, N failed`: a test fails here if it fails
/// with Perdura alone.
pub fn compare(suite: &str, theirs: &Results, ours: &Results) -> Result<()> {
    let alone: Vec<&String> = ours.failed.difference(&theirs.failed).collect();
    println!(
        "{suite}: {} fail with both, {} with InnoDB alone, {} with Perdura alone",
        ours.failed.intersection(&theirs.failed).count(),
        theirs.failed.difference(&ours.failed).count(),
        alone.len()
    );
    for test in &alone {
        println!("{suite}: fails with Perdura alone: {test}");
    }
    println!("{} passed, {} failed", ours.ran.saturating_sub(alone.len() as u64), alone.len());
    ensure!(ours.ran > 0 && ours.ran == theirs.ran, "{} tests ran with Perdura, {} with InnoDB", ours.ran, theirs.ran);
    ensure!(alone.is_empty(), "{} tests fail with Perdura alone", alone.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Results, compare};

    fn results(failed: &[&str], ran: u64) -> Results {
        Results { failed: failed.iter().map(|&name| name.to_owned()).collect(), ran }
    }

    /// A suite that has not run, or only by half, would have no failures.
    #[test]
    fn a_failure_of_ours_alone_and_a_test_that_did_not_run_count() {
        let compare = |theirs: Results, ours: Results| compare("x", &theirs, &ours);
        assert!(compare(results(&["a", "b"], 9), results(&["a"], 9)).is_ok());
        assert!(compare(results(&["a"], 9), results(&["b"], 9)).is_err());
        assert!(compare(results(&[], 9), results(&[], 8)).is_err());
        assert!(compare(results(&[], 0), results(&[], 0)).is_err());
    }
}
