//! Tests the explorer itself: with any single flush, fence or sync outside `pmem` switched off it must find a violation.
//!
//! A call site no run reached counts as not caught; those are found by looking through the sources.

use crate::explore::{Depth, explore};
use crate::scenario::Run;
use perdura_pmem::sim::recorder::{CallSite, SiteKind};
use std::collections::BTreeSet;
use std::path::Path;

/// Outcome for one call site.
pub struct Verdict {
    /// The call site.
    pub site: String,
    /// Whether switching it off was noticed.
    pub caught: bool,
}

/// Switches each call site off in turn; `share` and `of` split the sites among callers.
pub fn test_all(runs: &[Run], sites: &[CallSite], images_each: u64) -> Vec<Verdict> {
    sites.iter().map(|site| Verdict { site: site.to_string(), caught: is_caught(runs, *site, images_each) }).collect()
}

fn is_caught(runs: &[Run], site: CallSite, images_each: u64) -> bool {
    let depth = Depth { choices: 8, images_max: images_each, violations_max: 1, muted: Some(site), nested: false };
    let reached = runs.iter().filter(|run| run.trace.sites().contains_key(&site));
    reached.into_iter().any(|run| !explore(run, &depth).violations.is_empty())
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
            if code.contains(call) {
                sites.extend(found.iter().map(|kind| (number as u32 + 1, *kind)));
            }
        }
    }
    sites
}
