//! Prints the report of a check.

use perdura_engine::check::{Report, TableReport};
use perdura_pmem::Medium;

/// Prints every structure, then the verdict.
pub fn inspect(medium: &dyn Medium, report: &Report) {
    println!("medium: {}", medium.info());
    println!("{}", report.log);
    for table in &report.tables {
        print_table(table);
    }
    check(medium, report);
}

/// Prints the verdict.
pub fn check(_medium: &dyn Medium, report: &Report) {
    let rows: u64 = report.tables.iter().skip(1).map(|table| table.rows).sum();
    println!(
        "{} tables, {rows} rows; {} commits for the next start to redo, {} prepared transactions",
        report.tables.len().saturating_sub(1),
        report.commits_to_redo,
        report.prepared
    );
    for problem in &report.problems {
        println!("DAMAGED {problem}");
    }
    if report.problems.is_empty() {
        println!("the pool is sound");
    } else {
        println!("{} problems", report.problems.len());
    }
}

fn print_table(table: &TableReport) {
    let [free, cells, directory, runs, leaves] = table.segments;
    println!("table {} (id {})", table.name, table.id);
    println!("  {} rows of {} bytes in all, {} deletions to be purged", table.rows, table.row_bytes, table.tombstones);
    println!("  {} files of {} bytes in all", table.files, table.bytes);
    println!(
        "  segments: {cells} with cells, {directory} of the row directory, {runs} in runs, {leaves} of indexes, {free} free"
    );
}
