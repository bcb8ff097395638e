//! Prose beside the listings of a machine: kinds and numbers of GPUs, their links, names of
//! processors.

use crate::gpu::{self, kind_of_name};
use crate::said_link::{SaidLink, link};
use crate::text::item;

/// Most statements of a text that are kept.
const MOST: usize = 64;

/// Words that end a GPU's name.
const AFTER_NAMES: [&str; 9] = ["on", "in", "with", "and", "node", "box", "for", "at", "-"];

/// Most words of a GPU's name.
const MOST_WORDS: usize = 4;

/// Numbers as words.
const NUMBERS: [(&str, usize); 10] = [
    ("a", 1),
    ("one", 1),
    ("single", 1),
    ("two", 2),
    ("dual", 2),
    ("three", 3),
    ("four", 4),
    ("six", 6),
    ("eight", 8),
    ("sixteen", 16),
];

/// Words with which a GPU's name begins.
const FIRST_WORDS: [&str; 6] = ["NVIDIA", "GEFORCE", "RTX", "TESLA", "QUADRO", "TITAN"];

/// Labels of a line that names the machine's GPUs.
const LABELS: [&str; 8] = [
    "GPU",
    "GPUs",
    "GPU(s)",
    "SoC",
    "Accelerator",
    "Accelerators",
    "GPU model",
    "Graphics",
];

/// GPUs that a text names without their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// How many; `None` where the text names all of them.
    pub count: Option<usize>,
    /// Their name in the text's words.
    pub name: String,
}

/// What a text says in prose.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prose {
    /// GPUs that it names.
    pub gpus: Vec<Mention>,
    /// Links of all GPUs, as each line says.
    pub links: Vec<SaidLink>,
    /// Processors: vendor, and family and model where the name tells them.
    pub processors: Vec<(&'static str, Option<(i32, i32)>)>,
}

impl Prose {
    /// Reads a line that names no GPU by its number.
    pub(crate) fn line(&mut self, line: &str) {
        if self.gpus.len() < MOST {
            self.gpus.extend(mention(line));
        }
        let is_of_gpus = ["GPU", "card"].iter().any(|it| line.contains(it));
        if let Some(link) = link(line).filter(|_| is_of_gpus && self.links.len() < MOST) {
            self.links.push(link);
        }
        if let Some(processor) = processor(line).filter(|_| self.processors.len() < MOST) {
            self.processors.push(processor);
        }
    }

    /// The name of all GPUs, if the text has one kind for their number. Another number is of
    /// another machine.
    pub(crate) fn name_of(&self, gpus: usize) -> Option<&str> {
        let of = |wanted: Option<usize>| self.gpus.iter().filter(move |it| it.count == wanted);
        let one_kind = |mut found: Vec<&Mention>| {
            let kind = |it: &Mention| kind_of_name(&it.name).map(|it| it.sm);
            let longest = found.iter().map(|it| it.name.len()).max()?;
            found.dedup_by_key(|it| kind(it));
            let is_one = found.windows(2).all(|it| kind(it[0]) == kind(it[1]));
            let mut all = self.gpus.iter();
            all.find(|it| it.name.len() == longest && kind(it) == kind(found[0]))
                .filter(|_| is_one)
        };
        let counted = one_kind(of(Some(gpus)).collect());
        let named = counted.or_else(|| one_kind(of(None).collect()))?;
        Some(&named.name)
    }

    /// The link of all GPUs, if all lines that say something of it agree.
    pub(crate) fn link(&self) -> Option<SaidLink> {
        let first = self.links.first()?;
        self.links.iter().all(|it| it == first).then_some(*first)
    }

    /// The vendor of the processors, if the text names one, with the family and model of all.
    pub(crate) fn processor(&self) -> Option<(&'static str, Option<(i32, i32)>)> {
        let (vendor, first) = *self.processors.first()?;
        let is_one = self.processors.iter().all(|it| it.0 == vendor);
        let mut known = self.processors.iter().filter_map(|it| it.1);
        let family = known.next().or(first);
        let agree = family.is_none_or(|family| known.all(|it| it == family));
        is_one.then_some((vendor, family.filter(|_| agree)))
    }
}

