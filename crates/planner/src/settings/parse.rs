//! Reading NCCL's variables.

use plan::NcclVersion;
use topology::{NameList, PathType};

use super::{NetDevsPolicy, SettingEffect, SettingNote, Settings, names};
use crate::rules::Rules;

/// The old scale of path levels, 0 to 5.
const OLD_LEVELS: [PathType; 6] = [
    PathType::Loc,
    PathType::Pix,
    PathType::Pxb,
    PathType::Phb,
    PathType::Sys,
    PathType::Sys,
];

impl Settings {
    /// Reads variables as the newest NCCL does; later ones override earlier ones of the same name.
    /// Never fails: what NCCL does not understand gets a note.
    pub fn from_variables(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self::with_variables(NcclVersion::default(), variables)
    }

    /// The same as another version of NCCL does.
    pub fn with_variables(
        version: NcclVersion,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let mut settings = Self::of(version);
        for (name, value) in variables {
            settings.in_force.retain(|(known, _)| *known != name);
            settings.in_force.push((name, value));
        }
        let mut reader = Reader {
            version,
            notes: Vec::new(),
        };
        for (name, value) in settings.in_force.clone() {
            reader.apply(&mut settings, &name, &value);
        }
        // NCCL asks for the level only when P2P is not disabled.
        let disabled = settings
            .in_force
            .iter()
            .find(|(name, _)| name == "NCCL_P2P_DISABLE");
        if disabled.is_some_and(|(_, value)| number(version, value) == Some(1)) {
            settings.p2p_level = Some(PathType::Loc);
        }
        settings.notes = reader.notes;
        settings
    }
}

pub(super) struct Reader {
    pub(super) version: NcclVersion,
    notes: Vec<SettingNote>,
}

impl Reader {
    fn apply(&mut self, settings: &mut Settings, name: &str, value: &str) {
        if let Some(since) = super::since(name).filter(|since| self.version < *since) {
            return self.too_new(name, since);
        }
        if !super::is_known_to(name, self.version) {
            let version = self.version.minor();
            let message =
                format!("NCCL {version} no longer has such a variable; it changes nothing");
            return self.note(name, message);
        }
        match name {
            "NCCL_TOPO_SPLIT_MLOPART" => {
                settings.split_partitions = self.number(name, value, 1) != 0
            }
            "NCCL_NVB_DISABLE" => settings.nvb_disable = self.number(name, value, 0) != 0,
            "NCCL_P2P_DISABLE" => drop(self.number(name, value, 0)),
            "NCCL_IGNORE_DISABLED_P2P" => {
                settings.ignore_disabled_p2p = self.number(name, value, 0)
            }
            "NCCL_P2P_LEVEL" => settings.p2p_level = self.level(name, value),
            "NCCL_P2P_USE_CUDA_MEMCPY" => {
                settings.p2p_use_cuda_memcpy = self.number(name, value, 0) != 0
            }
            "NCCL_NET_DISABLE_INTRA" => {
                settings.net_disable_intra = self.number(name, value, 0) == 1
            }
            "NCCL_SHM_DISABLE" => settings.shm_disable = self.number(name, value, 0) == 1,
            "NCCL_NET_GDR_LEVEL" => settings.gdr_level = self.level(name, value),
            "NCCL_NET_GDR_READ" => {
                settings.gdr_read = Some(self.number(name, value, -2))
                    .filter(|mode| *mode >= 0)
                    .map(|mode| mode != 0);
            }
            "NCCL_NET_GDR_C2C" => settings.gdr_c2c = self.number(name, value, 1) != 0,
            "NCCL_NET_GDR_MLOPART" => settings.gdr_partitions = self.number(name, value, 0) != 0,
            "NCCL_PXN_DISABLE" => settings.pxn_disable = self.number(name, value, 0) == 1,
            "NCCL_PXN_C2C" => {
                let default = Settings::of(settings.rules.version()).pxn_c2c;
                settings.pxn_c2c = self.number(name, value, i64::from(default)) != 0;
            }
            "NCCL_P2P_PXN_LEVEL" => settings.p2p_pxn_level = self.number(name, value, 2),
            "NCCL_NETDEVS_POLICY" => settings.netdevs_policy = self.netdevs_policy(name, value),
            "NCCL_TOPO_SCATTER_START_NET" => {
                settings.scatters_ports = self.number(name, value, 0) != 0;
            }
            "NCCL_IB_HCA" => settings.ib_hca = Some(NameList::new(value)),
            "NCCL_SOCKET_IFNAME" => settings.socket_ifname = Some(NameList::new(value)),
            "NCCL_CROSS_NIC" => settings.cross_nic = self.number(name, value, 2),
            "NCCL_MNNVL_ENABLE" => settings.mnnvl_enable = self.number(name, value, 2),
            "NCCL_MNNVL_SCATTER_NETS_ENABLE" => {
                settings.mnnvl_scatter_nets = self.number(name, value, 1) != 0
            }
            "NCCL_MNNVL_RAIL_PER_HOST" => {
                settings.mnnvl_rail_per_host = self.number(name, value, 0) != 0
            }
            "NCCL_NVLS_ENABLE" => settings.nvls_enable = self.number(name, value, 2),
            "NCCL_COLLNET_ENABLE" => {
                settings.collnet_enable = Some(self.number(name, value, 0) != 0)
            }
            "NCCL_GRAPH_FILE" => settings.graph_file = Some(value.to_owned()),
            _ if self.merge(&mut settings.merge, name, value) => {}
            _ if self.connect(settings, name, value) => {}
            _ if self.tuning(&mut settings.tuning, name, value) => {}
            _ => match names::effect(name) {
                Some(SettingEffect::NotModelled(assumed)) => {
                    self.note(name, format!("is not modelled: {assumed}"));
                }
                Some(_) => {}
                None if name.starts_with("NCCL_") => self.unknown(name),
                None => self.note(
                    name,
                    "is not an NCCL variable; it changes nothing".to_owned(),
                ),
            },
        }
    }

