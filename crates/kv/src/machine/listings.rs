//! Listings by SCAN that are under way: the key behind which each goes on, by the number that its
//! client has.

use std::collections::BTreeMap;

use bytes::Bytes;

/// Most bytes of all listings.
pub(super) const BYTES_MAX: usize = 64 << 20;
/// Bytes of a listing beside its keys and its user's name, roughly.
const LISTING_BYTES: usize = 300;

/// A cursor and the last key that was looked at.
type Place = (u64, Vec<u8>);

#[derive(Debug)]
struct Listing {
    user: Bytes,
    /// Where it goes on. None at its end.
    newest: Option<Place>,
    before: Option<Place>,
    used: u64,
}

impl Listing {
    fn places(&self) -> impl Iterator<Item = &Place> {
        self.newest.iter().chain(&self.before)
    }

    fn bytes(&self) -> usize {
        LISTING_BYTES + self.user.len() + self.places().map(|(_, key)| key.len()).sum::<usize>()
    }

    /// The order in which a user's listings are given up.
    fn rank(&self) -> (bool, u64) {
        (self.newest.is_some(), self.used)
    }
}

/// Listings of a user.
#[derive(Debug, Default)]
struct Share {
    bytes: usize,
    by_rank: BTreeMap<(bool, u64), u64>,
}

/// All listings.
///
/// A number of 64 bits cannot name a place among keys of any length, so the place is kept here. A
/// listing keeps its newest place and the one before, for a client that asks again. It is given up
/// when it has come to its end, or when all together have more than [`BYTES_MAX`]: then that goes
/// which was used the longest ago, among those of the user whose listings have most; one that has
/// come to its end first. So a user's listing stays unless the user's own are more than an equal
/// share.
#[derive(Debug, Default)]
pub(super) struct Listings {
    listings: BTreeMap<u64, Listing>,
    by_cursor: BTreeMap<u64, u64>,
    users: BTreeMap<Bytes, Share>,
    bytes: usize,
    uses: u64,
}

impl Listings {
    /// The key of a user's cursor. `None` if it is not known.
    pub(super) fn key(&self, user: &[u8], cursor: u64) -> Option<&[u8]> {
        let listing = self.listings.get(self.by_cursor.get(&cursor)?).filter(|listing| listing.user == user)?;
        listing.places().find(|(of, _)| *of == cursor).map(|(_, key)| &key[..])
    }

    /// A user's listing at `cursor`, or a new one at 0, has looked at the keys up to `key`, or at
    /// all. Returns its next cursor; `fresh`, if that is a new one.
    pub(super) fn advance(&mut self, user: &Bytes, cursor: u64, key: Option<Vec<u8>>, fresh: u64) -> u64 {
        self.uses += 1;
        let known = self.by_cursor.get(&cursor).copied().and_then(|number| self.take(number));
        let Some(key) = key else {
            if let Some(listing) = known {
                let before = listing.places().find(|(of, _)| *of == cursor).cloned();
                self.put(Listing { newest: None, before, used: self.uses, ..listing });
            }
            return 0;
        };
        let (newest, before) = match known {
            Some(Listing { newest: Some((next, looked_at)), before, .. }) if next != cursor && looked_at == key => {
                ((next, looked_at), before)
            }
            Some(listing) => ((fresh, key), listing.places().find(|(of, _)| *of == cursor).cloned()),
            None => ((fresh, key), None),
        };
        let next = newest.0;
        self.put(Listing { user: user.clone(), newest: Some(newest), before, used: self.uses });
        while self.bytes > BYTES_MAX && self.give_up() {}
        next
    }

    /// Gives one up. Returns whether there is one.
    fn give_up(&mut self) -> bool {
        let most = self.users.values().max_by_key(|share| share.bytes);
        let number = most.and_then(|share| share.by_rank.first_key_value()).map(|(_, number)| *number);
        number.and_then(|number| self.take(number)).is_some()
    }

