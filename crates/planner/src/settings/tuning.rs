//! The settings of the cost model.

use program::{Protocol, named};

use super::parse::{Reader, whitespace_integers};
use crate::rules::Rules;

/// Most thread blocks of a kernel for windows.
const MOST_BLOCKS: i64 = 64;

/// NCCL's value for "not set" in many of its numbers.
const UNSET: i64 = -2;

/// Settings of the cost model. The defaults are NCCL's.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    /// `NCCL_ALGO`, as written. It is read when a table is made, because NCCL refuses it only then.
    pub algorithms: Option<String>,
    /// `NCCL_PROTO`, as written.
    pub protocols: Option<String>,
    /// `NCCL_NTHREADS`: threads of LL and Simple; 0 or less is the default.
    pub threads: i64,
    /// `NCCL_LL128_NTHREADS`: threads of LL128; 0 or less is the default.
    pub ll128_threads: i64,
    /// `NCCL_THREAD_THRESHOLDS`: bytes per thread of trees and of rings (LL, LL128, Simple each).
    pub thresholds: [[Option<i64>; 3]; 2],
    /// `NCCL_NET_OVERHEAD`: the processor's time for one message, ns.
    pub net_overhead_ns: Option<i64>,
    /// `NCCL_PAT_ENABLE`: 0 no, 2 when each node has one rank, otherwise yes.
    pub pat: i64,
    /// `NCCL_LL128_C2C`: LL128 also where a NIC is reached over C2C or through another GPU.
    pub ll128_c2c: bool,
    /// Settings of kernels for symmetric windows.
    pub windows: WindowSettings,
    /// `NCCL_CTA_POLICY`.
    pub cta_policy: CtaPolicy,
    /// `NCCL_LOCAL_REGISTER`: programs can register buffers.
    pub registers: bool,
    /// The oldest driver of the job as CUDA's number, 1000 × major + 10 × minor; `None`: new
    /// enough.
    pub driver: Option<u32>,
    /// `NCCL_LL_BUFFSIZE`, `NCCL_LL128_BUFFSIZE`, `NCCL_BUFFSIZE`, bytes.
    pub buffer_bytes: [Option<i64>; 3],
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            algorithms: None,
            protocols: None,
            threads: UNSET,
            ll128_threads: UNSET,
            thresholds: [[None; 3]; 2],
            net_overhead_ns: None,
            pat: 2,
            ll128_c2c: true,
            windows: WindowSettings::default(),
            cta_policy: CtaPolicy::Default,
            registers: true,
            driver: None,
            buffer_bytes: [None; 3],
        }
    }
}

/// The name under which settings hold the oldest driver of a job, by its version of CUDA, such as
/// 13.2. It is no variable of NCCL, which asks the drivers of all ranks.
pub const DRIVER_VERSION: &str = "TOPO_DRIVER_VERSION";

/// The version of a driver as CUDA's number, 1000 × major + 10 × minor; `None` if it is none.
pub fn driver_number(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    let number = |text: &str| text.parse().ok().filter(|number: &u32| *number < 100);
    Some(1000 * number(major)? + 10 * number(minor)?)
}

/// What NCCL spares in collectives (`ncclConfig_t::CTAPolicy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CtaPolicy {
    /// Nothing: the fastest choice.
    #[default]
    Default,
    /// Thread blocks: NVLS gathers and scatters registered buffers.
    Efficiency,
    /// All thread blocks: copy engines gather windows.
    Zero,
}

named!(CtaPolicy, "policy", |known, text| known.name().eq_ignore_ascii_case(text), {
    Default = "default",
    Efficiency = "efficiency",
    Zero = "zero",
});

/// Settings of kernels for symmetric windows. The defaults are NCCL's.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowSettings {
    /// `NCCL_WIN_ENABLE`: windows can be registered.
    pub enabled: bool,
    /// `NCCL_SYM_CTAS`: thread blocks of each kernel, at most 64; 0 and less leave it to NCCL.
    pub blocks: Option<u32>,
    /// `NCCL_SYM_TMA_ENABLE`: kernels may use the tensor memory accelerator of Blackwell.
    pub tma: Option<bool>,
    /// `NCCL_SYM_CE_THRESHOLD`: elements of a rank above which an all-gather goes by copy engines.
    pub engine_elements: Option<i64>,
    /// `NCCL_SYM_KERNEL`, as written: the kernels that may be taken.
    pub kernels: Option<String>,
}

impl Default for WindowSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            blocks: None,
            tma: None,
            engine_elements: None,
            kernels: None,
        }
    }
}

