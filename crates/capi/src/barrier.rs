//! No panic crosses the C interface: it is caught here, and reported to the caller as a defect.

use crate::failure::Failure;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a call. If it panics, `defect` takes out of service what the body may have left
/// half changed, and gives the code to return. That is why unwind safety may be asserted: nobody
/// writes with such state again.
#[inline]
pub(crate) fn call<C>(body: impl FnOnce() -> Result<C, Failure<C>>, defect: impl FnOnce(&str) -> C) -> C {
    // The failure is reported inside, so that what leaves the barrier is a number and stays in a
    // register.
    catch_unwind(AssertUnwindSafe(|| body().unwrap_or_else(Failure::report)))
        .unwrap_or_else(|panic| defect(text_of(&*panic)))
}

/// Runs the body of a call that has no way to fail; `defect` gives the result if it panics.
#[inline]
pub(crate) fn call_infallible<T>(body: impl FnOnce() -> T, defect: impl FnOnce(&str) -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| defect(text_of(&*panic)))
}

#[cold]
fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic without a message")
}
