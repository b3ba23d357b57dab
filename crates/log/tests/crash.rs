//! Power loss at every moment: each legal crash image of recorded runs is opened by the real
//! recovery and compared with what was acknowledged. And the test's own test: without any one fence
//! or sync of the log it must fail. Tests (I1).

use crate::support::oracle::{Ledger, Oracle, run};
use crate::support::{commit, create, found, recover, tiny};
use perdura_log::{Csn, LogConfig, LogPath, PathConfig, Recovery, Turns};
use perdura_pmem::sim::{
    CHOICES_DEFAULT, CallSite, Image, Point, Random, Recorder, ReplayOptions, Scheduler, Seen, SimMedium, SiteKind,
    Trace,
};
use perdura_pmem::{Medium, trace};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A recorded run and what it learnt.
struct Run {
    config: LogConfig,
    trace: Trace,
    csns: BTreeMap<u64, Csn>,
    /// Whether the trace begins before the pool exists.
    from_nothing: bool,
    kind: Kind,
}

/// Unit in which the medium is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lines,
    Sectors,
}

impl Kind {
    fn of(self, medium: SimMedium) -> SimMedium {
        if self == Kind::Sectors { medium.paged() } else { medium }
    }
}

/// Runs three threads on a new pool in an interleaving that `seed` decides. One transaction stays
/// prepared for long.
fn record(seed: u64, config: &LogConfig, per_thread: u64) -> Run {
    record_on(Kind::Lines, seed, config, per_thread)
}

fn record_on(kind: Kind, seed: u64, config: &LogConfig, per_thread: u64) -> Run {
    let sim = kind.of(SimMedium::new());
    let from_nothing = seed.is_multiple_of(4);
    let (medium, recorder) = if from_nothing {
        let (medium, recorder) = Recorder::attach(sim);
        let medium: Arc<dyn Medium> = Arc::new(medium);
        create(&medium, config, seed);
        (medium, recorder)
    } else {
        let plain: Arc<dyn Medium> = Arc::new(sim);
        create(&plain, config, seed);
        let (medium, recorder) = Recorder::attach(kind.of(SimMedium::from_image(image_of(&plain))));
        (Arc::new(medium) as Arc<dyn Medium>, recorder)
    };
    let ledger = Ledger::default();
    {
        let _attached = trace::attach(recorder.clone());
        let (log, _) = recover(&medium, config).expect("it recovers");
        let bodies: Vec<Box<dyn FnOnce() + Send + '_>> = (0..3u64)
            .map(|session| {
                let (log, ledger) = (&log, &ledger);
                Box::new(move || {
                    for n in 0..per_thread {
                        let number = seed * 1000 + n * 3 + session;
                        let mut wait = (session + 1) * 4 * u64::from(n == 1 || n == 5);
                        run(log, ledger, session, number, &mut || {
                            for _ in 0..std::mem::take(&mut wait) * 30 + 1 {
                                perdura_pmem::sync::yield_now();
                            }
                        });
                        if n % 6 == session {
                            log.checkpoint().expect("written");
                        }
                    }
                }) as Box<dyn FnOnce() + Send + '_>
            })
            .collect();
        Scheduler::new(seed).run(bodies);
    }
    Run { config: config.clone(), trace: recorder.finish(), csns: ledger.all(), from_nothing, kind }
}

fn image_of(medium: &Arc<dyn Medium>) -> Image {
    let files: Vec<(String, Vec<u8>)> = medium
        .list()
        .expect("listed")
        .into_iter()
        .map(|(name, len)| {
            let mut bytes = vec![0; len as usize];
            medium.open(&name).expect("it exists").read(0, &mut bytes);
            (name, bytes)
        })
        .collect();
    Image::from_files(files.iter().map(|(name, bytes)| (&name[..], &bytes[..])))
}

/// Opens an image, compares it, ends the recovery, and sees that the pool goes on.
fn check(run: &Run, oracle: &Oracle, image: Image, created: bool) -> Result<(), String> {
    let medium: Arc<dyn Medium> = Arc::new(run.kind.of(SimMedium::from_image(image)));
    if !medium.list().expect("listed").iter().any(|(name, _)| name == "super") {
        return if created { Err("the superblock is gone".to_owned()) } else { Ok(()) };
    }
    let text = |error: perdura_log::Error| error.to_string();
    let recovery = Recovery::open(medium.clone(), &run.config).map_err(text)?;
    oracle.check(&recovery)?;
    let (horizon, prepared) = (recovery.horizon, recovery.prepared.len());
    let (log, mut resurrected) = recovery.finish(&mut || 99).map_err(text)?;
    let csn = commit(&log, 1, b"goes on");
    let mut csns = vec![csn];
    if let Some(mut one) = resurrected.pop() {
        csns.push(one.log.commit_prepared());
    }
    let again = Recovery::open(medium, &run.config).map_err(text)?;
    let seen: Vec<Csn> = found(&again).into_iter().map(|(csn, _)| csn).collect();
    if seen != csns || csn != horizon + 1 || again.prepared.len() != prepared.saturating_sub(1) {
        return Err(format!("after {horizon} and {prepared} prepared: {seen:?} and {}", again.prepared.len()));
    }
    Ok(())
}

