//! A modelled device: what passes a region is charged to the thread, which spins, and to the
//! device's token clock, which all threads share.
//!
//! The clock stands at the end of the work given to the device so far. A thread waits while that is
//! further ahead than the device's buffers reach, so all writers together get no more than its
//! bandwidth. Charges of a few nanoseconds are collected and paid at the next fence.

use super::account::{Account, Charge};
use super::clock;
use super::costs::Costs;
use super::preset::{Model, Preset};
use crate::counters;
use crate::units::LINE_BYTES;
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Charges that are paid without waiting for a fence, in picoseconds.
const DUE: u64 = 1_000_000;
/// Time by which a thread can be ahead of its charges, in picoseconds: a wait that ended late, or
/// the accounting of cached reads.
const AHEAD_MAX: i64 = 200_000;

thread_local! {
    static ACCOUNT: RefCell<Paying> = RefCell::new(Paying::new());
}

/// A thread's account, and what it has paid.
struct Paying {
    account: Account,
    /// Time by which the thread is ahead of its charges.
    ahead: i64,
}

impl Paying {
    fn new() -> Paying {
        Paying { account: Account::new(), ahead: 0 }
    }

    /// Counts time that the thread has spent in the accounting.
    fn spend(&mut self, time: u64) {
        self.ahead = (self.ahead + time as i64).min(AHEAD_MAX);
    }
}

/// Time that the accounting itself takes, in picoseconds.
#[derive(Clone, Copy, Default)]
struct Own {
    write_call: u64,
    write_line: u64,
    read_line: u64,
    clock: u64,
}

impl Own {
    /// The least of this and of all measured before in this process: what was measured while others
    /// kept the processor busy does not stay.
    fn least(mut self) -> Own {
        static LEAST: Mutex<Option<Own>> = Mutex::new(None);
        let mut least = LEAST.lock();
        if let Some(before) = *least {
            self = Own {
                write_call: self.write_call.min(before.write_call),
                write_line: self.write_line.min(before.write_line),
                read_line: self.read_line.min(before.read_line),
                clock: self.clock.min(before.clock),
            };
        }
        *least.insert(self)
    }
}

/// A modelled device, shared by all regions of its medium.
pub(crate) struct Device {
    local: Costs,
    remote: Costs,
    node: Option<u32>,
    /// Node of each processor.
    nodes: Box<[u32]>,
    own: Own,
    /// End of the work given to the device so far.
    busy_until: CachePadded<AtomicU64>,
}

impl Device {
    /// An idle device, on a machine with these nodes by processor. Measures first what the
    /// accounting takes, some milliseconds.
    pub(crate) fn new(model: Model, nodes: Box<[u32]>) -> Device {
        let local = Costs::of(model.preset);
        let mut device = Device {
            local,
            remote: local.remote(),
            node: model.node,
            nodes,
            own: Own::default(),
            busy_until: CachePadded::new(AtomicU64::new(0)),
        };
        device.own = Own::least(device.measure());
        device
    }

    /// Charges a range that was flushed or, if `cached` is false, written past the caches.
    #[cold]
    #[inline(never)]
    pub(crate) fn wrote(&self, address: usize, len: u64, cached: bool) {
        let spent = self.own.write_call + self.own.write_line * (len / LINE_BYTES);
        self.charge(spent, |account, costs| account.wrote(costs, address as u64, len, cached));
    }

    /// Charges a range that is read.
    #[cold]
    #[inline(never)]
    pub(crate) fn read(&self, address: usize, len: u64) {
        // The accounting of the first line takes no time of its own: the memory is asked meanwhile.
        self.charge(self.own.read_line * (len / LINE_BYTES), |account, costs| account.read(costs, address as u64, len));
    }

    /// Charges the line of an address that is asked for ahead of its use.
    #[cold]
    #[inline(never)]
    pub(crate) fn ask(&self, address: usize) {
        self.charge(0, |account, costs| account.ask(costs, address as u64, 1));
    }

    /// Charges a fence, and pays what is owed.
    #[cold]
    #[inline(never)]
    pub(crate) fn fence(&self) {
        // A thread that is ending may have no account any more.
        let begun = clock::now();
        let _ = ACCOUNT.try_with(|paying| {
            let paying = &mut *paying.borrow_mut();
            paying.account.fence(self.costs());
            self.pay(paying, begun);
        });
    }

    fn charge(&self, spent: u64, add: impl FnOnce(&mut Account, &Costs)) {
        let _ = ACCOUNT.try_with(|paying| {
            let paying = &mut *paying.borrow_mut();
            add(&mut paying.account, self.costs());
            paying.spend(spent);
            let Charge { thread, device } = paying.account.charge();
            if thread.max(device) >= DUE {
                self.pay(paying, clock::now());
            }
        });
    }

    /// Prices for the calling thread, where it runs now.
    fn costs(&self) -> &Costs {
        let is_remote = self.node.is_some_and(|node| {
            let here = self.nodes.get(rustix::thread::sched_getcpu()).copied().unwrap_or(0);
            here != node
        });
        if is_remote { &self.remote } else { &self.local }
    }

    /// Spins from `now` on until all charges so far are paid, and until the device is no further
    /// behind than its buffers reach.
    fn pay(&self, paying: &mut Paying, now: u64) {
        let charge = paying.account.take();
        counters::modelled(charge.thread, charge.device);
        paying.spend(self.own.clock);
        let owed = charge.thread as i64 - paying.ahead;
        let end = now.saturating_add_signed(owed);
        let free = self.give(now, charge.device).saturating_sub(self.local.behind);
        let reached = clock::spin_until(end.max(free));
        paying.ahead = ((reached as i64) - (end as i64)).clamp(0, AHEAD_MAX);
    }

