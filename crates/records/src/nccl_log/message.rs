//! Messages of NCCL in a line.
//!
//! A message is `HOST:PROCESS:THREAD [GPU] NCCL INFO text`, a warning
//! `[TIME] HOST:PROCESS:THREAD [GPU] FILE:LINE (FUNCTION) NCCL WARN text`. Before it may stand the
//! prefix of a launcher; in it, the beginning of another one, because ranks write to one stream.

mod heads;

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::nccl_log::cursor;
pub(crate) use heads::Heads;

/// How a message was logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// `INFO`.
    Info,
    /// `WARN`, `ERROR` and, since 2.32, `ATTN`.
    Warn,
    /// `TRACE`, `CALL` and `ABORT`.
    Other,
}

/// The process that logged a message; the default: nobody knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Source<'a> {
    /// The host's name.
    pub host: &'a str,
    /// Its process.
    pub process: u32,
    /// Its thread.
    pub thread: u32,
    /// The process's number of the GPU; `None` without one.
    pub gpu: Option<u32>,
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// The process that logged it; `None` if it has no head.
    pub source: Option<Source<'a>>,
    /// How.
    pub level: Level,
    /// Where its head begins in the line, bytes; where its text begins if it has no head.
    pub begin: usize,
    /// Where in NCCL's sources a warning is: `FILE:LINE`.
    pub place: Option<&'a str>,
    /// Its text.
    pub text: &'a str,
    /// Another message follows in the same line, so this one may have lost its end.
    pub is_interrupted: bool,
}

/// The words before a text without the last space, and their level. Before 2.3 there was no
/// `NCCL`.
const WORDS: [(&str, Level); 8] = [
    ("NCCL INFO", Level::Info),
    ("NCCL WARN", Level::Warn),
    ("NCCL ATTN", Level::Warn),
    ("NCCL ERROR", Level::Warn),
    ("NCCL TRACE", Level::Other),
    ("NCCL CALL", Level::Other),
    ("NCCL ABORT", Level::Other),
    ("NCCL VERSION", Level::Other),
];

/// Names of hosts. They part a name from other text right before it.
pub trait Hosts {
    /// The length of the longest known host name at the end of a text.
    fn known_end(&self, text: &str) -> Option<usize>;
}

/// No host is known.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHosts;

impl Hosts for NoHosts {
    fn known_end(&self, _: &str) -> Option<usize> {
        None
    }
}

/// Calls a function with each message of a line. A line without a head is one message.
pub fn messages<'a>(line: &'a str, hosts: &impl Hosts, each: impl FnMut(Message<'a>)) {
    behind(line, find(line, line, hosts), hosts, each);
}

/// As [`messages`] without known hosts, with the heads that were read before.
pub(crate) fn messages_after<'a>(
    line: &'a str,
    heads: &mut Heads<'a>,
    each: impl FnMut(Message<'a>),
) {
    behind(line, heads.first(line), &NoHosts, each);
}

/// Calls a function with each message of a line, of which the first head is known.
fn behind<'a>(
    line: &'a str,
    first: Option<Head<'a>>,
    hosts: &impl Hosts,
    mut each: impl FnMut(Message<'a>),
) {
    let Some(mut head) = first else {
        let text = line;
        each(Message {
            source: None,
            level: Level::Info,
            begin: 0,
            place: None,
            text,
            is_interrupted: false,
        });
        return;
    };
    loop {
        let rest = &line[head.end..];
        let next = find(line, rest, hosts);
        let end = next.as_ref().map_or(line.len(), |next| next.begin);
        each(Message {
            source: head.source,
            level: head.level,
            begin: head.begin,
            place: head.place,
            text: line.get(head.end..end).unwrap_or(""),
            is_interrupted: next.is_some(),
        });
        match next {
            Some(next) => head = next,
            None => return,
        }
    }
}

/// The head of a message.
#[derive(Debug, Clone, Copy)]
struct Head<'a> {
    source: Option<Source<'a>>,
    level: Level,
    place: Option<&'a str>,
    /// Where the head begins in the line.
    begin: usize,
    /// Where the text begins in the line.
    end: usize,
}

