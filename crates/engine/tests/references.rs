//! Hazard: a row refers to one that is gone. A transaction that writes a reference locks the row
//! that it refers to; one that deletes that row looks for references, also for those under way.

use crate::common::keyed::{Fields, Keyed, Kind, config, fill};
use crate::common::settle;
use perdura_engine::{Engine, ErrorKind, Isolation, LockMode, LockOutcome, ReadView, ReferenceKey, Rid, Session};
use perdura_pmem::SimMedium;
use perdura_pmem::sim::Random;
use std::sync::Arc;
use std::time::Duration;

const PARENTS: [Kind; 2] = [Kind::Number, Kind::Group];
const CHILDREN: [Kind; 1] = [Kind::Group];

fn open() -> (Engine, Keyed, Keyed) {
    let engine = Engine::open(Arc::new(SimMedium::new()), config()).unwrap();
    let parents = Keyed::create(&engine, "parents", &PARENTS);
    let children = Keyed::create(&engine, "children", &CHILDREN);
    (engine, parents, children)
}

fn session(engine: &Engine, isolation: Isolation) -> Session {
    let mut txn = engine.session(isolation);
    txn.set_lock_wait_timeout(Duration::ZERO);
    txn
}

/// A parent by its number and its group, which are the same.
fn fields(number: u32) -> Fields {
    Fields { number: u64::from(number), group: number, ..Fields::default() }
}

fn number_key(number: u32) -> [u8; 8] {
    u64::from(number).to_be_bytes()
}

fn lock(txn: &mut Session, parents: &Keyed, number: u32) -> Result<Option<Rid>, ErrorKind> {
    let key = ReferenceKey { index: 0, start: &number_key(number), is_whole: true };
    let locked = txn.lock_referenced(&parents.table, key, None).map_err(|error| error.kind());
    // By the beginning of a key that may repeat it is the same.
    let start = &number.to_be_bytes()[..4];
    let other = txn.lock_referenced(&parents.table, ReferenceKey { index: 1, start, is_whole: false }, None);
    assert_eq!(other.map_err(|error| error.kind()), locked);
    locked
}

fn is_referenced(txn: &mut Session, children: &Keyed, number: u32) -> Result<bool, ErrorKind> {
    let key = ReferenceKey { index: 0, start: &number.to_be_bytes(), is_whole: true };
    txn.is_referenced(&children.table, key).map_err(|error| error.kind())
}

#[test]
fn a_row_that_others_refer_to_is_locked_and_nobody_deletes_it() {
    let (engine, parents, _) = open();
    let rids = fill(&engine, &parents, (1..=200).map(fields));
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let (mut one, mut two) = (session(&engine, isolation), session(&engine, isolation));
        assert_eq!(lock(&mut one, &parents, 7), Ok(Some(rids[6])));
        assert_eq!(lock(&mut two, &parents, 7), Ok(Some(rids[6])), "others may refer to it");
        assert_eq!(lock(&mut one, &parents, 777), Ok(None));
        two.commit().unwrap();
        let refused = parents.delete(&mut two, rids[6]).unwrap_err().kind();
        assert_eq!(refused, ErrorKind::LockWaitTimeout);
        two.rollback().unwrap();
        one.commit().unwrap();
        let locked = two.locks().try_lock_row(&parents.table, rids[6], LockMode::Exclusive).unwrap();
        assert!(locked.is_some(), "the lock ends with the transaction");
        two.rollback().unwrap();
    }
}

/// At every isolation level, also behind a snapshot, it is the newest row that counts.
#[test]
fn rows_of_transactions_under_way() {
    let (engine, parents, _) = open();
    let rids = fill(&engine, &parents, (1..=4).map(fields));
    let mut child = session(&engine, Isolation::RepeatableRead);
    assert_eq!(child.read(&parents.table, rids[0], ReadView::Snapshot).unwrap().map(|_| ()), Some(()));
    let mut one = session(&engine, Isolation::ReadCommitted);
    parents.delete(&mut one, rids[0]).unwrap();
    parents.update(&mut one, rids[1], &fields(20).row()).unwrap();
    let new = parents.insert(&mut one, &fields(30).row()).unwrap();
    for number in [1, 2, 20, 30] {
        child.start_statement();
        assert_eq!(lock(&mut child, &parents, number), Err(ErrorKind::LockWaitTimeout), "{number}");
        assert!(lock(&mut one, &parents, number).is_ok(), "own rows take no wait");
    }
    assert_eq!(lock(&mut one, &parents, 1), Ok(None));
    assert_eq!(lock(&mut one, &parents, 20), Ok(Some(rids[1])));
    assert_eq!(lock(&mut one, &parents, 30), Ok(Some(new)));
    one.commit().unwrap();
    child.start_statement();
    assert_eq!(lock(&mut child, &parents, 1), Ok(None));
    assert_eq!(lock(&mut child, &parents, 2), Ok(None));
    assert_eq!(lock(&mut child, &parents, 20), Ok(Some(rids[1])));
    assert_eq!(lock(&mut child, &parents, 30), Ok(Some(new)));
}

