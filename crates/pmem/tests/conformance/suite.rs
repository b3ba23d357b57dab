//! The checks, each on an empty medium.

use perdura_pmem::{ErrorKind, Medium};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A check of the suite.
pub type Check = fn(&dyn Medium);

/// All checks by name.
pub const CHECKS: &[(&str, Check)] = &[
    ("created files are zero and listed", created_files_are_zero_and_listed),
    ("files keep content and length", files_keep_content_and_length),
    ("mappings of one file agree", mappings_of_one_file_agree),
    ("every alignment is copied exactly", every_alignment_is_copied_exactly),
    ("words are exchanged once", words_are_exchanged_once),
    ("words are loaded together", words_are_loaded_together),
    ("removed files stay mapped", removed_files_stay_mapped),
    ("released files stay mapped", released_files_stay_mapped),
    ("a rename replaces", a_rename_replaces),
    ("a region is renamed by who has it alone", a_region_is_renamed_by_who_has_it_alone),
    ("missing and existing files are told", missing_and_existing_files_are_told),
    ("bad names are refused", bad_names_are_refused),
    ("out of bounds panics", out_of_bounds_panics),
    ("empty files can be opened", empty_files_can_be_opened),
    ("populating keeps content", populating_keeps_content),
    ("threads see each other's words", threads_see_each_others_words),
];

fn created_files_are_zero_and_listed(medium: &dyn Medium) {
    let region = medium.create("b.01", 10_000).expect("there is room");
    medium.create("a", 64).expect("there is room");
    assert_eq!((region.len(), region.name()), (10_000, "b.01"));
    let mut bytes = vec![1; 10_000];
    region.read(0, &mut bytes);
    assert!(bytes.iter().all(|byte| *byte == 0));
    region.sync().expect("sync");
    medium.sync_dir().expect("sync of the directory");
    assert_eq!(medium.list().expect("it lists"), [("a".to_owned(), 64), ("b.01".to_owned(), 10_000)]);
}

fn files_keep_content_and_length(medium: &dyn Medium) {
    let region = medium.create("kept", 8192).expect("there is room");
    region.store(4096, 0x0123_4567_89ab_cdef);
    region.persist(4096, 8);
    region.deep_flush(4096, 8).expect("deep flush");
    region.sync().expect("sync");
    drop(region);
    let region = medium.open("kept").expect("it exists");
    assert_eq!((region.len(), region.load(4096), region.load(0)), (8192, 0x0123_4567_89ab_cdef, 0));
    let mut bytes = [0; 2];
    region.read(4096, &mut bytes);
    assert_eq!(bytes, [0xef, 0xcd], "words are little-endian");
}

fn mappings_of_one_file_agree(medium: &dyn Medium) {
    let first = medium.create("shared", 4096).expect("there is room");
    let second = medium.open("shared").expect("it exists");
    first.store(8, 7);
    assert_eq!(second.load(8), 7);
}

fn every_alignment_is_copied_exactly(medium: &dyn Medium) {
    let region = medium.create("copies", 4096).expect("there is room");
    let source: Vec<u8> = (0..600).map(|n| (n % 251) as u8 + 1).collect();
    for len in [0, 1, 7, 8, 9, 63, 64, 65, 300, 513] {
        for offset in (0..70).chain([4096 - len as u64]) {
            for nt in [false, true] {
                region.zero(0, 4096);
                if nt {
                    region.write_nt(offset, &source[..len])
                } else {
                    region.write(offset, &source[..len])
                }
                region.flush(offset, len as u64);
                region.fence();
                let mut expected = vec![0; 4096];
                expected[offset as usize..][..len].copy_from_slice(&source[..len]);
                // SAFETY: nobody stores while the slice is compared.
                let found = unsafe { region.slice(0, 4096) };
                assert!(found == expected, "{len} bytes at {offset}, non-temporal {nt}");
            }
        }
    }
}

fn words_are_exchanged_once(medium: &dyn Medium) {
    let region = medium.create("words", 64).expect("there is room");
    assert_eq!(region.compare_exchange(56, 0, 5), Ok(0));
    assert_eq!(region.compare_exchange(56, 0, 6), Err(5));
    assert_eq!(region.load(56), 5);
}

fn words_are_loaded_together(medium: &dyn Medium) {
    let region = medium.create("together", 64).expect("there is room");
    (0..8).for_each(|word| region.store(word * 8, word + 1));
    assert!(region.words(8, 7).eq(2..=8) && region.words(64, 0).next().is_none());
    assert_eq!(region.load_pair(48), Some([7, 8]));
    // Asked of places that nothing has checked.
    assert!([56, 64, 44, u64::MAX - 7].iter().all(|at| region.load_pair(*at).is_none()));
    [0, 63, 64, u64::MAX].iter().for_each(|at| region.prefetch(*at));
}

fn removed_files_stay_mapped(medium: &dyn Medium) {
    let region = medium.create("gone", 4096).expect("there is room");
    medium.remove("gone").expect("it exists");
    region.store(0, 1);
    region.persist(0, 8);
    assert_eq!(region.load(0), 1);
    let again = medium.create("gone", 4096).expect("the name is free");
    assert_eq!(again.load(0), 0);
}

