//! Makes the data of new replicas.

use perdura_kv::config::Config;
use perdura_kv::server::admin::AdminRequest;
use perdura_kv::server::{draw, draw_long, pool, wall_ms};
use perdura_kv::store::{PersistentState, Store};
use raft::eraftpb::{ConfState, SnapshotMetadata};

use super::backup_file::Backup;
use super::line;
use super::outcome::{Failure, Outcome};

fn drawn<T>(drawn: std::io::Result<T>) -> Outcome<T> {
    drawn.map_err(|error| Failure::refused(format!("no random number: {error}")))
}

/// The first replica of a new cluster.
pub(crate) fn init(config: &Config) -> Outcome<()> {
    let (cluster, replica) = (drawn(draw_long())?, drawn(draw())?);
    pool::create(config, &PersistentState::founder(cluster, replica, vec![replica]), wall_ms())?;
    println!("made replica {replica}, the first of cluster {cluster:032x}, in {}", config.directory.display());
    println!("run it by `perdura-kv serve`; others join by `perdura-kv join --to {}`", config.peer_address());
    Ok(())
}

/// Advice about a replica that was made and is of no use.
fn left(config: &Config, replica: u64, lacks: &str) -> impl Fn(Failure) -> Failure {
    let place = config.directory.display().to_string();
    let lacks = lacks.to_owned();
    move |Failure { status, text }| {
        let text = format!(
            "{text}. Replica {replica} was made in {place}, but {lacks}: remove the directory before the next try"
        );
        Failure { status, text }
    }
}

/// A replica that joins the cluster of a member.
pub(crate) fn join(config: &Config, to: &str) -> Outcome<()> {
    let cluster = line::Line::open(config, to)?.cluster;
    let replica = drawn(draw())?;
    pool::create(config, &PersistentState::joiner(cluster, replica), wall_ms())?;
    let question = AdminRequest::Join { replica, peer: config.peer_address(), client: config.client_address() };
    line::ask_leader(config, to, &question).map_err(left(config, replica, "is no member"))?;
    println!("made replica {replica} of cluster {cluster:032x} in {}; it is a learner", config.directory.display());
    println!("run it by `perdura-kv serve`: it fetches the data, and becomes a voter when it has them");
    Ok(())
}

/// The first replica of a new cluster with the data of a backup.
pub(crate) fn restore(config: &Config, file: &str) -> Outcome<()> {
    let mut backup = Backup::open(file)?;
    let is_wal = config.store.kind == perdura_kv::config::StoreKind::Wal;
    if is_wal != (backup.head.format == "wal") {
        let wanted = if is_wal { "list or btree" } else { "wal" };
        return Err(Failure::refused(format!(
            "{file}: it is of a {} store: set store.kind = {wanted}",
            backup.head.format
        )));
    }
    let (index, term) = (backup.head.index, backup.head.term);
    found(config, file, (index, term), || backup.chunk())
}

/// Makes the first replica of a new cluster with the chunks of a snapshot of an index and its term.
/// `from` names it in errors.
pub(crate) fn found(
    config: &Config,
    from: &str,
    (index, term): (u64, u64),
    next: impl FnMut() -> Outcome<Option<Vec<u8>>>,
) -> Outcome<()> {
    let (cluster, replica) = (drawn(draw_long())?, drawn(draw())?);
    let mut pool = pool::create(config, &PersistentState::joiner(cluster, replica), wall_ms())?;
    let filled = fill(&mut *pool.store, from, (index, term), replica, next);
    filled.map_err(left(config, replica, "has no data"))?;
    let place = config.directory.display();
    println!(
        "made replica {replica}, the first of the new cluster {cluster:032x}, in {place}, with the data up to index {index}"
    );
    Ok(())
}

/// Gives a store that was just made the chunks of a snapshot.
fn fill(
    store: &mut dyn Store,
    from: &str,
    (index, term): (u64, u64),
    replica: u64,
    mut next: impl FnMut() -> Outcome<Option<Vec<u8>>>,
) -> Outcome<()> {
    let named = |error: perdura_kv::store::Error| Failure::refused(format!("{from}: {error}"));
    store.receive(true).map_err(named)?;
    let mut number = 0;
    while let Some(chunk) = next()? {
        store.push(number, &chunk).map_err(named)?;
        number += 1;
    }
    let members = ConfState { voters: vec![replica], ..ConfState::default() };
    let metadata = SnapshotMetadata { conf_state: Some(members).into(), index, term, ..SnapshotMetadata::default() };
    store.set_vote(term, 0).map_err(named)?;
    store.finish(&metadata).map_err(named)?;
    store.persist().map_err(named)
}
