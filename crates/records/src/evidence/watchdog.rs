//! Lines of PyTorch about collectives that do not end: its watchdog, its monitor, reports of
//! `TORCH_NCCL_DESYNC_DEBUG` and `TORCH_DISTRIBUTED_DEBUG=DETAIL`.

/// Words of which every line that [`read`] reads has one, but those of [`frame`].
pub const WORDS: [&str; 11] = [
    "Watchdog caught collective operation timeout",
    "detected by watchdog at work",
    "Heartbeat monitor timed out",
    "watchdog got stuck for",
    "dump signal",
    "Stack trace of the failed collective",
    "but didn't join collective",
    "joined but didn't finish collective",
    "never joined any collectives",
    "Detected mismatch between collectives on ranks",
    "failed to pass monitoredBarrier",
];

/// The word that every line that [`frame`] reads has. Other lines have it, too.
pub const FRAME: &str = ".py:";

/// Who logged a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct By {
    /// Its rank in the job.
    pub global: Option<u32>,
    /// Its rank in the group.
    pub local: Option<u32>,
    /// The group: number, unique name and description, if the line has them.
    pub group: Option<String>,
}

/// A collective that did not end in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeout {
    /// The rank that waits.
    pub by: By,
    /// The number of the collective in its group.
    pub sequence: Option<u64>,
    /// The function, such as `ALLREDUCE`.
    pub function: String,
    /// Elements that go in and come out.
    pub elements: Option<[u64; 2]>,
    /// The time limit, ms.
    pub limit: Option<u64>,
    /// How long it ran, ms.
    pub ran: Option<u64>,
}

/// How far a rank came in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The rank.
    pub by: By,
    /// The collective that failed.
    pub sequence: u64,
    /// The last collective that the rank called, and the last one that it finished.
    pub last: Option<[i64; 2]>,
}

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A collective did not end in time.
    Timeout(Timeout),
    /// How far the rank came.
    Progress(Progress),
    /// The monitor found the watchdog stuck.
    Stuck(By),
    /// A timeout made the rank write its recorder: the last collective that it called in its group,
    /// and the last one that it finished.
    Signal(By, Option<[i64; 2]>),
    /// A frame of the failed collective's stack follows in the next lines.
    Stack(By),
    /// A frame: `all_reduce from …/distributed_c10d.py:2696`.
    Frame(String),
    /// Ranks finished one collective, and did not join the next.
    NotJoined(Vec<u32>, Option<u64>),
    /// Ranks joined a collective, and did not finish it.
    NotFinished(Vec<u32>, u64),
    /// Two ranks are in different collectives: rank and text of each.
    Mismatch([(u32, String); 2]),
    /// Ranks did not pass a barrier that is watched.
    Barrier(Vec<u32>),
}

/// Reads a line.
pub fn read(line: &str) -> Option<Event> {
    if let Some(rest) = after(line, "Watchdog caught collective operation timeout") {
        return Some(Event::Timeout(timeout(line, rest)));
    }
    if let Some(rest) = after(line, "detected by watchdog at work") {
        let rest = rest.strip_prefix(" sequence id").unwrap_or(rest);
        let sequence = number(rest.trim_start_matches([':', ' ']))?;
        let signed = |words: [&str; 2]| {
            let rest = words.into_iter().find_map(|it| after(rest, it))?;
            let (sign, digits) = match rest.strip_prefix('-') {
                Some(digits) => (-1, digits),
                None => (1, rest),
            };
            Some(sign * i64::try_from(number(digits)?).ok()?)
        };
        let called = signed(["last enqueued work: ", "last enqueued NCCL work: "]);
        let finished = signed(["last completed work: ", "last completed NCCL work: "]);
        return Some(Event::Progress(Progress {
            by: by(line),
            sequence,
            last: called
                .zip(finished)
                .map(|(called, finished)| [called, finished]),
        }));
    }
    if line.contains("Heartbeat monitor timed out") || line.contains("watchdog got stuck for") {
        return Some(Event::Stuck(by(line)));
    }
    if line.contains("Received a dump signal") || line.contains("Received a global dump signal") {
        return Some(Event::Signal(by(line), last(line)));
    }
    if line.contains("Stack trace of the failed collective:") {
        return Some(Event::Stack(by(line)));
    }
    if let Some(rest) = after(line, "Detected mismatch between collectives on ranks") {
        return mismatch(rest);
    }
    if line.contains("failed to pass monitoredBarrier") {
        let words = before(line, "failed to pass monitoredBarrier")?;
        let from = words.rfind("Rank")?;
        return Some(Event::Barrier(numbers(&words[from..])));
    }
    desync(line).or_else(|| frame(line))
}

