//! Collects tables from lines, in bounded memory.

use program::Collective;

use crate::markdown::{self, Headings};
use crate::named::{self, Damaged, NamedColumns};
use crate::program_name;
use crate::results::{Device, Results, Row, Table, Tool, UnreadHeader};
use crate::row::{Header, Layout, OpenRow, header};

/// Most tables, rows and GPUs of ranks that are kept.
const MOST_TABLES: usize = 10_000;
const MOST_ROWS: usize = 200_000;
const MOST_DEVICES: usize = 1 << 18;

/// Most headers of a file that are reported as not understood.
const MOST_UNREAD: usize = 4;

/// Most characters of such a header that are kept.
const MOST_HEADER: usize = 120;

/// Most characters of a name that is kept.
const MOST_NAME: usize = 200;

/// Collects what lines say.
#[derive(Debug, Default)]
pub struct Collector {
    results: Results,
    /// The facts about the table that is being read.
    table: Table,
    layout: Layout,
    /// The columns of a table that is not as nccl-tests prints it.
    named: Option<NamedColumns>,
    /// The line and text of the header of a table of a Markdown page.
    header: (u64, String),
    headings: Headings,
    unread: usize,
    /// The next header's only placement is in place.
    only_in_place: bool,
    open: Option<OpenRow>,
    /// The line at which the row that is being read begins, from 1.
    open_line: u64,
    /// The line, from 1.
    line: u64,
    rows: usize,
    devices: usize,
}

impl Collector {
    /// Begins a file.
    pub fn begin(&mut self, file: &str) {
        self.close_row();
        self.close_table();
        self.table = Table {
            file: file.to_owned(),
            ..Table::default()
        };
        self.layout = Layout::default();
        self.named = None;
        self.headings = Headings::default();
        self.unread = 0;
        self.only_in_place = false;
        self.line = 0;
        self.results.files.push(file.to_owned());
    }

    /// Takes the next line, without its end.
    pub fn line(&mut self, line: &str) {
        self.line += 1;
        self.results.lines += 1;
        if line.trim_start().starts_with('|')
            && let Some(found) = markdown::line(line, self.named.as_ref())
        {
            match found {
                markdown::Line::Header(columns) => {
                    self.named_columns(columns);
                    self.of_headings();
                    self.header = (self.line, line.trim().chars().take(MOST_HEADER).collect());
                }
                markdown::Line::Row(row) => self.named_row(row),
                markdown::Line::Other => {}
            }
            return;
        }
        if let Some(found) = self.named.as_ref().and_then(|it| it.row(line)) {
            self.named_row(found);
            return;
        }
        if let Some(open) = OpenRow::begin(line, self.layout) {
            self.close_row();
            if self.table.rows.is_empty() {
                self.table.line = self.line;
            }
            self.open = Some(open);
            self.open_line = self.line;
            return;
        }
        if let Some(open) = &mut self.open
            && open.proceed(line)
        {
            return;
        }
        // NCCL's own lines say little of tables, and are most of a log.
        match line.contains("NCCL INFO ") {
            true => {}
            false => self.remark(line),
        }
    }

    /// A row of columns with names.
    fn named_row(&mut self, found: Result<Row, Damaged>) {
        self.close_row();
        if self.table.rows.is_empty() {
            self.table.line = self.line;
        }
        self.open_line = self.line;
        match found {
            Ok(row) => self.keep(row),
            Err(Damaged) => self.damaged(),
        }
    }

    /// Takes a table of another source.
    pub fn table(&mut self, table: Table) {
        self.close_row();
        self.close_table();
        self.table = table;
        self.close_table();
    }

    /// Ends.
    pub fn finish(mut self) -> Results {
        self.close_row();
        self.close_table();
        self.results
    }

