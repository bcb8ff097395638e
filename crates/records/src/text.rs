//! Lines as people paste them.

use std::borrow::Cow;

/// Most PCI functions, adapters or GPU names that are kept.
pub(crate) const MOST: usize = 4096;

/// Bytes in which XML says what it is.
pub(crate) const MOST_PROLOGUE: usize = 512;

/// Longest line of a listing, bytes; the rest of a line is not looked at.
const LONGEST: usize = 1 << 14;

/// Whether the first `most` bytes of a text have these words.
pub(crate) fn mentions(bytes: &[u8], most: usize, words: &str) -> bool {
    let begin = &bytes[..bytes.len().min(most)];
    begin.windows(words.len()).any(|it| it == words.as_bytes())
}

/// The lines of a text, from 1, without escape sequences and line ends.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = (u32, String)> {
    (1..).zip(bytes.split(|byte| *byte == b'\n').map(plain))
}

fn plain(line: &[u8]) -> String {
    let line = &line[..line.len().min(LONGEST)];
    let mut text = Vec::with_capacity(line.len());
    let mut rest = line.iter().copied();
    while let Some(byte) = rest.next() {
        match byte {
            // An escape sequence of a terminal ends with a letter.
            0x1b => while rest.next().is_some_and(|it| !it.is_ascii_alphabetic()) {},
            b'\r' => {}
            _ => text.push(byte),
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Whether a text has a word. One letter is found faster than a word, so the word should begin with
/// a rare one.
pub(crate) fn has(text: &str, word: &str) -> bool {
    let bytes = text.as_bytes();
    let mut places = memchr::memchr_iter(word.as_bytes()[0], bytes);
    places.any(|at| bytes[at..].starts_with(word.as_bytes()))
}

/// As `trim_start`, and at once where nothing is to trim.
pub(crate) fn trim_start(text: &str) -> &str {
    match text.as_bytes().first() {
        Some(b'!'..=b'~') => text,
        _ => text.trim_start(),
    }
}

/// Whether a word is one of a list with blanks between.
pub(crate) fn is_one_of(word: &str, words: &str) -> bool {
    !word.is_empty() && words.split(' ').any(|it| it == word)
}

/// Elements of HTML around text that a page shows as it is.
const ELEMENTS: [&str; 20] = [
    "pre", "code", "p", "div", "span", "b", "strong", "em", "a", "li", "ul", "html", "body",
    "table", "thead", "tbody", "tr", "td", "th", "br",
];

/// Those that begin a row of text.
const ROWS: [&str; 6] = ["tr", "br", "p", "li", "table", "/table"];

/// Characters as HTML writes them.
const ENTITIES: [(&str, &str); 10] = [
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&#39;", "'"),
    ("&#x27;", "'"),
    ("&#x2F;", "/"),
    ("&#9;", "\t"),
    ("&nbsp;", " "),
    ("&times;", "×"),
    ("&amp;", "&"),
];

/// The rows of text that a line has as a page shows them, and as a program printed them: without
/// marks of quotations, the time before it, HTML, and the bars of a table of devices.
pub(crate) fn rows(line: &str) -> Vec<Cow<'_, str>> {
    let mut rest = line;
    while let Some(quoted) = rest.strip_prefix('>') {
        rest = quoted.strip_prefix(' ').unwrap_or(quoted);
    }
    rest = without_time(rest).unwrap_or(rest);
    if is_rule(rest) {
        return Vec::new();
    }
    if memchr::memchr2(b'<', b'&', rest.as_bytes()).is_none() {
        return vec![without_bars(rest).map_or(Cow::Borrowed(rest), Cow::Owned)];
    }
    let text = without_tags(rest);
    let entities = ENTITIES.iter();
    let text = entities.fold(text, |text, (entity, meant)| text.replace(entity, meant));
    let rows = text
        .split('\n')
        .map(|row| without_bars(row).unwrap_or_else(|| row.to_owned()));
    rows.map(Cow::Owned).collect()
}

/// A line without the tags of [`ELEMENTS`]: cells are parted by tabs, rows by line ends.
fn without_tags(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, tag)) = rest.split_once('<') {
        text.push_str(before);
        let name = tag.strip_prefix('/').unwrap_or(tag);
        let name = &name[..name
            .find(|it: char| !it.is_ascii_alphanumeric())
            .unwrap_or(name.len())];
        let inside = tag.split_once('>').filter(|it| !it.0.contains('<'));
        match inside.filter(|_| ELEMENTS.contains(&name)) {
            Some((inside, after)) => {
                let begins = inside.trim_end_matches('/').split(' ').next();
                if begins.is_some_and(|it| ROWS.contains(&it)) {
                    text.push('\n');
                } else if ["td", "th"].contains(&name) && !inside.starts_with('/') {
                    text.push('\t');
                }
                rest = after;
            }
            None => {
                text.push('<');
                rest = tag;
            }
        }
    }
    text.push_str(rest);
    text
}

