//! CONFIG: settings, some of which may be changed until the server ends.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::context::Context;
use super::denials::DENIALS_MAX;
use super::settings::Settings;
use super::statistics::Statistics;
use crate::command::{help, pattern};
use crate::config::{Bounds, CONNECTIONS, MEMORY_BYTES, OUTPUT_BYTES, PIPELINE, VALUE_BYTES};
use crate::resp::Reply;

/// Parameters with the same value on every server.
const ALWAYS: [(&str, &str); 6] = [
    ("appendfsync", "always"),
    ("appendonly", "yes"),
    ("databases", "1"),
    ("maxmemory", "0"),
    ("maxmemory-policy", "noeviction"),
    ("save", ""),
];

/// A setting that may be changed: its name, where it is, and its bounds.
struct Tunable(&'static str, fn(&mut Settings) -> &mut usize, Bounds);

const AT_CONNECTIONS: fn(&mut Settings) -> &mut usize = |settings| &mut settings.connections_max;
const AT_MEMORY: fn(&mut Settings) -> &mut usize = |settings| &mut settings.memory_bytes_max;

const SLOWER_THAN: &str = "slowlog-log-slower-than";

/// Most slow commands that are kept, of 5 KiB each at most.
const SLOW_MAX: u64 = 4096;

/// Some have the name that they have in Redis besides the configuration's.
static TUNABLES: [Tunable; 10] = [
    Tunable("maxclients", AT_CONNECTIONS, CONNECTIONS),
    Tunable("clients.connections_max", AT_CONNECTIONS, CONNECTIONS),
    Tunable("maxmemory-clients", AT_MEMORY, MEMORY_BYTES),
    Tunable("clients.memory_max", AT_MEMORY, MEMORY_BYTES),
    Tunable("clients.pipeline_max", |settings| &mut settings.requests_max, PIPELINE),
    Tunable("clients.output_size_max", |settings| &mut settings.output_bytes_max, OUTPUT_BYTES),
    Tunable(SLOWER_THAN, |settings| &mut settings.slow_us, 0..=1 << 50),
    Tunable("slowlog-max-len", |settings| &mut settings.slow_max, 0..=SLOW_MAX),
    Tunable("latency-monitor-threshold", |settings| &mut settings.spike_ms, 0..=1 << 50),
    Tunable("clients.value_size_max", |settings| &mut settings.value_bytes_max, VALUE_BYTES),
];

/// CONFIG GET, CONFIG SET, CONFIG RESETSTAT.
pub(super) fn answer(context: &mut Context<'_>, inner: &str, request: &[Bytes]) -> Reply {
    match inner {
        "get" => get(&context.shared.settings, &request[2..]),
        "set" => set(&mut context.shared.settings, &request[2..]),
        "resetstat" => {
            context.shared.statistics = Statistics::default();
            context.shared.performance.reset();
            Reply::OK
        }
        _ => help("config"),
    }
}

/// All settings by their names.
fn all(settings: &Settings) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> =
        ALWAYS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    all.insert("acllog-max-len".to_owned(), DENIALS_MAX.to_string());
    all.insert("port".to_owned(), settings.port.to_string());
    all.insert("cluster-enabled".to_owned(), if settings.is_cluster { "yes" } else { "no" }.to_owned());
    let mut now = settings.clone();
    let shown = |value: &mut usize| if *value == usize::MAX { "-1".to_owned() } else { value.to_string() };
    all.extend(TUNABLES.iter().map(|Tunable(name, at, _)| ((*name).to_owned(), shown(at(&mut now)))));
    all
}

fn get(settings: &Settings, patterns: &[Bytes]) -> Reply {
    if let Err(refusal) = patterns.iter().try_for_each(|pattern| pattern::check(pattern)) {
        return refusal.into_reply();
    }
    let is_wanted = |key: &str| patterns.iter().any(|one| pattern::matches(&one.to_ascii_lowercase(), key.as_bytes()));
    let found = all(settings).into_iter().filter(|(key, _)| is_wanted(key));
    Reply::Map(found.map(|(key, value)| (Reply::text(key), Reply::text(value))).collect())
}

