//! The message of a failed call, kept for the thread that made it until the thread's next failure.

use std::cell::RefCell;
use std::panic::catch_unwind;

thread_local! {
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps the message of a failure for the calling thread.
#[cold]
pub(crate) fn keep(message: &str) {
    MESSAGE.with_borrow_mut(|kept| message.clone_into(kept));
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
    use super::{copy, keep};

    #[test]
    fn long_messages_are_cut_at_a_character() {
        keep("größer");
        let mut text = [1u8; 5];
        // SAFETY: the buffer has as many bytes.
        unsafe { copy(text.as_mut_ptr(), text.len()) };
        assert_eq!(&text, b"gr\xc3\xb6\0");
    }
}
