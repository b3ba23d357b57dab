//! Threads of a pool on machines with faked nodes: pinned, let go when their node is full, back
//! later, and never where they may not run.

use super::faked::Faked;
use super::*;
use crate::split_mix::SplitMix64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, mpsc};

/// Runs on a thread of its own, whose affinity is that of the process.
fn on_thread<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(run).join().expect("it passes"))
}

fn counts(locality: &Locality) -> (u64, u64, u64) {
    let status = locality.status();
    (status.pinned, status.let_go, status.elsewhere)
}

/// Lets time pass with these loads of nodes 0 and 1, in so many looks.
fn look(faked: &Faked, locality: &Locality, home: u64, other: u64, looks: u32) {
    for _ in 0..looks {
        faked.pass(&[("0-3", home), ("4-7", other)]);
        locality.balance();
    }
}

#[test]
fn a_thread_is_pinned_while_it_is_attached_and_has_its_affinity_back() {
    let faked = Faked::two();
    for (node, cpus) in [(0, "0-3"), (1, "4-7")] {
        let locality = Locality::of(&faked.machine(), || Some(node));
        on_thread(|| {
            let first = locality.attach();
            assert_eq!(faked.mine(), cpus);
            let second = locality.attach();
            drop(first);
            assert_eq!((faked.mine().as_str(), counts(&locality)), (cpus, (1, 0, 0)));
            drop(second);
            assert_eq!((faked.mine().as_str(), counts(&locality)), ("0-7", (0, 0, 0)));
        });
    }
}

#[test]
fn a_thread_keeps_to_the_processors_that_it_had_before() {
    let faked = Faked::two();
    let locality = Locality::of(&faked.machine(), || Some(0));
    for (before, pinned, expected) in [("2-5", "2-3", (1, 0, 0)), ("1", "1", (1, 0, 0)), ("4,6", "4,6", (0, 0, 1))] {
        on_thread(|| {
            faked.set(before);
            let attachment = locality.attach();
            assert_eq!((faked.mine().as_str(), counts(&locality)), (pinned, expected));
            drop(attachment);
            assert_eq!(faked.mine(), before);
        });
    }
}

/// An administrator's `taskset` on a running server, which an end of a session would undo.
#[test]
fn an_affinity_that_was_set_meanwhile_stays() {
    let faked = Faked::two();
    let locality = Locality::of(&faked.machine(), || Some(0));
    on_thread(|| {
        let attachment = locality.attach();
        faked.set("1,5");
        drop(attachment);
        assert_eq!(faked.mine(), "1,5");
    });
}

/// A session begins on one thread of a pool of threads, and ends on another.
#[test]
fn another_thread_may_let_a_thread_off_even_after_its_end() {
    let faked = Faked::two();
    let locality = Locality::of(&faked.machine(), || Some(1));
    let (sender, receiver) = mpsc::channel();
    let (done, barrier) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            sender.send(locality.attach()).expect("it is received");
            barrier.wait();
            done.wait();
            assert_eq!(faked.mine(), "0-7");
            let pinned = locality.attach();
            assert_eq!(faked.mine(), "4-7");
            sender.send(pinned).expect("it is received");
        });
        let attachment = receiver.recv().expect("it is sent");
        barrier.wait();
        drop(attachment);
        done.wait();
        thread.join().expect("it passes");
    });
    let attachment = receiver.recv().expect("it is sent");
    assert_eq!(counts(&locality), (0, 0, 0), "the thread has ended");
    drop(attachment);
}

#[test]
fn threads_go_from_a_full_node_part_by_part_and_come_back() {
    let faked = Faked::two();
    let locality = Locality::of(&faked.machine(), || Some(0));
    let (ready, go_on) = (Barrier::new(9), Barrier::new(9));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let attachment = locality.attach();
                ready.wait();
                go_on.wait();
                assert_eq!(faked.mine(), "0-7", "it was let go");
                ready.wait();
                go_on.wait();
                assert_eq!(faked.mine(), "0-3", "it is back");
                drop(attachment);
                assert_eq!(faked.mine(), "0-7");
            });
        }
        ready.wait();
        look(&faked, &locality, 1000, 1000, 20);
        assert_eq!(counts(&locality), (8, 0, 0), "all nodes are full");
        look(&faked, &locality, 1000, 100, 1);
        assert_eq!(counts(&locality), (6, 2, 0));
        locality.balance();
        assert_eq!(counts(&locality), (6, 2, 0), "no time has passed");
        look(&faked, &locality, 800, 300, 20);
        assert_eq!(counts(&locality), (6, 2, 0), "neither full nor calm");
        on_thread(|| {
            let _late = locality.attach();
            assert_eq!((faked.mine().as_str(), counts(&locality)), ("0-7", (6, 3, 0)), "a newcomer is let go too");
        });
        look(&faked, &locality, 950, 300, 10);
        assert_eq!(counts(&locality), (0, 8, 0));
        go_on.wait();
        ready.wait();
        look(&faked, &locality, 300, 300, 4);
        assert_eq!(counts(&locality), (0, 8, 0), "not long enough");
        look(&faked, &locality, 300, 300, 1);
        assert_eq!(counts(&locality), (2, 6, 0));
        look(&faked, &locality, 300, 300, 40);
        assert_eq!(counts(&locality), (8, 0, 0));
        go_on.wait();
    });
    assert_eq!(counts(&locality), (0, 0, 0));
}