    /// A line that is no row.
    fn remark(&mut self, line: &str) {
        if let Some(header) = header(line) {
            match header {
                Header::Placements(only) => self.only_in_place = only,
                Header::Columns(layout) => {
                    self.next_table();
                    self.named = None;
                    if self.table.tool == Tool::Osu {
                        self.table.tool = Tool::NcclTests;
                    }
                    self.layout = layout.only_in_place(self.only_in_place);
                }
            }
        } else if named::is_header(line) {
            self.other_header(line);
        } else if let Some((program, collective)) = named::osu(line) {
            self.next_job();
            self.table.tool = Tool::Osu;
            self.table.program = Some(program.to_owned());
            self.table.collective = collective;
        } else if let Some(device) = device(line) {
            // The list of GPUs stands before the table.
            self.next_table();
            if self.devices < MOST_DEVICES {
                self.devices += 1;
                self.table.devices.push(device);
            } else {
                self.results.is_full = true;
            }
        } else if self.headings.take(line) {
            self.next_job();
            self.of_headings();
        } else if line.contains("# nThread ") {
            self.next_job();
        } else if let Some(rest) = after(line, "NCCL version ") {
            self.version(rest.split_whitespace().next().unwrap_or(""));
        } else if let Some(code) = after(line, "nccl-library=") {
            self.next_job();
            if let Some(version) = version_of_code(code) {
                self.version(&version);
            }
        } else if line.contains("rccl-tests") {
            self.table.tool = Tool::RcclTests;
        } else if let Some(rest) = after(line, "# Out of bounds values") {
            self.table.out_of_bounds = value(rest);
        } else if let Some(rest) = after(line, "# Avg bus bandwidth") {
            self.table.average_bus_gbps = value(rest);
        }
        if line.contains("_perf") {
            self.command(line);
        } else if line.contains("osu_")
            && let Some(ranks) = named::ranks_of_command(line)
        {
            self.next_job();
            self.table.ranks = Some(ranks);
        }
    }

    /// A header with other columns than those of nccl-tests.
    fn other_header(&mut self, line: &str) {
        match NamedColumns::of(line) {
            Some(mut named) => {
                named.only_in_place = self.only_in_place;
                self.named_columns(named);
            }
            None => {
                self.next_table();
                self.named = None;
                self.unread(self.line, line);
            }
        }
    }

    /// What the headings above say of the table.
    fn of_headings(&mut self) {
        if let Some((collective, ranks)) = self.headings.subject() {
            self.table.collective = collective;
            self.table.ranks = ranks;
        }
    }

    /// A header whose columns have names.
    fn named_columns(&mut self, named: NamedColumns) {
        self.next_table();
        self.table.lacks_bus = !named.has_bus();
        self.named = Some(named);
    }

    /// Notes a header of a table that is left out.
    fn unread(&mut self, line: u64, text: &str) {
        self.unread += 1;
        if self.unread <= MOST_UNREAD {
            self.results.unread.push(UnreadHeader {
                file: self.table.file.clone(),
                line,
                text: text.trim().chars().take(MOST_HEADER).collect(),
            });
        }
    }

    /// A line that names a program: its command, or its beginning or end.
    fn command(&mut self, line: &str) {
        let Some((program, collective)) = program_name::in_text(line) else {
            return;
        };
        if line.contains("test concluded") {
            if self.table.program.is_none() {
                self.table.program = Some(program);
                self.table.collective = collective;
            }
            return;
        }
        self.next_job();
        self.table.program = Some(program);
        self.table.collective = collective;
        for word in line.split_whitespace() {
            if let Some((name, value)) = setting(word) {
                self.table.settings.push((name, value));
            }
        }
    }

    fn version(&mut self, text: &str) {
        let number = text.split('+').next().unwrap_or(text);
        let is_version = number.contains('.') && number.starts_with(|it: char| it.is_ascii_digit());
        if is_version && number.len() < MOST_NAME {
            self.next_table();
            self.table.nccl = Some(number.to_owned());
        }
    }

    /// Another table of the same job begins, if this one has rows.
    fn next_table(&mut self) {
        self.close_row();
        if self.table.rows.is_empty() {
            return;
        }
        let kept = Table {
            file: self.table.file.clone(),
            tool: self.table.tool,
            nccl: self.table.nccl.clone(),
            ..Table::default()
        };
        let (program, collective) = (self.table.program.clone(), self.table.collective);
        let is_repeated = self.table.average_bus_gbps.is_none();
        let (devices, settings) = (self.table.devices.clone(), self.table.settings.clone());
        self.close_table();
        self.table = kept;
        if is_repeated {
            // The program has not ended: it prints its header once more.
            self.table.program = program;
            self.table.collective = collective;
            self.table.devices = devices;
            self.table.settings = settings;
        }
    }

