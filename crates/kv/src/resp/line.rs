//! A request as one line, as people type it into a terminal: words, with quotes around those that
//! have spaces.

use bytes::Bytes;

/// The words of a line. `None` if a quote is not closed, or a closing one is not followed by a
/// space.
///
/// Between double quotes `\n`, `\r`, `\t`, `\b`, `\a` and `\xHH` stand for a byte, and a backslash
/// for the byte behind it; between single quotes only `\'` does.
pub(super) fn words(line: &[u8]) -> Option<Vec<Bytes>> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii_start();
    while let Some(&first) = rest.first() {
        let (word, after) = match first {
            b'"' => double_quoted(&rest[1..])?,
            b'\'' => single_quoted(&rest[1..])?,
            _ => {
                let end = rest.iter().position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\''));
                let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
                (word.to_vec(), after)
            }
        };
        if after.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
            return None;
        }
        words.push(word.into());
        rest = after.trim_ascii_start();
    }
    Some(words)
}

fn double_quoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (mut word, mut at) = (Vec::new(), 0);
    loop {
        match *text.get(at)? {
            b'"' => return Some((word, &text[at + 1..])),
            b'\\' => match hex(&text[at + 1..]) {
                Some(byte) => {
                    word.push(byte);
                    at += 4;
                }
                None => {
                    word.push(escaped(*text.get(at + 1)?));
                    at += 2;
                }
            },
            byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

/// The byte that `xHH` stands for.
fn hex(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"x")?.get(..2)?;
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(digits[0])? << 4 | digit(digits[1])?).ok()
}

fn escaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn single_quoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (mut word, mut at) = (Vec::new(), 0);
    loop {
        match *text.get(at)? {
            b'\'' => return Some((word, &text[at + 1..])),
            b'\\' if text.get(at + 1) == Some(&b'\'') => {
                word.push(b'\'');
                at += 2;
            }
            byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::words;

    #[track_caller]
    fn are(line: &str, wanted: &[&str]) {
        let found = words(line.as_bytes()).expect("words");
        assert_eq!(found, wanted.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
    }

    #[test]
    fn spaces_part_words_and_quotes_hold_them_together() {
        are("", &[]);
        are("  GET  key ", &["GET", "key"]);
        are(r#"SET "a key" 'it\'s' "#, &["SET", "a key", "it's"]);
        are(r#"SET k "\x41\n\"\q" "#, &["SET", "k", "A\n\"q"]);
        are(r#"ECHO "" ''"#, &["ECHO", "", ""]);
        are(r#"ECHO "\x4" "#, &["ECHO", "x4"]);
    }

    #[test]
    fn a_quote_that_does_not_end_a_word_is_refused() {
        for line in ["ECHO \"a", "ECHO 'a", "ECHO \"a\"b", "ECHO 'a'b", "ECHO a\"b\"", "ECHO \"a\\", "\""] {
            assert_eq!(words(line.as_bytes()), None, "{line}");
        }
    }
}
