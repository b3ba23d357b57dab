//! Hand-written bindings to the part of libpmem2 that is used, and owners of its objects.
//!
//! libpmem2 answers 0 or a negative number: -errno of the system, or one of its own codes from
//! -100000 down.

use crate::medium::Granularity;
use crate::region::Functions;
use parking_lot::{Mutex, MutexGuard};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

#[repr(C)]
pub(super) struct RawSource([u8; 0]);
#[repr(C)]
struct RawConfig([u8; 0]);
#[repr(C)]
struct RawMap([u8; 0]);
#[repr(C)]
struct RawBadBlocks([u8; 0]);

/// A damaged range of a file, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadBlock {
    pub(super) offset: usize,
    pub(super) len: usize,
}

const E_NOSUPP: c_int = -100_001;
const E_NO_BAD_BLOCK_FOUND: c_int = -100_029;

/// Held while libpmem2 knows of a mapping. When it deletes one it unmaps the addresses before it
/// forgets them (1.12), and refuses what another thread maps there meanwhile with EEXIST.
static MAPPED: Mutex<()> = Mutex::new(());

type FlushFn = unsafe extern "C" fn(*const c_void, usize);
type DrainFn = unsafe extern "C" fn();
type MemcpyFn = unsafe extern "C" fn(*mut c_void, *const c_void, usize, c_uint) -> *mut c_void;
type MemsetFn = unsafe extern "C" fn(*mut c_void, c_int, usize, c_uint) -> *mut c_void;

unsafe extern "C" {
    fn pmem2_source_from_fd(source: *mut *mut RawSource, fd: c_int) -> c_int;
    fn pmem2_source_delete(source: *mut *mut RawSource) -> c_int;
    fn pmem2_config_new(config: *mut *mut RawConfig) -> c_int;
    fn pmem2_config_delete(config: *mut *mut RawConfig) -> c_int;
    fn pmem2_config_set_required_store_granularity(config: *mut RawConfig, granularity: c_uint) -> c_int;
    fn pmem2_map_new(map: *mut *mut RawMap, config: *const RawConfig, source: *const RawSource) -> c_int;
    fn pmem2_map_from_existing(
        map: *mut *mut RawMap,
        source: *const RawSource,
        address: *mut c_void,
        len: usize,
        granularity: c_uint,
    ) -> c_int;
    fn pmem2_map_delete(map: *mut *mut RawMap) -> c_int;
    fn pmem2_map_get_store_granularity(map: *mut RawMap) -> c_uint;
    fn pmem2_get_flush_fn(map: *mut RawMap) -> FlushFn;
    fn pmem2_get_drain_fn(map: *mut RawMap) -> DrainFn;
    fn pmem2_get_memcpy_fn(map: *mut RawMap) -> MemcpyFn;
    fn pmem2_get_memset_fn(map: *mut RawMap) -> MemsetFn;
    fn pmem2_badblock_context_new(context: *mut *mut RawBadBlocks, source: *const RawSource) -> c_int;
    fn pmem2_badblock_next(context: *mut RawBadBlocks, block: *mut BadBlock) -> c_int;
    fn pmem2_badblock_context_delete(context: *mut *mut RawBadBlocks);
    fn pmem2_errormsg() -> *const c_char;
}

/// libpmem2's error code, with its message.
fn error(code: c_int) -> io::Error {
    if code > -100_000 && code < 0 {
        return io::Error::from_raw_os_error(-code);
    }
    // SAFETY: the message is a string owned by the library, valid until this thread's next call
    // into it.
    let message = unsafe { CStr::from_ptr(pmem2_errormsg()) }.to_string_lossy().into_owned();
    io::Error::other(format!("libpmem2 error {code}: {message}"))
}

fn check(code: c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(error(code)) }
}

fn to_raw(granularity: Granularity) -> c_uint {
    match granularity {
        Granularity::Byte => 0,
        Granularity::CacheLine => 1,
        Granularity::Page => 2,
    }
}

/// An open file, as libpmem2 sees it. The file must stay open while this lives.
pub(super) struct Source<'fd> {
    raw: *mut RawSource,
    _fd: BorrowedFd<'fd>,
}

