//! Hazard: a process that has mapped thousands of files, one after the other, must be able to map
//! more. libpmem2 1.12 keeps a thread key for every mapping it is told of, and aborts when a
//! process has none left (there are 1024).

use perdura_pmem::{FileMedium, Medium, Options};

#[test]
fn a_process_may_map_thousands_of_files() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { emulate: true, create_dir: false };
    let medium = FileMedium::open(directory.path(), options).unwrap();
    medium.create("one", 4096).unwrap().persist(0, 64);
    for _ in 0..3000 {
        let region = medium.open("one").unwrap();
        region.persist(0, 64);
        region.deep_flush(0, 64).unwrap();
    }
    drop(medium);
    FileMedium::open(directory.path(), options).unwrap();
}
