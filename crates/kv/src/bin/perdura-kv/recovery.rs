//! A new cluster of what is left of one that has lost its quorum for good.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use perdura_kv::config::{Config, StoreKind};
use perdura_kv::server::pool;
use perdura_kv::store::ErrorKind;

use super::creation;
use super::outcome::{Failure, Outcome};

/// Bytes of a chunk.
const CHUNK_BYTES: usize = 256 << 10;

/// The first replica of a new cluster, with the data of a backup or of a directory.
///
/// It has an identity of its own, so that the lost members, should they come back, are refused and
/// cannot make two clusters of one. A directory is copied first and never written to. All entries
/// of its log count, also those that this replica does not know to be committed: what was
/// acknowledged is among them if it ever came here. What came here only to be acknowledged
/// elsewhere may be lost: the replica that has most of the log is the one to recover from.
pub(crate) fn recover(config: &Config, from: &str) -> Outcome<()> {
    if !Path::new(from).is_dir() {
        return creation::restore(config, from);
    }
    if pool::is_in_use(Path::new(from)) {
        return Err(Failure::refused(format!("{from}: in use: stop the replica there first")));
    }
    let copy = Copy::make(from, &config.directory)?;
    let mut old = config.clone();
    old.directory.clone_from(&copy.0);
    old.store.emulate = true;
    old.store.kind = pool::kind_of(&copy.0)?;
    if (old.store.kind == StoreKind::Wal) != (config.store.kind == StoreKind::Wal) {
        let wanted = if old.store.kind == StoreKind::Wal { "wal" } else { "list or btree" };
        return Err(Failure::refused(format!("{from}: it is of another store: set store.kind = {wanted}")));
    }
    let named = |error: perdura_kv::store::Error| {
        let text = format!("{from}: {error}");
        if error.kind() == ErrorKind::Damaged { Failure::damaged(text) } else { Failure::refused(text) }
    };
    let mut pool = pool::open(&old)?;
    if pool.store.is_partial() {
        return Err(Failure::refused(format!("{from}: it has received its data only in part: use another replica's")));
    }
    let (known, last) = (pool.store.applied(), pool.store.last());
    pool.store.commit(last).map_err(named)?;
    let mut snapshot = pool.store.snapshot(CHUNK_BYTES).map_err(named)?;
    let (index, term) = (snapshot.metadata().index, snapshot.metadata().term);
    println!("{from}: entries up to {index}, of which this replica knew those up to {known} to be committed");
    let (mut number, mut is_over) = (0, false);
    creation::found(config, from, (index, term), || {
        if is_over {
            return Ok(None);
        }
        let (chunk, is_last) = snapshot.chunk(number).map_err(named)?;
        (number, is_over) = (number + 1, is_last);
        Ok(Some(chunk.to_vec()))
    })?;
    println!("never start a replica of the old cluster again; make each other replica anew by `perdura-kv join`");
    Ok(())
}

/// A copy of a directory, beside the new one. It goes when it is dropped.
struct Copy(PathBuf);

impl Copy {
    fn make(from: &str, beside: &Path) -> Outcome<Copy> {
        let mut name = beside.as_os_str().to_owned();
        name.push(".recovering");
        let place = PathBuf::from(name);
        let named = |error: std::io::Error| Failure::refused(format!("copying {from} to {}: {error}", place.display()));
        // It has all values, and the hashes of passwords.
        DirBuilder::new().mode(0o700).create(&place).map_err(named)?;
        let copy = Copy(place.clone());
        for entry in std::fs::read_dir(from).map_err(named)? {
            let entry = entry.map_err(named)?;
            if entry.file_type().map_err(named)?.is_file() {
                std::fs::copy(entry.path(), place.join(entry.file_name())).map_err(named)?;
            }
        }
        Ok(copy)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // A directory that stays is in the way of the next try, which says so.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