/// Finds the word with which levels begin.
static NAME: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("NCCL "));

/// Finds the next head in the rest of a line.
fn find<'a>(line: &'a str, rest: &'a str, hosts: &impl Hosts) -> Option<Head<'a>> {
    let offset = line.len() - rest.len();
    let mut from = 0;
    while let Some(at) = NAME.find(&rest.as_bytes()[from..]) {
        let at = from + at;
        if let Some((word, level)) = level_at(&rest[at..]) {
            return Some(head(line, offset, offset + at, word, level, hosts));
        }
        from = at + 1;
    }
    old(line, offset, hosts)
}

/// The words at the beginning of a text. A text may be empty, so the last space may lack.
fn level_at(text: &str) -> Option<(usize, Level)> {
    match text.as_bytes().first_chunk() {
        Some(b"NCCL INFO ") => return Some((10, Level::Info)),
        _ if !text.starts_with("NCCL ") => return None,
        _ => {}
    }
    WORDS.into_iter().find_map(|(word, level)| {
        let rest = text.strip_prefix(word)?;
        match rest.as_bytes().first() {
            None => Some((word.len(), level)),
            Some(b' ') => Some((word.len() + 1, level)),
            Some(_) => None,
        }
    })
}

/// A head of NCCL 2.2 or older: `HOST:PROCESS:THREAD [GPU] INFO text`, and with a place before
/// `WARN`.
fn old<'a>(line: &'a str, offset: usize, hosts: &impl Hosts) -> Option<Head<'a>> {
    if offset > 0 {
        return None;
    }
    for (word, level) in [("] INFO ", Level::Info), (" WARN ", Level::Warn)] {
        if let Some(at) = cursor::find(line, "", word) {
            let begin = at + word.len() - 5;
            let found = head(line, 0, begin, 5, level, hosts);
            let is_behind = found.place.is_some() || line[..begin].ends_with("] ");
            if is_behind && found.source.is_some_and(|it| it.gpu.is_some()) {
                return Some(found);
            }
        }
    }
    None
}

/// Reads a head backwards from its level.
fn head<'a>(
    line: &'a str,
    offset: usize,
    at: usize,
    word: usize,
    level: Level,
    hosts: &impl Hosts,
) -> Head<'a> {
    let before = &line[offset..at];
    if let Some((begin, source)) = plain(line, before, hosts) {
        return Head {
            source: Some(source),
            level,
            place: None,
            begin: before_time(line, offset, begin).max(offset),
            end: (at + word).min(line.len()),
        };
    }
    let mut begin = at;
    let mut place = None;
    let mut gpu = None;
    let mut source = None;
    let mut words = before.split(' ').rev().filter(|word| !word.is_empty());
    // The place, the function, the GPU and the source are the last words.
    for text in words.by_ref().take(6) {
        let from = text.as_ptr() as usize - line.as_ptr() as usize;
        if let Some(number) = bracketed(text) {
            gpu = Some(number);
            begin = from;
        } else if let Some((name, process, thread)) = identity(text) {
            let known = (offset > 0).then(|| hosts.known_end(name)).flatten();
            let name = &name[name.len() - known.unwrap_or(name.len())..];
            begin = name.as_ptr() as usize - line.as_ptr() as usize;
            source = Some(Source {
                host: name,
                process,
                thread,
                gpu,
            });
            break;
        } else if is_place(text) {
            place = Some(text);
            begin = from;
        } else if text.starts_with('(') && text.ends_with(')') {
            begin = from;
        } else {
            break;
        }
    }
    if source.is_some() {
        begin = before_time(line, offset, begin);
    }
    Head {
        source,
        level,
        place,
        begin: begin.max(offset),
        end: (at + word).min(line.len()),
    }
}