    /// Another job begins, if this one has rows.
    fn next_job(&mut self) {
        self.next_table();
        if self.open.is_none() && self.table.rows.is_empty() {
            self.layout = Layout::default();
            self.named = None;
        }
    }

    fn close_row(&mut self) {
        match self.open.take().map(OpenRow::close) {
            Some(Some(row)) => self.keep(row),
            Some(None) => self.damaged(),
            None => {}
        }
    }

    fn keep(&mut self, row: Row) {
        if self.rows >= MOST_ROWS {
            self.results.is_full = true;
            return;
        }
        self.rows += 1;
        self.table.rows.push(row);
    }

    fn damaged(&mut self) {
        self.table.damaged += 1;
        if self.table.first_damaged == 0 {
            self.table.first_damaged = self.open_line.max(1);
        }
    }

    fn close_table(&mut self) {
        if self.table.rows.is_empty() && self.table.damaged == 0 {
            return;
        }
        let mut table = std::mem::take(&mut self.table);
        if !markdown::times_of_bandwidths(&mut table) {
            let (line, header) = std::mem::take(&mut self.header);
            self.table.file = table.file;
            self.unread(line, &header);
            return;
        }
        if self.results.tables.len() >= MOST_TABLES {
            self.results.is_full = true;
            return;
        }
        if table.collective.is_none() && table.program.is_none() && !table.lacks_bus {
            table.collective = program_name::guess(&table.rows, table.rank_count());
            table.is_guessed = table.collective.is_some();
        }
        // Programs print a reduction or a root also where the collective has none.
        if let Some(collective) = table.collective {
            for row in &mut table.rows {
                row.root = row.root.filter(|_| Collective::has_root(collective));
            }
        }
        if table.tool == Tool::Osu {
            named::whole_messages(&mut table);
        }
        self.results.tables.push(table);
    }
}

/// The text after some words.
fn after<'a>(line: &'a str, words: &str) -> Option<&'a str> {
    line.split_once(words).map(|(_, rest)| rest)
}

/// The value in ` : 28.2632 OK`.
fn value<T: std::str::FromStr>(text: &str) -> Option<T> {
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
fn device(line: &str) -> Option<Device> {
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

    const JOB: &str = "\
NCCL version 2.27.7+cuda12.9
# nThread 1 nGpus 2 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid  65704 on       mew0 device  0 [0000:17:00] NVIDIA A100-PCIE-40GB
#  Rank  1 Group  0 Pid  65704 on       mew1 device  0 [0x65] NVIDIA A100-PCIE-40GB
#
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
     1048576        262144     float     sum      -1    52.40   20.01   20.01      0    52.40   20.01   20.01      0
     2097152        524288     float     sum      -1    84.00   24.97   24.97      0    84.00   24.97   24.97      1
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 22.49
#
";

    fn read(text: &str) -> Results {
        let mut collector = Collector::default();
        collector.begin("job");
        text.lines().for_each(|line| collector.line(line));
        collector.finish()
    }

    #[test]
    fn jobs_of_one_file_are_parted() {
        let command = "+ NCCL_ALGO=Ring ./build/all_gather_perf -g 2\n";
        let results = read(&format!("{JOB}{command}{JOB}"));
        let [first, second] = &results.tables[..] else {
            panic!("{results:?}");
        };
        assert_eq!((first.rows.len(), first.line), (2, 9));
        assert_eq!(first.nccl.as_deref(), Some("2.27.7"));
        assert_eq!((first.rank_count(), first.host_count()), (Some(2), Some(2)));
        assert_eq!(first.collective, Some(Collective::AllReduce));
        assert!(first.is_guessed);
        assert_eq!((first.average_bus_gbps, first.wrong()), (Some(22.49), 1));
        assert_eq!(second.collective, Some(Collective::AllGather));
        assert!(!second.is_guessed);
        assert_eq!(
            second.settings,
            [("NCCL_ALGO".to_owned(), "Ring".to_owned())]
        );
        assert_eq!(second.devices.len(), 2);
        assert_eq!(second.devices[1].bus, "0x65");
    }

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
