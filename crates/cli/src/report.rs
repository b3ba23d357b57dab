//! Prints the report of a check.

use crate::output::say;
use perdura_engine::check::{Report, TableReport};
use perdura_pmem::Medium;

/// Prints every structure, then the verdict.
pub fn inspect(medium: &dyn Medium, report: &Report) {
    say!("medium: {}", medium.info());
    say!("{}", report.log);
    for table in &report.tables {
        print_table(table);
    }
    check(medium, report);
}

/// Prints the verdict.
pub fn check(_medium: &dyn Medium, report: &Report) {
    let rows: u64 = report.tables.iter().skip(1).map(|table| table.rows).sum();
    say!(
        "{} tables, {rows} rows; {} commits for the next start to redo, {} prepared transactions",
        report.tables.len().saturating_sub(1),
        report.commits_to_redo,
        report.prepared
    );
    for problem in &report.problems {
        say!("DAMAGED {problem}");
    }
    if report.problems.is_empty() {
        say!("the pool is sound");
    } else {
        say!("{}", count(report.problems.len()));
    }
}

/// How many problems there are, in words.
pub fn count(problems: usize) -> String {
    if problems == 1 { "1 problem".to_owned() } else { format!("{problems} problems") }
}

fn print_table(table: &TableReport) {
    let [free, cells, directory, runs, leaves] = table.segments;
    say!("table {} (id {})", table.name, table.id);
    say!("  {} rows of {} bytes in all, {} deletions to be purged", table.rows, table.row_bytes, table.tombstones);
    say!("  {} files of {} bytes in all", table.files, table.bytes);
    say!(
        "  segments: {cells} with cells, {directory} of the row directory, {runs} in runs, {leaves} of indexes, {free} free"
    );
}
