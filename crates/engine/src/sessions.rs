//! The part of the status report about sessions: active transactions, who waits for whom, the last
//! deadlock.

use crate::activity::{TransactionStatus, wait_of};
use crate::pool::Pool;
use crate::pool::locks::Deadlock;
use crate::pool::owner::{Description, LockKey};
use std::fmt;
use std::time::Duration;

/// Most transactions that a report lists.
const LISTED: usize = 100;
/// Most blockers that a report names for one wait.
const BLOCKERS_NAMED: usize = 8;

/// The transactions to list, oldest first, and the number of all that hold locks, wrote or wait.
pub(crate) fn active(pool: &Pool, now: Duration) -> (Vec<TransactionStatus>, usize) {
    let mut listed = Vec::new();
    let mut count = 0;
    for (age, owner) in pool.locks.active(now) {
        if owner.counts() == (0, 0) && pool.locks.wait_of(owner.id).is_none() {
            continue;
        }
        count += 1;
        if listed.len() < LISTED {
            let wait = wait_of(pool, &owner, now, usize::MAX);
            listed.push(TransactionStatus::of(pool, &owner, age, wait, now));
        }
    }
    (listed, count)
}

/// Writes how the report names a session.
fn write_session(f: &mut fmt::Formatter<'_>, session: u64, client: Option<&Description>) -> fmt::Result {
    match client {
        Some(client) => write!(f, "session {session}, connection {} of {}", client.connection, client.user),
        None => write!(f, "session {session}, without a connection"),
    }
}

/// Writes how the report names what is locked.
fn write_target(f: &mut fmt::Formatter<'_>, key: LockKey, table: &str) -> fmt::Result {
    match key.rid() {
        Some(rid) => write!(f, "row {:#x} of table {table}", rid.to_u64()),
        None => write!(f, "table {table}"),
    }
}

fn write_statement(f: &mut fmt::Formatter<'_>, client: Option<&Description>) -> fmt::Result {
    match client {
        Some(client) if client.statement.is_empty() => writeln!(f, "    executes nothing"),
        Some(client) => writeln!(f, "    executes: {}", client.statement),
        None => Ok(()),
    }
}

/// Writes the section TRANSACTIONS; `active` counts also those not listed.
pub(crate) fn write_transactions(
    f: &mut fmt::Formatter<'_>,
    transactions: &[TransactionStatus],
    active: usize,
) -> fmt::Result {
    writeln!(f, "TRANSACTIONS")?;
    if transactions.is_empty() {
        return writeln!(f, "  none that wrote, holds locks or waits");
    }
    for one in transactions {
        f.write_str("  ")?;
        write_session(f, one.session, one.client.as_ref())?;
        let (age, locks, changes) = (one.age.as_secs(), one.locks, one.changes);
        writeln!(f, ": active {age} s, {locks} locks, {changes} changes")?;
        write_statement(f, one.client.as_ref())?;
        let Some(wait) = &one.wait else { continue };
        write!(f, "    waits {} s for ", wait.waited.as_secs())?;
        write_target(f, wait.key, &wait.table)?;
        for (index, (session, connection)) in wait.blockers.iter().take(BLOCKERS_NAMED).enumerate() {
            write!(f, "{} session {session}", if index == 0 { ", held by" } else { "," })?;
            connection.map_or(Ok(()), |connection| write!(f, " (connection {connection})"))?;
        }
        match wait.blockers.len().checked_sub(BLOCKERS_NAMED) {
            Some(more) if more > 0 => writeln!(f, " and {more} more")?,
            _ => writeln!(f)?,
        }
    }
    match active - transactions.len() {
        0 => Ok(()),
        more => writeln!(f, "  and {more} more"),
    }
}

/// Writes the section LAST DEADLOCK, if there was one.
pub(crate) fn write_deadlock(f: &mut fmt::Formatter<'_>, deadlock: Option<&Deadlock>, now: Duration) -> fmt::Result {
    let Some(deadlock) = deadlock else { return Ok(()) };
    let ago = now.saturating_sub(deadlock.found).as_secs();
    writeln!(f, "LAST DEADLOCK\n  {ago} s ago, {} transactions; the first was rolled back", deadlock.circle.len())?;
    for (index, one) in deadlock.circle.iter().take(LISTED).enumerate() {
        f.write_str("  ")?;
        write_session(f, one.session, one.client.as_ref())?;
        f.write_str(if index == 0 { " (rolled back)\n" } else { "\n" })?;
        write_statement(f, one.client.as_ref())?;
        let next = &deadlock.circle[(index + 1) % deadlock.circle.len()];
        f.write_str("    waited for ")?;
        write_target(f, one.key, &one.table)?;
        writeln!(f, ", held by session {}", next.session)?;
    }
    Ok(())
}
