//! Names of processors.

/// A processor that a text names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaidProcessor {
    /// `AuthenticAMD` or `GenuineIntel`.
    pub vendor: &'static str,
    /// Linux's family and model, where the name tells them.
    pub family: Option<(i32, i32)>,
    /// Its name, such as `EPYC 9354`.
    pub name: String,
}

/// Most bytes of a name.
const LONGEST: usize = 60;

/// Words that name AMD's processors.
const AMD: [&str; 3] = ["EPYC", "Ryzen", "Threadripper"];

/// Series of processors in names: words before the number, its digits (`?` is a digit, `*` also a
/// letter) and what Linux calls family and model. Source: the manuals of AMD and Intel for these
/// processors.
const SERIES: [(&str, &str, i32, i32); 24] = [
    ("EPYC", "7*?1", 23, 1),
    ("EPYC", "7*?2", 23, 49),
    ("EPYC", "7*?3", 25, 1),
    ("EPYC", "8*?4", 25, 160),
    ("EPYC", "9*?4", 25, 17),
    ("EPYC", "9*?5", 26, 2),
    ("Platinum", "81??", 6, 85),
    ("Platinum", "82??", 6, 85),
    ("Platinum", "83??", 6, 106),
    ("Platinum", "84??", 6, 143),
    ("Platinum", "85??", 6, 207),
    ("Gold", "51??", 6, 85),
    ("Gold", "52??", 6, 85),
    ("Gold", "53??", 6, 106),
    ("Gold", "54??", 6, 143),
    ("Gold", "55??", 6, 207),
    ("Gold", "61??", 6, 85),
    ("Gold", "62??", 6, 85),
    ("Gold", "63??", 6, 106),
    ("Gold", "64??", 6, 143),
    ("Gold", "65??", 6, 207),
    ("Silver", "41??", 6, 85),
    ("Silver", "42??", 6, 85),
    ("Silver", "43??", 6, 106),
];

/// Letters behind the numbers of processors. A `W` is one of watts, too.
const SUFFIXES: &str = "CFHLMNPQRSTUVXY";

/// Most letters behind a number.
const MOST_SUFFIXES: usize = 2;

/// The processor that a line names.
pub(crate) fn processor(line: &str) -> Option<SaidProcessor> {
    let upper = line.to_ascii_uppercase();
    let words: Vec<&str> = upper
        .split(|it: char| !it.is_ascii_alphanumeric())
        .filter(|it| !it.is_empty())
        .collect();
    let of_amd = AMD
        .iter()
        .find(|it| words.contains(&&*it.to_ascii_uppercase()));
    let has_core = words
        .windows(2)
        .any(|it| it[0] == "INTEL" && it[1] == "CORE")
        || upper.contains("INTEL(R) CORE");
    let (vendor, name) = match (of_amd, words.contains(&"XEON"), has_core) {
        (Some(name), false, false) => ("AuthenticAMD", *name),
        (None, true, _) => ("GenuineIntel", "Xeon"),
        (None, false, true) => ("GenuineIntel", "Intel Core"),
        (None, false, false) if words.contains(&"INTEL") => ("GenuineIntel", ""),
        _ => return None,
    };
    let series = words.windows(2).find_map(|pair| {
        let mut all = SERIES.iter();
        let known = all.find(|it| it.0.eq_ignore_ascii_case(pair[0]) && fits(pair[1], it.1))?;
        let is_amd = AMD.contains(&known.0);
        let brand = if is_amd { "" } else { "Xeon " };
        let name = format!("{brand}{} {}", known.0, pair[1]);
        (is_amd == (vendor == "AuthenticAMD")).then_some((name, known))
    });
    match series {
        Some((name, known)) => Some(SaidProcessor {
            vendor,
            family: Some((known.2, known.3)),
            name,
        }),
        // `Intel` may be of an adapter.
        None => (!name.is_empty()).then(|| SaidProcessor {
            vendor,
            family: None,
            name: name.to_owned(),
        }),
    }
}

/// The processor behind a label: its vendor alone names it, too.
pub(crate) fn labelled(value: &str) -> Option<SaidProcessor> {
    let words = || value.split(|it: char| !it.is_ascii_alphanumeric());
    let has = |word: &str| words().any(|it| it.eq_ignore_ascii_case(word));
    let by_vendor = || match (has("AMD"), has("Intel")) {
        (true, false) => Some("AuthenticAMD"),
        (false, true) => Some("GenuineIntel"),
        _ => None,
    };
    let whole = value.split(['(', ',', ';', '|']).next()?;
    let whole = whole.trim_matches(|it: char| "*`_".contains(it) || it.is_whitespace());
    let name = || whole.chars().take(LONGEST).collect();
    match processor(value) {
        Some(known) if known.family.is_some() => Some(known),
        Some(known) => Some(SaidProcessor {
            name: name(),
            ..known
        }),
        None => by_vendor().map(|vendor| SaidProcessor {
            vendor,
            family: None,
            name: name(),
        }),
    }
}

/// Whether a number is of a series: four digits, and few letters.
fn fits(number: &str, series: &str) -> bool {
    let Some((digits, suffixes)) = number.split_at_checked(series.len()) else {
        return false;
    };
    let is_like = |(own, known): (char, char)| match known {
        '?' => own.is_ascii_digit(),
        '*' => own.is_ascii_alphanumeric(),
        _ => own == known,
    };
    digits.chars().zip(series.chars()).all(is_like)
        && suffixes.len() <= MOST_SUFFIXES
        && suffixes.chars().all(|it| SUFFIXES.contains(it))
}
