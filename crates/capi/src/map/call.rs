//! Runs calls on a map, which takes no more changes once a call has panicked.

use super::code::{Outcome, PerduraMapCode};
use crate::{barrier, message};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a map has failed stop: it is read, but no longer changed.
#[derive(Default)]
pub(super) struct FailStop(AtomicBool);

impl FailStop {
    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs the body of a call that concerns no open map.
#[inline]
pub(super) fn call(body: impl FnOnce() -> Outcome) -> PerduraMapCode {
    call_on(None, body)
}

/// Runs the body of a call on a map. If it panics, the map fails stop.
#[inline]
pub(super) fn call_on(map: Option<&FailStop>, body: impl FnOnce() -> Outcome) -> PerduraMapCode {
    barrier::call(body, |panic| {
        if let Some(FailStop(failed)) = map {
            failed.store(true, Ordering::Relaxed);
        }
        message::keep(&format!("a defect was met: {panic}; restart the program, and report this"), None);
        PerduraMapCode::Internal
    })
}
