//! Causes whose words count only beside other evidence.

use std::collections::{BTreeMap, BTreeSet};

use findings::causes::Certainty::{Likely, Possible};
use findings::causes::table::{hang, memory, network, nvlink, speed, start};
use findings::causes::{self, Cause, Certainty};
use findings::facts::Meaning;
use records::nccl_log::Log;
use records::nccl_log::statement::{self, Stage, Statement};
use topology::xml::{Document, Element};

use crate::verdict::{Line, Verdict};
use crate::words::Hits;

/// What is known besides the words.
pub(crate) struct Beside<'a> {
    pub(crate) log: &'a Log,
    /// Something says that the job hangs.
    pub(crate) is_hang: bool,
    /// The GPUs are Blackwell's for data centers.
    pub(crate) is_blackwell: bool,
    /// A host has adapters of Amazon's (EFA).
    pub(crate) has_efa: bool,
    /// The limit of locked memory is none, as an input says.
    pub(crate) is_unlimited: bool,
}

impl<'a> Beside<'a> {
    /// What a log and a machine say; `has_efa` by listings.
    pub(crate) fn of(
        log: &'a Log,
        machine: Option<&Document>,
        is_hang: bool,
        has_efa: bool,
        is_unlimited: bool,
    ) -> Self {
        let has = |fits: fn(&Element) -> bool| machine.is_some_and(|it| any(&it.root, fits));
        let is_blackwell = |model: &str| ["B200", "B300"].iter().any(|it| model.contains(it));
        Self {
            log,
            is_hang,
            is_unlimited,
            is_blackwell: log.gpus.values().any(|it| is_blackwell(&it.1))
                || has(|it| matches!(it.get("sm"), Some("100" | "103"))),
            has_efa: has_efa || has(|it| it.get("name").is_some_and(|it| it.starts_with("rdmap"))),
        }
    }
}

/// Whether an element or one inside it fits.
fn any(element: &Element, fits: fn(&Element) -> bool) -> bool {
    fits(element) || element.children.iter().any(|it| any(it, fits))
}