#[test]
fn memory_without_processors_is_worked_on_from_the_nearest_node() {
    let nodes =
        [(0, "0-3", "10 21 31 24"), (1, "4-7", "21 10 31 14"), (2, "8-11", "31 31 10 31"), (3, "", "24 14 31 10")];
    let faked = Faked::new(&nodes);
    let node_of = |node| Locality::of(&faked.machine(), || Some(node)).status().node;
    assert_eq!([node_of(0), node_of(1), node_of(2), node_of(3)], [Some(0), Some(1), Some(2), Some(1)]);
    faked.allow("0-3,8-11");
    assert_eq!([node_of(1), node_of(3)], [Some(0), Some(0)], "the nearest one that the process may use");
    let locality = Locality::of(&faked.machine(), || Some(3));
    on_thread(|| {
        let _attachment = locality.attach();
        assert_eq!(faked.mine(), "0-3");
        faked.pass(&[("0-3", 1000), ("4-7", 0), ("8-11", 1000)]);
        locality.balance();
        faked.pass(&[("0-3", 1000), ("4-7", 0), ("8-11", 1000)]);
        locality.balance();
        assert_eq!(faked.mine(), "0-3", "the processors that are idle are not the process's");
        faked.pass(&[("0-3", 1000), ("4-7", 0), ("8-11", 200)]);
        locality.balance();
        assert_eq!(faked.mine(), "0-3,8-11");
    });
}

#[test]
fn where_there_is_nothing_to_place_threads_stay_for_a_reason() {
    let check = |faked: &Faked, node, reason: &str, is_fault| {
        let locality = Locality::of(&faked.machine(), || node);
        let before = faked.mine();
        on_thread(|| {
            let _attachment = locality.attach();
            locality.balance();
            assert_eq!(faked.mine(), before);
        });
        let text = locality.status().to_string();
        assert!(text.starts_with("threads stay where they are: ") && text.contains(reason), "{text}");
        assert_eq!((locality.status().node, locality.fault().is_some()), (None, is_fault), "{text}");
    };
    let two = Faked::two();
    check(&Faked::new(&[(0, "0-3", "10")]), Some(0), "one node", false);
    check(&two, None, "unknown", false);
    check(&two, Some(7), "node 7, which is not online", true);
    check(&two, Some(u32::MAX), "not online", true);
    two.allow("1-2");
    check(&two, Some(0), "one node alone", false);
    two.write("/sys/devices/system/node/node1/cpulist", "4-");
    check(&two, Some(0), "node1/cpulist: \"4-\"", true);
    two.remove("/sys/devices/system/node/online");
    check(&two, Some(0), "one node", false);
    let off = Locality::off("switched off");
    assert_eq!((off.status().to_string().as_str(), off.fault()), ("threads stay where they are: switched off", None));
}

/// Processors go while threads are pinned to them: the kernel lets these run everywhere. They must
/// not be left with a part of the node once the others are back.
#[test]
fn processors_that_are_unplugged_let_their_threads_go() {
    let faked = Faked::two();
    let locality = Locality::of(&faked.machine(), || Some(0));
    on_thread(|| {
        let attachment = locality.attach();
        look(&faked, &locality, 100, 100, 2);
        faked.unplug("0-3");
        look(&faked, &locality, 0, 100, 2);
        assert_eq!((faked.mine().as_str(), counts(&locality)), ("4-7", (0, 1, 0)));
        on_thread(|| {
            let _late = locality.attach();
            assert_eq!(faked.mine(), "4-7");
        });
        faked.unplug("");
        look(&faked, &locality, 100, 100, 10);
        assert_eq!((faked.mine().as_str(), counts(&locality)), ("0-3", (1, 0, 0)));
        faked.unplug("2");
        drop(attachment);
        faked.unplug("");
        assert_eq!(faked.mine(), "0-7", "a processor less is no affinity that somebody else has set");
    });
}

