//! Short copies, inlined: a call to memcpy would cost more than copying a typical field.

use std::ptr::copy_nonoverlapping;

/// Copies `bytes` bytes, up to 32 of them without a call.
///
/// # Safety
/// `source` must be readable and `target` writable for `bytes` bytes, and they must not overlap.
#[inline(always)]
pub(super) unsafe fn copy_short(source: *const u8, target: *mut u8, bytes: usize) {
    // SAFETY: each pair of accesses lies within the `bytes` bytes the caller vouches for: the
    // second ends where they end.
    unsafe {
        match bytes {
            33.. => copy_nonoverlapping(source, target, bytes),
            16..=32 => copy_pair::<u128>(source, target, bytes),
            8..=15 => copy_pair::<u64>(source, target, bytes),
            4..=7 => copy_pair::<u32>(source, target, bytes),
            2..=3 => copy_pair::<u16>(source, target, bytes),
            1 => target.write(source.read()),
            0 => {}
        }
    }
}

/// Copies the first and the last `T` of `bytes` bytes, which together cover them all.
///
/// # Safety
/// As for [`copy_short`]; `bytes` must be from one to two sizes of `T`.
#[inline(always)]
unsafe fn copy_pair<T: Copy>(source: *const u8, target: *mut u8, bytes: usize) {
    let last = bytes - size_of::<T>();
    // SAFETY: both accesses lie within `bytes` bytes from the start; unaligned accesses are used.
    unsafe {
        let head = source.cast::<T>().read_unaligned();
        let tail = source.add(last).cast::<T>().read_unaligned();
        target.cast::<T>().write_unaligned(head);
        target.add(last).cast::<T>().write_unaligned(tail);
    }
}

/// Reads a little endian number of `bytes` bytes, 1 to 4.
///
/// # Safety
/// `source` must be readable for `bytes` bytes.
#[inline(always)]
pub(super) unsafe fn read_length(source: *const u8, bytes: u8) -> usize {
    // SAFETY: the caller vouches for `bytes` bytes; no arm reads more.
    unsafe {
        match bytes {
            1 => usize::from(source.read()),
            2 => usize::from(u16::from_le_bytes(source.cast::<[u8; 2]>().read())),
            3 => {
                usize::from(u16::from_le_bytes(source.cast::<[u8; 2]>().read()))
                    | usize::from(source.add(2).read()) << 16
            }
            _ => u32::from_le_bytes(source.cast::<[u8; 4]>().read()) as usize,
        }
    }
}
