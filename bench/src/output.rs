//! The output of a benchmark program: one JSON object a line on standard output, its progress on
//! standard error.
//!
//! `{"system", "case", "metric", "value"}` is one value of one round; `{"medium": TEXT}` names the
//! medium, `{"note": TEXT}` is printed as it is, `{"sample": {...}}` is what [`crate::sampler`]
//! sees, and `{"default": VALUE, "system", "parameter"}` gives the default of a map's parameter.

use serde_json::{Value, json};
use std::fmt::Display;
use std::io::Write;

fn line(value: &Value) {
    // One write for the whole line. A closed pipe is an error like any other.
    writeln!(std::io::stdout(), "{value}").expect("standard output can be written to");
}

/// Prints one value of one round.
pub fn value(system: &str, case: &str, metric: &str, value: f64) {
    line(&json!({"system": system, "case": case, "metric": metric, "value": value}));
}

/// Prints a sample of this process (see [`crate::sampler`]).
pub fn sample(sample: Value) {
    line(&json!({"sample": sample}));
}

/// Names the medium of the data.
pub fn medium(text: &str) {
    line(&json!({"medium": text}));
}

/// Prints a remark for the reader of the report.
pub fn note(text: &str) {
    line(&json!({"note": text}));
}

/// Prints the default of `parameter` of `system`, as the names of cases write it.
pub fn default(system: &str, parameter: &str, value: &str) {
    line(&json!({"default": value, "system": system, "parameter": parameter}));
}

/// Prints progress for a person.
pub fn progress(what: impl Display) {
    eprintln!("bench: {what}");
}
