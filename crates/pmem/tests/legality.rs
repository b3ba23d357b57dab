//! Crash images must be legal, and every legal one must be possible: checked against the rules
//! themselves.
//!
//! The hazard: an image that no power loss can leave accuses sound code, and a missing one lets a
//! torn structure pass. The reference below keeps every store for ever and tries all choices; the
//! replay, which forgets what is settled or overtaken, must yield exactly the same set. Tests (I2).

use perdura_pmem::sim::{
    CHOICES_DEFAULT, EventKind, Image, Point, PointKind, Random, Recorder, ReplayOptions, Seen, SimMedium, Trace,
};
use perdura_pmem::{Medium, Region};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::mpsc::{Sender, channel};

/// Something to do, and whom to tell when it is done.
type Task = (Box<dyn FnOnce() + Send>, Sender<()>);

/// A thread that does what it is told, so that the test decides the order of events.
struct Worker(Sender<Task>);

impl Worker {
    fn new() -> Worker {
        let (sender, receiver) = channel::<Task>();
        std::thread::spawn(move || {
            for (work, done) in receiver {
                work();
                done.send(()).expect("the test waits");
            }
        });
        Worker(sender)
    }

    fn run(&self, work: impl FnOnce() + Send + 'static) {
        let (done, wait) = channel();
        self.0.send((Box::new(work), done)).expect("the worker lives");
        wait.recv().expect("the work does not panic");
    }
}

/// A random program of two threads over two lines, few enough stores to try every choice.
fn random_trace(seed: u64) -> Trace {
    let (medium, recorder) = Recorder::attach(SimMedium::new());
    let region = medium.create("f", 128).expect("there is room");
    region.sync().expect("sync");
    medium.sync_dir().expect("sync");
    let workers = [Worker::new(), Worker::new()];
    let mut random = Random::new(seed);
    for value in 1..=10 + random.below(6) {
        let region: Region = region.clone();
        // Few words, so that stores meet.
        let offset = random.below(2) * 64 + random.below(3) * 8;
        let action = random.below(12);
        let whole_line = random.one_in(3);
        workers[random.below(2) as usize].run(move || match action {
            0..=3 => region.store(offset, value),
            4..=5 => region.write_nt(offset, &value.to_le_bytes()),
            6 => region.write(offset + 4, &(value | value << 32).to_le_bytes()),
            7..=8 if whole_line => region.flush(0, 128),
            7..=8 => region.flush(offset, 8),
            9 => region.persist(offset, 8),
            10 => region.zero(offset, 8),
            _ => region.fence(),
        });
    }
    region.fence();
    recorder.finish()
}

struct Store {
    at: usize,
    line: usize,
    word: usize,
    value: u64,
    nt: bool,
    settled: bool,
}

/// Every legal content of the two lines just before event `end`, by trying all choices of all
/// stores made so far.
fn reference(trace: &Trace, end: usize) -> BTreeSet<[u64; 16]> {
    let mut stores: Vec<Store> = Vec::new();
    let mut flushes: BTreeMap<u16, Vec<(usize, usize)>> = BTreeMap::new();
    let mut streams: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (at, event) in trace.events()[..end].iter().enumerate() {
        match event.kind {
            EventKind::Store { word, count, values, nt, .. } => {
                for (word, value) in (word as usize..).zip(trace.values(values, count)) {
                    if nt {
                        streams.entry(event.thread).or_default().push(stores.len());
                    }
                    stores.push(Store { at, line: word / 8, word, value: *value, nt, settled: false });
                }
            }
            EventKind::Flush { line, count, .. } => {
                let lines = (line as usize..).take(count as usize).map(|line| (line, at));
                flushes.entry(event.thread).or_default().extend(lines);
            }
            EventKind::Fence => {
                for (line, flushed) in flushes.remove(&event.thread).unwrap_or_default() {
                    let captured = |store: &&mut Store| store.line == line && !store.nt && store.at < flushed;
                    stores.iter_mut().filter(captured).for_each(|store| store.settled = true);
                }
                for store in streams.remove(&event.thread).unwrap_or_default() {
                    stores[store].settled = true;
                }
            }
            _ => {}
        }
    }
    combine(&line_contents(&stores, 0), &line_contents(&stores, 1))
}

