//! The list of a table's free RIDs, by directory page: the rows of a page take a bit each, and a
//! page all of whose RIDs are free is known at once. The incarnation of a free RID is that of its
//! empty word in the directory.

use crate::files::directory::Directory;
use crate::format::Rid;
use crate::shadow::row_set::RowSet;
use perdura_pmem::Mutant;
use std::collections::BTreeMap;

/// Free RIDs.
#[derive(Default)]
pub(crate) struct FreeRids {
    pages: BTreeMap<u64, RowSet>,
    /// Pages all of whose RIDs were free at some time since the last [`FreeRids::take_whole`].
    whole: Vec<u64>,
    count: usize,
    /// RIDs that came although they were free already: the audit reports them.
    twice: usize,
}

impl FreeRids {
    /// Adds RIDs, those of a page preferably one after the other.
    pub(crate) fn put(&mut self, directory: &Directory, rids: impl IntoIterator<Item = Rid>) {
        let rows: Vec<u64> = rids.into_iter().map(Rid::row).collect();
        for of_page in rows.chunk_by(|row, next| directory.page_of(*row) == directory.page_of(*next)) {
            let page = directory.page_of(of_page[0]);
            let set = self.pages.entry(page).or_default();
            let new = of_page.iter().filter(|row| set.insert(directory.position_of(**row))).count();
            self.count += new;
            self.twice += of_page.len() - new;
            if set.len() == directory.rows_in_page() {
                self.whole.push(page);
            }
        }
    }

    /// Takes up to `count` RIDs from the first pages, in descending order.
    pub(crate) fn take(&mut self, directory: &Directory, count: usize) -> Vec<Rid> {
        let mut taken = Vec::new();
        while taken.len() < count
            && let Some(mut first) = self.pages.first_entry()
        {
            let (base, set) = (directory.page_base(*first.key()), first.get_mut());
            let positions: Vec<u16> = set.iter().take(count - taken.len()).collect();
            for position in positions {
                set.remove(position);
                let row = base + u64::from(position);
                taken.push(Rid::new(row, directory.raw_word(row).incarnation()));
            }
            if set.is_empty() {
                first.remove();
            }
        }
        self.count -= taken.len();
        taken.reverse();
        taken
    }

    /// The pages that may be whole, to be asked by [`FreeRids::is_whole`]; the highest first.
    pub(crate) fn take_whole(&mut self) -> Vec<u64> {
        let mut whole = std::mem::take(&mut self.whole);
        whole.sort_unstable_by(|one, other| other.cmp(one));
        whole.dedup();
        whole
    }

    /// Notes again a page that stays whole for now.
    pub(crate) fn leave_whole(&mut self, page: u64) {
        self.whole.push(page);
    }

    /// Whether all RIDs of page `page` are free.
    pub(crate) fn is_whole(&self, directory: &Directory, page: u64) -> bool {
        // Planted: a page is whole although a transaction has one of its RIDs.
        let missing = usize::from(perdura_pmem::planted(Mutant::PageReturnedWithRidInUse));
        self.pages.get(&page).is_some_and(|set| set.len() + missing >= directory.rows_in_page())
    }

    /// Takes all RIDs of page `page` off the list.
    pub(crate) fn remove_page(&mut self, page: u64) {
        self.count -= self.pages.remove(&page).map_or(0, |set| set.len());
    }

    /// Number of RIDs.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Number of RIDs that were freed twice.
    pub(crate) fn freed_twice(&self) -> usize {
        self.twice
    }

    /// The rows of all RIDs, in ascending order.
    pub(crate) fn rows<'a>(&'a self, directory: &'a Directory) -> impl Iterator<Item = u64> + 'a {
        self.pages.iter().flat_map(|(page, set)| {
            let base = directory.page_base(*page);
            set.iter().map(move |position| base + u64::from(position))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Geometry;
    use perdura_pmem::sim::Random;
    use std::collections::BTreeSet;

    /// Hazard: a RID is lost or given out twice, or a page with a RID that somebody has passes for
    /// whole.
    #[test]
    fn every_rid_is_given_out_once() {
        let directory = Directory::new(Geometry { segment_bytes: 4 << 10, page_words: 32 });
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let (mut list, mut model) = (FreeRids::default(), BTreeSet::new());
            for _ in 0..200 {
                let first = random.below(300);
                let rows = (first..first + random.below(40)).filter(|row| row % 32 != 0);
                let added: Vec<_> = rows.map(|row| Rid::new(row, 0)).filter(|rid| model.insert(*rid)).collect();
                if random.one_in(2) {
                    list.put(&directory, added.into_iter().rev())
                } else {
                    list.put(&directory, added)
                }
                for page in
                    list.take_whole().into_iter().filter(|page| list.is_whole(&directory, *page)).collect::<Vec<_>>()
                {
                    assert!(directory.page_rows(page).all(|row| model.remove(&Rid::new(row, 0))), "seed {seed}");
                    list.remove_page(page);
                }
                assert!((0..12).all(|page| !list.is_whole(&directory, page)), "seed {seed}");
                let count = random.below(60) as usize;
                let taken = list.take(&directory, count);
                assert_eq!(taken.len(), count.min(model.len()));
                assert!(taken.iter().all(|rid| model.remove(rid)), "seed {seed}");
                let rows: Vec<u64> = list.rows(&directory).collect();
                assert_eq!((list.len(), rows), (model.len(), model.iter().map(|rid| rid.row()).collect()));
                assert_eq!(list.freed_twice(), 0);
            }
        }
    }
}
