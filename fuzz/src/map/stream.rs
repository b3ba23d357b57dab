//! The chunks of a snapshot, changed, omitted, repeated or reordered.

use super::input::Input;
use super::model::{Model, read_all, write_all};
use super::subject::{NAME, config, create, kind, subject};
use perdura_map::{ErrorKind, OrderedMap, open};
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;

/// Sends a snapshot to a map. In the first byte, bit 0 chooses the structure that sends, bit 1 the
/// one that receives, the next three the length of the chunks. The rest says what is done to the
/// stream.
pub fn stream(data: &[u8]) {
    let mut input = Input(data);
    let choice = input.u8();
    let sent = subject(kind(choice & 1 != 0), false);
    let model = sent.states.last().expect("states");
    let chunks = chunks(&sent.image, 64 << (choice >> 2 & 7));
    let changed = change(&chunks, &mut input);

    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    let target = create(&medium, kind(choice & 2 != 0), 256);
    let mut before = Model::default();
    target.set(1, b"k before", b"there").expect("room");
    before.set(1, b"k before", Some(b"there"));
    target.persist().expect("a medium that works");
    let loaded = load(&*target, &changed);
    assert!(loaded || changed != chunks, "a sound snapshot is refused");
    // The map has all of the snapshot or all of its old content.
    let mut model = if loaded { model.clone() } else { before };
    assert_eq!(read_all(&*target, Some(&model)), 0, "loaded: {loaded}, but not readable");
    assert!(target.check().is_ok(), "loaded: {loaded}, but not sound");
    write_all(&*target, Some(&mut model));
    target.persist().expect("a sound map");
    drop(target);
    let target = open(&medium, NAME, &config()).expect("a sound map");
    assert_eq!(read_all(&*target, Some(&model)), 0, "loaded: {loaded}, but not there after reopening");
}

fn chunks(image: &perdura_pmem::sim::Image, bytes_max: usize) -> Vec<Vec<u8>> {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image.clone()));
    let map = open(&medium, NAME, &config()).expect("a sound map");
    let snapshot = map.snapshot().expect("a sound map");
    let chunks: Vec<Vec<u8>> = snapshot.chunks(bytes_max).map(|chunk| chunk.expect("a sound map")).collect();
    assert!(chunks.iter().all(|chunk| chunk.len() <= bytes_max), "a chunk is longer than asked for");
    chunks
}

fn change(chunks: &[Vec<u8>], input: &mut Input<'_>) -> Vec<Vec<u8>> {
    let mut chunks = chunks.to_vec();
    while !input.is_over() && !chunks.is_empty() {
        let what = input.u8();
        let at = input.below(chunks.len() as u64) as usize;
        match what % 8 {
            0 => drop(chunks.remove(at)),
            1 => chunks.insert(at, chunks[at].clone()),
            2 => {
                let other = input.below(chunks.len() as u64) as usize;
                chunks.swap(at, other);
            }
            3 => {
                let length = input.below(chunks[at].len() as u64 + 1) as usize;
                chunks[at].truncate(length);
            }
            4 => {
                let more = input.bytes(usize::from(what / 8));
                chunks[at].extend_from_slice(more);
            }
            5 => chunks[at] = input.bytes(usize::from(what)).to_vec(),
            _ => input.change(&mut chunks[at]),
        }
    }
    chunks
}

/// Whether the map loaded the stream. The sender goes on after an error at one chunk.
fn load(map: &dyn OrderedMap, chunks: &[Vec<u8>]) -> bool {
    let mut loader = map.load_snapshot().expect("a sound map");
    let mut refused = false;
    for chunk in chunks {
        if let Err(error) = loader.push(chunk) {
            expected(error.kind());
            refused = true;
        }
    }
    match loader.finish() {
        Ok(()) => {
            assert!(!refused, "a chunk was refused, and the stream taken");
            true
        }
        Err(error) => {
            expected(error.kind());
            false
        }
    }
}

fn expected(kind: ErrorKind) {
    assert!(matches!(kind, ErrorKind::Damaged | ErrorKind::Full), "a changed stream was refused as {kind:?}");
}
