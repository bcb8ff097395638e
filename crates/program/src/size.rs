//! Sizes as people write them.

/// Units by their letter: powers of 1024, as nccl-tests reads them.
pub const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];

/// A size as people write it, where that is exact: `64K`, `1G`, `1000`.
pub fn short(bytes: u64) -> String {
    let unit = UNITS
        .iter()
        .rev()
        .find(|(_, shift)| bytes >= 1 << shift && bytes.is_multiple_of(1 << shift));
    match unit {
        Some((letter, shift)) => format!("{}{letter}", bytes >> shift),
        None => bytes.to_string(),
    }
}

/// Reads a number of bytes: `64K`, `3MiB`, `8GB`, `1000`.
///
/// # Errors
/// It is no such number, 0, or has more than 63 bits.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "`{text}` is not a size; expected a number of bytes from 1, such as 64K or 1G (K, M, G, T are powers of 1024)"
        )
    };
    let upper = text.to_ascii_uppercase();
    let short = upper
        .strip_suffix("IB")
        .or_else(|| upper.strip_suffix('B'))
        .unwrap_or(&upper);
    let unit = UNITS
        .iter()
        .find_map(|(letter, shift)| Some((short.strip_suffix(*letter)?, *shift)));
    let (digits, shift) = unit.unwrap_or((short, 0));
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let bytes = number.checked_mul(1 << shift).ok_or_else(wrong)?;
    // The cost model counts in 63 bits.
    if bytes == 0 || i64::try_from(bytes).is_err() {
        return Err(wrong());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in [
            ("1", 1),
            ("1K", 1024),
            ("64k", 65536),
            ("3MiB", 3 << 20),
            ("8GB", 8 << 30),
            ("1T", 1 << 40),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "K",
            "0",
            "-1",
            "1.5M",
            "1X",
            "99999999T",
            "9223372036854775808",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(
            [1023, 1024, 1536, 1 << 20, 3 << 30].map(short),
            ["1023", "1K", "1536", "1M", "3G"]
        );
    }
}
