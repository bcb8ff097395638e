//! GPUs in prose: `8x RTX PRO 6000`, `4 H100`, `Two NVIDIA L40S`, `A10G x4`, `GPU: NVIDIA GB10`.

use crate::gpu::{self, kind_of_name};
use crate::said_processor::processor;
use crate::text::{is_one_of, item};

/// Most words of a line that are read.
const MOST_READ: usize = 256;

/// Most words of a GPU's name.
const MOST_WORDS: usize = 9;

/// Most words of an item before the GPUs, such as `Ubuntu 24.04,`.
const MOST_BEFORE: usize = 3;

/// Numbers as words.
const NUMBERS: [(&str, usize); 9] = [
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
const FIRST_WORDS: &str = "NVIDIA GEFORCE RTX TESLA QUADRO TITAN";

/// Words behind the kind in a GPU's name.
const LAST_WORDS: &str = "SXM SXM2 SXM3 SXM4 SXM5 SXM6 PCIE PCI-E NVL HBM2 HBM2E HBM3 HBM3E GDDR6 GDDR6X GDDR7 TI \
    SUPER MAX-Q PRO ADA GENERATION BLACKWELL WORKSTATION SERVER EDITION GRACE HOPPER \
    SUPERCHIP";

/// Words that may follow a GPU's name.
const AFTER_NAMES: &str = "on in with and per node box machine server for at gpu gpus card cards each via over \
    connected";

/// Labels of the machine's GPUs.
const LABELS: &str = "gpu gpus gpu(s soc accelerator accelerators graphics";

/// Further words before the number or the name.
const LEADS: &str = "our my this the these we i it have has with of current machine box node server host rig \
    workstation system platform setup hardware hw environment env config configuration \
    specs model card cards";

/// GPUs that a text names without their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// How many; `None` where the text names all of them.
    pub count: Option<usize>,
    /// Their name in the text's words.
    pub name: String,
}

/// A word of a line.
struct Word {
    /// Without punctuation around it.
    bare: String,
    /// It begins in parentheses.
    begins: bool,
    /// The punctuation that ends it.
    end: Option<char>,
}

impl Word {
    fn is_one_of(&self, words: &str) -> bool {
        is_one_of(&self.bare.to_lowercase(), words)
    }

    fn leads(&self) -> bool {
        self.bare.is_empty() || self.is_one_of(LEADS) || self.is_one_of(LABELS)
    }
}

/// The GPUs that a line names where it begins, behind a label, or in a list; `None` if it names
/// several kinds.
pub(crate) fn mention(line: &str) -> Option<Mention> {
    let line = item(line);
    if !line.contains(|it: char| it.is_ascii_digit()) {
        return None;
    }
    let words = words(line);
    let mut kinds = kinds(&words);
    let first = kinds.next()?;
    if kinds.any(|it| it != first) {
        return None;
    }
    let mut is_labelled = false;
    let mut begin = 0;
    while begin < words.len() {
        let rest = &words[begin..];
        let ends =
            |at: usize| rest[at].end.is_some() || rest.get(at + 1).is_none_or(|next| next.begins);
        let length = (0..rest.len()).find(|at| ends(*at)).map_or(1, |at| at + 1);
        let part = &rest[..length];
        let lead = part.iter().take_while(|it| it.leads()).count();
        let behind = &rest[lead..];
        if lead < length {
            if let Some(found) = counted(behind) {
                return Some(found);
            }
            let is_whole = |length: usize| {
                let first = &words[0];
                begin == 0 && length == words.len() && first.is_one_of("nvidia tesla")
            };
            let named = name(behind).filter(|it| follows(behind, it.1));
            if let Some((name, length)) = named.filter(|it| is_labelled || is_whole(it.1)) {
                // `GPU: H100 (2x)`
                let next = behind.get(length).map_or("", |it| &it.bare);
                let digits = next.trim_matches(['x', 'X', '×']);
                let count = digits.parse().ok().filter(|_| digits != next);
                return Some(Mention { count, name });
            }
            let text: Vec<&str> = part.iter().map(|it| &*it.bare).collect();
            let is_item = length <= MOST_BEFORE && part[length - 1].end == Some(',');
            if !is_item && processor(&text.join(" ")).is_none() {
                return None;
            }
            is_labelled = false;
        } else {
            let is_label = part.iter().any(|it| it.is_one_of(LABELS));
            let ends = matches!(part[length - 1].end, Some(':' | '|'));
            is_labelled = (is_label && ends) || (is_labelled && part[0].bare.is_empty());
        }
        begin += length;
    }
    None
}

