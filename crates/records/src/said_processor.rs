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
const AMD: [&str; 3] = ["EPYC", "RYZEN", "THREADRIPPER"];

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
    ("PLATINUM", "81??", 6, 85),
    ("PLATINUM", "82??", 6, 85),
    ("PLATINUM", "83??", 6, 106),
    ("PLATINUM", "84??", 6, 143),
    ("PLATINUM", "85??", 6, 207),
    ("GOLD", "51??", 6, 85),
    ("GOLD", "52??", 6, 85),
    ("GOLD", "53??", 6, 106),
    ("GOLD", "54??", 6, 143),
    ("GOLD", "55??", 6, 207),
    ("GOLD", "61??", 6, 85),
    ("GOLD", "62??", 6, 85),
    ("GOLD", "63??", 6, 106),
    ("GOLD", "64??", 6, 143),
    ("GOLD", "65??", 6, 207),
    ("SILVER", "41??", 6, 85),
    ("SILVER", "42??", 6, 85),
    ("SILVER", "43??", 6, 106),
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
    let of_amd = words.iter().find(|it| AMD.contains(it));
    let has_core = words
        .windows(2)
        .any(|it| it[0] == "INTEL" && it[1] == "CORE")
        || upper.contains("INTEL(R) CORE");
    let of_intel = words.iter().find(|it| **it == "XEON");
    let (vendor, name) = match (of_amd, of_intel, has_core) {
        (Some(name), None, false) => ("AuthenticAMD", *name),
        (None, Some(_), _) => ("GenuineIntel", "XEON"),
        (None, None, true) => ("GenuineIntel", "INTEL CORE"),
        (None, None, false) if words.contains(&"INTEL") => ("GenuineIntel", ""),
        _ => return None,
    };
    let series = words.windows(2).find_map(|pair| {
        let mut all = SERIES.iter();
        let known = all.find(|it| it.0 == pair[0] && fits(pair[1], it.1))?;
        let is_amd = AMD.contains(&known.0);
        (is_amd == (vendor == "AuthenticAMD")).then(|| (format!("{} {}", pair[0], pair[1]), known))
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
    let whole = value.split(['(', ',', ';', '|']).next()?.trim();
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
