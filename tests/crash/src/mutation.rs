//! Tests the explorer itself: with any single flush, fence or sync outside `pmem` switched off it must find a violation.
//!
//! A call site no run reached counts as not caught; those are found by looking through the sources.

use crate::explore::{Depth, explore};
use crate::scenario::{Run, SCENARIOS};
use crate::verdict;
use perdura_pmem::sim::Random;
use perdura_pmem::sim::image::Seen;
use perdura_pmem::sim::recorder::{CallSite, Event, SiteKind};
use perdura_pmem::sim::replay::ReplayOptions;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;

/// Outcome for one call site.
pub struct Verdict {
    /// The call site.
    pub site: String,
    /// Whether switching it off was noticed.
    pub caught: bool,
}

/// Seeds of further runs, of which in one each a thread is kept from going on right after the site.
const STALLED_SEEDS: u64 = 12;

/// Switches one call site off: in the runs that reach it, then in runs in which other threads get far between the site and the
/// next fence of its thread.
pub fn test(runs: &[Run], site: CallSite, images_each: u64) -> Verdict {
    let caught = runs.iter().any(|run| is_caught(run, site, images_each))
        || (0..STALLED_SEEDS).any(|seed| {
            let reaching = SCENARIOS.iter().filter(|scenario| {
                runs.iter().any(|run| run.scenario.name == scenario.name && run.trace.sites().contains_key(&site))
            });
            reaching.into_iter().any(|scenario| {
                let stalled = scenario.run_stalled(seed, site.file, site.line);
                is_caught(&stalled, site, images_each) || is_caught(&scenario.run(100 + seed), site, images_each)
            })
        });
    Verdict { site: site.to_string(), caught }
}

fn is_caught(run: &Run, site: CallSite, images_each: u64) -> bool {
    let Some(from) = first_event(run, &site) else { return false };
    // A recovery is short, and what it leaves unfenced must survive just so for the loss to show.
    let choices = if run.trace.events().len() < 3000 { 40 } else { 4 };
    let depth = Depth { choices, images_max: images_each, violations_max: 1, muted: Some(site), nested: false, from };
    !explore(run, &depth).violations.is_empty()
}

/// Place in the trace of the first event of a call site.
fn first_event(run: &Run, site: &CallSite) -> Option<usize> {
    let is_here = |event: &Event| {
        let at = run.trace.site(event.site);
        at.file() == site.file && at.line() == site.line && at.column() == site.column
    };
    run.trace.events().iter().position(is_here)
}

/// Recoveries of crash images of the runs, recorded, to be explored like runs.
pub fn recovery_runs(runs: &[Run]) -> Vec<Run> {
    const IMAGES_ONE_IN: u64 = 150;
    const EACH: usize = 20;
    let mut recoveries = Vec::new();
    for run in runs {
        let (mut oracle, mut marks, mut count, mut seen) = (run.prior.clone(), 0, 0, Seen::default());
        let mut random = Random::new(run.seed);
        let wanted = recoveries.len() + EACH;
        run.trace.replay(&ReplayOptions { muted: None, salt: run.seed }, |point| {
            for mark in &point.marks()[marks..] {
                oracle.mark(mark.payload, &run.history);
            }
            marks = point.marks().len();
            point.for_each_image(&mut random, &mut seen, 2, |image| {
                count += 1;
                if count % IMAGES_ONE_IN == 0
                    && let Ok(trace) = verdict::record_recovery(image, run.scenario)
                {
                    let (history, prior) = (run.history.clone(), oracle.clone());
                    recoveries.push(Run { scenario: run.scenario, seed: run.seed, trace, history, prior });
                }
            });
            if recoveries.len() >= wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }
    recoveries
}

/// Flush, fence and sync sites outside `pmem` that the runs reached.
pub fn reached_sites(runs: &[Run]) -> Vec<CallSite> {
    let sites: BTreeSet<CallSite> = runs.iter().flat_map(|run| run.trace.sites().into_keys()).collect();
    let of_interest = |site: &CallSite| site.kind != SiteKind::Store && is_product(site.file);
    sites.into_iter().filter(of_interest).collect()
}

fn is_product(file: &str) -> bool {
    ["crates/log/src", "crates/engine/src"].iter().any(|folder| file.replace('\\', "/").contains(folder))
}

/// Call sites in the sources that no run reached, as file and line. Lines that only hand a call site on are marked by
/// `#[track_caller]` on their function and are not counted.
pub fn unreached_sites(root: &Path, reached: &[CallSite]) -> std::io::Result<Vec<String>> {
    let mut missing = Vec::new();
    for folder in ["crates/log/src", "crates/engine/src"] {
        let mut files: Vec<_> = std::fs::read_dir(root.join(folder))?.collect::<Result<Vec<_>, _>>()?;
        files.sort_by_key(std::fs::DirEntry::file_name);
        for file in files {
            let name = format!("{folder}/{}", file.file_name().to_string_lossy());
            let text = std::fs::read_to_string(file.path())?;
            for (line, kind) in call_sites(&text) {
                let is_reached =
                    reached.iter().any(|site| site.file.ends_with(&name) && site.line == line && site.kind == kind);
                if !is_reached {
                    missing.push(format!("{name}:{line} ({kind:?}) never reached"));
                }
            }
        }
    }
    Ok(missing)
}

/// Lines of a source file that flush, fence or sync, outside its tests and outside functions that hand their caller on.
fn call_sites(text: &str) -> Vec<(u32, SiteKind)> {
    let mut sites = Vec::new();
    let mut hands_on = false;
    let mut pending = false;
    for (number, line) in text.lines().enumerate() {
        let code = line.trim_start();
        if code.starts_with("#[cfg(test)]") {
            break;
        }
        if code.starts_with("#[track_caller]") {
            pending = true;
        } else if code.contains("fn ") && line.contains('(') && !code.starts_with("//") {
            hands_on = std::mem::take(&mut pending);
        }
        if hands_on || code.starts_with("//") {
            continue;
        }
        let kinds: &[(&str, &[SiteKind])] = &[
            (".flush(", &[SiteKind::Flush]),
            (".fence()", &[SiteKind::Fence]),
            (".persist(", &[SiteKind::Flush, SiteKind::Fence]),
            (".set_kind(", &[SiteKind::Flush]),
            ("directory.publish(", &[SiteKind::Flush]),
            (".sync()", &[SiteKind::Sync]),
        ];
        for (call, found) in kinds {
            // Without arguments it is a method of ours that flushes within.
            if code.contains(call) && !code.contains(".flush()") {
                sites.extend(found.iter().map(|kind| (number as u32 + 1, *kind)));
            }
        }
    }
    sites
}
