//! Lines as people paste them.

/// Most PCI functions, adapters or GPU names that are kept.
pub(crate) const MOST: usize = 4096;

/// Longest line of a listing, bytes; the rest of a line is not looked at.
const LONGEST: usize = 1 << 14;

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
