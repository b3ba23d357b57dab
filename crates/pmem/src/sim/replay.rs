//! Walks a trace and stops at each moment that matters: before each fence, file sync, directory
//! sync and reclaim, and at the end.
//!
//! Between two such moments the durable state does not change and more only becomes open, so their
//! images cover every moment. A mutation mutes one call site: its calls have no effect, as if they
//! were not in the program.

use super::event::{CallSite, EventKind, SiteKind};
use super::hash;
use super::machine::Machine;
use super::point::{Point, PointKind};
use super::recording::Trace;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// How a trace is replayed.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayOptions {
    /// The call site whose flushes, fences or syncs do not happen.
    pub muted: Option<CallSite>,
    /// Tells traces apart: the same image after the same marks is another case under another salt.
    pub salt: u64,
}

impl Trace {
    /// Calls `visit` at each moment at which the power may fail, until it breaks off.
    pub fn replay(&self, options: &ReplayOptions, mut visit: impl FnMut(&Point<'_>) -> ControlFlow<()>) {
        let mut machine = Machine::new(self);
        let mut labels = vec![0u32; self.labels.len()];
        let (mut marks, mut context) = (0, hash::follow(0, options.salt));
        let muted = options.muted.map(|muted| self.is_at(&muted));
        for (index, event) in self.events.iter().enumerate() {
            let kind = match event.kind {
                EventKind::Fence => Some(PointKind::Fence),
                EventKind::Sync { .. } => Some(PointKind::Sync),
                EventKind::SyncDir => Some(PointKind::SyncDir),
                EventKind::Reclaim { .. } => Some(PointKind::Reclaim),
                EventKind::Ended => Some(PointKind::Ended),
                EventKind::Enter(label) => {
                    labels[label as usize] += 1;
                    None
                }
                EventKind::Leave(label) => {
                    labels[label as usize] = labels[label as usize].saturating_sub(1);
                    None
                }
                EventKind::Mark(payload) | EventKind::Ack(payload) => {
                    marks += 1;
                    context = hash::follow(context, payload);
                    None
                }
                _ => None,
            };
            if let Some(kind) = kind {
                let (thread, site) = (event.thread, Some(self.site(event.site)));
                let (trace, machine, labels) = (self, &machine, &labels[..]);
                let point = Point { trace, machine, labels, marks, context, index, kind, thread, site };
                if visit(&point).is_break() {
                    return;
                }
            }
            let happens = muted
                .as_ref()
                .is_none_or(|(sites, kind)| !(sites[event.site as usize] && kind_of(&event.kind) == Some(*kind)));
            if happens {
                machine.apply(self, index as u32, event);
            }
        }
        let (trace, machine, labels, index) = (self, &machine, &labels[..], self.events.len());
        let point =
            Point { trace, machine, labels, marks, context, index, kind: PointKind::End, thread: 0, site: None };
        let _ = visit(&point);
    }

    /// The call sites at which something was reclaimed that was open. To mute any other reclaim
    /// would change nothing.
    pub fn effective_reclaims(&self) -> BTreeSet<CallSite> {
        let (mut machine, mut sites) = (Machine::new(self), BTreeSet::new());
        for (index, event) in self.events.iter().enumerate() {
            if machine.is_effective_reclaim(&event.kind) {
                sites.insert(CallSite::new(self.site(event.site), SiteKind::Reclaim));
            }
            machine.apply(self, index as u32, event);
        }
        sites
    }

    /// Which numbered sites a call site stands for.
    fn is_at(&self, wanted: &CallSite) -> (Vec<bool>, SiteKind) {
        (self.sites.iter().map(|site| CallSite::new(site, wanted.kind) == *wanted).collect(), wanted.kind)
    }
}

/// The kind of call site an event comes from, if it is one that can be muted.
fn kind_of(kind: &EventKind) -> Option<SiteKind> {
    match kind {
        EventKind::Flush { .. } => Some(SiteKind::Flush),
        EventKind::Fence => Some(SiteKind::Fence),
        EventKind::Sync { .. } => Some(SiteKind::Sync),
        EventKind::Reclaim { .. } => Some(SiteKind::Reclaim),
        _ => None,
    }
}
