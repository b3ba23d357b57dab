//! Room *plots*: pictures of what is kept of the benchmarks' last runs, beside the figures of the
//! papers.
//!
//! It owns `docs/benchmarks`: the results in JSON, which `bench --docs` writes, and the pictures,
//! which are drawn from them and from nothing else.

mod axis;
mod draw;
mod figures;
mod kept;
mod papers;
mod picture;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::shared::paths;

pub use kept::{Kept, Outcome};

/// Where results and pictures are, below the checkout.
const DIRECTORY: &str = "docs/benchmarks";
/// The page that shows the pictures.
const PAGE: &str = "docs/benchmarks.md";

fn directory() -> PathBuf {
    paths::top().join(DIRECTORY)
}

/// `plots`: draws all pictures anew.
pub fn run() -> Result<()> {
    for (name, text) in pictures_in(&directory())? {
        write(&name, &text)?;
        println!("{DIRECTORY}/{name}.svg");
    }
    Ok(())
}

/// Keeps the results of a benchmark, and draws its pictures. Returns their names.
pub fn keep(kept: &Kept) -> Result<Vec<String>> {
    let path = directory().join(format!("{}.json", kept.bench));
    std::fs::create_dir_all(directory()).with_context(|| DIRECTORY)?;
    std::fs::write(&path, kept.to_text()).with_context(|| path.display().to_string())?;
    // As they will be drawn again: from what the file has of the values.
    let pictures = pictures_of(&Kept::read(&path)?)?;
    pictures.iter().try_for_each(|(name, text)| write(name, text))?;
    Ok(pictures.into_keys().collect())
}

/// A line that shows a picture on the page.
pub fn link(name: &str) -> String {
    format!("![{name}](benchmarks/{name}.svg)")
}

/// Checks that each picture is what its results draw, and that the page shows it.
pub fn check() -> Result<()> {
    let path = paths::top().join(PAGE);
    let page = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let wrong = differences(&directory(), &page)?;
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn write(name: &str, text: &str) -> Result<()> {
    let path = directory().join(format!("{name}.svg"));
    std::fs::write(&path, text).with_context(|| path.display().to_string())
}

/// The pictures of one benchmark, by name.
fn pictures_of(kept: &Kept) -> Result<BTreeMap<String, String>> {
    let pictures = figures::of(kept);
    let drawn = pictures.iter().map(|picture| {
        let text = draw::svg(picture).with_context(|| format!("{}.svg", picture.name))?;
        Ok((picture.name.to_owned(), text))
    });
    drawn.collect()
}

/// The pictures of all results in a directory, by name.
fn pictures_in(directory: &Path) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for path in files(directory, "json")? {
        let kept = Kept::read(&path)?;
        let named = path.file_stem().and_then(|stem| stem.to_str());
        ensure!(named == Some(kept.bench.as_str()), "{}: it is of the benchmark {}", path.display(), kept.bench);
        all.extend(pictures_of(&kept)?);
    }
    Ok(all)
}

/// The files of a directory that end so, sorted.
fn files(directory: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == ending) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A line for each picture that is missing, stale, or on no page.
fn differences(directory: &Path, page: &str) -> Result<Vec<String>> {
    let drawn = pictures_in(directory)?;
    let mut wrong = Vec::new();
    for (name, text) in &drawn {
        let path = directory.join(format!("{name}.svg"));
        match std::fs::read_to_string(&path) {
            Ok(found) if found == *text => {}
            Ok(_) => wrong.push(format!("{name}.svg is not what its results draw: run `cargo xtask plots`")),
            Err(_) => wrong.push(format!("{name}.svg is missing: run `cargo xtask plots`")),
        }
        if !page.contains(&link(name)) {
            wrong.push(format!("{PAGE} does not show {name}.svg: add the line {}", link(name)));
        }
    }
    for path in files(directory, "svg")? {
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if !drawn.contains_key(name) {
            wrong.push(format!("no results draw {name}.svg: remove it"));
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of its own, removed at the end.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("perdura-plots-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.0.join(name), text).unwrap();
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn load(median: f64) -> Kept {
        let outcome = |system: &str, median| Outcome {
            system: system.into(),
            case: "local".into(),
            metric: "time_s".into(),
            unit: "s".into(),
            median,
            least: Some(median / 2.0),
            most: Some(median * 2.0),
        };
        Kept {
            bench: "load".into(),
            machine: "m".into(),
            medium: "mode emulated".into(),
            workload: "w".into(),
            results: vec![outcome("perdura", median), outcome("innodb", 4.0)],
        }
    }

    #[test]
    fn a_picture_has_to_agree_with_its_results() {
        let directory = Directory::new("stale");
        let page = link("load");
        let of = |page: &str| differences(&directory.0, page).unwrap();
        assert!(of("").is_empty(), "without results there are no pictures");
        directory.write("load.json", &load(0.5).to_text());
        assert!(of(&page)[0].contains("load.svg is missing"), "{:?}", of(&page));
        let drawn = pictures_in(&directory.0).unwrap();
        directory.write("load.svg", &drawn["load"]);
        assert!(of(&page).is_empty(), "{:?}", of(&page));
        assert!(of("")[0].contains("does not show load.svg"), "{:?}", of(""));
        directory.write("load.json", &load(0.6).to_text());
        assert!(of(&page)[0].contains("is not what its results draw"), "{:?}", of(&page));
        std::fs::remove_file(directory.0.join("load.json")).unwrap();
        assert_eq!(of(&page), ["no results draw load.svg: remove it"]);
    }

    #[test]
    fn results_under_another_name_are_refused() {
        let directory = Directory::new("named");
        directory.write("lanes.json", &load(0.5).to_text());
        let error = pictures_in(&directory.0).unwrap_err().to_string();
        assert!(error.contains("lanes.json: it is of the benchmark load"), "{error}");
    }

    /// The same results draw the same bytes, in this process and in the one that `verify` is.
    #[test]
    fn the_pictures_of_the_page_are_drawn_again_as_they_are() {
        paths::find_top().unwrap();
        check().unwrap();
    }
}
