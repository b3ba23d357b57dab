//! No panic crosses the C interface: it is caught, the pool fails stop, and the caller gets an error.

use crate::code::{Failure, Outcome, PerduraCode, keep_message};
use perdura_engine::Engine;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a call. `engine` is taken out of service if the body panics.
#[inline]
pub(crate) fn call(engine: Option<&Engine>, body: impl FnOnce() -> Outcome) -> PerduraCode {
    // What a panic leaves half changed is never used to write again: the pool has failed stop.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => fail(&failure),
        Err(panic) => caught(engine, &*panic),
    }
}

/// Runs the body of a call that has no way to fail. A panic gives `otherwise`.
pub(crate) fn call_or<T>(engine: Option<&Engine>, otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        caught(engine, &*panic);
        otherwise
    })
}

#[cold]
fn fail(failure: &Failure) -> PerduraCode {
    keep_message(&failure.message);
    failure.code
}

#[cold]
fn caught(engine: Option<&Engine>, panic: &(dyn Any + Send)) -> PerduraCode {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message =
        format!("a defect was met: {}; restart the server and report this", text.unwrap_or("panic without a message"));
    if let Some(engine) = engine {
        // If even this panics there is nothing left to do but to say so.
        let _ = catch_unwind(AssertUnwindSafe(|| engine.fail_stop(&message)));
    }
    keep_message(&message);
    PerduraCode::Internal
}
