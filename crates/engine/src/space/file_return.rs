//! Files given back: purge takes the last file off a table's chain once nothing in it is in use,
//! and removes it.

use super::directory_space::{DirectorySpace, Tail};
use super::free::FreeSegments;
use super::segments::Segments;
use crate::files::datafile::DataFile;
use crate::files::directory::Directory;
use crate::format::data_file_name;
use perdura_pmem::Mutant;
use std::sync::atomic::{AtomicU32, Ordering};

/// Most files of a table that are given back and still mapped: the rest stays until nobody uses the
/// table, or it is closed.
const GIVEN_BACK_MAX: usize = 64;

/// Gives back the files of one table.
///
/// A file goes when all its segments are on the list of free ones, or hold the last pages of the
/// row directory, none of which is published or taken; so nobody owns a segment there, and none is
/// still to be swept. It goes only if the other files have so much free that the next insert does
/// not need it again ([`Chain::high_water`]), and after purge has found it so for some rounds in a
/// row: a large row that is updated again and again would otherwise have a file made and removed
/// each time. One file goes in a round. The first file stays. So does one whose rows were used so
/// unequally often that no incarnation is later than those of all of them: its room is free for
/// other rows of the table.
///
/// No record can name a place in the file: purge freed its cells, RIDs and pages below the
/// checkpoint (I8). The link to the file is cleared durably before the file is removed (I3). A
/// crash in between leaves a file that nothing names, which the next opening of the table removes.
/// Nobody takes a segment, a page or the file's place in the chain meanwhile: the locks of all
/// three are held, in the order growing; the directory's free places; the free segments.
#[derive(Default)]
pub(crate) struct FileReturn {
    /// Rounds in a row that have found the last file empty.
    rounds: AtomicU32,
}

impl FileReturn {
    /// A round of purge: gives the last file back if it may go. `let_go` frees what shards have at
    /// hand in a file. One thread at a time may call this.
    pub(crate) fn round(&self, segments: &Segments, directory_space: &DirectorySpace, let_go: impl FnOnce(u32)) {
        let Some(last) = spare_file(segments) else { return self.rounds.store(0, Ordering::Relaxed) };
        let_go(last);
        let _growing = segments.stop_growing();
        let chain = segments.chain();
        if chain.is_dropped() || spare_file(segments) != Some(last) {
            return self.rounds.store(0, Ordering::Relaxed);
        }
        let file = chain.file(last).expect("the last file");
        let tail = directory_space.tail(chain.directory(), file);
        let mut free = segments.free_segments();
        let Some(mut tail) = tail.filter(|tail| is_empty(file, tail, chain.directory(), &free)) else {
            return self.rounds.store(0, Ordering::Relaxed);
        };
        if self.rounds.fetch_add(1, Ordering::Relaxed) < chain.context().file_return_after {
            return;
        }
        let _span = perdura_pmem::trace::span("file_return");
        let (context, name) = (chain.context(), data_file_name(chain.table(), last));
        // Planted: RIDs of the pages that go begin again at incarnation 0.
        let incarnation = if perdura_pmem::planted(Mutant::IncarnationsLostWithFile) {
            Some(0)
        } else {
            tail.next_incarnation(chain)
        };
        let Some(incarnation) = incarnation else { return self.rounds.store(0, Ordering::Relaxed) };
        // Planted: the file is removed before the link to it is cleared.
        if perdura_pmem::planted(Mutant::FileRemovedBeforeUnlink) {
            context.services.remove_files(&*context.medium, [name.clone()]);
        }
        free.remove_file(file);
        tail.drop_pages(chain.directory());
        let file = chain.unlink_last(incarnation);
        self.rounds.store(0, Ordering::Relaxed);
        drop((free, tail));
        // The next file of this name is not made before this one is gone.
        context.services.remove_files(&*context.medium, [name]);
        file.region().release();
    }
}

/// The last file, if the table has enough free without it.
fn spare_file(segments: &Segments) -> Option<u32> {
    let chain = segments.chain();
    let enough = chain.high_water().filter(|_| chain.given_back() < GIVEN_BACK_MAX)?;
    let last = chain.file(chain.file_count() as u32 - 1)?;
    let free = segments.free_segments();
    (free.bytes() - free.bytes_in(last) >= enough).then_some(last.sequence())
}

/// Whether a file has nothing in use but the free pages at the directory's end.
fn is_empty(file: &DataFile, tail: &Tail<'_>, directory: &Directory, free: &FreeSegments) -> bool {
    // Planted: an owner still has a segment of the file.
    let owned = u32::from(perdura_pmem::planted(Mutant::FileReturnedWithOwnedSegment));
    free.count_in(file) + tail.segments(file, directory) + owned == file.segment_count()
}
