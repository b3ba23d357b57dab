//! Patterns of keys: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a character that is meant as such.
//!
//! A star never takes back what a star before it has matched. What lies between two stars is looked
//! for byte by byte, which takes at most the product of both lengths; where that becomes long, 64
//! places of the pattern are looked at at once (`wide`).

mod element;
mod wide;

use super::{Outcome, wrong};
use crate::machine::key::KEY_BYTES_MAX;
use element::{Element, element};

/// Refuses a pattern that is longer than any key: each key would be held against all of it.
pub(crate) fn check(pattern: &[u8]) -> Outcome<()> {
    match pattern.len() {
        ..=KEY_BYTES_MAX => Ok(()),
        length => wrong(format!("a pattern of {length} bytes is too long: {KEY_BYTES_MAX} at most")),
    }
}

/// Steps that take as long as looking at a place.
pub(crate) const STEPS_A_PLACE: usize = 1024;
/// Steps for each byte of pattern and text that the search byte by byte may take.
const STEPS_A_BYTE: usize = 16;

/// Whether a text matches a pattern.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    matched(pattern, text).0
}

/// Whether a text matches a pattern, and the steps that it took, of some nanoseconds each.
pub(crate) fn matched(pattern: &[u8], text: &[u8]) -> (bool, usize) {
    let most = (pattern.len() + text.len()).saturating_mul(STEPS_A_BYTE);
    let mut steps = 0;
    match by_bytes(pattern, text, most, &mut steps) {
        Some(found) => (found, steps),
        None => {
            let (found, more) = wide::matched(pattern, text);
            (found, steps + more)
        }
    }
}

/// Looks byte by byte. `None` when it has taken as many steps as it may.
fn by_bytes(pattern: &[u8], text: &[u8], most: usize, steps: &mut usize) -> Option<bool> {
    let (mut at, mut from) = (0, 0);
    // Where the newest star's pattern goes on, and how much text the star has taken.
    let mut star: Option<(usize, usize)> = None;
    while *steps <= most {
        *steps += 1;
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            if at == pattern.len() {
                return Some(true);
            }
            star = Some((at, from));
            continue;
        }
        let found = element(&pattern[at..]);
        // A set is read from its bracket on.
        *steps += found.as_ref().map_or(0, |(length, _)| *length);
        match (found, text.get(from)) {
            (None, None) => return Some(true),
            (Some((length, set)), Some(&byte)) if set.has(byte) => {
                at += length;
                from += 1;
            }
            _ => {
                let Some((after, taken)) = &mut star else { return Some(false) };
                *taken += 1;
                if *taken > text.len() {
                    return Some(false);
                }
                (at, from) = (*after, *taken);
            }
        }
    }
    None
}

/// The text that everything begins with that matches a pattern.
pub(crate) fn prefix(pattern: &[u8]) -> Vec<u8> {
    let (mut prefix, mut at) = (Vec::new(), 0);
    while let Some((length, Element::One(byte))) = element(&pattern[at..]) {
        prefix.push(byte);
        at += length;
    }
    prefix
}

#[cfg(test)]
mod tests {
    use super::{by_bytes, matched, matches, prefix, wide};
    use proptest::prelude::*;

    #[test]
    fn patterns_mean_what_redis_means() {
        for (pattern, text, wanted) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("h?llo", "hallo", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxcxxb", false),
            ("h[ae]llo", "hello", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[a-c]llo", "hdllo", false),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hello", false),
            ("h[\\]]", "h]", true),
            ("h[]", "h]", false),
            ("h[ab", "ha", true),
            ("h\\", "h\\", true),
            ("user:*:name", "user:1:2:name", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), wanted, "{pattern} {text}");
        }
    }

    #[test]
    fn what_comes_before_the_first_star_is_the_prefix() {
        assert_eq!(prefix(b"user:\\*1[a]"), b"user:*1");
        assert_eq!(prefix(b"*"), b"");
        assert_eq!(prefix(b"key"), b"key");
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern = [&b"*a".repeat(1000)[..], b"b"].concat();
        assert!(!matches(&pattern, &b"a".repeat(5000)));
    }

    /// Hazard: one pattern held against one key takes most of a second, in which the leader is
    /// silent. The longest of both, in the ways that take longest: steps are counted, for a test
    /// has no clock.
    #[test]
    fn the_longest_pattern_takes_few_steps() {
        const LENGTH: usize = 32_000;
        let text = b"a".repeat(LENGTH);
        for pattern in [
            [b"*", &b"a".repeat(LENGTH / 2)[..], b"b"].concat(),
            [b"*", &b"a".repeat(LENGTH / 2)[..], b"b*"].concat(),
            [&b"*a".repeat(LENGTH / 2 - 1)[..], b"b"].concat(),
            [b"*", &b"[abcdefgh]".repeat(LENGTH / 10 - 1)[..], b"b*"].concat(),
            [b"*[", &b"b".repeat(LENGTH - 3)[..], b"]"].concat(),
            [&b"*aaaaaaaaaaaaaaaa".repeat(LENGTH / 18)[..], b"b*"].concat(),
        ] {
            let (found, steps) = matched(&pattern, &text);
            assert!(!found);
            assert!(steps <= 20_000_000, "{steps} steps");
        }
    }

    proptest! {
        #[test]
        fn both_ways_to_look_find_the_same(pattern in "[ab*?\\[\\]\\\\^-]{0,12}", text in "[ab*?]{0,12}", times in 1_usize..80) {
            let (pattern, text) = (pattern.replace('b', &"b".repeat(times)), text.replace('b', &"b".repeat(times)));
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(by_bytes(pattern, text, usize::MAX - 1, &mut 0), Some(wide::matched(pattern, text).0));
        }

        #[test]
        fn what_matches_begins_with_the_prefix(pattern in "[ab*?\\[\\]\\\\^-]{0,8}", text in "[ab*?]{0,6}") {
            if matches(pattern.as_bytes(), text.as_bytes()) {
                prop_assert!(text.as_bytes().starts_with(&prefix(pattern.as_bytes())));
            }
        }
    }
}
