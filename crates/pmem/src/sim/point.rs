//! A moment of a replay at which the power may fail, and the images a failure then may leave.

use super::event::Mark;
use super::file_state::FileState;
use super::hash;
use super::image::{Image, ImageFile, Seen, content_of};
use super::lines::OpenLine;
use super::machine::Machine;
use super::names::Names;
use super::page::{LINE, LineBytes, PAGE_BYTES};
use super::recording::Trace;
use crate::split_mix::SplitMix64 as Random;
use crate::trace::Site;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Lines of a page, and of a sector, the unit in which a disk writes.
const PAGE_LINES: u32 = 64;
const SECTOR_LINES: u32 = 8;
/// A line of a sector that was destroyed.
const DESTROYED: LineBytes = [0xdb; LINE];
/// Units up to which every combination is made.
const EXHAUSTIVE_UNITS_MAX: usize = 4;
/// Seeded choices made of a point with more units.
pub const CHOICES_DEFAULT: usize = 20;

/// Kind of the event about to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PointKind {
    /// A fence takes effect.
    Fence,
    /// A file's size and blocks become durable.
    Sync,
    /// The directory becomes durable.
    SyncDir,
    /// Lines left by a killed process become durable.
    Reclaim,
    /// The process ends.
    Ended,
    /// The recording ends.
    End,
}

/// A moment at which the power may fail.
///
/// Open state falls into independent units: each open line, each file whose size is not synced,
/// each change of the directory since its last sync. An image decides for each whether it survived:
/// not, wholly, or (a line) by a legal choice of its stores or (a size) in part. On a page medium
/// the units are pages instead of lines, and one that survives in part is torn: each sector of it
/// is as it was at some moment since, whatever the others are, and in a file of the log may hold
/// anything. Up to four units
/// all combinations are made; otherwise the two extremes and seeded choices, among them each time
/// all units but one and one unit alone.
pub struct Point<'a> {
    pub(super) trace: &'a Trace,
    pub(super) machine: &'a Machine,
    /// Open spans per label.
    pub(super) labels: &'a [u32],
    pub(super) marks: usize,
    pub(super) context: u128,
    /// Place in the trace of the event that the failure prevents.
    pub index: usize,
    /// Kind of that event.
    pub kind: PointKind,
    /// Its thread; 0 at the end.
    pub thread: u16,
    /// Its call site.
    pub site: Option<Site>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lost,
    Survives,
    InPart,
}

struct Line<'a> {
    number: u32,
    unit: usize,
    open: &'a OpenLine,
    durable: &'a LineBytes,
    durable_hash: u128,
    full: LineBytes,
    full_hash: u128,
}

/// Open state at a point. Units are the lines or pages, then the sizes, then the changes.
struct Open<'a> {
    machine: &'a Machine,
    lines: Vec<Line<'a>>,
    /// Lines of each file.
    ranges: FxHashMap<u32, Range<usize>>,
    /// Files with an open size, and their unit.
    sizes: FxHashMap<u32, usize>,
    first_change: usize,
    units: usize,
}

