//! Finds names of hosts, users and serial numbers in a text.

use std::net::IpAddr;

use super::is_of_name;

/// Those of the words below whose values are hosts' names whatever they look like: `node1` may
/// otherwise be a NUMA node, and `gpu1` a GPU.
const CERTAIN_KEYS: [&str; 6] = [
    "hostname",
    "hostlist",
    "nodename",
    "nodelist",
    "node_list",
    "master_addr",
];

/// Names of devices that launchers write before a line of a host as they write hosts.
const HOST_STEMS: [&str; 2] = ["node", "host"];

/// Words before a host's name, or a list of hosts.
const HOST_KEYS: [&str; 16] = [
    "host",
    "hosts",
    "hostname",
    "hostlist",
    "hostid",
    "node",
    "nodes",
    "nodename",
    "nodelist",
    "node_list",
    "master_addr",
    "addr",
    "endpoint",
    "comm_id",
    "server",
    "error",
];

/// Words that name no host, and devices whose numbers follow.
const COMMON: [&str; 38] = [
    "localhost",
    "node",
    "nodes",
    "host",
    "hosts",
    "none",
    "null",
    "unknown",
    "cpu",
    "gpu",
    "nic",
    "rank",
    "true",
    "false",
    "info",
    "warn",
    "error",
    "nccl",
    "cuda",
    "net",
    "eth",
    "ib",
    "ibp",
    "eno",
    "ens",
    "enp",
    "bond",
    "lo",
    "docker",
    "mlx5",
    "mlx4",
    "bnxt",
    "efa",
    "rdmap",
    "socket",
    "numa",
    "pci",
    "nvidia",
];

/// Most hosts of a list such as `n[1-100]`.
const MOST_LISTED: u32 = 1 << 14;

/// Most digits of a number in such a list.
const MOST_DIGITS: usize = 10;

/// Whether a name says nothing of a host: a device or a usual word, with or without a number.
pub(super) fn is_common(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let stem = lower.trim_end_matches(|it: char| it.is_ascii_digit());
    let first = lower.split(['_', '-']).next().unwrap_or_default();
    let is_device = lower.contains('_') && COMMON.contains(&first);
    let number = &lower[stem.len()..];
    // Devices have no leading zeros: `node01` is a host.
    let is_padded = number.len() > 1 && number.starts_with('0');
    stem.is_empty()
        || !is_padded && COMMON.contains(&stem)
        || COMMON.contains(&lower.as_str())
        || is_device
}

/// Whether a name is one of the usual words themselves.
pub(super) fn is_usual(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    COMMON.contains(&lower.as_str()) || lower.starts_with("ip6-")
}

/// Calls `found` with hosts that words of a line name, and whether they are hosts for certain.
pub(super) fn hosts(line: &str, found: &mut impl FnMut(&str, bool)) {
    keyed(line, found);
    prefixed(line, found);
    let mut words = line.split_whitespace();
    if let (Some(first), Some(second)) = (words.next(), words.next())
        && is_slots(second)
    {
        found(first, true);
    }
    for word in line.split(|it| !is_of_name(it)) {
        let label = word.split('.').next().unwrap_or_default();
        if super::forms::has_dashed_address(label) {
            found(label, false);
        }
    }
}

/// Calls `found` with the hosts of a text that lists nothing else: `/etc/hosts`, and files of hosts
/// for launchers.
pub(super) fn listing(text: &str, found: &mut impl FnMut(&str)) {
    let lines = || {
        let lines = text.lines().map(|it| it.split('#').next().unwrap_or(it));
        lines.map(str::trim).filter(|it| !it.is_empty())
    };
    // A file of one word may be anything.
    let is_list = lines().nth(1).is_some() && lines().all(|it| machine(it).is_some());
    if is_list {
        lines().filter_map(machine).for_each(&mut *found);
    } else if lines().all(is_addressed) {
        let names = lines().flat_map(|it| it.split_whitespace().skip(1));
        names.for_each(found);
    }
}

/// Whether a line is an address and the names of its host.
fn is_addressed(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let address = words.next().and_then(|it| it.split('%').next());
    let mut names = words.peekable();
    address.is_some_and(|it| it.parse::<IpAddr>().is_ok())
        && names.peek().is_some()
        && names.all(|it| it.chars().all(is_of_name))
}

/// The host of a line that names one, and how many ranks it may have: `n1`, `n1:8`, `n1 slots=8`.
fn machine(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let first = words.next()?;
    let (name, count) = first.split_once(':').unwrap_or((first, ""));
    let is_name = name.starts_with(|it: char| it.is_ascii_alphabetic())
        && name.contains(|it: char| it.is_ascii_digit())
        && name.chars().all(is_of_name);
    let is_count = count.bytes().all(|it| it.is_ascii_digit());
    (is_name && is_count && words.all(is_slots)).then_some(name)
}

fn is_slots(word: &str) -> bool {
    ["slots=", "max_slots=", "max-slots="]
        .iter()
        .any(|it| word.starts_with(it))
}

