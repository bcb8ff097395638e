//! What NCCL's kinds of things are called in plain words.

use plan::Pattern;

/// How the GPUs of a channel are to be read.
pub const fn pattern(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Ring => "from each GPU to the next, the last one back to the first",
        Pattern::BalancedTree => {
            "a chain; the first GPU holds the parent and one child on other hosts, the second GPU the other child"
        }
        Pattern::SplitTree => {
            "a chain; the first GPU holds the parent on another host, the second GPU both children"
        }
        Pattern::Tree => "a chain; the first GPU holds parent and children on other hosts",
        Pattern::Nvls => "the GPU in front of the NVSwitch, which reduces and multicasts",
        Pattern::CollnetDirect => "the GPU that collects from all others for the network",
    }
}

/// What a channel may do about NICs (0, 1, 2), in a word.
pub const fn cross_nic_short(mode: i32) -> &'static str {
    match mode {
        0 => "same",
        1 => "any",
        _ => "paired",
    }
}

/// The processors of an affinity mask (groups of hexadecimal words) as nvidia-smi lists them:
/// `0-63,128-191`.
pub fn processors(mask: &str) -> Option<String> {
    let digits: Vec<u32> = mask
        .split(',')
        .flat_map(pad)
        .map(|digit| digit.to_digit(16))
        .collect::<Option<_>>()?;
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (place, digit) in digits.iter().rev().enumerate() {
        for bit in (0..4).filter(|bit| digit >> bit & 1 == 1) {
            let processor = place * 4 + bit;
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == processor => *last = processor,
                _ => runs.push((processor, processor)),
            }
        }
    }
    let text = |(first, last): &(usize, usize)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    (!runs.is_empty()).then(|| runs.iter().map(text).collect::<Vec<_>>().join(","))
}

/// A word of a mask, filled up to eight digits; the kernel writes leading zeros only sometimes.
fn pad(word: &str) -> impl Iterator<Item = char> {
    let missing = 8usize.saturating_sub(word.trim().len());
    std::iter::repeat_n('0', missing).chain(word.trim().chars().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_become_lists() {
        for (mask, list) in [
            ("0000ffff", Some("0-15")),
            ("ffff0000", Some("16-31")),
            ("ff,00000001", Some("0,32-39")),
            ("00000000,00000000", None),
            ("", None),
            ("nonsense", None),
        ] {
            assert_eq!(processors(mask).as_deref(), list, "{mask}");
        }
    }
}
