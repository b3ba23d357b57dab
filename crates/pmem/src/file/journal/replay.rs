//! Replay of a journal: when a page medium is opened, before anybody maps its files.
//!
//! Afterwards the files are as persistent memory could have left them: of each range that was
//! fenced they have the content of its last fence, or a later one. All of it is durable before the
//! segments are voided, so a replay that is cut off is done again.

use super::format::{self, BLOCK, Group, HEADER_BLOCKS, Header, Piece, SEGMENT_BYTES};
use super::pages::Pages;
use super::segment::{Home, Segment, is_segment};
use crate::error::{Error, Result};
use crate::file::allocate::write_zeros;
use crate::file::mapping::PAGE;
use crate::file::syncs::Syncs;
use crate::medium::is_name;
use crate::mutant::Mutant;
use crate::planted;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Most bytes of pages that wait to be written.
const WAITING_BYTES: usize = 64 << 20;
/// Zeros from this length on are written at once.
const LONG_ZEROS: u64 = 1 << 20;

/// A journal without anything that counts.
pub(super) struct Replayed {
    /// Its segments, void.
    pub(super) segments: Vec<Segment>,
    /// Sequence number of the last group there was.
    pub(super) last: u64,
}

/// Brings the files of `directory` to what the journal at `home` says, and voids it.
///
/// Errors: `Poisoned` (a group or segment is damaged), `Unsupported` (of a newer build), `Io`.
pub(super) fn replay(home: &Home, directory: &Path, syncs: &Syncs) -> Result<Replayed> {
    let mut files = Files { directory, open: FxHashMap::default(), waiting: 0 };
    let Found { used, numbers, last } = replay_to(home, &mut files)?;
    files.sync()?;
    // The older ones first: a younger one must not be gone while they count.
    let mut segments = Vec::new();
    for number in used.iter().map(|used| used.number).chain(numbers) {
        if segments.iter().all(|segment: &Segment| segment.number() != number) {
            let mut segment = home.open(number)?;
            if segments.len() < used.len() {
                segment.void(syncs)?;
            }
            segments.push(segment);
        }
    }
    Ok(Replayed { segments, last })
}

/// A range of a file and its content; `None` stands for zeros.
type Part = (Range<u64>, Option<Box<[u8]>>);

/// Content that a journal has for files: what a replay would write to them.
#[derive(Default)]
pub(in crate::file) struct Overlay {
    files: FxHashMap<String, Vec<Part>>,
}

impl Overlay {
    /// Adds what the journal at `home` has for the files of `directory`.
    ///
    /// Errors: those of a replay.
    pub(in crate::file) fn add(&mut self, home: &Home, directory: &Path) -> Result<()> {
        replay_to(home, &mut Noted { directory, lengths: FxHashMap::default(), overlay: self }).map(|_| ())
    }

    /// Parts of a file in their order: a later one counts where both have something. `None` stands
    /// for zeros.
    pub(in crate::file) fn parts(&self, name: &str) -> impl Iterator<Item = (Range<u64>, Option<&[u8]>)> {
        self.files.get(name).into_iter().flatten().map(|(range, bytes)| (range.clone(), bytes.as_deref()))
    }
}

/// Segments of a journal as they were found.
struct Found {
    /// Those in use, in the order of their groups.
    used: Vec<Used>,
    /// Numbers of all.
    numbers: Vec<u32>,
    /// Number of the last group.
    last: u64,
}

