//! Forms of identifiers: guids, UUIDs, addresses of ports and hosts.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Groups of hexadecimal digits and the character between them, the longest first.
const GROUPS: [(&[usize], u8); 8] = [
    (&[8, 4, 4, 4, 12], b'-'),
    (&[2; 20], b':'),
    (&[2; 8], b':'),
    (&[2; 8], b'-'),
    (&[2; 6], b':'),
    (&[2; 6], b'-'),
    (&[4; 4], b':'),
    (&[4; 3], b'.'),
];

/// Digits of identifiers that are written without marks.
const BARE: [usize; 7] = [12, 14, 15, 16, 20, 24, 32];

/// Digits of a port's address.
pub(super) const MAC: usize = 12;

/// The identifier at the begin of a text: where its digits begin and end. After `0x` it has at
/// least `least` digits.
pub(super) fn identifier(text: &str, least: usize) -> Option<(usize, usize)> {
    if let Some(rest) = text.strip_prefix("0x") {
        let digits = hex(rest);
        let fits = (least..=16).contains(&digits) && ends(rest, digits);
        return fits.then_some((2, 2 + digits));
    }
    if let Some(rest) = text.strip_prefix("enx")
        && hex(rest) == MAC
        && ends(rest, MAC)
    {
        return Some((3, 3 + MAC));
    }
    let of_groups = |(groups, mark): &(&[usize], u8)| grouped(text, groups, *mark);
    if let Some(end) = GROUPS.iter().find_map(of_groups) {
        return Some((0, end));
    }
    let digits = hex(text);
    let own = &text[..digits];
    let is_mixed = own.contains(|it: char| it.is_ascii_digit())
        && own.contains(|it: char| it.is_ascii_alphabetic());
    (BARE.contains(&digits) && ends(text, digits) && is_mixed).then_some((0, digits))
}

/// The end of groups at the begin of a text.
fn grouped(text: &str, groups: &[usize], mark: u8) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut end = 0;
    for (number, length) in groups.iter().enumerate() {
        if number > 0 {
            (bytes.get(end) == Some(&mark)).then_some(())?;
            end += 1;
        }
        let group = bytes.get(end..end + length)?;
        group.iter().all(u8::is_ascii_hexdigit).then_some(())?;
        end += length;
    }
    let more =
        bytes.get(end) == Some(&mark) && bytes.get(end + 1).is_some_and(u8::is_ascii_hexdigit);
    let is_version = mark == b'.' && !text[..end].contains(|it: char| it.is_ascii_alphabetic());
    (!more && !is_version && ends(text, end)).then_some(end)
}

/// How many hexadecimal digits a text begins with.
fn hex(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_hexdigit).count()
}

/// Whether no letter or digit follows.
fn ends(text: &str, end: usize) -> bool {
    !text
        .as_bytes()
        .get(end)
        .is_some_and(u8::is_ascii_alphanumeric)
}

/// The address of version 4 at the begin of a text, and its length. Loopback addresses and masks
/// say nothing of a host.
pub(super) fn version4(text: &str) -> Option<usize> {
    let end = text
        .find(|it: char| !it.is_ascii_digit() && it != '.')
        .unwrap_or(text.len());
    let bare = text[..end].trim_end_matches('.');
    let address: Ipv4Addr = bare.parse().ok()?;
    let is_plain = address.is_loopback() || address.is_unspecified() || address.octets()[0] == 255;
    (!is_plain && ends(text, bare.len())).then_some(bare.len())
}

/// Most characters of an address of version 6, with a port behind it.
const MOST_OF_VERSION6: usize = 56;

/// The first address of version 6 in a run of characters: its begin and end. A word may precede
/// it, such as `eth0:`, and a port follow it.
pub(super) fn version6(run: &str) -> Option<(usize, usize)> {
    let bytes = run.as_bytes();
    let is_part = |it: &u8| it.is_ascii_hexdigit() || matches!(it, b':' | b'.');
    for begin in 0..bytes.len() {
        let before = begin.checked_sub(1).map(|at| bytes[at]);
        let follows_word = before.is_some_and(|it| it.is_ascii_alphanumeric() || it == b'.');
        if follows_word || run[begin..].starts_with(':') && before == Some(b':') {
            continue;
        }
        let most = bytes[begin..].iter().take(MOST_OF_VERSION6);
        let text = &run[begin..begin + most.take_while(|it| is_part(it)).count()];
        let ends_there = !bytes
            .get(begin + text.len())
            .is_some_and(u8::is_ascii_alphanumeric);
        let text = text.trim_end_matches('.');
        if !ends_there || text.matches(':').count() < 2 {
            continue;
        }
        let without_colon = text.strip_suffix(':').filter(|it| !it.ends_with(':'));
        let without_port = text.rsplit_once(':').map(|it| it.0);
        let without_port =
            without_port.filter(|it| it.contains("::") || it.matches(':').count() == 7);
        for it in [Some(text), without_colon, without_port]
            .into_iter()
            .flatten()
        {
            let Ok(address) = it.parse::<Ipv6Addr>() else {
                continue;
            };
            // `c10::` and `c10d::` are PyTorch's names.
            let is_plain = address.is_loopback() || address.is_unspecified();
            if !is_plain && !it.starts_with("c10::") && !it.starts_with("c10d::") {
                return Some((begin, begin + it.len()));
            }
        }
    }
    None
}

/// The address in a name such as `ip-10-1-2-3`.
pub(super) fn has_dashed_address(name: &str) -> bool {
    let parts: Vec<&str> = name.split('-').collect();
    let is_octet = |it: &&str| it.len() <= 3 && it.parse::<u8>().is_ok();
    name.starts_with(|it: char| it.is_ascii_alphabetic())
        && parts.windows(4).any(|it| it.iter().all(is_octet))
}
