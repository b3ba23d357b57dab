//! The B+-tree's index: a copy-on-write tree in pages, whose root the root record names.
//!
//! Changes make a new root. Changes that belong together are published together: the new nodes of
//! an edit that is not published are changed in place, and the nodes it has replaced are retired
//! only then. An edit that fails gives back the nodes that it has made, and publishes nothing.

use crate::config::{Kind, Layout};
use crate::error::Result;
use crate::index::page_node::Node;
use crate::index::page_nodes::{Edit, PageNodes, PageReader, PageWriter};
use crate::index::page_tree::{self as tree, Place};
use crate::index::{Editing, Entry, Index, Opened, Steps, Walk};
use crate::memory::bitmap::Bitmap;
use crate::memory::format::{Ref, node_bytes};
use crate::memory::pages::Pages;
use crate::memory::pin::Pins;
use crate::memory::record::{Newest, Records};
use crate::memory::root::RootRecord;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nodes that a rollback of one change makes, besides those of a path from the root.
const NODES_BESIDES: u64 = 1;

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

    /// Levels of the nodes.
    #[inline]
    fn levels(&self) -> u64 {
        let root = self.load();
        if root == 0 { 0 } else { u64::from(self.reader.level(root)) + 1 }
    }

    /// The root as the writer sees it.
    fn newest_root(&self, writer: &TreeWriter) -> u64 {
        if writer.is_open { writer.open.root } else { self.load() }
    }

    /// Goes on with the open edit, or begins one.
    fn edit<'e>(&'e self, edit: &'e mut Editing<'_, TreeIndex>) -> PageWriter<'e> {
        let TreeWriter { nodes, open, is_open } = edit.writer;
        if !std::mem::replace(is_open, true) {
            open.clear();
            open.root = self.load();
        }
        PageWriter { reader: &self.reader, nodes, pages: edit.pages, edit: open, urgency: edit.urgency }
    }

    /// Copies node `link` of `level`, if it is on the path to a key, to another place.
    pub(crate) fn relocate(&self, edit: &mut Editing<'_, TreeIndex>, key: &[u8], node: (u64, u8)) -> Result<()> {
        tree::relocate(&mut self.edit(edit), key, node)
    }
}

#[allow(private_interfaces, reason = "only this crate's two structures are meant")]
impl Index for TreeIndex {
    const KIND: Kind = Kind::BTree;
    const LINKS_ALL: bool = false;
    type Writer = TreeWriter;
    type Place = Place;
    type Built = Edit;

    fn open(layout: &Layout, pages: &mut Pages, records: &Records, root: &RootRecord) -> Result<Opened<TreeIndex>> {
        let (nodes, reader) = PageNodes::new(layout, pages, records, root.nodes);
        if root.root != 0 {
            reader.node(root.root, None)?;
        }
        Ok(Opened {
            index: TreeIndex { reader, root: AtomicU64::new(root.root) },
            writer: TreeWriter { nodes, open: Edit::default(), is_open: false },
            versions: root.versions,
            dead_deletions: Vec::new(),
            is_counted: false,
        })
    }

    fn node_bytes(layout: &Layout) -> u64 {
        node_bytes(1, layout.branching)
    }

