//! Amounts of money as whole cents, as DECIMAL columns have them: sums are exact, so the
//! consistency conditions can be.

use anyhow::{Context, Result};

/// Reads a DECIMAL with two digits behind the point.
pub fn cents(text: &str) -> Result<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let parts = digits.split_once('.').filter(|(_, cents)| cents.len() == 2);
    let (whole, part) = parts.with_context(|| format!("{text} is no amount of money"))?;
    Ok(sign * (whole.parse::<i64>()? * 100 + part.parse::<i64>()?))
}

/// Writes cents as a DECIMAL with two digits behind the point.
pub fn decimal(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", cents.abs() / 100, cents.abs() % 100)
}

#[cfg(test)]
mod tests {
    use super::{cents, decimal};

    #[test]
    fn amounts_survive_the_way_to_the_server_and_back() {
        for (text, value) in [("0.00", 0), ("-0.05", -5), ("12.34", 1234), ("-10.00", -1000)] {
            assert_eq!(cents(text).unwrap(), value);
            assert_eq!(decimal(value), text);
        }
        assert!(cents("1.5").is_err() && cents("1").is_err());
    }
}
