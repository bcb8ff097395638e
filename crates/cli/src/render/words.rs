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
    // The kernel writes leading zeros of a word only sometimes.
    let words = mask.split(',').map(|word| format!("{:0>8}", word.trim()));
    let digits = words.collect::<String>();
    let digits = digits.chars().rev().map(|digit| digit.to_digit(16));
    let digits: Vec<u32> = digits.collect::<Option<_>>()?;
    let set = |processor: &usize| digits[*processor / 4] >> (processor % 4) & 1 == 1;
    let processors: Vec<usize> = (0..digits.len() * 4).filter(set).collect();
    let runs = processors.chunk_by(|one, next| one + 1 == *next);
    let text = |run: &[usize]| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run[0].to_string(),
    };
    (!processors.is_empty()).then(|| runs.map(text).collect::<Vec<_>>().join(","))
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
