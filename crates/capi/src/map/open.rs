//! Creating, opening and closing a map.
//!
//! Each thing that C holds of a map (a value, view, cursor, snapshot or loader) counts as a `Hold`,
//! and a map with holds does not close. So the holders may refer to the map as `'static`.

use super::argument::live;
use super::call::{FailStop, call, call_on};
use super::code::{Failure, Outcome, PerduraMapCode};
use super::directory::{Claim, PerduraMapDirectory, directory_and_name};
use super::result::hand_out;
use perdura_map::{Config, Kind, Layout, OrderedMap};
use std::ffi::c_char;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The persistent append-only list with its ordered index in DRAM: the fastest to change.
pub const PERDURA_MAP_LIST: u32 = 1;
/// The persistent copy-on-write B+-tree: opens at once, however large.
pub const PERDURA_MAP_BTREE: u32 = 2;

/// An open map. Any number of threads may use it.
pub struct PerduraMap {
    map: Box<dyn OrderedMap>,
    /// Values, views, cursors, snapshots and loaders not released.
    held: AtomicU64,
    failed: FailStop,
    /// Dropped last, when the file is no longer in use.
    _claim: Claim,
}

/// Counts as one holder of the map until dropped.
pub(super) struct Hold(&'static PerduraMap);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Release);
    }
}

impl PerduraMap {
    /// The map, for reading.
    #[inline]
    pub(super) fn map(&self) -> &dyn OrderedMap {
        &*self.map
    }

    /// The map, for changing.
    #[inline]
    pub(super) fn changeable(&self) -> Outcome<&dyn OrderedMap> {
        if self.failed.is_set() {
            let message = "a defect was met before; restart the program, and report it";
            return Err(Failure::new(PerduraMapCode::Internal, message));
        }
        Ok(&*self.map)
    }

    /// Flag that [`call_on`] sets if a call on the map panics.
    #[inline]
    pub(super) fn fail_stop(&self) -> &FailStop {
        &self.failed
    }

    /// Keeps the map open as long as the result lives.
    #[inline]
    pub(super) fn hold(&'static self) -> Hold {
        self.held.fetch_add(1, Ordering::Relaxed);
        Hold(self)
    }
}

/// Runs a call on a map.
///
/// # Safety
/// `map` must be null or open. What the body keeps of it must hold it.
#[inline]
pub(super) unsafe fn with(map: *const PerduraMap, body: impl FnOnce(&'static PerduraMap) -> Outcome) -> PerduraMapCode {
    // SAFETY: as the caller vouches for; a map with anything that holds it is not closed.
    match unsafe { map.as_ref() } {
        Some(map) => call_on(Some(&map.failed), || body(map)),
        None => call(|| Err(Failure::new(PerduraMapCode::Argument, "the map is null"))),
    }
}

/// How a map is laid out when it is created.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraMapLayout {
    /// PERDURA_MAP_LIST or PERDURA_MAP_BTREE.
    pub kind: u32,
    /// Size of a page: a power of two from 256 to 65,536.
    pub page_bytes: u32,
    /// Most children of a node, from 4 to 64.
    pub branching: u32,
    /// Size of the file, which does not grow.
    pub bytes: u64,
}

/// How an open map runs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraMapConfig {
    /// A batch of this many changes is persisted. 1 makes each change durable before its call
    /// returns.
    pub changes_max: u32,
    /// A batch is persisted when its first change is about this old, in microseconds.
    pub interval_us: u64,
    /// Runs a thread that persists idle batches and collects garbage. Without it the caller does
    /// both.
    pub background: bool,
}

/// Recommends a layout for a map of `kind` in a file of `bytes` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_map_layout(kind: u32, bytes: u64) -> PerduraMapLayout {
    let layout = Layout::of(if kind == PERDURA_MAP_LIST { Kind::List } else { Kind::BTree }, bytes);
    PerduraMapLayout { kind, page_bytes: layout.page_bytes, branching: layout.branching, bytes: layout.bytes }
}

/// The default configuration.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_map_config() -> PerduraMapConfig {
    let config = Config::default();
    PerduraMapConfig {
        changes_max: config.changes_max,
        interval_us: u64::try_from(config.interval.as_micros()).unwrap_or(u64::MAX),
        background: config.background,
    }
}