#[test]
fn references_are_found_and_those_under_way_are_waited_for() {
    let (engine, _, children) = open();
    // Many leaves of one key.
    let rids = fill(&engine, &children, (0..300).map(|number| fields(number % 3)));
    let mut txn = session(&engine, Isolation::ReadCommitted);
    assert_eq!(is_referenced(&mut txn, &children, 2), Ok(true));
    assert_eq!(is_referenced(&mut txn, &children, 3), Ok(false));
    let mut other = session(&engine, Isolation::ReadCommitted);
    children.insert(&mut other, &fields(5).row()).unwrap();
    assert_eq!(is_referenced(&mut txn, &children, 5), Err(ErrorKind::LockWaitTimeout));
    assert_eq!(is_referenced(&mut other, &children, 5), Ok(true));
    other.rollback().unwrap();
    txn.start_statement();
    assert_eq!(is_referenced(&mut txn, &children, 5), Ok(false));
    let start = 2u32.to_be_bytes();
    let key = ReferenceKey { index: 0, start: &start, is_whole: true };
    let mut rows = other.find_referring(&children.table, key).unwrap().expect("some rows");
    let mut locked = 0;
    loop {
        let next = other.lock_referring(&children.table, &mut rows, 10).unwrap().len();
        assert!(next < 10 + 64, "no more than a leaf more than was asked for: {next}");
        locked += next;
        if next == 0 {
            break;
        }
    }
    assert_eq!(locked, 100);
    let locked = txn.locks().try_lock_row(&children.table, rids[2], LockMode::Shared).unwrap();
    assert!(locked.is_none(), "the other has locked all of them");
    other.rollback().unwrap();
    for (at, rid) in rids.iter().enumerate().filter(|(at, _)| at % 3 == 1) {
        assert!(children.delete(&mut other, *rid).is_ok(), "{at}");
    }
    assert_eq!(is_referenced(&mut other, &children, 1), Ok(false));
    assert_eq!(is_referenced(&mut txn, &children, 1), Err(ErrorKind::LockWaitTimeout), "not decided");
    other.commit().unwrap();
    txn.start_statement();
    assert_eq!(is_referenced(&mut txn, &children, 1), Ok(false));
    drop((txn, other));
    settle(&engine);
}

/// Hazard: a million rows that are referred to in one transaction take memory without bound.
#[test]
fn locks_of_parents_lie_in_their_pages() {
    const COUNT: u32 = 2000;
    let (engine, parents, children) = open();
    let rids = fill(&engine, &parents, (1..=COUNT).map(fields));
    let mut txn = session(&engine, Isolation::ReadCommitted);
    for number in 1..=COUNT {
        txn.start_statement();
        let key = ReferenceKey { index: 0, start: &number_key(number), is_whole: true };
        assert_eq!(txn.lock_referenced(&parents.table, key, None).unwrap(), Some(rids[number as usize - 1]));
    }
    children.insert(&mut txn, &fields(1).row()).unwrap();
    txn.start_statement();
    let mut listed = 0;
    assert!(engine.each_lock(|_| {
        listed += 1;
        true
    }));
    assert_eq!((listed, engine.counters().locks_held), (0, u64::from(COUNT)));
    let mut memory = 0;
    engine.each_transaction(|one| {
        memory = one.memory;
        true
    });
    // The pages of the small pool have 511 rows.
    let pages = u64::from(COUNT).div_ceil(511) + 2;
    assert!(memory <= pages * 600 + 2000, "{memory} bytes for {pages} pages");
    // They are locks all the same.
    let mut other = session(&engine, Isolation::ReadCommitted);
    for rid in rids.iter().step_by(100) {
        let refused = parents.delete(&mut other, *rid).unwrap_err().kind();
        assert_eq!(refused, ErrorKind::LockWaitTimeout);
    }
    other.rollback().unwrap();
    txn.commit().unwrap();
    rids.iter().for_each(|rid| parents.delete(&mut other, *rid).unwrap());
    other.commit().unwrap();
    assert_eq!(engine.counters().locks_held, 0);
    drop((txn, other));
    settle(&engine);
}

