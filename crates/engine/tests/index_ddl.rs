//! Hazard: an index that is added to a table with rows lacks some of them, or has others; one that
//! is dropped comes back, or its places are lost; an alteration that fails, is ended, or is cut off
//! by a power failure leaves half of itself (I3).

use crate::common;

use crate::common::altering::{alter, alter_with};
use crate::common::keyed::{Fields, KINDS, Keyed, Kind, Rows, config, fill, roomy};
use crate::common::settle;
use perdura_engine::{
    AlteredIndex, CheckClient, CheckDepth, Config, Engine, Error, ErrorKind, Isolation, Key, ReadView,
};
use perdura_pmem::sim::{Random, Recorder, ReplayOptions, Seen};
use perdura_pmem::{Medium, SimMedium};
use std::ops::ControlFlow;
use std::sync::Arc;

fn open(medium: &Arc<SimMedium>, config: Config) -> Engine {
    let shared: Arc<dyn Medium> = medium.clone();
    Engine::open(shared, config).unwrap_or_else(|error| panic!("{error}"))
}

fn audit(engine: &Engine, keyed: &Keyed, hint: &str) {
    engine.sweep().unwrap();
    settle(engine);
    settle(engine);
    keyed.table.audit().unwrap_or_else(|error| panic!("{hint}: {error}"));
}

/// Changes rows a little, so that the indexes have to keep up.
fn stir(engine: &Engine, keyed: &Keyed, random: &mut Random, count: u64) {
    let mut txn = engine.session(Isolation::ReadCommitted);
    let rows: Vec<_> = keyed.check(engine).into_keys().collect();
    for _ in 0..count {
        let rid = rows.get(random.below(rows.len() as u64 + 8) as usize).copied();
        let row = (rid.is_none() || random.one_in(2)).then(|| Fields::random(random, 3000).row());
        if let Err(error) = keyed.put(&mut txn, rid, row.as_deref()) {
            let known = [ErrorKind::DuplicateKey, ErrorKind::NotFound].contains(&error.kind());
            assert!(known, "{error}");
        }
    }
    txn.commit().unwrap();
}

/// Indexes of every kind come and go, sorted in DRAM or in runs, between changes and restarts of
/// both kinds.
#[test]
fn indexes_come_and_go() {
    for seed in common::seeds(6) {
        let medium = Arc::new(SimMedium::new());
        let mut engine = open(&medium, roomy());
        let mut random = Random::new(seed);
        let mut keyed = Keyed::create(&engine, "t", &[Kind::Number]);
        fill(&engine, &keyed, (1..250).map(Fields::of));
        for round in 0..14 {
            let hint = format!("seed {seed} round {round}");
            // As little as there can be is some hundred entries.
            engine.set_transaction_memory(if random.one_in(2) { 1 } else { 64 << 20 });
            let mut kinds: Vec<Kind> = KINDS.iter().copied().filter(|_| random.one_in(2)).collect();
            if random.one_in(2) {
                kinds.reverse();
            }
            keyed = match alter(&engine, &keyed, &kinds) {
                Ok(altered) => altered,
                Err((error, duplicate)) => {
                    assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{hint}: {error}");
                    assert!(duplicate.is_some(), "{hint}");
                    keyed
                }
            };
            engine.set_transaction_memory(64 << 20);
            stir(&engine, &keyed, &mut random, 30);
            let rows = keyed.check(&engine);
            if random.one_in(2) {
                audit(&engine, &keyed, &hint);
            }
            if random.one_in(2) {
                let kinds = keyed.kinds.clone();
                drop(keyed);
                if random.one_in(2) {
                    engine.close();
                }
                drop(engine);
                engine = open(&medium, roomy());
                keyed = Keyed::open(&engine, "t", &kinds);
                assert_eq!(keyed.check(&engine), rows, "{hint}");
            }
        }
        audit(&engine, &keyed, &format!("seed {seed}"));
    }
}

