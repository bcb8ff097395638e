//! Facts of a job in single lines and words: GPUs, settings, versions.

use crate::results::values::Device;

/// Most characters of a name that is kept.
pub(crate) const MOST_NAME: usize = 200;

/// The text after some words.
pub(crate) fn after<'a>(line: &'a str, words: &str) -> Option<&'a str> {
    line.split_once(words).map(|(_, rest)| rest)
}

/// The value in ` : 28.2632 OK`.
pub(crate) fn value<T: std::str::FromStr>(text: &str) -> Option<T> {
    let text = text.trim_start().strip_prefix(':')?;
    text.split_whitespace().next()?.parse().ok()
}

/// `23007` is 2.30.7. Before 2.9 the middle number has one digit: `2804` is 2.8.4.
pub(crate) fn version_of_code(text: &str) -> Option<String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let code: u32 = text[..digits].parse().ok()?;
    let minor = match code {
        1000..10_000 => 100,
        10_000.. => 10_000,
        _ => return None,
    };
    Some(match minor {
        100 => format!("{}.{}.{}", code / 1000, code / 100 % 10, code % 100),
        _ => format!("{}.{}.{}", code / 10_000, code / 100 % 100, code % 100),
    })
}

/// `NCCL_ALGO=Ring` in a command.
pub(crate) fn setting(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let is_name = |it: char| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_';
    let value = value.trim_matches(['"', '\'']);
    (name.starts_with("NCCL_") && name.chars().all(is_name) && value.len() < MOST_NAME)
        .then(|| (name.to_owned(), value.to_owned()))
}

/// `#  Rank  0 Group  0 Pid  27 on  node1 device  0 [0000:1b:00] NVIDIA H100`.
pub(crate) fn device(line: &str) -> Option<Device> {
    let rest = after(line, " Rank ")?;
    let mut words = rest.split_whitespace();
    let rank = words.next()?.parse().ok()?;
    let mut device = Device {
        rank,
        ..Device::default()
    };
    while let Some(word) = words.next() {
        match word {
            "Group" => device.group = words.next()?.parse().ok()?,
            "Pid" => {
                words.next()?.parse::<u32>().ok()?;
            }
            "on" => device.host = words.next()?.chars().take(MOST_NAME).collect(),
            "device" => {
                device.number = words.next()?.parse().ok()?;
                let bus = words.next()?;
                device.bus = bus.strip_prefix('[')?.strip_suffix(']')?.to_owned();
                let model: Vec<&str> = words.collect();
                device.model = model.join(" ").chars().take(MOST_NAME).collect();
                return (!device.host.is_empty()).then_some(device);
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_codes() {
        for (code, version) in [
            ("23007 x", "2.30.7"),
            ("2804", "2.8.4"),
            ("21005", "2.10.5"),
        ] {
            assert_eq!(version_of_code(code).as_deref(), Some(version));
        }
        assert_eq!(version_of_code("x"), None);
    }
}
