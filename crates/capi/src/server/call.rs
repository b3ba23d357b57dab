//! Runs calls on a pool, which fails stop if a call panics (I11).

use super::code::{Outcome, PerduraCode};
use crate::{barrier, message};
use perdura_engine::Engine;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a call. If it panics, `engine` fails stop.
#[inline]
pub(super) fn call(engine: Option<&Engine>, body: impl FnOnce() -> Outcome) -> PerduraCode {
    call_within(|| engine, body)
}

/// As [`call`], for a body that borrows the engine's owner: `engine` is asked only after the body
/// has ended.
#[inline]
pub(super) fn call_within<'a>(
    engine: impl FnOnce() -> Option<&'a Engine>,
    body: impl FnOnce() -> Outcome,
) -> PerduraCode {
    barrier::call(body, |panic| {
        fail_stop(engine(), panic);
        PerduraCode::Internal
    })
}

/// Runs the body of a call that has no way to fail. A panic gives `otherwise`.
pub(super) fn call_or<T>(engine: Option<&Engine>, otherwise: T, body: impl FnOnce() -> T) -> T {
    barrier::call_infallible(body, |panic| {
        fail_stop(engine, panic);
        otherwise
    })
}

#[cold]
fn fail_stop(engine: Option<&Engine>, panic: &str) {
    let text = format!("a defect was met: {panic}; restart the server and report this");
    if let Some(engine) = engine {
        // If this panics too, the caller still learns of it.
        let _ = catch_unwind(AssertUnwindSafe(|| engine.fail_stop(&text)));
    }
    message::keep(&text, None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::code::perdura_message;
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

    /// Holds (I11).
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
}