fn released_files_stay_mapped(medium: &dyn Medium) {
    let region = medium.create("given.back", 3 << 20).expect("there is room");
    region.store(8192, 7);
    region.persist(8192, 8);
    medium.remove("given.back").expect("it exists");
    region.release();
    assert!([0, 7].contains(&region.load(8192)), "zero, or as before");
    region.release();
    if region.advise_populate(0, region.len()).is_ok() {
        assert!([0, 7].contains(&region.load(8192)), "nothing comes back");
    }
    let next = medium.create("given.back", 4096).expect("the name is free");
    next.store(0, 9);
    assert!(region.load(0) != 9, "another file");
}

fn a_rename_replaces(medium: &dyn Medium) {
    medium.create("super.new", 4096).expect("there is room").store(0, 2);
    medium.create("super", 64).expect("there is room");
    medium.rename("super.new", "super").expect("it exists");
    assert_eq!(medium.list().expect("it lists"), [("super".to_owned(), 4096)]);
    assert_eq!(medium.open("super").expect("it exists").load(0), 2);
}

fn a_region_is_renamed_by_who_has_it_alone(medium: &dyn Medium) {
    let mut region = medium.create("old", 4096).expect("there is room");
    region.store(0, 5);
    let clone = region.clone();
    assert!(!region.rename("new"), "a clone has the mapping");
    assert_eq!((region.name(), clone.name()), ("old", "old"));
    drop(clone);
    medium.rename("old", "new").expect("it exists");
    assert!(region.rename("new"));
    assert_eq!((region.name(), region.load(0)), ("new", 5));
    region.sync().expect("sync");
    region.store(8, 6);
    assert_eq!(medium.open("new").expect("it exists").load(8), 6, "it is the same file");
}

fn missing_and_existing_files_are_told(medium: &dyn Medium) {
    medium.create("here", 64).expect("there is room");
    assert_eq!(medium.create("here", 64).err().map(|error| error.kind()), Some(ErrorKind::Exists));
    assert_eq!(medium.open("absent").err().map(|error| error.kind()), Some(ErrorKind::NotFound));
    assert_eq!(medium.remove("absent").err().map(|error| error.kind()), Some(ErrorKind::NotFound));
    assert_eq!(medium.rename("absent", "here").err().map(|error| error.kind()), Some(ErrorKind::NotFound));
    let error = medium.open("absent").expect_err("absent");
    assert!(error.to_string().contains("absent"), "the error names the file: {error}");
    assert_eq!(medium.list().expect("it lists").len(), 1);
}

fn bad_names_are_refused(medium: &dyn Medium) {
    for name in ["", ".", "..", ".lock", "a/b", "../a", "A", "a-b", "a\0"] {
        assert!(medium.create(name, 64).is_err(), "{name:?}");
        assert!(medium.open(name).is_err(), "{name:?}");
        assert!(medium.remove(name).is_err(), "{name:?}");
    }
    assert!(medium.list().expect("it lists").is_empty());
}

fn out_of_bounds_panics(medium: &dyn Medium) {
    let region = medium.create("bounds", 4096).expect("there is room");
    let panics = |name: &str, action: &dyn Fn()| {
        assert!(catch_unwind(AssertUnwindSafe(action)).is_err(), "{name} must panic");
    };
    panics("load", &|| assert_eq!(region.load(4096), 0));
    panics("misaligned load", &|| assert_eq!(region.load(4), 0));
    panics("words", &|| assert_eq!(region.words(8, 512).len(), 512));
    panics("misaligned words", &|| assert_eq!(region.words(4, 1).len(), 1));
    panics("store", &|| region.store(u64::MAX - 7, 1));
    panics("exchange", &|| assert!(region.compare_exchange(4096, 0, 1).is_ok()));
    panics("write", &|| region.write(4090, &[0; 7]));
    panics("write_nt", &|| region.write_nt(4097, &[]));
    panics("zero", &|| region.zero(1, 4096));
    panics("flush", &|| region.flush(u64::MAX, 2));
    panics("read", &|| region.read(4096, &mut [0]));
    panics("populate", &|| drop(region.advise_populate(0, 4097)));
    region.write(4096, &[]);
    region.read(4095, &mut [0]);
}

fn empty_files_can_be_opened(medium: &dyn Medium) {
    let region = medium.create("empty", 0).expect("it needs no room");
    assert!(region.is_empty());
    region.flush(0, 0);
    region.fence();
    region.sync().expect("sync");
    region.deep_flush(0, 0).expect("deep flush");
    assert_eq!(medium.open("empty").expect("it exists").len(), 0);
}

fn populating_keeps_content(medium: &dyn Medium) {
    let region = medium.create("populated", 3 << 20).expect("there is room");
    region.store(1 << 20, 9);
    region.advise_populate(4000, (3 << 20) - 4000).expect("pages are mapped");
    region.advise_populate(0, 0).expect("nothing to do");
    assert_eq!(region.load(1 << 20), 9);
}

fn threads_see_each_others_words(medium: &dyn Medium) {
    let region = medium.create("threads", 4096).expect("there is room");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    let mut seen = region.load(0);
                    while let Err(found) = region.compare_exchange(0, seen, seen + 1) {
                        seen = found;
                    }
                }
            });
        }
    });
    assert_eq!(region.load(0), 4000);
}
