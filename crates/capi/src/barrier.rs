//! No panic crosses the C interface: it is caught, the pool fails stop, and the caller gets an error.

use crate::code::{Failure, Outcome, PerduraCode, keep_message};
use perdura_engine::Engine;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a call. `engine` is taken out of service if the body panics.
#[inline]
pub(crate) fn call(engine: Option<&Engine>, body: impl FnOnce() -> Outcome) -> PerduraCode {
    call_within(|| engine, body)
}

/// The same, for a body that has the engine's owner to itself: `engine` is asked only after the body has ended.
#[inline]
pub(crate) fn call_within<'a>(
    engine: impl FnOnce() -> Option<&'a Engine>,
    body: impl FnOnce() -> Outcome,
) -> PerduraCode {
    // What a panic leaves half changed is never used to write again: the pool has failed stop.
    // The failure is dealt with inside, so that what comes out of the barrier is a number and stays in a register.
    catch_unwind(AssertUnwindSafe(|| body().unwrap_or_else(|failure| fail(&failure))))
        .unwrap_or_else(|panic| caught(engine(), &*panic))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::perdura_message;
    use perdura_engine::{Config, Isolation};
    use perdura_pmem::SimMedium;
    use std::sync::Arc;

    fn last_message() -> String {
        let mut text = [0u8; 200];
        // SAFETY: the buffer has as many bytes.
        unsafe { perdura_message(text.as_mut_ptr(), text.len()) };
        let end = text.iter().position(|byte| *byte == 0).expect("an end");
        String::from_utf8(text[..end].to_vec()).expect("text")
    }

    #[test]
    fn a_panic_becomes_an_error_and_the_pool_takes_no_more_writes() {
        let config = Config { background: false, prefault: false, ..Config::default() };
        let engine = Engine::open(Arc::new(SimMedium::new()), config).expect("a pool");
        let table = engine.create_table("d/t", b"").expect("a table");
        let code = call(Some(&engine), || panic!("a defect of {}", "some kind"));
        assert_eq!(code, PerduraCode::Internal);
        assert!(last_message().contains("a defect of some kind"), "{}", last_message());
        assert_eq!(call_or(Some(&engine), 7, || panic!("another")), 7);

        let mut txn = engine.session(Isolation::ReadCommitted);
        assert!(txn.insert(&table, b"row").is_err(), "the pool was written to after a defect");
    }

    #[test]
    fn long_messages_are_cut_at_a_character() {
        keep_message("größer");
        let mut text = [1u8; 5];
        // SAFETY: the buffer has as many bytes.
        unsafe { perdura_message(text.as_mut_ptr(), text.len()) };
        assert_eq!(&text, b"gr\xc3\xb6\0");
    }
}
