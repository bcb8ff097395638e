//! The memory of communicators as a page.

use pages::numbers::count;
use pages::{Page, Section, Table, row};
use planner::memory::Bytes;

use super::{Communicator, Limit, MemoryReport};
use crate::head;

impl MemoryReport {
    /// The page, without the job's settings.
    pub fn page(&self) -> Page {
        let mut page = Page::new(&self.name);
        let hosts = count(self.hosts as usize, "host");
        let ranks = count(self.ranks as usize, "rank");
        page.field("job", format!("{hosts}, {ranks}"));
        page.field("nccl", head::version(&self.profile));
        let allocates = match (self.virtual_memory, self.connects_late) {
            (true, true) => "in pages of 2 MiB; an algorithm connects when it is first taken",
            (true, false) => "in pages of 2 MiB; all algorithms connect at the start",
            (false, _) => "without virtual memory; all algorithms connect at the start",
        };
        page.field("memory", allocates);
        for communicator in &self.communicators {
            let remark = "by purpose and first call, of the GPU that holds most";
            communicator.section(page.section(communicator.title(), remark));
        }
        let mut table = Table::new([">GPU", ">MiB on the GPU", ">MiB on the host"]);
        for it in &self.gpus {
            let (device, host) = (mebibytes(it.device_bytes), mebibytes(it.host_bytes));
            table.row(row![it.gpu, device, host]);
        }
        let remark = "the sum of these communicators";
        page.section("GPUs of the first host", remark).table(table);
        limits(page.section("limits", "what runs out first"), &self.limits);
        page
    }
}

impl Communicator {
    /// One communicator: memory by purpose and first call.
    fn section(&self, section: &mut Section) {
        let stages: Vec<_> = self.stages().collect();
        let mut headers = vec!["MiB on the GPU"];
        headers.extend(stages.iter().map(|stage| stage.name()));
        headers.extend(["sum", "on the host"]);
        let mut table = Table::new(headers);
        table.right = (1..table.headers.len()).collect();
        let mut add = |name: &str, of: &dyn Fn(usize) -> Bytes| {
            let parts: Vec<Bytes> = (0..stages.len()).map(of).collect();
            let mut cells = vec![name.to_owned()];
            cells.extend(parts.iter().map(|bytes| mebibytes(bytes.device)));
            let device = parts.iter().map(|bytes| bytes.device).sum();
            let host = parts.iter().map(|bytes| bytes.host).sum();
            cells.extend([mebibytes(device), mebibytes(host)]);
            table.row(cells);
        };
        for (purpose, by_stage) in self.table() {
            add(purpose.name(), &|at| {
                by_stage.get(&stages[at]).copied().unwrap_or_default()
            });
        }
        add("sum", &|at| self.most.total(|stage| stage == stages[at]));
        let connections: u32 = self.connections.iter().map(|it| it.number).sum();
        let objects: u32 = self.multicast_objects.iter().map(|it| it.number).sum();
        section.table(table).say(format!(
            "{} are set up; kernels have at most {} thread blocks, {} for NVLS and {} for transfers. Rank {} makes \
             {} of connections. A node makes {}.",
            count(self.channels as usize, "channel"),
            self.most_blocks,
            self.most_nvls_blocks,
            self.most_peer_blocks,
            self.rank,
            count(connections as usize, "end"),
            count(objects as usize, "multicast object"),
        ));
    }
}

fn limits(section: &mut Section, limits: &[Limit]) {
    if limits.is_empty() {
        section
            .say("Nothing that is known")
            .hint(": --gpu-memory says what GPUs have.");
        return;
    }
    let mut table = Table::new(["limit", ">taken", ">there are", ">such sets that fit"]);
    for limit in limits {
        let shown = |value| match limit.name {
            "GPU memory" => format!("{} MiB", mebibytes(value)),
            _ => value.to_string(),
        };
        let times = limit.times().unwrap_or(0);
        table.row(row![
            limit.name,
            shown(limit.taken),
            shown(limit.room),
            times
        ]);
    }
    section.table(table);
}

/// Bytes as MiB, with a tenth where it matters.
fn mebibytes(bytes: u64) -> String {
    let value = bytes as f64 / f64::from(1 << 20);
    match value {
        0.0 => "–".to_owned(),
        _ if value < 10.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
