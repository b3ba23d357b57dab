//! Retired pages and nodes, which wait until no reader can see them.
//!
//! Thread-safety: owned by the writer's lock. Keeps (I8).

use crate::memory::pin::Pins;
use std::collections::VecDeque;

/// Capacity that is kept when everything has left.
const KEPT: usize = 4096;

/// Retired things in order: first those of each epoch that was closed for them, then those of the
/// present epoch.
#[derive(Debug)]
pub(crate) struct Retired<T> {
    things: VecDeque<T>,
    /// The closed epochs, with how many things were retired in each.
    closed: VecDeque<(u64, usize)>,
    /// Things retired in the present epoch.
    present: usize,
}

impl<T> Default for Retired<T> {
    fn default() -> Retired<T> {
        Retired { things: VecDeque::new(), closed: VecDeque::new(), present: 0 }
    }
}

impl<T> Retired<T> {
    /// Retires a thing.
    #[inline]
    pub(crate) fn add(&mut self, thing: T) {
        self.things.push_back(thing);
        self.present += 1;
    }

    /// Things retired in the present epoch.
    #[inline]
    pub(crate) fn present(&self) -> usize {
        self.present
    }

    /// Closes the epoch, if anything was retired in it. No later reader sees what was retired so
    /// far.
    pub(crate) fn close(&mut self, pins: &Pins) {
        if self.present > 0 {
            self.closed.push_back((pins.advance(), std::mem::take(&mut self.present)));
        }
    }

    /// Whether something waits in a closed epoch.
    #[inline]
    pub(crate) fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Things retired in the epoch that was closed last and not taken yet.
    pub(crate) fn last_closed(&self) -> usize {
        self.closed.back().map_or(0, |(_, count)| *count)
    }

    /// Whether a thing waits that was retired in an epoch before `oldest`.
    #[inline]
    pub(crate) fn has_before(&self, oldest: u64) -> bool {
        self.closed.front().is_some_and(|(epoch, _)| *epoch < oldest)
    }

    /// Takes a thing that was retired in an epoch before `oldest`, the oldest first.
    pub(crate) fn take_before(&mut self, oldest: u64) -> Option<T> {
        let (epoch, count) = self.closed.front_mut()?;
        if *epoch >= oldest {
            return None;
        }
        *count -= 1;
        if *count == 0 {
            self.closed.pop_front();
        }
        let thing = self.things.pop_front();
        if self.things.is_empty() && self.things.capacity() > KEPT {
            self.things.shrink_to(KEPT);
        }
        thing
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Retired::default();
    }

    /// All that waits.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.things.iter()
    }

    /// Takes all that waits, though readers may see it.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.closed.clear();
        self.present = 0;
        self.things.drain(..)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Retired;
    use crate::memory::pin::Pins;

    #[test]
    fn what_a_pin_may_see_waits_for_it() {
        let (pins, mut retired) = (Pins::new(), Retired::default());
        retired.add(1);
        retired.close(&pins);
        let pin = pins.pin();
        retired.add(2);
        assert_eq!(retired.take_before(pins.oldest()), Some(1));
        retired.close(&pins);
        retired.add(3);
        assert_eq!((retired.take_before(pins.oldest()), retired.has_closed(), retired.present()), (None, true, 1));
        drop(pin);
        assert_eq!(retired.take_before(pins.oldest()), Some(2));
        assert_eq!((retired.take_before(pins.oldest()), retired.has_closed()), (None, false));
        assert_eq!(retired.iter().copied().collect::<Vec<_>>(), [3]);
    }
}