/// All legal contents of a line: any prefix of the cached stores that holds the settled ones, any
/// subset of the others.
fn line_contents(stores: &[Store], line: usize) -> BTreeSet<[u64; 8]> {
    let cached: Vec<&Store> = stores.iter().filter(|store| store.line == line && !store.nt).collect();
    let streamed: Vec<&Store> = stores.iter().filter(|store| store.line == line && store.nt).collect();
    let least = cached.iter().rposition(|store| store.settled).map_or(0, |last| last + 1);
    let mut contents = BTreeSet::new();
    for prefix in least..=cached.len() {
        for mask in 0u32..1 << streamed.len() {
            let chosen = |index: usize| mask >> index & 1 == 1;
            if streamed.iter().enumerate().any(|(index, store)| store.settled && !chosen(index)) {
                continue;
            }
            let others = streamed.iter().enumerate().filter(|(index, _)| chosen(*index)).map(|(_, store)| store);
            let mut all: Vec<&&Store> = cached[..prefix].iter().chain(others).collect();
            all.sort_by_key(|store| store.at);
            let mut content = [0; 8];
            all.iter().for_each(|store| content[store.word % 8] = store.value);
            contents.insert(content);
        }
    }
    contents
}

fn combine(first: &BTreeSet<[u64; 8]>, second: &BTreeSet<[u64; 8]>) -> BTreeSet<[u64; 16]> {
    let pair = |one: &[u64; 8], two: &[u64; 8]| {
        let mut both = [0; 16];
        both[..8].copy_from_slice(one);
        both[8..].copy_from_slice(two);
        both
    };
    first.iter().flat_map(|one| second.iter().map(move |two| pair(one, two))).collect()
}

fn words(image: &Image) -> [u64; 16] {
    let bytes = image.bytes_of("f").expect("the file is synced");
    std::array::from_fn(|word| u64::from_le_bytes(bytes[word * 8..][..8].try_into().expect("eight bytes")))
}

/// The images of a point, whatever was seen at others.
fn images(point: &Point<'_>, seed: u64, choices: usize) -> Vec<Image> {
    point.images(&mut Random::new(seed), &mut Seen::default(), choices)
}

#[test]
fn images_are_exactly_the_legal_ones() {
    let (mut points, mut partial) = (0, 0);
    for seed in 0..300 {
        let trace = random_trace(seed);
        trace.replay(&ReplayOptions::default(), |point| {
            if !matches!(point.kind, PointKind::Fence | PointKind::End) {
                return ControlFlow::Continue(());
            }
            let legal = reference(&trace, point.index);
            let mut made = BTreeSet::new();
            // Of the largest sets only legality is checked: their rarest members would take too
            // many tries.
            let rounds = if legal.len() <= 100 { 4000 } else { 20 };
            for round in 0..rounds {
                made.extend(images(point, seed << 32 | round, 100).iter().map(words));
                if made.len() >= legal.len() {
                    break;
                }
            }
            let (wrong, missing): (Vec<_>, Vec<_>) =
                (made.difference(&legal).collect(), legal.difference(&made).collect());
            assert!(wrong.is_empty(), "seed {seed}, event {}: illegal {wrong:?}", point.index);
            assert!(missing.is_empty() || rounds == 20, "seed {seed}, event {}: missing {missing:?}", point.index);
            points += 1;
            partial += usize::from(legal.len() > 4);
            ControlFlow::Continue(())
        });
    }
    assert!(points > 1000 && partial > 200, "{points} points, {partial} of them with partial lines");
}

#[test]
fn hashes_tell_images_apart_and_are_kept_rightly() {
    for seed in 0..100 {
        random_trace(seed).replay(&ReplayOptions::default(), |point| {
            let images = images(point, seed, CHOICES_DEFAULT);
            let distinct: BTreeSet<_> = images.iter().map(|image| image.list_and_bytes()).collect();
            assert_eq!(distinct.len(), images.len(), "no image is made twice");
            for image in &images {
                assert_eq!(image.hash(), image.rebuilt().hash(), "the hash is that of the content");
                let opened = SimMedium::from_image(image.clone());
                opened.list().expect("it lists").iter().for_each(|(name, _)| drop(opened.open(name)));
                assert_eq!(image.hash(), opened.image().hash(), "opening changes nothing");
            }
            ControlFlow::Continue(())
        });
    }
}

trait Rebuilt {
    fn list_and_bytes(&self) -> Vec<(String, Vec<u8>)>;
    fn rebuilt(&self) -> Image;
}

impl Rebuilt for Image {
    fn list_and_bytes(&self) -> Vec<(String, Vec<u8>)> {
        let bytes = |(name, _): (String, u64)| (name.clone(), self.bytes_of(&name).expect("listed"));
        self.list().into_iter().map(bytes).collect()
    }