impl Reader {
    /// Reads a variable of the cost model; false if it is none.
    pub(super) fn tuning(&mut self, tuning: &mut Tuning, name: &str, value: &str) -> bool {
        match name {
            DRIVER_VERSION => {
                tuning.driver = driver_number(value);
                if tuning.driver.is_none() {
                    self.note(
                        name,
                        format!("`{value}` is no version of CUDA, such as 13.2"),
                    );
                }
            }
            "NCCL_ALGO" => tuning.algorithms = Some(value.to_owned()),
            "NCCL_PROTO" => tuning.protocols = Some(value.to_owned()),
            "NCCL_NTHREADS" => tuning.threads = self.threads(name, value, 64, 512),
            "NCCL_LL128_NTHREADS" => tuning.ll128_threads = self.threads(name, value, 160, 640),
            "NCCL_THREAD_THRESHOLDS" => tuning.thresholds = self.thresholds(name, value),
            "NCCL_NET_OVERHEAD" => tuning.net_overhead_ns = self.unless_unset(name, value),
            "NCCL_PAT_ENABLE" => tuning.pat = self.number(name, value, 2),
            "NCCL_LL128_C2C" => tuning.ll128_c2c = self.number(name, value, 1) != 0,
            "NCCL_WIN_ENABLE" => tuning.windows.enabled = self.number(name, value, 1) != 0,
            "NCCL_SYM_KERNEL" => tuning.windows.kernels = Some(value.to_owned()),
            "NCCL_SYM_CTAS" => {
                let blocks = self.number(name, value, 0).min(MOST_BLOCKS);
                tuning.windows.blocks = u32::try_from(blocks).ok().filter(|blocks| *blocks > 0);
            }
            "NCCL_SYM_TMA_ENABLE" => {
                tuning.windows.tma = Some(self.number(name, value, 1) != 0);
            }
            "NCCL_SYM_CE_THRESHOLD" => {
                tuning.windows.engine_elements = Some(self.number(name, value, 8 << 20));
            }
            "NCCL_CTA_POLICY" => tuning.cta_policy = self.cta_policy(name, value),
            "NCCL_LOCAL_REGISTER" => tuning.registers = self.number(name, value, 1) != 0,
            "NCCL_LL_BUFFSIZE" => tuning.buffer_bytes[0] = self.buffer(name, value, Protocol::Ll),
            "NCCL_LL128_BUFFSIZE" => {
                tuning.buffer_bytes[1] = self.buffer(name, value, Protocol::Ll128);
            }
            "NCCL_BUFFSIZE" => {
                tuning.buffer_bytes[2] = self.buffer(name, value, Protocol::Simple);
            }
            _ => return false,
        }
        true
    }

    /// Source: NCCL's public source of 2.27 to 2.31.
    fn cta_policy(&mut self, name: &str, value: &str) -> CtaPolicy {
        let rules = Rules::of(self.version);
        let numbered = |number: i64| match number {
            1 => CtaPolicy::Efficiency,
            2 if rules.windows.zero_policy => CtaPolicy::Zero,
            _ => CtaPolicy::Default,
        };
        if !rules.names_policies {
            let number = self.number(name, value, 0);
            let most = if rules.windows.zero_policy { 2 } else { 1 };
            if !(0..=most).contains(&number) {
                let problem = format!("{number} is no policy, 0 to {most}; NCCL takes its default");
                self.note(name, problem);
            }
            return numbered(number);
        }
        if let Some(digit) = value.bytes().next().filter(u8::is_ascii_digit) {
            let number = i64::from(digit - b'0');
            if value.len() > 1 || number > 2 {
                self.note(
                    name,
                    format!(
                        "NCCL reads the first digit only, {number}; expected 0, 1, 2 or a name"
                    ),
                );
            }
            return numbered(number);
        }
        let mut found = Vec::new();
        for text in value.split('|').filter(|text| !text.is_empty()) {
            match text.parse::<CtaPolicy>() {
                Ok(policy) => found.push(policy),
                Err(_) => self.note(
                    name,
                    format!("NCCL knows no policy `{text}`; expected DEFAULT, EFFICIENCY or ZERO"),
                ),
            }
        }
        let taken = |policy: &CtaPolicy| found.contains(policy);
        let policies = [CtaPolicy::Zero, CtaPolicy::Efficiency];
        policies.into_iter().find(taken).unwrap_or_default()
    }

    /// Bytes of a protocol's buffer. Each of its 8 slots must hold one grain: of less, NCCL makes
    /// chunks of 0 bytes and divides by them. Source: NCCL's public source, and the binaries.
    fn buffer(&mut self, name: &str, value: &str, protocol: Protocol) -> Option<i64> {
        let bytes = self.unless_unset(name, value)?;
        let least = match protocol {
            Protocol::Ll => 256,
            Protocol::Ll128 => 16_384,
            Protocol::Simple => 4096,
        };
        if bytes < least {
            self.fatal(
                name,
                format!(
                    "{bytes} is too low: NCCL divides by 0 at the first collective with {} and ends with signal 8; \
                     expected {least} or more",
                    protocol.name()
                ),
            );
        }
        Some(bytes)
    }

    fn unless_unset(&mut self, name: &str, value: &str) -> Option<i64> {
        Some(self.number(name, value, UNSET)).filter(|number| *number != UNSET)
    }