/// Hazard: a lock shared in place is raised beside others, or lost when it is.
#[test]
fn a_shared_lock_is_raised_once_nobody_shares_it() {
    let (engine, parents, _) = open();
    let rid = fill(&engine, &parents, (1..=3).map(fields))[0];
    let table = &parents.table;
    let [mut one, mut two, mut three] = [0; 3].map(|_| session(&engine, Isolation::ReadCommitted));
    for in_table in [false, true] {
        assert_eq!(one.locks().lock_row(table, rid, LockMode::Shared).unwrap(), LockOutcome::New);
        assert_eq!(two.locks().lock_row(table, rid, LockMode::Shared).unwrap(), LockOutcome::New);
        assert_eq!(one.locks().lock_row(table, rid, LockMode::Shared).unwrap(), LockOutcome::Held);
        assert!(one.locks().try_lock_row(table, rid, LockMode::Exclusive).unwrap().is_none(), "the other shares it");
        assert_eq!(parents.update(&mut one, rid, &fields(1).row()).unwrap_err().kind(), ErrorKind::LockWaitTimeout);
        two.locks().unlock_row(table, rid);
        if in_table {
            assert!(three.locks().try_lock_row(table, rid, LockMode::Exclusive).unwrap().is_none());
        }
        assert_eq!(one.locks().lock_row(table, rid, LockMode::Exclusive).unwrap(), LockOutcome::Held);
        assert!(two.locks().try_lock_row(table, rid, LockMode::Shared).unwrap().is_none(), "{in_table}");
        parents.update(&mut one, rid, &fields(1).row()).unwrap();
        one.rollback().unwrap();
        assert_eq!(two.locks().try_lock_row(table, rid, LockMode::Exclusive).unwrap(), Some(LockOutcome::New));
        two.rollback().unwrap();
        assert_eq!(engine.counters().locks_held, 0);
    }
    // Raised with nobody in the way it stays in place.
    one.locks().lock_row(table, rid, LockMode::Shared).unwrap();
    parents.update(&mut one, rid, &fields(1).row()).unwrap();
    assert!(two.locks().try_lock_row(table, rid, LockMode::Shared).unwrap().is_none());
    assert_eq!(engine.counters().locks_held, 1);
    one.commit().unwrap();
    assert!(two.locks().try_lock_row(table, rid, LockMode::Shared).unwrap().is_some());
}

/// Whoever shares a row of a table does not write it: a SERIALIZABLE transaction reads it beside.
/// Hazard: that is forgotten once the same transaction writes.
#[test]
fn a_row_that_is_shared_is_read_as_a_whole() {
    let (engine, parents, _) = open();
    let rid = fill(&engine, &parents, (1..=3).map(fields))[0];
    let (mut child, mut reader) =
        (session(&engine, Isolation::ReadCommitted), session(&engine, Isolation::Serializable));
    assert!(lock(&mut child, &parents, 1).unwrap().is_some());
    assert!(reader.locks().try_lock_table(&parents.table, LockMode::Shared).unwrap());
    assert!(lock(&mut child, &parents, 2).unwrap().is_some(), "and goes on sharing rows");
    assert_eq!(parents.update(&mut child, rid, &fields(1).row()).unwrap_err().kind(), ErrorKind::LockWaitTimeout);
    reader.rollback().unwrap();
    child.start_statement();
    parents.update(&mut child, rid, &fields(1).row()).unwrap();
    assert!(!reader.locks().try_lock_table(&parents.table, LockMode::Shared).unwrap());
    child.commit().unwrap();
    assert!(reader.locks().try_lock_table(&parents.table, LockMode::Shared).unwrap());
}

