//! The paper's workload as CSV files: one seeded file for each loader, generated once and kept
//! under build/data.
//!
//! Table `(id bigint, a int, b varchar(32), c varchar(32), d datetime)`, no index, about 64 bytes a
//! row.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::shared::paths;

/// Columns of the paper's table.
pub const COLUMNS: &str = "id BIGINT, a INT, b VARCHAR(32), c VARCHAR(32), d DATETIME";

/// The file of loader `loader` with `rows` rows; the same bytes on every machine.
pub fn paper(rows: u64, loader: u64) -> Result<PathBuf> {
    let path = paths::data().join(format!("paper-{rows}-{loader}.csv"));
    if path.exists() {
        return Ok(path);
    }
    std::fs::create_dir_all(paths::data())?;
    let staging = path.with_extension("csv.new");
    let mut out =
        BufWriter::with_capacity(1 << 20, File::create(&staging).with_context(|| staging.display().to_string())?);
    let mut random = StdRng::seed_from_u64(0x5045_5244_5552_4100 ^ loader);
    for row in 0..rows {
        let id = loader * rows + row;
        let (day, second) = (random.random_range(1..=28), random.random_range(0..86_400));
        let (a, b, c): (u32, u64, u64) = (random.random_range(0..1_000_000), random.random(), random.random());
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        writeln!(out, "{id},{a},b{b:016x},c{c:015x},2021-08-{day:02} {hour:02}:{minute:02}:{second:02}")?;
    }
    out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
    std::fs::rename(&staging, &path)?;
    Ok(path)
}
