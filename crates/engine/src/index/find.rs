//! Reading an index: which entries a snapshot sees.

use super::leaf::{LeafBytes, LeafId, bits};
use super::leaf_order::LeafEnd;
use super::leaf_shadow::{LeafShadow, View};
use super::page::Page;
use super::table_index::Index;
use crate::error::Result;
use crate::format::{entry_key, entry_row};
use crate::shadow::page::OwnView;
use perdura_log::Csn;
use perdura_pmem::Mutant;
use perdura_tree::Place;
use std::borrow::Cow;

/// Finding of a walk at a key.
enum Step<'i> {
    /// The leaf of the key, which it has read.
    Here,
    /// A vacant leaf, and the low key of the next one that is not.
    Onward(Option<&'i [u8]>),
}

/// The keys of a search: all that begin with some bytes, or the one key that they are.
#[derive(Clone, Copy)]
pub(crate) struct Beginning<'k> {
    /// The bytes.
    pub start: &'k [u8],
    /// They are a whole key.
    pub is_whole: bool,
}

impl Beginning<'_> {
    /// The slots among `slots` whose entries may be met.
    fn candidates(&self, leaf: &LeafBytes<'_>, slots: u64) -> u64 {
        if self.is_whole { leaf.candidates(slots, self.start) } else { slots }
    }

    fn has(&self, key: &[u8]) -> bool {
        if self.is_whole { key == self.start } else { key.starts_with(self.start) }
    }
}

/// The slots of `leaf` that `view` sees; `valid` are those that count. Of rows that are ahead of
/// the snapshot these are the newest.
fn slots_seen(view: &View<'_>, leaf: &LeafBytes<'_>, shadow: Option<&LeafShadow>, valid: u64) -> Result<u64> {
    let Some(shadow) = shadow else { return Ok(valid) };
    let seen = shadow.seen(valid, view);
    let (Some(ahead), Some(own)) = (view.ahead, &view.own) else { return Ok(seen) };
    let mut slots = seen;
    for slot in bits(seen ^ shadow.seen(valid, &View::newest(view.own))) {
        if ahead.has(entry_row(leaf.sound_entry(slot)?), own.seen) {
            slots ^= 1 << slot;
        }
    }
    Ok(slots)
}

/// Rows of entries that a search has met.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Met {
    /// One that counts.
    pub there: Option<u64>,
    /// One that another transaction inserts or deletes, and has not decided about.
    pub undecided: Option<u64>,
    /// The leaf that was read last, if nobody was changing it, with its mark.
    quiet: Option<(LeafId, u64)>,
}

impl Index {
    /// Calls `body` with the leaf that has the entries at `key`, the slots that `view` sees there,
    /// and the leaf's end. What it returns counts only if the leaf was still the one meanwhile;
    /// otherwise it is called again. `None` if the index has no leaf. The caller holds a snapshot.
    pub(super) fn read<'i, T>(
        &'i self,
        key: &[u8],
        view: &View<'_>,
        mut body: impl FnMut(&LeafBytes<'i>, u64, LeafEnd<'i>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.check()?;
        self.order().at_place(key, |leaf, place| self.read_leaf(leaf, place, view, &mut body))
    }

