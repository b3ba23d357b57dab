//! Checks the data of a replica that is not running.

use perdura_kv::config::Config;
use perdura_kv::server::pool;
use perdura_kv::store::{ErrorKind, ReadLevel};

use super::outcome::{Failure, Outcome};

/// Opens the data as `serve` does, reads all entries and all that is applied, and says what was
/// found.
pub(crate) fn check(config: &Config) -> Outcome<()> {
    let pool = pool::open(config)?;
    let store = &*pool.store;
    let persistent_state = store.persistent_state();
    println!("replica {} of cluster {:032x}", persistent_state.replica, persistent_state.cluster);
    println!("term {}, voted for {}", persistent_state.term, persistent_state.vote);
    if store.is_partial() {
        println!("waits for a snapshot: it has no data yet");
        return Ok(());
    }
    let members = &persistent_state.members;
    println!(
        "voters {:?}, learners {:?}, as of index {}",
        members.voters, members.learners, persistent_state.members_at
    );
    println!("applied {}, last {}, entries from {} on", store.applied(), store.last(), store.first());
    let named = |error: perdura_kv::store::Error| Failure::from(pool::start_error(&config.directory, &error));
    let mut entries = 0_u64;
    for index in store.first()..=store.last() {
        match store.entries(index, index + 1, u64::MAX) {
            Ok(_) => entries += 1,
            Err(error) if error.kind() == ErrorKind::Compacted => {}
            Err(error) => return Err(named(error)),
        }
    }
    let (mut pairs, mut bytes) = (0_u64, 0_u64);
    store
        .scan(ReadLevel::Applied, &[], std::ops::Bound::Unbounded, &mut |place, value| {
            pairs += 1;
            bytes += (place.len() + value.len()) as u64;
            true
        })
        .map_err(named)?;
    println!("sound: {entries} entries, {pairs} pairs of {bytes} bytes");
    Ok(())
}
