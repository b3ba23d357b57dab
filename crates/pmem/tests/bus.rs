//! Pages that cannot be read: the process goes on, and the medium has failed. Other faults are left
//! to the handler that was there before, in a child process each. Tests (I11).

use crate::paged::Disk;
use perdura_pmem::{ErrorKind, Medium};
use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::ptr;

/// Cuts a file as somebody else might.
fn cut(disk: &Disk, name: &str, len: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(disk.path(name)).expect("it exists");
    file.set_len(len).expect("it is writable");
}

#[test]
fn a_page_that_cannot_be_read_is_zero_and_ends_the_medium() {
    let disk = Disk::new();
    let (cut_off, other) = (disk.file("cut", 64 << 10), disk.file("other", 4096));
    cut_off.store(0, 1);
    cut_off.store(8192, 2);
    other.store(0, 3);
    cut_off.persist(0, 16 << 10);
    other.persist(0, 8);
    cut(&disk, "cut", 4096);
    disk.medium.health().check().expect("nobody has looked yet");
    assert_eq!((cut_off.load(8192), cut_off.load(0)), (0, 1));
    let error = disk.medium.health().check().expect_err("a page is missing");
    let path = disk.path("cut").display().to_string();
    assert_eq!(
        (error.kind(), error.file(), error.offset()),
        (ErrorKind::Poisoned, Some(&*path), Some(8192)),
        "{error}"
    );
    assert!(error.to_string().contains("restore the file from a backup"), "{error}");

    // Nothing that is made of zeros may reach a file.
    cut_off.store(12288, 4);
    cut_off.store(0, 4);
    other.store(0, 4);
    other.persist(0, 8);
    assert_eq!((cut_off.load(12288), other.load(0)), (4, 4));
    assert_eq!((disk.word_in_file("cut", 0), disk.word_in_file("other", 0)), (1, 3));
    drop((cut_off, other));
    assert_eq!(disk.medium.health().check().expect_err("it stays").file(), Some(&*path));
}

#[test]
fn a_store_to_a_page_that_is_gone_ends_the_medium_and_a_closed_file_is_still_named() {
    let disk = Disk::new();
    let (region, other) = (disk.file("cut", 16 << 10), Disk::new());
    cut(&disk, "cut", 0);
    region.store(4096, 1);
    drop(region);
    let error = disk.medium.health().check().expect_err("a page is missing");
    assert_eq!((error.file(), error.offset()), (disk.path("cut").to_str(), Some(4096)), "{error}");
    other.medium.health().check().expect("another medium is none the worse");
}

#[test]
fn threads_that_meet_one_missing_page_all_go_on() {
    let disk = Disk::new();
    let region = disk.file("cut", 4 << 20);
    cut(&disk, "cut", 0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1024).for_each(|page| assert_eq!(region.load(page * 4096), 0)));
        }
    });
    disk.medium.health().check().expect_err("pages are missing");
}

/// The register of mappings grows; each is found.
#[test]
fn hundreds_of_mappings_are_told_apart() {
    let disk = Disk::new();
    drop(disk.file("one", 8192));
    let regions: Vec<_> = (0..300).map(|_| disk.medium.open("one").expect("it exists")).collect();
    drop(disk.file("two", 8192));
    let last = disk.medium.open("two").expect("it exists");
    cut(&disk, "two", 4096);
    assert_eq!(last.load(4096), 0);
    regions[299].store(0, 1);
    let error = disk.medium.health().check().expect_err("a page is missing");
    assert_eq!(error.file(), disk.path("two").to_str(), "{error}");
    assert_eq!((regions[0].load(0), disk.word_in_file("one", 0)), (0, 0), "each mapping is private by now");
}

/// Exit status by which a child's own handler ends it.
const SEEN: c_int = 41;
const VARIABLE: &str = "PERDURA_TEST_BUS";

/// How this child ends.
fn child(manner: &str) -> ExitStatus {
    let mut command = Command::new(std::env::current_exe().expect("this program's path"));
    command.args(["--exact", "bus::a_child_of_these_tests", "--test-threads=1"]).env(VARIABLE, manner);
    command.output().expect("it starts").status
}

#[test]
fn a_fault_elsewhere_goes_to_the_handler_that_was_there() {
    assert_eq!(child("detailed").code(), Some(SEEN), "a handler of details");
    assert_eq!(child("plain").code(), Some(SEEN), "a handler of the number, once");
    assert_eq!(child("sent").code(), Some(SEEN), "a signal that somebody sends");
}

#[test]
fn a_fault_elsewhere_ends_a_process_without_a_handler() {
    assert_eq!(child("default").signal(), Some(libc::SIGBUS));
    assert_eq!(child("default sent").signal(), Some(libc::SIGBUS));
}

extern "C" fn detailed(signal: c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel's own; to exit so is async-signal-safe.
    unsafe { libc::_exit(if signal == libc::SIGBUS && (*info).si_signo == signal { SEEN } else { 1 }) }
}

extern "C" fn plain(signal: c_int) {
    // SAFETY: both are async-signal-safe.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, ptr::null(), &mut now);
        // It asked to be called once.
        libc::_exit(if now.sa_sigaction == libc::SIG_DFL { SEEN } else { 1 })
    }
}

/// Does nothing unless one of the tests above runs it.
#[test]
fn a_child_of_these_tests() {
    let Ok(manner) = std::env::var(VARIABLE) else { return };
    let (handler, flags) = match &*manner {
        "detailed" | "sent" => (detailed as *const () as usize, libc::SA_SIGINFO),
        "plain" => (plain as *const () as usize, libc::SA_RESETHAND),
        _ => (libc::SIG_DFL, 0),
    };
    // SAFETY: a valid action; its handlers are async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (action.sa_sigaction, action.sa_flags) = (handler, flags);
        libc::sigaction(libc::SIGBUS, &action, ptr::null_mut());
    }
    let disk = Disk::new();
    let region = disk.file("cut", 8192);
    cut(&disk, "cut", 0);
    assert_eq!(region.load(4096), 0, "a fault of the medium is answered");
    if manner.ends_with("sent") {
        // SAFETY: to send a signal has no precondition.
        unsafe { libc::raise(libc::SIGBUS) };
    } else {
        let foreign = tempfile::tempfile().expect("a temporary file");
        // SAFETY: a mapping of our own, which ends with the process; that its page is missing is
        // what the test is about.
        unsafe {
            let page = libc::mmap(ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, foreign.as_raw_fd(), 0);
            assert_ne!(page, libc::MAP_FAILED);
            std::hint::black_box(page.cast::<u8>().read_volatile());
        }
    }
    unreachable!("the fault has ended the process");
}