/// # Safety
/// `config` must be null, for the default, or readable.
unsafe fn read_config(config: *const PerduraMapConfig) -> Config {
    // SAFETY: as the caller vouches for.
    unsafe { config.as_ref() }.map_or_else(Config::default, |config| Config {
        changes_max: config.changes_max,
        interval: Duration::from_micros(config.interval_us),
        background: config.background,
        ..Config::default()
    })
}

/// Creates an empty map in the new file `name`, and opens it. A name consists of a-z, 0-9, '.' and
/// '_' and does not begin with '.'. `config` may be null for the default.
///
/// # Errors
/// EXISTS, FULL, MEDIUM.
///
/// # Safety
/// `directory` must be open, `name` a C string, `layout` and `config` readable, `map` writable;
/// each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_create(
    directory: *const PerduraMapDirectory,
    name: *const c_char,
    layout: *const PerduraMapLayout,
    config: *const PerduraMapConfig,
    map: *mut *mut PerduraMap,
) -> PerduraMapCode {
    let create = || {
        // SAFETY: as the caller vouches for.
        let ((directory, name), given, config) =
            unsafe { (directory_and_name(directory, name)?, live(layout, "layout")?, read_config(config)) };
        let layout = Layout { bytes: given.bytes, page_bytes: given.page_bytes, branching: given.branching };
        let claim = directory.names.claim(name)?;
        let kind = match given.kind {
            PERDURA_MAP_LIST => Kind::List,
            PERDURA_MAP_BTREE => Kind::BTree,
            other => {
                let message = format!("kind {other}: use PERDURA_MAP_LIST or PERDURA_MAP_BTREE");
                return Err(Failure::new(PerduraMapCode::Argument, message));
            }
        };
        let map = perdura_map::create(&directory.medium, name, kind, &layout, &config)?;
        Ok(PerduraMap { map, held: AtomicU64::new(0), failed: FailStop::default(), _claim: claim })
    };
    // SAFETY: as the caller vouches for.
    call(|| unsafe { hand_out(map, "the map", create) })
}

/// Opens the map in file `name`, of either kind, as its newest persist left it. `config` may
/// be null for the default.
///
/// # Errors
/// NOT_FOUND, BUSY if the process has it open already, FOREIGN, VERSION, DAMAGED, MEDIUM.
///
/// # Safety
/// `directory` must be open, `name` a C string, `config` readable, `map` writable; each may be
/// null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_open(
    directory: *const PerduraMapDirectory,
    name: *const c_char,
    config: *const PerduraMapConfig,
    map: *mut *mut PerduraMap,
) -> PerduraMapCode {
    let open = || {
        // SAFETY: as the caller vouches for.
        let ((directory, name), config) = unsafe { (directory_and_name(directory, name)?, read_config(config)) };
        let claim = directory.names.claim(name)?;
        let map = perdura_map::open(&directory.medium, name, &config)?;
        Ok(PerduraMap { map, held: AtomicU64::new(0), failed: FailStop::default(), _claim: claim })
    };
    // SAFETY: as the caller vouches for.
    call(|| unsafe { hand_out(map, "the map", open) })
}

/// Persists a map's changes and closes it. After INTERNAL it does neither: the file stays in use
/// until the process ends.
///
/// # Errors
/// BUSY if values, views, cursors, snapshots or loaders are not released; the map stays open.
///
/// # Safety
/// `map` must be null or open, and nobody may use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_close(map: *mut PerduraMap) -> PerduraMapCode {
    call(|| {
        // SAFETY: as the caller vouches for.
        let Some(open) = (unsafe { map.as_ref() }) else { return Ok(PerduraMapCode::Ok) };
        let held = open.held.load(Ordering::Acquire);
        if held > 0 {
            let message =
                format!("the map is not closed: {held} values, views, cursors, snapshots or loaders are not released");
            return Err(Failure::new(PerduraMapCode::Busy, message));
        }
        if open.failed.is_set() {
            // Closing would persist what a defect may have left half changed.
            return Ok(PerduraMapCode::Ok);
        }
        // SAFETY: as the caller vouches for; nothing refers to the map any more.
        drop(unsafe { Box::from_raw(map) });
        Ok(PerduraMapCode::Ok)
    })
}
