//! Checks that dependencies between the project's crates point downward, and that only the crates
//! listed here hold unsafe code.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// A crate's height, and whether it may hold unsafe code.
struct Layer {
    name: &'static str,
    height: u8,
    may_be_unsafe: bool,
}

const fn layer(name: &'static str, height: u8, may_be_unsafe: bool) -> Layer {
    Layer { name, height, may_be_unsafe }
}

/// The layers of docs/ARCHITECTURE.md; a crate may depend on those of lower height.
const LAYERS: [Layer; 15] = [
    layer("perdura-pmem", 0, true),
    layer("perdura-tpcc", 0, false),
    layer("perdura-log", 1, true),
    layer("perdura-tree", 1, true),
    layer("perdura-map", 1, true),
    layer("perdura-engine", 2, true),
    layer("perdura-kv", 2, false),
    layer("perdura-capi", 3, true),
    layer("perdura-cli", 3, false),
    layer("perdura-bench", 4, true),
    layer("perdura-crash", 4, true),
    layer("perdura-dax", 4, false),
    layer("perdura-sim", 4, false),
    layer("perdura-tests", 4, false),
    layer("xtask", 5, false),
];

/// Checks the output of `cargo metadata --no-deps`.
pub fn check(metadata: &Value) -> Result<()> {
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().context("a package has no name")?;
        let own = find(name)?;
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            // Our own crates are dependencies by path.
            let Some(other) = dependency["path"].as_str().and(dependency["name"].as_str()) else { continue };
            if find(other)?.height >= own.height {
                wrong.push(format!("{name} depends on {other}, which is not below it"));
            }
        }
        for target in package["targets"].as_array().into_iter().flatten() {
            let root = target["src_path"].as_str().context("a target has no source")?;
            let is_main = ["lib", "rlib", "staticlib", "bin"]
                .iter()
                .any(|kind| target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|found| found == kind)));
            let text = std::fs::read_to_string(root).with_context(|| root.to_owned())?;
            if is_main && !own.may_be_unsafe && !text.contains("#![forbid(unsafe_code)]") {
                wrong.push(format!("{root} lacks #![forbid(unsafe_code)]"));
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn find(name: &str) -> Result<&'static Layer> {
    match LAYERS.iter().find(|layer| layer.name == name) {
        Some(layer) => Ok(layer),
        None => bail!("{name} has no layer: give it one in tools/src/verify/layers.rs"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::check;

    #[test]
    fn a_dependency_upward_is_refused() {
        let package = |name: &str, on: &str| json!({"packages": [{"name": name, "targets": [], "dependencies": [{"name": on, "path": "x"}]}]});
        assert!(check(&package("perdura-engine", "perdura-pmem")).is_ok());
        assert!(check(&package("perdura-pmem", "perdura-engine")).is_err());
        assert!(check(&package("perdura-log", "perdura-map")).is_err());
        assert!(check(&package("perdura-unheard", "perdura-pmem")).is_err());
    }
}