impl Point<'_> {
    /// Labels of the spans open on any thread.
    pub fn labels(&self) -> impl Iterator<Item = &'static str> + '_ {
        let open = self.labels.iter().zip(&self.trace.labels).filter(|(count, _)| **count > 0);
        open.map(|(_, label)| *label)
    }

    /// Marks before the point: the oracle's view of what must have survived.
    pub fn marks(&self) -> &[Mark] {
        &self.trace.marks[..self.marks]
    }

    /// Identifies what was marked before.
    pub fn context(&self) -> u128 {
        self.context
    }

    /// Calls `visit` with each image that is not in `seen` for what was marked before; `choices` of
    /// them at most are seeded ones ([`CHOICES_DEFAULT`] is a good number).
    pub fn for_each_image(&self, random: &mut Random, seen: &mut Seen, choices: usize, mut visit: impl FnMut(Image)) {
        let open = Open::new(self.machine);
        let mut emit = |fates: &[Fate], random: &mut Random| {
            if let Some(image) = open.image(fates, random, |hash| seen.insert(hash, self.context)) {
                visit(image);
            }
        };
        let mut fates = vec![Fate::Lost; open.units];
        emit(&fates, random);
        if open.units == 0 {
            return;
        }
        fates.fill(Fate::Survives);
        emit(&fates, random);
        if open.units <= EXHAUSTIVE_UNITS_MAX {
            for mask in 1..(1u32 << open.units) - 1 {
                for (unit, fate) in fates.iter_mut().enumerate() {
                    *fate = if mask >> unit & 1 == 1 { Fate::Survives } else { Fate::Lost };
                }
                emit(&fates, random);
            }
            if !open.has_parts() {
                return;
            }
        }
        for choice in 0..choices {
            choose(&mut fates, choice, random);
            emit(&fates, random);
        }
    }

    /// As [`Point::for_each_image`], collected.
    pub fn images(&self, random: &mut Random, seen: &mut Seen, choices: usize) -> Vec<Image> {
        let mut images = Vec::new();
        self.for_each_image(random, seen, choices, |image| images.push(image));
        images
    }
}

/// Decides the fates of all units, in a manner that changes with the number of the choice.
fn choose(fates: &mut [Fate], choice: usize, random: &mut Random) {
    let some = |random: &mut Random| if random.one_in(2) { Fate::Survives } else { Fate::InPart };
    let one = random.below(fates.len() as u64) as usize;
    match choice % 5 {
        0 => {
            fates.fill(Fate::Survives);
            fates[one] = if random.one_in(2) { Fate::Lost } else { Fate::InPart };
        }
        1 => {
            fates.fill(Fate::Lost);
            fates[one] = some(random);
        }
        manner => {
            let percent = [20, 50, 80][manner - 2];
            for fate in fates {
                *fate = if random.percent(percent) { some(random) } else { Fate::Lost };
            }
        }
    }
}

impl<'a> Open<'a> {
    fn new(machine: &'a Machine) -> Open<'a> {
        let mut numbers: Vec<u32> = machine.files.keys().copied().collect();
        numbers.sort_unstable();
        let (mut lines, mut ranges, mut sizes) = (Vec::new(), FxHashMap::default(), FxHashMap::default());
        let mut units = 0;
        for number in &numbers {
            let file = &machine.files[number];
            let begin = lines.len();
            lines.extend(file.open.iter().map(|(line, open)| Line::new(file, *line, open)));
            lines[begin..].sort_unstable_by_key(|line| line.number);
            let is_one =
                |a: &Line<'_>, b: &Line<'_>| machine.is_paged && a.number / PAGE_LINES == b.number / PAGE_LINES;
            for unit in lines[begin..].chunk_by_mut(is_one) {
                unit.iter_mut().for_each(|line| line.unit = units);
                units += 1;
            }
            ranges.insert(*number, begin..lines.len());
        }
        for number in numbers.iter().filter(|number| !machine.files[number].synced) {
            sizes.insert(*number, units + sizes.len());
        }
        let first_change = units + sizes.len();
        let units = first_change + machine.directory.open.len();
        Open { machine, lines, ranges, sizes, first_change, units }
    }

    /// Whether a unit can survive in part.
    fn has_parts(&self) -> bool {
        let is_torn = |line: &Line<'_>| self.machine.is_paged || line.open.pending.len() > 1;
        !self.sizes.is_empty() || self.lines.iter().any(is_torn)
    }

    /// The image in which each unit has its fate, if `wanted` by its hash.
    fn image(&self, fates: &[Fate], random: &mut Random, wanted: impl FnOnce(u128) -> bool) -> Option<Image> {
        let directory = &self.machine.directory;
        let names: Cow<'_, Names> = if directory.open.is_empty() {
            Cow::Borrowed(&directory.durable)
        } else {
            Cow::Owned(directory.with(|change| fates[self.first_change + change] != Fate::Lost))
        };
        let mut sum = 0;
        let mut files = Vec::with_capacity(names.len());
        for (name, number) in names.iter() {
            let size = self.sizes.get(number).map_or(Fate::Survives, |unit| fates[*unit]);
            let (file, content) = self.file(name, *number, size, fates, random);
            sum ^= hash::file(name, file.len, content);
            files.push(file);
        }
        wanted(sum).then(|| Image::hashed(files, sum))
    }