/// Reads `HOST:PROCESS:THREAD [GPU] ` at the end of `before`, a part of the line: the source, and
/// where its host begins in the line. Most heads are like this, and this reads them with a tenth
/// of the instructions; `None` leaves them to [`head`].
fn plain<'a>(line: &'a str, before: &'a str, hosts: &impl Hosts) -> Option<(usize, Source<'a>)> {
    let offset = before.as_ptr() as usize - line.as_ptr() as usize;
    let bytes = before.as_bytes();
    let number = |end: usize| {
        let (mut from, mut value, mut scale) = (end, 0, 1);
        // More digits may be too large a number.
        while end - from < 9 && from > 0 && bytes[from - 1].is_ascii_digit() {
            from -= 1;
            value += scale * u32::from(bytes[from] - b'0');
            scale = scale.wrapping_mul(10);
        }
        (from < end).then_some((from, value))
    };
    let (end, gpu) = number(before_word(bytes, *b"] ")?.len())?;
    let (end, thread) = number(before_word(&bytes[..end], *b" [")?.len())?;
    let (end, process) = number(before_word(&bytes[..end], *b":")?.len())?;
    let end = before_word(&bytes[..end], *b":")?.len();
    let is_name = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'.' | b'_');
    let mut from = end;
    while from > 0 && is_name(bytes[from - 1]) {
        from -= 1;
    }
    let name = &before[from..end];
    if name.is_empty() {
        return None;
    }
    let known = (offset > 0).then(|| hosts.known_end(name)).flatten();
    let host = &name[name.len() - known.unwrap_or(name.len())..];
    let source = Source {
        host,
        process,
        thread,
        gpu: Some(gpu),
    };
    Some((offset + end - host.len(), source))
}

/// The bytes before a word at the end. Words of known length are compared as numbers.
fn before_word<const LENGTH: usize>(bytes: &[u8], word: [u8; LENGTH]) -> Option<&[u8]> {
    let (before, last) = bytes.split_last_chunk::<LENGTH>()?;
    (*last == word).then_some(before)
}

/// Where the time before a head begins: `[2026-05-05 06:16:47] `.
fn before_time(line: &str, offset: usize, begin: usize) -> usize {
    let before = line[offset..begin].trim_end();
    let is_time = |text: &str| {
        text.len() > 4
            && text
                .bytes()
                .all(|it| it.is_ascii_digit() || b"-:. T/".contains(&it))
    };
    let open = || {
        let inside = before.strip_suffix(']')?;
        let open = inside.rfind('[')?;
        is_time(&inside[open + 1..]).then_some(offset + open)
    };
    open().unwrap_or(begin)
}

