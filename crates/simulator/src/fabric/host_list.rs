//! Lists of hosts as Slurm writes them: `node[1-4,07],login`, `r[1-2]n[1-8]`.

use std::collections::HashSet;

/// Most names of a list.
pub const MOST_NAMES: usize = 1 << 19;

/// Names of the list, in order.
///
/// # Errors
/// What is wrong with the list.
pub fn names(list: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for word in words(list)? {
        expand(word, &mut all)?;
    }
    if all.is_empty() {
        return Err(format!(
            "`{list}` names no host; expected a list such as node[1-4],node7"
        ));
    }
    if let Some(wrong) = all.iter().find(|name| !is_host(name)) {
        return Err(format!(
            "`{wrong}` is no name of a host; expected letters, digits, `.`, `_` and `-`, which does \
             not begin it"
        ));
    }
    let mut known = HashSet::new();
    match all.iter().find(|name| !known.insert(name.as_str())) {
        Some(twice) => Err(format!("`{twice}` is named twice; expected each host once")),
        None => Ok(all),
    }
}

/// Whether files of launchers and shells can have a name as it is.
fn is_host(name: &str) -> bool {
    let is_letter = |it: u8| it.is_ascii_alphanumeric() || b"._-".contains(&it);
    !name.starts_with('-') && name.bytes().all(is_letter)
}

/// The parts of a list between commas outside of brackets.
fn words(list: &str) -> Result<Vec<&str>, String> {
    let mut words = Vec::new();
    let (mut from, mut depth) = (0, 0_u32);
    for (at, letter) in list.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' if depth == 0 => return Err(format!("`{list}`: `]` without `[`")),
            ']' => depth -= 1,
            ',' if depth == 0 => {
                words.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(format!("`{list}`: `[` without `]`"));
    }
    words.push(&list[from..]);
    Ok(words
        .into_iter()
        .map(str::trim)
        .filter(|it| !it.is_empty())
        .collect())
}

/// Adds the names of a word; the first brackets vary slowest.
fn expand(word: &str, all: &mut Vec<String>) -> Result<(), String> {
    let mut names = vec![String::new()];
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('[') {
        let (inside, behind) = after
            .split_once(']')
            .ok_or_else(|| format!("`{word}`: `[` without `]`"))?;
        let mut grown = Vec::new();
        let numbers = numbers(inside, word)?;
        if names.len().saturating_mul(numbers.len()) + all.len() > MOST_NAMES {
            return Err(format!(
                "`{word}` has too many names; expected at most {MOST_NAMES}"
            ));
        }
        for name in &names {
            grown.extend(
                numbers
                    .iter()
                    .map(|number| format!("{name}{before}{number}")),
            );
        }
        names = grown;
        rest = behind;
    }
    if names.len() + all.len() > MOST_NAMES {
        return Err(format!(
            "`{word}`: too many names; expected at most {MOST_NAMES}"
        ));
    }
    all.extend(names.into_iter().map(|name| name + rest));
    Ok(())
}

/// `1-4,07`: leading zeros stay.
fn numbers(inside: &str, word: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("`{word}`: `{inside}` is no list of numbers such as 1-4,7");
    let mut all = Vec::new();
    for part in inside.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let is_number =
            |it: &str| !it.is_empty() && it.len() < 10 && it.bytes().all(|it| it.is_ascii_digit());
        if !is_number(first) || !is_number(last) {
            return Err(wrong());
        }
        let (from, to): (u32, u32) = (
            first.parse().map_err(|_| wrong())?,
            last.parse().map_err(|_| wrong())?,
        );
        if from > to {
            return Err(format!(
                "`{word}`: the range `{part}` ends before it begins; expected one such as 1-4"
            ));
        }
        if (to - from) as usize + 1 + all.len() > MOST_NAMES {
            return Err(format!(
                "`{word}` has too many names; expected at most {MOST_NAMES}"
            ));
        }
        let width = first.len();
        all.extend((from..=to).map(|number| format!("{number:0width$}")));
    }
    Ok(all)
}

/// Numbers that follow each other, with the same number of digits.
struct Range {
    from: u32,
    to: u32,
    digits: usize,
}

impl Range {
    fn text(&self) -> String {
        let Self { from, to, digits } = self;
        match from == to {
            true => format!("{from:0digits$}"),
            false => format!("{from:0digits$}-{to:0digits$}"),
        }
    }
}

/// Names as a list: neighbors in order that differ in their last number share brackets.
pub fn short(names: &[String]) -> String {
    let mut words: Vec<(String, Vec<Range>)> = Vec::new();
    for name in names {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let digits = digits.min(9);
        let (stem, number) = name.split_at(name.len() - digits);
        let Ok(value) = number.parse::<u32>() else {
            words.push((name.clone(), Vec::new()));
            continue;
        };
        let range = Range {
            from: value,
            to: value,
            digits,
        };
        match words.last_mut() {
            Some((last, ranges)) if last == stem && !ranges.is_empty() => match ranges.last_mut() {
                Some(before) if before.to + 1 == value && before.digits == digits => {
                    before.to = value;
                }
                _ => ranges.push(range),
            },
            _ => words.push((stem.to_owned(), vec![range])),
        }
    }
    let word = |(stem, ranges): (String, Vec<Range>)| match &ranges[..] {
        [] => stem,
        [only] if only.from == only.to => format!("{stem}{}", only.text()),
        ranges => {
            let texts: Vec<String> = ranges.iter().map(Range::text).collect();
            format!("{stem}[{}]", texts.join(","))
        }
    };
    words.into_iter().map(word).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_expanded_and_shortened() {
        let all = names("a[08-10,2],login,r[1-2]n[1-2]").unwrap();
        let expected = [
            "a08", "a09", "a10", "a2", "login", "r1n1", "r1n2", "r2n1", "r2n2",
        ];
        assert_eq!(all, expected);
        assert_eq!(short(&all), "a[08-10,2],login,r1n[1-2],r2n[1-2]");
        let wrong = ["", "a[1", "a]1", "a[x]", "a[3-1]", "a[1-99999999]", "a[]"];
        let names_of_none = ["a b,c", "a\nb", "a;b", "$(id)", "-x", "../x", "<x>", "ä"];
        let twice = ["a,a", "n[1-3],n2"];
        for wrong in wrong.iter().chain(&names_of_none).chain(&twice) {
            assert!(names(wrong).is_err(), "{wrong}");
        }
        assert!(names("a[1-1000]b[1-1000]c[1-1000]").is_err());
    }
}