/// Runs are merged where the entries do not fit into DRAM; NULLs repeat, other keys do not.
#[test]
fn runs_and_duplicates() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium, config());
    engine.set_transaction_memory(1);
    let plain = Keyed::create(&engine, "t", &[]);
    for part in 0..20 {
        fill(
            &engine,
            &plain,
            (part * 200..part * 200 + 200).map(|number| {
                // Every fifth name is none.
                let name = if number % 5 == 0 { 0 } else { number };
                Fields { padding: 0, name, ..Fields::of(number) }
            }),
        );
    }
    let keyed = alter(&engine, &plain, &[Kind::Name, Kind::Group, Kind::Number]).map_err(|(error, _)| error).unwrap();
    assert_eq!(keyed.check(&engine).len(), 4000);
    audit(&engine, &keyed, "all keys");
    let number = alter(&engine, &keyed, &[Kind::Number]).map_err(|(error, _)| error).unwrap();
    let free = number.table.free_bytes();
    audit(&engine, &number, "one key");
    assert!(number.table.free_bytes() > free, "the segments of dropped indexes go back");
    let rids = fill(&engine, &number, [Fields { padding: 0, ..Fields { name: 77, ..Fields::of(9000) } }]);
    let free = number.table.free_bytes();
    let (error, duplicate) = alter(&engine, &number, &[Kind::Number, Kind::Name]).err().expect("a name is there twice");
    assert_eq!((error.kind(), duplicate), (ErrorKind::DuplicateKey, Some((1, rids[0]))), "{error}");
    audit(&engine, &number, "a duplicate");
    assert_eq!(number.table.free_bytes(), free, "nothing is left of the build");
    number.check(&engine);
}

/// Whoever holds the table of before is refused, and so are snapshots that a new index lacks
/// entries of.
#[test]
fn what_is_from_before_is_refused() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium, config());
    let keyed = Keyed::create(&engine, "t", &[Kind::Number, Kind::Group]);
    fill(&engine, &keyed, (1..100).map(Fields::of));
    let mut reader = engine.session(Isolation::RepeatableRead);
    reader.take_snapshot();
    let dropped = alter(&engine, &keyed, &[Kind::Group]).map_err(|(error, _)| error).unwrap();
    reader.start_statement();
    assert_eq!(common::try_rows(&mut reader, &dropped.table).unwrap().len(), 99, "a dropped index refuses no snapshot");
    let added = alter(&engine, &dropped, &[Kind::Group, Kind::Number]).map_err(|(error, _)| error).unwrap();
    reader.start_statement();
    let error = common::try_rows(&mut reader, &added.table).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DefinitionChanged, "{error}");
    let mut writer = engine.session(Isolation::ReadCommitted);
    let error = dropped.insert(&mut writer, &Fields::of(500).row()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DefinitionChanged, "{error}");
    let error = writer.index(&keyed.table, 0).find(b"", ReadView::Snapshot).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DefinitionChanged, "{error}");
    assert_eq!(&*engine.definition("t").unwrap(), b"altered");
}