/// Whether the pool was created before the point: recoveries, and so fences of a log lane, come
/// only later.
fn is_created(run: &Run, point: &Point<'_>) -> bool {
    !run.from_nothing || !point.marks().is_empty()
}

#[derive(Default)]
struct Tally {
    violations: Vec<String>,
    by_label: BTreeMap<&'static str, u64>,
}

/// Checks the images of every point, until the first violation if `hasty`.
fn explore(run: &Run, options: &ReplayOptions, choices: usize, seen: &mut Seen, hasty: bool) -> Tally {
    let (mut random, mut tally) = (Random::new(5), Tally::default());
    run.trace.replay(options, |point| {
        let oracle = Oracle::new(point.marks(), &run.csns);
        let labels: Vec<_> = point.labels().collect();
        point.for_each_image(&mut random, seen, choices, |image| {
            for label in &labels {
                *tally.by_label.entry(label).or_default() += 1;
            }
            if let Err(what) = check(run, &oracle, image, is_created(run, point)) {
                tally.violations.push(format!("event {} of {:?}: {what}", point.index, point.site));
            }
        });
        if hasty && !tally.violations.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    tally
}

fn configs() -> [LogConfig; 3] {
    [tiny(1, 4), tiny(2, 3), tiny(1, 6)].map(|config| LogConfig { shrink_after: 1, ..config })
}

/// As [`configs`], for records that take sectors.
fn sector_configs() -> [LogConfig; 3] {
    configs().map(|config| LogConfig { lane_bytes: 3 * config.lane_bytes, ..config })
}

/// As [`sector_configs`], with a log buffer; those who wait take the turns of its threads.
fn staged_configs(paths: [LogPath; 3]) -> [LogConfig; 3] {
    let mut configs = sector_configs();
    for (config, path) in configs.iter_mut().zip(paths) {
        config.path = PathConfig { path, buffer_bytes: 4 << 10, write_ahead_bytes: 1024, turns: Turns::Waiters };
    }
    configs
}

const STAGED: [LogPath; 3] = [LogPath::Classic, LogPath::Nf, LogPath::WriteAhead];

/// Writes of the log writer that nobody has synced may be lost, in any mixture.
#[test]
fn every_crash_image_of_a_log_writer_recovers_what_was_acknowledged() {
    recovers_what_was_acknowledged(Kind::Lines, &staged_configs(STAGED));
}

#[test]
fn every_crash_image_of_a_log_writers_sectors_recovers_what_was_acknowledged() {
    recovers_what_was_acknowledged(Kind::Sectors, &staged_configs(STAGED));
}

#[test]
fn every_crash_image_recovers_what_was_acknowledged() {
    recovers_what_was_acknowledged(Kind::Lines, &configs());
}

/// A sector under way may be lost with all that it held, and others be of any moment.
#[test]
fn every_crash_image_of_sectors_recovers_what_was_acknowledged() {
    recovers_what_was_acknowledged(Kind::Sectors, &sector_configs());
}

fn recovers_what_was_acknowledged(kind: Kind, configs: &[LogConfig]) {
    let mut seen = Seen::default();
    let mut labels = BTreeMap::<&str, u64>::new();
    for seed in 0..9 {
        let run = record_on(kind, seed, &configs[seed as usize % 3], 40);
        let tally = explore(&run, &ReplayOptions { salt: seed, muted: None }, CHOICES_DEFAULT, &mut seen, false);
        assert_eq!(tally.violations, Vec::<String>::new(), "seed {seed}");
        for (label, count) in tally.by_label {
            *labels.entry(label).or_default() += count;
        }
    }
    println!("{} images, {labels:?}", seen.images());
    for label in ["generation_switch", "wrap_around", "log_growth", "log_shrink", "checkpoint", "prepare", "recovery"] {
        assert!(labels.get(label).is_some_and(|count| *count > 20), "{label}: {labels:?}");
    }
}

/// A recorded recovery of one image of a run.
struct Restart<'a> {
    run: &'a Run,
    oracle: Oracle,
    trace: Trace,
    prepared: usize,
}

impl<'a> Restart<'a> {
    fn record(run: &'a Run, mut oracle: Oracle, image: Image) -> Restart<'a> {
        let (medium, recorder) = Recorder::attach(run.kind.of(SimMedium::from_image(image)));
        let medium: Arc<dyn Medium> = Arc::new(medium);
        let recovery = Recovery::open(medium, &run.config).expect("it recovers");
        oracle.redone = recovery.horizon;
        let (_, prepared) = recovery.finish(&mut || 98).expect("finished");
        Restart { run, oracle, trace: recorder.finish(), prepared: prepared.len() }
    }

    /// Some recoveries of a run: of one image in `one_in`.
    fn some(run: &'a Run, one_in: u64) -> Vec<Restart<'a>> {
        let (mut random, mut seen, mut restarts) = (Random::new(one_in), Seen::default(), Vec::new());
        let mut chosen = Random::new(one_in);
        run.trace.replay(&ReplayOptions::default(), |point| {
            point.for_each_image(&mut random, &mut seen, 2, |image| {
                if is_created(run, point) && chosen.one_in(one_in) {
                    restarts.push(Restart::record(run, Oracle::new(point.marks(), &run.csns), image));
                }
            });
            ControlFlow::Continue(())
        });
        restarts
    }

    /// Checks all images of the recovery: their count, and the first violation.
    fn explore(&self, options: &ReplayOptions) -> (usize, Option<String>) {
        let (mut random, mut seen, mut violation) = (Random::new(1), Seen::default(), None);
        self.trace.replay(options, |point| {
            point.for_each_image(&mut random, &mut seen, 10, |image| {
                if let Err(what) = check(self.run, &self.oracle, image, true) {
                    violation = Some(format!("event {}: {what}", point.index));
                }
            });
            if violation.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        (seen.images(), violation)
    }
}

/// A recovery that is cut off leaves a pool that recovers as the first one would have.
#[test]
fn a_crash_inside_recovery_recovers_too() {
    let (mut images, mut copied) = (0, 0);
    for seed in 20..26 {
        let run = record(seed, &configs()[seed as usize % 3], 30);
        for restart in Restart::some(&run, 7) {
            let (count, violation) = restart.explore(&ReplayOptions::default());
            assert_eq!(violation, None, "seed {seed}");
            images += count;
            copied += usize::from(restart.prepared > 0);
        }
    }
    println!("{images} images, {copied} recoveries with prepared transactions");
    assert!(images > 1000 && copied > 50, "{images} images, {copied} with prepared transactions");
}

/// Without any one of its fences and syncs the log must be caught losing something.
#[test]
fn every_fence_and_sync_is_needed() {
    let lines = (0..12).map(|seed| record(seed, &configs()[seed as usize % 3], 40));
    let sectors = (0..6).map(|seed| record_on(Kind::Sectors, seed, &sector_configs()[seed as usize % 3], 40));
    let staged = (0..9).map(|seed| record(seed, &staged_configs(STAGED)[seed as usize % 3], 40));
    let runs: Vec<Run> = lines.chain(sectors).chain(staged).collect();
    let restarts: Vec<Restart<'_>> = runs.iter().flat_map(|run| Restart::some(run, 60)).collect();
    let traces = runs.iter().map(|run| &run.trace).chain(restarts.iter().map(|restart| &restart.trace));
    let sites: BTreeSet<CallSite> = traces.flat_map(|trace| trace.sites().into_keys()).collect();
    // No process is killed here: the explorer's scenario "classic" needs what is reclaimed.
    let is_told = |kind| !matches!(kind, SiteKind::Store | SiteKind::Reclaim);
    let of_log = |site: &&CallSite| is_told(site.kind) && site.file.contains("log/src");
    let sites: Vec<CallSite> = sites.iter().filter(of_log).copied().collect();
    assert!(sites.len() >= 6, "{sites:?}");
    let is_caught = |site: &CallSite| {
        let options = ReplayOptions { muted: Some(*site), salt: 0 };
        let in_run = |run| !explore(run, &options, 6, &mut Seen::default(), true).violations.is_empty();
        runs.iter().any(in_run) || restarts.iter().any(|restart| restart.explore(&options).1.is_some())
    };
    let missed: Vec<String> = sites.iter().filter(|site| !is_caught(site)).map(CallSite::to_string).collect();
    assert_eq!(missed, Vec::<String>::new());
}

/// No line is left open behind an acknowledgement, and nothing is flushed for nothing.
#[test]
fn nothing_is_left_open_and_nothing_flushed_twice() {
    let direct = (30..36).map(|seed| (seed, configs()[seed as usize % 3].clone()));
    let staged = (30..36).map(|seed| (seed, staged_configs(STAGED)[seed as usize % 3].clone()));
    for (seed, config) in direct.chain(staged) {
        let run = record(seed, &config, 40);
        let findings = run.trace.lint(|name| name.starts_with("log.") || name.starts_with("super"));
        assert_eq!(findings, Default::default(), "seed {seed}");
    }
}
