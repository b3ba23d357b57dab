//! Pools whose log carries what small transactions write.

use super::damage::log_records;
use super::keyed::{Fields, Keyed, Kind, Rows, config};
use perdura_engine::format::Record;
use perdura_engine::{Config, Engine, Isolation, Rid, Session};
use perdura_pmem::sim::Image;
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;

/// Keys of one length and of many, with leaves that do not split in a test of a few rows.
pub const KINDS: [Kind; 3] = [Kind::Number, Kind::Group, Kind::Name];

/// The same settings, by value.
pub fn by_value(config: Config) -> Config {
    Config { by_value: Some(true), ..config }
}

/// Opens a pool, by value or by reference.
pub fn open(medium: &Arc<SimMedium>, by_value: bool) -> Engine {
    let shared: Arc<dyn Medium> = medium.clone();
    Engine::open(shared, Config { by_value: Some(by_value), ..config() }).unwrap_or_else(|error| panic!("{error}"))
}

/// A pool by value.
pub fn pool() -> (Arc<SimMedium>, Engine) {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium, true);
    (medium, engine)
}

/// The redo records in the log of a pool, those of prepared transactions last.
pub fn records(image: &Image) -> Vec<Record<'static>> {
    log_records(image, &config().log)
}

/// Whether a record carries a version or entries.
pub fn carries(record: &Record<'_>) -> bool {
    match record {
        Record::Row { value, .. } => value.is_some(),
        Record::Leaf { values, .. } => !values.is_empty(),
        _ => false,
    }
}

/// Inserts eight rows, with cells, RIDs and leaves for more at hand afterwards.
pub fn fill_by(keyed: &Keyed, txn: &mut Session) -> Vec<Rid> {
    let row = |number: u32| Fields { padding: 8, ..Fields::of(number) }.row();
    let rids = (0..8).map(|number| keyed.insert(txn, &row(number)).unwrap()).collect();
    txn.commit().unwrap();
    rids
}

/// Changes of every kind, one transaction each. Padding is the same everywhere, so that cells are
/// of one size and no segment is taken into use.
pub fn change(keyed: &Keyed, txn: &mut Session, rids: &[Rid]) {
    let row = |number: u32| Fields { padding: 8, ..Fields::of(number) }.row();
    keyed.insert(txn, &row(100)).unwrap();
    txn.commit().unwrap();
    // A key that changes, and one that does not.
    keyed.update(txn, rids[0], &row(101)).unwrap();
    keyed.update(txn, rids[1], &Fields { group: 9, padding: 8, ..Fields::of(1) }.row()).unwrap();
    txn.commit().unwrap();
    keyed.delete(txn, rids[2]).unwrap();
    let added = keyed.insert(txn, &row(102)).unwrap();
    txn.commit().unwrap();
    // A row that the log has brought is changed, and deleted.
    keyed.update(txn, added, &row(103)).unwrap();
    txn.commit().unwrap();
    keyed.delete(txn, added).unwrap();
    keyed.delete(txn, rids[3]).unwrap();
    txn.commit().unwrap();
}

/// A pool by value that crashed with records to redo, and these.
pub fn crashed() -> (Image, Vec<Record<'static>>, Rows) {
    let (medium, engine) = pool();
    let keyed = Keyed::create(&engine, "t", &KINDS);
    let mut txn = engine.session(Isolation::ReadCommitted);
    let rids = fill_by(&keyed, &mut txn);
    engine.checkpoint().unwrap();
    change(&keyed, &mut txn, &rids);
    let rows = keyed.check(&engine);
    let image = medium.image();
    let real = records(&image);
    (image, real, rows)
}