    /// Gives the device work. Returns when it will have done it.
    fn give(&self, now: u64, work: u64) -> u64 {
        if work == 0 {
            return 0;
        }
        let begin = |busy: u64| busy.max(now) + work;
        let before = self.busy_until.fetch_update(Relaxed, Relaxed, |busy| Some(begin(busy)));
        begin(before.unwrap_or_else(|busy| busy))
    }

    /// Measures the accounting on an account of its own.
    fn measure(&self) -> Own {
        const LINES: u64 = 64;
        let free = Device {
            local: Costs::of(Preset::Dram),
            remote: Costs::of(Preset::Dram),
            node: self.node,
            nodes: self.nodes.clone(),
            own: Own::default(),
            busy_until: CachePadded::new(AtomicU64::new(0)),
        };
        let base = 1 << 40;
        let write_one = least(|| free.wrote(base, 1, true));
        let write_many = least(|| free.wrote(base, LINES * LINE_BYTES, true));
        let read_one = least(|| free.read(base, 1));
        let read_many = least(|| free.read(base, LINES * LINE_BYTES));
        let line = |one: u64, many: u64| many.saturating_sub(one) / (LINES - 1);
        Own {
            write_call: write_one,
            write_line: line(write_one, write_many),
            read_line: line(read_one, read_many),
            clock: least(|| {
                black_box(clock::now());
            }),
        }
    }
}

/// Picoseconds that a call takes: the least of several means.
fn least(call: impl Fn()) -> u64 {
    const ROUNDS: usize = 400;
    const CALLS: u64 = 20;
    let round = |_| {
        let begun = clock::now();
        (0..CALLS).for_each(|_| call());
        (clock::now() - begun) / CALLS
    };
    (0..ROUNDS).map(round).min().expect("there are rounds")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Picoseconds that a thread takes for a line without the model: a copy past the cache goes on
    /// in the background and takes less, a flush more.
    const FLOOR: u64 = 80_000;

    fn idle(preset: Preset) -> Device {
        let local = Costs::of(preset);
        let busy_until = CachePadded::new(AtomicU64::new(0));
        Device { local, remote: local.remote(), node: None, nodes: Box::default(), own: Own::default(), busy_until }
    }

    /// Simulated time of a run, in picoseconds: a millisecond.
    const SPAN: u64 = 1_000_000_000;

    /// Share of the device's bandwidth that so many threads get, each line by line in a file of its
    /// own and each line fenced: the work that the device was given in a simulated run.
    fn share(preset: Preset, threads: usize, floor: u64) -> f64 {
        let device = idle(preset);
        let mut writers: Vec<(u64, u64, Account)> =
            (0..threads as u64).map(|number| (0, (number + 1) << 32, Account::new())).collect();
        let mut work = 0;
        // The writer whose clock is least goes next.
        while let Some((now, address, account)) = writers.iter_mut().min_by_key(|writer| writer.0) {
            if *now >= SPAN {
                break;
            }
            account.wrote(&device.local, *address, LINE_BYTES, false);
            account.fence(&device.local);
            let charge = account.take();
            let free = device.give(*now, charge.device).saturating_sub(device.local.behind);
            *now = (*now + floor + charge.thread).max(free);
            *address += LINE_BYTES;
            work += charge.device;
        }
        work as f64 / SPAN as f64
    }

    /// NF-log (SNU 2022, 1.1) saw Optane saturate at around eight threads of small writes.
    #[test]
    fn about_eight_threads_saturate_a_module() {
        let shares = [1, 2, 4, 8, 16, 32].map(|threads| share(Preset::Optane, threads, FLOOR));
        assert!((0.11..0.14).contains(&shares[0]), "{shares:?}");
        assert!((shares[2] / shares[0] - 4.0).abs() < 0.1, "four threads do not disturb each other: {shares:?}");
        assert!(shares[3..].iter().all(|share| (0.95..1.02).contains(share)), "{shares:?}");
    }

    /// However fast the memory below is, the device does no more than one thing at a time; its
    /// buffers take a little ahead.
    #[test]
    fn no_number_of_threads_gets_more_than_the_bandwidth() {
        for preset in [Preset::Optane, Preset::NvCmm] {
            for threads in [1, 8, 64, 512] {
                let costs = Costs::of(preset);
                let ahead = (costs.behind + threads as u64 * costs.block_write) as f64 / SPAN as f64;
                let share = share(preset, threads, 0);
                assert!(share <= 1.0 + ahead, "{preset:?}, {threads} threads: {share}");
                assert!(threads < 64 || share > 0.9, "{preset:?}, {threads} threads: {share}");
            }
        }
    }

    /// Charges do not depend on how long the accounting takes, or on who else runs.
    #[test]
    fn the_counters_show_what_was_charged() {
        let device = Device::new(Model::new(Preset::Optane), Box::default());
        let costs = Costs::of(Preset::Optane);
        std::thread::spawn(move || {
            let charged = |run: &dyn Fn()| {
                ACCOUNT.with(|paying| paying.borrow_mut().account.take());
                let before = counters::of_this_thread();
                run();
                let after = counters::of_this_thread();
                (after.modelled_ps - before.modelled_ps, after.modelled_device_ps - before.modelled_device_ps)
            };
            let lines = charged(&|| {
                for line in 0..100 {
                    device.wrote((1 << 40) + line * 64, 64, false);
                    device.fence();
                }
            });
            assert_eq!(lines, (100 * (costs.line + costs.fence), 17 * costs.block_write));
            let long = charged(&|| {
                device.read(1 << 41, 1 << 20);
                device.fence();
            });
            assert_eq!(long.0, costs.read + 16_383 * costs.read_next + costs.fence);
        })
        .join()
        .expect("the thread ends");
    }
}
