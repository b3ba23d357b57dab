//! The message of a failed call, kept for the thread that made it until the thread's next failure.

use std::cell::{Cell, RefCell};
use std::panic::catch_unwind;

thread_local! {
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
    static INDEX: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Keeps the message of a failure for the calling thread, and the index that it is about.
#[cold]
pub(crate) fn keep(message: &str, index: Option<u32>) {
    MESSAGE.with_borrow_mut(|kept| message.clone_into(kept));
    INDEX.set(index);
}

/// The index that the calling thread's message is about.
pub(crate) fn index() -> Option<u32> {
    INDEX.get()
}

/// Copies the calling thread's message to `target`: whole characters, as many as `bytes` has room
/// for, and a zero byte.
///
/// # Safety
/// `target` must be writable for `bytes` bytes.
pub(crate) unsafe fn copy(target: *mut u8, bytes: usize) {
    let _ = catch_unwind(|| {
        // SAFETY: as the caller vouches for.
        MESSAGE.with_borrow(|message| unsafe { copy_text(message, target, bytes) })
    });
}

/// # Safety
/// `target` must be writable for `bytes` bytes.
unsafe fn copy_text(text: &str, target: *mut u8, bytes: usize) {
    let Some(room) = bytes.checked_sub(1) else { return };
    let mut end = room.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // SAFETY: `end` is less than `bytes`, which the caller vouches for.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), target, end);
        target.add(end).write(0);
    }
}

#[cfg(test)]
mod tests {
    use super::{copy, index, keep};

    #[test]
    fn long_messages_are_cut_at_a_character() {
        keep("größer", Some(2));
        assert_eq!(index(), Some(2));
        let mut text = [1u8; 5];
        // SAFETY: the buffer has as many bytes.
        unsafe { copy(text.as_mut_ptr(), text.len()) };
        assert_eq!(&text, b"gr\xc3\xb6\0");
    }
}