    pub(super) fn note(&mut self, name: &str, message: String) {
        self.notes.push(SettingNote {
            name: name.to_owned(),
            message,
            is_fatal: false,
        });
    }

    /// Notes that NCCL dies of a value.
    pub(super) fn fatal(&mut self, name: &str, message: String) {
        self.notes.push(SettingNote {
            name: name.to_owned(),
            message,
            is_fatal: true,
        });
    }

    fn unknown(&mut self, name: &str) {
        let version = self.version.minor();
        let message = match names::nearest(name) {
            Some(near) => format!("NCCL {version} has no such variable; did you mean {near}?"),
            None => format!("NCCL {version} has no such variable; it changes nothing"),
        };
        self.note(name, message);
    }

    /// A variable that only newer versions have.
    fn too_new(&mut self, name: &str, since: NcclVersion) {
        let (version, since) = (self.version.minor(), since.minor());
        let message =
            format!("NCCL {version} has no such variable ({since} has it); it changes nothing");
        self.note(name, message);
    }

    pub(super) fn number(&mut self, name: &str, value: &str, default: i64) -> i64 {
        if value.is_empty() {
            self.note(
                name,
                "is empty; NCCL decides as if it were not set".to_owned(),
            );
            return default;
        }
        match integer(value) {
            (_, Reading::Overflow) => {
                self.note(
                    name,
                    format!("`{value}` does not fit 64 bits; NCCL takes its default, {default}"),
                );
                default
            }
            (_, Reading::NoDigits) if Rules::of(self.version).needs_digits => {
                self.note(
                    name,
                    format!("`{value}` is no number; NCCL takes its default, {default}"),
                );
                default
            }
            (number, Reading::Partial | Reading::NoDigits) => {
                self.note(
                    name,
                    format!("`{value}` is not a whole number; NCCL reads it as {number}"),
                );
                number
            }
            (number, Reading::Whole) => number,
        }
    }

    fn level(&mut self, name: &str, value: &str) -> Option<PathType> {
        if let Ok(kind) = value.parse::<PathType>()
            && kind < PathType::Net
        {
            return Some(kind);
        }
        if value.starts_with(|first: char| first.is_ascii_digit()) {
            let (number, _) = integer(value);
            let level = OLD_LEVELS[number.clamp(0, 5) as usize];
            self.note(
                name,
                format!("`{value}` is the old scale of levels; NCCL reads it as {level}"),
            );
            return Some(level);
        }
        self.note(
            name,
            format!("`{value}` is no level (LOC NVL NVB C2C PIX PXB P2C PXN PHB SYS); NCCL decides as if it were not set"),
        );
        None
    }

