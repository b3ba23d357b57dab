//! The B+-tree's index: a copy-on-write tree in pages, whose root the root record names.
//!
//! Changes make a new root. What belongs together is published together: the new nodes of an edit that is not published are
//! changed in place, and the nodes it has replaced are retired only then. An edit that fails gives back the nodes that it has
//! made, and publishes nothing.

use crate::config::{Kind, Layout};
use crate::error::Result;
use crate::format::{Ref, RootRecord};
use crate::index::{Editing, Entry, Index, Walk};
use crate::node::Node;
use crate::page_nodes::{PageNodes, PageReader, PageWriter};
use crate::pages::Pages;
use crate::pin::Pins;
use crate::record::{Record, Records};
use crate::tree::{self, Edit, Spot};
use std::sync::atomic::{AtomicU64, Ordering};

/// Type parameter of [`crate::BTree`]: its index lies in pages.
pub struct TreeIndex {
    pub(crate) reader: PageReader,
    /// The newest published root.
    root: AtomicU64,
}

/// The writer's side.
pub struct TreeWriter {
    pub(crate) nodes: PageNodes,
    /// Changes that are not published yet.
    open: Edit,
    is_open: bool,
}

impl TreeIndex {
    #[inline]
    fn load(&self) -> u64 {
        self.root.load(Ordering::Acquire)
    }

    /// The root as the writer sees it.
    fn newest_root(&self, writer: &TreeWriter) -> u64 {
        if writer.is_open { writer.open.root } else { self.load() }
    }

    /// Goes on with the open edit, or begins one.
    fn edit(
        &self,
        edit: &mut Editing<'_, TreeIndex>,
        run: impl FnOnce(&mut PageWriter<'_>, u64, &mut Edit, &mut Vec<Ref>) -> Result<()>,
    ) -> Result<()> {
        let TreeWriter { nodes, open, is_open } = edit.writer;
        if !*is_open {
            open.clear();
            (open.root, *is_open) = (self.load(), true);
        }
        let mut nodes = PageWriter::new(&self.reader, nodes, edit.pages, edit.urgency);
        let root = open.root;
        run(&mut nodes, root, open, edit.dead)
    }

    /// Copies node `link` of `level`, on the path to a key, to another place.
    pub(crate) fn relocate(&self, edit: &mut Editing<'_, TreeIndex>, key: &[u8], node: (u64, u8)) -> Result<()> {
        let records = edit.records;
        self.edit(edit, |nodes, root, made, _| tree::relocate(nodes, records, root, key, node, made).map(drop))
    }
}

#[allow(private_interfaces, reason = "only this crate's two structures are meant")]
impl Index for TreeIndex {
    const KIND: Kind = Kind::BTree;
    type Writer = TreeWriter;
    type Place = Spot;
    type Built = Edit;

    fn open(layout: &Layout, pages: &Pages, records: &Records, root: &RootRecord) -> Result<(TreeIndex, TreeWriter)> {
        let (nodes, reader) = PageNodes::new(layout, pages, records);
        if root.root != 0 {
            reader.node(root.root, None)?;
        }
        let mut writer = TreeWriter { nodes, open: Edit::default(), is_open: false };
        writer.nodes.count = root.nodes;
        Ok((TreeIndex { reader, root: AtomicU64::new(root.root) }, writer))
    }

    #[inline]
    fn newest<'r>(&self, records: &'r Records, key: &[u8]) -> Result<Option<(Ref, Record<'r>)>> {
        tree::find(&self.reader, records, self.load(), key)
    }

    fn walk<'m>(&'m self, records: &'m Records, root: Option<u64>, from: &[u8]) -> Result<Box<dyn Walk + 'm>> {
        let root = root.unwrap_or_else(|| self.load());
        Ok(Box::new(TreeWalk::seek(&self.reader, records, root, from)?))
    }

