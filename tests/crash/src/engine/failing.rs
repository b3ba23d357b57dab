//! A page medium whose sync fails: whatever was acknowledged must be found in each image that a
//! loss of power then leaves.

use perdura_engine::{Config, Engine, Isolation};
use perdura_pmem::sim::{Image, PointKind, Random, Recorder, ReplayOptions, Seen, Trace};
use perdura_pmem::{Medium, SimMedium};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

const COMMITS: u64 = 60;

/// Lets the sync fail whose number after the creation of the table the seed tells. Returns what is
/// wrong.
pub fn run(seed: u64, config: Config) -> Result<(), String> {
    let (medium, recorder) = Recorder::attach(SimMedium::new().paged());
    let medium = Arc::new(medium);
    let shared: Arc<dyn Medium> = medium.clone();
    let (acknowledged, undecided) = {
        let engine = Engine::open(shared, config.clone()).map_err(|error| error.to_string())?;
        engine.create_table("t", b"").map_err(|error| error.to_string())?;
        medium.fail_sync_after(seed);
        commit_until_refused(&engine)?
    };
    for image in last_images(&recorder.finish(), seed) {
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image));
        let engine = Engine::open(medium, config.clone()).map_err(|error| format!("the pool is refused: {error}"))?;
        let found = rows(&engine).map_err(|error| error.to_string())?;
        let mut rest: BTreeSet<u64> = found.symmetric_difference(&acknowledged).copied().collect();
        if let Some(row) = undecided {
            rest.remove(&row);
        }
        if !rest.is_empty() {
            return Err(format!("sync {} fails: rows {rest:?} are lost, or were never committed", seed + 1));
        }
    }
    Ok(())
}

/// The rows whose commits were acknowledged, and that of a commit that was refused.
fn commit_until_refused(engine: &Engine) -> Result<(BTreeSet<u64>, Option<u64>), String> {
    let table = engine.table("t").map_err(|error| error.to_string())?;
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut acknowledged = BTreeSet::new();
    for row in 0..COMMITS {
        if let Err(error) = txn.insert(&table, &row.to_le_bytes()).and_then(|_| txn.commit()) {
            let text = error.to_string();
            let is_told = text.contains("os error 5") && text.contains("restart");
            return if is_told {
                Ok((acknowledged, Some(row)))
            } else {
                Err(format!("a refusal without reason: {text}"))
            };
        }
        acknowledged.insert(row);
        if row % 10 == 9 {
            let _ = engine.checkpoint();
        }
    }
    Ok((acknowledged, None))
}

/// Numbers of all rows of the table.
pub(super) fn rows(engine: &Engine) -> perdura_engine::Result<BTreeSet<u64>> {
    let table = engine.table("t")?;
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut scan = txn.scan(&table);
    let mut rows = BTreeSet::new();
    while let Some((_, row)) = scan.next(&txn)? {
        // SAFETY: the statement has not ended.
        rows.insert(u64::from_le_bytes(unsafe { row.bytes() }.try_into().expect("eight bytes")));
    }
    Ok(rows)
}

/// Images of a loss of power at the end.
fn last_images(trace: &Trace, seed: u64) -> Vec<Image> {
    let mut images = Vec::new();
    trace.replay(&ReplayOptions::default(), |point| {
        if point.kind == PointKind::End {
            images = point.images(&mut Random::new(seed), &mut Seen::default(), 12);
        }
        ControlFlow::Continue(())
    });
    images
}
