//! Opening the indexes of an existing table: its leaves, found by their headers, in the order of
//! their low keys.
//!
//! Threads share the segments of a large table among them: each reads the headers in some, and
//! flushes what an earlier process may have stored there. Then they sort the leaves of each index.
//! A small table is opened by its caller alone.

use super::indexes::{Broken, Indexes};
use super::leaf::LeafId;
use super::leaves::Leaves;
use super::table_index::Index;
use crate::error::Error;
use crate::files::chain::{Chain, SegmentId};
use crate::format::{IndexDefinition, LEAF_HEADER, LeafKind};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::cmp::Ordering;

/// Segments with leaves up to which the caller alone opens a table. To start threads takes as long
/// as to read some ten.
const SEGMENTS_ALONE: usize = 64;
/// Most threads that open a table.
const THREADS_MAX: usize = 8;

/// A leaf that counts, unless another has its low key and a later version.
struct Found {
    leaf: LeafId,
    /// The low key's first bytes, as a number that orders as they do. Most leaves are told apart by
    /// it.
    head: u128,
}

/// Leaves of a segment.
#[derive(Default)]
struct Segment {
    /// Leaves in use, with the position of their index.
    in_use: Vec<(usize, Found)>,
    /// Leaves in use of indexes that were dropped, or that a crash came before.
    void: Vec<LeafId>,
    free: Vec<LeafId>,
    damaged: Vec<(Broken, Error)>,
}

/// The threads that open a table.
struct Workers(Option<ThreadPool>);

impl Workers {
    /// As many as a table with so many `segments` with leaves is worth. Without a thread to be had
    /// the caller does all.
    fn of_table(segments: usize) -> Workers {
        if segments <= SEGMENTS_ALONE {
            return Workers(None);
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        if threads == 1 {
            return Workers(None);
        }
        let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(|_| "perdura-open".to_owned());
        Workers(pool.build().ok())
    }

    fn map<T: Sync, R: Send>(&self, items: &[T], work: impl Fn(&T) -> R + Send + Sync) -> Vec<R> {
        match &self.0 {
            Some(pool) => pool.install(|| items.par_iter().map(work).collect()),
            None => items.iter().map(work).collect(),
        }
    }

    fn sort<T: Send>(&self, items: &mut [T], order: impl Fn(&T, &T) -> Ordering + Send + Sync) {
        match &self.0 {
            Some(pool) => pool.install(|| items.par_sort_unstable_by(order)),
            None => items.sort_unstable_by(order),
        }
    }
}

/// The first bytes of a low key. What is missing counts as 0.
fn head_of(low: &[u8]) -> u128 {
    let mut head = [0; size_of::<u128>()];
    let bytes = low.len().min(head.len());
    head[..bytes].copy_from_slice(&low[..bytes]);
    u128::from_be_bytes(head)
}

/// Opens the indexes of an existing table, whose leaves are in `segments`, each with their size in
/// units of 256 bytes. It reads the headers of leaves, and changes nothing. An index with a damaged
/// leaf refuses every use.
pub(crate) fn open(
    chain: &Chain,
    definitions: &[(u16, IndexDefinition)],
    next_number: u16,
    segments: Vec<(u32, SegmentId)>,
) -> Indexes {
    let indexes = Indexes::create(chain.table(), definitions, next_number, chain.context());
    Opening { indexes: &indexes, chain, workers: Workers::of_table(segments.len()) }.read(segments);
    indexes
}

/// Opening of a table's indexes.
struct Opening<'o> {
    indexes: &'o Indexes,
    chain: &'o Chain,
    workers: Workers,
}

