//! Reads without locks: a pin, the newest record of a key, and from there the version of a
//! timestamp.
//!
//! Values are slices of the region. A [`Value`] or [`Scan`] keeps its pin. Writers go on, but
//! memory that they replace is not reused before the pin is dropped. A [`View`] and a [`Scan`] also
//! hold the mark of what is forgotten.

use crate::error::Result;
use crate::index::{Index, Walk};
use crate::memory::pin::Pin;
use crate::memory::record::{Newest, Records};
use crate::state::core::Core;
use crate::state::shared::Shared;
use crate::timestamps::Ts;
use std::fmt;
use std::ops::{Bound, Deref};

/// A value, read in place. While it is held, memory replaced since is not reused; nothing else
/// waits for it.
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

/// The bounds of a scan.
pub(crate) type Range<'r> = (Bound<&'r [u8]>, Bound<&'r [u8]>);

/// A map of either structure, as its views use it.
trait Viewed: Sync {
    fn get(&self, view: &View<'_>, key: &[u8]) -> Result<Option<Value<'_>>>;
    /// A scan under another view of the same timestamp and content.
    fn scan(&self, view: &View<'_>, range: Range<'_>) -> Result<Scan<'_>>;
    fn leave(&self, at: Ts);
}

/// A hold on the mark of what is forgotten, from which the same is read as long as it lasts,
/// whatever is forgotten meanwhile.
///
/// It shows the versions up to its timestamp. Those above [`crate::Timestamps::applied`] may still
/// be rolled back, and changes at that very timestamp may still come. Loading a snapshot ends it:
/// reads fail with `Forgotten`.
pub struct View<'m> {
    map: &'m dyn Viewed,
    at: Ts,
    loads: u64,
}

impl<'m> View<'m> {
    /// The timestamp it shows.
    pub fn at(&self) -> Ts {
        self.at
    }

    /// The value of a key, as [`crate::OrderedMap::get`] finds it.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value<'m>>> {
        self.map.get(self, key)
    }

    /// The keys within the bounds, as [`crate::OrderedMap::scan`] finds them.
    pub fn scan(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Scan<'m>> {
        self.map.scan(self, range)
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        self.map.leave(self.at);
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("at", &self.at).finish_non_exhaustive()
    }
}

impl<I: Index> Shared<I> {
    #[inline]
    pub(crate) fn get(&self, key: &[u8], at: Ts) -> Result<Option<Value<'_>>> {
        let pin = self.pins.pin();
        // Before, because a loaded snapshot may lower the mark once its content is installed; and
        // after, because a mark that rises does so before the content goes that needs a lower one.
        self.check_readable(at)?;
        let newest = self.index.newest(key)?;
        self.check_readable(at)?;
        self.value(newest, at, pin)
    }

    /// The value of a key in the content that `loads` counts. The caller holds a view at `at`.
    fn get_in_view(&self, key: &[u8], at: Ts, loads: u64) -> Result<Option<Value<'_>>> {
        let pin = self.pins.pin();
        let newest = self.index.newest(key)?;
        // The view holds what is forgotten. The mark does not tell: it may stand above the view
        // until the writer has seen it.
        self.check_loads(at, loads)?;
        self.value(newest, at, pin)
    }

    /// The value that a read at `at` sees of a key with this newest record.
    #[inline]
    fn value<'m>(&'m self, newest: Newest<'m>, at: Ts, pin: Pin<'m>) -> Result<Option<Value<'m>>> {
        let Some((record, found)) = newest else { return Ok(None) };
        let Some((_, found)) = self.records.visible(found, record.offset(), at)? else { return Ok(None) };
        if found.header.deletion {
            return Ok(None);
        }
        Ok(Some(Value { bytes: found.value, ts: found.header.ts, _pin: pin }))
    }

    fn walk<'m>(&'m self, range: Range<'_>, view: View<'m>) -> Result<Scan<'m>> {
        let pin = self.pins.pin();
        let (from, skipped) = match range.0 {
            Bound::Included(key) => (key, None),
            Bound::Excluded(key) => (key, Some(key.to_vec())),
            Bound::Unbounded => (&[][..], None),
        };
        let walk = self.index.walk(None, from)?;
        self.check_loads(view.at, view.loads)?;
        let end = match range.1 {
            Bound::Included(key) => Bound::Included(key.to_vec()),
            Bound::Excluded(key) => Bound::Excluded(key.to_vec()),
            Bound::Unbounded => Bound::Unbounded,
        };
        Ok(Scan { walk, records: &self.records, skipped, end, is_over: false, view, _pin: pin })
    }
}

