//! No panic crosses the interface: it is caught, the map takes no more changes, and the caller gets a code.

use super::code::{Failure, Outcome, PerduraMapCode};
use super::open::PerduraMap;
use crate::code::keep_message;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a call that belongs to no map yet, or to one that is about to go.
#[inline]
pub(super) fn call(body: impl FnOnce() -> Outcome) -> PerduraMapCode {
    call_on(None, body)
}

/// Runs the body of a call on `map`, which takes no more changes if the body panics.
#[inline]
pub(super) fn call_on(map: Option<&PerduraMap>, body: impl FnOnce() -> Outcome) -> PerduraMapCode {
    // What a panic leaves half changed is never used to change more: the map is taken out of service.
    catch_unwind(AssertUnwindSafe(|| body().unwrap_or_else(|failure| fail(&failure))))
        .unwrap_or_else(|panic| caught(map, &*panic))
}

#[cold]
fn fail(failure: &Failure) -> PerduraMapCode {
    keep_message(&failure.message);
    failure.code
}

#[cold]
fn caught(map: Option<&PerduraMap>, panic: &(dyn Any + Send)) -> PerduraMapCode {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    if let Some(map) = map {
        map.fail_stop();
    }
    keep_message(&format!(
        "a defect was met: {}; restart the program, and report this",
        text.unwrap_or("panic without a message")
    ));
    PerduraMapCode::Internal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::change::perdura_map_put;
    use crate::map::directory::{perdura_map_directory_close, perdura_map_directory_open};
    use crate::map::open::{PERDURA_MAP_LIST, perdura_map_close, perdura_map_create, perdura_map_layout};
    use crate::map::read::{PERDURA_MAP_NEWEST, perdura_map_read};
    use std::ffi::CString;
    use std::ptr::{null, null_mut};

    #[test]
    fn after_a_panic_a_map_is_read_but_not_changed() {
        let place = tempfile::tempdir().expect("a directory");
        let path = CString::new(place.path().to_str().expect("text")).expect("no zero byte");
        let (mut directory, mut map, mut length) = (null_mut(), null_mut(), 7);
        let layout = perdura_map_layout(PERDURA_MAP_LIST, 1 << 20);
        // SAFETY: pointers are null or to live values, and used as they may be.
        unsafe {
            assert_eq!(perdura_map_directory_open(path.as_ptr(), false, true, &mut directory), PerduraMapCode::Ok);
            let code = perdura_map_create(directory, c"m".as_ptr(), &layout, null(), &mut map);
            assert_eq!(code, PerduraMapCode::Ok);
            assert_eq!(perdura_map_put(map, null(), 0, null(), 0, null_mut()), PerduraMapCode::Ok);
            assert_eq!(call_on(map.as_ref(), || panic!("a defect")), PerduraMapCode::Internal);
            assert_eq!(perdura_map_put(map, null(), 0, null(), 0, null_mut()), PerduraMapCode::Internal);
            let code = perdura_map_read(map, null(), 0, PERDURA_MAP_NEWEST, null_mut(), 0, &mut length);
            assert_eq!((code, length), (PerduraMapCode::Ok, 0));
            assert_eq!(perdura_map_close(map), PerduraMapCode::Ok);
            perdura_map_directory_close(directory);
        }
    }
}
