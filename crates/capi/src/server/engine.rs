//! Opening and closing a pool, and the setting that can change while it runs.

use super::call::{call, call_or};
use super::code::{Failure, Outcome, PerduraCode};
use super::counter::Counters;
use super::references::References;
use perdura_engine::{Config, Engine, LogConfig, LogPath, PathConfig};
use perdura_pmem::{FileMedium, Medium, Model, Options, SplitMedium};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, absolute};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Counts the sessions of a pool.
#[derive(Default)]
pub(super) struct SessionCounters {
    pub(super) open: AtomicU64,
    pub(super) begun: AtomicU64,
    pub(super) transactions: AtomicU64,
    pub(super) rows_not_read: AtomicU64,
}

/// An open pool.
pub struct PerduraEngine {
    engine: Engine,
    pub(super) sessions: Arc<SessionCounters>,
    counters: Counters,
    references: References,
}

impl PerduraEngine {
    /// The counters of AUTO_INCREMENT columns.
    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The register of foreign keys.
    pub(super) fn references(&self) -> &References {
        &self.references
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }
}

/// Where a pool is and how it runs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraOptions {
    /// The pool's directory, as a path.
    pub directory: *const c_char,
    /// The directory of the log, as a path, if it is another: on persistent memory, say, with the
    /// data on a disk. NULL and an empty text: the pool's.
    pub log_directory: *const c_char,
    /// Makes the directory if it is missing, and that of the log.
    pub create_directory: bool,
    /// Takes a directory that is not on DAX as if it were: data then survive a crash of the
    /// process, not a loss of power. Of a pool with another directory for its log that one is
    /// meant. Without it the pool is durable there by syncs, as on any disk.
    pub emulate: bool,
    /// Refuses a directory that is not on DAX.
    pub require_dax: bool,
    /// On a disk: bytes that the journal of fences may take in the directory.
    pub journal_bytes: u64,
    /// On a disk: bytes of log after which a checkpoint is made.
    pub checkpoint_log_bytes: u64,
    /// On a disk: time after which a checkpoint is made, in milliseconds.
    pub checkpoint_interval_ms: u64,
    /// Opens a pool although its device has counted dirty shutdowns since it was last open.
    pub accept_dirty_shutdown: bool,
    /// The medium whose time emulated memory takes: a preset's name, with `@NODE` for a device of
    /// that NUMA node. NULL, an empty text and `off`: none.
    pub emulate_model: *const c_char,
    /// Faults files in ahead of their use.
    pub prefault: bool,
    /// Threads that fault files in.
    pub prefault_threads: u32,
    /// Opens the pool only once its log, and the tables that its recovery has opened, are faulted
    /// in.
    pub prefault_wait: bool,
    /// Pins threads that work on the pool to the NUMA node of its memory, where the machine has
    /// several and that one is known.
    pub numa: bool,
    /// Size of a table's data files once the table has grown.
    pub data_file_size: u64,
    /// Data files of open tables beyond which idle tables are closed.
    pub open_files: u32,
    /// Bytes of data files of dropped tables that are kept for the next files.
    pub kept_file_bytes: u64,
    /// Lanes of a log generation. Counts when the pool is created.
    pub log_lanes: u32,
    /// Size of a lane. Counts when the pool is created.
    pub log_lane_size: u64,
    /// Log generations to begin with, and to which the log shrinks back.
    pub log_generations: u32,
    /// Log generations that the log may grow to.
    pub log_generations_max: u32,
    /// The way of records to the medium, by its name. NULL and an empty text: the direct one.
    pub log_path: *const c_char,
    /// Bytes of the log buffer, for the ways that have one.
    pub log_buffer_size: u64,
    /// Granularity of the log's write-ahead in bytes, 0 for that of the way.
    pub log_write_ahead_size: u32,
    /// How long a transaction waits for a row lock if no statement has said it, in milliseconds.
    pub lock_wait_ms: u64,
    /// DRAM that a transaction's write set may take before its words are spilled to the medium, in
    /// bytes.
    pub transaction_memory: u64,
}

