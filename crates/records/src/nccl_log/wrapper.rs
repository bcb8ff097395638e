//! A program's line within that of a container, cloud, launcher or page.

use std::borrow::Cow;
use std::ops::Range;

/// The fields in which containers and clouds keep the line of a program: Docker, Fluent Bit, Google
/// Cloud, CloudWatch, Loki, journald.
const FIELDS: [&str; 8] = [
    "log",
    "message",
    "textPayload",
    "msg",
    "MESSAGE",
    "line",
    "body",
    "text",
];

/// A table's columns (CSV, TSV), of which one has the lines of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns {
    separator: char,
    before: usize,
    after: usize,
    /// Rows begin with a time; other lines are not rows.
    is_dated: bool,
}

impl Columns {
    /// Those of a table's first line, such as `@timestamp,@message`.
    pub(crate) fn of(first: &str) -> Option<Self> {
        let separator = if first.contains('\t') { '\t' } else { ',' };
        let names = first.split(separator);
        let names: Vec<&str> = names.map(|it| it.trim_matches(['"', '@'])).collect();
        let is_letter = |it: char| it.is_ascii_alphanumeric() || "_.-/@".contains(it);
        let is_name = |it: &&str| !it.is_empty() && it.chars().all(is_letter);
        let has_lines = |it: &&str| FIELDS.iter().any(|field| field.eq_ignore_ascii_case(it));
        // Without names, a row's first cell with a space is the program's.
        if begins_with_date(first) && first.as_bytes().get(10) == Some(&b'T') {
            let before = names.iter().position(|it| it.contains(' '))?;
            return (before > 0).then_some(Self {
                separator,
                before,
                after: 0,
                is_dated: true,
            });
        }
        let before = names.iter().position(has_lines)?;
        (names.len() > 1 && names.iter().all(is_name)).then_some(Self {
            separator,
            before,
            after: names.len() - before - 1,
            is_dated: false,
        })
    }

    /// The cell of a line without quoted cells. Only the program's may have separators in it.
    fn range(&self, line: &str) -> Option<Range<usize>> {
        if self.is_dated && !begins_with_date(line) {
            return None;
        }
        let places = || line.match_indices(self.separator).map(|it| it.0);
        let begin = match self.before {
            0 => 0,
            before => places().nth(before - 1)? + 1,
        };
        let end = match self.after {
            0 => line.len(),
            after => places().nth_back(after - 1)?,
        };
        (begin <= end).then_some(begin..end)
    }
}

/// Escapes of HTML, each with its character.
const ESCAPES: [(&str, &str); 6] = [
    ("&gt;", ">"),
    ("&lt;", "<"),
    ("&quot;", "\""),
    ("&#39;", "'"),
    ("&#34;", "\""),
    ("&amp;", "&"),
];

/// A line of a page without escapes; `None`: it has none.
pub(crate) fn unescaped(line: &str) -> Option<String> {
    memchr::memchr(b'&', line.as_bytes())?;
    let has_any = ESCAPES.iter().any(|it| line.contains(it.0));
    has_any.then(|| {
        let replaced = |line: String, (from, to): &(&str, &str)| line.replace(from, to);
        ESCAPES.iter().fold(line.to_owned(), replaced)
    })
}

/// Whether a line only frames others: a bracket, or a field of CloudWatch's events beside the
/// message.
pub(crate) fn is_frame(line: &str) -> bool {
    const KEYS: [&str; 4] = ["events", "timestamp", "ingestionTime", "logStreamName"];
    let line = line.trim_start_matches(' ');
    match line.as_bytes().first() {
        Some(b'{' | b'}' | b'[' | b']') => line.bytes().all(|it| b"{}[], ".contains(&it)),
        Some(b'"') => {
            let key = line[1..].split_once("\":").map(|it| it.0);
            key.is_some_and(|it| KEYS.contains(&it))
        }
        _ => false,
    }
}

