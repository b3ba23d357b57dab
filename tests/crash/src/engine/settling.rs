//! Checkpoints of a medium that settles, as a disk does: which come by themselves, and that a
//! superblock names one only once the medium has settled what it covers (I9).

use perdura_engine::{Config, Csn, Engine, Isolation};
use perdura_pmem::sync::Mutex;
use perdura_pmem::{Health, Medium, MediumInfo, Region, Result as MediumResult, SimMedium};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Time after which a checkpoint that is due counts as missing.
const PATIENCE: Duration = Duration::from_secs(20);
const SUPERBLOCK: &str = "super";

/// Work that a medium does while it settles.
type Meanwhile = Box<dyn FnOnce() + Send>;

/// Memory that is to be settled.
#[derive(Default)]
struct Settling {
    inner: SimMedium,
    /// Superblocks as they were when the medium settled.
    settled: Mutex<Vec<Vec<u8>>>,
    is_due: AtomicBool,
    meanwhile: Mutex<Option<Meanwhile>>,
}

impl Settling {
    fn superblock(&self) -> Vec<u8> {
        let Ok(region) = self.inner.open(SUPERBLOCK) else { return Vec::new() };
        let mut bytes = vec![0; region.len() as usize];
        region.read(0, &mut bytes);
        bytes
    }

    fn times_settled(&self) -> usize {
        self.settled.lock().len()
    }

    /// Waits until it has settled more often than `times`.
    fn await_settled(&self, times: usize, why: &str) -> Result<(), String> {
        let begin = Instant::now();
        while self.times_settled() <= times {
            if begin.elapsed() > PATIENCE {
                return Err(format!("no checkpoint for {} s, {why}", PATIENCE.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Medium for Settling {
    fn create(&self, name: &str, len: u64) -> MediumResult<Region> {
        self.inner.create(name, len)
    }

    fn open(&self, name: &str) -> MediumResult<Region> {
        self.inner.open(name)
    }

    fn create_log(&self, name: &str, len: u64) -> MediumResult<Region> {
        self.inner.create_log(name, len)
    }

    fn open_log(&self, name: &str) -> MediumResult<Region> {
        self.inner.open_log(name)
    }

    fn remove(&self, name: &str) -> MediumResult<()> {
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> MediumResult<()> {
        self.inner.rename(from, to)
    }

    fn list(&self) -> MediumResult<Vec<(String, u64)>> {
        self.inner.list()
    }

    fn sync_dir(&self) -> MediumResult<()> {
        self.inner.sync_dir()
    }

    fn settles(&self) -> bool {
        true
    }

    fn settle(&self) -> MediumResult<()> {
        let meanwhile = self.meanwhile.lock().take();
        meanwhile.into_iter().for_each(|work| work());
        self.is_due.store(false, SeqCst);
        self.settled.lock().push(self.superblock());
        Ok(())
    }

    fn settle_is_due(&self) -> bool {
        self.is_due.load(SeqCst)
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

fn open(medium: &Arc<Settling>, config: &Config) -> Result<Engine, String> {
    let shared: Arc<dyn Medium> = medium.clone();
    Engine::open(shared, config.clone()).map_err(|error| error.to_string())
}

/// Commits a row of so many bytes.
fn commit(engine: &Engine, bytes: usize) -> Result<Csn, String> {
    let table = engine.table("t").map_err(|error| error.to_string())?;
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.insert(&table, &vec![1; bytes]).and_then(|_| txn.commit()).map_err(|error| error.to_string())
}

/// The medium settles before a superblock names a later checkpoint, and what is stored meanwhile is
/// left to the next one. So at the end of a recovery.
pub fn in_order(config: &Config) -> Result<(), String> {
    let medium = Arc::new(Settling::default());
    let engine = Arc::new(open(&medium, config)?);
    engine.create_table("t", b"").map_err(|error| error.to_string())?;
    commit(&engine, 10)?;
    let later = Arc::new(Mutex::new(Ok(0)));
    let (writer, written) = (engine.clone(), later.clone());
    *medium.meanwhile.lock() = Some(Box::new(move || *written.lock() = commit(&writer, 10)));
    let (before, times) = (medium.superblock(), medium.times_settled());
    let checkpoint = engine.checkpoint().map_err(|error| error.to_string())?;
    has_settled_first(&medium, times, &before, "a checkpoint")?;
    let later = later.lock().clone()?;
    if checkpoint >= later {
        return Err(format!("checkpoint {checkpoint} covers commit {later}, stored while the medium settled"));
    }
    drop(engine);
    let (before, times) = (medium.superblock(), medium.times_settled());
    let engine = open(&medium, config)?;
    has_settled_first(&medium, times, &before, "a recovery")?;
    engine.close();
    Ok(())
}

/// Whether the medium has settled since it had `times`, and then with the superblock `before`,
/// which is another by now.
fn has_settled_first(medium: &Settling, times: usize, before: &[u8], what: &str) -> Result<(), String> {
    match medium.settled.lock().get(times) {
        None => return Err(format!("{what} settles nothing")),
        Some(then) if then != before => return Err(format!("{what} is in the superblock before the medium settles")),
        Some(_) => {}
    }
    if medium.superblock() == before { Err(format!("{what} is not in the superblock")) } else { Ok(()) }
}

/// Checkpoints that nobody asks for: for the medium's sake, and for the next redo's.
pub fn by_themselves(config: &Config) -> Result<(), String> {
    half_full(config)?;
    long(config)
}

/// A pool with a thread that makes checkpoints, after so many bytes of log.
fn open_apart(config: &Config, checkpoint_log_bytes: u64) -> Result<(Arc<Settling>, Engine), String> {
    let medium = Arc::new(Settling::default());
    let mut config = Config {
        background: true,
        checkpoint_interval: Duration::from_secs(3600),
        checkpoint_log_bytes,
        // Rows count as log.
        by_value: Some(true),
        ..config.clone()
    };
    // The log has room, so that no session waits for a checkpoint.
    config.log.lane_bytes = 256 << 10;
    let engine = open(&medium, &config)?;
    engine.create_table("t", b"").map_err(|error| error.to_string())?;
    // A checkpoint that this has asked for is over then, and does not stand for the one awaited.
    std::thread::sleep(Duration::from_secs(1));
    Ok((medium, engine))
}

fn half_full(config: &Config) -> Result<(), String> {
    let (medium, engine) = open_apart(config, u64::MAX)?;
    let times = medium.times_settled();
    medium.is_due.store(true, SeqCst);
    medium.await_settled(times, "though the medium's journal is half full")?;
    engine.close();
    Ok(())
}

fn long(config: &Config) -> Result<(), String> {
    let (medium, engine) = open_apart(config, 64 << 10)?;
    let times = medium.times_settled();
    for _ in 0..200 {
        commit(&engine, 1000)?;
    }
    medium.await_settled(times, "though the next start would have much to redo")?;
    engine.close();
    Ok(())
}
