//! Machine files: one `key value` per line, `#` begins a comment.
//!
//! | key | value | default |
//! |---|---|---|
//! | `topology` | path of the topology file; required | |
//! | `driver` | the driver's version as CUDA's number, such as 12040 | 13000 |
//! | `fabric` | `none`, `refused`, `half` or `whole` ([`Fabric`]) | `none` |
//! | `peers` | GPUs that access each other's memory: `all`, `nvlink` or `none` | `all` |
//! | `multicast` | `yes`, `no`: whether NVSwitches have multicast | `yes` |
//! | `dma-buf` | `yes`, `no`: whether memory is exported as DMA-BUF | `no` |
//! | `ipc` | `yes`, `no`: whether CUDA IPC works | `yes` |
//! | `pidfd` | `yes`, `no`: whether `pidfd_getfd` is allowed; Docker's default: no | `yes` |
//! | `memory-mib` | memory of each GPU, MiB | by compute capability |
//! | `multiprocessors` | multiprocessors of each GPU | by compute capability |
//! | `gpu` | `NUMBER KEY VALUE`: `memory-mib` or `multiprocessors` of one GPU | |
//! | `arbitrary` | `yes`, `no`: whether new memory holds arbitrary bytes, or zeros | `yes` |
//! | `reuse` | `yes`, `no`: whether new memory gets the address of freed memory | `no` |
//! | `queue` | pending launches that a stream takes before the next one blocks | 1024 |
//! | `queue-bytes` | bytes of pending work that a stream takes before it blocks; 0: any | 0 |
//! | `launch-lock` | `yes`, `no`: whether a blocked launch holds its context's lock | `no` |
//! | `calls-wait` | `yes`, `no`: whether calls for memory and modules wait for kernels | `no` |
//! | `cooperative-overlap` | `yes`, `no`: whether cooperative grids run side by side | `yes` |
//! | `overlap` | `yes`, `no`: whether kernels of a GPU's streams run side by side | `yes` |
//! | `mps` | `yes`, `no`: whether MPS shares the GPUs between processes | `no` |
//! | `patience-ms` | how long a call that can never return blocks before it fails, ms | 10000 |
//! | `seed` | orders in which threads run; 0: the simplest | 0 |
//! | `fail` | `FUNCTION NUMBER ERROR`: this call (from 1) fails with CUDA's number | |
//! | `fault` | `GPU NUMBER KIND`: a fault of this launch (from 1) on a GPU ([`FaultKind`]) | |
//! | `stray` | `GPU ACCESS`: wrong access of a GPU to memory of others ([`Stray`]) | |
//! | `emulator` | path of the library that runs kernels; without it no module can be loaded | |
//! | `report` | path of the file to which calls, refusals and leaks are appended at exit | |

/// Whether fabric handles work, as IMEX (NVIDIA's daemon for multi-node NVLink) decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fabric {
    /// The GPUs report no fabric handles.
    #[default]
    None,
    /// The GPUs report them, and memory with them is refused: IMEX does not run.
    Refused,
    /// Memory with them is made, and their export fails: IMEX is half configured.
    Half,
    /// They work.
    Whole,
}

/// Which GPUs access each other's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PeerRule {
    /// All.
    #[default]
    All,
    /// Those that NVLinks join.
    NvLink,
    /// None.
    None,
}

/// A call that fails although nothing is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlantedFailure {
    /// The driver's function.
    pub function: String,
    /// The call's number, from 1.
    pub number: u64,
    /// CUDA's number of the error.
    pub error: u32,
}

/// What a planted fault does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The launch reads an address without memory.
    Address,
    /// The kernel aborts itself.
    Trap,
    /// The launch never ends.
    Hang,
    /// This launch and all later ones store a wrong element at the begin of the output.
    Wrong,
    /// The launch ends well. The next call that waits for the GPU reports an illegal address.
    Late,
    /// The process is killed.
    Kill,
    /// The process is stopped, with its network proxies.
    Stop,
}

