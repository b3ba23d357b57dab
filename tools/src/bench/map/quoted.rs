//! Published figures quoted beside the measured ones: of the thesis that the maps follow, and of
//! pmemkv, which is no peer of the run.

use super::Report;

const THESIS: &str = "thesis (MIPT 2020), list / B+-tree: insert 884 / 3097, read 340 / 500, delete 612 / 3839 ns";
const PMEMKV: &str = "pmemkv cmap / stree / tree3, run earlier on this kind of machine: \
                      insert 6000 / 7800 / 4200, read 1450 / 640 / 450, delete 6300 / 8000 / 2600 ns";

/// Adds them as notes.
pub fn note(report: &mut Report) {
    for figures in [THESIS, PMEMKV] {
        report.note(format!("quoted, not measured in this run: {figures}"));
    }
}
