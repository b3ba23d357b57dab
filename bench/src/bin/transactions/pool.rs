//! A new pool with a table of many rows, as an embedding program makes it.

pub use perdura_bench::own::medium;
use perdura_engine::{Config, Engine, Isolation, Rid, Session, Table};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

/// The paper's row, packed, has about this many bytes.
pub const ROW: [u8; 64] = [0x5a; 64];
/// The row after an update.
pub const NEW_ROW: [u8; 64] = [0xa5; 64];

/// Creates a pool with default settings.
pub fn create(directory: &Path) -> Engine {
    Engine::open(medium(directory), Config::default()).expect("the pool can be created")
}

/// Begins a session as the server does by default.
pub fn session(engine: &Engine) -> Session {
    engine.session(Isolation::RepeatableRead)
}

/// Inserts `rows` rows in one transaction. Returns their RIDs.
pub fn load(engine: &Engine, table: &Arc<Table>, rows: usize) -> Vec<Rid> {
    let mut session = session(engine);
    let insert = |_| session.insert(table, black_box(&ROW)).expect("there is room");
    let rids = (0..rows).map(insert).collect();
    session.commit().expect("there is room");
    rids
}

/// Updates all these rows in the session's transaction.
pub fn update(session: &mut Session, table: &Arc<Table>, rids: &[Rid]) {
    for rid in rids {
        session.update(table, *rid, black_box(&NEW_ROW)).expect("there is room");
    }
}