/// A launch with a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlantedFault {
    /// The GPU.
    pub gpu: u32,
    /// The launch's number on this GPU and in its process, from 1.
    pub number: u64,
    /// What it does.
    pub kind: FaultKind,
}

/// What access to memory of other GPUs does although it is granted, as behind an IOMMU or PCIe's
/// access control that redirects transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stray {
    /// Loads bring other data than there are.
    Loads,
    /// Stores do not arrive.
    Stores,
}

/// Sizes of GPUs; `None`: by compute capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Memory, MiB.
    pub memory_mib: Option<u64>,
    /// Number of multiprocessors.
    pub multiprocessors: Option<u32>,
}

/// The content of a machine file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Path of the topology file.
    pub topology: String,
    /// The driver's version as CUDA's number, 1000 × major + 10 × minor.
    pub driver: u32,
    /// Whether fabric handles work.
    pub fabric: Fabric,
    /// Which GPUs access each other's memory.
    pub peers: PeerRule,
    /// Whether NVSwitches have multicast.
    pub multicast: bool,
    /// Whether memory is exported as DMA-BUF.
    pub dma_buf: bool,
    /// Whether CUDA IPC works.
    pub ipc: bool,
    /// Whether processes may call `pidfd_getfd`.
    pub pidfd: bool,
    /// Sizes of all GPUs.
    pub sizes: Sizes,
    /// Sizes of single GPUs, by number.
    pub gpus: Vec<(u32, Sizes)>,
    /// Whether new memory holds arbitrary bytes.
    pub arbitrary: bool,
    /// Whether new memory gets the address of freed memory.
    pub reuse: bool,
    /// Pending launches that a stream takes.
    pub queue: usize,
    /// Bytes of pending work that a stream takes; 0: any.
    pub queue_bytes: usize,
    /// Whether a blocked launch holds its context's lock.
    pub launch_lock: bool,
    /// Whether calls that manage memory or modules wait for running kernels.
    pub calls_wait: bool,
    /// Whether cooperative grids of a GPU run side by side.
    pub cooperative_overlap: bool,
    /// Whether kernels of a GPU's streams run side by side.
    pub overlap: bool,
    /// Whether MPS shares the GPUs between processes.
    pub mps: bool,
    /// How long a call that can never return blocks, ms.
    pub patience_ms: u64,
    /// The seed of the orders in which threads run.
    pub seed: u64,
    /// Calls that fail.
    pub failures: Vec<PlantedFailure>,
    /// Launches that fault.
    pub faults: Vec<PlantedFault>,
    /// GPUs whose access to memory of other GPUs is wrong.
    pub strays: Vec<(u32, Stray)>,
    /// Path of the library that runs kernels.
    pub emulator: Option<String>,
    /// Path of the report.
    pub report: Option<String>,
}

impl Setup {
    /// A machine with this topology file and defaults.
    pub fn of(topology: impl Into<String>) -> Self {
        Self {
            topology: topology.into(),
            driver: 13_000,
            fabric: Fabric::None,
            peers: PeerRule::All,
            multicast: true,
            dma_buf: false,
            ipc: true,
            pidfd: true,
            sizes: Sizes::default(),
            gpus: Vec::new(),
            arbitrary: true,
            reuse: false,
            queue: 1024,
            queue_bytes: 0,
            launch_lock: false,
            calls_wait: false,
            cooperative_overlap: true,
            overlap: true,
            mps: false,
            patience_ms: 10_000,
            seed: 0,
            failures: Vec::new(),
            faults: Vec::new(),
            strays: Vec::new(),
            emulator: None,
            report: None,
        }
    }

