//! PERDURA.RANGE and SCAN with all combinations of options against a list of keys that is filtered,
//! in all stores.

use crate::support::cluster::Cluster;
use crate::support::lines::says;
use perdura_kv::client::Settings;
use perdura_kv::sim::Variant;

const KEYS: [&str; 16] =
    ["a", "a1", "a1b", "a2", "aa", "ab", "b", "b0", "b1", "b1a", "b1b", "b2", "ba", "bb", "c", "c1"];
const PLACES: [&str; 9] = ["", "a", "a1", "a9", "b", "b1", "b1a", "bz", "d"];
const PATTERNS: [&str; 8] = ["", "b*", "a1*", "b1?", "*a", "b\\1*", "[ab]*", "bb"];
const PREFIXES: [&str; 5] = ["", "a", "b", "b1", "c"];

/// One combination. What is empty is not said.
#[derive(Clone, Copy, Debug)]
struct Options {
    from: &'static str,
    is_after: bool,
    before: &'static str,
    prefix: &'static str,
    pattern: &'static str,
}

fn matches(pattern: &str, key: &str) -> bool {
    match pattern {
        "" => true,
        "*a" => key.ends_with('a'),
        "b1?" => key.starts_with("b1") && key.len() == 3,
        "[ab]*" => key.starts_with('a') || key.starts_with('b'),
        exact if !exact.ends_with('*') => key == exact,
        begin => key.starts_with(&begin.trim_end_matches('*').replace('\\', "")),
    }
}

impl Options {
    fn all() -> impl Iterator<Item = Options> {
        let froms = PLACES.into_iter().flat_map(|from| [(from, false), (from, true)]);
        froms.filter(|(from, is_after)| !(from.is_empty() && *is_after)).flat_map(|(from, is_after)| {
            ["", "b1a", "bz", "a"].into_iter().flat_map(move |before| {
                PREFIXES.into_iter().flat_map(move |prefix| {
                    PATTERNS.into_iter().map(move |pattern| Options { from, is_after, before, prefix, pattern })
                })
            })
        })
    }

    fn wants(self, key: &str) -> bool {
        (self.from.is_empty() || if self.is_after { key > self.from } else { key >= self.from })
            && (self.before.is_empty() || key < self.before)
            && key.starts_with(self.prefix)
            && matches(self.pattern, key)
    }

    fn wanted(self) -> Vec<&'static str> {
        KEYS.into_iter().filter(|key| self.wants(key)).collect()
    }

    fn line(self) -> String {
        let from = if self.is_after { "AFTER" } else { "FROM" };
        let said = [(from, self.from), ("BEFORE", self.before), ("PREFIX", self.prefix), ("MATCH", self.pattern)];
        said.into_iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| format!(" {name} {text}")).collect()
    }
}

/// The texts of an answer, without their lengths.
fn texts(answer: &str) -> Vec<String> {
    assert!(!answer.starts_with('-'), "{answer}");
    answer.split(' ').filter(|word| !word.starts_with(['*', '$']) && !word.is_empty()).map(str::to_owned).collect()
}

fn with_keys(variant: Variant) -> (Cluster, u32) {
    let mut cluster = Cluster::with_maps(variant, &[8 << 20], &Settings::default());
    let token = cluster.open(1);
    let pairs: Vec<String> = KEYS.iter().map(|key| format!("{key} v")).collect();
    assert_eq!(says(&mut cluster, 1, token, &format!("MSET {}", pairs.join(" "))), "+OK");
    (cluster, token)
}

/// All that SCAN returns in turn, with other options behind each page.
fn scanned(cluster: &mut Cluster, token: u32, options: &[Options], count: usize) -> Vec<(usize, String)> {
    let (mut found, mut cursor, mut page) = (Vec::new(), "0".to_owned(), 0);
    loop {
        let at = page % options.len();
        let answer = says(cluster, 1, token, &format!("SCAN {cursor} COUNT {count}{}", options[at].line()));
        let mut words = texts(&answer);
        cursor = words.remove(0);
        found.extend(words.into_iter().map(|word| (at, word)));
        page += 1;
        if cursor == "0" {
            return found;
        }
    }
}

