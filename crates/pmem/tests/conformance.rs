//! Conformance of media: one suite, run on files and on the simulated medium.

use perdura_pmem::{ErrorKind, FileMedium, Medium, Mode, Options, SimMedium, trace};
use std::sync::Arc;

#[path = "conformance/suite.rs"]
mod suite;

/// Runs every check of the suite on a fresh medium each.
fn conforms<M: Medium>(fresh: impl Fn() -> M) {
    for (name, check) in suite::CHECKS {
        eprintln!("{name}");
        check(&fresh());
    }
}

#[test]
fn simulated_medium_conforms() {
    conforms(SimMedium::new);
}

#[test]
fn simulated_medium_conforms_when_recorded() {
    struct Nowhere;
    impl trace::Tap for Nowhere {
        fn record(&self, _access: trace::Access<'_>, _site: trace::Site) {}
    }
    conforms(|| SimMedium::new().recording(Arc::new(Nowhere)));
}

/// A medium of files in a directory of its own.
struct Temporary {
    medium: FileMedium,
    // Dropped after the medium.
    _directory: tempfile::TempDir,
}

impl Temporary {
    fn new() -> Temporary {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let options = Options { emulate: true, create_dir: false };
        let medium = FileMedium::open(directory.path(), options).expect("the directory opens");
        Temporary { medium, _directory: directory }
    }

    fn paged() -> Temporary {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let medium = FileMedium::open_paged(directory.path(), false).expect("the directory opens");
        Temporary { medium, _directory: directory }
    }
}

impl Medium for Temporary {
    fn create(&self, name: &str, len: u64) -> perdura_pmem::Result<perdura_pmem::Region> {
        self.medium.create(name, len)
    }
    fn open(&self, name: &str) -> perdura_pmem::Result<perdura_pmem::Region> {
        self.medium.open(name)
    }
    fn remove(&self, name: &str) -> perdura_pmem::Result<()> {
        self.medium.remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> perdura_pmem::Result<()> {
        self.medium.rename(from, to)
    }
    fn list(&self) -> perdura_pmem::Result<Vec<(String, u64)>> {
        self.medium.list()
    }
    fn sync_dir(&self) -> perdura_pmem::Result<()> {
        self.medium.sync_dir()
    }
    fn health(&self) -> perdura_pmem::Health {
        self.medium.health()
    }
    fn info(&self) -> perdura_pmem::MediumInfo {
        self.medium.info()
    }
    fn free_bytes(&self) -> Option<u64> {
        self.medium.free_bytes()
    }
}

/// The files of the log of a page medium. Their content is the process' until it is fenced, and
/// another mapping of a file shows what that has.
struct Written(Temporary);

impl Medium for Written {
    fn create(&self, name: &str, len: u64) -> perdura_pmem::Result<perdura_pmem::Region> {
        self.0.medium.create_log(name, len)
    }
    fn open(&self, name: &str) -> perdura_pmem::Result<perdura_pmem::Region> {
        self.0.medium.open_log(name)
    }
    fn remove(&self, name: &str) -> perdura_pmem::Result<()> {
        self.0.remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> perdura_pmem::Result<()> {
        self.0.rename(from, to)
    }
    fn list(&self) -> perdura_pmem::Result<Vec<(String, u64)>> {
        self.0.list()
    }
    fn sync_dir(&self) -> perdura_pmem::Result<()> {
        self.0.sync_dir()
    }
    fn health(&self) -> perdura_pmem::Health {
        self.0.health()
    }
    fn info(&self) -> perdura_pmem::MediumInfo {
        self.0.info()
    }
    fn free_bytes(&self) -> Option<u64> {
        self.0.free_bytes()
    }
}

#[test]
fn files_of_the_log_conform() {
    let others = ["mappings of one file agree", "a rename replaces", "a region is renamed by who has it alone"];
    let (shared, own): (Vec<_>, Vec<_>) = suite::CHECKS.iter().partition(|(name, _)| others.contains(name));
    assert_eq!(shared.len(), others.len());
    for (name, check) in own {
        eprintln!("{name}");
        check(&Written(Temporary::paged()));
    }
}

#[test]
fn file_medium_conforms() {
    conforms(Temporary::new);
}

#[test]
fn page_medium_conforms() {
    conforms(Temporary::paged);
}

#[test]
fn mappings_of_files_begin_at_large_pages() {
    [Temporary::new(), Temporary::paged()].iter().for_each(begin_at_large_pages);
}

fn begin_at_large_pages(medium: &Temporary) {
    for (name, len) in [("one_page", 4096), ("odd", 5000), ("large", 5 << 20)] {
        let region = medium.create(name, len).expect("there is room");
        assert_eq!(region.as_ptr() as usize % (2 << 20), 0, "{name}");
    }
}

#[test]
fn what_is_stored_is_in_the_file_itself() {
    let medium = Temporary::new();
    let region = medium.create("bytes", 8192).expect("there is room");
    region.write_nt(100, b"perdura");
    region.persist(100, 7);
    drop(region);
    let directory = medium.info().directory.expect("files have a directory");
    let bytes = std::fs::read(directory.join("bytes")).expect("the file is readable");
    assert_eq!((bytes.len(), &bytes[100..107]), (8192, &b"perdura"[..]));
}

/// Hazard: a file that was removed keeps its blocks for as long as somebody maps it.
#[test]
fn a_released_file_gives_back_its_blocks_while_it_is_mapped() {
    use std::os::unix::fs::MetadataExt;
    let medium = Temporary::new();
    let region = medium.create("given.back", 4 << 20).expect("there is room");
    let directory = medium.info().directory.expect("files have a directory");
    let file = std::fs::File::open(directory.join("given.back")).expect("it exists");
    let blocks = || file.metadata().expect("it is open").blocks();
    assert!(blocks() > 0, "blocks are reserved at the creation");
    medium.remove("given.back").expect("it exists");
    region.release();
    region.advise_populate(0, region.len()).expect("nothing is left to populate");
    assert_eq!((blocks(), region.load(4096)), (0, 0));
}

#[test]
fn a_directory_in_use_is_refused_and_named() {
    let first = Temporary::new();
    let directory = first.info().directory.expect("files have a directory");
    let options = Options { emulate: true, create_dir: false };
    let error = FileMedium::open(&directory, options).err().expect("the directory is locked");
    assert_eq!(error.kind(), ErrorKind::InUse, "{error}");
    assert!(error.to_string().contains(&directory.display().to_string()), "{error}");
    drop(first);
}

#[test]
fn a_lock_goes_with_its_medium() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let options = Options { emulate: true, create_dir: false };
    drop(FileMedium::open(directory.path(), options).expect("first"));
    drop(FileMedium::open(directory.path(), options).expect("again"));
}

#[test]
fn pages_are_refused_unless_emulated() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    match FileMedium::open(directory.path(), Options::default()) {
        // A machine whose temporary directory is persistent memory.
        Ok(medium) => assert_eq!(medium.info().mode, Mode::Dax),
        Err(error) => assert_eq!(error.kind(), ErrorKind::NotDax, "{error}"),
    }
}

#[test]
fn a_missing_directory_is_named_or_created() {
    let parent = tempfile::tempdir().expect("a temporary directory");
    let directory = parent.path().join("pool");
    let missing = FileMedium::open(&directory, Options { emulate: true, create_dir: false });
    assert_eq!(missing.err().map(|error| error.kind()), Some(ErrorKind::NotFound));
    let created = FileMedium::open(&directory, Options { emulate: true, create_dir: true }).expect("created");
    assert!(created.list().expect("it lists").is_empty(), "neither lock nor trial file is a region");
}

#[test]
fn a_file_is_no_directory() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let error = FileMedium::open(file.path(), Options { emulate: true, create_dir: true }).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
}

