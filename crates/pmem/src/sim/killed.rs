//! What a killed process leaves behind: its successor sees all it stored, but not all of that is durable.
//!
//! Cached stores that were not fenced stay dirty in the cache and remain subject to the rules of a power loss (I2):
//! the next process inherits the open lines. Non-temporal stores are on the medium: a processor drains them when it
//! leaves the process. Files and names are as the process last saw them, synced or not.
//!
//! Places in the trace of inherited stores come before all of the new trace: they are numbered within their line.

use super::image::{Image, ImageFile};
use super::machine::FileState;
use super::names::Directory;
use super::point::Point;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Thread of inherited stores; none fences for it.
const DEAD: u16 = u16::MAX;

/// Files and names, and what of them is open.
#[derive(Clone, Default)]
pub(crate) struct Before {
    pub(crate) files: FxHashMap<u32, FileState>,
    pub(crate) directory: Directory,
    /// Places taken by inherited stores.
    pub(crate) places: u32,
}

impl Before {
    /// All durable.
    pub(crate) fn durable(files: Vec<(u32, ImageFile)>) -> Before {
        let durable = files.iter().map(|(number, file)| (file.name.clone(), *number)).collect();
        let files = files.iter().map(|(number, file)| (*number, FileState::of(file))).collect();
        Before { files, directory: Directory { durable, open: Vec::new() }, places: 0 }
    }

    /// Number and content of each file that has a name, as a program sees them.
    pub(crate) fn seen(&self) -> Vec<(u32, ImageFile)> {
        let names = self.directory.with(|_| true);
        names.into_iter().map(|(name, number)| (number, self.files[&number].seen(name))).collect()
    }
}

/// A medium as a killed process left it, to go on with: [`super::Recorder::resume`].
#[derive(Clone)]
pub struct Killed(pub(crate) Before);

impl Killed {
    /// What the next process sees.
    pub fn image(&self) -> Image {
        Image::of(self.0.seen().into_iter().map(|(_, file)| file).collect())
    }

    /// Number of lines that are not durable.
    pub fn open_lines(&self) -> usize {
        self.0.files.values().map(|file| file.open.len()).sum()
    }
}

impl Point<'_> {
    /// What a process killed at this moment leaves behind.
    pub fn kill(&self) -> Killed {
        let mut before =
            Before { files: self.machine.files.clone(), directory: self.machine.directory.clone(), places: 0 };
        for file in before.files.values_mut() {
            file.drain();
            for open in file.open.values_mut() {
                for (place, pending) in open.pending.iter_mut().enumerate() {
                    (pending.at, pending.thread) = (place as u32, DEAD);
                }
                before.places = before.places.max(open.pending.len() as u32);
            }
        }
        Killed(before)
    }
}

impl FileState {
    /// The file as a program sees it.
    fn seen(&self, name: Arc<str>) -> ImageFile {
        let mut overlay: Vec<_> = self.open.iter().map(|(line, open)| (*line, open.full(self.line(*line)))).collect();
        overlay.sort_unstable_by_key(|(line, _)| *line);
        ImageFile { name, len: self.len, pages: self.pages.clone(), content: Some(self.content), overlay }
    }
}
