//! Traces: recordings as they are replayed, linted and asked for what they hold.

use super::before::Before;
use super::event::{CallSite, Event, EventKind, Mark, SiteKind};
use super::image::Image;
use crate::trace::Site;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A recording: what the medium held when it began, and all that happened since. It can be replayed
/// any number of times.
#[derive(Clone, Default)]
pub struct Trace {
    pub(crate) base: Before,
    pub(crate) events: Vec<Event>,
    pub(crate) values: Vec<u64>,
    pub(crate) sites: Vec<Site>,
    pub(crate) names: Vec<Arc<str>>,
    pub(crate) labels: Vec<&'static str>,
    pub(crate) marks: Vec<Mark>,
}

impl Trace {
    /// All events in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// All marks and acknowledgements in order.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Values of a store event.
    pub fn values(&self, at: u32, count: u32) -> &[u64] {
        &self.values[at as usize..][..count as usize]
    }

    /// The call site with this number.
    pub fn site(&self, number: u32) -> Site {
        self.sites[number as usize]
    }

    /// The medium's content when the recording began.
    pub fn base(&self) -> Image {
        self.base.image()
    }

    /// All call sites reached, with the number of calls from each, by place.
    pub fn sites(&self) -> BTreeMap<CallSite, u64> {
        let mut counts = FxHashMap::<(u32, SiteKind), u64>::default();
        for event in &self.events {
            let kind = match event.kind {
                EventKind::Flush { .. } => SiteKind::Flush,
                EventKind::Fence => SiteKind::Fence,
                EventKind::Store { .. } => SiteKind::Store,
                EventKind::Sync { .. } => SiteKind::Sync,
                EventKind::Reclaim { .. } => SiteKind::Reclaim,
                _ => continue,
            };
            *counts.entry((event.site, kind)).or_default() += 1;
        }
        counts.into_iter().map(|((site, kind), count)| (CallSite::new(self.site(site), kind), count)).collect()
    }

    /// All labels of spans that were begun.
    pub fn labels(&self) -> &[&'static str] {
        &self.labels
    }
}
