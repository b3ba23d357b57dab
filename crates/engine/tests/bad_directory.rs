//! Hazard: a directory that cannot hold a pool is taken for one, or refused in words that do not
//! help. Each such directory is refused by name, with what to do about it.

use crate::common;

use crate::common::small;
use perdura_engine::{Engine, Error, ErrorKind, Isolation};
use perdura_pmem::{FileMedium, Medium, Options};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EMULATED: Options = Options { emulate: true, create_dir: false };

fn directory() -> tempfile::TempDir {
    common::directory()
}

/// The error of opening a directory; it must name the directory.
fn refused(directory: &Path, options: Options) -> Error {
    let error = Error::from(FileMedium::open(directory, options).map(|_| ()).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Medium, "{error}");
    assert!(error.to_string().contains(directory.to_str().unwrap()), "{error}");
    error
}

#[test]
fn a_missing_directory() {
    let parent = directory();
    let missing = parent.path().join("missing");
    assert!(refused(&missing, EMULATED).to_string().contains("check the path"));
    let options = Options { create_dir: true, ..EMULATED };
    assert!(refused(&missing.join("deeper"), options).to_string().contains("check the path"));
    let medium = FileMedium::open(&missing, options).expect("its parent is there");
    Engine::open(Arc::new(medium), small()).unwrap().create_table("t", b"").unwrap();
}

#[test]
fn a_file_instead_of_a_directory() {
    let parent = directory();
    let file = parent.path().join("file");
    std::fs::write(&file, b"text").unwrap();
    for create_dir in [false, true] {
        assert!(refused(&file, Options { create_dir, ..EMULATED }).to_string().contains("Not a directory"));
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"text");
}

#[test]
fn an_unwritable_directory() {
    use std::os::unix::fs::PermissionsExt;
    let own = directory();
    std::fs::set_permissions(own.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    // Permissions do not stop root, but even root cannot create a file in /sys/kernel.
    let unwritable = match std::fs::write(own.path().join("probe"), b"") {
        Ok(()) => PathBuf::from("/sys/kernel"),
        Err(_) => own.path().to_owned(),
    };
    let error = refused(&unwritable, EMULATED);
    assert!(error.to_string().contains("the owner of the directory"), "{error}");
}

#[test]
fn a_directory_that_is_not_dax_needs_a_word() {
    let own = directory();
    let error = refused(own.path(), Options::default());
    let text = error.to_string();
    assert!(text.contains("-o dax") && text.contains("emulation"), "{text}");
    assert!(
        std::fs::read_dir(own.path()).unwrap().all(|entry| entry.unwrap().file_name() == ".lock"),
        "nothing is left"
    );
}

#[test]
fn a_directory_in_use() {
    let own = directory();
    let medium: Arc<dyn Medium> = Arc::new(FileMedium::open(own.path(), EMULATED).unwrap());
    let engine = Engine::open(medium.clone(), small()).unwrap();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.insert(&table, b"row").unwrap();
    for _ in 0..3 {
        assert!(refused(own.path(), EMULATED).to_string().contains("in use by another server"));
    }
    txn.commit().unwrap();
    engine.close();
    drop((txn, table, engine, medium));
    let medium = FileMedium::open(own.path(), EMULATED).expect("it was given back");
    let engine = Engine::open(Arc::new(medium), small()).unwrap();
    assert_eq!(common::committed(&engine, &engine.table("t").unwrap()), vec![b"row".to_vec()]);
}

/// A data file that cannot be opened, here because it became a directory, is refused by its own
/// name.
#[test]
fn a_file_that_cannot_be_opened() {
    let own = directory();
    let open = || -> Arc<dyn Medium> { Arc::new(FileMedium::open(own.path(), EMULATED).unwrap()) };
    Engine::open(open(), small()).unwrap().create_table("t", b"").unwrap();
    let file = own.path().join("t.00000002.00000");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let engine = Engine::open(open(), small()).unwrap();
    for _ in 0..2 {
        let error = engine.table("t").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert!(error.to_string().contains("t.00000002.00000"), "{error}");
    }
    std::fs::remove_dir(&file).unwrap();
    std::fs::write(&file, bytes).unwrap();
    engine.table("t").expect("it is tried again");
}

/// Hazard: an engine dropped without close, with its thread running and a transaction prepared,
/// keeps the directory locked. The directory must be free for the next engine.
#[test]
fn a_directory_of_an_engine_that_was_dropped() {
    let own = directory();
    for round in 0..3u8 {
        let medium: Arc<dyn Medium> = Arc::new(FileMedium::open(own.path(), EMULATED).unwrap());
        let engine =
            Engine::open(medium, perdura_engine::Config { background: true, prefault: true, ..small() }).unwrap();
        assert_eq!(engine.prepared().len(), usize::from(round));
        let table = engine.table("t").or_else(|_| engine.create_table("t", b"")).unwrap();
        let mut txn = engine.session(Isolation::ReadCommitted);
        txn.insert(&table, &[round]).unwrap();
        txn.prepare(&[round]).unwrap();
        drop(txn);
        assert_eq!(engine.prepared().len(), usize::from(round) + 1);
    }
}
