//! Lists of numbers on the command line and in files: `0-3,6`.

pub(crate) use answers::values::within;
use anyhow::{Result, bail};

/// Reads numbers and ranges (`0-3`, or backwards `3-0`) with commas or spaces between, in this
/// order. More than `most` numbers are an error.
pub(crate) fn list(text: &str, most: usize) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for item in text.split(|separator: char| separator == ',' || separator.is_whitespace()) {
        if item.is_empty() {
            continue;
        }
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else {
            bail!("`{item}` is neither a number nor a range; expected something like 0-3,6");
        };
        let length = first.abs_diff(last) as usize + 1;
        if numbers.len() + length > most {
            bail!("`{item}` makes the list longer than {most} numbers");
        }
        if first <= last {
            numbers.extend(first..=last);
        } else {
            numbers.extend((last..=first).rev());
        }
    }
    if numbers.is_empty() {
        bail!("the list is empty; expected something like 0-3,6");
    }
    Ok(numbers)
}

/// Reads a list of which each range ends after it begins.
pub(crate) fn ascending(text: &str, most: usize) -> Result<Vec<u32>> {
    let backwards = text.split(',').find(|item| {
        let ends = item.split_once('-');
        let ends = ends.map(|(first, last)| (first.trim().parse::<u32>(), last.trim().parse()));
        matches!(ends, Some((Ok(first), Ok(last))) if first > last)
    });
    if let Some(item) = backwards {
        bail!("`{item}`: the range ends before it begins; expected something like 0-3,6");
    }
    list(text, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for (text, numbers) in [
            ("0-3,6", vec![0, 1, 2, 3, 6]),
            ("3-0", vec![3, 2, 1, 0]),
            (" 7\n5, 5 ", vec![7, 5, 5]),
        ] {
            assert_eq!(list(text, 8).ok(), Some(numbers), "{text}");
        }
        for text in [
            "",
            ",",
            "a",
            "1-",
            "-1",
            "1-2-3",
            "0x1",
            "0-8",
            "4294967296",
        ] {
            assert!(list(text, 8).is_err(), "{text}");
        }
        assert!(list("0-4294967295", 8).is_err());
    }
}