    fn locate<'r>(
        &self,
        writer: &TreeWriter,
        records: &'r Records,
        key: &[u8],
    ) -> Result<(Spot, Option<(Ref, Record<'r>)>)> {
        let (spot, found) = tree::locate(&self.reader, records, self.newest_root(writer), key)?;
        Ok(match found {
            Some(record) => (spot, Some((record, records.get(record)?))),
            None => (spot, None),
        })
    }

    fn put(&self, edit: &mut Editing<'_, TreeIndex>, spot: &Spot, key: &[u8], record: Option<Ref>) -> Result<()> {
        let records = edit.records;
        self.edit(edit, |nodes, _, made, _| match record {
            Some(record) => tree::put(nodes, records, spot, key, record, made),
            None => tree::remove(nodes, records, spot, made),
        })
    }

    fn sweep(&self, edit: &mut Editing<'_, TreeIndex>, key: &[u8]) -> Result<()> {
        let (records, forgotten) = (edit.records, edit.forgotten);
        let (spot, _) = tree::locate(&self.reader, records, self.newest_root(edit.writer), key)?;
        self.edit(edit, |nodes, _, made, dead| tree::sweep(nodes, records, &spot, (forgotten, dead), made))
    }

    fn build(&self, edit: &mut Editing<'_, TreeIndex>, entries: &[Entry]) -> Result<Edit> {
        let mut made = Edit::default();
        let built = {
            let mut nodes = PageWriter::new(&self.reader, &mut edit.writer.nodes, edit.pages, edit.urgency);
            tree::build(&mut nodes, edit.records, entries, &mut made)
        };
        match built {
            Ok(root) => Ok(Edit { root, ..made }),
            Err(error) => {
                made.made.iter().for_each(|link| edit.writer.nodes.undo(edit.pages, *link));
                Err(error)
            }
        }
    }

    fn install(&self, edit: &mut Editing<'_, TreeIndex>, built: Edit, _: &Pins) {
        edit.writer.nodes.clear();
        edit.writer.nodes.count = built.made.len() as u64;
        for link in &built.made {
            edit.pages.born(Ref(*link));
            edit.writer.nodes.seen(*link);
        }
        self.root.store(built.root, Ordering::Release);
    }

    fn publish(&self, writer: &mut TreeWriter) {
        let TreeWriter { nodes, open, is_open } = writer;
        if !std::mem::take(is_open) {
            return;
        }
        open.made.iter().for_each(|link| nodes.seen(*link));
        self.root.store(open.root, Ordering::Release);
        open.replaced.iter().for_each(|link| nodes.retire(*link));
    }

    fn abort(&self, writer: &mut TreeWriter, pages: &mut Pages) -> bool {
        if std::mem::take(&mut writer.is_open) {
            writer.open.made.iter().for_each(|link| writer.nodes.undo(pages, *link));
        }
        true
    }

    fn root(&self) -> u64 {
        self.load()
    }

    fn nodes(writer: &TreeWriter) -> u64 {
        writer.nodes.count
    }

    fn confirms(writer: &mut TreeWriter, pages: &mut Pages) {
        writer.nodes.sum(pages);
    }

    fn confirmed(writer: &mut TreeWriter, _: &mut Pages, pins: &Pins) {
        writer.nodes.confirmed(pins);
    }

    fn leave_retired(writer: &mut TreeWriter, pages: &Pages, pins: &Pins) {
        writer.nodes.leave_retired(pages, pins);
    }

    #[inline]
    fn recycle(writer: &mut TreeWriter, pages: &mut Pages, pins: &Pins, held: bool) {
        writer.nodes.recycle(pages, pins, held);
    }
}

/// A walk over all entries below a root.
struct TreeWalk<'m> {
    nodes: &'m PageReader,
    /// The nodes from the root to a leaf, each with an index: of the next entry in the leaf, of the child taken above
    /// it.
    path: Vec<(Node<'m>, usize)>,
}

impl<'m> TreeWalk<'m> {
    /// A walk from the first entry not below `from` on.
    fn seek(nodes: &'m PageReader, records: &'m Records, root: u64, from: &[u8]) -> Result<TreeWalk<'m>> {
        let mut walk = TreeWalk { nodes, path: Vec::new() };
        if root == 0 {
            return Ok(walk);
        }
        let (mut node, mut above) = (nodes.node(root, None)?, None);
        loop {
            let place = node.locate(records, from, above)?;
            if node.level() == 0 {
                walk.path.push((node, place.rank - usize::from(place.exact)));
                return Ok(walk);
            }
            let index = place.rank.saturating_sub(1);
            walk.path.push((node, index));
            above = node.above(index, &place);
            node = nodes.node(node.child(index), Some(node.level() - 1))?;
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

impl Walk for TreeWalk<'_> {
    fn next(&mut self) -> Result<Option<Ref>> {
        loop {
            let Some((node, index)) = self.path.last_mut() else { return Ok(None) };
            if node.level() == 0 && *index < node.len() {
                *index += 1;
                return Ok(Some(node.record(*index - 1)));
            }
            self.next_leaf()?;
        }
    }
}
