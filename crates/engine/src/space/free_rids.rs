//! The list of a table's free RIDs. Adjacent rows that were never used take the room of two numbers, so a page with few
//! rows costs no DRAM for the others.

use crate::format::Rid;
use std::ops::Range;

/// Free RIDs.
#[derive(Default)]
pub struct FreeRids {
    single: Vec<Rid>,
    /// Rows whose RIDs have incarnation 0.
    runs: Vec<Range<u64>>,
    in_runs: usize,
}

impl FreeRids {
    /// Adds a RID.
    pub fn push(&mut self, rid: Rid) {
        let row = rid.row();
        if rid.incarnation() != 0 {
            return self.single.push(rid);
        }
        self.in_runs += 1;
        match self.runs.last_mut() {
            Some(run) if run.end == row => run.end += 1,
            Some(run) if run.start == row + 1 => run.start = row,
            _ => self.runs.push(row..row + 1),
        }
    }

    /// Takes up to `count` RIDs, those of adjacent rows in descending order.
    pub fn take(&mut self, count: usize) -> Vec<Rid> {
        let mut taken = self.single.split_off(self.single.len().saturating_sub(count));
        while taken.len() < count
            && let Some(run) = self.runs.last_mut()
        {
            let rows = run.start..run.end.min(run.start + (count - taken.len()) as u64);
            run.start = rows.end;
            if run.is_empty() {
                self.runs.pop();
            }
            self.in_runs -= (rows.end - rows.start) as usize;
            taken.extend(rows.rev().map(|row| Rid::new(row, 0)));
        }
        taken
    }

    /// Number of RIDs.
    pub fn len(&self) -> usize {
        self.single.len() + self.in_runs
    }

    /// All RIDs, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Rid> + '_ {
        let runs = self.runs.iter().cloned().flatten().map(|row| Rid::new(row, 0));
        self.single.iter().copied().chain(runs)
    }
}

impl Extend<Rid> for FreeRids {
    fn extend<T: IntoIterator<Item = Rid>>(&mut self, rids: T) {
        rids.into_iter().for_each(|rid| self.push(rid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_pmem::sim::Random;
    use std::collections::BTreeSet;

    /// Hazard: a RID is lost or given out twice where runs begin and end.
    #[test]
    fn every_rid_is_given_out_once() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let (mut list, mut model) = (FreeRids::default(), BTreeSet::new());
            for _ in 0..200 {
                let first = random.below(300);
                let rows = first..first + random.below(40);
                let incarnation = u16::from(random.one_in(4));
                let added: Vec<_> =
                    rows.map(|row| Rid::new(row, incarnation)).filter(|rid| model.insert(*rid)).collect();
                if random.one_in(2) {
                    list.extend(added.into_iter().rev())
                } else {
                    list.extend(added)
                }
                let count = random.below(60) as usize;
                let taken = list.take(count);
                assert_eq!(taken.len(), count.min(model.len()));
                assert!(taken.iter().all(|rid| model.remove(rid)), "seed {seed}");
                assert_eq!((list.len(), list.iter().collect::<BTreeSet<_>>()), (model.len(), model.clone()));
            }
        }
    }
}
