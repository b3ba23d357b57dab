//! Hazard: a file that cannot be removed blocks its table's drop or the next table. The drop must
//! succeed, the next table must be created, and the file must be removed as soon as it can be.
//! Tests (I8).

use crate::common;

use crate::common::small;
use perdura_engine::{Engine, ErrorKind, Isolation};
use perdura_pmem::{Error, Health, Medium, MediumInfo, Region, Result, SimMedium};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Simulated memory that can be told not to remove or rename files.
struct Stubborn {
    inner: SimMedium,
    keeps: AtomicBool,
    /// The background thread alone cannot remove files.
    keeps_from_background: AtomicBool,
    keeps_name: AtomicBool,
}

impl Medium for Stubborn {
    fn create(&self, name: &str, len: u64) -> Result<Region> {
        self.inner.create(name, len)
    }

    fn open(&self, name: &str) -> Result<Region> {
        self.inner.open(name)
    }

    fn remove(&self, name: &str) -> Result<()> {
        let in_background = std::thread::current().name() == Some("perdura-background");
        if self.keeps.load(Ordering::Relaxed) || in_background && self.keeps_from_background.load(Ordering::Relaxed) {
            let source = std::io::Error::other("told to keep it by a test");
            return Err(Error::io(name, "removing", source));
        }
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        if self.keeps_name.load(Ordering::Relaxed) {
            let source = std::io::Error::other("told to keep the name by a test");
            return Err(Error::io(from, "renaming", source));
        }
        self.inner.rename(from, to)
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        self.inner.list()
    }

    fn sync_dir(&self) -> Result<()> {
        self.inner.sync_dir()
    }

    fn health(&self) -> Health {
        self.inner.health()
    }

    fn info(&self) -> MediumInfo {
        self.inner.info()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.inner.free_bytes()
    }
}

impl Stubborn {
    fn new(inner: SimMedium) -> Arc<Stubborn> {
        Arc::new(Stubborn {
            inner,
            keeps: AtomicBool::new(false),
            keeps_from_background: AtomicBool::new(false),
            keeps_name: AtomicBool::new(false),
        })
    }

    fn table_files(&self) -> Vec<String> {
        let files = self.list().unwrap().into_iter().map(|(name, _)| name);
        files.filter(|name| name.starts_with("t.") && !name.starts_with("t.00000001.")).collect()
    }
}

#[test]
fn a_file_that_stays_blocks_no_table_and_goes_later() {
    let medium = Stubborn::new(SimMedium::new());
    let shared: Arc<dyn Medium> = medium.clone();
    let config = perdura_engine::Config { background: true, kept_file_bytes: 0, ..small() };
    let engine = Engine::open(shared, config).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let teller = told.clone();
    engine.set_notice_handler(move |notice| teller.lock().unwrap().push(notice.to_owned()));
    engine.create_table("dropped", b"").unwrap();
    medium.keeps.store(true, Ordering::Relaxed);

    // The drop is committed, so it succeeds, and a notice tells the operator why the room is not
    // free.
    engine.drop_table("dropped").unwrap();
    assert_eq!(medium.table_files().len(), 1);
    let heard = told.lock().unwrap().join("\n");
    assert!(heard.contains("t.00000002.00000"), "{heard}");
    assert!(engine.status().to_string().contains("t.00000002.00000"));
    assert!(engine.counters().notices > 0);

    // A creation that fails after its file exists leaves the file under an id that the next table
    // gets.
    medium.inner.fail_syncs(true);
    let error = engine.create_table("t", b"").map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Medium, "{error}");
    medium.inner.fail_syncs(false);
    assert_eq!(medium.table_files().len(), 2);
    medium.keeps.store(false, Ordering::Relaxed);
    let table = engine.create_table("t", b"").unwrap_or_else(|error| panic!("the id is blocked: {error}"));
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.insert(&table, b"row").unwrap();
    txn.commit().unwrap();

    let mut patience = 1000;
    while medium.table_files() != ["t.00000003.00000"] {
        assert!(patience > 0, "{:?} are left", medium.table_files());
        patience -= 1;
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A creation that is rolled back leaves its id to the next table. If its file could not be
/// removed, the background thread went on trying, and removed the file of the table that had got
/// the id meanwhile.
#[test]
fn a_file_that_was_replaced_is_not_removed_any_more() {
    let medium = Stubborn::new(SimMedium::with_capacity(4 << 20));
    let shared: Arc<dyn Medium> = medium.clone();
    let config = perdura_engine::Config { background: true, kept_file_bytes: 0, ..small() };
    let engine = Engine::open(shared.clone(), config).unwrap();
    medium.keeps.store(true, Ordering::Relaxed);
    let error = engine.create_table("t", &vec![1; 8 << 20]).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceFull, "{error}");
    assert_eq!(medium.table_files(), ["t.00000002.00000"]);
    medium.keeps_from_background.store(true, Ordering::Relaxed);
    medium.keeps.store(false, Ordering::Relaxed);
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.insert(&table, b"row").unwrap();
    txn.commit().unwrap();
    medium.keeps_from_background.store(false, Ordering::Relaxed);
    // Time for some rounds of the background thread.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(medium.table_files(), ["t.00000002.00000"]);
    engine.close();
    drop((txn, table, engine));
    let engine = Engine::open(shared, small()).unwrap();
    assert_eq!(common::committed(&engine, &engine.table("t").unwrap()).len(), 1);
}

/// A spare that could not be renamed was taken for missing. Creating it again failed for ever, and
/// so did each TRUNCATE.
#[test]
fn a_spare_that_could_not_be_renamed_is_still_the_spare() {
    let medium = Stubborn::new(SimMedium::with_capacity(2 << 20));
    let shared: Arc<dyn Medium> = medium.clone();
    let engine = Engine::open(shared, small()).unwrap();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    while txn.insert(&table, &[7; 1000]).is_ok() {}
    txn.commit().unwrap();
    drop((txn, table));
    medium.keeps_name.store(true, Ordering::Relaxed);
    let error = engine.truncate_table("t").map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Medium, "{error}");
    medium.keeps_name.store(false, Ordering::Relaxed);
    let table = engine.truncate_table("t").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(common::committed(&engine, &table).len(), 0);
}