impl<'fd> Source<'fd> {
    pub(super) fn new(fd: BorrowedFd<'fd>) -> io::Result<Source<'fd>> {
        let mut raw = ptr::null_mut();
        // SAFETY: the descriptor is open; raw receives the object.
        check(unsafe { pmem2_source_from_fd(&mut raw, fd.as_raw_fd()) })?;
        Ok(Source { raw, _fd: fd })
    }

    /// Granularity that libpmem2 finds when it maps the file.
    pub(super) fn granularity(&self) -> io::Result<Granularity> {
        let _mapped = MAPPED.lock();
        let mut config = ptr::null_mut();
        // SAFETY: config receives the object, which is deleted below.
        check(unsafe { pmem2_config_new(&mut config) })?;
        let mut map = ptr::null_mut();
        // SAFETY: config and source are live objects; map receives the mapping.
        let mapped = unsafe {
            check(pmem2_config_set_required_store_granularity(config, to_raw(Granularity::Page)))
                .and_then(|()| check(pmem2_map_new(&mut map, config, self.raw)))
        };
        // SAFETY: config was made above and is not used again.
        unsafe { pmem2_config_delete(&mut config) };
        mapped?;
        // SAFETY: map is a live mapping, deleted once.
        let raw = unsafe {
            let raw = pmem2_map_get_store_granularity(map);
            pmem2_map_delete(&mut map);
            raw
        };
        Ok(match raw {
            0 => Granularity::Byte,
            1 => Granularity::CacheLine,
            _ => Granularity::Page,
        })
    }

    /// Damaged ranges of the file; empty where the platform does not tell.
    pub(super) fn bad_blocks(&self) -> io::Result<Vec<BadBlock>> {
        let mut context = ptr::null_mut();
        // SAFETY: a live source; context receives the object.
        match unsafe { pmem2_badblock_context_new(&mut context, self.raw) } {
            0 => {}
            E_NOSUPP => return Ok(Vec::new()),
            code => return Err(error(code)),
        }
        let mut blocks = Vec::new();
        let end = loop {
            let mut block = BadBlock { offset: 0, len: 0 };
            // SAFETY: a live context; block receives the range.
            match unsafe { pmem2_badblock_next(context, &mut block) } {
                0 => blocks.push(block),
                E_NO_BAD_BLOCK_FOUND => break Ok(blocks),
                code => break Err(error(code)),
            }
        };
        // SAFETY: the context was made above and is not used again.
        unsafe { pmem2_badblock_context_delete(&mut context) };
        end
    }
}

impl Drop for Source<'_> {
    fn drop(&mut self) {
        // SAFETY: a live source, deleted once.
        unsafe { pmem2_source_delete(&mut self.raw) };
    }
}

/// libpmem2's view of a mapping that we made ourselves. No thread can make a second one, or ask for
/// a granularity, while it lives.
pub(super) struct Map {
    raw: *mut RawMap,
    /// Released when `raw` is deleted.
    _mapped: MutexGuard<'static, ()>,
}

impl Map {
    /// Registers `len` bytes at `address`, to be flushed as `granularity` needs.
    ///
    /// # Safety
    /// The range is a mapping of the source's file and stays mapped while this lives.
    pub(super) unsafe fn from_existing(
        source: &Source<'_>,
        address: *mut c_void,
        len: usize,
        granularity: Granularity,
    ) -> io::Result<Map> {
        let (mut raw, mapped) = (ptr::null_mut(), MAPPED.lock());
        // SAFETY: a live source and, by the caller's promise, a mapping of its file.
        check(unsafe { pmem2_map_from_existing(&mut raw, source.raw, address, len, to_raw(granularity)) })?;
        Ok(Map { raw, _mapped: mapped })
    }

    /// The functions libpmem2 chose.
    pub(super) fn functions(&self) -> Functions {
        // SAFETY: a live mapping.
        unsafe {
            Functions {
                flush: pmem2_get_flush_fn(self.raw),
                flush_settled: pmem2_get_flush_fn(self.raw),
                drain: pmem2_get_drain_fn(self.raw),
                memcpy: pmem2_get_memcpy_fn(self.raw),
                memset: pmem2_get_memset_fn(self.raw),
                publish: None,
            }
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: a live mapping, deleted once; libpmem2 does not unmap what it did not map.
        unsafe { pmem2_map_delete(&mut self.raw) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    /// Hazard: libpmem2 refuses a mapping for that of another thread, which is being unmapped.
    #[test]
    fn threads_that_map_at_once_do_not_meet() {
        const TIMES: usize = 10_000;
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let file = tempfile::tempfile().expect("a file");
                    file.set_len(2 << 20).expect("it is made longer");
                    let source = Source::new(file.as_fd()).expect("a source");
                    (0..TIMES).for_each(|_| _ = source.granularity().expect("it is mapped"));
                });
            }
        });
    }
}
