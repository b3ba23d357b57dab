//! The simulated medium beyond what every medium does: recycled memory, failing syncs, images in
//! and out, counters.

use perdura_pmem::sim::Image;
use perdura_pmem::{ErrorKind, Medium, SimMedium, counters};

/// Buffers are recycled between images; what one pool held must never show in another.
#[test]
fn recycled_memory_shows_nothing_of_its_past() {
    for _ in 0..3 {
        let medium = SimMedium::new();
        let region = medium.create("f", 3 << 20).expect("there is room");
        for offset in (0..3 << 20).step_by(512) {
            assert_eq!(region.load(offset), 0);
            region.store(offset, u64::MAX);
        }
    }
    let page = vec![7; 4096 + 100];
    let region = SimMedium::from_image(Image::from_files([("f", &page[..])])).open("f").expect("it is there");
    let mut found = vec![0; page.len()];
    region.read(0, &mut found);
    assert_eq!((region.len(), found), (4196, page));
}

#[test]
fn images_go_in_and_out_unchanged() {
    let files = [("b", &[1, 2, 3][..]), ("a", &[0; 5000][..]), ("empty", &[][..])];
    let image = Image::from_files(files);
    let medium = SimMedium::from_image(image.clone());
    medium.open("b").expect("it is there");
    assert_eq!(image.list(), medium.list().expect("it lists"));
    assert_eq!(image.list().iter().map(|(_, bytes)| bytes).sum::<u64>(), 5003);
    for (name, bytes) in files {
        assert_eq!(medium.image().bytes_of(name).as_deref(), Some(bytes));
    }
    medium.open("b").expect("it is there").write(1, &[9]);
    assert_eq!(image.bytes_of("b").as_deref(), Some(&[1, 2, 3][..]), "an image does not change with its medium");
    assert_eq!(medium.image().bytes_of("b").as_deref(), Some(&[1, 9, 3][..]));
    assert_ne!(image.hash(), medium.image().hash());
    let directory = tempfile::tempdir().expect("a temporary directory");
    medium.image().write_to(directory.path()).expect("there is room");
    assert_eq!(std::fs::read(directory.path().join("b")).expect("it is there"), [1, 9, 3]);
}

/// A failed persist must be noticed by the layers above (I11); this is how their tests bring one
/// about.
#[test]
fn syncs_fail_when_told_to() {
    let medium = SimMedium::new();
    let region = medium.create("f", 64).expect("there is room");
    medium.fail_syncs(true);
    assert_eq!(region.sync().err().map(|error| error.kind()), Some(ErrorKind::Io));
    assert_eq!(region.deep_flush(0, 64).err().map(|error| error.kind()), Some(ErrorKind::Io));
    assert_eq!(medium.sync_dir().err().map(|error| error.kind()), Some(ErrorKind::Io));
    medium.fail_syncs(false);
    region.sync().expect("it works again");
}

#[test]
fn counters_keep_what_ended_threads_did() {
    let before = counters();
    let region = SimMedium::new().create("f", 4096).expect("there is room");
    for _ in 0..8 {
        let region = region.clone();
        let thread = std::thread::spawn(move || {
            region.store(0, 1);
            region.write(10, &[0; 20]);
            region.write_nt(100, &[0; 50]);
            region.zero(200, 100);
            region.persist(60, 8);
            region.fence();
        });
        thread.join().expect("it does not panic");
    }
    // Other tests of this process count too.
    let added = counters().since(&before);
    assert!(added.fences >= 16 && added.flushed_lines >= 16 && added.flushed_bytes() >= 1024, "{added:?}");
    assert!(added.written_bytes >= 8 * 28 && added.nt_bytes >= 8 * 150, "{added:?}");
}