    /// Parses a machine file.
    ///
    /// # Errors
    /// A line has an unknown key or value, with its number; or no line names the topology file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut setup = Self::of("");
        for (line, number) in text.lines().zip(1..) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                let (key, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
                let set = setup.set(key, value.trim());
                set.map_err(|why| format!("line {number}: {why}"))?;
            }
        }
        match setup.topology.is_empty() {
            true => Err("no line names the topology file; expected `topology PATH`".to_owned()),
            false => Ok(setup),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "topology" => self.topology = value.to_owned(),
            "driver" => self.driver = number(value)?,
            "fabric" => {
                self.fabric = choice(
                    value,
                    &[
                        ("none", Fabric::None),
                        ("refused", Fabric::Refused),
                        ("half", Fabric::Half),
                        ("whole", Fabric::Whole),
                    ],
                )?;
            }
            "peers" => {
                self.peers = choice(
                    value,
                    &[
                        ("all", PeerRule::All),
                        ("nvlink", PeerRule::NvLink),
                        ("none", PeerRule::None),
                    ],
                )?;
            }
            "multicast" => self.multicast = yes(value)?,
            "dma-buf" => self.dma_buf = yes(value)?,
            "ipc" => self.ipc = yes(value)?,
            "pidfd" => self.pidfd = yes(value)?,
            "memory-mib" | "multiprocessors" => self.sizes.set(key, value)?,
            "gpu" => {
                let words: Vec<&str> = value.split_whitespace().collect();
                let [gpu, key, value] = words[..] else {
                    return Err(format!("`gpu {value}`: expected `gpu NUMBER KEY VALUE`"));
                };
                let mut sizes = Sizes::default();
                sizes.set(key, value)?;
                self.gpus.push((number(gpu)?, sizes));
            }
            "arbitrary" => self.arbitrary = yes(value)?,
            "reuse" => self.reuse = yes(value)?,
            "queue" => self.queue = number(value)?,
            "queue-bytes" => self.queue_bytes = number(value)?,
            "launch-lock" => self.launch_lock = yes(value)?,
            "calls-wait" => self.calls_wait = yes(value)?,
            "cooperative-overlap" => self.cooperative_overlap = yes(value)?,
            "overlap" => self.overlap = yes(value)?,
            "mps" => self.mps = yes(value)?,
            "patience-ms" => self.patience_ms = number(value)?,
            "seed" => self.seed = number(value)?,
            "fail" => self.failures.push(failure(value)?),
            "fault" => {
                let words: Vec<&str> = value.split_whitespace().collect();
                let (gpu, launch, kind) = match words[..] {
                    [gpu, launch] => (gpu, launch, "address"),
                    [gpu, launch, kind] => (gpu, launch, kind),
                    _ => return Err(format!("`fault {value}`: expected `fault GPU NUMBER KIND`")),
                };
                self.faults.push(PlantedFault {
                    gpu: number(gpu)?,
                    number: number(launch)?,
                    kind: choice(kind, &FAULTS)?,
                });
            }
            "stray" => self.strays.push(stray(value)?),
            "emulator" => self.emulator = Some(value.to_owned()),
            "report" => self.report = Some(value.to_owned()),
            _ => return Err(format!("`{key}` is no key of a machine file")),
        }
        Ok(())
    }
}

impl Sizes {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "memory-mib" => self.memory_mib = Some(number(value)?),
            "multiprocessors" => self.multiprocessors = Some(number(value)?),
            _ => {
                return Err(format!("`{key}`: expected memory-mib or multiprocessors"));
            }
        }
        Ok(())
    }

    /// These sizes, and where they are `None`, the other ones.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            memory_mib: self.memory_mib.or(other.memory_mib),
            multiprocessors: self.multiprocessors.or(other.multiprocessors),
        }
    }
}

/// The kinds of faults by name.
const FAULTS: [(&str, FaultKind); 7] = [
    ("address", FaultKind::Address),
    ("trap", FaultKind::Trap),
    ("hang", FaultKind::Hang),
    ("wrong", FaultKind::Wrong),
    ("late", FaultKind::Late),
    ("kill", FaultKind::Kill),
    ("stop", FaultKind::Stop),
];

impl PlantedFault {
    /// Whether the launch with this number on a GPU has the fault.
    pub const fn hits(&self, gpu: usize, number: u64) -> bool {
        let later = matches!(self.kind, FaultKind::Wrong) && number > self.number;
        self.gpu as usize == gpu && (number == self.number || later)
    }
}