/// An alteration that is ended, finds a full device, or meets another leaves the table as it was.
#[test]
fn an_alteration_that_fails_leaves_nothing() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium, config());
    engine.set_transaction_memory(1);
    let keyed = Keyed::create(&engine, "t", &[Kind::Group]);
    for part in 0..8 {
        fill(&engine, &keyed, (part * 200..part * 200 + 200).map(|number| Fields { padding: 0, ..Fields::of(number) }));
    }
    audit(&engine, &keyed, "before");
    let rows = keyed.check(&engine);
    let mut ended = 0;
    for patience in (1..2000).step_by(23) {
        match alter_with(&engine, &keyed, &[Kind::Group, Kind::Name, Kind::Number], patience) {
            Ok(_) => break,
            Err((error, _)) => assert_eq!(error.kind(), ErrorKind::Killed, "{error}"),
        }
        ended += 1;
        assert_eq!(keyed.check(&engine), rows);
        audit(&engine, &keyed, &format!("ended after {patience}"));
    }
    assert!(ended > 4, "{ended}");
    drop((keyed, engine));

    // On a device with ever more room.
    let (image, used) = {
        let medium = Arc::new(SimMedium::new());
        let engine = open(&medium, config());
        let keyed = Keyed::create(&engine, "t", &[Kind::Group]);
        for part in 0..8 {
            let row = |number| Fields { padding: 0, ..Fields::of(number) };
            fill(&engine, &keyed, (part * 200..part * 200 + 200).map(row));
        }
        drop(keyed);
        engine.close();
        drop(engine);
        let used: u64 = medium.list().unwrap().iter().map(|(_, len)| len.next_multiple_of(4096)).sum();
        (medium.image(), used)
    };
    for room in (0..40).map(|steps| steps * (16 << 10)) {
        let medium = Arc::new(SimMedium::from_image(image.clone()).limited_to(used + room));
        let engine = open(&medium, config());
        let keyed = Keyed::open(&engine, "t", &[Kind::Group]);
        match alter(&engine, &keyed, &[Kind::Group, Kind::Name, Kind::Number]) {
            Ok(altered) => {
                assert_eq!(altered.check(&engine), rows_of(&engine, &altered));
                assert!(room > 0, "there was room from the beginning");
                return;
            }
            Err((error, _)) => assert_eq!(error.kind(), ErrorKind::DeviceFull, "{error}"),
        }
        keyed.check(&engine);
        audit(&engine, &keyed, &format!("{room} bytes of room"));
    }
    panic!("no room after all");
}

fn rows_of(engine: &Engine, keyed: &Keyed) -> Rows {
    let mut txn = engine.session(Isolation::ReadCommitted);
    common::rows(&mut txn, &keyed.table).into_iter().collect()
}

/// Arguments that can never be right, and two alterations at once.
#[test]
fn what_cannot_be_altered() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium, config());
    let keyed = Keyed::create(&engine, "t", &[Kind::Group]);
    let refused = |wanted: &[AlteredIndex]| engine.alter_indexes(&keyed.table, wanted).err().expect("refused").kind();
    assert_eq!(refused(&[AlteredIndex::Kept(1)]), ErrorKind::Configuration);
    assert_eq!(refused(&[AlteredIndex::Kept(0); 2]), ErrorKind::Configuration);
    assert_eq!(refused(&[AlteredIndex::New(Kind::Longest.definition())]), ErrorKind::Configuration);
    let one = engine.alter_indexes(&keyed.table, &[]).unwrap();
    assert_eq!(refused(&[]), ErrorKind::LockWaitTimeout);
    drop(one);
    let one = engine.alter_indexes(&keyed.table, &[]).unwrap();
    engine.drop_table("t").unwrap();
    assert_eq!(one.commit(b"").unwrap_err().kind(), ErrorKind::NotFound);
}

