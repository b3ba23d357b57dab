//! Runs without a crash, cheap enough for many seeds: their threads check what they see, and what
//! they leave is opened again. And a crash in the midst of one store, upon another.

use super::oracle::Oracle;
use super::scenario::SCENARIOS;
use super::verdict;
use crate::subject::{Drill, Stall};
use crate::unrecorded::{medium, scheduler};
use perdura_map::{Config, Kind, Layout, OrderedMap, Ts, open};
use perdura_pmem::sim::{Image, Random, Recorder, ReplayOptions, Seen};
use perdura_pmem::{Medium, SimMedium};
use std::ops::ControlFlow;
use std::sync::Arc;

/// All drills.
pub const DRILLS: [Drill; 3] = [
    Drill { name: "runs, list mixed", seeds: 20, run: |seed, stall| runs("list mixed", seed, stall) },
    Drill { name: "runs, list overwritten", seeds: 20, run: |seed, stall| runs("list overwritten", seed, stall) },
    Drill { name: "torn root records", seeds: 8, run: |seed, _| torn_roots(seed) },
];

/// Runs a scenario, and opens what a killed process would leave.
fn runs(name: &str, seed: u64, stall: Stall) -> Result<(), String> {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name);
    let scenario = scenario.ok_or_else(|| format!("there is no scenario {name:?}"))?;
    let medium: Arc<dyn Medium> = medium();
    let past = scenario.run(&medium, seed, scheduler(seed, stall));
    verdict::check(&medium, scenario, &Oracle::of_all(&past), &past.states, 1)
}

/// Images of each crash point.
const IMAGES: usize = 48;
const FILE: &str = "map";
const CONFIG: Config = Config {
    changes_max: u32::MAX,
    background: false,
    seed: Some(1),
    interval: std::time::Duration::from_secs(1),
    collects_in_changes: false,
};

/// Images that a crash leaves at any moment of what is done to a medium.
fn crashes(image: Image, random: &mut Random, work: impl FnOnce(&Arc<dyn Medium>)) -> Vec<Image> {
    let (medium, recorder) = Recorder::attach(SimMedium::from_image(image));
    work(&(Arc::new(medium) as Arc<dyn Medium>));
    let (mut images, mut seen) = (Vec::new(), Seen::default());
    recorder.trace().replay(&ReplayOptions::default(), |point| {
        point.for_each_image(random, &mut seen, IMAGES, |image| images.push(image.clone()));
        ControlFlow::Continue(())
    });
    images
}

/// The keys of the map in an image, which is sound, and the newest timestamp.
fn content(image: &Image) -> Result<(Vec<Vec<u8>>, Ts), String> {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image.clone()));
    let map = open(&medium, FILE, &CONFIG).map_err(|error| format!("refused: {error}"))?;
    map.check().map_err(|error| format!("check: {error}"))?;
    let mut scan = map.prefix(b"", Ts::MAX).map_err(|error| format!("scan: {error}"))?;
    let mut keys = Vec::new();
    while let Some(entry) = scan.advance().map_err(|error| format!("scan: {error}"))? {
        keys.push(entry.key.to_vec());
    }
    Ok((keys, map.timestamps().last))
}

/// Adds a key and persists.
fn add(map: &dyn OrderedMap, ts: Ts, key: &[u8]) {
    map.set(ts, key, b"value").expect("there is room");
    map.persist().expect("a medium that works");
}

/// Opens the map that crash after crash has left while it persisted a key, and adds another key in
/// its place: the first one never comes back, nor its timestamp.
fn torn_roots(seed: u64) -> Result<(), String> {
    let (mut random, medium) = (Random::new(seed), Arc::new(SimMedium::new()));
    let kind = if seed.is_multiple_of(2) { Kind::BTree } else { Kind::List };
    let shared: Arc<dyn Medium> = medium.clone();
    let layout = Layout { page_bytes: 256, branching: 4, ..Layout::of(kind, 40 << 10) };
    let map = perdura_map::create(&shared, FILE, kind, &layout, &CONFIG).map_err(|error| error.to_string())?;
    (1..=2 + seed % 10 * 3).for_each(|ts| add(&*map, ts, b"kept"));
    let before = (vec![b"kept".to_vec()], map.timestamps().last);
    let after = (vec![b"kept".to_vec(), b"other".to_vec()], before.1 + 2);
    drop(map);
    let reopened = |medium: &Arc<dyn Medium>| open(medium, FILE, &CONFIG).expect("a sound map");
    let first = crashes(medium.image(), &mut random, |medium| add(&*reopened(medium), before.1 + 1, b"lost"));
    for image in first.into_iter().filter(|image| content(image).is_ok_and(|found| found == before)) {
        for image in crashes(image, &mut random, |medium| add(&*reopened(medium), before.1 + 2, b"other")) {
            let found = content(&image)?;
            if found != before && found != after {
                return Err(format!("{kind}: {} keys up to {}, which nobody left", found.0.len(), found.1));
            }
        }
    }
    Ok(())
}