/// Opens the pool in a directory, recovering it after a crash. Creates the pool if the directory is
/// empty.
///
/// # Errors
/// MEDIUM, NOT_SUPPORTED (the model), CONFIGURATION, DAMAGED, DEVICE_FULL.
///
/// # Safety
/// `options` must be readable, its directory a C string, its model and its log path NULL or one,
/// `engine` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_open(options: *const PerduraOptions, engine: *mut *mut PerduraEngine) -> PerduraCode {
    call(None, || {
        // SAFETY: as the caller vouches for.
        let (options, directory) = unsafe { (&*options, CStr::from_ptr((*options).directory)) };
        let model = if options.emulate_model.is_null() {
            None
        } else {
            // SAFETY: as the caller vouches for.
            Model::parse(&unsafe { CStr::from_ptr(options.emulate_model) }.to_string_lossy())?
        };
        let opened = Box::new(PerduraEngine {
            engine: open(options, directory, model)?,
            sessions: Arc::default(),
            counters: Counters::default(),
            references: References::default(),
        });
        opened.references.load(&opened.engine)?;
        // SAFETY: as the caller vouches for.
        unsafe { engine.write(Box::into_raw(opened)) };
        Ok(PerduraCode::Ok)
    })
}

/// Whether a directory, a path, holds files of a pool, complete or not.
///
/// # Safety
/// `directory` must be a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_has_pool(directory: *const c_char) -> bool {
    call_or(None, false, || {
        // SAFETY: as the caller vouches for.
        let directory = unsafe { CStr::from_ptr(directory) };
        Engine::has_pool(Path::new(OsStr::from_bytes(directory.to_bytes())))
    })
}

fn open(options: &PerduraOptions, directory: &CStr, model: Option<Model>) -> Outcome<Engine> {
    let directory = directory.to_str().map_err(|_| not_utf8("directory"))?;
    // Messages name the directory in full, wherever the server was started.
    let directory = absolute(Path::new(directory)).unwrap_or_else(|_| directory.into());
    // SAFETY: as the caller vouches for.
    let log_directory = match unsafe { options.log_directory.as_ref() } {
        None => None,
        // SAFETY: as the caller vouches for.
        Some(name) => Some(unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| not_utf8("log directory"))?),
    };
    let log_directory = log_directory.filter(|name| !name.is_empty());
    let log_directory = log_directory.map(|name| absolute(Path::new(name)).unwrap_or_else(|_| name.into()));
    let medium = medium(options, &directory, log_directory.as_deref(), model);
    let medium = medium.map_err(|error| with_remedy(options, error))?;
    let defaults = Config::default();
    let config = Config {
        log: LogConfig {
            lanes: options.log_lanes,
            lane_bytes: options.log_lane_size,
            generations: options.log_generations,
            generations_max: options.log_generations_max,
            path: log_path(options)?,
            ..LogConfig::default()
        },
        data_file_bytes: options.data_file_size,
        first_file_bytes: defaults.first_file_bytes.min(options.data_file_size),
        open_files: options.open_files,
        kept_file_bytes: options.kept_file_bytes,
        prefault: options.prefault,
        prefault_threads: options.prefault_threads,
        prefault_wait: options.prefault_wait,
        numa: options.numa,
        lock_wait_timeout: Duration::from_millis(options.lock_wait_ms),
        transaction_memory: options.transaction_memory,
        checkpoint_log_bytes: options.checkpoint_log_bytes,
        checkpoint_interval: Duration::from_millis(options.checkpoint_interval_ms),
        accept_unsafe_shutdown: options.accept_dirty_shutdown,
        clock: since_1970,
        ..defaults
    };
    Ok(Engine::open(medium, config)?)
}

/// The way of records to the medium.
fn log_path(options: &PerduraOptions) -> Outcome<PathConfig> {
    // SAFETY: as the caller of perdura_open vouches for.
    let path = match unsafe { options.log_path.as_ref() } {
        None => LogPath::default(),
        Some(name) => {
            // SAFETY: as above.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
            let named = |error: perdura_log::Error| perdura_engine::Error::from(error);
            if name.is_empty() { LogPath::default() } else { name.parse().map_err(named)? }
        }
    };
    let (buffer_bytes, write_ahead_bytes) = (options.log_buffer_size, options.log_write_ahead_size);
    Ok(PathConfig { path, buffer_bytes, write_ahead_bytes, ..PathConfig::default() })
}

fn not_utf8(what: &str) -> Failure {
    Failure::new(PerduraCode::Configuration, format!("the name of the {what} is not in UTF-8"))
}