/// Says whether words count, and what they mean then.
type Check = fn(&Beside<'_>, Verdict) -> Option<Verdict>;

/// The causes by id, each with its check.
const CHECKS: [(&str, Check); 10] = [
    (network::LOCKED_MEMORY.id, locked),
    (hang::UNEVEN_PAT.id, uneven),
    (nvlink::MNNVL_CUMEM.id, mnnvl),
    (start::NO_PLUGIN.id, plugin),
    (memory::MANY_COMMUNICATORS.id, communicators),
    (memory::SHARED_NET_BUFFER.id, buffer),
    (speed::PROFILER_COST.id, profiler),
    (speed::SYMMETRIC_FEW_CTAS.id, blocks),
    ("efa-missing", unchosen),
    ("efa-init", unchosen),
];

/// Takes these causes' words, and gives a verdict for those that count.
pub(crate) fn verdicts(hits: &mut Hits, beside: &Beside<'_>) -> Vec<Verdict> {
    let checked = CHECKS
        .iter()
        .filter_map(|(cause, check)| check(beside, hits.take(causes::of_id(cause)?)?));
    checked.collect()
}

/// Memory that cannot be registered, unless the limit of locked memory is none: then that is not
/// why.
fn locked(beside: &Beside<'_>, verdict: Verdict) -> Option<Verdict> {
    if !beside.is_unlimited {
        return Some(verdict);
    }
    let what = "Memory could not be registered with the NIC, and the limit of locked memory is unlimited: contiguous \
                memory, the IOMMU's or the NIC's tables, or BAR1 are full."
        .to_owned();
    Some(Verdict {
        cause: causes::of_id("nic-registration")?,
        what,
        next: vec![
            "look at CmaTotal and CmaFree in /proc/meminfo, at the IOMMU (iommu=pt), and at BAR1 in `nvidia-smi -q`; \
             a smaller NCCL_BUFFSIZE needs less"
                .to_owned(),
        ],
        ..verdict
    })
}

/// Whether a version of the log is from the first to below the second.
pub(crate) fn version(log: &Log, [from, below]: [(u32, u32, u32); 2]) -> Option<&str> {
    let numbers = |version: &str| {
        let parts = version.split(['.', '+']);
        let mut parts = parts.map_while(|it| it.parse().ok());
        let mut next = || parts.next().unwrap_or(0);
        (next(), next(), next())
    };
    let mut versions = log.versions.keys();
    let found = versions.find(|it| (from..below).contains(&numbers(it)));
    found.map(String::as_str)
}

/// Hosts with different numbers of ranks, if the version has the fault of PAT, and the start did
/// not end or the job hangs.
fn uneven(beside: &Beside<'_>, verdict: Verdict) -> Option<Verdict> {
    // 2.23 has PAT first.
    let version = version(beside.log, [(2, 23, 0), (2, 32, 3)])?;
    let members = beside.log.communicators.iter().flat_map(|it| &it.members);
    let is_ready = members
        .clone()
        .any(|it| matches!(it.stage, Some(Stage::Complete)));
    if is_ready && !beside.is_hang {
        return None;
    }
    let what = format!(
        "NCCL {version} has this fault; the hosts have different numbers of ranks (contiguousRanksPerHost is the \
         largest number), and {}.",
        if is_ready {
            "the job hangs"
        } else {
            "no rank says that its start ended"
        }
    );
    Some(Verdict { what, ..verdict })
}

/// A setting that switches NVLink between hosts off, in a job of several hosts, where lines name
/// the fabric of a GPU: 0 is that of one host.
fn mnnvl(beside: &Beside<'_>, fabric: Verdict) -> Option<Verdict> {
    let log = beside.log;
    let is_joined = |it: &Line| !it.text.contains("fabric UUID 0.0 ");
    let is_off = |host: &&String| has_no_cumem(log, host);
    let hosts: Vec<String> = log.hosts.keys().filter(is_off).cloned().collect();
    if hosts.is_empty() || log.hosts.len() < 2 || !fabric.lines.iter().any(is_joined) {
        return None;
    }
    let what = "NCCL_CUMEM_ENABLE=0 is set, and the GPUs name an NVLink fabric; on hosts of one NVLink domain the \
                data between hosts takes the network."
        .to_owned();
    Some(Verdict {
        what,
        hosts,
        ..fabric
    })
}

/// Whether a host sets `NCCL_CUMEM_ENABLE=0`.
pub(crate) fn has_no_cumem(log: &Log, host: &str) -> bool {
    let values = log.hosts.get(host);
    let values = values.and_then(|it| it.settings.get("NCCL_CUMEM_ENABLE"));
    values.is_some_and(|it| it.contains("0"))
}

/// No plug-in and sockets, in a job of several hosts with adapters of Amazon's.
fn plugin(beside: &Beside<'_>, verdict: Verdict) -> Option<Verdict> {
    let log = beside.log;
    let is_networked = log.hosts.len() > 1 || log.communicators.iter().any(|it| it.nodes > 1);
    let mut hosts = verdict.hosts.clone();
    hosts.retain(|it| networks(log, it).is_some_and(|it| it.contains("Socket")));
    if hosts.is_empty() || !is_networked || !beside.has_efa {
        return None;
    }
    let what = "NCCL finds no plug-in and takes sockets, and the host has EFA adapters.".to_owned();
    Some(Verdict {
        what,
        hosts,
        certainty: Likely,
        ..verdict
    })
}

/// The networks that the processes of a host took, if the log says so.
fn networks<'a>(log: &'a Log, host: &str) -> Option<&'a BTreeSet<String>> {
    log.hosts.get(host)?.values.get("network")
}

/// What the plug-in for EFA says before NCCL chooses a network, besides that it has no adapter.
const BEFORE_THE_CHOICE: [&str; 3] = [
    "nitialization failed",
    "Initializing plugin failed",
    "Failed to initialize",
];

/// A plug-in for EFA that finds no adapter or does not start, on hosts that took no other network
/// than sockets: images of AWS have it on all machines, and it tries one protocol after the other.
fn unchosen(beside: &Beside<'_>, mut verdict: Verdict) -> Option<Verdict> {
    let is_early = |it: &Line| BEFORE_THE_CHOICE.iter().any(|word| it.text.contains(word));
    if verdict.cause.id == "efa-init" && !verdict.lines.iter().all(is_early) {
        return Some(verdict);
    }
    let log = beside.log;
    let has_other = |host: &String| {
        let mut taken = networks(log, host).into_iter().flatten().peekable();
        taken.peek().is_some() && taken.all(|it| it != "Socket")
    };
    if verdict.hosts.is_empty() {
        let is_contradicted = !log.hosts.is_empty() && log.hosts.keys().all(has_other);
        return (!is_contradicted).then_some(verdict);
    }
    verdict.hosts.retain(|it| !has_other(it));
    (!verdict.hosts.is_empty()).then_some(verdict)
}

/// As few communicators leave memory to others.
const MANY_COMMUNICATORS: usize = 8;

/// Memory that a process holds beside PyTorch's, GiB: a communicator takes about half a GiB.
const MUCH_MEMORY: f64 = 4.0;

/// A meaning, and that of another cause which the line shows, too.
pub(crate) fn with_others(meaning: Meaning, line: &str) -> impl Iterator<Item = Meaning> {
    let is_few = *meaning.cause != speed::SYMMETRIC_FEW_CTAS || has_few_blocks(line);
    let much = holds_much(meaning.cause, line);
    let much = much.map(|it| Meaning::of(&memory::MANY_COMMUNICATORS, it));
    is_few.then_some(meaning).into_iter().chain(much)
}