fn failure(value: &str) -> Result<PlantedFailure, String> {
    let words: Vec<&str> = value.split_whitespace().collect();
    let [function, call, error] = words[..] else {
        return Err(format!(
            "`fail {value}`: expected `fail FUNCTION NUMBER ERROR`"
        ));
    };
    Ok(PlantedFailure {
        function: function.to_owned(),
        number: number(call)?,
        error: number(error)?,
    })
}

fn stray(value: &str) -> Result<(u32, Stray), String> {
    let words = value.split_once(char::is_whitespace);
    let (gpu, kind) =
        words.ok_or_else(|| format!("`stray {value}`: expected `stray GPU ACCESS`"))?;
    let all = [("loads", Stray::Loads), ("stores", Stray::Stores)];
    Ok((number(gpu)?, choice(kind.trim(), &all)?))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is no number in range"))
}

fn yes(text: &str) -> Result<bool, String> {
    choice(text, &[("yes", true), ("no", false)])
}

fn choice<T: Copy>(text: &str, all: &[(&str, T)]) -> Result<T, String> {
    let found = all.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        format!("`{text}`: expected {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read() {
        let text = "topology a b.xml # where\n\ndriver 12040\nfabric half\npeers nvlink\nmulticast no\ndma-buf yes\n\
                    ipc no\npidfd no\nmemory-mib 64\nmultiprocessors 4\ngpu 1 multiprocessors 2\narbitrary no\nreuse yes\nqueue 8\nqueue-bytes 4096\nlaunch-lock yes\ncalls-wait yes\ncooperative-overlap no\noverlap no\nmps yes\n\
                    patience-ms 5\nseed 3\nfail cuMemCreate 2 800\nfault 1 3\nfault 0 2 late\nstray 1 stores\nemulator /e.so\nreport /r\n";
        let setup = Setup::parse(text).unwrap();
        let wanted = Setup {
            driver: 12_040,
            fabric: Fabric::Half,
            peers: PeerRule::NvLink,
            multicast: false,
            dma_buf: true,
            ipc: false,
            pidfd: false,
            sizes: Sizes {
                memory_mib: Some(64),
                multiprocessors: Some(4),
            },
            gpus: vec![(
                1,
                Sizes {
                    memory_mib: None,
                    multiprocessors: Some(2),
                },
            )],
            arbitrary: false,
            reuse: true,
            queue: 8,
            queue_bytes: 4096,
            launch_lock: true,
            calls_wait: true,
            cooperative_overlap: false,
            overlap: false,
            mps: true,
            patience_ms: 5,
            seed: 3,
            failures: vec![PlantedFailure {
                function: "cuMemCreate".to_owned(),
                number: 2,
                error: 800,
            }],
            faults: vec![
                PlantedFault {
                    gpu: 1,
                    number: 3,
                    kind: FaultKind::Address,
                },
                PlantedFault {
                    gpu: 0,
                    number: 2,
                    kind: FaultKind::Late,
                },
            ],
            strays: vec![(1, Stray::Stores)],
            emulator: Some("/e.so".to_owned()),
            report: Some("/r".to_owned()),
            ..Setup::of("a b.xml")
        };
        assert_eq!(setup, wanted);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, line, what) in [
            ("topology a\ncolor red", "line 2", "`color`"),
            ("driver new", "line 1", "`new`"),
            ("fabric some", "line 1", "expected none, refused"),
            ("gpu 1 2", "line 1", "gpu NUMBER KEY VALUE"),
            ("gpu 1 color red", "line 1", "`color`"),
            ("fault 1", "line 1", "GPU NUMBER KIND"),
            ("fault 1 x", "line 1", "no number"),
            ("stray 1 fire", "line 1", "expected loads, stores"),
            ("fault 1 1 fire", "line 1", "expected address, trap"),
            ("driver 12000", "topology PATH", ""),
        ] {
            let error = Setup::parse(text).unwrap_err();
            assert!(error.contains(line) && error.contains(what), "{error}");
        }
    }
}
