//! Damages a map's file, then opens, reads, audits, collects, changes and reopens the map.

use super::forge::forge;
use super::input::Input;
use super::model::{Model, read_all, write_all};
use super::subject::{FILE_BYTES, NAME, Subject, config, kind, subject};
use perdura_map::{BTree, ErrorKind, List, Position, open};
use perdura_pmem::sim::Image;
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;

/// Damages a map's file. In the first byte, bit 0 chooses the structure, bit 1 the page size, bit 2
/// corrects the checksums of what is changed, bit 3 truncates or extends the file. The rest says
/// what to change.
pub fn region(data: &[u8]) {
    let mut input = Input(data);
    let choice = input.u8();
    let subject = subject(kind(choice & 1 != 0), choice & 2 != 0);
    let mut bytes = subject.image.bytes_of(NAME).expect("the map's file");
    if choice & 4 != 0 {
        forge(&mut bytes, &mut input);
    } else if choice & 8 != 0 {
        bytes.resize(input.below(bytes.len() as u64 * 2) as usize, 0);
    }
    while !input.is_over() {
        input.change(&mut bytes);
    }
    let image = Image::from_files([(NAME, bytes.as_slice())]);
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image));
    judge(subject, &medium, choice & 4 == 0);
}

/// Uses what opens. `covered`: no checksum was corrected, so damage must be found or harmless.
fn judge(subject: &Subject, medium: &Arc<dyn Medium>, covered: bool) {
    // One of them is of the other kind, and both may be damaged: errors are fine.
    let _ = (List::open(medium, NAME, &config()).err(), BTree::open(medium, NAME, &config()).err());
    let Ok(map) = open(medium, NAME, &config()) else { return };
    let state = subject.states.last().expect("states");
    let mut model: Option<Model> = covered.then(|| state.clone());
    if covered {
        assert_eq!(map.timestamps(), state.stands, "opened as of something else than the newest persist");
    }
    let errors = read_all(&*map, model.as_ref());
    let sound = map.check().is_ok();
    if covered && sound {
        assert_eq!(errors, 0, "found sound, but not readable");
        assert_eq!(read_all(&*map, model.as_ref()), 0, "found sound, but not readable");
    }
    let _ = (map.space(), map.collect());
    read_all(&*map, model.as_ref());
    snapshot(&*map);
    write_all(&*map, model.as_mut());
    let persisted = map.persist().is_ok();
    let stands = map.timestamps();
    drop(map);
    let Ok(map) = open(medium, NAME, &config()) else { return };
    if covered && persisted {
        assert_eq!(map.timestamps(), stands, "what was persisted is not there after reopening");
    }
    read_all(&*map, if persisted { model.as_ref() } else { None });
    let _ = map.check();
    // A load that ends early leaves a map that says so, and can be loaded.
    if map.reset_and_load().map(drop).is_ok() {
        assert!(map.get(b"k", 0).is_err_and(|error| error.kind() == ErrorKind::Partial));
        assert!(map.load_snapshot().is_ok());
    }
}

/// Takes a snapshot with a limit and streams it to the end, each chunk in a stream of its own.
fn snapshot(map: &dyn perdura_map::OrderedMap) {
    let Ok(snapshot) = map.snapshot_within(FILE_BYTES) else { return };
    let (mut position, mut count) = (Position::default(), 0);
    loop {
        let mut stream = snapshot.resume(&position, 512);
        let Some(Ok(_)) = stream.next() else { return };
        position = stream.position();
        count += 1;
        assert!(count < 100_000, "a stream does not end");
    }
}