/// The power fails at any moment while indexes are dropped and added, and places of dropped ones
/// are used again. The table then has the indexes of before or after, each with the keys of its
/// rows; and it can be altered again.
#[test]
fn power_failures() {
    let mut images = 0;
    for seed in common::seeds(2) {
        let (medium, recorder) = Recorder::attach(SimMedium::new());
        let engine = Engine::open(Arc::new(medium), config()).unwrap();
        if seed % 2 == 1 {
            engine.set_transaction_memory(1);
        }
        let mut random = Random::new(seed);
        let keyed = Keyed::create(&engine, "t", &[Kind::Number, Kind::Name]);
        fill(&engine, &keyed, (1..120).map(|number| Fields { padding: 0, ..Fields::of(number) }));
        let mut states = vec![(keyed.kinds.clone(), keyed.check(&engine))];
        let lists: [&[Kind]; 4] =
            [&[Kind::Name], &[Kind::Name, Kind::Group], &[Kind::Number, Kind::Name, Kind::Group], &[Kind::Number]];
        let mut altered = keyed;
        for kinds in lists {
            altered = match alter(&engine, &altered, kinds) {
                Ok(altered) => altered,
                Err((error, _)) => panic!("{error}"),
            };
            states.push((altered.kinds.clone(), altered.check(&engine)));
            fill(
                &engine,
                &altered,
                (0..6).map(|_| Fields { padding: 0, ..Fields::of(5000 + random.below(900_000) as u32) }),
            );
            states.push((altered.kinds.clone(), altered.check(&engine)));
            settle(&engine);
            settle(&engine);
        }
        drop((altered, engine));
        let (mut point_random, mut seen) = (Random::new(seed), Seen::default());
        recorder.finish().replay(&ReplayOptions::default(), |point| {
            if !random.one_in(4) {
                return ControlFlow::Continue(());
            }
            for image in point.images(&mut point_random, &mut seen, 2) {
                images += 1;
                let medium = Arc::new(SimMedium::from_image(image));
                let engine = open(&medium, config());
                let Ok(table) = engine.table("t") else { continue };
                let kinds = [Kind::Number, Kind::Name, Kind::Group];
                let has: Vec<_> = (0..table.indexes()).filter_map(|index| table.index_definition(index)).collect();
                let is_of = |kinds: &[Kind]| kinds.iter().map(|kind| kind.definition()).eq(has.iter().copied());
                let of = states.iter().find(|(kinds, _)| is_of(kinds)).map(|(kinds, _)| kinds.clone());
                let keyed = Keyed { table, kinds: of.unwrap_or_else(|| panic!("seed {seed}: {has:?}")) };
                let rows = keyed.check(&engine);
                let known = |(kinds, known): &(Vec<Kind>, Rows)| *kinds == keyed.kinds && *known == rows;
                // The first rows are filled in by a transaction of their own.
                assert!(rows.is_empty() || states.iter().any(known), "seed {seed}: {} rows", rows.len());
                audit(&engine, &keyed, &format!("seed {seed}"));
                let again = alter(&engine, &keyed, &kinds).map_err(|(error, _)| error).unwrap();
                assert_eq!(again.check(&engine), rows);
                audit(&engine, &again, &format!("seed {seed}, altered again"));
            }
            ControlFlow::Continue(())
        });
    }
    assert!(images > 100, "{images}");
}

/// Collects faults, and makes keys.
struct Checker<'k> {
    kinds: &'k [Kind],
    faults: Vec<String>,
    key: Vec<u8>,
}

impl CheckClient for Checker<'_> {
    fn goes_on(&mut self, _done: u64, _all: u64) -> bool {
        true
    }

    fn is_row(&mut self, _row: &[u8]) -> bool {
        true
    }

    fn key(&mut self, position: usize, row: &[u8]) -> Option<Key<'_>> {
        let (key, may_repeat) = self.kinds[position].of_row(row);
        self.key = key;
        Some(Key { bytes: &self.key, may_repeat })
    }

    fn found(&mut self, fault: Error) {
        self.faults.push(fault.to_string());
    }
}

fn faults(engine: &Engine, keyed: &Keyed, depth: CheckDepth) -> Vec<String> {
    let mut checker = Checker { kinds: &keyed.kinds, faults: Vec::new(), key: Vec::new() };
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.start_statement();
    txn.check_table(&keyed.table, depth, &mut checker).unwrap();
    txn.end_statement();
    checker.faults
}