/// Hosts that Open MPI writes before a line: `[n1:100] …`, and behind its own mark,
/// `[1,0]<stdout>:n1: …`.
fn prefixed(line: &str, found: &mut impl FnMut(&str, bool)) {
    if let Some((name, process)) = line
        .strip_prefix('[')
        .and_then(|it| it.split_once("] "))
        .and_then(|(inside, _)| inside.split_once(':'))
        && process.len() > 2
        && process.bytes().all(|it| it.is_ascii_digit())
        && name.chars().all(is_of_name)
    {
        found(name, true);
    }
    let marked = ["<stdout>:", "<stderr>:"]
        .iter()
        .find_map(|it| line.split_once(it));
    if let Some((name, _)) = marked.and_then(|(_, rest)| rest.split_once(':'))
        && name.chars().all(is_of_name)
        && name.ends_with(|it: char| it.is_ascii_digit())
    {
        let stem = name.trim_end_matches(|it: char| it.is_ascii_digit());
        found(name, HOST_STEMS.contains(&stem));
    }
}

/// Hosts before process and thread, `host:pid:tid [device] NCCL INFO …`, whatever a launcher
/// wrote before them.
pub(super) fn logged(line: &str, found: &mut impl FnMut(&str)) {
    for (at, _) in line.match_indices(':') {
        let rest = &line[at + 1..];
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let process = digits(rest);
        let Some(rest) = rest[process..].strip_prefix(':').filter(|_| process > 0) else {
            continue;
        };
        let thread = digits(rest);
        let after = &rest[thread..];
        if thread == 0 || !(after.is_empty() || after.starts_with(' ')) {
            continue;
        }
        let before = line[..at].trim_end_matches(is_of_name);
        let name = &line[before.len()..at];
        if !is_hour(name) {
            found(name);
        }
    }
}

/// Whether a name is the begin of a time, such as `2026-11-28T10`.
fn is_hour(name: &str) -> bool {
    let form = name
        .bytes()
        .map(|it| if it.is_ascii_digit() { b'0' } else { it });
    form.eq(*b"0000-00-00T00")
}

/// Hosts after words such as `MASTER_ADDR=`, `on node`, `srun: error:`.
fn keyed(line: &str, found: &mut impl FnMut(&str, bool)) {
    let lower = line.to_ascii_lowercase();
    for key in HOST_KEYS {
        for (at, _) in lower.match_indices(key) {
            let before = lower[..at].chars().next_back();
            // Words such as `ghost` do not count; `SLURM_JOB_NODELIST` does.
            let is_begun = before.is_some_and(|it| it.is_ascii_alphanumeric()) && key != "nodelist";
            let rest = &line[at + key.len()..];
            let trimmed = rest.trim_start_matches([' ', '\t', ':', '=', '"', '\'']);
            let mark = &rest[..rest.len() - trimmed.len()];
            let is_marked = mark.contains([':', '=']);
            // `on node n2`, `error: n2: …`: it has a digit.
            let is_plain = key == "node" && mark == " ";
            if is_begun || !is_marked && !is_plain {
                continue;
            }
            let end = trimmed
                .find(|it| !is_of_name(it) && !matches!(it, '[' | ']' | ','))
                .unwrap_or(trimmed.len());
            let value = &trimmed[..end];
            let is_loose =
                is_plain || matches!(key, "error" | "server" | "addr" | "nodes" | "hosts");
            let has_digit = value.contains(|it: char| it.is_ascii_digit());
            if (has_digit || !is_loose) && (key != "error" || trimmed[end..].starts_with(':')) {
                let is_certain = CERTAIN_KEYS.contains(&key);
                listed(value, &mut |name| found(name, is_certain));
            }
        }
    }
}

/// Hosts of a list: `n1,n2`, `n-[01-20,31]`.
fn listed(list: &str, found: &mut impl FnMut(&str)) {
    let mut rest = list;
    while !rest.is_empty() {
        let open = rest.find('[');
        let comma = rest.find(',').unwrap_or(rest.len());
        let Some(open) = open.filter(|it| *it < comma) else {
            found(&rest[..comma]);
            rest = rest.get(comma + 1..).unwrap_or_default();
            continue;
        };
        let close = rest.find(']').unwrap_or(rest.len());
        let stem = &rest[..open];
        for range in rest[open + 1..close.max(open + 1)].split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let width = first.len();
            if let (Ok(first), Ok(last), 0..=MOST_DIGITS) =
                (first.parse::<u32>(), last.parse::<u32>(), width)
            {
                for number in first..=last.min(first.saturating_add(MOST_LISTED)) {
                    found(&format!("{stem}{number:0width$}"));
                }
            }
        }
        rest = rest
            .get(close + 1..)
            .unwrap_or_default()
            .trim_start_matches(',');
    }
}

/// The serial number in a line.
pub(super) fn serial(line: &str) -> Option<&str> {
    let at = line.to_ascii_lowercase().find("serial")?;
    let rest = &line[at + "serial".len()..];
    let rest = rest.trim_start_matches([' ', '_', '-']);
    let lower = rest.to_ascii_lowercase();
    let word = ["number", "no"]
        .into_iter()
        .find(|it| lower.starts_with(it));
    let rest = &rest[word.map_or(0, str::len)..];
    let rest = rest.trim_start_matches([' ', ':', '\t', '=', '>', '"']);
    let end = rest
        .find(|it: char| !it.is_ascii_alphanumeric() && it != '-')
        .unwrap_or(rest.len());
    let has_digit = rest[..end].contains(|it: char| it.is_ascii_digit());
    (end >= 6 && has_digit).then_some(&rest[..end])
}

/// Calls `found` with users whose homes a line names.
pub(super) fn users(line: &str, found: &mut impl FnMut(&str)) {
    for home in ["/home/", "/Users/"] {
        for (at, _) in line.match_indices(home) {
            let rest = &line[at + home.len()..];
            let end = rest.find(|it| !is_of_name(it)).unwrap_or(rest.len());
            found(&rest[..end]);
        }
    }
}