/// The last collective that a rank called, and the last one that it finished; −1 is none.
fn last(text: &str) -> Option<[i64; 2]> {
    let signed = |words: [&str; 3]| {
        let rest = words.into_iter().find_map(|it| after(text, it))?;
        let (sign, digits) = match rest.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, rest),
        };
        Some(sign * i64::try_from(number(digits)?).ok()?)
    };
    Some([
        signed([
            "ast enqueued work: ",
            "ast enqueued NCCL work: ",
            "ast enqueued: ",
        ])?,
        signed([
            "ast completed work: ",
            "ast completed NCCL work: ",
            "ast completed: ",
        ])?,
    ])
}

fn timeout(line: &str, rest: &str) -> Timeout {
    let field = |name: &str| number(after(rest, name)?);
    let function = after(rest, "OpType=").unwrap_or_default();
    let end = function.find([',', ')']).unwrap_or(function.len());
    Timeout {
        by: by(line),
        sequence: field("SeqNum="),
        function: function[..end].chars().take(64).collect(),
        elements: field("NumelIn=")
            .zip(field("NumelOut="))
            .map(|(into, out)| [into, out]),
        limit: field("Timeout(ms)="),
        ran: field("ran for "),
    }
}

/// `[rank13]:[E…] [PG ID 11 PG GUID 119(description) Rank 1]`, or `[PG 11 Rank 1]`.
fn by(line: &str) -> By {
    // A launcher's own prefix comes before PyTorch's.
    let head = before(line, "ProcessGroup").unwrap_or(line);
    let global = head.rfind("[rank").map(|at| &head[at + 5..]);
    let global = global.and_then(number);
    let place = after(line, "[PG ").map(|rest| rest.strip_prefix("ID ").unwrap_or(rest));
    let group = place.and_then(|rest| {
        let rest = after(rest, "PG GUID ").unwrap_or(rest);
        let end = rest.find(" Rank ").or_else(|| rest.find(']'))?;
        Some(rest[..end].chars().take(100).collect())
    });
    let local = after(line, "[Rank ").or_else(|| after(place?, " Rank "));
    By {
        global: global.and_then(|it| u32::try_from(it).ok()),
        local: local.and_then(number).and_then(|it| u32::try_from(it).ok()),
        group,
    }
}

fn mismatch(rest: &str) -> Option<Event> {
    let side = |text: &str| {
        let rank = u32::try_from(number(after(text, "Rank ")?)?).ok()?;
        let call = after(text, "is running collective: ")?;
        let call = call.strip_prefix("CollectiveFingerPrint(").unwrap_or(call);
        // Sizes contain commas; the type's text begins the part of no interest.
        let end = call
            .find(", TensorDeviceTypes")
            .or_else(|| call.find("), but"))
            .or_else(|| call.find(").Collectives differ"));
        let call = &call[..end.unwrap_or(call.len())];
        Some((
            rank,
            call.trim_end_matches([')', '.', ' '])
                .chars()
                .take(160)
                .collect(),
        ))
    };
    let (first, second) = rest
        .split_once(", but Rank ")
        .map(|(first, second)| (first, format!("Rank {second}")))?;
    Some(Event::Mismatch([side(first)?, side(&second)?]))
}

fn desync(line: &str) -> Option<Event> {
    if line.contains("never joined any collectives") {
        let list = line
            .rfind('[')
            .map(|at| numbers(line[at..].split(']').next().unwrap_or_default()));
        return Some(Event::NotJoined(list?, None));
    }
    if let Some(words) = before(line, "but didn't join collective") {
        let list = words
            .rfind('[')
            .map(|at| numbers(words[at..].split(']').next().unwrap_or_default()));
        let next = after(line, "but didn't join collective #").and_then(number);
        return Some(Event::NotJoined(list?, next));
    }
    let words = before(line, "joined but didn't finish collective")?;
    let list = words
        .rfind('[')
        .map(|at| numbers(words[at..].split(']').next().unwrap_or_default()));
    let sequence = after(line, "joined but didn't finish collective #").and_then(number);
    Some(Event::NotFinished(list?, sequence?))
}

/// Reads a frame of a stack, such as `#2 step from /home/user/train.py:15`.
pub fn frame(line: &str) -> Option<Event> {
    let text = line.trim_start().strip_prefix('#')?;
    let (place, text) = text.split_once(' ')?;
    let is_frame = place.bytes().all(|it| it.is_ascii_digit()) && text.contains(" from ");
    (is_frame && text.contains(".py:")).then(|| Event::Frame(text.chars().take(200).collect()))
}

/// Whether a frame is PyTorch's own.
pub fn is_own(frame: &str) -> bool {
    frame.contains("/torch/") || frame.contains(" from torch/")
}

fn after<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    text.find(words).map(|at| &text[at + words.len()..])
}

fn before<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    text.find(words).map(|at| &text[..at])
}

fn number(text: &str) -> Option<u64> {
    let end = text.find(|it: char| !it.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().ok()
}

/// All numbers of a text, at most 4,096.
fn numbers(text: &str) -> Vec<u32> {
    let words = text.split(|it: char| !it.is_ascii_digit());
    words
        .filter_map(|it| it.parse().ok())
        .take(1 << 12)
        .collect()
}
