//! Recovers a map, compares it with the oracle, looks for lost space, and uses it again.

use super::model::{Bytes, State};
use super::oracle::Oracle;
use super::scenario::Scenario;
use perdura_map::{ErrorKind, Kind, OrderedMap, Ts};
use perdura_pmem::Medium;
use std::sync::Arc;

/// Pages that an emptied list still uses: its newest record, a deletion, is never unlinked.
const LIST_PAGES_MAX: u64 = 3;

/// Checks a recovered map. An error says what is wrong. `depth` chooses how much is done after the
/// first comparison.
pub fn check(
    medium: &Arc<dyn Medium>,
    scenario: &Scenario,
    oracle: &Oracle,
    history: &[State],
    depth: u64,
) -> Result<(), String> {
    let map = match scenario.open(medium) {
        Ok(map) => map,
        Err(error) if error.kind() == ErrorKind::NotFound && oracle.may_be_absent() => {
            let map = scenario.create(medium).map_err(|error| format!("not made, and cannot be: {error}"))?;
            return use_and_reopen(map, medium, scenario, State::default());
        }
        Err(error) => return Err(format!("recovery refused: {error}")),
    };
    let found = oracle.find(history, |state| state.compare(&*map, 3))?;
    let state = &history[found];
    if state.is_partial {
        let is_told = map.set(1, b"key", b"value").is_err_and(|error| error.kind() == ErrorKind::Partial);
        return if is_told { Ok(()) } else { Err("a map that was emptied for a load takes changes".into()) };
    }
    let timestamps = map.timestamps();
    if timestamps.persisted != timestamps.last {
        return Err(format!("recovered, and not all is persisted: {timestamps:?}"));
    }
    check_whole(&*map, "after recovery")?;
    account(&*map)?;
    state.compare(&*map, 2).map_err(|what| format!("after collection: {what}"))?;
    // Most images are done with, and the state need not be copied.
    if !depth.is_multiple_of(4) {
        return Ok(());
    }
    let mut state = state.clone();
    roll_back(&*map, &mut state)?;
    if depth.is_multiple_of(16) {
        use_and_reopen(map, medium, scenario, state)?;
    }
    Ok(())
}

fn failed(what: &'static str) -> impl Fn(perdura_map::Error) -> String {
    move |error| format!("{what}: {error}")
}

fn check_whole(map: &dyn OrderedMap, when: &str) -> Result<(), String> {
    map.check().map(|_| ()).map_err(|error| format!("check {when}: {error}"))
}

/// Checks that after two collections the use of every page is known and the sums are right.
fn account(map: &dyn OrderedMap) -> Result<(), String> {
    for _ in 0..2 {
        map.collect().map_err(failed("collection after recovery"))?;
    }
    let space = map.space();
    let is_right = space.exact && space.used + space.free == space.total && space.live + space.garbage == space.used;
    if is_right { check_whole(map, "after collections") } else { Err(format!("after two collections: {space:?}")) }
}

/// Checks that changes which are not applied can be rolled back.
fn roll_back(map: &dyn OrderedMap, state: &mut State) -> Result<(), String> {
    let from = state.stamps.applied + 1;
    map.rollback(from).map_err(failed("rollback after recovery"))?;
    map.persist().map_err(failed("persist of a rollback after recovery"))?;
    state.roll_back(from);
    check_whole(map, "after a rollback")?;
    state.compare(map, 2).map_err(|what| format!("after a rollback: {what}"))
}

/// Checks that a recovered map takes changes and keeps them across another restart, and that it
/// uses no page when it is emptied, before and after a restart.
fn use_and_reopen(
    map: Box<dyn OrderedMap>,
    medium: &Arc<dyn Medium>,
    scenario: &Scenario,
    mut state: State,
) -> Result<(), String> {
    change(&*map, &mut state)?;
    map.persist().map_err(failed("persist after recovery"))?;
    check_whole(&*map, "after changes")?;
    drop(map);
    let map = scenario.open(medium).map_err(failed("second recovery refused"))?;
    state.compare(&*map, 4).map_err(|what| format!("after another restart: {what}"))?;
    empty(&*map, &mut state)?;
    check_emptied(&*map, scenario)?;
    drop(map);
    let map = scenario.open(medium).map_err(failed("third recovery refused"))?;
    state.compare(&*map, 2).map_err(|what| format!("after another restart, emptied: {what}"))?;
    account(&*map)?;
    check_emptied(&*map, scenario)
}

/// Gives some keys values, as far as there is room.
fn change(map: &dyn OrderedMap, state: &mut State) -> Result<(), String> {
    let ts = state.stamps.last.max(state.stamps.applied) + 1;
    for number in 0..6u64 {
        let (key, value) = (Bytes::from(format!("after {number}").as_bytes()), Bytes::from([number as u8; 30]));
        match map.set(ts, &key, &value) {
            Ok(()) => state.change(ts, &key, Some(value)),
            Err(error) if error.kind() == ErrorKind::Full => break,
            Err(error) => return Err(format!("a change after recovery: {error}")),
        }
    }
    state.compare(map, 2).map_err(|what| format!("changed after recovery: {what}"))
}

/// Deletes everything and collects it.
fn empty(map: &dyn OrderedMap, state: &mut State) -> Result<(), String> {
    let keys: Vec<Bytes> = state.view(Ts::MAX).map(|(key, ..)| key.clone()).collect();
    for key in keys {
        let ts = state.stamps.last.max(state.stamps.applied) + 1;
        forget_all(map, state)?;
        map.delete(ts, &key).map_err(failed("a deletion after recovery"))?;
        state.change(ts, &key, None);
    }
    // A deletion is dropped one round after the versions it hides, and a page is freed one
    // persist after its content.
    (0..4).try_for_each(|_| forget_all(map, state))
}

/// Checks that an emptied map has all its space: a page lost in the crash or before it would show.
pub fn check_emptied(map: &dyn OrderedMap, scenario: &Scenario) -> Result<(), String> {
    let pages_max = match scenario.kind {
        Kind::List => LIST_PAGES_MAX,
        Kind::BTree => 0,
    };
    let (space, used_max) = (map.space(), pages_max * u64::from(scenario.layout().page_bytes));
    let is_right = space.exact && space.live == 0 && space.used <= used_max;
    if is_right { Ok(()) } else { Err(format!("emptied, at most {used_max} bytes should be used: {space:?}")) }
}

fn forget_all(map: &dyn OrderedMap, state: &mut State) -> Result<(), String> {
    map.apply(state.stamps.last).map_err(failed("applying after recovery"))?;
    map.forget(state.stamps.last).map_err(failed("forgetting after recovery"))?;
    map.persist().map_err(failed("persist after recovery"))?;
    map.collect().map_err(failed("collection after recovery"))?;
    state.apply(state.stamps.last);
    state.forget(state.stamps.last);
    Ok(())
}