/// The line of a program in a JSON object of one line, a field of one, or a row of a table, and
/// without notes behind it; other lines as they are.
pub(crate) fn unwrapped(line: Cow<'_, str>, columns: Option<Columns>) -> Cow<'_, str> {
    if !line.contains('"') {
        return without_notes(line, columns);
    }
    let begin = line.trim_start();
    let is_json = begin.starts_with('{') || begin.starts_with('"') && begin.contains("\":");
    let fields = FIELDS.iter().filter(|_| is_json);
    let field = fields.into_iter().find_map(|it| field_of(&line, it));
    let inner = field.or_else(|| quoted_cell(&line, columns));
    without_notes(inner.map_or(line, Cow::Owned), None)
}

/// A line without quotation marks: the cell of a program, without the name of its stream and Ray's
/// ` [repeated 5x across cluster]`.
pub(crate) fn without_notes(line: Cow<'_, str>, columns: Option<Columns>) -> Cow<'_, str> {
    let cell = columns.and_then(|it| it.range(&line));
    let line = match cell {
        Some(range) => cut(line, range),
        None => line,
    };
    let end = end(&line);
    match end < line.len() {
        true => cut(line, 0..end),
        false => line,
    }
}

/// Where a line ends without notes.
pub(crate) fn end(line: &str) -> usize {
    const STREAMS: [&str; 4] = ["\tstdout", "\tstderr", ",stdout", ",stderr"];
    let end = match line.as_bytes().last() {
        Some(b't' | b'r') => STREAMS
            .iter()
            .find_map(|it| line.strip_suffix(it))
            .map(str::len),
        Some(b']' | b')') if line.contains("x across cluster]") => line.rfind(" [repeated "),
        _ => None,
    };
    end.unwrap_or(line.len())
}

fn cut(line: Cow<'_, str>, range: Range<usize>) -> Cow<'_, str> {
    match line {
        Cow::Borrowed(line) => Cow::Borrowed(line.get(range).unwrap_or(line)),
        Cow::Owned(line) => Cow::Owned(line.get(range).unwrap_or(&line).to_owned()),
    }
}

/// The cell of a program in a row with quoted cells: that of the columns, or else the longest.
/// `None`: the line is no row.
fn quoted_cell(line: &str, columns: Option<Columns>) -> Option<String> {
    let separator = columns.map_or_else(
        || if line.contains("\t\"") { '\t' } else { ',' },
        |it| it.separator,
    );
    let mut cells: Vec<(bool, String)> = Vec::new();
    let mut rest = line;
    loop {
        let Some(inside) = rest.strip_prefix('"') else {
            let (cell, next) = rest.split_once(separator).unwrap_or((rest, ""));
            if cell.contains('"') {
                return None;
            }
            cells.push((false, cell.to_owned()));
            if cell.len() == rest.len() {
                break;
            }
            rest = next;
            continue;
        };
        // A row ends within a cell of several lines.
        let mut ends = inside.match_indices('"').map(|it| it.0);
        let mut end = inside.len();
        while let Some(at) = ends.next() {
            if inside[at + 1..].starts_with('"') {
                ends.next();
            } else {
                end = at;
                break;
            }
        }
        cells.push((true, inside[..end].replace("\"\"", "\"")));
        let next = inside.get(end + 1..).unwrap_or("");
        if next.is_empty() {
            break;
        }
        rest = next.strip_prefix(separator)?;
    }
    let is_row = cells.len() > 1 || line.ends_with('"');
    let own = columns.filter(|it| cells.len() == it.before + it.after + 1);
    let cell = match own {
        Some(columns) => cells.into_iter().nth(columns.before),
        None => cells
            .into_iter()
            .filter(|it| it.0)
            .max_by_key(|it| it.1.len()),
    };
    cell.filter(|_| is_row).map(|it| it.1)
}

/// The text of a field of a JSON object, without escapes and the end of the line. A text that is
/// cut ends where the line does.
fn field_of(line: &str, field: &str) -> Option<String> {
    let key = format!("\"{field}\"");
    let rest = line.split_once(&key)?.1.trim_start().strip_prefix(':')?;
    let mut chars = rest.trim_start().strip_prefix('"')?.chars();
    let mut text = String::with_capacity(rest.len());
    while let Some(next) = chars.next() {
        match next {
            '"' => break,
            '\\' => match chars.next()? {
                'n' | 'r' => text.push(' '),
                't' => text.push('\t'),
                'u' => {
                    let digits: String = chars.by_ref().take(4).collect();
                    let letter = u32::from_str_radix(&digits, 16)
                        .ok()
                        .and_then(char::from_u32);
                    text.push(letter.unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                other => text.push(other),
            },
            _ => text.push(next),
        }
    }
    text.truncate(text.trim_end().len());
    Some(text)
}

/// Most prefixes of a line.
const MOST_PREFIXES: usize = 4;

/// A line without what launchers, containers, system logs and quotations write before it. Texts
/// whose columns count are read so; what NCCL and PyTorch log is found behind any prefix.
pub fn bare(line: &str) -> &str {
    let mut rest = line;
    for _ in 0..MOST_PREFIXES {
        match PREFIXES.iter().find_map(|without| without(rest)) {
            Some(next) => rest = next,
            None => break,
        }
    }
    rest
}

/// Each returns the text behind one kind of prefix.
const PREFIXES: [fn(&str) -> Option<&str>; 8] = [
    quotation, bracket, actor, task, time, system_log, unit, service,
];

/// `> `.
fn quotation(line: &str) -> Option<&str> {
    let rest = line.strip_prefix('>')?;
    rest.is_empty()
        .then_some(rest)
        .or_else(|| rest.strip_prefix(' '))
}

/// `[1,0]<stdout>:`, `[prterun-n1-7@1,0]<stderr>: `, `[rank0]:`, `[default0]:`, `[trainer0|0]:`,
/// `[0]:`, `[0] `, `[pod/trainer-0/pytorch] `.
fn bracket(line: &str) -> Option<&str> {
    let (tag, rest) = line.strip_prefix('[')?.split_once(']')?;
    let stream = ["<stdout>:", "<stderr>:"];
    if let Some(rest) = stream.iter().find_map(|it| rest.strip_prefix(it)) {
        return Some(rest.strip_prefix(' ').unwrap_or(rest));
    }
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    let name = tag.trim_start_matches(|it: char| it.is_ascii_lowercase());
    let is_rank = name
        .split('|')
        .all(|it| is_number(it.trim_start_matches("rank")));
    match rest.strip_prefix(':') {
        Some(rest) if is_rank => Some(rest.strip_prefix(' ').unwrap_or(rest)),
        None if is_number(tag) || tag.starts_with("pod/") => rest.strip_prefix(' '),
        _ => None,
    }
}

/// `(Worker pid=7, ip=10.0.0.1) `, of Ray.
fn actor(line: &str) -> Option<&str> {
    let (by, rest) = line.strip_prefix('(')?.split_once(") ")?;
    by.contains(" pid=").then_some(rest)
}

/// `  3: `, of `srun -l`.
fn task(line: &str) -> Option<&str> {
    let (number, rest) = line.trim_start_matches(' ').split_once(": ")?;
    let is_task = number.len() <= 7 && number.bytes().all(|it| it.is_ascii_digit());
    (is_task && !number.is_empty()).then_some(rest)
}

/// `2026-05-05T06:16:47.123Z `, with the stream that a container's file names: `stdout F `.
fn time(line: &str) -> Option<&str> {
    let is_date = begins_with_date(line);
    let is_time = |it: char| it.is_ascii_digit() || "T:.,+-Z".contains(it);
    let rest = line.get(10..)?.trim_start_matches([' ', 'T']);
    let rest = rest.trim_start_matches(is_time).strip_prefix([' ', '\t'])?;
    let streams = ["stdout F ", "stderr F "];
    let inside = streams.iter().find_map(|it| rest.strip_prefix(it));
    is_date.then_some(inside.unwrap_or(rest))
}

/// Whether a line begins like `2026-05-05`.
fn begins_with_date(line: &str) -> bool {
    let date = line.as_bytes().first_chunk::<10>();
    date.is_some_and(|it| {
        it.iter().enumerate().all(|(at, it)| match at {
            4 | 7 => *it == b'-',
            _ => it.is_ascii_digit(),
        })
    })
}

/// `May 05 06:16:47 n1 slurmstepd[7]: `, or `<30>1 2026-05-05T06:16:47Z n1 trainer 7 - - `.
fn system_log(line: &str) -> Option<&str> {
    if line.starts_with('<') {
        return line.split_once(" - - ").map(|it| it.1);
    }
    const MONTHS: &str = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec";
    let is_month = line
        .get(..3)
        .is_some_and(|it| MONTHS.split(' ').any(|month| month == it));
    let rest = line.get(15..)?.strip_prefix(' ').filter(|_| is_month)?;
    rest.split_once(": ").map(|it| it.1)
}

/// `n1 python3[7]: `, behind a time.
fn unit(line: &str) -> Option<&str> {
    let (by, rest) = line.split_once("]: ")?;
    let (host, unit) = by.split_once(' ')?;
    let (name, process) = unit.split_once('[')?;
    let is_name = |it: &str| !it.is_empty() && !it.contains([' ', '[', ':']);
    let is_unit = process.bytes().all(|it| it.is_ascii_digit());
    (is_unit && is_name(host) && is_name(name)).then_some(rest)
}

/// `trainer-0-1  | `, of compose files.
fn service(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once(" | ")?;
    let name = name.trim_end();
    let is_name = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
    (!name.is_empty() && name.chars().all(is_name)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<String> {
        let mut lines = crate::nccl_log::line::Lines::new(bytes);
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push(line.into_owned());
        }
        all
    }

    #[test]
    fn lines_of_containers_are_unwrapped() {
        let docker = br#"{"log":"n1:7:9 [0] NCCL INFO Trees [0] 1/-1/-1-\u003e0-\u003e-1\n","stream":"stdout"}"#;
        assert_eq!(
            all(docker),
            ["n1:7:9 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1"]
        );
        let cloud = br#"{"insertId": "x", "textPayload": "say \"hi\" \\ there", "n": 1}"#;
        assert_eq!(all(cloud), [r#"say "hi" \ there"#]);
        assert_eq!(all(br#"{"log":"cut \"#), [r#"{"log":"cut \"#]);
        for other in [r#"{"rank": 3}"#, r#"{"log": 3}"#, "{", "{\"log\""] {
            assert_eq!(all(other.as_bytes()), [other]);
        }
    }

    #[test]
    fn rows_of_tables_are_unwrapped() {
        let said = "n1:7:9 [0] NCCL WARN say \"hi\", there";
        let quoted = said.replace('"', "\"\"");
        for row in [
            format!("2026-05-05T06:16:47.1Z,n1,\"{quoted}\""),
            format!("\"{quoted}\",2026-05-05T06:16:47.1Z,stdout"),
            format!("\"2026-05-05\",\"{quoted}\",\"\""),
            format!("2026-05-05\tn1\t\"{quoted}\"\tstdout"),
            format!("a,\"{quoted}"),
        ] {
            assert_eq!(all(row.as_bytes()), [said], "{row}");
        }
        let table =
            b"@timestamp,@message,@logStream\n1,Using network IB, all,n1-7\n2,\"a, b\",n\nhalf\n";
        let rows = ["Using network IB, all", "a, b", "half"];
        assert_eq!(all(table)[1..], rows);
        assert_eq!(all(b"stream\tline\n7\ta,b\n")[1], "a,b");
        for other in [
            r#"["a","b"]"#,
            r#"print("x", "y")"#,
            r#"{'a': 1,"b"}"#,
            "The log, line by line",
            "1,2,3",
            "a \"b\"",
        ] {
            assert_eq!(all(other.as_bytes()), [other]);
        }
    }

    #[test]
    fn notes_behind_a_line_are_removed() {
        for note in [
            " [repeated 5x across cluster]",
            " [repeated 15x across cluster] (Ray deduplicates logs by default.)",
            ",stderr",
        ] {
            assert_eq!(
                all(format!("Last error:{note}").as_bytes()),
                ["Last error:"]
            );
        }
        assert_eq!(all(b"ring [repeated]"), ["ring [repeated]"]);
    }

    #[test]
    fn prefixes_are_removed() {
        for prefix in [
            "",
            "> ",
            "> > ",
            "[1,0]<stdout>:",
            "[prterun-n1-7@1,0]<stderr>: ",
            "[rank0]:",
            "[default0]: ",
            "[trainer0|0]:",
            "[3] ",
            "[pod/trainer-0/pytorch] 2026-05-05T06:16:47.123456789Z ",
            "(Worker pid=7, ip=10.0.0.1) ",
            "  3: ",
            "2026-05-05T06:16:47.123456789Z stdout F ",
            "2026-05-05T06:16:47.123Z\t",
            "2026-05-05 06:16:47,123 ",
            "May 05 06:16:47 n1 slurmstepd[7]: ",
            "2026-05-05T06:16:47+0000 n1 python3[7]: ",
            "<30>1 2026-05-05T06:16:47.1Z n1 trainer 7 - - ",
            "trainer-0-1  | ",
        ] {
            for text in [
                "   0-0  8 ranks",
                "0000:3b:00.0 Ethernet",
                "| a | b |",
                "Group # : 3",
            ] {
                let line = format!("{prefix}{text}");
                assert_eq!(bare(&line).trim_start(), text.trim_start(), "{prefix}");
            }
        }
    }
}