/// The line below the header of a table of Markdown.
fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.starts_with('|') && line.contains("--") && line.chars().all(|it| "|-: ".contains(it))
}

/// A row of a table of Markdown whose first words are a device, or the header above such rows,
/// without its bars.
fn without_bars(line: &str) -> Option<String> {
    let inner = line.trim().strip_prefix('|')?;
    let first = inner.split('|').map(str::trim).find(|it| !it.is_empty())?;
    let first = first.trim_matches(['*', '`']);
    let is_number = |rest: &str| rest.parse::<u16>().is_ok();
    let kinds = ["GPU", "NIC", "mlx5_"];
    let is_device = kinds
        .iter()
        .any(|it| first.strip_prefix(it).is_some_and(is_number));
    is_device.then(|| inner.replace(['|', '*', '`'], "\t"))
}

/// What is behind a date and a time, `2026-11-28T10:00:00.5Z ` or `2026-11-28 10:00:00 `.
fn without_time(line: &str) -> Option<&str> {
    let is_like = |text: &str, like: &str| {
        let mut pairs = text.bytes().zip(like.bytes());
        text.len() >= like.len()
            && pairs.all(|(own, known)| match known {
                b'0' => own.is_ascii_digit(),
                _ => own == known,
            })
    };
    let inner = line.strip_prefix('[').unwrap_or(line);
    if !is_like(inner, "0000-00-00") {
        return None;
    }
    let time = inner
        .get("0000-00-00 ".len()..)
        .filter(|it| is_like(it, "00:00"))?;
    let end = time.find([' ', '\t', ']'])?;
    let rest = time.get(end..)?;
    let rest = rest.strip_prefix(']').unwrap_or(rest);
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

/// What a line of Markdown says, without the marks of a heading, an item or bold words before it.
pub(crate) fn item(line: &str) -> &str {
    let is_mark = |it| matches!(it, '-' | '*' | '•' | '#' | ':' | ' ');
    line.trim().trim_start_matches(is_mark)
}

/// The value after a label, as in `Vendor ID:   AuthenticAMD`.
pub(crate) fn value<'t>(line: &'t str, label: &str) -> Option<&'t str> {
    let rest = trim_start(line).strip_prefix(label)?;
    Some(rest.strip_prefix(':')?.trim())
}

/// Numbers in a list of ranges, such as `0-3,8`: at most `most`, each below `most`.
pub(crate) fn numbers(list: &str, most: usize) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in list.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: usize = first.trim().parse().ok()?;
        let last: usize = last.trim().parse().ok()?;
        all.extend(first..=last.min(most));
        if last >= most || all.len() > most {
            return None;
        }
    }
    Some(all)
}

/// Whether a text is a name of an RDMA device: letters, digits and `_`, with a digit.
pub(crate) fn is_device_name(name: &str) -> bool {
    name.len() < 64
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.contains(|c: char| c.is_ascii_digit())
}
