//! Runs the steps of a command, such as `cargo xtask verify`, one after another.

use anyhow::{Result, ensure};

/// Runs all steps, even after a failure, prints how each ended under the name of the `command`, and
/// closes with `N passed, N failed`. Fails if a step has failed.
pub fn run<W: Fn() -> Result<()>>(command: &str, steps: &[(&str, W)]) -> Result<()> {
    let mut failed = 0;
    for (name, work) in steps {
        match work() {
            Ok(()) => println!("{command}: {name}: ok"),
            Err(error) => {
                failed += 1;
                println!("{command}: {name}: FAILED\n{error:#}");
            }
        }
    }
    println!("{command}: {} passed, {failed} failed", steps.len() - failed);
    ensure!(failed == 0, "{failed} steps failed");
    Ok(())
}
