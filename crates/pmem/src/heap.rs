//! The C library's heap, which a server and its storage engine share.

/// Returns free memory of the heap to the system. The C library keeps what was freed for the next
/// allocation, so the DRAM of a transaction of a million rows would stay with the process. It takes
/// time in proportion to the heap. Without effect where the C library is another one than glibc.
pub fn trim() {
    // SAFETY: the call takes no pointer, and locks each arena while it looks it over.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