/// Whether a line is of GPUs, by the word or by a name.
pub(crate) fn is_of_gpus(line: &str) -> bool {
    let words = words(line);
    let is_word = |it: &Word| it.is_one_of("gpu gpus gpu(s");
    words.iter().any(is_word) || kinds(&words).next().is_some()
}

/// Whether a line is of a GPU with a number: `GPU 1`, `GPU1`.
pub(crate) fn is_of_one(line: &str) -> bool {
    let words = words(line);
    let is_number = |it: &str| !it.is_empty() && it.chars().all(|it| it.is_ascii_digit());
    let is_one = |(at, word): (usize, &Word)| {
        let lower = word.bare.to_lowercase();
        let rest = lower.strip_prefix("gpu");
        let next = words.get(at + 1).filter(|it| !it.begins);
        let next = next.map(|it| &*it.bare);
        let parted = rest == Some("") && word.end.is_none() && next.is_some_and(is_number);
        parted || rest.is_some_and(is_number)
    };
    words.iter().enumerate().any(is_one)
}

/// The kind of each name in a line: its compute capability × 10.
fn kinds(words: &[Word]) -> impl Iterator<Item = i32> {
    let names = (0..words.len()).filter_map(|at| name(&words[at..]));
    names.filter_map(|it| kind_of_name(&it.0).map(|it| it.sm))
}

/// A number and a name, or a name and a number, with which words begin.
fn counted(words: &[Word]) -> Option<Mention> {
    let of = |count: usize, name: String| Mention {
        count: Some(count),
        name,
    };
    if let Some((count, length)) = times(words) {
        let behind = &words[length.min(words.len())..];
        let (name, length) = name(behind)?;
        return follows(behind, length).then(|| of(count, name));
    }
    let (name, length) = name(words)?;
    let sign = &words.get(length)?.bare;
    let count = sign.strip_prefix(['x', 'X', '×'])?.parse().ok()?;
    let is_count = (1..=gpu::MOST_LISTED).contains(&count) && follows(words, length + 1);
    is_count.then(|| of(count, name))
}

/// Whether what follows so many words can follow a GPU's name.
fn follows(words: &[Word], length: usize) -> bool {
    let ends = length
        .checked_sub(1)
        .and_then(|last| words[last].end)
        .is_some();
    let next = words.get(length);
    ends || next.is_none_or(|it| it.begins || it.bare.is_empty() || it.is_one_of(AFTER_NAMES))
}

/// The words of a line, with the number parted from what it counts, and `RTX` from its number.
fn words(line: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    for word in line.split_whitespace().take(MOST_READ) {
        if ["x", "X", "×", "*"].contains(&word) {
            words.push(Word {
                bare: word.to_owned(),
                begins: false,
                end: None,
            });
            continue;
        }
        let marks = ['*', '`', '"', '_'];
        let word = word.trim_matches(marks);
        let begins = word.starts_with(['(', '[']);
        let last = word.chars().next_back();
        let is_dash = ["-", "–", "—", "|", "+"].contains(&word);
        let end = last.filter(|it| is_dash || ",;:|).]".contains(*it));
        let bare = word.trim_matches(|it: char| !it.is_alphanumeric() && it != '×');
        let parted = bare.replace("RTX", "RTX ").replace("rtx", "RTX ");
        let mut parts: Vec<String> = Vec::new();
        for part in parted.split_whitespace() {
            let rest = part.trim_start_matches(|it: char| it.is_ascii_digit());
            let sign = rest.chars().next().filter(|it| "xX×*".contains(*it));
            match sign.filter(|it| rest.len() < part.len() && rest.len() > it.len_utf8()) {
                Some(sign) => {
                    let end = part.len() - rest.len() + sign.len_utf8();
                    parts.extend([part[..end].to_owned(), part[end..].to_owned()]);
                }
                None => parts.push(part.to_owned()),
            }
        }
        if parts.is_empty() {
            parts.push(String::new());
        }
        let most = parts.len() - 1;
        words.extend(parts.into_iter().enumerate().map(|(at, bare)| Word {
            bare,
            begins: begins && at == 0,
            end: end.filter(|_| at == most),
        }));
    }
    words
}

