//! libpmemobj (PMDK): what a general transactional allocator for persistent memory costs.

use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// Bytes of an object.
pub const OBJECT_BYTES: usize = 64;
/// Environment variable that makes the library treat any memory as persistent.
pub const FORCE: &str = "PMEM_IS_PMEM_FORCE";

/// `PMEMoid`: names an object of a pool; null if the offset is 0.
#[repr(C)]
#[derive(Clone, Copy)]
struct Oid {
    pool: u64,
    offset: u64,
}

/// An object: the one before it, and content.
#[repr(C)]
struct Object {
    next: Oid,
    content: [u8; OBJECT_BYTES - size_of::<Oid>()],
}

const _: () = assert!(size_of::<Object>() == OBJECT_BYTES);

/// `PMEMobjpool`, an opaque type.
#[repr(C)]
struct RawPool {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn pmemobj_create(path: *const c_char, layout: *const c_char, bytes: usize, mode: u32) -> *mut RawPool;
    fn pmemobj_close(pool: *mut RawPool);
    fn pmemobj_root(pool: *mut RawPool, bytes: usize) -> Oid;
    fn pmemobj_errormsg() -> *const c_char;
    // `env` is a jmp_buf; without one an abort returns. The parameters after it end with
    // TX_PARAM_NONE.
    fn pmemobj_tx_begin(pool: *mut RawPool, env: *mut c_void, ...) -> c_int;
    fn pmemobj_tx_alloc(bytes: usize, type_number: u64) -> Oid;
    fn pmemobj_tx_add_range_direct(address: *const c_void, bytes: usize) -> c_int;
    fn pmemobj_tx_commit();
    fn pmemobj_tx_end() -> c_int;
}

const TX_PARAM_NONE: c_int = 0;
const OWNER_READS_AND_WRITES: u32 = 0o600;
const TYPE_NUMBER: u64 = 1;

/// A pool whose root names the newest object of a list.
///
/// Objects of 64 bytes are allocated and linked at the head of a list. The transaction's undo log
/// guards the list's root word. A persistent list cannot do with less of that library. On emulated
/// memory the library flushes and fences only if `PMEM_IS_PMEM_FORCE=1` was in the environment when
/// it was loaded; otherwise it calls msync.
///
/// Thread-safety: one user.
pub struct Pool {
    raw: *mut RawPool,
    /// Offset of the root, which is one [`Oid`].
    root: u64,
}

impl Pool {
    /// Creates a pool of `bytes` in `directory`. Panics with the library's message if it cannot.
    pub fn create(directory: &Path, bytes: usize) -> Pool {
        let path = directory.join("pmemobj");
        let path = CString::new(path.as_os_str().as_bytes()).expect("a path has no zero byte");
        // SAFETY: both strings end with zero.
        let raw = unsafe { pmemobj_create(path.as_ptr(), c"bench".as_ptr(), bytes, OWNER_READS_AND_WRITES) };
        assert!(!raw.is_null(), "pmemobj_create: {}", message());
        // SAFETY: the pool is open; it zeroes a new root.
        let root = unsafe { pmemobj_root(raw, size_of::<Oid>()) };
        assert!(root.offset != 0, "pmemobj_root: {}", message());
        Pool { raw, root: root.offset }
    }

    /// Allocates `count` objects, `batch` a transaction, and links them.
    pub fn link(&mut self, count: usize, batch: usize) {
        let content = [0x5a; OBJECT_BYTES - size_of::<Oid>()];
        for begin in (0..count).step_by(batch) {
            // SAFETY: the pool is open, no transaction is; variable parameters end as they must.
            let error = unsafe { pmemobj_tx_begin(self.raw, ptr::null_mut(), TX_PARAM_NONE) };
            assert!(error == 0, "pmemobj_tx_begin: {}", message());
            for _ in begin..count.min(begin + batch) {
                self.link_one(content);
            }
            // SAFETY: the transaction is open, and is ended whatever becomes of it.
            let error = unsafe {
                pmemobj_tx_commit();
                pmemobj_tx_end()
            };
            assert!(error == 0, "pmemobj_tx_commit: {}", message());
        }
    }

    fn link_one(&mut self, content: [u8; OBJECT_BYTES - size_of::<Oid>()]) {
        // SAFETY: a transaction is open.
        let new = unsafe { pmemobj_tx_alloc(OBJECT_BYTES, TYPE_NUMBER) };
        assert!(new.offset != 0, "pmemobj_tx_alloc: {}", message());
        let root: *mut Oid = self.at(self.root).cast();
        // SAFETY: a transaction is open, and the root lies in its pool.
        let error = unsafe { pmemobj_tx_add_range_direct(root.cast(), size_of::<Oid>()) };
        assert!(error == 0, "pmemobj_tx_add_range_direct: {}", message());
        // SAFETY: the object is new and so this transaction's own, flushed by its commit; the root
        // is logged. Both are aligned: the library's objects are to 16 bytes.
        unsafe {
            self.at(new.offset).cast::<Object>().write(Object { next: root.read(), content });
            root.write(new);
        }
    }

    /// Number of objects in the list.
    pub fn len(&self) -> usize {
        // SAFETY: the root is one Oid, and each names an object of this pool or none.
        let mut object = unsafe { self.at(self.root).cast::<Oid>().read() };
        let mut count = 0;
        while object.offset != 0 {
            count += 1;
            // SAFETY: as above.
            object = unsafe { (*self.at(object.offset).cast::<Object>()).next };
        }
        count
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Address of an offset, computed as the library's own inline function does.
    fn at(&self, offset: u64) -> *mut u8 {
        // SAFETY: offsets come from the library and lie in the pool, which begins at the handle.
        unsafe { self.raw.cast::<u8>().add(offset as usize) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the pool is open, and not used again.
        unsafe { pmemobj_close(self.raw) };
    }
}

fn message() -> String {
    // SAFETY: the library returns a string that ends with zero, kept until its next call in this
    // thread.
    unsafe { std::ffi::CStr::from_ptr(pmemobj_errormsg()) }.to_string_lossy().into_owned()
}