/// Writes what the journal at `home` says to `target`, once all of it is known to be sound.
fn replay_to(home: &Home, target: &mut dyn Target) -> Result<Found> {
    let numbers = segments(home)?;
    let mut used = Vec::new();
    for number in &numbers {
        let mut read = Used::open(home, *number)?;
        match Header::decode(&read.load(0..HEADER_BLOCKS * BLOCK)?) {
            format::Found::Valid(header) => used.push(Used { header, ..read }),
            format::Found::Void => {}
            format::Found::Newer(version) => {
                let seen = format!("a journal of format {version}, written by a newer build");
                return Err(Error::unsupported(&read.what, &seen));
            }
        }
    }
    // Planted: segments are taken in the order of their names, which they keep for another use.
    if !planted(Mutant::SegmentsReplayedByName) {
        used.sort_by_key(|segment| segment.header.first);
    }
    let mut survey = Survey::default();
    let last = each_group(&mut used, &mut |what, group| {
        survey.group(what, group)?;
        // Planted: files are written before it is known whether the journal is whole.
        if planted(Mutant::ReplayedAsRead) {
            survey.apply(what, group, target)?;
            target.end()?;
        }
        Ok(())
    })?;
    each_group(&mut used, &mut |what, group| survey.apply(what, group, target))?;
    target.end()?;
    Ok(Found { used, numbers, last })
}