    /// As [`Index::read`], of the leaf at a place; `None` if it was not the one of the key
    /// meanwhile.
    fn read_leaf<'i, T>(
        &'i self,
        leaf: LeafId,
        place: &Place<'_>,
        view: &View<'_>,
        body: &mut impl FnMut(&LeafBytes<'i>, u64, LeafEnd<'i>) -> Result<T>,
    ) -> Result<Option<T>> {
        let chosen =
            |bytes: &LeafBytes<'_>, shadow: Option<&LeafShadow>, valid, _| slots_seen(view, bytes, shadow, valid);
        self.read_slots((leaf, place), view.snapshot, chosen, body)
    }

    /// As [`Index::read_leaf`], with the slots that `chosen` takes: of those that count, and of
    /// what the shadow says if it has to be asked; otherwise the leaf's mark.
    #[inline(always)]
    fn read_slots<'i, S, T>(
        &'i self,
        (leaf, place): (LeafId, &Place<'_>),
        snapshot: Csn,
        chosen: impl Fn(&LeafBytes<'i>, Option<&LeafShadow>, u64, Option<u64>) -> Result<S>,
        body: &mut impl FnMut(&LeafBytes<'i>, S, LeafEnd<'i>) -> Result<T>,
    ) -> Result<Option<T>> {
        let (slot, bytes) = (&self.leaves().leaf(leaf).slot, self.leaves().bytes(leaf));
        let end = self.order().end_of(place);
        let mark = slot.quiet(snapshot);
        let shadow = if mark.is_none() { slot.lock_existing() } else { None };
        if mark.is_none() && shadow.is_none() {
            return Ok(None);
        }
        let slots = bytes.sound_valid().and_then(|valid| chosen(&bytes, shadow.as_deref(), valid, mark));
        let found = slots.and_then(|slots| body(&bytes, slots, end));
        let is_still = mark.is_none_or(|mark| slot.is_still(mark));
        // Planted: it is not the leaf any more.
        let counts = is_still && (place.holds() || perdura_pmem::planted(Mutant::ReaderSkipsLeafCheck));
        if counts { found.map(Some) } else { Ok(None) }
    }

    /// The row of the first entry with exactly this key that `view` sees and `is_hidden` does not
    /// hide. The caller holds a snapshot.
    pub(crate) fn find(&self, key: &[u8], view: &View<'_>, is_hidden: impl Fn(u64) -> bool) -> Result<Option<u64>> {
        let mut from: Option<Vec<u8>> = None;
        loop {
            let found = self.read(from.as_deref().unwrap_or(key), view, |leaf, slots, end| {
                let high = if from.is_none() { end.near() } else { end.high() };
                let mut first: Option<&[u8]> = None;
                for slot in bits(leaf.candidates(slots, key)) {
                    let entry = leaf.sound_entry(slot)?;
                    let is_in = high.is_none_or(|high| entry < high);
                    let is_first = || first.is_none_or(|first| entry < first);
                    if entry_key(entry) == key && is_in && is_first() && !is_hidden(entry_row(entry)) {
                        first = Some(entry);
                    }
                }
                // More entries of the key may be in the next leaf.
                let next = high.filter(|high| high.starts_with(key)).map(<[u8]>::to_vec);
                Ok((first.map(entry_row), next))
            })?;
            match found {
                Some((None, Some(next))) => from = Some(next),
                found => return Ok(found.and_then(|(row, _)| row)),
            }
        }
    }

    /// Looks for entries of the search, but those of row `except`, as they count for the
    /// transaction `own`: up to one that does, or at all of them with `whole`. The caller holds a
    /// snapshot.
    pub(crate) fn meet(
        &self,
        search: Beginning<'_>,
        own: Option<OwnView<'_>>,
        (whole, except): (bool, Option<u64>),
    ) -> Result<Met> {
        self.check()?;
        let view = View::newest(own);
        let chosen = |_: &LeafBytes<'_>, shadow: Option<&LeafShadow>, valid, mark: Option<u64>| match shadow {
            None => Ok((valid, 0, mark)),
            Some(shadow) => Ok((shadow.seen(valid, &view), shadow.undecided(own.map(|own| own.writer)), mark)),
        };
        let (mut from, mut met): (Option<Vec<u8>>, _) = (None, Met::default());
        loop {
            let mut body = |leaf: &LeafBytes<'_>, (seen, open, mark): (u64, u64, Option<u64>), end: LeafEnd<'_>| {
                let (high, mut here) = (if from.is_none() { end.near() } else { end.high() }, met);
                let slots = if here.there.is_some() { open } else { seen | open };
                for slot in bits(search.candidates(leaf, slots)) {
                    let entry = leaf.sound_entry(slot)?;
                    let is_met = search.has(entry_key(entry)) && high.is_none_or(|high| entry < high);
                    if is_met && Some(entry_row(entry)) != except {
                        let kind = if open >> slot & 1 == 0 { &mut here.there } else { &mut here.undecided };
                        kind.get_or_insert(entry_row(entry));
                    }
                }
                Ok((here, mark, high.filter(|high| high.starts_with(search.start)).map(<[u8]>::to_vec)))
            };
            let at = from.as_deref().unwrap_or(search.start);
            let found = self.order().at_place(at, |leaf, place| {
                let read = self.read_slots((leaf, place), Csn::MAX, chosen, &mut body)?;
                Ok(read.map(|(here, mark, next)| (Met { quiet: mark.map(|mark| (leaf, mark)), ..here }, next)))
            })?;
            let Some((here, next)) = found else { return Ok(met) };
            met = here;
            match next {
                Some(next) if whole || met.there.is_none() => from = Some(next),
                _ => return Ok(met),
            }
        }
    }

    /// Whether the leaf in which a search met an entry is for certain as it was then, so the entry
    /// counts still.
    pub(crate) fn is_still(&self, met: Met) -> bool {
        met.quiet.is_some_and(|(leaf, mark)| self.leaves().leaf(leaf).slot.is_still(mark))
    }

    /// Puts the entries from `key` on that `view` sees in the leaf at `key` into `page`; if it sees
    /// none, those of the next leaf in which it does, up to the end of the page's range. Returns
    /// whether there is a leaf. The caller holds a snapshot.
    pub(crate) fn page_from(&self, key: &[u8], view: &View<'_>, page: &mut Page) -> Result<bool> {
        self.check()?;
        let mut from = Cow::Borrowed(key);
        loop {
            let found = self.order().at_place(&from, |leaf, place| {
                let is_vacant = || self.leaves().leaf(leaf).is_vacant();
                if is_vacant()
                    && let Some(next) = self.order().populated().among(view, |populated| populated.higher(&from))
                {
                    // As long as the vacant leaf has the key, all populated ones beyond it begin
                    // above the key.
                    let next = next.map(|next| self.order().low(next)).filter(|next| page.reaches(next));
                    return Ok((is_vacant() && place.holds()).then_some(Step::Onward(next)));
                }
                let mut fill =
                    |leaf: &LeafBytes<'_>, slots, end: LeafEnd<'_>| page.fill(leaf, slots, &from, end.high());
                let filled = self.read_leaf(leaf, place, view, &mut fill)?;
                Ok(filled.map(|()| Step::Here))
            })?;
            let next = match found {
                None => return Ok(false),
                Some(Step::Onward(next)) => next.map(<[u8]>::to_vec),
                Some(Step::Here) if page.len() > 0 => return Ok(true),
                Some(Step::Here) => page.onward().map(<[u8]>::to_vec),
            };
            match next {
                Some(next) => from = next.into(),
                None => {
                    page.put_behind_all(&from);
                    return Ok(true);
                }
            }
        }
    }

    /// Puts the entries that `view` sees in the leaf at `key` into `page`. Returns whether there is
    /// a leaf. The caller holds a snapshot.
    pub(crate) fn page_at(&self, key: &[u8], view: &View<'_>, page: &mut Page) -> Result<bool> {
        let found = self.read(key, view, |leaf, slots, end| page.fill(leaf, slots, &[], end.high()))?;
        Ok(found.is_some())
    }

    /// Puts the entries that `view` sees in the last leaf with entries below `key` into `page`, as
    /// far as they are below. Returns whether there is such a leaf. The caller holds a snapshot.
    pub(crate) fn page_before(&self, key: &[u8], view: &View<'_>, page: &mut Page) -> Result<bool> {
        self.check()?;
        loop {
            let Some((before, low)) = self.order().populated_below(key, view) else { return Ok(false) };
            let found = self.page_at(low, view, page)?;
            // If the leaf is still there it was the one that was read, and nothing that `view` sees
            // lies between its end and the key.
            if !found || self.order().populated_below(key, view).is_some_and(|(now, _)| now == before) {
                break;
            }
        }
        page.cut_from(key);
        Ok(true)
    }
}
