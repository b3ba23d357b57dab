//! The log for operators: a line for each message, on standard error, as text or as JSON.
//!
//! Bytes from the network are escaped, so that no message can look like two.

use std::fmt::{self, Write as _};
use std::io::Write as _;

use slog::{Drain, Key, Level, Logger, Never, OwnedKVList, Record, Serializer, o};

use super::clock;
use crate::config::{Log, LogFormat, LogLevel};

struct Lines {
    least: Level,
    format: LogFormat,
}

/// The log that a configuration wants.
pub fn logger(config: &Log) -> Logger {
    let least = match config.level {
        LogLevel::Error => Level::Error,
        LogLevel::Warning => Level::Warning,
        LogLevel::Info => Level::Info,
        LogLevel::Debug => Level::Debug,
    };
    Logger::root(Lines { least, format: config.format }, o!())
}

impl Drain for Lines {
    type Ok = ();
    type Err = Never;

    fn log(&self, record: &Record<'_>, values: &OwnedKVList) -> Result<(), Never> {
        if !record.level().is_at_least(self.least) {
            return Ok(());
        }
        let mut line = match self.format {
            LogFormat::Text => text(record, values),
            LogFormat::Json => json(record, values),
        };
        line.push('\n');
        // There is no place to complain of a log that cannot be written.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
        Ok(())
    }
}

fn text(record: &Record<'_>, values: &OwnedKVList) -> String {
    let mut line = Text(format!("{} {:<5} {}", Stamp(clock::wall().as_millis()), level(record.level()), record.msg()));
    gather(record, values, &mut line);
    line.0
}

fn json(record: &Record<'_>, values: &OwnedKVList) -> String {
    let mut line = Json(serde_json::Map::new());
    let head = [
        ("time", Stamp(clock::wall().as_millis()).to_string()),
        ("level", level(record.level()).to_owned()),
        ("message", record.msg().to_string()),
    ];
    line.0.extend(head.map(|(key, value)| (key.to_owned(), value.into())));
    gather(record, values, &mut line);
    serde_json::Value::Object(line.0).to_string()
}

fn gather(record: &Record<'_>, values: &OwnedKVList, line: &mut dyn Serializer) {
    use slog::KV;
    // The values' own errors are those of the line, which takes all.
    let _ = record.kv().serialize(record, line);
    let _ = values.serialize(record, line);
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Critical | Level::Error => "ERROR",
        Level::Warning => "WARN",
        Level::Info => "INFO",
        Level::Debug | Level::Trace => "DEBUG",
    }
}

struct Text(String);

impl Serializer for Text {
    fn emit_arguments(&mut self, key: Key, value: &fmt::Arguments<'_>) -> slog::Result {
        let value = value.to_string();
        let is_plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
        let written = if is_plain { write!(self.0, " {key}={value}") } else { write!(self.0, " {key}={value:?}") };
        Ok(written?)
    }
}

struct Json(serde_json::Map<String, serde_json::Value>);

impl Serializer for Json {
    fn emit_arguments(&mut self, key: Key, value: &fmt::Arguments<'_>) -> slog::Result {
        self.0.insert(key.to_string(), value.to_string().into());
        Ok(())
    }

    fn emit_u64(&mut self, key: Key, value: u64) -> slog::Result {
        self.0.insert(key.to_string(), value.into());
        Ok(())
    }
}

/// A moment as RFC 3339 writes it, from milliseconds since 1970.
struct Stamp(u128);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, ms) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (year, month, day) = date(days as u64);
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
    }
}

/// The date so many days after 1970-01-01. Years begin in March, so that a leap day is the last of
/// its year.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::{Stamp, json, text};
    use slog::{Level, OwnedKVList, o};

    fn written(how: fn(&slog::Record<'_>, &OwnedKVList) -> String) -> String {
        let location = slog::RecordStatic {
            location: &slog::RecordLocation { file: "", line: 0, column: 0, function: "", module: "" },
            tag: "",
            level: Level::Info,
        };
        let values = slog::b!("peer" => 7_u64, "why" => "two\nlines \"quoted\"");
        how(&slog::Record::new(&location, &format_args!("it ended"), values), &o!().into())
    }

    #[test]
    fn a_message_is_one_line_whatever_is_in_it() {
        let line = written(text);
        assert!(line.contains(" INFO  it ended"), "{line}");
        assert!(line.contains(" peer=7"), "{line}");
        assert!(line.contains(r#"why="two\nlines \"quoted\"""#), "{line}");
        let value: serde_json::Value = serde_json::from_str(&written(json)).expect("JSON");
        assert_eq!((&value["message"], &value["peer"]), (&"it ended".into(), &7.into()));
    }

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (ms, wanted) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_123, "2000-02-29T00:00:00.123Z"),
            (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Stamp(ms).to_string(), wanted);
        }
    }
}