#[test]
fn a_file_larger_than_the_device_leaves_nothing_behind() {
    let medium = Temporary::new();
    let free = medium.free_bytes().expect("statvfs works");
    let error = medium.create("huge", free.saturating_mul(4).min(1 << 62)).expect_err("it cannot fit");
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert!(medium.list().expect("it lists").is_empty());
}

#[test]
fn a_simulated_device_is_full_until_files_are_released() {
    let medium = SimMedium::with_capacity(16 << 10);
    let first = medium.create("first", 12 << 10).expect("there is room");
    assert_eq!(medium.create("second", 8 << 10).expect_err("4 KiB are left").kind(), ErrorKind::Full);
    medium.remove("first").expect("it exists");
    assert_eq!(medium.create("second", 8 << 10).expect_err("still mapped").kind(), ErrorKind::Full);
    first.release();
    medium.create("second", 8 << 10).expect("there is room again");
    drop(first);
    assert_eq!(medium.free_bytes(), Some(8 << 10), "its room is counted once");
}

/// Opening finds out about the memory by a trial file; none of it may stay, and no region may
/// change.
#[test]
fn opening_again_leaves_the_pool_as_it_was() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let options = Options { emulate: true, create_dir: false };
    let medium = FileMedium::open(directory.path(), options).expect("the directory opens");
    medium.create("kept", 4096).expect("there is room").store(0, 77);
    drop(medium);
    std::fs::write(directory.path().join(".trial"), b"left by a killed server").expect("it is writable");
    std::fs::create_dir(directory.path().join("lost.found")).expect("it is writable");
    let medium = FileMedium::open(directory.path(), options).expect("the directory opens");
    assert_eq!(medium.list().expect("it lists"), [("kept".to_owned(), 4096)]);
    assert_eq!(medium.open("kept").expect("it exists").load(0), 77);
    assert!(!directory.path().join(".trial").exists());
}
