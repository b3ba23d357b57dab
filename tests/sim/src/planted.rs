//! Errors that are planted in replicas, each of which must be noticed.

use std::sync::Mutex;

use perdura_pmem::planted::Planting;

use crate::runs::{on_all_cores, run_seed};

/// Number; the seed that is known to notice it, which is tried first; and the error, as the line in
/// the sources has it.
const PLANTED: [(u32, u64, &str); 25] = [
    (300, 0, "what was not made durable is called so"),
    (301, 171, "a vote or an acknowledgement leaves before it is durable"),
    (302, 3, "a leader commits entries of earlier terms as soon as a quorum has them"),
    (303, 7, "a leader reads without asking whether it still leads"),
    (304, 0, "a request does not see those before it that are not applied: two pipelined comparisons both win"),
    (305, 3, "a failed comparison is answered before what it rests on is applied"),
    (306, 7, "a lease is counted from the answer"),
    (307, 330, "clocks are taken to be alike"),
    (308, 79, "a lease stays when leadership is handed over"),
    (309, 32, "a start lets go of promises"),
    (312, 236, "an answer of a leader that was deposed counts once another has answered"),
    (313, 247, "nobody looks whether the entry that an answer rests on was replaced"),
    (314, 32, "a promise does not bind two terms later"),
    (320, 33, "EXEC runs though a watched key was changed"),
    (322, 394, "a change that may have come to the leader is called undone"),
    (323, 33, "a forwarded request has the rights of the user `default`"),
    (324, 58, "users that were changed are not read again"),
    (325, 33, "a request that was done is done again"),
    (326, 201, "a change of unknown outcome is called undone"),
    (327, 10, "a write keeps the deadline that the key had"),
    (329, 9, "a read does not see the write before it on its connection"),
    (330, 0, "a leader follows its time of day at once, however far that has gone"),
    (331, 3, "who does not know how old the newest entry is takes its time of day, also one that is behind"),
    (332, 5, "a follower takes the newest entry for as old as its own machine's clock"),
    (333, 2, "a replica that follows reads, or gives a backup of, what it has without asking what there is"),
];
const SEEDS: u64 = 1000;

/// Plants all errors, or one, and runs seeds until each is noticed. Returns whether all were.
pub fn find(only: Option<u32>) -> bool {
    let mut noticed = 0;
    let chosen: Vec<_> = PLANTED.iter().filter(|(number, ..)| only.is_none_or(|only| only == *number)).collect();
    for (number, known, error) in &chosen {
        let planting = Planting::new(*number);
        let first: Mutex<Option<(u64, String)>> = Mutex::new(None);
        let look = |seed| {
            let _in_force = planting.plant();
            let Err(what) = run_seed(seed) else { return true };
            let mut first = first.lock().expect("no holder panics");
            if first.as_ref().is_none_or(|(other, _)| seed < *other) {
                *first = Some((seed, what));
            }
            false
        };
        if look(*known) {
            on_all_cores(0..SEEDS, look);
        }
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
