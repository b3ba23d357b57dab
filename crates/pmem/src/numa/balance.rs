//! The rule by which threads are let go from a node whose processors are full while others' are
//! not, and taken back. It sees loads alone, so a list of them replays it.

/// Share of work, of 1000, from which on a node is full; up to which another one has room; and up
/// to which threads come back.
const FULL: u64 = 900;
const ROOM: u64 = 800;
const CALM: u64 = 700;
/// Looks in a row that must be calm before a part of the threads comes back, at first and at most.
const PATIENCE: u32 = 5;
const PATIENCE_MAX: u32 = 320;

/// Step to take with a part of the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Stay,
    LetGo,
    TakeBack,
}

/// Memory of the rule.
///
/// Threads that are back may fill the node again. Each time it was full so soon after, they wait
/// twice as long for their next return; so no load makes them swing.
#[derive(Debug)]
pub(super) struct Balance {
    patience: u32,
    calm: u32,
    /// Looks since threads came back last, if none were let go since.
    since_return: Option<u32>,
}

impl Balance {
    pub(super) fn new() -> Balance {
        Balance { patience: PATIENCE, calm: 0, since_return: None }
    }

    /// Decides by the load of the node and that of the emptiest other one, of 1000; `None` if no
    /// processor of it is online. `has_let_go` says that there are threads to be taken back.
    pub(super) fn decide(&mut self, home: Option<u64>, other: Option<u64>, has_let_go: bool) -> Step {
        self.since_return = self.since_return.map(|looks| looks.saturating_add(1));
        let home = home.unwrap_or(1000);
        let other = other.unwrap_or(1000);
        if home >= FULL && other <= ROOM {
            self.calm = 0;
            if let Some(looks) = self.since_return.take() {
                self.patience = if looks <= self.patience { (2 * self.patience).min(PATIENCE_MAX) } else { PATIENCE };
            }
            return Step::LetGo;
        }
        // Elsewhere it is no better.
        let is_calm = home <= CALM || other >= FULL;
        self.calm = if has_let_go && is_calm { self.calm + 1 } else { 0 };
        if self.calm < self.patience {
            return Step::Stay;
        }
        self.calm = 0;
        self.since_return = Some(0);
        Step::TakeBack
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split_mix::SplitMix64;

    /// Steps for a list of loads, with threads that are let go from the first step that says so.
    fn steps(balance: &mut Balance, loads: &[(u64, u64)]) -> Vec<Step> {
        loads.iter().map(|(home, other)| balance.decide(Some(*home), Some(*other), true)).collect()
    }

    #[test]
    fn threads_go_when_the_node_is_full_and_another_is_not() {
        let mut balance = Balance::new();
        let loads = [(899, 0), (900, 801), (1000, 899), (900, 800), (1000, 0)];
        assert_eq!(steps(&mut balance, &loads), [Step::Stay, Step::Stay, Step::Stay, Step::LetGo, Step::LetGo]);
        assert_eq!(balance.decide(None, Some(100), false), Step::LetGo, "its processors went offline");
        assert_eq!(balance.decide(Some(1000), None, false), Step::Stay, "there is no other node");
        assert_eq!(balance.decide(None, None, false), Step::Stay);
    }

    #[test]
    fn threads_come_back_after_some_calm_looks_in_a_row() {
        let mut balance = Balance::new();
        assert_eq!(steps(&mut balance, &[(1000, 0)]), [Step::LetGo]);
        assert!(steps(&mut balance, &[(701, 0); 50]).iter().all(|step| *step == Step::Stay), "between the two marks");
        assert!(steps(&mut balance, &[(700, 0); 4]).iter().all(|step| *step == Step::Stay));
        assert!(steps(&mut balance, &[(701, 0)]) == [Step::Stay], "not in a row");
        assert!(steps(&mut balance, &[(0, 0); 4]).iter().all(|step| *step == Step::Stay));
        assert_eq!(steps(&mut balance, &[(0, 0)]), [Step::TakeBack]);
        assert_eq!(balance.decide(Some(0), Some(0), false), Step::Stay, "nobody is left to come back");
        assert_eq!(steps(&mut balance, &[(950, 950); 5])[4], Step::TakeBack, "elsewhere it is as full");
    }

    /// A load that fills the node whenever its threads are back: each return takes twice as long as
    /// the one before, up to a bound.
    #[test]
    fn a_load_on_the_verge_does_not_make_threads_swing() {
        let mut balance = Balance::new();
        let mut is_let_go = false;
        let mut returns = Vec::new();
        for look in 0..10_000 {
            let home = if is_let_go { 500 } else { 1000 };
            match balance.decide(Some(home), Some(500), is_let_go) {
                Step::Stay => {}
                Step::LetGo => is_let_go = true,
                Step::TakeBack => {
                    is_let_go = false;
                    returns.push(look);
                }
            }
        }
        let waits: Vec<i32> = returns.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(waits[..6], [11, 21, 41, 81, 161, 321]);
        assert!(waits[6..].iter().all(|wait| *wait == 321), "{waits:?}");
        assert!(returns.len() < 50, "{}", returns.len());
    }

    #[test]
    fn patience_begins_anew_once_a_return_has_held() {
        let mut balance = Balance { patience: PATIENCE_MAX, calm: 0, since_return: Some(0) };
        (0..PATIENCE_MAX).for_each(|_| assert_eq!(balance.decide(Some(800), Some(0), false), Step::Stay));
        assert_eq!(balance.decide(Some(1000), Some(0), false), Step::LetGo);
        assert_eq!(balance.patience, PATIENCE);
    }

    /// Whatever the loads, threads go only from a full node, and come back only after calm.
    #[test]
    fn any_loads_keep_the_rule() {
        for seed in 0..200 {
            let mut random = SplitMix64::new(seed);
            let mut balance = Balance::new();
            let mut calm = 0;
            for look in 0..500 {
                let mut load = || Some(random.next_u64() % 1001).filter(|load| !load.is_multiple_of(17));
                let (home, other) = (load(), load());
                let has_let_go = random.next_u64() & 7 != 0;
                let step = balance.decide(home, other, has_let_go);
                let is_full = home.is_none_or(|load| load >= FULL);
                let has_room = other.is_some_and(|load| load <= ROOM);
                let is_calm = home.is_some_and(|load| load <= CALM) || other.is_none_or(|load| load >= FULL);
                calm = if has_let_go && is_calm && !(is_full && has_room) { calm + 1 } else { 0 };
                let context = format!("seed {seed}, look {look}: {home:?} {other:?}");
                assert_eq!(step == Step::LetGo, is_full && has_room, "{context}");
                assert!(step != Step::TakeBack || calm >= PATIENCE, "{context}");
                assert!(balance.patience <= PATIENCE_MAX, "{context}");
            }
        }
    }
}