    #[inline]
    fn newest(&self, key: &[u8]) -> Result<Newest<'_>> {
        tree::find(&self.reader, self.load(), key)
    }

    fn walk(&self, root: Option<u64>, from: &[u8]) -> Result<Box<dyn Walk + '_>> {
        let mut path = Vec::new();
        let root = root.unwrap_or_else(|| self.load());
        if let Some((leaf, _, standing)) =
            tree::descend(&self.reader, root, from, 0, |node, step| path.push((node, step.index)))?
        {
            path.push((leaf, standing.rank - usize::from(standing.exact)));
        }
        Ok(Box::new(TreeWalk { nodes: &self.reader, path }))
    }

    fn locate<'r>(&'r self, writer: &TreeWriter, key: &[u8]) -> Result<(Place, Newest<'r>)> {
        tree::locate(&self.reader, self.newest_root(writer), key)
    }

    fn put(&self, edit: &mut Editing<'_, TreeIndex>, place: &Place, key: &[u8], record: Option<Ref>) -> Result<()> {
        let nodes = &mut self.edit(edit);
        match record {
            Some(record) => tree::put(nodes, place, key, record),
            None => tree::remove(nodes, place),
        }
    }

    fn sweep(&self, edit: &mut Editing<'_, TreeIndex>, key: &[u8]) -> Result<()> {
        let ((place, _), forgotten) = (self.locate(edit.writer, key)?, edit.forgotten);
        let swept = tree::sweep(&mut self.edit(edit), &place, forgotten)?;
        edit.dead.extend(swept);
        Ok(())
    }

    fn build(&self, steps: &mut Steps<'_, TreeIndex>, entries: &[Entry]) -> Result<Edit> {
        let mut built = Edit::default();
        let root = tree::build(&self.reader, entries, &mut |nodes| {
            let before = built.made.len();
            steps(&mut |edit| {
                let Editing { writer, pages, urgency, .. } = edit;
                let mut made = PageWriter {
                    reader: &self.reader,
                    nodes: &mut writer.nodes,
                    pages,
                    edit: &mut built,
                    urgency: *urgency,
                };
                let put = nodes.iter().try_for_each(|node| made.put_settled(node).map(drop));
                // They are none of the newest root's.
                writer.nodes.count -= (built.made.len() - before) as u64;
                put
            })?;
            Ok(built.made[before..].to_vec())
        });
        match root {
            Ok(root) => Ok(Edit { root, ..built }),
            Err(error) => {
                self.give_up(steps, &built);
                Err(error)
            }
        }
    }

    fn made(built: &Edit) -> &[u64] {
        &built.made
    }

    fn give_up(&self, steps: &mut Steps<'_, TreeIndex>, built: &Edit) {
        for part in built.made.chunks(tree::STEP_NODES) {
            let undone = steps(&mut |edit| {
                let Editing { writer, pages, .. } = edit;
                writer.nodes.count += part.len() as u64;
                part.iter().for_each(|link| writer.nodes.undo(pages, *link));
                Ok(())
            });
            debug_assert!(undone.is_ok(), "what needs no room is not refused");
        }
    }

    fn prepare(&self, edit: &mut Editing<'_, TreeIndex>, built: &Edit) {
        edit.writer.nodes.add_checksums_for_readers(edit.pages);
        edit.writer.nodes.clear();
        edit.writer.nodes.count = built.made.len() as u64;
        built.made.iter().for_each(|link| edit.writer.nodes.seen(*link));
    }

    fn install(&self, _: &mut Editing<'_, TreeIndex>, built: Edit, _: &Pins) {
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

    fn node_count(writer: &TreeWriter) -> u64 {
        writer.nodes.count
    }

    /// A rollback is one edit: it makes each node anew at most once, and for each change no more
    /// than those of a path. Each change that is about to be made may add two nodes.
    fn keep_for_rollback(&self, writer: &TreeWriter, pages: &mut Pages, more: u64, changes: impl FnOnce() -> u64) {
        // The changes may add a level: more only if they add so many nodes that all these are
        // fewer.
        let levels = self.levels() + 1;
        let nodes = writer.nodes.count + 2 * more + levels;
        let nodes = nodes.min((changes() + more) * (levels + NODES_BESIDES));
        pages.keep_for_rollback(nodes, self.reader.node_bytes_max());
    }

    fn seal(writer: &mut TreeWriter, pages: &mut Pages) {
        writer.nodes.add_checksums(pages);
    }

    fn persisted(writer: &mut TreeWriter, pins: &Pins) {
        writer.nodes.persisted(pins);
    }

    fn leave_retired(writer: &mut TreeWriter, pages: &Pages, pins: &Pins) {
        writer.nodes.leave_retired(pages, pins);
    }

    fn waiting_bytes(writer: &TreeWriter, live: &Bitmap) -> u64 {
        writer.nodes.waiting_bytes(live)
    }

    #[inline]
    fn recycle(writer: &mut TreeWriter, pages: &mut Pages, pins: &Pins, held: bool) -> bool {
        writer.nodes.recycle(pages, pins, held)
    }
}

/// A walk over all entries below a root.
struct TreeWalk<'m> {
    nodes: &'m PageReader,
    /// The nodes from the root to a leaf, each with an index: of the next entry in the leaf, of the
    /// child taken above it.
    path: Vec<(Node<'m>, usize)>,
}

impl TreeWalk<'_> {
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