/// Numbers of the segments of a journal.
fn segments(home: &Home) -> Result<Vec<u32>> {
    let failed = |source| Error::from_io(&home.directory().display().to_string(), "listing", 0, source);
    let entries = std::fs::read_dir(home.directory()).map_err(failed)?;
    let mut numbers = Vec::new();
    for entry in entries {
        numbers.extend(entry.map_err(failed)?.file_name().to_str().and_then(|name| home.segment_number(name)));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// A segment that is read.
struct Used {
    number: u32,
    what: String,
    file: File,
    header: Header,
}

impl Used {
    fn open(home: &Home, number: u32) -> Result<Used> {
        let path = home.directory().join(home.segment_name(number));
        let what = path.display().to_string();
        let failed = |source| Error::from_io(&what, "opening", 0, source);
        let file = File::open(&path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        // A file that was being made when the power failed is short, and holds nothing.
        if len > SEGMENT_BYTES as u64 {
            return Err(damaged(&what, 0, &format!("{len} bytes long, {SEGMENT_BYTES} at most")));
        }
        Ok(Used { number, what, file, header: Header { salt: 0, first: 0 } })
    }

    /// The bytes of a range, zeros behind the end of the file.
    fn load(&mut self, range: Range<usize>) -> Result<Vec<u8>> {
        let mut bytes = vec![0; range.len()];
        let mut at = 0;
        while at < bytes.len() {
            match self.file.read_at(&mut bytes[at..], (range.start + at) as u64) {
                Ok(0) => break,
                Ok(count) => at += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::from_io(&self.what, "reading", 0, error)),
            }
        }
        Ok(bytes)
    }
}

#[cold]
fn damaged(what: &str, offset: usize, seen: &str) -> Error {
    Error::damaged_journal(what, offset as u64, seen)
}

/// Calls `see` with all groups that count, in their order. Returns the last one's number, or that
/// of the one before the first.
fn each_group(used: &mut [Used], see: &mut dyn FnMut(&str, &Group<'_>) -> Result<()>) -> Result<u64> {
    let mut expected = used.first().map_or(1, |first| first.header.first);
    for segment in used {
        let bytes = segment.load(0..SEGMENT_BYTES)?;
        let Header { salt, first } = segment.header;
        let mut offset = HEADER_BLOCKS * BLOCK;
        let mut is_cut = first != expected;
        while offset < SEGMENT_BYTES {
            match Group::decode(&bytes, offset, salt) {
                Some(group) if !is_cut && group.sequence == expected => {
                    see(&segment.what, &group)?;
                    (expected, offset) = (expected.wrapping_add(1), offset + group.padded);
                }
                // Planted: groups behind a torn one count.
                Some(group) if planted(Mutant::ReplayPastTornGroup) => {
                    see(&segment.what, &group)?;
                    (expected, offset) = (group.sequence.wrapping_add(1), offset + group.padded);
                }
                // Groups are written one after the other, so only the last may be torn.
                Some(group) => {
                    let seen = format!("group {} is here, but none with number {expected}", group.sequence);
                    return Err(damaged(&segment.what, offset, &seen));
                }
                None => (is_cut, offset) = (true, offset + BLOCK),
            }
        }
    }
    Ok(expected.wrapping_sub(1))
}

/// Pieces of later groups that are about earlier ones.
#[derive(Default)]
struct Survey {
    /// Names of mapped files, by their number.
    names: FxHashMap<u32, String>,
    /// Files that others have replaced, or that have another name now.
    forgotten: FxHashSet<u32>,
    /// Ranges whose pieces below a sequence number do not count, by the names of files: a file that
    /// was closed and opened again has had several numbers.
    void: FxHashMap<String, Vec<(Range<u64>, u64)>>,
}

impl Survey {
    fn group(&mut self, what: &str, group: &Group<'_>) -> Result<()> {
        for piece in group.pieces() {
            match piece.ok_or_else(|| unfit(what, group))? {
                Piece::Name { file, name } if is_name(name) && !is_segment(name) => {
                    self.names.insert(file, name.to_owned());
                }
                Piece::Name { name, .. } => return Err(damaged(what, 0, &format!("it names a file {name:?}"))),
                Piece::Forget { name } => {
                    let named = self.names.iter().filter(|(_, known)| *known == name);
                    self.forgotten.extend(named.map(|(file, _)| *file));
                }
                Piece::Void { file, offset, len, below } => {
                    let name = self.names.get(&file).ok_or_else(|| unfit(what, group))?;
                    self.void.entry(name.clone()).or_default().push((offset..offset + len, below));
                }
                Piece::Bytes { .. } | Piece::Zeros { .. } => {}
            }
        }
        Ok(())
    }

    fn apply(&self, what: &str, group: &Group<'_>, target: &mut dyn Target) -> Result<()> {
        for piece in group.pieces() {
            let (file, offset, len, bytes) = match piece.ok_or_else(|| unfit(what, group))? {
                Piece::Bytes { file, offset, bytes } => (file, offset, bytes.len() as u64, Some(bytes)),
                Piece::Zeros { file, offset, len } => (file, offset, len, None),
                _ => continue,
            };
            // Planted: what is of a file that has gone is written to the one of its name.
            if self.forgotten.contains(&file) && !planted(Mutant::ForgottenPiecesReplayed) {
                continue;
            }
            let name = self.names.get(&file).ok_or_else(|| unfit(what, group))?;
            let Some(file_len) = target.len(name)? else { continue };
            let void = self.void.get(name).into_iter().flatten();
            let void: Vec<_> = void.filter(|(_, below)| is_older(group, *below)).map(|(range, _)| range).collect();
            for part in without(offset..offset + len, &void) {
                if part.end > file_len {
                    let seen = format!("it has content at {} of {name}, which is {file_len} bytes long", part.start);
                    return Err(damaged(what, 0, &seen));
                }
                let bytes = bytes.map(|bytes| &bytes[(part.start - offset) as usize..(part.end - offset) as usize]);
                target.write(name, part, bytes)?;
            }
        }
        Ok(())
    }
}

fn is_older(group: &Group<'_>, below: u64) -> bool {
    // Planted: a note is taken for one of all pieces, also of those that came after the sync.
    group.sequence < below || planted(Mutant::VoidNoteCoversLater)
}

#[cold]
fn unfit(what: &str, group: &Group<'_>) -> Error {
    damaged(what, 0, &format!("group {} has a piece that does not fit", group.sequence))
}

/// The parts of `range` that none of `others` has.
fn without(range: Range<u64>, others: &[&Range<u64>]) -> Vec<Range<u64>> {
    others.iter().fold(vec![range], |parts, other| {
        let split = |part: Range<u64>| [part.start..part.end.min(other.start), part.start.max(other.end)..part.end];
        parts.into_iter().flat_map(split).filter(|part| part.start < part.end).collect()
    })
}

/// Files that are brought to what a journal says.
trait Target {
    /// Bytes of the file of this name; `None`: it was removed.
    fn len(&mut self, name: &str) -> Result<Option<u64>>;

    /// Writes `bytes`, or zeros, to a range of a file that is there, at the latest at the `end`.
    fn write(&mut self, name: &str, range: Range<u64>, bytes: Option<&[u8]>) -> Result<()>;

    /// Writes what waits.
    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The files themselves.
struct Files<'a> {
    directory: &'a Path,
    /// By name; `None`: it was removed.
    open: FxHashMap<String, Option<Open>>,
    /// Number of pages that wait in all of them.
    waiting: usize,
}

/// A file, and what is still to be written to it.
struct Open {
    file: File,
    path: PathBuf,
    len: u64,
    pages: Pages,
}

impl Files<'_> {
    fn find(&self, name: &str) -> Result<Option<Open>> {
        let path = self.directory.join(name);
        let failed = |source| Error::from_io(&path.display().to_string(), "opening", 0, source);
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let len = file.metadata().map_err(failed)?.len();
        Ok(Some(Open { file, path, len, pages: Pages::default() }))
    }

    fn sync(&self) -> Result<()> {
        self.open.values().flatten().try_for_each(|Open { file, path, .. }| {
            file.sync_data().map_err(|source| Error::from_io(&path.display().to_string(), "sync", 0, source))
        })
    }
}

impl Open {
    fn write_pages(&mut self) -> Result<()> {
        self.pages.write(&self.file, self.len).map_err(|source| self.failed(source))
    }

    #[cold]
    fn failed(&self, source: io::Error) -> Error {
        Error::from_io(&self.path.display().to_string(), "replay of the journal", 0, source)
    }
}

impl Target for Files<'_> {
    fn len(&mut self, name: &str) -> Result<Option<u64>> {
        if !self.open.contains_key(name) {
            let found = self.find(name)?;
            self.open.insert(name.to_owned(), found);
        }
        Ok(self.open[name].as_ref().map(|open| open.len))
    }

    fn write(&mut self, name: &str, range: Range<u64>, bytes: Option<&[u8]>) -> Result<()> {
        let Some(Some(open)) = self.open.get_mut(name) else { return Ok(()) };
        let before = open.pages.count();
        if bytes.is_none() && range.end - range.start >= LONG_ZEROS {
            open.write_pages()?;
            write_zeros(&open.file, range, PAGE).map_err(|source| open.failed(source))?;
        } else {
            open.pages.put(range, bytes);
        }
        self.waiting = self.waiting + open.pages.count() - before;
        if self.waiting * PAGE >= WAITING_BYTES { self.end() } else { Ok(()) }
    }

    fn end(&mut self) -> Result<()> {
        self.waiting = 0;
        self.open.values_mut().flatten().try_for_each(Open::write_pages)
    }
}

/// An overlay of files that stay as they are.
struct Noted<'a> {
    directory: &'a Path,
    /// By name; `None`: it was removed.
    lengths: FxHashMap<String, Option<u64>>,
    overlay: &'a mut Overlay,
}