impl<I: Index> Core<I> {
    /// Error: `Forgotten`.
    pub(crate) fn view(&self, at: Ts) -> Result<View<'_>> {
        let shared = &self.shared;
        let loads = shared.views.loads();
        shared.check_readable(at)?;
        if let Err(forgotten) = shared.views.enter(at) {
            // It was in the way for a moment.
            self.go_on_forgetting();
            return Err(shared.unreadable(at, forgotten));
        }
        Ok(View { map: self, at, loads })
    }

    pub(crate) fn scan(&self, range: Range<'_>, at: Ts) -> Result<Scan<'_>> {
        self.shared.walk(range, self.view(at)?)
    }

    pub(crate) fn prefix(&self, prefix: &[u8], at: Ts) -> Result<Scan<'_>> {
        let end = after_prefix(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.scan((Bound::Included(prefix), end), at)
    }
}

impl<I: Index> Viewed for Core<I> {
    fn get(&self, view: &View<'_>, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.shared.get_in_view(key, view.at, view.loads)
    }

    fn scan(&self, view: &View<'_>, range: Range<'_>) -> Result<Scan<'_>> {
        let (at, loads) = (view.at, view.loads);
        self.shared.views.enter_again(at);
        self.shared.walk(range, View { map: self, at, loads })
    }

    fn leave(&self, at: Ts) {
        self.shared.views.leave(at);
        self.go_on_forgetting();
    }
}

/// The least key above all keys that begin with `prefix`, or none if there is no such key.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// The keys with a value at one timestamp, in ascending order. At timestamps above
/// [`crate::Timestamps::applied`] a change or a rollback made meanwhile may show or not.
pub struct Scan<'m> {
    walk: Box<dyn Walk + 'm>,
    records: &'m Records,
    /// A key that does not belong to the range, though it begins there.
    skipped: Option<Vec<u8>>,
    end: Bound<Vec<u8>>,
    is_over: bool,
    view: View<'m>,
    _pin: Pin<'m>,
}

impl Scan<'_> {
    /// The next key, or none at the end. Error: `Damaged`.
    pub fn advance(&mut self) -> Result<Option<Entry<'_>>> {
        while !self.is_over {
            let Some(record) = self.walk.next()? else { break };
            let newest = self.records.get(record)?;
            if self.is_past_end(newest.key) {
                break;
            }
            if self.skipped.as_deref().is_some_and(|skipped| skipped == newest.key) {
                continue;
            }
            if let Some((_, found)) = self.records.visible(newest, record.offset(), self.view.at())?
                && !found.header.deletion
            {
                return Ok(Some(Entry { key: found.key, value: found.value, ts: found.header.ts }));
            }
        }
        self.is_over = true;
        Ok(None)
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
    use crate::{Config, Layout, Map, OrderedMap, Structure};
    use perdura_pmem::{Medium, SimMedium};
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    fn map<I: Structure>() -> Map<I> {
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let config = Config { background: false, ..Config::default() };
        let map = Map::create(&medium, "map", &Layout::list(1 << 20), &config).expect("there is room");
        (1..=5).for_each(|ts| map.set(ts, b"key", b"value").expect("there is room"));
        map.apply(5).expect("it is there");
        map
    }

    /// Found: the end of every scan waited for the writer's lock, to find that there was nothing to
    /// forget.
    #[test]
    fn a_scan_that_ends_waits_for_nobody() {
        fn ends<I: Structure>() {
            let map = map::<I>();
            map.forget(2).expect("it is applied");
            let (ended, ends) = mpsc::channel();
            std::thread::scope(|scope| {
                let lock = map.core.state.lock();
                scope.spawn(|| {
                    drop(map.prefix(b"", 3).expect("it scans"));
                    ended.send(()).expect("somebody waits");
                });
                let result = ends.recv_timeout(Duration::from_secs(10));
                drop(lock);
                result.expect("it waits for the lock");
            });
        }
        ends::<crate::ListIndex>();
        ends::<crate::TreeIndex>();
    }

    #[test]
    fn the_end_of_a_prefix_is_the_least_key_above() {
        assert_eq!(after_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(after_prefix(b"\xff"), None);
        assert_eq!(after_prefix(b""), None);
    }
}
