//! Modelled media: files are the same with every model and without, what is charged is counted, and
//! the mode says that it is a model.

use perdura_pmem::{FileMedium, Medium, Mode, Model, Options, Preset, counters};

const OPTIONS: Options = Options { emulate: true, create_dir: false };

fn open(directory: &tempfile::TempDir, model: Option<Model>) -> FileMedium {
    let medium = FileMedium::open(directory.path(), OPTIONS).expect("the directory opens");
    medium.with_model(model).expect("emulated memory takes a model")
}

fn models() -> Vec<Option<Model>> {
    let presets = Preset::ALL.into_iter().flat_map(|preset| [Model::new(preset), Model::new(preset).on_node(1)]);
    presets.map(Some).chain([None]).collect()
}

/// A pool that is moved from one model to another has nothing of either.
#[test]
fn files_are_the_same_with_every_model_and_without() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    open(&directory, None).create("file", 8192).expect("there is room").zero(0, 8192);
    for (number, model) in models().into_iter().enumerate() {
        let medium = open(&directory, model);
        let region = medium.open("file").expect("it is there");
        let number = number as u64;
        assert_eq!(region.load(0), number, "what the one before has stored, {model:?}");
        region.store(0, number + 1);
        region.write(100, &number.to_le_bytes());
        region.persist(0, 108);
        region.write_nt(4096, &[number as u8; 200]);
        region.zero(4200, 10);
        region.fence();
        let mut found = [0; 8];
        region.read(100, &mut found);
        assert_eq!(u64::from_le_bytes(found), number);
        assert_eq!(region.words(0, 2).next(), Some(number + 1));
        assert_eq!(region.load_pair(0).map(|pair| pair[0]), Some(number + 1));
        region.prefetch(8191);
        // SAFETY: nobody stores while the slice lives.
        let bytes = unsafe { region.slice(4096, 200) };
        let is_right = |(at, byte): (usize, &u8)| *byte == if (104..114).contains(&at) { 0 } else { number as u8 };
        assert!(bytes.iter().enumerate().all(is_right), "{model:?}");
    }
}

/// Whatever passes the door is charged; without a model nothing is.
#[test]
fn charges_are_counted_by_the_kind_of_access() {
    let charged = |model: Option<Model>| {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let medium = open(&directory, model);
        let region = medium.create("file", 1 << 20).expect("there is room");
        let before = counters();
        for line in 0..1000 {
            region.write_nt(line * 64, &[1; 64]);
            region.fence();
        }
        let since = counters().since(&before);
        (since.modelled_ps / 1000, since.modelled_device_ps / 1000)
    };
    // Other tests of this program may have been charged at the same time, never for less.
    let (thread, device) = charged(Some(Model::new(Preset::Optane)));
    assert!(thread >= 132_000, "120 ns for the fence and 12 for the line: {thread} ps");
    assert!(device >= 26_900, "a quarter of 111 ns for a block, less eight that are begun: {device} ps");
    assert!(charged(Some(Model::new(Preset::NvCmm))).0 >= 102_000);
}

#[test]
fn the_mode_says_that_it_is_a_model() {
    for model in models() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let info = open(&directory, model).info();
        assert!(info.mode.is_emulated());
        let shown = info.to_string();
        match model {
            None => assert!(info.mode == Mode::Emulated && !shown.contains("modelled"), "{shown}"),
            Some(model) => assert!(shown.starts_with(&format!("mode emulated, modelled {model}, ")), "{shown}"),
        }
        assert!(shown.ends_with("(data survive a process crash, not a power loss)"), "{shown}");
    }
}
