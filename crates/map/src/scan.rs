//! Reads without locks: a pin, a root, and nodes that nobody changes.
//!
//! Values are slices of the region. A [`Value`] or [`Scan`] keeps its pin. Writers go on, but memory that they replace
//! is not reused before the pin is dropped.

use crate::error::Result;
use crate::format::Ref;
use crate::index::Index;
use crate::node::Node;
use crate::pin::Pin;
use crate::record::{Record, Records, Target};
use crate::state::Core;
use crate::timestamps::Ts;
use crate::tree::{self, ReadNodes};
use std::fmt;
use std::ops::{Bound, Deref};

/// A value, read in place. While it is held, memory replaced since is not reused; nothing else waits for it.
pub struct Value<'m> {
    bytes: &'m [u8],
    ts: Ts,
    _pin: Pin<'m>,
}

impl Value<'_> {
    /// Timestamp of the version that was read.
    pub fn ts(&self) -> Ts {
        self.ts
    }
}

impl Deref for Value<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Value").field("bytes", &self.bytes).field("ts", &self.ts).finish()
    }
}

/// A key, its value, and the timestamp of that version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key's bytes, in place.
    pub key: &'a [u8],
    /// The value's bytes, in place.
    pub value: &'a [u8],
    /// Timestamp of the version.
    pub ts: Ts,
}

impl<I: Index> Core<I> {
    #[inline]
    pub(crate) fn get(&self, key: &[u8], at: Ts) -> Result<Option<Value<'_>>> {
        let pin = self.pins.pin();
        let root = self.root_at(at)?;
        let target = Target::new(key, at);
        let Some((record, _)) = tree::find(&self.reader, &self.records, root, &target)? else { return Ok(None) };
        let record = self.records.get(record)?;
        if record.header.deletion || record.key != key {
            return Ok(None);
        }
        Ok(Some(Value { bytes: record.value, ts: record.header.ts, _pin: pin }))
    }

    pub(crate) fn scan(&self, range: (Bound<&[u8]>, Bound<&[u8]>), at: Ts) -> Result<Scan<'_>> {
        let pin = self.pins.pin();
        let root = self.root_at(at)?;
        let end = match range.1 {
            Bound::Included(key) => Bound::Included(key.to_vec()),
            Bound::Excluded(key) => Bound::Excluded(key.to_vec()),
            Bound::Unbounded => Bound::Unbounded,
        };
        let start = match range.0 {
            Bound::Included(key) => Some(Target::new(key, 0)),
            Bound::Excluded(key) => Some(Target::new(key, Ts::MAX)),
            Bound::Unbounded => None,
        };
        let cursor = Cursor::seek(&self.reader, &self.records, root, start.as_ref())?;
        Ok(Scan { cursor, at, end, ahead: None, _pin: pin })
    }

    pub(crate) fn prefix(&self, prefix: &[u8], at: Ts) -> Result<Scan<'_>> {
        let end = after_prefix(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.scan((Bound::Included(prefix), end), at)
    }
}

/// The least key above all keys that begin with `prefix`, or none if there is no such key.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Walks all entries of an index in ascending order.
pub(crate) struct Cursor<'m> {
    nodes: &'m dyn ReadNodes,
    records: &'m Records,
    /// The nodes from the root to a leaf, each with an index: of the next entry in the leaf, of the child taken above
    /// it.
    path: Vec<(Node<'m>, usize)>,
}

impl<'m> Cursor<'m> {
    /// Positions the cursor before the first entry above `start`.
    pub(crate) fn seek(
        nodes: &'m dyn ReadNodes,
        records: &'m Records,
        root: u64,
        start: Option<&Target<'_>>,
    ) -> Result<Cursor<'m>> {
        let mut cursor = Cursor { nodes, records, path: Vec::new() };
        if root == 0 {
            return Ok(cursor);
        }
        let (mut node, mut above) = (nodes.node(root, None)?, None);
        loop {
            let place = start.map(|target| node.locate(records, target, above)).transpose()?;
            let rank = place.map_or(0, |place| place.rank);
            if node.level() == 0 {
                cursor.path.push((node, rank));
                return Ok(cursor);
            }
            let index = rank.saturating_sub(1);
            cursor.path.push((node, index));
            above = place.and_then(|place| node.above(index, &place));
            node = nodes.node(node.child(index), Some(node.level() - 1))?;
        }
    }

    /// Reference and content of the next entry's record, or none at the end. Error: `Damaged`.
    pub(crate) fn next(&mut self) -> Result<Option<(Ref, Record<'m>)>> {
        loop {
            let Some((node, index)) = self.path.last_mut() else { return Ok(None) };
            if node.level() == 0 && *index < node.len() {
                let record = node.record(*index);
                *index += 1;
                return Ok(Some((record, self.records.get(record)?)));
            }
            self.next_leaf()?;
        }
    }

    fn next_leaf(&mut self) -> Result<()> {
        self.path.pop();
        while let Some((node, index)) = self.path.last_mut() {
            *index += 1;
            if *index < node.len() {
                let mut below = self.nodes.node(node.child(*index), Some(node.level() - 1))?;
                while below.level() > 0 {
                    self.path.push((below, 0));
                    below = self.nodes.node(below.child(0), Some(below.level() - 1))?;
                }
                self.path.push((below, 0));
                return Ok(());
            }
            self.path.pop();
        }
        Ok(())
    }
}

/// The keys with a value at one timestamp, in ascending order, as of the moment the scan began.
pub struct Scan<'m> {
    cursor: Cursor<'m>,
    at: Ts,
    end: Bound<Vec<u8>>,
    ahead: Option<Record<'m>>,
    _pin: Pin<'m>,
}

impl Scan<'_> {
    /// The next key, or none at the end. Error: `Damaged`.
    pub fn advance(&mut self) -> Result<Option<Entry<'_>>> {
        loop {
            let first = match self.ahead.take() {
                Some(record) => record,
                None => match self.cursor.next()? {
                    Some((_, record)) => record,
                    None => return Ok(None),
                },
            };
            if self.is_past_end(first.key) {
                self.cursor.path.clear();
                return Ok(None);
            }
            let key = first.key;
            let mut visible = (first.header.ts <= self.at).then_some(first);
            while let Some((_, record)) = self.cursor.next()? {
                if record.key != key {
                    self.ahead = Some(record);
                    break;
                }
                if record.header.ts <= self.at {
                    visible = Some(record);
                }
            }
            if let Some(record) = visible
                && !record.header.deletion
            {
                return Ok(Some(Entry { key: record.key, value: record.value, ts: record.header.ts }));
            }
        }
    }

    fn is_past_end(&self, key: &[u8]) -> bool {
        match &self.end {
            Bound::Included(end) => key > &end[..],
            Bound::Excluded(end) => key >= &end[..],
            Bound::Unbounded => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::after_prefix;

    #[test]
    fn the_end_of_a_prefix_is_the_least_key_above() {
        assert_eq!(after_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(after_prefix(b"\xff"), None);
        assert_eq!(after_prefix(b""), None);
    }
}
