//! Errors that are planted in replicas, each of which must be noticed.

use std::sync::Mutex;

use perdura_pmem::planted::Planting;

use crate::runs::{on_all_cores, run_seed};

/// Number and error, as the line in the sources has them.
const PLANTED: [(u32, &str); 25] = [
    (300, "what was not made durable is called so"),
    (301, "a vote or an acknowledgement leaves before it is durable"),
    (302, "a leader commits entries of earlier terms as soon as a quorum has them"),
    (303, "a leader reads without asking whether it still leads"),
    (304, "a request does not see those before it that are not applied: two pipelined comparisons both win"),
    (305, "a failed comparison is answered before what it rests on is applied"),
    (306, "a lease is counted from the answer"),
    (307, "clocks are taken to be alike"),
    (308, "a lease stays when leadership is handed over"),
    (309, "a start lets go of promises"),
    (312, "an answer of a leader that was deposed counts once another has answered"),
    (313, "nobody looks whether the entry that an answer rests on was replaced"),
    (314, "a promise does not bind two terms later"),
    (320, "EXEC runs though a watched key was changed"),
    (322, "a change that may have come to the leader is called undone"),
    (323, "a forwarded request has the rights of the user `default`"),
    (324, "users that were changed are not read again"),
    (325, "a request that was done is done again"),
    (326, "a change of unknown outcome is called undone"),
    (327, "a write keeps the deadline that the key had"),
    (329, "a read does not see the write before it on its connection"),
    (330, "a leader follows its time of day at once, however far that has gone"),
    (331, "who does not know how old the newest entry is takes its time of day, also one that is behind"),
    (332, "a follower takes the newest entry for as old as its own machine's clock"),
    (333, "a replica that follows reads, or gives a backup of, what it has without asking what there is"),
];
const SEEDS: u64 = 1000;

/// Plants all errors, or one, and runs seeds until each is noticed. Returns whether all were.
pub fn find(only: Option<u32>) -> bool {
    let mut noticed = 0;
    let chosen: Vec<_> = PLANTED.iter().filter(|(number, _)| only.is_none_or(|only| only == *number)).collect();
    for (number, error) in &chosen {
        let planting = Planting::new(*number);
        let first: Mutex<Option<(u64, String)>> = Mutex::new(None);
        on_all_cores(0..SEEDS, |seed| {
            let _in_force = planting.plant();
            let Err(what) = run_seed(seed) else { return true };
            let mut first = first.lock().expect("no holder panics");
            if first.as_ref().is_none_or(|(other, _)| seed < *other) {
                *first = Some((seed, what));
            }
            false
        });
        match first.into_inner().expect("no holder panics") {
            Some((seed, what)) => {
                println!("planted {number}: seed {seed}: {}", what.lines().next().unwrap_or_default());
                noticed += 1;
            }
            None => println!("NOT NOTICED in {SEEDS} seeds: {number}: {error}"),
        }
    }
    println!("planted errors noticed {noticed}/{}", chosen.len());
    noticed == chosen.len() && noticed > 0
}
