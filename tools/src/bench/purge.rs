//! Waits until Perdura has reclaimed the old versions, as its status variable tells.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use mysql::Conn;

use crate::shared::client;

const LAG: &str = "SELECT CAST(variable_value AS UNSIGNED) FROM information_schema.global_status \
                   WHERE variable_name = 'Perdura_purge_lag'";
const POLL: Duration = Duration::from_millis(2);

/// Waits until no version waits for purge, at most `limit`. Returns the time that took, and the
/// versions still waiting then.
pub fn wait(connection: &mut Conn, limit: Duration) -> Result<(Duration, u64)> {
    let begun = Instant::now();
    loop {
        let lag: u64 = client::value(connection, LAG)?;
        if lag == 0 || begun.elapsed() > limit {
            return Ok((begun.elapsed(), lag));
        }
        std::thread::sleep(POLL);
    }
}

/// The same, for a measurement that means nothing before purge is through.
pub fn finish(connection: &mut Conn, limit: Duration) -> Result<()> {
    match wait(connection, limit)? {
        (_, 0) => Ok(()),
        (took, lag) => bail!("{lag} versions wait for purge after {took:?}"),
    }
}
