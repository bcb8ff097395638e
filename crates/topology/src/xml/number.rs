//! Numbers as C's `strtol` and `strtof` read them, because NCCL reads attributes with these.

/// C's `isspace`.
const BLANKS: [char; 6] = [' ', '\t', '\n', '\r', '\x0b', '\x0c'];

/// Parses an integer like `(int)strtol(text, NULL, 0)`: with base detection (`0x…`, `0…`), and only
/// the low 32 bits. Text without digits is 0; trailing text is ignored.
pub fn c_int(text: &str) -> i32 {
    let (negative, digits) = sign(text);
    let bytes = digits.as_bytes();
    let (radix, digits) = match bytes {
        [b'0', b'x' | b'X', next, ..] if next.is_ascii_hexdigit() => (16, &digits[2..]),
        [b'0', ..] => (8, digits),
        _ => (10, digits),
    };
    let magnitude = leading_digits(digits, radix);
    let value = if negative {
        magnitude.map_or(i64::MIN, |m| {
            if m > i64::MAX as u64 {
                i64::MIN
            } else {
                -(m as i64)
            }
        })
    } else {
        magnitude.map_or(i64::MAX, |m| i64::try_from(m).unwrap_or(i64::MAX))
    };
    value as i32
}

/// Parses a hexadecimal 64-bit number like `strtoull(text, NULL, 16)`. Overflow gives the largest
/// value; text without digits is 0; a minus sign negates in 64 bits.
pub fn c_unsigned_hexadecimal(text: &str) -> u64 {
    let (negative, digits) = sign(text);
    let digits = match digits.as_bytes() {
        [b'0', b'x' | b'X', next, ..] if next.is_ascii_hexdigit() => &digits[2..],
        _ => digits,
    };
    match leading_digits(digits, 16) {
        Some(value) if negative => value.wrapping_neg(),
        Some(value) => value,
        None => u64::MAX,
    }
}

/// Parses the longest leading decimal floating-point number like `strtof`; 0 if there is none.
pub fn c_float(text: &str) -> f32 {
    let text = text.trim_start_matches(BLANKS);
    let bytes = text.as_bytes();
    let mut end = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
    let digits = |from: usize| {
        bytes[from..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count()
    };
    let whole = digits(end);
    end += whole;
    let mut fraction = 0;
    if bytes.get(end) == Some(&b'.') {
        fraction = digits(end + 1);
        if whole + fraction > 0 {
            end += 1 + fraction;
        }
    }
    if whole + fraction == 0 {
        return 0.0;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'-' | b'+')));
        let exponent = bytes.get(end + 1 + sign..).map_or(0, |rest| {
            rest.iter().take_while(|b| b.is_ascii_digit()).count()
        });
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    text[..end].parse().unwrap_or(0.0)
}

/// Skips blanks as C does, and splits off a sign.
fn sign(text: &str) -> (bool, &str) {
    let text = text.trim_start_matches(BLANKS);
    match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// The value of the leading digits in `radix`, `None` on overflow.
fn leading_digits(text: &str, radix: u32) -> Option<u64> {
    let mut value = 0u64;
    for digit in text.chars().map_while(|c| c.to_digit(radix)) {
        value = value
            .checked_mul(u64::from(radix))?
            .checked_add(u64::from(digit))?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_read_like_strtol() {
        for (text, value) in [
            ("12", 12),
            (" -3x", -3),
            ("0x1f", 31),
            ("010", 8),
            ("0x", 0),
            ("08", 0),
            ("", 0),
            ("abc", 0),
            ("4294967297", 1),
            ("99999999999999999999", -1),
        ] {
            assert_eq!(c_int(text), value, "{text:?}");
        }
    }

    #[test]
    fn hexadecimal_reads_like_strtoull() {
        for (text, value) in [
            ("0xab", 0xab),
            ("ab", 0xab),
            ("redacted", 0),
            ("", 0),
            ("ffffffffffffffff0", u64::MAX),
            ("-1", u64::MAX),
        ] {
            assert_eq!(c_unsigned_hexadecimal(text), value, "{text:?}");
        }
    }

    #[test]
    fn floats_read_like_strtof() {
        for (text, value) in [
            ("1.5", 1.5),
            ("0.000000", 0.0),
            ("2e3x", 2000.0),
            (".5", 0.5),
            ("x", 0.0),
            ("-", 0.0),
            ("1e", 1.0),
        ] {
            assert_eq!(c_float(text), value, "{text:?}");
        }
    }
}
