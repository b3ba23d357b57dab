//! Reports of a pool to a person: the status report, a line about the medium, notices for the error
//! log.

use super::call::call_or;
use super::engine::PerduraEngine;

/// A text for a person.
pub struct PerduraReport(String);

/// Makes the report of SHOW ENGINE PERDURA STATUS. Null only after a defect. Release it with
/// [`perdura_report_release`].
///
/// # Safety
/// `engine` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_report(engine: *const PerduraEngine) -> *mut PerduraReport {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    call_or(Some(engine), std::ptr::null_mut(), || Box::into_raw(Box::new(PerduraReport(engine.status().to_string()))))
}

/// Makes a line for the error log about the medium that the pool lies on. As [`perdura_report`]
/// otherwise.
///
/// # Safety
/// `engine` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_medium_report(engine: *const PerduraEngine) -> *mut PerduraReport {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    call_or(Some(engine), std::ptr::null_mut(), || {
        Box::into_raw(Box::new(PerduraReport(engine.status().medium.to_string())))
    })
}

/// The report's text, in UTF-8 and without a zero byte, valid until it is released. `bytes` gets
/// its length. `report` may be null: its text is empty.
///
/// # Safety
/// `report` must be null or live, `bytes` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_report_text(report: *const PerduraReport, bytes: *mut usize) -> *const u8 {
    // SAFETY: as the caller vouches for.
    unsafe {
        let text = report.as_ref().map_or("", |report| report.0.as_str());
        bytes.write(text.len());
        text.as_ptr()
    }
}

/// Releases a report, which may be null.
///
/// # Safety
/// `report` must be null or live, and nobody may use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_report_release(report: *mut PerduraReport) {
    if !report.is_null() {
        // SAFETY: as the caller vouches for.
        drop(unsafe { Box::from_raw(report) });
    }
}

/// Sets the function that takes notices for the error log: what the pool must say and no statement
/// can report, as UTF-8 text of `bytes` bytes without a zero byte. It is called at once with the
/// notices so far, later from any thread, as long as the pool is open.
///
/// # Safety
/// `engine` must be open, `notice` callable on any thread with that many bytes, as long as the pool
/// is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_set_notice_handler(
    engine: *const PerduraEngine,
    notice: unsafe extern "C" fn(text: *const u8, bytes: usize),
) {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    call_or(Some(engine), (), || {
        // SAFETY: as the caller vouches for.
        engine.set_notice_handler(move |text| unsafe { notice(text.as_ptr(), text.len()) });
    });
}
