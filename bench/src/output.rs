//! What a program prints: one JSON object a line on standard output, and its progress on standard error.
//!
//! `{"system", "case", "metric", "value"}` is one value of one round; `{"medium": TEXT}` names the medium,
//! `{"note": TEXT}` is to be printed as it is, and `{"default": VALUE, "system", "parameter"}` says what a map is made with
//! when nothing is asked for.

use serde_json::{Value, json};
use std::fmt::Display;
use std::io::Write;

fn line(value: &Value) {
    // Written at once and whole; a reader that has gone is an error like any other.
    writeln!(std::io::stdout(), "{value}").expect("standard output can be written to");
}

/// One value of one round.
pub fn value(system: &str, case: &str, metric: &str, value: f64) {
    line(&json!({"system": system, "case": case, "metric": metric, "value": value}));
}

/// What the data lie on.
pub fn medium(text: &str) {
    line(&json!({"medium": text}));
}

/// Something the reader of the report should know.
pub fn note(text: &str) {
    line(&json!({"note": text}));
}

/// What `parameter` of `system` is by default, as it is written in the names of cases.
pub fn default(system: &str, parameter: &str, value: &str) {
    line(&json!({"default": value, "system": system, "parameter": parameter}));
}

/// Tells a person what is under way.
pub fn progress(what: impl Display) {
    eprintln!("bench: {what}");
}