/// The GPUs that a line of prose names: `8x RTX PRO 6000`, `4 H100`, `Two NVIDIA L40S`, `A10G x4`,
/// `2x3090`, `GPU: NVIDIA GB10`, or a name alone.
fn mention(line: &str) -> Option<Mention> {
    let line = item(line);
    let upper = line.to_uppercase();
    if !upper.contains(|it: char| it.is_ascii_digit()) {
        return None;
    }
    let words = words(line);
    for (at, word) in words.iter().enumerate() {
        let bare = word.trim_matches(|it: char| !it.is_alphanumeric() && !"×*".contains(it));
        if let Some(count) = times(bare, words.get(at + 1)) {
            let (count, rest) = count;
            let behind = &words[(at + rest).min(words.len())..];
            if let Some(name) = name(behind) {
                return Some(Mention {
                    count: Some(count),
                    name,
                });
            }
        }
        // `A10G x4`
        let before = &words[at.saturating_sub(MOST_WORDS)..at];
        let count = bare
            .strip_prefix(['x', 'X', '×'])
            .and_then(|it| it.parse().ok());
        let count = count.filter(|it| (1..=gpu::MOST_LISTED).contains(it));
        if let Some((count, name)) = count.zip(name_before(before)) {
            return Some(Mention {
                count: Some(count),
                name,
            });
        }
    }
    let labelled = line.split_once(':').filter(|(label, _)| {
        let label = label.trim().trim_matches('*');
        LABELS.iter().any(|it| it.eq_ignore_ascii_case(label))
    });
    let is_name = line.starts_with("NVIDIA ") || line.starts_with("Tesla ");
    let alone =
        (is_name && words.len() <= 7 && !line.contains([',', ':', '.', '(', '['])).then_some(line);
    let text = labelled.map(|it| item(it.1)).or(alone)?;
    let name = text.split([',', '(', '|', ';']).next()?.trim();
    kind_of_name(name).map(|_| Mention {
        count: None,
        name: name.chars().take(80).collect(),
    })
}

/// The words of a line, with the number parted from what it counts, and `RTX` from its number.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in line.split_whitespace().take(256) {
        let word = word.replace("RTX", "RTX ").replace("rtx", "RTX ");
        for part in word.split_whitespace() {
            let digits = part.len()
                - part
                    .trim_start_matches(|it: char| it.is_ascii_digit())
                    .len();
            let rest = &part[digits..];
            let sign = rest.chars().next().filter(|it| "xX×*".contains(*it));
            match sign.filter(|it| digits > 0 && rest.len() > it.len_utf8()) {
                Some(sign) => {
                    let end = digits + sign.len_utf8();
                    words.extend([part[..end].to_owned(), part[end..].to_owned()]);
                }
                None => words.push(part.to_owned()),
            }
        }
    }
    words
}

/// A number of devices, and how many words it has: `8x`, `8 x`, `8 *`, `8` and `eight`.
fn times(word: &str, next: Option<&String>) -> Option<(usize, usize)> {
    let lower = word.to_lowercase();
    let written = NUMBERS.iter().find(|it| it.0 == lower).map(|it| it.1);
    let digits = word.trim_end_matches(['x', 'X', '×', '*']);
    let count = written.or_else(|| digits.parse().ok())?;
    let is_sign = next.is_some_and(|it| ["x", "X", "×", "*"].contains(&it.as_str()));
    let rest = if is_sign && digits == word { 2 } else { 1 };
    (1..=gpu::MOST_LISTED)
        .contains(&count)
        .then_some((count, rest))
}

/// A GPU's name with which words begin.
fn name(words: &[String]) -> Option<String> {
    let mut name: Vec<String> = Vec::new();
    for word in words.iter().take(MOST_WORDS) {
        let ends = word.ends_with([',', ';', ')', '|', ':']);
        let bare = word.trim_matches(|it: char| !it.is_alphanumeric() && it != '-' && it != '(');
        if AFTER_NAMES.contains(&bare) || bare.is_empty() {
            break;
        }
        name.push(bare.to_owned());
        if ends {
            break;
        }
    }
    let first = name.first()?;
    let upper = first.to_uppercase();
    if is_number_of_geforce(first) {
        name.insert(0, "RTX".to_owned());
    } else if !FIRST_WORDS.contains(&upper.as_str()) && kind_of_name(&upper).is_none() {
        return None;
    }
    known(&name.join(" "))
}

