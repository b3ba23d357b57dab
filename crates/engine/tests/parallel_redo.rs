//! Hazard: threads that share a redo take each other's records, so an older version of a row or an
//! entry that was deleted is there in the end, or a record is redone by none. Tests (I6).

use crate::common::keyed::{Fields, Keyed, Kind, config};
use crate::common::seeds;
use crate::common::values::by_value;
use perdura_engine::{Config, Engine, Isolation, LogConfig};
use perdura_log::Recovery;
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;

/// Redo that is worth several threads.
const REDO_BYTES: u64 = 20 << 20;
const KINDS: [Kind; 3] = [Kind::Number, Kind::Group, Kind::Name];

fn roomy_log() -> Config {
    let log = LogConfig { lanes: 2, lane_bytes: 16 << 20, generations: 2, generations_max: 4, ..LogConfig::default() };
    by_value(Config { log, data_file_bytes: 4 << 20, segment_bytes: 64 << 10, page_words: 64, ..config() })
}

fn redo_bytes(medium: &Arc<SimMedium>) -> u64 {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(medium.image()));
    let recovery = Recovery::open(medium, &roomy_log().log).unwrap();
    let bodies = recovery.committed.iter().flat_map(|committed| &committed.bodies);
    bodies.map(|body| recovery.body(*body).len() as u64).sum()
}

/// Rows of two tables are changed again and again, also keys, and deleted; then the pool is opened
/// twice from what there is, as after a kill.
#[test]
fn a_redo_by_several_threads_ends_as_the_commits_did() {
    for seed in seeds(2) {
        let medium = Arc::new(SimMedium::new());
        let open = || Engine::open(medium.clone(), roomy_log()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let engine = open();
        let tables = [Keyed::create(&engine, "one", &KINDS), Keyed::create(&engine, "two", &KINDS[..1])];
        engine.checkpoint().unwrap();
        let mut random = Random::new(seed);
        let mut txn = engine.session(Isolation::ReadCommitted);
        let mut rids = [Vec::new(), Vec::new()];
        let mut number = 0;
        while number % 500 != 0 || redo_bytes(&medium) < REDO_BYTES {
            for (keyed, rids) in tables.iter().zip(&mut rids) {
                number += 1;
                let row = Fields { padding: 2000, ..Fields::of(number) }.row();
                match random.below(6) {
                    0 if !rids.is_empty() => {
                        let rid = rids.swap_remove(random.below(rids.len() as u64) as usize);
                        keyed.delete(&mut txn, rid).unwrap();
                    }
                    1..5 if rids.len() > 200 => {
                        // A few rows are changed most often.
                        let bound = [10, rids.len() as u64][random.below(2) as usize];
                        let rid = rids[random.below(bound) as usize];
                        keyed.update(&mut txn, rid, &row).unwrap();
                    }
                    _ => rids.push(keyed.insert(&mut txn, &row).unwrap()),
                }
            }
            txn.commit().unwrap();
        }
        let expected = tables.each_ref().map(|keyed| keyed.check(&engine));
        drop((txn, tables, engine));
        for _ in 0..2 {
            let engine = open();
            for ((name, kinds), expected) in [("one", &KINDS[..]), ("two", &KINDS[..1])].into_iter().zip(&expected) {
                assert!(Keyed::open(&engine, name, kinds).check(&engine) == *expected, "seed {seed}, table {name}");
            }
        }
    }
}
