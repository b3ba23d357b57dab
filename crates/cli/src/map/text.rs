//! Conversion of bytes, sizes and kinds to text and back.

use perdura_map::Kind;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Appends `bytes` in hexadecimal.
pub fn hex(bytes: &[u8], target: &mut Vec<u8>) {
    for byte in bytes {
        target.push(DIGITS[usize::from(byte >> 4)]);
        target.push(DIGITS[usize::from(byte & 15)]);
    }
}

fn digit(text: u8) -> Option<u8> {
    char::from(text).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// The bytes that a hexadecimal text stands for.
pub fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect::<Option<_>>();
    if rest.is_empty() { bytes } else { None }
}

/// Appends `bytes` as db_dump -p prints them: printable characters as they are, a backslash
/// doubled, any other byte as a backslash and two hexadecimal digits.
pub fn print(bytes: &[u8], target: &mut Vec<u8>) {
    for byte in bytes {
        match byte {
            b'\\' => target.extend(b"\\\\"),
            b' '..=b'~' => target.push(*byte),
            _ => {
                target.push(b'\\');
                hex(&[*byte], target);
            }
        }
    }
}

/// The bytes that [`print()`] has printed.
pub fn unprint(text: &[u8]) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
        } else if let Some(after) = rest.strip_prefix(b"\\") {
            bytes.push(b'\\');
            rest = after;
        } else {
            let (pair, after) = rest.split_first_chunk::<2>()?;
            bytes.push(digit(pair[0])? << 4 | digit(pair[1])?);
            rest = after;
        }
    }
    Some(bytes)
}

/// A key for a message: quoted, and cut if it is long.
pub fn printable(bytes: &[u8]) -> String {
    const SHOWN: usize = 100;
    let mut text = Vec::new();
    print(&bytes[..bytes.len().min(SHOWN)], &mut text);
    let cut = if bytes.len() > SHOWN { "..." } else { "" };
    format!("\"{}{cut}\"", String::from_utf8_lossy(&text))
}

/// The bytes of a size such as 65536, 64K, 64M or 64G.
pub fn size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) => (digits, &text[digits.len()..]),
        None => (text, ""),
    };
    let shift = match unit {
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => 0,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The kind of a name.
pub fn kind(text: &str) -> Option<Kind> {
    match text {
        "list" => Some(Kind::List),
        "btree" => Some(Kind::BTree),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        for (write, read) in [(hex as fn(&[u8], &mut Vec<u8>), unhex as fn(&[u8]) -> Option<Vec<u8>>), (print, unprint)]
        {
            let mut text = Vec::new();
            write(&all, &mut text);
            assert!(text.iter().all(|byte| (b' '..=b'~').contains(byte)));
            assert_eq!(read(&text), Some(all.clone()));
            assert_eq!(read(b""), Some(Vec::new()));
        }
        assert_eq!(unhex(b"4aF"), None);
        assert_eq!(unhex(b"4g"), None);
        assert_eq!(unprint(b"a\\"), None);
        assert_eq!(unprint(b"a\\4"), None);
        assert_eq!(unprint(b"a\\zz"), None);
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("65536"), Some(65536));
        assert_eq!(size("64M"), Some(64 << 20));
        assert_eq!(size("17179869184G"), None);
        for wrong in ["", "M", "-1", "1.5G", "64m", "64MB"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }
}
