//! Words stored one after the other, each durable before the next: how a structure is replaced.

use crate::functions::Publish;
use crate::region::Region;
use smallvec::SmallVec;

/// A word to be stored.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    /// The file that has it.
    pub region: &'a Region,
    /// Its offset, a multiple of 8.
    pub offset: u64,
    /// The word that is stored.
    pub value: u64,
}

/// Stores words in order: each is durable before the next is stored, and all that this thread has
/// flushed before the first. On return all are.
///
/// In persistent memory that takes a fence for each, and one before. A medium with a journal has
/// all of it in one write of the journal, as if nothing came between, and stores the words after
/// that.
/// The regions are of one medium. Panics out of bounds or misaligned.
#[track_caller]
pub fn publish(steps: &[Step<'_>]) {
    publish_by(steps, |publish| publish.now);
}

/// The same, but where that would wait for a write, nothing need be durable or stored on return:
/// the medium does both in this order at the next fence of what it has mapped, or call of
/// [`wait_published`]. Until then the words must not be read.
#[track_caller]
pub fn publish_later(steps: &[Step<'_>]) {
    publish_by(steps, |publish| publish.later);
}

/// [`publish_later`] if it may be later, and else [`publish`].
#[track_caller]
pub fn publish_when(later: bool, steps: &[Step<'_>]) {
    if later { publish_later(steps) } else { publish(steps) }
}

/// [`Region::fence`], but where that would wait for a write, nothing need be durable on return: it
/// is in its place in the order at the next fence of anybody, or call of [`wait_published`].
#[track_caller]
pub fn fence_later(region: &Region) {
    match region.publisher(0) {
        // SAFETY: there is no word to be stored.
        Some((publish, _)) => unsafe { (publish.later)(&[]) },
        None => region.fence(),
    }
}

/// Waits until what anybody has left to [`publish_later`] or [`fence_later`] on the medium of
/// `region` is durable, or the medium has failed.
pub fn wait_published(region: &Region) {
    if let Some((publish, address)) = region.publisher(0) {
        // SAFETY: a word of a region, which lives.
        unsafe { (publish.wait)(address) };
    }
}

#[track_caller]
fn publish_by(steps: &[Step<'_>], how: impl Fn(&Publish) -> unsafe fn(&[(usize, u64)])) {
    let Some(first) = steps.first() else { return };
    if let Some((publish, _)) = first.region.publisher(first.offset) {
        let word = |step: &Step<'_>| step.region.publisher(step.offset).map(|(_, address)| (address, step.value));
        let words: SmallVec<[(usize, u64); 8]> = steps.iter().filter_map(word).collect();
        // SAFETY: words of regions of one medium, which live.
        return unsafe { how(publish)(&words) };
    }
    first.region.fence();
    for step in steps {
        step.region.store(step.offset, step.value);
        step.region.persist(step.offset, 8);
    }
}
