//! The elements of patterns: what one byte of a text may be.

/// An element of a pattern: which bytes may be in its place.
pub(super) enum Element<'a> {
    /// This one.
    One(u8),
    /// Any.
    Any,
    /// Within the brackets.
    Set(&'a [u8]),
}

/// The element at the front of a pattern and its length. `None` at the end, or at a star.
pub(super) fn element(pattern: &[u8]) -> Option<(usize, Element<'_>)> {
    Some(match pattern {
        [] | [b'*', ..] => return None,
        [b'?', ..] => (1, Element::Any),
        [b'\\', byte, ..] => (2, Element::One(*byte)),
        [b'[', rest @ ..] => {
            let end = end_of_set(rest);
            ((end + 2).min(pattern.len()), Element::Set(&rest[..end]))
        }
        [byte, ..] => (1, Element::One(*byte)),
    })
}

/// The place at which the bracket closes: the end if nowhere.
fn end_of_set(rest: &[u8]) -> usize {
    let mut at = 0;
    while at < rest.len() && rest[at] != b']' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at.min(rest.len())
}

impl Element<'_> {
    /// Whether a byte may be it.
    pub(super) fn has(&self, byte: u8) -> bool {
        match self {
            Element::One(one) => *one == byte,
            Element::Any => true,
            Element::Set([b'^', set @ ..]) => !is_in(set, byte),
            Element::Set(set) => is_in(set, byte),
        }
    }
}

fn is_in(mut set: &[u8], byte: u8) -> bool {
    loop {
        let (first, rest) = match set {
            [] => return false,
            [b'\\', first, rest @ ..] | [first, rest @ ..] => (*first, rest),
        };
        let (last, rest) = match rest {
            [b'-', last, rest @ ..] => (*last, rest),
            _ => (first, rest),
        };
        if (first.min(last)..=first.max(last)).contains(&byte) {
            return true;
        }
        set = rest;
    }
}