    /// A file, and the hash of its content.
    fn file(&self, name: &Arc<str>, number: u32, size: Fate, fates: &[Fate], random: &mut Random) -> (ImageFile, u128) {
        let state = &self.machine.files[&number];
        let (len, pages, pages_content) = match size {
            Fate::Survives => (state.len, state.pages.clone(), state.content),
            Fate::Lost => (0, Arc::default(), 0),
            Fate::InPart => {
                let count = random.below(state.pages.len().max(1) as u64) as usize;
                let pages = state.pages[..count].to_vec();
                let content = content_of(&pages);
                ((count * PAGE_BYTES) as u64, Arc::new(pages), content)
            }
        };
        let mut content = pages_content;
        let mut overlay = Vec::new();
        let mut put = |number: u32, durable_hash: u128, bytes: LineBytes, hash: u128| {
            if hash != durable_hash {
                content ^= durable_hash ^ hash;
                overlay.push((number, bytes));
            }
        };
        let lines = &self.lines[self.ranges[&number].clone()];
        // The file may end before.
        let lines = &lines[..lines.partition_point(|line| u64::from(line.number) * 64 < len)];
        for unit in lines.chunk_by(|a, b| a.unit == b.unit) {
            match fates[unit[0].unit] {
                Fate::Lost => {}
                Fate::Survives => {
                    unit.iter().for_each(|line| put(line.number, line.durable_hash, line.full, line.full_hash));
                }
                Fate::InPart if self.machine.is_paged => torn(unit, state, len, random, |number, bytes| {
                    put(number, hash::line(number, state.line(number)), bytes, hash::line(number, &bytes));
                }),
                Fate::InPart => {
                    for line in unit {
                        let bytes = line.open.partial(line.durable, random);
                        put(line.number, line.durable_hash, bytes, hash::line(line.number, &bytes));
                    }
                }
            }
        }
        (ImageFile { name: name.clone(), len, pages, content: Some(pages_content), overlay }, content)
    }
}

/// Tears the open lines of one page at the bounds of sectors: calls `put` with what becomes of
/// those that survive. In a file that is written, of which `len` bytes are there, a sector may be
/// destroyed with all that it held.
fn torn(page: &[Line<'_>], file: &FileState, len: u64, random: &mut Random, mut put: impl FnMut(u32, LineBytes)) {
    for sector in page.chunk_by(|a, b| a.number / SECTOR_LINES == b.number / SECTOR_LINES) {
        match random.below(if file.is_written { 5 } else { 4 }) {
            0 => {}
            1 => sector.iter().for_each(|line| put(line.number, line.full)),
            4 => {
                let first = sector[0].number / SECTOR_LINES * SECTOR_LINES;
                let within = (first..first + SECTOR_LINES).take_while(|line| u64::from(*line) * 64 < len);
                within.for_each(|line| put(line, DESTROYED));
            }
            _ => {
                // The moment after one of its stores: a sector is written whole.
                let stores: Vec<u32> =
                    sector.iter().flat_map(|line| &line.open.pending).map(|store| store.at).collect();
                let moment = stores[random.below(stores.len() as u64) as usize];
                sector.iter().for_each(|line| put(line.number, line.open.until(line.durable, moment)));
            }
        }
    }
}

impl<'a> Line<'a> {
    fn new(file: &'a FileState, number: u32, open: &'a OpenLine) -> Line<'a> {
        let durable = file.line(number);
        let full = open.full(durable);
        let (durable_hash, full_hash) = (hash::line(number, durable), hash::line(number, &full));
        Line { number, unit: 0, open, durable, durable_hash, full, full_hash }
    }
}
