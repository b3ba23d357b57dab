//! A file that cannot be removed is in nobody's way: its table is dropped all the same, the next table is created, and the file goes
//! as soon as it can.

mod common;

use common::small;
use perdura_engine::{Engine, ErrorKind, Isolation};
use perdura_pmem::{Error, Medium, MediumInfo, Region, Result, SimMedium};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Simulated memory whose files cannot be removed, or not be created synced, for a time.
struct Stubborn {
    inner: SimMedium,
    keeps: AtomicBool,
}

impl Medium for Stubborn {
    fn create(&self, name: &str, len: u64) -> Result<Region> {
        self.inner.create(name, len)
    }

    fn open(&self, name: &str) -> Result<Region> {
        self.inner.open(name)
    }

    fn remove(&self, name: &str) -> Result<()> {
        if self.keeps.load(Ordering::Relaxed) {
            let source = std::io::Error::other("told to keep it by a test");
            return Err(Error::Io { what: name.to_owned(), action: "removing", source });
        }
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        self.inner.list()
    }

    fn sync_dir(&self) -> Result<()> {
        self.inner.sync_dir()
    }

    fn info(&self) -> MediumInfo {
        self.inner.info()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.inner.free_bytes()
    }
}

impl Stubborn {
    fn table_files(&self) -> Vec<String> {
        let files = self.list().unwrap().into_iter().map(|(name, _)| name);
        files.filter(|name| name.starts_with("t.") && !name.starts_with("t.00000001.")).collect()
    }
}

#[test]
fn a_file_that_stays_blocks_no_table_and_goes_later() {
    let medium = Arc::new(Stubborn { inner: SimMedium::new(), keeps: AtomicBool::new(false) });
    let shared: Arc<dyn Medium> = medium.clone();
    let config = perdura_engine::Config { background: true, ..small() };
    let engine = Engine::open(shared, config).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let teller = told.clone();
    engine.set_notice_handler(move |notice| teller.lock().unwrap().push(notice.to_owned()));
    engine.create_table("dropped", b"").unwrap();
    medium.keeps.store(true, Ordering::Relaxed);

    // The drop is committed: it does not fail, and the operator hears why the room is not there.
    engine.drop_table("dropped").unwrap();
    assert_eq!(medium.table_files().len(), 1);
    let heard = told.lock().unwrap().join("\n");
    assert!(heard.contains("t.00000002.00000"), "{heard}");
    assert!(engine.status().to_string().contains("t.00000002.00000"));
    assert!(engine.counters().notices > 0);

    // A creation that fails when its file is there already leaves the file under an id that is given again.
    medium.inner.fail_syncs(true);
    let error = engine.create_table("t", b"").map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Medium, "{error}");
    medium.inner.fail_syncs(false);
    assert_eq!(medium.table_files().len(), 2);
    medium.keeps.store(false, Ordering::Relaxed);
    let table = engine.create_table("t", b"").unwrap_or_else(|error| panic!("the id is blocked: {error}"));
    let mut txn = engine.begin(Isolation::ReadCommitted);
    txn.insert(&table, b"row").unwrap();
    txn.commit().unwrap();

    let patience = Instant::now() + Duration::from_secs(10);
    while medium.table_files() != ["t.00000003.00000"] {
        assert!(Instant::now() < patience, "{:?} are left", medium.table_files());
        std::thread::sleep(Duration::from_millis(10));
    }
}