/// A number, or a size with a unit as Redis has them: k is 1000, kb is 1024.
fn number(text: &[u8]) -> Option<usize> {
    let text = str::from_utf8(text).ok()?.to_ascii_lowercase();
    let digits = text.trim_end_matches(|sign: char| !sign.is_ascii_digit());
    let unit: usize = match &text[digits.len()..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

/// Sets all or none.
fn set(settings: &mut Settings, arguments: &[Bytes]) -> Reply {
    if arguments.len() % 2 == 1 {
        return Reply::error("syntax error");
    }
    let known = all(settings);
    let (mut new, mut seen) = (settings.clone(), Vec::new());
    for pair in arguments.chunks(2) {
        let name = String::from_utf8_lossy(&pair[0]).to_lowercase();
        let (Some(value), Some(now)) = (pair.get(1), known.get(&name)) else {
            let text = format!("Unknown option or number of arguments for CONFIG SET - '{name}'");
            return Reply::error(text);
        };
        let failed =
            |why: &str| Reply::error(format!("CONFIG SET failed (possibly related to argument '{name}') - {why}"));
        if seen.contains(&name) {
            return failed("duplicate parameter");
        }
        let Some(Tunable(_, at, bounds)) = TUNABLES.iter().find(|tunable| tunable.0 == name) else {
            if value.eq_ignore_ascii_case(now.as_bytes()) {
                continue;
            }
            return failed("can't set immutable config: it counts from a start on, by the server's file");
        };
        // The process has descriptors for as many connections as it was started with.
        let most = if name.contains("connections") || name == "maxclients" {
            settings.connections_most as u64
        } else {
            *bounds.end()
        };
        // As in Redis: none is slow.
        if name == SLOWER_THAN && &value[..] == b"-1" {
            *at(&mut new) = usize::MAX;
            seen.push(name);
            continue;
        }
        match number(value) {
            None => return failed("argument couldn't be parsed into an integer"),
            Some(value) if !(*bounds.start()..=most).contains(&(value as u64)) => {
                return failed(&format!("argument must be between {} and {most} inclusive", bounds.start()));
            }
            Some(value) => *at(&mut new) = value,
        }
        seen.push(name);
    }
    *settings = new;
    Reply::OK
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Reply, Settings, number, set};

    fn says(settings: &mut Settings, line: &str) -> String {
        let words: Vec<Bytes> = line.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
        match set(settings, &words) {
            Reply::Error(text) => text,
            reply => format!("{reply:?}"),
        }
    }

    #[test]
    fn sizes_have_the_units_of_redis() {
        for (text, wanted) in [("12", Some(12)), ("2k", Some(2000)), ("2KB", Some(2048)), ("1gb", Some(1 << 30))] {
            assert_eq!(number(text.as_bytes()), wanted, "{text}");
        }
        for text in ["", "k", "-1", "1x", "1 k", "99999999999999999999", "99999999999gb", "\u{e9}"] {
            assert_eq!(number(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn all_are_set_or_none_and_a_bound_is_a_bound() {
        let mut settings = Settings::default();
        let ok = format!("{:?}", Reply::OK);
        assert_eq!(says(&mut settings, "maxclients 100 maxmemory-clients 512mb"), ok);
        assert_eq!((settings.connections_max, settings.memory_bytes_max), (100, 512 << 20));
        assert_eq!(says(&mut settings, "maxclients 10000 appendfsync ALWAYS"), ok);
        let failed =
            |name: &str, why: &str| format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}");
        for (line, wanted) in [
            ("maxclients 7 nope 1", "ERR Unknown option or number of arguments for CONFIG SET - 'nope'".to_owned()),
            ("maxclients 7 port", "ERR syntax error".to_owned()),
            ("maxclients 7 maxclients 8", failed("maxclients", "duplicate parameter")),
            ("maxclients 10001", failed("maxclients", "argument must be between 1 and 10000 inclusive")),
            ("maxclients x", failed("maxclients", "argument couldn't be parsed into an integer")),
            (
                "clients.value_size_max 1",
                failed("clients.value_size_max", "argument must be between 1024 and 67108864 inclusive"),
            ),
            (
                "appendonly no",
                failed("appendonly", "can't set immutable config: it counts from a start on, by the server's file"),
            ),
        ] {
            assert_eq!(says(&mut settings, line), wanted, "{line}");
        }
        assert_eq!(settings.connections_max, 10_000);
        // Redis switches SLOWLOG off so.
        assert_eq!(says(&mut settings, "slowlog-log-slower-than -1"), ok);
        assert_eq!(super::all(&settings)["slowlog-log-slower-than"], "-1");
        assert_eq!(says(&mut settings, "slowlog-log-slower-than 5"), ok);
        assert_eq!(super::all(&settings)["slowlog-log-slower-than"], "5");
        let refused = failed("slowlog-max-len", "argument couldn't be parsed into an integer");
        assert_eq!(says(&mut settings, "slowlog-max-len -1"), refused);
    }
}