/// A GPU's name with which words end, unless they are of a slot.
fn name_before(words: &[String]) -> Option<String> {
    let ends = |it: &String| it.ends_with([',', ';', ':', '|', ')']);
    let begin = words.iter().rposition(ends).map_or(0, |at| at + 1);
    let words = &words[begin..];
    let is_slot = words.iter().any(|it| {
        let upper = it.to_uppercase();
        ["PCI", "GEN", "SLOT", "LANE"]
            .iter()
            .any(|word| upper.contains(word))
    });
    let starts = (0..words.len()).filter(|_| !is_slot);
    starts.into_iter().find_map(|at| name(&words[at..]))
}

/// The name of a kind that is known, however it is written.
fn known(name: &str) -> Option<String> {
    let upper = || name.to_uppercase();
    let name = match kind_of_name(name) {
        Some(_) => name.to_owned(),
        None => kind_of_name(&upper()).map(|_| upper())?,
    };
    Some(name.chars().take(80).collect())
}

/// `3090` or `5090s`.
fn is_number_of_geforce(word: &str) -> bool {
    let digits = word.trim_end_matches('s');
    digits.len() == 4 && gpu::is_consumer(&format!("RTX {digits}"))
}

/// Series of processors in names: words before the number, its digits (`?` is any) and what Linux
/// calls family and model. Source: the manuals of AMD and Intel for these processors.
const SERIES: [(&str, &str, i32, i32); 19] = [
    ("EPYC", "7??1", 23, 1),
    ("EPYC", "7??2", 23, 49),
    ("EPYC", "7??3", 25, 1),
    ("EPYC", "8??4", 25, 160),
    ("EPYC", "9??4", 25, 17),
    ("EPYC", "9??5", 26, 2),
    ("Platinum", "81??", 6, 85),
    ("Platinum", "82??", 6, 85),
    ("Platinum", "83??", 6, 106),
    ("Platinum", "84??", 6, 143),
    ("Platinum", "85??", 6, 207),
    ("Gold", "?1??", 6, 85),
    ("Gold", "?2??", 6, 85),
    ("Gold", "?3??", 6, 106),
    ("Gold", "?4??", 6, 143),
    ("Gold", "?5??", 6, 207),
    ("Silver", "41??", 6, 85),
    ("Silver", "42??", 6, 85),
    ("Silver", "43??", 6, 106),
];

/// The processor that a line names: its vendor, and Linux's family and model where the name tells.
pub(crate) fn processor(line: &str) -> Option<(&'static str, Option<(i32, i32)>)> {
    let fits = |number: &str, series: &str| {
        let mut pairs = number.chars().zip(series.chars());
        number.len() >= series.len() && pairs.all(|(own, known)| known == '?' || own == known)
    };
    let words: Vec<&str> = line.split(|it: char| !it.is_ascii_alphanumeric()).collect();
    let mut pairs = words.windows(2);
    let family = pairs.find_map(|pair| {
        let series = SERIES.iter();
        let mut found = series.filter(|it| it.0.eq_ignore_ascii_case(pair[0]));
        found.find(|it| fits(pair[1], it.1)).map(|it| (it.2, it.3))
    });
    let has = |words: &[&str]| words.iter().any(|it| line.contains(it));
    let vendor = match (
        has(&["EPYC", "Ryzen", "Threadripper"]),
        has(&["Xeon", "XEON", "Intel Core", "Intel(R) Core"]),
    ) {
        (true, false) => "AuthenticAMD",
        (false, true) => "GenuineIntel",
        // The series of Xeons have names of their own; AMD's is the name of the processor.
        (false, false) if family.is_some() => "GenuineIntel",
        _ => return None,
    };
    Some((vendor, family))
}
