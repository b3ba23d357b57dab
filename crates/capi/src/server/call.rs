//! Runs calls on a pool, which fails stop if a call panics, and lends no bytes of a medium that has
//! failed (I11).

use super::code::{Failure, Outcome, PerduraCode};
use crate::{barrier, message};
use perdura_engine::Engine;
use perdura_pmem::any_failed;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a call. If it panics, `engine` fails stop.
#[inline]
pub(super) fn call(engine: Option<&Engine>, body: impl FnOnce() -> Outcome) -> PerduraCode {
    barrier::call(body, |panic| {
        fail_stop(engine, panic);
        PerduraCode::Internal
    })
}

/// As [`call`], for a body that reads rows, and borrows the engine's owner: `engine` is asked only
/// after the body has ended.
///
/// Rows are read where they lie, and a page that the medium cannot read is zero. So the call asks
/// the medium when all bytes are copied that its caller gets, and fails with it.
#[inline]
pub(super) fn call_reading<'a>(engine: impl Fn() -> &'a Engine, body: impl FnOnce() -> Outcome) -> PerduraCode {
    let code = barrier::call(body, |panic| {
        fail_stop(Some(engine()), panic);
        PerduraCode::Internal
    });
    if any_failed() { check_medium(engine(), code) } else { code }
}

#[cold]
fn check_medium(engine: &Engine, code: PerduraCode) -> PerduraCode {
    engine.check_medium().map_or_else(|error| Failure::from(error).report(), |()| code)
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

    /// Hazard: rows of zeros, from a page that could not be read, are taken for the table's.
    #[test]
    fn nothing_is_read_from_a_medium_that_has_failed() {
        let config = Config { background: false, prefault: false, ..Config::default() };
        let medium = Arc::new(SimMedium::new().paged());
        let engine = Engine::open(medium.clone(), config).expect("a pool");
        assert_eq!(call_reading(|| &engine, || Ok(PerduraCode::Ok)), PerduraCode::Ok);
        medium.fail_sync_after(0);
        engine.create_table("d/t", b"").map(|_| ()).expect_err("a sync fails");
        for code in [PerduraCode::Ok, PerduraCode::End] {
            assert_eq!(call_reading(|| &engine, || Ok(code)), PerduraCode::Medium);
        }
        assert!(last_message().contains("os error 5"), "{}", last_message());
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