/// A thread that comes while its node is offline, which the next looks make good.
#[test]
fn a_thread_that_the_system_refused_is_pinned_later() {
    let faked = Faked::two();
    let locality = Locality::of(&faked.machine(), || Some(0));
    on_thread(|| {
        faked.unplug("0-3");
        let _attachment = locality.attach();
        assert_eq!((faked.mine().as_str(), counts(&locality)), ("4-7", (0, 0, 1)));
        faked.unplug("");
        look(&faked, &locality, 100, 100, 2);
        assert_eq!((faked.mine().as_str(), counts(&locality)), ("0-3", (1, 0, 0)));
    });
}

#[test]
fn a_load_that_cannot_be_read_changes_nothing() {
    let faked = Faked::two();
    let locality = Locality::of(&faked.machine(), || Some(0));
    on_thread(|| {
        let _attachment = locality.attach();
        for text in ["", "cpu", "cpu0 a b c d e\ncpu4 1 2\n", "\0\0\0"] {
            faked.write("/proc/stat", text);
            look(&faked, &locality, 1000, 0, 3);
            assert_eq!(counts(&locality), (1, 0, 0), "{text:?}");
        }
    });
}

/// Two pools on different nodes share a thread: the first one has it.
#[test]
fn a_thread_of_two_pools_is_where_the_first_has_it() {
    let faked = Faked::two();
    let pools = [0, 1].map(|node| Locality::of(&faked.machine(), || Some(node)));
    on_thread(|| {
        let first = pools[0].attach();
        let second = pools[1].attach();
        assert_eq!((faked.mine().as_str(), counts(&pools[0]), counts(&pools[1])), ("0-3", (1, 0, 0), (0, 0, 1)));
        drop(first);
        assert_eq!(faked.mine(), "0-7");
        drop(second);
        assert_eq!(faked.mine(), "0-7");
    });
}

/// Sessions come and go on threads, some move to other threads, loads change, threads end with
/// attachments of theirs alive elsewhere. In the end every thread is as it was, and none is left in
/// the list.
#[test]
fn seeded_threads_that_attach_and_detach_leave_nothing_behind() {
    for seed in 0..20u64 {
        let faked = Faked::new(&[
            (0, "0-3", "10 20 20 20"),
            (1, "4-7", "20 10 20 20"),
            (2, "8-11", "20 20 10 20"),
            (3, "", "20 20 20 10"),
        ]);
        let locality = Locality::of(&faked.machine(), || Some(seed as u32 % 4));
        let is_over = AtomicBool::new(false);
        let (sender, receiver) = mpsc::channel::<Attachment>();
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..6)
                .map(|worker| {
                    scope.spawn({
                        let (locality, faked, sender) = (&locality, &faked, sender.clone());
                        move || work(locality, faked, &sender, SplitMix64::new(seed * 31 + worker))
                    })
                })
                .collect();
            scope.spawn(|| {
                let mut random = SplitMix64::new(seed);
                while !is_over.load(Ordering::Relaxed) {
                    let mut load = || random.next_u64() % 1001;
                    faked.pass(&[("0-3", load()), ("4-7", load()), ("8-11", load())]);
                    locality.balance();
                    std::thread::yield_now();
                }
            });
            drop(sender);
            // Those that outlive their threads.
            for attachment in receiver.iter().take(6) {
                drop(attachment);
            }
            workers.into_iter().for_each(|worker| worker.join().unwrap_or_else(|_| panic!("seed {seed}")));
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(counts(&locality), (0, 0, 0), "seed {seed}");
    }
}

/// A thread of the stress test, with an affinity of its own.
fn work(locality: &Locality, faked: &Faked, sender: &mpsc::Sender<Attachment>, mut random: SplitMix64) {
    let before = ["0-11", "2-5", "7", "0,4,8", "8-11"][(random.next_u64() % 5) as usize];
    faked.set(before);
    let allowed = Cpus::parse(before).expect("a list");
    let mut attached = Vec::new();
    for _ in 0..200 {
        if random.next_u64() & 1 == 0 && attached.len() < 4 {
            attached.push(locality.attach());
        } else if !attached.is_empty() {
            drop(attached.swap_remove((random.next_u64() % attached.len() as u64) as usize));
        }
        let now = Cpus::parse(&faked.mine()).expect("a list");
        assert!(!now.is_empty() && now.without(&allowed).is_empty(), "{now} of {before}");
        if attached.is_empty() {
            assert_eq!(now, allowed);
        }
    }
    attached.clear();
    assert_eq!(faked.mine(), before);
    sender.send(locality.attach()).expect("it is received");
}
