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

/// Tags around text that a page shows as it is.
const TAGS: [&str; 8] = [
    "<pre>", "</pre>", "<code>", "</code>", "<br>", "<br/>", "<p>", "</p>",
];

/// Characters as HTML writes them.
const ENTITIES: [(&str, &str); 9] = [
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&#39;", "'"),
    ("&#x27;", "'"),
    ("&#x2F;", "/"),
    ("&#9;", "\t"),
    ("&nbsp;", " "),
    ("&amp;", "&"),
];

/// A line as a program printed it: without marks of quotations, the time before it, and HTML.
pub(crate) fn bare(line: &str) -> Cow<'_, str> {
    let mut rest = line;
    while let Some(quoted) = rest.strip_prefix('>') {
        rest = quoted.strip_prefix(' ').unwrap_or(quoted);
    }
    rest = without_time(rest).unwrap_or(rest);
    if !rest.contains(['<', '&']) {
        return Cow::Borrowed(rest);
    }
    let text = TAGS
        .iter()
        .fold(rest.to_owned(), |text, tag| text.replace(tag, ""));
    let entities = ENTITIES.iter();
    Cow::Owned(entities.fold(text, |text, (entity, meant)| text.replace(entity, meant)))
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
    line.trim().trim_start_matches(|it| "-*•#: ".contains(it))
}

/// The value after a label, as in `Vendor ID:   AuthenticAMD`.
pub(crate) fn value<'t>(line: &'t str, label: &str) -> Option<&'t str> {
    let rest = line.trim_start().strip_prefix(label)?;
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
