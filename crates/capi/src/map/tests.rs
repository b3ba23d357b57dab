//! Hazard: a map that is changed, or persisted by its close, after a panic left it half changed.

use super::call::call_on;
use super::change::perdura_map_put;
use super::code::PerduraMapCode;
use super::directory::{perdura_map_directory_close, perdura_map_directory_open};
use super::open::{PERDURA_MAP_LIST, PerduraMap, perdura_map_close, perdura_map_create, perdura_map_layout};
use super::read::{PERDURA_MAP_NEWEST, perdura_map_read};
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
        let code = call_on(map.as_ref().map(PerduraMap::fail_stop), || panic!("a defect"));
        assert_eq!(code, PerduraMapCode::Internal);
        assert_eq!(perdura_map_put(map, null(), 0, null(), 0, null_mut()), PerduraMapCode::Internal);
        let code = perdura_map_read(map, null(), 0, PERDURA_MAP_NEWEST, null_mut(), 0, &mut length);
        assert_eq!((code, length), (PerduraMapCode::Ok, 0));
        assert_eq!(perdura_map_close(map), PerduraMapCode::Ok);
        perdura_map_directory_close(directory);
    }
}
