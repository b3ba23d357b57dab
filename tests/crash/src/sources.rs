//! Call sites of flushes, fences and syncs: those that runs reached, and those in the source files.

use crate::run::Run;
use crate::subject::{Product, Subject};
use perdura_pmem::sim::{CallSite, SiteKind};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// Calls of `pmem`, and what they do.
const CALLS: [(&str, &[SiteKind]); 7] = [
    (".flush(", &[SiteKind::Flush]),
    (".fence()", &[SiteKind::Fence]),
    (".persist(", &[SiteKind::Flush, SiteKind::Fence]),
    (".sync()", &[SiteKind::Sync]),
    (".sync_file(", &[SiteKind::Flush, SiteKind::Fence]),
    (".reclaim(", &[SiteKind::Reclaim]),
    (".reclaim_all(", &[SiteKind::Reclaim]),
];

/// Flush, fence and sync sites of the product that the runs reached.
pub fn reached<S: Subject>(runs: &[Run<S>]) -> Vec<CallSite> {
    let sites: BTreeSet<CallSite> = runs.iter().flat_map(|run| run.trace.sites().into_keys()).collect();
    let is_product = |file: &str| {
        let file = file.replace('\\', "/");
        S::PRODUCT.sources.iter().any(|folder| file.contains(folder))
    };
    let of_interest = |site: &CallSite| site.kind != SiteKind::Store && is_product(site.file);
    sites.into_iter().filter(of_interest).collect()
}

/// Call sites in the sources that no run reached, as file and line. A function marked
/// `#[track_caller]` passes its caller on as the call site, so its own lines do not count.
pub fn unreached(product: &Product, root: &Path, reached: &[CallSite]) -> io::Result<Vec<String>> {
    let calls: Vec<_> = CALLS.iter().chain(product.calls).copied().collect();
    let mut missing = Vec::new();
    for name in source_files(product, root)? {
        let text = std::fs::read_to_string(root.join(&name))?;
        for (line, kind) in call_sites(&text, &calls) {
            let is_reached =
                reached.iter().any(|site| site.file.ends_with(&name) && site.line == line && site.kind == kind);
            if !is_reached {
                missing.push(format!("{name}:{line} ({kind:?}) never reached"));
            }
        }
    }
    Ok(missing)
}

/// Errors that can be planted in the product: their names, and file and line.
pub fn planted(product: &Product, root: &Path) -> io::Result<Vec<(String, String, u32)>> {
    let mut places = Vec::new();
    for name in source_files(product, root)? {
        let text = std::fs::read_to_string(root.join(&name))?;
        for (line, code) in text.lines().enumerate() {
            let mutants = code.split("planted(Mutant::").skip(1).filter_map(|rest| rest.split(')').next());
            places.extend(mutants.map(|mutant| (mutant.to_owned(), name.clone(), line as u32 + 1)));
        }
    }
    Ok(places)
}

/// Source files of a product, with paths from the project's root.
fn source_files(product: &Product, root: &Path) -> io::Result<Vec<String>> {
    let mut folders: Vec<String> = product.sources.iter().map(|folder| (*folder).to_owned()).collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            let list = if entry.file_type()?.is_dir() { &mut folders } else { &mut files };
            list.push(name);
        }
    }
    files.sort();
    Ok(files)
}

/// Whether a call is one of a method of the product, which flushes inside: `pmem` wants a range to
/// be flushed, and to persist both its offset and its length.
fn is_own(code: &str, call: &str) -> bool {
    let arguments = code.split_once(call).and_then(|(_, rest)| rest.split_once(')'));
    code.contains(".flush()") || call == ".persist(" && arguments.is_some_and(|(first, _)| !first.contains(','))
}

/// Lines of a source file that flush, fence or sync, outside its tests and its `#[track_caller]`
/// functions.
fn call_sites(text: &str, calls: &[(&str, &[SiteKind])]) -> Vec<(u32, SiteKind)> {
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
        for (call, found) in calls {
            if code.contains(*call) && !is_own(code, call) {
                sites.extend(found.iter().map(|kind| (number as u32 + 1, *kind)));
            }
        }
    }
    sites
}

#[cfg(test)]
mod tests {
    use super::{CALLS, call_sites};

    /// A method of a product's own that persists would count as a site that no run reaches.
    #[test]
    fn methods_of_the_product_are_no_call_sites() {
        let text = "state.persist(shared);\ncore.persist();\nregion.persist(AT, len(8));\nlog.flush();\nregion.flush(at, 8);\n";
        let lines: Vec<u32> = call_sites(text, &CALLS).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [3, 3, 5]);
    }
}