/// A number of devices, and how many words it has: `8x`, `8 x`, `8 *`, `8` and `eight`.
fn times(words: &[Word]) -> Option<(usize, usize)> {
    let word = words.first().filter(|it| it.end.is_none())?;
    let lower = word.bare.to_lowercase();
    let written = NUMBERS.iter().find(|it| it.0 == lower).map(|it| it.1);
    let digits = word.bare.trim_end_matches(['x', 'X', '×', '*']);
    let count = written.or_else(|| digits.parse().ok())?;
    let is_sign = words
        .get(1)
        .is_some_and(|it| ["x", "X", "×", "*"].contains(&&*it.bare));
    let length = if is_sign && digits == word.bare { 2 } else { 1 };
    (1..=gpu::MOST_LISTED)
        .contains(&count)
        .then_some((count, length))
}

/// A GPU's name with which words begin, and how many words it has.
fn name(words: &[Word]) -> Option<(String, usize)> {
    let upper = |it: &Word| it.bare.to_uppercase();
    let first = words.first()?;
    let begins = is_one_of(&upper(first), FIRST_WORDS) || is_model(&first.bare);
    let mut name: Vec<String> = Vec::new();
    let mut length = 0;
    for (at, word) in words.iter().enumerate().take(MOST_WORDS).filter(|_| begins) {
        let text = &word.bare;
        let next = words.get(at + 1).map(upper);
        let is_size = ["GB", "GIB"].contains(&&*upper(word))
            || (text.parse::<u16>().is_ok() && next.is_some_and(|it| it == "GB" || it == "GIB"));
        let of_series = is_series(text) && at > 0;
        let is_word = [FIRST_WORDS, LAST_WORDS]
            .iter()
            .any(|it| is_one_of(&upper(word), it));
        if word.begins && at > 0
            || !(is_word || is_model(text) || of_series || is_size || is_memory(text))
        {
            break;
        }
        let plural = text.strip_suffix('s').filter(|it| is_geforce(it));
        name.push(plural.unwrap_or(text).to_owned());
        length = at + 1;
        if word.end.is_some() {
            break;
        }
    }
    if is_geforce(name.first()?) {
        name.insert(0, "RTX".to_owned());
    }
    let name = name.join(" ");
    let name = match kind_of_name(&name) {
        Some(_) => name,
        None => Some(name.to_uppercase()).filter(|it| kind_of_name(it).is_some())?,
    };
    Some((name, length))
}

/// Whether a word names a kind: `H100`, `A10G`, `a100-sxm4-80gb`, `3090` or `5090s`.
fn is_model(word: &str) -> bool {
    gpu::is_model(&word.to_uppercase()) || is_geforce(word.trim_end_matches('s'))
}

/// `3090`, `4090D`, `3080Ti`.
fn is_geforce(word: &str) -> bool {
    let is_known = word.len() >= 4 && gpu::is_consumer(&format!("RTX {word}"));
    is_known && ["", "d", "ti"].contains(&&*word[4..].to_lowercase())
}

/// The number of a professional GPU: `6000`, `A6000`, `A5500`, `2080`.
fn is_series(word: &str) -> bool {
    let digits = word.strip_prefix(['A', 'a']).unwrap_or(word);
    digits.len() == 4 && digits.chars().all(|it| it.is_ascii_digit())
}

/// `80GB`, `24G`.
fn is_memory(word: &str) -> bool {
    let unit = word.trim_start_matches(|it: char| it.is_ascii_digit());
    let is_unit = ["G", "GB", "GIB"].contains(&&*unit.to_uppercase());
    is_unit && unit.len() < word.len()
}