/// Hazard: a listing that begins before its prefix finds nothing.
#[test]
fn every_combination_of_options_finds_what_a_filter_finds() {
    for variant in [Variant::List, Variant::BTree, Variant::Wal] {
        let (mut cluster, token) = with_keys(variant);
        for options in Options::all() {
            let line = options.line();
            let found = texts(&says(&mut cluster, 1, token, &format!("PERDURA.RANGE{line}")));
            assert_eq!(found, options.wanted(), "{variant:?} {line}");
            // SCAN has no AFTER.
            if options.is_after {
                continue;
            }
            let found: Vec<String> =
                scanned(&mut cluster, token, &[options], 3).into_iter().map(|(_, key)| key).collect();
            assert_eq!(found, options.wanted(), "{variant:?} SCAN{line}");
        }
    }
}

/// A draft lies over the store: what it has put is found, what it has deleted is not.
#[test]
fn a_transaction_lists_its_own_keys_with_every_combination() {
    let (mut cluster, token) = with_keys(Variant::List);
    for options in Options::all() {
        let (line, inner) = (options.line(), ["a2", "b1b"]);
        let script = format!(
            "MULTI / DEL {} / SET b1aa v / PERDURA.RANGE{line} / DEL b1aa / MSET a2 v b1b v / EXEC",
            inner.join(" ")
        );
        let answer = says(&mut cluster, 1, token, &script);
        let (_, answer) = answer.split_once(":2 +OK ").expect("a transaction");
        let (answer, _) = answer.rsplit_once(" :1 +OK").expect("a transaction");
        let mut wanted: Vec<&str> = KEYS.into_iter().chain(["b1aa"]).collect();
        wanted.retain(|key| !inner.contains(key) && options.wants(key));
        wanted.sort_unstable();
        assert_eq!(texts(answer), wanted, "{line}");
    }
}

/// Hazard: a cursor that comes with another pattern lies before what that begins with, and nothing
/// is found.
#[test]
fn a_cursor_goes_on_with_other_options() {
    for variant in [Variant::List, Variant::BTree, Variant::Wal] {
        let (mut cluster, token) = with_keys(variant);
        let option = |pattern, prefix| Options { from: "", is_after: false, before: "", prefix, pattern };
        for later in [option("b*", ""), option("", "b1"), option("*a", "b"), option("bb", "")] {
            for count in 1..6 {
                let answer = says(&mut cluster, 1, token, &format!("SCAN 0 COUNT {count}"));
                let mut words = texts(&answer);
                let cursor = words.remove(0);
                let last = words.last().expect("a key").clone();
                let answer = says(&mut cluster, 1, token, &format!("SCAN {cursor} COUNT 100{}", later.line()));
                let wanted: Vec<&str> = later.wanted().into_iter().filter(|key| **key > *last).collect();
                assert_eq!(texts(&answer)[1..], wanted, "{variant:?} {later:?} behind {last}");
            }
        }
    }
}

/// Hazard: faster scans push a slow one out, and it has to begin again, for ever. Keys come and go
/// meanwhile.
#[test]
fn no_scan_ends_another_and_each_finds_all_that_stays() {
    const SCANS: usize = 1_200;
    let (mut cluster, token) = with_keys(Variant::List);
    let other = cluster.open(1);
    assert_eq!(says(&mut cluster, 1, token, "ACL SETUSER other on nopass ~* +@all / SET gone v"), "+OK +OK");
    assert_eq!(says(&mut cluster, 1, other, "AUTH other x"), "+OK");
    let mut scans = vec![("0".to_owned(), Vec::new()); SCANS];
    let mut is_over = vec![false; SCANS];
    let (mut round, mut steps) = (0, 0);
    while is_over.iter().any(|over| !over) {
        round += 1;
        for (number, (cursor, found)) in scans.iter_mut().enumerate() {
            // Some go a step for many of others, and all begin at other times.
            let is_slow = number % 100 == 0 && round % 7 != 0 || round < number % 5;
            if is_over[number] || is_slow {
                continue;
            }
            steps += 1;
            let token = if number % 3 == 0 { other } else { token };
            let count = 1 + number % 4;
            let mut words = texts(&says(&mut cluster, 1, token, &format!("SCAN {cursor} COUNT {count}")));
            *cursor = words.remove(0);
            found.extend(words);
            is_over[number] = cursor == "0";
        }
        let (old, new) = (round - 1, round);
        says(&mut cluster, 1, token, &format!("DEL gone a5x{old} zz{old} / SET a5x{new} v / SET zz{new} v"));
    }
    assert!(steps > 3 * SCANS, "{steps}");
    for (_, mut found) in scans {
        let times = found.len();
        found.sort();
        found.dedup();
        assert_eq!(found.len(), times, "a key was returned twice");
        assert!(KEYS.iter().all(|key| found.iter().any(|one| one == key)), "{found:?}");
    }
}