/// A full check compares keys with their rows, and finds rows that share one; nothing is wrong with
/// a sound table.
#[test]
fn a_check_compares_keys() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium, config());
    let keyed = Keyed::create(&engine, "t", &[Kind::Number, Kind::Name, Kind::Group]);
    fill(&engine, &keyed, (1..200).map(Fields::of));
    assert!(faults(&engine, &keyed, CheckDepth::Full).is_empty());
    let mut txn = engine.session(Isolation::ReadCommitted);
    let fields = Fields::of(777);
    let keys = keyed.kinds.iter().map(|kind| kind.key(&fields)).collect::<Vec<_>>();
    // A row with the keys of another, and one whose key the client takes for unique, though it was
    // said to repeat.
    let key = |bytes| Key { bytes, may_repeat: false };
    let row = Fields { number: 778, ..fields }.row();
    txn.insert_with(&keyed.table, &row, &[key(&keys[0]), key(&keys[1]), key(&keys[2])]).unwrap();
    let (number, again) = (Kind::Number.key(&Fields::of(5)), Fields { number: 5, ..Fields::of(801) });
    let name = Kind::Name.key(&again);
    let shared = Key { bytes: &number, may_repeat: true };
    txn.insert_with(&keyed.table, &again.row(), &[shared, key(&name), key(&keys[2])]).unwrap();
    txn.commit().unwrap();
    let found = faults(&engine, &keyed, CheckDepth::Full);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|fault| fault.starts_with("index 0: row 0x")), "{found:?}");
    assert!(found.iter().any(|fault| fault.contains("not that of the row")), "{found:?}");
    assert!(found.iter().any(|fault| fault.contains("has the key of another")), "{found:?}");
    assert!(faults(&engine, &keyed, CheckDepth::Quick).is_empty());
}

/// An index with a damaged leaf refuses its use and names itself; the rows are there, and from them
/// it is made again, for good. A leaf that does not tell its index damages all of them, until all
/// were made again.
#[test]
fn a_damaged_index_is_made_again() {
    let kinds = [Kind::Number, Kind::Name];
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium, config());
    let keyed = Keyed::create(&engine, "t", &kinds);
    fill(&engine, &keyed, (1..120).map(Fields::of));
    let rows = keyed.check(&engine);
    drop(keyed);
    engine.close();
    drop(engine);
    for damages_all in [false, true] {
        let medium = Arc::new(SimMedium::from_image(medium.image()));
        let leaf_of = |number: u64| {
            let region = medium.open("t.00000002.00000").unwrap();
            let is_leaf = |at: &u64| region.load(*at) & 3 == 1 && region.load(*at) >> 2 & 0xffff == number;
            // A leaf of names has entries of no one length. With a low key it is no row.
            let is_of_names = |at: &u64| region.load(*at) >> 18 & 0xffff == 0 && region.load(*at) >> 34 != 0;
            let at = (4096..region.len()).step_by(256).find(|at| is_leaf(at) && is_of_names(at));
            (region, at.expect("a leaf"))
        };
        let (region, at) = leaf_of(1);
        let (word, bit) = if damages_all { (at, 60) } else { (at + 16, 3) };
        region.store(word, region.load(word) ^ 1 << bit);
        let engine = open(&medium, config());
        let keyed = Keyed::open(&engine, "t", &kinds);
        let mut txn = engine.session(Isolation::ReadCommitted);
        assert!(rows_of(&engine, &keyed) == rows);
        let error = txn.index(&keyed.table, 1).find(b"n", ReadView::Snapshot).unwrap_err();
        assert!(error.kind() == ErrorKind::Damaged && error.to_string().starts_with("index 1: "), "{error}");
        let error = keyed.insert(&mut txn, &Fields::of(500).row()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        txn.rollback().unwrap();
        assert_eq!(txn.index(&keyed.table, 0).find(b"n", ReadView::Snapshot).is_err(), damages_all);
        assert!(!faults(&engine, &keyed, CheckDepth::Full).is_empty());
        let kept: &[Kind] = if damages_all { &[] } else { &[Kind::Number] };
        let fewer = alter(&engine, &keyed, kept).map_err(|(error, _)| error).unwrap();
        let again = alter(&engine, &fewer, &kinds).map_err(|(error, _)| error).unwrap();
        assert_eq!(again.check(&engine), rows);
        assert!(faults(&engine, &again, CheckDepth::Full).is_empty());
        audit(&engine, &again, "made again");
        drop((keyed, fewer, again, txn));
        engine.close();
        drop(engine);
        let engine = open(&medium, config());
        let keyed = Keyed::open(&engine, "t", &kinds);
        assert_eq!(keyed.check(&engine), rows);
        assert!(faults(&engine, &keyed, CheckDepth::Full).is_empty());
    }
}