impl<'o> Opening<'o> {
    fn leaves(&self) -> &'o Leaves {
        self.indexes.leaves()
    }

    fn read(&self, segments: Vec<(u32, SegmentId)>) {
        let (indexes, leaves) = (self.indexes, self.leaves());
        let add = |(units, id)| (id, leaves.add_segment(self.chain, id, units));
        let segments: Vec<(SegmentId, Vec<LeafId>)> = segments.into_iter().map(add).collect();
        let mut found: Vec<Vec<Found>> = indexes.iter().map(|_| Vec::new()).collect();
        for segment in self.workers.map(&segments, |(id, leaves)| self.read_segment(*id, leaves)) {
            segment.in_use.into_iter().for_each(|(position, leaf)| found[position].push(leaf));
            segment.free.into_iter().for_each(|leaf| leaves.put(leaf));
            segment.damaged.into_iter().for_each(|(broken, error)| indexes.note_broken(broken, &error));
            indexes.note_void(segment.void);
        }
        indexes.iter().zip(found).for_each(|(index, leaves)| self.enter(index, leaves));
    }

    /// Reads the headers of a segment's leaves.
    fn read_segment(&self, id: SegmentId, leaves: &[LeafId]) -> Segment {
        let file = self.chain.file_of(id);
        let region = file.region();
        region.will_need(file.segment_offset(id.index), file.segment_bytes());
        let mut segment = Segment::default();
        for &leaf in leaves {
            self.read_leaf(leaf, &mut segment);
        }
        // Stores of an earlier process there may not be durable yet.
        let used = leaves.iter().map(|leaf| self.leaves().leaf(*leaf).offset()).filter(|at| region.load(*at) != 0);
        region.reclaim_all(used.map(|at| (at, LEAF_HEADER)));
        segment
    }

    /// Finds out what the place `leaf` holds. What is in a leaf of an index that the catalog does
    /// not know does not matter.
    fn read_leaf(&self, leaf: LeafId, segment: &mut Segment) {
        let mut damaged = |of: Option<u16>, what: &str| {
            let (file, at) = self.leaves().place(leaf);
            segment.damaged.push(((leaf, of), Error::damaged_index(file, at, what)));
        };
        let (bytes, number) = match self.leaves().read_place(leaf) {
            Ok(None | Some((LeafKind::Retired, _))) => return segment.free.push(leaf),
            Ok(Some((LeafKind::InUse, bytes))) => (bytes, bytes.shape().index),
            Err(state) => return damaged(None, &format!("{state:#018x} is not the state of an index' leaf")),
        };
        match self.indexes.iter().position(|index| index.number() == number) {
            None => segment.void.push(leaf),
            Some(_) if !bytes.is_sound(self.leaves().salt(leaf)) => {
                damaged(Some(number), "the header of an index' leaf does not match its check");
            }
            Some(position)
                if self.indexes.index(position).is_some_and(|index| index.form().has_shape(bytes.shape())) =>
            {
                segment.in_use.push((position, Found { leaf, head: head_of(bytes.low()) }));
            }
            Some(_) => damaged(Some(number), "a leaf does not have the form of the index that it is of"),
        }
    }

    /// Enters the leaves that opening has found. Of several with one low key the latest version
    /// counts.
    fn enter(&self, index: &Index, mut leaves: Vec<Found>) {
        let bytes = |found: &Found| self.leaves().bytes(found.leaf);
        self.workers.sort(&mut leaves, |left, right| {
            left.head.cmp(&right.head).then_with(|| bytes(left).low().cmp(bytes(right).low()))
        });
        let mut void = Vec::new();
        leaves.dedup_by(|next, kept| {
            let is_same = next.head == kept.head && bytes(next).low() == bytes(kept).low();
            if is_same {
                if is_later(self.leaves(), next.leaf, kept.leaf) {
                    std::mem::swap(next, kept);
                }
                void.push(next.leaf);
            }
            is_same
        });
        self.indexes.note_void(void);
        if let Some(first) = leaves.first().filter(|first| !bytes(first).low().is_empty()) {
            let (file, at) = bytes(first).place();
            let error = Error::damaged_index(file, at, "the leaves before this one of an index are missing");
            index.set_damaged(error.to_string());
        }
        let mut entering = index.order().entering();
        for found in leaves {
            let bytes = bytes(&found);
            entering.enter(bytes.low(), found.leaf);
            if bytes.is_sparse() {
                self.leaves().queue().put_sparse(found.leaf);
            }
        }
    }
}

/// Whether `leaf` has a later version than `other`. Versions begin again at 0 after the largest.
fn is_later(leaves: &Leaves, leaf: LeafId, other: LeafId) -> bool {
    leaves.bytes(leaf).version().wrapping_sub(leaves.bytes(other).version()) < 1 << 15
}
