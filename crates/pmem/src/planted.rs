//! Errors of reasoning, planted to test the tests.
//!
//! The explorer must notice not only a missing flush but a wrong rule: purge beyond the checkpoint, replay past a gap. Each such
//! error is a line beside the code it breaks, `if planted(N) { .. }`, and a number in the explorer's list. They exist only with the
//! feature `planted`, which the explorer alone turns on; without it [`planted`] is the constant `false`.

/// Whether the error of that number is planted now.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn planted(_number: u32) -> bool {
    false
}

#[cfg(feature = "planted")]
pub use switched::{plant, planted, reached};

#[cfg(feature = "planted")]
mod switched {
    use std::panic::Location;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    /// The one error in force in this process; 0 for none.
    static CHOSEN: AtomicU32 = AtomicU32::new(0);
    static REACHED: AtomicBool = AtomicBool::new(false);

    /// Whether the error of that number is planted now. The seeded scheduler may stall the thread here, so that
    /// others get to rely on what they wrongly may.
    #[inline]
    #[track_caller]
    pub fn planted(number: u32) -> bool {
        let chosen = CHOSEN.load(Ordering::Relaxed) == number;
        if chosen {
            REACHED.store(true, Ordering::Relaxed);
            // Once here, and once more right after what the error does.
            crate::sync::reached(Location::caller());
            crate::sync::step();
            crate::sync::reached(Location::caller());
        }
        chosen
    }

    /// Plants the error `number` in the whole process, instead of the one planted before; 0 plants none.
    pub fn plant(number: u32) {
        CHOSEN.store(number, Ordering::SeqCst);
        REACHED.store(false, Ordering::SeqCst);
    }

    /// Whether the planted error's line was reached.
    pub fn reached() -> bool {
        REACHED.load(Ordering::Relaxed)
    }
}