    fn put(&mut self, listing: Listing) {
        let (number, bytes) = (listing.used, listing.bytes());
        self.by_cursor.extend(listing.places().map(|(cursor, _)| (*cursor, number)));
        let share = self.users.entry(listing.user.clone()).or_default();
        share.bytes += bytes;
        share.by_rank.insert(listing.rank(), number);
        self.bytes += bytes;
        self.listings.insert(number, listing);
    }

    fn take(&mut self, number: u64) -> Option<Listing> {
        let listing = self.listings.remove(&number)?;
        for (cursor, _) in listing.places() {
            self.by_cursor.remove(cursor);
        }
        let bytes = listing.bytes();
        self.bytes -= bytes;
        if let Some(share) = self.users.get_mut(&listing.user) {
            share.bytes -= bytes;
            share.by_rank.remove(&listing.rank());
            if share.by_rank.is_empty() {
                self.users.remove(&listing.user);
            }
        }
        Some(listing)
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, Bytes, Listings};

    const ME: Bytes = Bytes::from_static(b"me");
    const OTHER: Bytes = Bytes::from_static(b"other");

    fn key(number: u64) -> Option<Vec<u8>> {
        Some(number.to_be_bytes().to_vec())
    }

    #[test]
    fn a_listing_keeps_two_places_until_its_end() {
        let mut all = Listings::default();
        assert_eq!(all.advance(&ME, 0, key(1), 11), 11);
        assert_eq!(all.advance(&ME, 11, key(2), 12), 12);
        assert_eq!(all.key(b"me", 12), key(2).as_deref());
        assert_eq!((all.key(b"other", 12), all.key(b"me", 13)), (None, None));
        // Asked again: the same, or another place.
        assert_eq!(all.advance(&ME, 11, key(2), 13), 12);
        assert_eq!(all.advance(&ME, 11, key(3), 14), 14);
        assert_eq!((all.key(b"me", 11), all.key(b"me", 12)), (key(1).as_deref(), None));
        assert_eq!(all.advance(&ME, 14, key(4), 15), 15);
        assert_eq!(all.key(b"me", 11), None);
        assert_eq!(all.advance(&ME, 15, None, 16), 0);
        assert_eq!(all.advance(&ME, 15, None, 17), 0);
        assert_eq!((all.key(b"me", 15), all.key(b"me", 14)), (key(4).as_deref(), None));
        assert_eq!(all.listings.len(), 1);
    }

    /// Hazard: others' listings that are begun and never ended push a slow one out, or fill the
    /// memory.
    #[test]
    fn who_has_most_gives_up_first_and_all_have_a_bound() {
        let mut all = Listings::default();
        let (mut mine, mut fresh) = (all.advance(&ME, 0, key(0), 1), 1);
        for number in 0..9_000 {
            fresh += 1;
            let long = Some(vec![7; 32_000]);
            all.advance(&OTHER, 0, long, fresh);
            if number % 1000 == 0 {
                fresh += 1;
                mine = all.advance(&ME, mine, key(number), fresh);
            }
        }
        assert_eq!(all.key(b"me", mine), key(8000).as_deref());
        assert!(all.bytes <= BYTES_MAX && all.bytes > BYTES_MAX - 40_000, "{}", all.bytes);
        let (listings, cursors) = (all.listings.len(), all.by_cursor.len());
        assert!(listings < BYTES_MAX / 32_000 + 2 && cursors <= 2 * listings, "{listings} {cursors}");
        // One's own: first what has come to its end.
        let mut all = Listings::default();
        let slow = all.advance(&ME, 0, key(0), 1);
        for number in 1..=3 * BYTES_MAX as u64 / 300 {
            let cursor = all.advance(&ME, 0, key(number), 2 * number);
            all.advance(&ME, cursor, None, 2 * number + 1);
        }
        assert_eq!(all.key(b"me", slow), key(0).as_deref());
        assert!(all.bytes <= BYTES_MAX);
    }
}
