//! On a medium that writes sectors, none is stored to again once a fence has covered anything in
//! it: a write that is cut off may destroy the sector with all that was acknowledged there (I2).

use crate::support::oracle::{Ledger, Oracle, run};
use crate::support::{create, recover, tiny};
use perdura_log::{LogConfig, Recovery};
use perdura_pmem::sim::{EventKind, Recorder, Scheduler, SimMedium, Trace};
use perdura_pmem::{Medium, trace};
use std::collections::BTreeSet;
use std::sync::Arc;

const SECTOR_WORDS: u32 = 512 / 8;
const SECTOR_LINES: u32 = 512 / 64;
const LANE_BYTES: u64 = 1 << 20;

/// File and sector.
type Sector = (u32, u32);

/// Sectors of the lanes that were fenced, how many stores went to one after that, and in how many
/// sectors two threads have stored.
fn look(trace: &Trace) -> (BTreeSet<Sector>, usize, usize) {
    let (mut lanes, mut fenced, mut again) = (BTreeSet::new(), BTreeSet::new(), 0);
    let (mut stored, mut shared) = (BTreeSet::<(Sector, u16)>::new(), BTreeSet::new());
    let mut waiting: Vec<BTreeSet<Sector>> = vec![BTreeSet::new(); 1 << 10];
    for event in trace.events() {
        let waiting = &mut waiting[usize::from(event.thread)];
        match event.kind {
            EventKind::Create { file, len: LANE_BYTES, .. } => drop(lanes.insert(file)),
            EventKind::Store { file, word, count, nt, .. } if lanes.contains(&file) => {
                for sector in word / SECTOR_WORDS..(word + count).div_ceil(SECTOR_WORDS) {
                    let sector = (file, sector);
                    again += usize::from(fenced.contains(&sector));
                    stored.insert((sector, event.thread));
                    if stored.range((sector, 0)..=(sector, u16::MAX)).count() > 1 {
                        shared.insert(sector);
                    }
                    if nt {
                        waiting.insert(sector);
                    }
                }
            }
            EventKind::Flush { file, line, count } if lanes.contains(&file) => {
                let sectors = line / SECTOR_LINES..(line + count).div_ceil(SECTOR_LINES);
                waiting.extend(sectors.map(|sector| (file, sector)));
            }
            EventKind::Fence => fenced.append(waiting),
            _ => {}
        }
    }
    (fenced, again, shared.len())
}

#[test]
fn no_sector_is_stored_to_again_once_it_was_fenced() {
    let (mut sectors, mut shared) = (0, 0);
    for seed in 0..30 {
        let config = LogConfig { lane_bytes: LANE_BYTES, ..tiny(1 + seed as u32 % 2, 2) };
        let (medium, recorder) = Recorder::attach(SimMedium::new().paged());
        let medium: Arc<dyn Medium> = Arc::new(medium);
        create(&medium, &config, seed);
        let (log, _) = recover(&medium, &config).expect("it recovers");
        let ledger = Ledger::default();
        {
            let _attached = trace::attach(recorder.clone());
            let bodies: Vec<Box<dyn FnOnce() + Send + '_>> = (0..3u64)
                .map(|session| {
                    let (log, ledger) = (&log, &ledger);
                    Box::new(move || {
                        for n in 0..25 {
                            run(log, ledger, session, seed * 1000 + n * 3 + session, &mut || ());
                        }
                    }) as Box<dyn FnOnce() + Send + '_>
                })
                .collect();
            Scheduler::new(seed).run(bodies);
        }
        let status = log.status();
        assert_eq!((status.sector_bytes, status.switches), (512, 0), "{status}");
        let trace = recorder.finish();
        let (fenced, again, together) = look(&trace);
        assert_eq!(again, 0, "seed {seed}: stores to sectors that were fenced");
        // Sectors that a record did without are used: but for the last ones, all have records.
        let filled: u64 = status.generations.iter().flat_map(|generation| &generation.filled).sum();
        let most = (fenced.len() as u64 + 2) * 512;
        assert!(filled <= most, "seed {seed}: {filled} bytes, {} sectors", fenced.len());
        let recovery = Recovery::open(medium, &config).expect("it recovers");
        Oracle::new(trace.marks(), &ledger.all()).check(&recovery).expect("all there");
        sectors += fenced.len();
        shared += together;
    }
    println!("{sectors} sectors, {shared} with records of several threads");
    assert!(shared > 20, "{shared} of {sectors} sectors have records of several threads");
}