impl Target for Noted<'_> {
    fn len(&mut self, name: &str) -> Result<Option<u64>> {
        if let Some(known) = self.lengths.get(name) {
            return Ok(*known);
        }
        let path = self.directory.join(name);
        let len = match std::fs::metadata(&path) {
            Ok(metadata) => Some(metadata.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(Error::from_io(&path.display().to_string(), "stat", 0, source)),
        };
        self.lengths.insert(name.to_owned(), len);
        Ok(len)
    }

    fn write(&mut self, name: &str, range: Range<u64>, bytes: Option<&[u8]>) -> Result<()> {
        self.overlay.files.entry(name.to_owned()).or_default().push((range, bytes.map(Box::from)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_void_is_left_out() {
        let cut = |others: &[(u64, u64)]| {
            let others: Vec<_> = others.iter().map(|(start, end)| *start..*end).collect();
            let parts = without(10..20, &others.iter().collect::<Vec<_>>());
            parts.iter().map(|part| (part.start, part.end)).collect::<Vec<_>>()
        };
        assert_eq!(cut(&[]), [(10, 20)]);
        assert_eq!(cut(&[(0, 10), (20, 30)]), [(10, 20)]);
        assert_eq!(cut(&[(12, 13), (15, 17)]), [(10, 12), (13, 15), (17, 20)]);
        assert_eq!(cut(&[(12, 17), (15, 25)]), [(10, 12)]);
        assert_eq!(cut(&[(0, 15), (14, 20)]), []);
    }
}