/// How sure a line about full memory makes it that communicators hold much of it.
fn holds_much(cause: &Cause, line: &str) -> Option<Certainty> {
    if *cause == memory::GPU_FULL {
        return Some(Possible);
    }
    if *cause != memory::CUDA_FULL {
        return None;
    }
    // `this process has 78.04 GiB memory in use. Of the allocated memory 60.11 GiB is allocated by
    // PyTorch, and 1.20 GiB is reserved by PyTorch but unallocated`.
    let gib = |before: &str| -> Option<f64> {
        let words = line.split(before).nth(1)?;
        let (value, rest) = words.trim_start().split_once(' ')?;
        let value: f64 = value.parse().ok()?;
        match rest {
            rest if rest.starts_with("GiB") => Some(value),
            rest if rest.starts_with("MiB") => Some(value / 1024.0),
            _ => None,
        }
    };
    let own = gib("Of the allocated memory ")? + gib("by PyTorch, and ")?;
    (gib("this process has ")? - own >= MUCH_MEMORY).then_some(Likely)
}

/// Many communicators on a GPU whose memory is full.
fn communicators(beside: &Beside<'_>, verdict: Verdict) -> Option<Verdict> {
    let mut counts = BTreeMap::new();
    for member in beside.log.communicators.iter().flat_map(|it| &it.members) {
        if member.stage.is_some_and(|it| it < Stage::Destroyed) {
            let of = (&member.host, member.process, member.gpu);
            *counts.entry(of).or_insert(0) += 1;
        }
    }
    let ((host, ..), count) = counts.into_iter().max_by_key(|it| it.1)?;
    if count < MANY_COMMUNICATORS {
        return None;
    }
    let more = match verdict.certainty {
        Possible => "",
        _ => ", and the process holds much memory that is not PyTorch's",
    };
    let what = format!("A GPU of {host} has {count} communicators when its memory is full{more}.");
    Some(Verdict {
        what,
        hosts: vec![host.clone()],
        ..verdict
    })
}

/// The buffer of a communicator of one rank.
fn buffer(beside: &Beside<'_>, verdict: Verdict) -> Option<Verdict> {
    let log = beside.log;
    version(log, [(2, 29, 0), (3, 0, 0)])?;
    let is_on = |host: &String, fits: fn(&records::nccl_log::log::Communicator) -> bool| {
        let mut all = log.communicators.iter().filter(|it| fits(it));
        all.any(|it| it.members.iter().any(|it| it.host == *host))
    };
    let mut hosts = verdict.hosts.clone();
    hosts.retain(|it| is_on(it, |it| it.ranks == 1));
    let first = hosts.first()?;
    // Communicators of several hosts need such a buffer.
    let certainty = match hosts.iter().any(|it| is_on(it, |it| it.nodes > 1)) {
        true => Possible,
        false => Likely,
    };
    let what = format!(
        "A buffer of 512 MiB for calls over the network is allocated on {first}, which has a communicator of one rank."
    );
    Some(Verdict {
        what,
        hosts,
        certainty,
        ..verdict
    })
}

/// A profiler in a version in which it takes time.
fn profiler(beside: &Beside<'_>, verdict: Verdict) -> Option<Verdict> {
    let version = version(beside.log, [(2, 31, 2), (2, 31, 3)])?;
    let what =
        format!("NCCL {version} runs a profiler plug-in, whose thread slows small messages.");
    Some(Verdict {
        what,
        hosts: Vec::new(),
        certainty: Possible,
        ..verdict
    })
}

/// As many blocks fill the links (NVIDIA/nccl #2305: 64 do, 11 do not).
const ENOUGH_BLOCKS: u32 = 16;

/// Smaller messages need no more blocks, bytes.
const LARGE: u64 = 1 << 20;

/// Whether a line shows a reduce-scatter of much data by few blocks.
fn has_few_blocks(line: &str) -> bool {
    let text = line.split("NCCL INFO ").nth(1).map(statement::read);
    matches!(
        text,
        Some(Statement::WindowKernel { kernel, bytes, blocks, .. })
            if kernel.starts_with("ReduceScatter") && bytes >= LARGE && blocks < ENOUGH_BLOCKS
    )
}

/// Few blocks on GPUs of which it is known that more are faster.
fn blocks(beside: &Beside<'_>, verdict: Verdict) -> Option<Verdict> {
    let version = version(beside.log, [(2, 29, 0), (3, 0, 0)])?;
    let what = format!(
        "NCCL {version} takes fewer than {ENOUGH_BLOCKS} blocks for a large reduce-scatter of registered windows; on \
         GB200 and GB300, 64 were up to 2.4 times as fast."
    );
    beside.is_blackwell.then(|| Verdict {
        what,
        hosts: Vec::new(),
        certainty: Possible,
        ..verdict
    })
}
