//! Opening and closing a pool, and its settings that can change while it runs.

use crate::barrier;
use crate::code::{Failure, Outcome, PerduraCode};
use perdura_engine::{Config, Engine, LogConfig};
use perdura_pmem::{FileMedium, Options};
use std::ffi::{CStr, c_char};
use std::path::{Path, absolute};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

/// What sessions count.
#[derive(Default)]
pub(crate) struct SessionCounters {
    pub(crate) open: AtomicU64,
    pub(crate) begun: AtomicU64,
    pub(crate) transactions: AtomicU64,
}

/// An open pool.
pub struct PerduraEngine {
    engine: Engine,
    pub(crate) sessions: Arc<SessionCounters>,
}

impl PerduraEngine {
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }
}

/// Where a pool is and how it is run. Sizes in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraOptions {
    /// Its directory.
    pub directory: *const c_char,
    /// Whether to make the directory if there is none.
    pub create_directory: bool,
    /// Whether to go on without DAX: data then survive a crash of the process, not a loss of power.
    pub emulate: bool,
    /// Whether files are faulted in ahead of their use.
    pub prefault: bool,
    /// Threads that do it.
    pub prefault_threads: u32,
    /// Size of a table's data files once it has grown.
    pub data_file_size: u64,
    /// Lanes of a log generation; used when the pool is created.
    pub log_lanes: u32,
    /// Size of a lane; used when the pool is created.
    pub log_lane_size: u64,
    /// Log generations to begin with.
    pub log_generations: u32,
    /// Log generations at most.
    pub log_generations_max: u32,
    /// How long row locks are waited for, in milliseconds, by sessions that do not say.
    pub lock_wait_ms: u64,
}

/// Opens the pool in a directory, recovering it; creates it if the directory is empty.
///
/// # Safety
/// `options` must be readable, its directory a C string, `engine` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_open(options: *const PerduraOptions, engine: *mut *mut PerduraEngine) -> PerduraCode {
    barrier::call(None, || {
        // SAFETY: as the caller vouches for.
        let (options, directory) = unsafe { (&*options, CStr::from_ptr((*options).directory)) };
        let opened = Box::new(PerduraEngine { engine: open(options, directory)?, sessions: Arc::default() });
        // SAFETY: as the caller vouches for.
        unsafe { engine.write(Box::into_raw(opened)) };
        Ok(PerduraCode::Ok)
    })
}

fn open(options: &PerduraOptions, directory: &CStr) -> Outcome<Engine> {
    let directory = directory.to_str().map_err(|_| {
        Failure::new(PerduraCode::Configuration, format!("directory {directory:?} is not a name in UTF-8"))
    })?;
    // Messages name the directory in full, wherever the server was started.
    let directory = absolute(Path::new(directory)).unwrap_or_else(|_| directory.into());
    let medium_options = Options { emulate: options.emulate, create_dir: options.create_directory };
    let medium = FileMedium::open(&directory, medium_options).map_err(|error| match error {
        perdura_pmem::Error::NotDax { .. } => Failure::new(PerduraCode::Medium, format!("{error}: perdura_emulate=ON")),
        error => Failure::from(error),
    })?;
    let defaults = Config::default();
    let config = Config {
        log: LogConfig {
            lanes: options.log_lanes,
            lane_bytes: options.log_lane_size,
            generations: options.log_generations,
            generations_max: options.log_generations_max,
        },
        data_file_bytes: options.data_file_size,
        first_file_bytes: defaults.first_file_bytes.min(options.data_file_size),
        prefault: options.prefault,
        prefault_threads: options.prefault_threads,
        lock_wait_timeout: Duration::from_millis(options.lock_wait_ms),
        clock: since_1970,
        ..defaults
    };
    Ok(Engine::open(Arc::new(medium), config)?)
}

#[allow(clippy::disallowed_methods, reason = "the server's clock enters the engine here")]
fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Closes a pool. Prepared transactions stay prepared in it.
///
/// # Safety
/// `engine` must be open, with no session or cursor left, and nobody may use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_close(engine: *mut PerduraEngine) {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { Box::from_raw(engine) };
    barrier::call_or(None, (), move || engine.engine.close());
}

/// Holds the pool still, so that its files can be copied, until [`perdura_release`]: whoever would store to it waits. Gives up if
/// statements that write do not end within `timeout_ms` milliseconds.
///
/// # Safety
/// `engine` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_hold(engine: *const PerduraEngine, timeout_ms: u64) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    barrier::call(Some(engine), || {
        engine.hold(Duration::from_millis(timeout_ms))?;
        Ok(PerduraCode::Ok)
    })
}

/// Lets the pool go again; whether it was held.
///
/// # Safety
/// `engine` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_release(engine: *const PerduraEngine) -> bool {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    barrier::call_or(Some(engine), false, || engine.release())
}

/// Switches pre-fault on or off.
///
/// # Safety
/// `engine` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_set_prefault(engine: *const PerduraEngine, enabled: bool) {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    barrier::call_or(Some(engine), (), || engine.set_prefault(enabled));
}