    fn rebuilt(&self) -> Image {
        let files = self.list_and_bytes();
        Image::from_files(files.iter().map(|(name, bytes)| (&name[..], &bytes[..])))
    }
}

/// Names and lengths that a crash can leave just before the first directory sync after `body`.
fn outcomes(body: impl FnOnce(&SimMedium)) -> BTreeSet<Vec<(String, u64)>> {
    let start = SimMedium::new();
    drop(start.create("old", 64));
    let (medium, recorder) = Recorder::attach(start);
    body(&medium);
    let mut outcomes = BTreeSet::new();
    recorder.finish().replay(&ReplayOptions::default(), |point| {
        if point.kind == PointKind::End {
            outcomes.extend(images(point, 1, 100).iter().map(Image::list));
        }
        ControlFlow::Continue(())
    });
    outcomes
}

fn listing(files: &[(&str, u64)]) -> Vec<(String, u64)> {
    files.iter().map(|(name, len)| ((*name).to_owned(), *len)).collect()
}

#[test]
fn a_created_file_survives_only_after_both_syncs() {
    let none = listing(&[("old", 64)]);
    let empty = listing(&[("new", 0), ("old", 64)]);
    let whole = listing(&[("new", 4000), ("old", 64)]);
    let create = |medium: &SimMedium| medium.create("new", 4000).expect("there is room");
    assert_eq!(outcomes(|medium| drop(create(medium))), BTreeSet::from([none.clone(), empty.clone(), whole.clone()]));
    let file_synced = outcomes(|medium| create(medium).sync().expect("sync"));
    assert_eq!(file_synced, BTreeSet::from([none, whole.clone()]));
    let name_synced = outcomes(|medium| {
        create(medium);
        medium.sync_dir().expect("sync");
    });
    assert_eq!(name_synced, BTreeSet::from([empty, whole.clone()]));
    let both = outcomes(|medium| {
        create(medium).sync().expect("sync");
        medium.sync_dir().expect("sync");
    });
    assert_eq!(both, BTreeSet::from([whole]));
}

#[test]
fn an_unsynced_size_may_survive_in_part() {
    let sizes = outcomes(|medium| {
        medium.create("new", 3 * 4096).expect("there is room");
        medium.sync_dir().expect("sync");
    });
    let expected = [0, 4096, 8192, 12288].map(|len| listing(&[("new", len), ("old", 64)]));
    assert_eq!(sizes, BTreeSet::from(expected));
}

#[test]
fn removals_and_renames_survive_only_after_the_directory_sync() {
    let (before, gone) = (listing(&[("old", 64)]), listing(&[]));
    let remove = |medium: &SimMedium| medium.remove("old").expect("it exists");
    assert_eq!(outcomes(remove), BTreeSet::from([before.clone(), gone.clone()]));
    let synced = outcomes(|medium| {
        remove(medium);
        medium.sync_dir().expect("sync");
    });
    assert_eq!(synced, BTreeSet::from([gone]));
    let renamed = outcomes(|medium| medium.rename("old", "name").expect("it exists"));
    assert_eq!(renamed, BTreeSet::from([before, listing(&[("name", 64)])]));
}

/// A file that is made anew under a removed file's name: the old one, none, or the new one, but
/// never a mixture.
#[test]
fn a_name_used_again_leads_to_one_file_or_the_other() {
    let lists = outcomes(|medium| {
        medium.remove("old").expect("it exists");
        medium.create("old", 128).expect("there is room").sync().expect("sync");
    });
    let expected = [listing(&[]), listing(&[("old", 64)]), listing(&[("old", 128)])];
    assert_eq!(lists, BTreeSet::from(expected));
}

/// Stores to a removed file count as long as the removal may not have survived.
#[test]
fn a_removed_file_that_comes_back_has_what_was_stored_since() {
    let start = SimMedium::new();
    drop(start.create("f", 64));
    let (medium, recorder) = Recorder::attach(start);
    let region = medium.open("f").expect("it exists");
    medium.remove("f").expect("it exists");
    region.store(0, 5);
    region.persist(0, 8);
    let mut contents = BTreeSet::new();
    recorder.finish().replay(&ReplayOptions::default(), |point| {
        if point.kind == PointKind::End {
            contents.extend(images(point, 1, 0).iter().map(|image| image.bytes_of("f").map(|bytes| bytes[0])));
        }
        ControlFlow::Continue(())
    });
    assert_eq!(contents, BTreeSet::from([None, Some(5)]));
}
