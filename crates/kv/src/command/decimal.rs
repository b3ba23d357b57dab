//! Sums of numbers with a fraction, in decimals, so that 0.1 and 0.2 make 0.3.

/// Digits behind the point.
const PLACES: u32 = 17;
/// One, in units of the last place.
const ONE: i128 = 10_i128.pow(PLACES);

/// The sum of two numbers as a text, with no more digits than it needs. `None` if one is not
/// written in decimals or too large: the caller then adds as the processor does.
pub(super) fn sum(left: &[u8], right: &[u8]) -> Option<String> {
    let sum = parse(left)?.checked_add(parse(right)?)?;
    let (sign, size) = (if sum < 0 { "-" } else { "" }, sum.unsigned_abs());
    let (whole, part) = (size / ONE.unsigned_abs(), size % ONE.unsigned_abs());
    let digits = format!("{sign}{whole}.{part:017}");
    Some(digits.trim_end_matches('0').trim_end_matches('.').to_owned())
}

/// A number in units of the last place; what is behind that is rounded.
fn parse(text: &[u8]) -> Option<i128> {
    let text = str::from_utf8(text).ok()?;
    let (is_negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, exponent) = match text.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() && part.is_empty() || !is_number(whole) || !is_number(part) || text.len() > 60 {
        return None;
    }
    let mut value: i128 = 0;
    for digit in whole.bytes().chain(part.bytes()) {
        value = value.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
    }
    let shift = exponent.checked_add(PLACES as i32)?.checked_sub(part.len() as i32)?;
    let factor = 10_i128.checked_pow(shift.unsigned_abs());
    let scaled = match (shift >= 0, factor) {
        (true, factor) => value.checked_mul(factor?)?,
        (false, Some(factor)) => (value + factor / 2) / factor,
        (false, None) => 0,
    };
    Some(if is_negative { -scaled } else { scaled })
}

#[cfg(test)]
mod tests {
    use super::sum;

    #[test]
    fn sums_are_exact() {
        for (left, right, wanted) in [
            ("0.1", "0.2", Some("0.3")),
            ("10.50", "0.1", Some("10.6")),
            ("5.0e3", "2.0e2", Some("5200")),
            ("-1.5", "1", Some("-0.5")),
            ("1", "-1", Some("0")),
            (".5", "5.", Some("5.5")),
            ("1e-17", "0", Some("0.00000000000000001")),
            ("1e-99", "0", Some("0")),
            ("1e22", "0", None),
            ("inf", "0", None),
            ("", "0", None),
            ("0x1", "0", None),
        ] {
            assert_eq!(sum(left.as_bytes(), right.as_bytes()).as_deref(), wanted, "{left} {right}");
        }
    }
}
