//! Checks that dependencies inside a crate point one way: no two files use each other, directly or
//! in a circle, and where a crate's rooms have a declared order ([`order`]), no file uses one of a
//! room above its own.

mod modules;
pub mod order;
mod uses;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use modules::{FileId, Modules};
use order::{ORDERS, Order};
use uses::Uses;

/// Checks the sources of every program and library in the output of `cargo metadata --no-deps`.
pub fn check(metadata: &Value) -> Result<()> {
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().context("a package has no name")?;
        let manifest = package["manifest_path"].as_str().context("a package has no manifest")?;
        let directory = Path::new(manifest).parent().context("a manifest lies nowhere")?;
        let targets = || package["targets"].as_array().into_iter().flatten();
        let is_lib = |target: &Value| {
            let kinds = target["kind"].as_array().into_iter().flatten().filter_map(Value::as_str);
            kinds.into_iter().any(|kind| ["lib", "rlib", "staticlib", "cdylib"].contains(&kind))
        };
        let has_library = targets().any(is_lib);
        for target in targets() {
            let kinds = target["kind"].as_array().context("a target has no kind")?;
            let is_library = is_lib(target);
            if is_library || kinds.iter().any(|kind| kind == "bin") {
                let root = target["src_path"].as_str().context("a target has no source")?;
                let order = ORDERS.iter().find(|order| order.package == name && is_library == has_library);
                wrong.extend(check_crate(directory, Path::new(root), order).with_context(|| name.to_owned())?);
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// The violations in the crate whose root file is `root`. Paths in the messages begin at the parent
/// of `directory`.
fn check_crate(directory: &Path, root: &Path, order: Option<&Order>) -> Result<Vec<String>> {
    let modules = Modules::read(root)?;
    let uses = uses::between_files(&modules);
    let view = View { top: directory.parent().unwrap_or(directory), modules: &modules, uses: &uses };
    let mut wrong = view.circles();
    if let Some(order) = order {
        wrong.extend(view.storeys(order));
    }
    Ok(wrong)
}

struct View<'a> {
    top: &'a Path,
    modules: &'a Modules,
    uses: &'a Uses,
}

impl View<'_> {
    fn name(&self, file: FileId) -> String {
        let path = &self.modules.files[file].path;
        path.strip_prefix(self.top).unwrap_or(path).display().to_string()
    }

    /// One use as a message: `a.rs:7 names crate::b::B of b.rs`.
    fn describe(&self, pair: (FileId, FileId)) -> String {
        let place = &self.uses[&pair];
        format!("{}:{} names {} of {}", self.name(pair.0), place.line, place.path, self.name(pair.1))
    }

    /// A message for each group of files that reach each other.
    fn circles(&self) -> Vec<String> {
        let message = |group: Vec<FileId>| {
            let within = self.uses.keys().filter(|(from, to)| group.contains(from) && group.contains(to));
            let lines: Vec<String> = within.map(|&pair| format!("\n    {}", self.describe(pair))).collect();
            format!("a circle of {} files:{}", group.len(), lines.concat())
        };
        super::circles::groups(self.uses.keys().copied()).into_iter().map(message).collect()
    }

    /// A message for each use upward, for each room without a storey, and for each storey without a
    /// room.
    fn storeys(&self, order: &Order) -> Vec<String> {
        let mut depths: HashMap<&str, usize> = HashMap::new();
        for (depth, storey) in order.storeys.iter().enumerate() {
            depths.extend(storey.split_whitespace().map(|room| (room, depth)));
        }
        let room_of = |file: FileId| self.modules.modules[self.modules.files[file].module].room.as_deref();
        let declared = self.modules.modules.iter().filter(|module| module.parent == Some(0));
        let rooms: BTreeSet<&str> = declared.filter_map(|module| module.room.as_deref()).collect();
        let mut wrong = Vec::new();
        for room in rooms.iter().filter(|room| !depths.contains_key(*room)) {
            wrong.push(format!("{}: module {room} has no place in tools/src/verify/rooms/order.rs", order.package));
        }
        for room in depths.keys().filter(|room| !rooms.contains(*room)) {
            wrong.push(format!("{}: order.rs has a place for {room}, which is no module of the root", order.package));
        }
        for &(from, to) in self.uses.keys() {
            let Some(user) = room_of(from) else { continue };
            match room_of(to) {
                None => wrong.push(format!("{}, the root, which nothing may use", self.describe((from, to)))),
                Some(used) => {
                    if let (Some(own), Some(other)) = (depths.get(user), depths.get(used))
                        && other < own
                    {
                        wrong.push(format!("{}: {used} is above {user}", self.describe((from, to))));
                    }
                }
            }
        }
        wrong.sort();
        wrong
    }
}

#[cfg(test)]
mod tests;
