//! Errors that are planted in replicas, each of which must be noticed.

use std::sync::Mutex;

use perdura_pmem::Mutant;
use perdura_pmem::planted::Planting;

use crate::runs::{on_all_cores, run_seed};

/// Name; the seed that is known to notice it, which is tried first; and the error, as the line in
/// the sources has it.
const PLANTED: [(Mutant, u64, &str); 26] = [
    (Mutant::PersistedBeforeFence, 5, "what was not made durable is called so"),
    (Mutant::PersistTakenForEnded, 41, "a persist that is under way is taken for one that has ended"),
    (Mutant::SentBeforeDurable, 2, "a vote or an acknowledgement leaves before it is durable"),
    (Mutant::CommitsEarlierTerms, 27, "a leader commits entries of earlier terms as soon as a quorum has them"),
    (Mutant::LeaderReadsUnasked, 7, "a leader reads without asking whether it still leads"),
    (
        Mutant::ComparesAppliedOnly,
        0,
        "a request does not see those before it that are not applied: two pipelined comparisons both win",
    ),
    (Mutant::FailedCompareAnsweredEarly, 6, "a failed comparison is answered before what it rests on is applied"),
    (Mutant::LeaseFromAnswer, 7, "a lease is counted from the answer"),
    (Mutant::ClocksTakenAsAlike, 1399, "clocks are taken to be alike"),
    (Mutant::LeaseSurvivesTransfer, 235, "a lease stays when leadership is handed over"),
    (Mutant::StartForgetsPromises, 18, "a start lets go of promises"),
    (Mutant::DeposedAnswerCounts, 954, "an answer of a leader that was deposed counts once another has answered"),
    (Mutant::ReplacedReadConditionCounts, 390, "nobody looks whether the entry that an answer rests on was replaced"),
    (Mutant::PromiseEndsWithTerm, 438, "a promise does not bind two terms later"),
    (Mutant::ExecIgnoresWatch, 10, "EXEC runs though a watched key was changed"),
    (Mutant::SentChangeCalledUndone, 539, "a change that may have come to the leader is called undone"),
    (Mutant::ForwardAsDefaultUser, 33, "a forwarded request has the rights of the user `default`"),
    (Mutant::UsersNotReadAgain, 58, "users that were changed are not read again"),
    (Mutant::OnceDoneTwice, 33, "a request that was done is done again"),
    (Mutant::UnknownCalledUndone, 201, "a change of unknown outcome is called undone"),
    (Mutant::WriteKeepsDeadline, 57, "a write keeps the deadline that the key had"),
    (Mutant::ReadMissesOwnWrite, 9, "a read does not see the write before it on its connection"),
    (Mutant::ClockFollowsJump, 1, "a leader follows its time of day at once, however far that has gone"),
    (
        Mutant::UnknownAgeTakesClock,
        3,
        "who does not know how old the newest entry is takes its time of day, also one that is behind",
    ),
    (Mutant::FollowerTakesOwnAge, 5, "a follower takes the newest entry for as old as its own machine's clock"),
    (
        Mutant::FollowerReadsUnasked,
        3,
        "a replica that follows reads, or gives a backup of, what it has without asking what there is",
    ),
];
const SEEDS: u64 = 1000;

/// Plants all errors, or one, and runs seeds until each is noticed. Returns whether all were.
pub fn find(only: Option<&str>) -> bool {
    let mut noticed = 0;
    let is_chosen = |mutant: &Mutant| only.is_none_or(|only| only == format!("{mutant:?}"));
    let chosen: Vec<_> = PLANTED.iter().filter(|(mutant, ..)| is_chosen(mutant)).collect();
    for (mutant, known, error) in &chosen {
        let planting = Planting::new(*mutant);
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
                println!("planted {mutant:?}: seed {seed}: {}", what.lines().next().unwrap_or_default());
                noticed += 1;
            }
            None => println!("NOT NOTICED in {SEEDS} seeds: {mutant:?}: {error}"),
        }
    }
    println!("planted errors noticed {noticed}/{}", chosen.len());
    noticed == chosen.len() && noticed > 0
}
