//! State after a killed process: its successor sees all it stored, but not all of that is durable.

use super::before::Before;
use super::image::Image;
use super::point::Point;

/// Thread of inherited stores; none fences for it.
const DEAD: u16 = u16::MAX;

/// A medium as a killed process left it, to go on with: [`super::Recorder::resume`].
///
/// Cached stores that were not fenced stay dirty in the cache and remain subject to the rules of a
/// power loss (I2): the next process inherits the open lines. Non-temporal stores are on the
/// medium: a processor drains them when it leaves the process; on a page medium they are in the
/// kernel's cache, as the others are. Files and names are as the process
/// last saw them, synced or not.
///
/// Places in the trace of inherited stores come before all of the new trace: they are numbered
/// within their line.
#[derive(Clone)]
pub struct Killed(pub(crate) Before);

impl Killed {
    /// Image that the next process sees.
    pub fn image(&self) -> Image {
        self.0.image()
    }

    /// Number of lines that are not durable.
    pub fn open_lines(&self) -> usize {
        self.0.files.values().map(|file| file.open.len()).sum()
    }
}

impl Point<'_> {
    /// State after a process killed at this moment.
    pub fn kill(&self) -> Killed {
        let (files, directory) = (self.machine.files.clone(), self.machine.directory.clone());
        let mut before = Before { files, directory, places: 0, is_paged: self.machine.is_paged };
        for file in before.files.values_mut() {
            file.drain(before.is_paged);
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