/// The medium of the pool in `directory`, with its log in `log_directory`, if that is another.
fn medium(
    options: &PerduraOptions,
    directory: &Path,
    log_directory: Option<&Path>,
    model: Option<Model>,
) -> perdura_pmem::Result<Arc<dyn Medium>> {
    let Some(log_directory) = log_directory.filter(|other| *other != directory) else {
        SplitMedium::refuse_half(directory)?;
        return Ok(Arc::new(half(options, directory, None)?.with_model(model)?));
    };
    let log = Arc::new(half(options, log_directory, None)?.with_model(model)?);
    let open = || half(options, directory, Some(&log))?.with_model(model);
    Ok(Arc::new(SplitMedium::join(log.clone(), directory, open)?))
}

/// The medium of one directory; of the data beside a log on `log`.
fn half(options: &PerduraOptions, directory: &Path, log: Option<&Arc<FileMedium>>) -> perdura_pmem::Result<FileMedium> {
    let create_dir = options.create_directory;
    let in_memory = || {
        let emulate = options.emulate && !options.require_dax;
        FileMedium::open(directory, Options { emulate, create_dir })
    };
    match log {
        _ if options.require_dax => in_memory(),
        None if options.emulate => in_memory(),
        None => FileMedium::open_journaled(directory, create_dir, options.journal_bytes),
        // The log alone is emulated, unless the data are in DRAM, too.
        Some(log) => match FileMedium::open_journaled_on(log, directory, create_dir, options.journal_bytes) {
            Err(error) if error.kind() == perdura_pmem::ErrorKind::NotDax && options.emulate => in_memory(),
            opened => opened,
        },
    }
}

/// Adds the variable that takes the medium nevertheless.
fn with_remedy(options: &PerduraOptions, error: perdura_pmem::Error) -> Failure {
    match error.kind() {
        perdura_pmem::ErrorKind::NotDax if options.require_dax && options.emulate => Failure::new(
            PerduraCode::Medium,
            format!(
                "{error}; perdura_require_dax=ON contradicts perdura_emulate=ON: to emulate, perdura_require_dax=OFF"
            ),
        ),
        perdura_pmem::ErrorKind::NotDax if options.require_dax => {
            Failure::new(PerduraCode::Medium, format!("{error}, or use it as a disk: perdura_require_dax=OFF"))
        }
        perdura_pmem::ErrorKind::NotDax => Failure::new(PerduraCode::Medium, format!("{error}: perdura_emulate=ON")),
        perdura_pmem::ErrorKind::Mismatch => {
            Failure::new(PerduraCode::Medium, format!("{error}: perdura_dir and perdura_log_dir"))
        }
        _ => Failure::from(error),
    }
}

/// The server's clock, which enters the engine here. Reports need milliseconds, so it is the clock
/// that the kernel keeps in memory: to read it costs a tenth of the exact one, and every
/// transaction reads it twice.
fn since_1970() -> Duration {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    Duration::try_from(now).unwrap_or_default()
}

/// Closes a pool whose sessions have ended and whose cursors are closed. Prepared transactions stay
/// prepared.
///
/// # Safety
/// `engine` must be open, with no session or cursor left, and nobody may use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_close(engine: *mut PerduraEngine) {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { Box::from_raw(engine) };
    call_or(None, (), move || {
        // Nobody ends a hold any more, and the counters would wait for that.
        if let Some(hold) = engine.engine.present_hold() {
            engine.engine.release(hold);
        }
        // Values that are not stored are left out when the counters go on: that is no loss.
        let _ = engine.counters.settle(&engine.engine);
        engine.engine.close();
    });
}

/// Sets the DRAM that a transaction's write set may take before its words are spilled to the
/// medium, in bytes. It applies to transactions under way as well.
///
/// # Safety
/// `engine` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_set_transaction_memory(engine: *const PerduraEngine, bytes: u64) {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    call_or(Some(engine), (), || engine.set_transaction_memory(bytes));
}

/// Sets how many bytes of data files of dropped tables are kept for the next files. Those that are
/// too many are removed in the background.
///
/// # Safety
/// `engine` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_set_kept_file_bytes(engine: *const PerduraEngine, bytes: u64) {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    call_or(Some(engine), (), || engine.set_kept_file_bytes(bytes));
}

/// Switches pre-fault on or off.
///
/// # Safety
/// `engine` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_set_prefault(engine: *const PerduraEngine, enabled: bool) {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    call_or(Some(engine), (), || engine.set_prefault(enabled));
}