/// One of many threads: writes references, or deletes rows that nobody refers to.
fn work(engine: &Engine, (parents, children): (&Keyed, &Keyed), seed: u64) {
    let mut random = Random::new(seed);
    let isolations = [Isolation::ReadCommitted, Isolation::ConsistentReads, Isolation::RepeatableRead];
    let mut txn = engine.session(isolations[random.below(3) as usize]);
    txn.set_lock_wait_timeout(Duration::from_secs(20));
    for _ in 0..300 {
        txn.start_statement();
        let outcome = change(&mut txn, (parents, children), &mut random);
        match outcome {
            Ok(()) => drop(txn.commit().unwrap()),
            Err(ErrorKind::Deadlock | ErrorKind::DuplicateKey | ErrorKind::RecordChanged | ErrorKind::NotFound) => {
                txn.rollback().unwrap();
            }
            Err(kind) => panic!("seed {seed}: {kind:?}"),
        }
    }
}

fn change(txn: &mut Session, (parents, children): (&Keyed, &Keyed), random: &mut Random) -> Result<(), ErrorKind> {
    let kind = |error: perdura_engine::Error| error.kind();
    let number = random.below(6) as u32;
    let key = ReferenceKey { index: 0, start: &number_key(number), is_whole: true };
    if random.one_in(2) {
        if txn.lock_referenced(&parents.table, key, None).map_err(kind)?.is_some() {
            children.insert(txn, &fields(number).row()).map_err(kind)?;
        }
        return Ok(());
    }
    let Some(rid) = txn.index(&parents.table, 0).find(&number_key(number), ReadView::Newest).map_err(kind)? else {
        return parents.insert(txn, &fields(number).row()).map(|_| ()).map_err(kind);
    };
    txn.locks().lock_row(&parents.table, rid, LockMode::Exclusive).map_err(kind)?;
    if txn.index(&parents.table, 0).find(&number_key(number), ReadView::Newest).map_err(kind)? != Some(rid) {
        return Ok(());
    }
    let key = ReferenceKey { index: 0, start: &number.to_be_bytes(), is_whole: true };
    if !txn.is_referenced(&children.table, key).map_err(kind)? {
        return parents.delete(txn, rid).map_err(kind);
    }
    // Its children go first.
    while let Some(child) = txn.index(&children.table, 0).find(&number.to_be_bytes(), ReadView::Newest).map_err(kind)? {
        children.delete(txn, child).map_err(kind)?;
    }
    parents.delete(txn, rid).map_err(kind)
}

#[test]
fn no_row_is_left_without_the_one_that_it_refers_to() {
    for seed in 0..3 {
        let (engine, parents, children) = open();
        fill(&engine, &parents, (0..6).map(fields));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (engine, tables) = (&engine, (&parents, &children));
                scope.spawn(move || work(engine, tables, seed * 4 + thread));
            }
        });
        let there: Vec<u32> = parents.check(&engine).values().map(|row| Fields::of_row(row).group).collect();
        for row in children.check(&engine).values() {
            let group = Fields::of_row(row).group;
            assert!(there.contains(&group), "seed {seed}: {group} is not among {there:?}");
        }
    }
}

/// Hazard: a rename is durable without the definitions that follow it, or the other way round.
#[test]
fn definitions_of_several_tables_change_with_a_rename() {
    let medium = Arc::new(SimMedium::new());
    let engine = Engine::open(medium.clone(), config()).unwrap();
    for name in ["a", "b", "c"] {
        engine.create_table(name, name.as_bytes()).unwrap();
    }
    let new = |name: &str, bytes: &[u8]| (name.to_owned(), bytes.to_vec());
    let others = [new("a", b"renamed"), new("b", b"follows")];
    engine.rename_table_redefining(("a", "z"), false, &others).unwrap();
    let missing = engine.rename_table_redefining(("c", "y"), false, &[new("c", b"-"), new("nobody", b"-")]);
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    let check = |engine: &Engine| {
        assert_eq!(engine.table_names().iter().map(|name| name.to_string()).collect::<Vec<_>>(), ["b", "c", "z"]);
        for (name, bytes) in [("z", &b"renamed"[..]), ("b", b"follows"), ("c", b"c")] {
            assert_eq!(&*engine.definition(name).unwrap(), bytes, "{name}");
        }
    };
    check(&engine);
    engine.close();
    drop(engine);
    check(&Engine::open(medium, config()).unwrap());
}