    fn netdevs_policy(&mut self, name: &str, value: &str) -> NetDevsPolicy {
        let upper = value.to_ascii_uppercase();
        match upper.as_str() {
            "AUTO" => return NetDevsPolicy::Auto,
            "ALL" => return NetDevsPolicy::All,
            _ => {}
        }
        if let Some(most) = upper.strip_prefix("MAX:") {
            let (most, _) = integer(most);
            if most > 0 {
                return NetDevsPolicy::Max(u32::try_from(most).unwrap_or(u32::MAX));
            }
        }
        self.note(
            name,
            format!("`{value}` is none of AUTO, ALL, MAX:N with N > 0; NCCL takes AUTO"),
        );
        NetDevsPolicy::Auto
    }
}

/// Whether the whole text was a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Whole,
    /// Other text followed.
    Partial,
    /// There was no digit at all (0).
    NoDigits,
    Overflow,
}

/// A number as a version of NCCL reads it: C's `strtoll(text, NULL, 0)`. `None` if it takes its
/// default.
pub fn number(version: NcclVersion, text: &str) -> Option<i64> {
    match integer(text) {
        _ if text.is_empty() => None,
        (_, Reading::Overflow) => None,
        (_, Reading::NoDigits) if Rules::of(version).needs_digits => None,
        (number, _) => Some(number),
    }
}

/// Reads a number as C's `strtoll(text, NULL, 0)`.
fn integer(text: &str) -> (i64, Reading) {
    let trimmed = text.trim_start();
    let (negative, digits) = match trimmed.as_bytes().first() {
        Some(b'-') => (true, &trimmed[1..]),
        Some(b'+') => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', next, ..] if next.is_ascii_hexdigit() => (16, &digits[2..]),
        [b'0', ..] => (8, digits),
        _ => (10, digits),
    };
    let length = digits
        .bytes()
        .take_while(|byte| (*byte as char).is_digit(radix))
        .count();
    if length == 0 {
        return (0, Reading::NoDigits);
    }
    let reading = if length == digits.len() {
        Reading::Whole
    } else {
        Reading::Partial
    };
    match i128::from_str_radix(&digits[..length], radix)
        .map(|value| if negative { -value } else { value })
    {
        Ok(value) => i64::try_from(value).map_or((0, Reading::Overflow), |value| (value, reading)),
        Err(_) => (0, Reading::Overflow),
    }
}

/// Reads up to `most` decimal numbers with white space between, as C's `sscanf` with `%ld` does,
/// and returns what follows the last one.
pub(super) fn whitespace_integers(text: &str, most: usize) -> (Vec<i64>, &str) {
    let mut numbers = Vec::new();
    let mut rest = text.trim_start();
    while numbers.len() < most && !rest.is_empty() {
        let sign = usize::from(rest.starts_with(['-', '+']));
        let digits = rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            break;
        }
        let number = rest[..sign + digits].parse();
        // A number that does not fit becomes the nearest one that does.
        numbers.push(number.unwrap_or(if rest.starts_with('-') {
            i64::MIN
        } else {
            i64::MAX
        }));
        rest = rest[sign + digits..].trim_start();
    }
    (numbers, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the binaries of 2.31.2 and 2.32.3 make of a number.
    #[test]
    fn numbers_without_digits_are_the_default_of_new_versions() {
        for (text, older, newer) in [
            ("abc", Some(0), None),
            ("true", Some(0), None),
            ("'1'", Some(0), None),
            ("-", Some(0), None),
            ("3x", Some(3), Some(3)),
            ("1.5", Some(1), Some(1)),
            ("0x", Some(0), Some(0)),
            ("010", Some(8), Some(8)),
            ("99999999999999999999", None, None),
            ("", None, None),
        ] {
            for (version, expected) in [(NcclVersion::V2_31, older), (NcclVersion::V2_32, newer)] {
                assert_eq!(number(version, text), expected, "{version}: `{text}`");
                let variables = [("NCCL_CROSS_NIC".to_owned(), text.to_owned())];
                let settings = Settings::with_variables(version, variables);
                assert_eq!(
                    settings.cross_nic,
                    expected.unwrap_or(2),
                    "{version}: `{text}`"
                );
            }
        }
    }
}