    fn threads(&mut self, name: &str, value: &str, least: i64, most: i64) -> i64 {
        let number = self.number(name, value, UNSET);
        if number > 0 && number % 32 != 0 {
            self.note(
                name,
                format!("{number} is not a multiple of 32; NCCL takes {most}"),
            );
        } else if number > 0 && !(least..=most).contains(&number) {
            let taken = number.clamp(least, most);
            self.note(
                name,
                format!("{number} is not in {least} to {most}; NCCL takes {taken}"),
            );
        }
        number
    }

    fn thresholds(&mut self, name: &str, value: &str) -> [[Option<i64>; 3]; 2] {
        let (numbers, rest) = whitespace_integers(value, 6);
        if !rest.is_empty() {
            self.note(
                name,
                format!(
                    "NCCL stops reading at `{rest}`; expected six numbers with spaces between (tree LL, LL128, Simple, \
                     ring LL, LL128, Simple)"
                ),
            );
        }
        // Negative numbers keep the default.
        let at = |index: usize| numbers.get(index).copied().filter(|number| *number >= 0);
        [[at(0), at(1), at(2)], [at(3), at(4), at(5)]]
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;

    fn read(name: &str, value: &str) -> (Settings, Vec<String>) {
        let settings = Settings::from_variables([(name.to_owned(), value.to_owned())]);
        let notes = settings
            .notes
            .iter()
            .map(|note| note.message.clone())
            .collect();
        (settings, notes)
    }

    #[test]
    fn thresholds_are_six_numbers() {
        let (settings, notes) = read("NCCL_THREAD_THRESHOLDS", "1 -1 3  4");
        assert_eq!(
            settings.tuning.thresholds,
            [[Some(1), None, Some(3)], [Some(4), None, None]]
        );
        assert_eq!(notes, [""; 0]);
        let (settings, notes) = read("NCCL_THREAD_THRESHOLDS", "16,8");
        assert_eq!(settings.tuning.thresholds[0], [Some(16), None, None]);
        assert!(
            notes[0].starts_with("NCCL stops reading at `,8`"),
            "{notes:?}"
        );
    }

    #[test]
    fn odd_numbers_of_threads_are_noted() {
        assert_eq!(
            read("NCCL_NTHREADS", "100").1,
            ["100 is not a multiple of 32; NCCL takes 512"]
        );
        assert_eq!(
            read("NCCL_LL128_NTHREADS", "1024").1,
            ["1024 is not in 160 to 640; NCCL takes 640"]
        );
        assert_eq!(read("NCCL_NTHREADS", "-2").1, [""; 0]);
    }

    #[test]
    fn empty_is_unset() {
        for name in [
            "NCCL_NTHREADS",
            "NCCL_MIN_CTAS",
            "NCCL_CROSS_NIC",
            "NCCL_MIN_NCHANNELS",
        ] {
            let (mut settings, notes) = read(name, "");
            assert_eq!(
                notes,
                ["is empty; NCCL decides as if it were not set"],
                "{name}"
            );
            (settings.in_force, settings.notes) = (Vec::new(), Vec::new());
            assert_eq!(settings, Settings::default(), "{name}");
        }
    }

    #[test]
    fn minus_two_is_unset() {
        assert_eq!(
            read("NCCL_NET_OVERHEAD", "-2").0.tuning.net_overhead_ns,
            None
        );
        assert_eq!(
            read("NCCL_NET_OVERHEAD", "1500").0.tuning.net_overhead_ns,
            Some(1500)
        );
        assert_eq!(
            read("NCCL_BUFFSIZE", "0x100000").0.tuning.buffer_bytes[2],
            Some(1 << 20)
        );
    }

    /// Sizes of which NCCL's binaries died, and the next that they took.
    #[test]
    fn buffers_of_which_nccl_dies() {
        for (name, least) in [
            ("NCCL_LL_BUFFSIZE", 256),
            ("NCCL_LL128_BUFFSIZE", 16_384),
            ("NCCL_BUFFSIZE", 4096),
            ("NCCL_NVLS_CHUNKSIZE", 512),
            ("NCCL_NVLSTREE_MAX_CHUNKSIZE", 512),
            ("NCCL_P2P_NET_CHUNKSIZE", 4),
            ("NCCL_P2P_NVL_CHUNKSIZE", 8),
            ("NCCL_P2P_PCI_CHUNKSIZE", 8),
        ] {
            let is_fatal = |bytes: i64| {
                let settings = Settings::from_variables([(name.to_owned(), bytes.to_string())]);
                settings.notes.iter().any(|note| note.is_fatal)
            };
            assert!(is_fatal(least - 1) && is_fatal(0), "{name}");
            assert!(!is_fatal(least) && !is_fatal(1 << 22), "{name}");
        }
        let settings = Settings::from_variables([("NCCL_BUFFSIZE".to_owned(), "-2".to_owned())]);
        assert!(settings.notes.is_empty());
    }
}