/// `[3]`.
fn bracketed(text: &str) -> Option<u32> {
    text.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// `transport/net.cc:123`.
fn is_place(text: &str) -> bool {
    let Some((file, line)) = text.rsplit_once(':') else {
        return false;
    };
    let known = [".cc", ".h", ".cu", ".c", ".cpp", ".hpp"];
    !line.is_empty()
        && line.bytes().all(|it| it.is_ascii_digit())
        && known.iter().any(|end| file.ends_with(end))
}

/// `HOST:PROCESS:THREAD`, with the prefix of a launcher right before it.
fn identity(text: &str) -> Option<(&str, u32, u32)> {
    let (rest, thread) = text.rsplit_once(':')?;
    let (rest, process) = rest.rsplit_once(':')?;
    let is_name = |it: char| it.is_ascii_alphanumeric() || "-._".contains(it);
    let name = rest.rfind(|it| !is_name(it));
    let name = match name {
        Some(at) => rest.get(at..)?.trim_start_matches(|it| !is_name(it)),
        None => rest,
    };
    if name.is_empty() {
        return None;
    }
    Some((name, process.parse().ok()?, thread.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct KnownHost(&'static str);

    impl Hosts for KnownHost {
        fn known_end(&self, text: &str) -> Option<usize> {
            text.ends_with(self.0).then_some(self.0.len())
        }
    }

    fn all<'a>(line: &'a str, hosts: &impl Hosts) -> Vec<Message<'a>> {
        let mut all = Vec::new();
        messages(line, hosts, |it| all.push(it));
        all
    }

    #[test]
    fn launchers_write_before_the_head() {
        for prefix in [
            "",
            "  3: ",
            "[1,3]<stdout>:",
            "rank3:",
            "rank3: ",
            "(Worker pid=7, ip=10.0.0.1) ",
            "2026-05-05T06:16:47.123456789Z stdout F ",
            "node1: [3] ",
        ] {
            let line = format!("{prefix}host-a.x:12:345 [6] NCCL INFO Connected all rings");
            let [message] = all(&line, &NoHosts)[..] else {
                panic!("{line}");
            };
            let source = message.source.unwrap();
            assert_eq!((source.host, source.process), ("host-a.x", 12), "{line}");
            assert_eq!((source.thread, source.gpu), (345, Some(6)));
            assert_eq!(message.text, "Connected all rings");
        }
    }

    #[test]
    fn a_plain_head_is_read_as_any_other() {
        for (line, begin) in [
            ("[1,3]<stdout>:host-a.x:12:345 [6] NCCL INFO x", 14),
            ("h:1:2 [0] NCCL INFO ", 0),
            ("\u{e4}h:1:2 [0] NCCL INFO x", 2),
        ] {
            let end = line.find("NCCL").unwrap();
            let (found, source) = plain(line, &line[..end], &NoHosts).unwrap();
            assert_eq!(found, begin, "{line}");
            let gpu = source.gpu.unwrap();
            let written = format!(
                "{}:{}:{} [{gpu}] ",
                source.host, source.process, source.thread
            );
            assert_eq!(line[begin..end], written);
            let [message] = all(line, &NoHosts)[..] else {
                panic!("{line}");
            };
            assert_eq!((message.begin, message.source), (begin, Some(source)));
            // Two spaces make a head that is not plain, and is read the other way.
            let wide = line.replace(" [", "  [");
            let [message] = all(&wide, &NoHosts)[..] else {
                panic!("{wide}");
            };
            assert_eq!((message.begin, message.source), (begin, Some(source)));
        }
        for before in [
            "",
            "h:1:99999999999 [0] ",
            "h:1:2  [0] ",
            ":1:2 [0] ",
            "h:1:2 [+0] ",
        ] {
            assert!(plain(before, before, &NoHosts).is_none(), "{before}");
        }
    }

    #[test]
    fn a_warning_has_a_place_and_a_time() {
        let line = "[2026-05-05 06:16:47] n1:2:3 [1] plugin/net.cc:334 (f) NCCL WARN No NET";
        let [message] = all(line, &NoHosts)[..] else {
            panic!();
        };
        assert_eq!(message.level, Level::Warn);
        assert_eq!(message.place, Some("plugin/net.cc:334"));
        assert_eq!(message.source.unwrap().host, "n1");
        assert_eq!(message.text, "No NET");
    }

    #[test]
    fn messages_that_run_together_are_parted() {
        let line = "a1:1:2 [0] NCCL INFO Ring 00 : 3 -> 0 -> 1a1:1:5 [3] NCCL INFO Using network";
        let found = all(line, &KnownHost("a1"));
        assert_eq!(found[0].text, "Ring 00 : 3 -> 0 -> 1");
        assert!(found[0].is_interrupted);
        assert_eq!(found[1].source.unwrap().host, "a1");
        assert_eq!(found[1].text, "Using network");
    }

    #[test]
    fn old_heads_lack_a_word() {
        let found = all("b2:7:8 [1] INFO Ring 00 :    0   1", &NoHosts);
        assert_eq!(found[0].source.unwrap().gpu, Some(1));
        assert_eq!(found[0].text, "Ring 00 :    0   1");
        assert!(all("2026 [x] INFO hello", &NoHosts)[0].source.is_none());
        let line =
            "b2:7:8 [1] include/socket.h:360 WARN Call to connect failed : Connection timed out";
        let found = all(line, &NoHosts);
        assert_eq!(found[0].level, Level::Warn);
        assert_eq!(found[0].place, Some("include/socket.h:360"));
        assert_eq!(
            found[0].text,
            "Call to connect failed : Connection timed out"
        );
        let other = "b2:7:8 [1] the cache says WARN twice";
        assert_eq!(all(other, &NoHosts)[0].level, Level::Info);
    }
}
