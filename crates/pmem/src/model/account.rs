//! The account of one thread: which of its reads meet a cache, which blocks it is writing, and the
//! time that is charged. Knows no clock, so that tests count charges.

use super::costs::Costs;
use crate::units::{LINE_BYTES, lines};
use std::ops::Range;

/// Lines that a thread is taken to have in caches: 1 MiB.
const CACHED_LINES: usize = 1 << 14;
/// Blocks that a thread can be writing at a time: its share of the device's buffer.
const OPEN_BLOCKS: usize = 8;

/// A block begun, with a bit for each line written.
#[derive(Clone, Copy)]
struct Open {
    block: u64,
    written: u32,
}

const NONE: Open = Open { block: u64::MAX, written: 0 };

/// Time charged, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Charge {
    /// The thread waits so long.
    pub(super) thread: u64,
    /// The device is busy so long.
    pub(super) device: u64,
}

/// A thread's account. Addresses are those of the mapping, which begins at a multiple of all units.
pub(super) struct Account {
    /// Tag of the line at each place of a direct-mapped cache.
    cached: Box<[u32]>,
    open: [Open; OPEN_BLOCKS],
    /// Line after the last that was read from the medium.
    next: u64,
    /// Block that was read last.
    read_block: u64,
    charge: Charge,
}

impl Account {
    pub(super) fn new() -> Account {
        let cached = vec![0; CACHED_LINES].into_boxed_slice();
        Account { cached, open: [NONE; OPEN_BLOCKS], next: u64::MAX, read_block: u64::MAX, charge: Charge::default() }
    }

    /// The charges since the last call.
    pub(super) fn take(&mut self) -> Charge {
        std::mem::take(&mut self.charge)
    }

    /// The charges since the last call of [`Account::take`].
    pub(super) fn charge(&self) -> Charge {
        self.charge
    }

    pub(super) fn fence(&mut self, costs: &Costs) {
        self.charge.thread += costs.fence;
    }

    /// Lines written; `cached` tells whether the caches have them afterwards.
    pub(super) fn wrote(&mut self, costs: &Costs, address: u64, len: u64, cached: bool) {
        let first = address / LINE_BYTES;
        let end = first + lines(address, len);
        self.charge.thread += costs.line * (end - first);
        self.keep(first, end, cached);
        let (first_whole, end_whole) =
            (first.next_multiple_of(costs.block_lines), end / costs.block_lines * costs.block_lines);
        if first_whole >= end_whole {
            return (first..end).for_each(|line| self.open(costs, line));
        }
        (first..first_whole).for_each(|line| self.open(costs, line));
        self.write_whole(costs, first_whole / costs.block_lines..end_whole / costs.block_lines);
        (end_whole..end).for_each(|line| self.open(costs, line));
    }

    /// Notes which of the lines the caches have: all, or none of them.
    fn keep(&mut self, first: u64, end: u64, cached: bool) {
        let mut line = first;
        while line < end {
            let (place, tag) = place(line);
            // Lines in a row have places in a row, up to the end of the cache.
            let count = (CACHED_LINES - place).min((end - line) as usize);
            for slot in &mut self.cached[place..place + count] {
                let gone = if *slot == tag { 0 } else { *slot };
                *slot = if cached { tag } else { gone };
            }
            line += count as u64;
        }
    }

    /// Writes blocks that a range covers, and need not stay open: those of them that were begun are
    /// whole now.
    fn write_whole(&mut self, costs: &Costs, blocks: Range<u64>) {
        self.charge.device += costs.block_write * (blocks.end - blocks.start);
        self.open.iter_mut().filter(|open| blocks.contains(&open.block)).for_each(|open| *open = NONE);
    }

    /// Notes a line in its block. The block that has to go for it is written, and read before if
    /// not all of its lines are there.
    fn open(&mut self, costs: &Costs, line: u64) {
        let (block, bit) = (line / costs.block_lines, 1 << (line % costs.block_lines));
        let open = &mut self.open[block as usize % OPEN_BLOCKS];
        if open.block != block {
            if open.block != NONE.block {
                let is_whole = u64::from(open.written.count_ones()) == costs.block_lines;
                self.charge.device += costs.block_write + if is_whole { 0 } else { costs.block_read };
            }
            *open = Open { block, written: 0 };
        }
        open.written |= bit;
    }

    /// Lines read, which wait for the medium unless they are cached.
    pub(super) fn read(&mut self, costs: &Costs, address: u64, len: u64) {
        self.fetch(costs, address, len, costs.read);
    }

    /// Lines asked for ahead of their use: nobody waits for the first of them either.
    pub(super) fn ask(&mut self, costs: &Costs, address: u64, len: u64) {
        self.fetch(costs, address, len, costs.read_next);
    }

    fn fetch(&mut self, costs: &Costs, address: u64, len: u64, first_price: u64) {
        let first = address / LINE_BYTES;
        for line in first..first + lines(address, len) {
            let (place, tag) = place(line);
            if self.cached[place] == tag {
                continue;
            }
            self.cached[place] = tag;
            self.charge.thread += if line == self.next { costs.read_next } else { first_price };
            self.next = line + 1;
            let block = line / costs.block_lines;
            if block != self.read_block {
                self.charge.device += costs.block_read;
                self.read_block = block;
            }
        }
    }
}

