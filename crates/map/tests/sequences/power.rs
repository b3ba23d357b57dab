//! Power failures during recorded sequences: the images they leave, and the states these may have.
//!
//! After a power failure a map is exactly as it was after some operation: not before the last
//! durable one, nor after the newest begun.

use super::run::{History, NAME, Setting};
use crate::support::compare::{audit, compare};
use crate::support::model::Model;
use perdura_pmem::sim::{Image, Random, ReplayOptions, Seen, Trace};
use perdura_pmem::{Medium, SimMedium};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Images checked per failure, roughly.
const IMAGES: u64 = 10;
/// Seeded choices of what survives, per moment.
const CHOICES: usize = 2;

/// An image, and the range of states it may have.
pub struct Crash {
    pub image: Image,
    /// Index of the newest state that must survive.
    pub durable: usize,
    /// Index of the newest state that may survive.
    pub newest: usize,
}

/// A mark in the recording that holds both indices.
pub fn payload(durable: usize, newest: usize) -> u64 {
    (durable as u64) << 32 | newest as u64
}

/// Checks images of some moments of the recording. Returns one of them, to continue from.
pub fn explore(setting: &Setting, trace: &Trace, history: &History, seed: u64) -> Result<Option<Crash>, String> {
    let mut random = Random::new(seed);
    let mut moments = 0;
    trace.replay(&ReplayOptions::default(), |_| {
        moments += 1;
        ControlFlow::Continue(())
    });
    let one_in = (moments * (2 + CHOICES as u64) / IMAGES).max(1);
    let (mut seen, mut crashes, mut failure) = (Seen::default(), Vec::new(), None);
    trace.replay(&ReplayOptions::default(), |point| {
        // Before the first mark the map was being opened.
        let payload = point.marks().last().map_or(0, |mark| mark.payload);
        let (durable, newest) = ((payload >> 32) as usize, (payload & 0xffff_ffff) as usize);
        if point.site.is_some() && !random.one_in(one_in) {
            return ControlFlow::Continue(());
        }
        for image in point.images(&mut random, &mut seen, CHOICES) {
            match find(setting, image.clone(), history, durable, newest) {
                Ok(_) => crashes.push(Crash { image, durable, newest }),
                Err(what) => {
                    let site =
                        point.site.map_or("the end".to_owned(), |site| format!("{}:{}", site.file(), site.line()));
                    failure = Some(format!("power failure at event {} before {site}: {what}", point.index));
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    });
    match failure {
        Some(what) => Err(what),
        None if crashes.is_empty() => Ok(None),
        None => Ok(Some(crashes.swap_remove(random.below(crashes.len() as u64) as usize))),
    }
}

/// Opens the map of an image. Returns which of the states from `durable` to `newest` it has.
pub fn find(
    setting: &Setting,
    image: Image,
    history: &History,
    durable: usize,
    newest: usize,
) -> Result<Model, String> {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image));
    let map =
        perdura_map::open(&medium, NAME, &setting.config()).map_err(|error| format!("it does not open: {error}"))?;
    let mut differences = Vec::new();
    for model in history.possible(durable, newest) {
        match compare(&*map, model) {
            Err(what) => differences.push(what),
            Ok(()) => {
                let seen = map.timestamps();
                if seen.persisted != seen.last {
                    return Err(format!("opened with {seen:?}"));
                }
                audit(&*map, model)?;
                map.collect().map_err(|error| format!("collecting: {error}"))?;
                compare(&*map, model)
                    .and_then(|()| audit(&*map, model))
                    .map_err(|what| format!("collected: {what}"))?;
                return Ok(model.clone());
            }
        }
    }
    Err(format!("it is in none of the states {durable} to {newest}: {differences:?}"))
}

/// The present content of the medium.
pub fn image_of(medium: &dyn Medium) -> Image {
    let files = medium.list().expect("it lists").into_iter().map(|(name, len)| {
        let mut bytes = vec![0; len as usize];
        medium.open(&name).expect("it exists").read(0, &mut bytes);
        (name, bytes)
    });
    let files: Vec<(String, Vec<u8>)> = files.collect();
    Image::from_files(files.iter().map(|(name, bytes)| (&name[..], &bytes[..])))
}
