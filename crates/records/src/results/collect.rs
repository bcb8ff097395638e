//! Collects tables from lines, in bounded memory.

use std::sync::Arc;

use program::Collective;

use crate::results::facts::{MOST_NAME, after, device, setting, value, version_of_code};
use crate::results::inspector::Timed;
use crate::results::markdown::{self, Headings};
use crate::results::named::{self, NamedColumns};
use crate::results::program_name;
use crate::results::row::{Header, Layout, OpenRow, header};
use crate::results::values::{Damage, Device, Results, Row, Table, Tool, UnreadHeader};

/// Most tables, rows and GPUs of ranks that are kept. A row and what is predicted for it take about
/// 500 bytes.
const MOST_TABLES: usize = 10_000;
const MOST_ROWS: usize = 1 << 17;
const MOST_DEVICES: usize = 1 << 18;

/// Most headers of a file that are reported as not understood.
const MOST_UNREAD: usize = 4;

/// Most characters of such a header that are kept.
const MOST_HEADER: usize = 120;

/// What was last read of a job, in the order in which programs print it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// Its command, or nothing.
    #[default]
    Command,
    /// The line with `# nThread`.
    Header,
    /// The list of GPUs.
    Devices,
    /// Rows of a table.
    Rows,
}

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
    part: Part,
    /// A command came after the job's header, perhaps that of the next job: the settings before
    /// it.
    renamed: Option<usize>,
    /// The line, from 1.
    line: u64,
    rows: usize,
    devices: usize,
    /// What Inspector timed, of all files.
    timed: Timed,
}

impl Collector {
    /// Adds to what Inspector timed in other files, since each rank writes its own.
    pub fn after(timed: Timed) -> Self {
        Self {
            timed,
            ..Self::default()
        }
    }

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
        (self.part, self.renamed) = (Part::Command, None);
        self.line = 0;
        self.timed.begin();
        self.results.files.push(file.to_owned());
    }

    /// Takes the next line, without its end.
    pub fn line(&mut self, line: &str) {
        self.line += 1;
        self.results.lines += 1;
        if self.timed.line(&self.table.file, self.line, line) {
            return;
        }
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
            self.begin_row();
            self.open = Some(open);
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
    fn named_row(&mut self, found: Result<Row, Damage>) {
        self.begin_row();
        self.end_row(found);
    }

    /// Begins a row in this line.
    fn begin_row(&mut self) {
        self.close_row();
        if self.table.rows.is_empty() {
            self.table.line = self.line;
        }
        self.open_line = self.line;
        (self.part, self.renamed) = (Part::Rows, None);
    }

    /// Takes a table of another source.
    pub fn table(&mut self, table: Table) {
        self.close_row();
        self.close_table();
        self.table = table;
        self.close_table();
    }

    /// What Inspector timed so far.
    pub fn take_timed(&mut self) -> Timed {
        self.results.is_full |= self.timed.is_full();
        std::mem::take(&mut self.timed)
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
            self.device(device);
        } else if self.headings.take(line) {
            self.next_job();
            self.of_headings();
        } else if line.contains("# nThread ") {
            self.begin_part(Part::Header);
        } else if line.contains("# Using devices") {
            self.begin_part(Part::Devices);
        } else if let Some(rest) = after(line, "NCCL version ") {
            self.version(rest.split_whitespace().next().unwrap_or(""));
        } else if let Some(code) = after(line, "nccl-library=") {
            self.begin_part(Part::Command);
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

    /// A GPU of the list before the table.
    fn device(&mut self, device: Device) {
        let first = self.table.devices.first();
        let again = |first: &Device| (first.rank, first.group) == (device.rank, device.group);
        if self.part == Part::Rows || first.is_some_and(again) {
            self.new_job();
        }
        self.part = Part::Devices;
        if self.devices < MOST_DEVICES {
            self.devices += 1;
            Arc::make_mut(&mut self.table.devices).push(device);
        } else {
            self.results.is_full = true;
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
        match line.contains("test starting") {
            true => self.begin_part(Part::Command),
            false => self.next_job(),
        }
        if self.part > Part::Command {
            self.renamed = Some(self.table.settings.len());
        }
        self.table.program = Some(program);
        self.table.collective = collective;
        let settings = line.split_whitespace().filter_map(setting);
        let settings: Vec<(String, String)> = settings.collect();
        if !settings.is_empty() {
            Arc::make_mut(&mut self.table.settings).extend(settings);
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
        if self.table.average_bus_gbps.is_some() {
            return self.new_job();
        }
        // The program has not ended: it prints its header once more.
        let next = Table {
            program: self.table.program.clone(),
            collective: self.table.collective,
            devices: Arc::clone(&self.table.devices),
            settings: Arc::clone(&self.table.settings),
            ..self.of_same_file()
        };
        self.close_table();
        self.table = next;
    }

    /// A part of a job's output begins: of the next job, if this one has this part or a later one.
    fn begin_part(&mut self, part: Part) {
        match self.part >= part.max(Part::Header) {
            true => self.new_job(),
            false => self.forget_columns(),
        }
        self.part = part;
    }

    /// Another job begins, if this one has rows.
    fn next_job(&mut self) {
        match self.part {
            Part::Rows => self.new_job(),
            _ => self.forget_columns(),
        }
    }

    /// Begins a job, which has nothing of the one before but a command that came after its header.
    fn new_job(&mut self) {
        self.close_row();
        let mut next = self.of_same_file();
        if let Some(before) = self.renamed.take() {
            next.program = self.table.program.take();
            next.collective = self.table.collective.take();
            let settings = self.table.settings.get(before..);
            next.settings = Arc::new(settings.unwrap_or_default().to_vec());
        }
        self.close_table();
        self.table = next;
        self.part = Part::Command;
        self.forget_columns();
    }

    /// An empty table of this file.
    fn of_same_file(&self) -> Table {
        Table {
            file: self.table.file.clone(),
            tool: self.table.tool,
            nccl: self.table.nccl.clone(),
            ..Table::default()
        }
    }

    fn forget_columns(&mut self) {
        self.layout = Layout::default();
        self.named = None;
    }

    fn close_row(&mut self) {
        if let Some(open) = self.open.take() {
            self.end_row(open.close());
        }
    }

    /// Keeps a row, or counts it.
    fn end_row(&mut self, found: Result<Row, Damage>) {
        match found {
            Ok(_) if self.rows >= MOST_ROWS => self.results.is_full = true,
            Ok(row) => {
                self.rows += 1;
                let line = self.open_line;
                self.table.rows.push(Row { line, ..row });
            }
            Err(damage) => self.table.leave_out(damage, self.open_line.max(1)),
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
        table.leave_out_contradictions();
        self.results.tables.push(table);
    }
}