/// Place of a line in the cache, and its tag, which is never 0.
fn place(line: u64) -> (usize, u32) {
    (line as usize % CACHED_LINES, (line / CACHED_LINES as u64) as u32 | 1 << 31)
}

#[cfg(test)]
mod tests {
    use super::super::preset::Preset;
    use super::*;

    const OPTANE: Costs = Costs::of(Preset::Optane);
    const BASE: u64 = 0x7000_0000_0000;

    fn charged(run: impl FnOnce(&mut Account)) -> Charge {
        let mut account = Account::new();
        run(&mut account);
        account.take()
    }

    /// The prices are the sources': 256 B at 2.3 and at 6.6 GB/s.
    #[test]
    fn a_block_takes_the_time_of_its_bytes() {
        assert_eq!((OPTANE.block_write, OPTANE.block_read, OPTANE.block_lines), (111_304, 38_787, 4));
        let cmm = Costs::of(Preset::NvCmm);
        assert_eq!((cmm.block_write, cmm.block_read, cmm.block_lines), (2_000, 2_000, 1));
    }

    /// A log that goes on line by line fills its blocks: no block is read, and each written once,
    /// though every line is fenced by itself.
    #[test]
    fn lines_in_order_share_their_block() {
        let charge = charged(|account| {
            for line in 0..64 {
                account.wrote(&OPTANE, BASE + line * 64, 64, false);
                account.fence(&OPTANE);
            }
        });
        assert_eq!(charge.thread, 64 * (OPTANE.line + OPTANE.fence));
        assert_eq!(charge.device, 8 * OPTANE.block_write, "eight of the sixteen blocks are still open");
    }

    /// A line here and a line there: each costs the device a block read and a block written.
    #[test]
    fn a_partial_block_is_read_before_it_is_written() {
        let charge = charged(|account| (0..108).for_each(|at| account.wrote(&OPTANE, BASE + at * 256, 64, true)));
        assert_eq!(charge.device, 100 * (OPTANE.block_write + OPTANE.block_read));
        assert_eq!(charge.thread, 108 * OPTANE.line);
        let whole = charged(|account| {
            account.wrote(&OPTANE, BASE, 64, true);
            account.wrote(&OPTANE, BASE, 1024, true);
            account.wrote(&OPTANE, BASE + 1024 + 64, 192 + 256 + 64, true);
        });
        assert_eq!(whole.device, 5 * OPTANE.block_write, "four blocks and one more, two are begun");
        let across = charged(|account| account.wrote(&OPTANE, BASE + 60, 8, true));
        assert_eq!(across.thread, 2 * OPTANE.line, "eight bytes across two lines");
        assert_eq!(charged(|account| account.wrote(&OPTANE, BASE, 0, true)), Charge::default());
    }

    /// Reads wait only for lines that no cache has: not for those read or flushed lately, but for
    /// those written past the caches.
    #[test]
    fn only_lines_that_are_not_cached_are_waited_for() {
        let charge = charged(|account| {
            account.read(&OPTANE, BASE, 8);
            account.read(&OPTANE, BASE + 8, 8);
            account.wrote(&OPTANE, BASE + 64, 64, true);
            account.read(&OPTANE, BASE + 64, 64);
        });
        assert_eq!(charge.thread, OPTANE.read + OPTANE.line);
        let past = charged(|account| {
            account.read(&OPTANE, BASE, 8);
            account.wrote(&OPTANE, BASE, 64, false);
            account.read(&OPTANE, BASE, 8);
        });
        assert_eq!(past.thread, 2 * OPTANE.read + OPTANE.line);
        let evicted = charged(|account| {
            for line in [0, CACHED_LINES as u64, 0] {
                account.read(&OPTANE, BASE + line * 64, 8);
            }
        });
        assert_eq!(evicted.thread, 3 * OPTANE.read, "what is as far apart as the cache is large shares a place");
    }

    /// A long read waits once, and then goes at the device's rate; what was asked for ahead does
    /// not wait at all.
    #[test]
    fn reads_in_order_go_at_the_rate_of_the_device() {
        let charge = charged(|account| account.read(&OPTANE, BASE, 4096));
        assert_eq!(charge.thread, OPTANE.read + 63 * OPTANE.read_next);
        assert_eq!(charge.device, 16 * OPTANE.block_read);
        let asked = charged(|account| {
            account.ask(&OPTANE, BASE, 64);
            account.read(&OPTANE, BASE, 64);
        });
        assert_eq!(asked.thread, OPTANE.read_next);
    }

    #[test]
    fn remote_threads_pay_more_and_the_device_works_no_longer() {
        let remote = OPTANE.remote();
        let there = charged(|account| {
            account.wrote(&remote, BASE, 64, true);
            account.fence(&remote);
        });
        assert_eq!(there.thread, (OPTANE.line + OPTANE.fence) * 204 / 100);
        assert_eq!(charged(|account| account.read(&remote, BASE, 8)).thread, OPTANE.read * 153 / 100);
        assert_eq!(remote.block_write, OPTANE.block_write);
    }

    #[test]
    fn the_model_of_dram_charges_nothing() {
        let dram = Costs::of(Preset::Dram);
        let charge = charged(|account| {
            account.wrote(&dram, BASE, 1 << 20, false);
            account.read(&dram, BASE, 1 << 20);
            account.fence(&dram);
        });
        assert_eq!(charge, Charge::default());
    }
}
