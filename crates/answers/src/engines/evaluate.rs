//! The evaluator: the rules of an engine ([`facts`](super::facts)) for a job and a message.

use std::collections::{BTreeMap, BTreeSet};

use plan::cost::DataType;

use super::facts::{Check, EngineFacts, EngineTable, Kernel, Link, Mode, Rule, Switch, Unit};
use super::host::{Host, Peer};
use super::text::{ByArchitecture, of_architecture};

/// Kernels take messages of multiples of this, bytes; other sizes are rare.
pub const GRAIN: u64 = 16;

/// Widths of the table of strategies: 2 to this power is the first.
const FIRST_WIDTH: u32 = 7;

/// A message of a job.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    /// Its size, bytes.
    pub bytes: u64,
    /// How it is called.
    pub mode: Mode,
}

/// An engine with its settings on some GPUs.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// All facts.
    pub facts: &'static EngineTable,
    /// The engine.
    pub engine: &'static EngineFacts,
    /// The place of its version.
    pub version: usize,
    /// The GPUs.
    pub host: &'a Host,
    /// Its settings.
    pub settings: &'a BTreeMap<String, String>,
    /// It runs on Linux.
    pub linux: bool,
    /// Type of the elements.
    pub data_type: DataType,
    /// Elements of a row.
    pub width: u64,
}

/// The method that takes a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The rule.
    pub rule: usize,
    /// The method.
    pub method: String,
    /// Its kernel.
    pub kernel: Option<String>,
    /// NCCL is called.
    pub is_nccl: bool,
}

fn normalized(value: &str) -> String {
    match value.to_ascii_lowercase().as_str() {
        "true" | "yes" => "1".to_owned(),
        "false" | "no" => "0".to_owned(),
        other => other.to_owned(),
    }
}

impl Switch {
    /// Whether the value in force is one that holds.
    pub(super) fn holds(&self, settings: &BTreeMap<String, String>) -> Result<(), String> {
        let value = settings.get(&self.name).unwrap_or(&self.default);
        let value = normalized(value);
        let named = |list: &[String]| list.contains(&value);
        if (self.is.is_empty() || named(&self.is)) && !named(&self.not) {
            return Ok(());
        }
        let wanted = self.is.first();
        let wanted = wanted.map(|it| format!("; {}={it} admits it", self.name));
        let default = match settings.contains_key(&self.name) {
            true => "",
            false => " by default",
        };
        let wanted = wanted.unwrap_or_default();
        Err(format!("{} is {value}{default}{wanted}", self.name))
    }
}

impl Setup<'_> {
    /// Whether a method serves such GPUs by the engine's version and settings, whatever the size.
    pub fn serves(&self, method: &str) -> bool {
        let rules = self.engine.rules.iter();
        let mut own = rules.filter(|it| it.method == method);
        own.any(|it| self.has(it) && self.gates(it).is_ok())
    }

    /// Whether the version has the rule.
    pub fn has(&self, rule: &Rule) -> bool {
        self.engine.has(rule, self.version)
    }

    /// All that must hold of settings and GPUs.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn gates(&self, rule: &Rule) -> Result<(), String> {
        if let Some(platform) = &rule.platform {
            return Err(format!("it is for {platform}"));
        }
        for switch in &rule.switches {
            switch.holds(self.settings)?;
        }
        if let Some(os) = &rule.os
            && (os == "linux") != self.linux
        {
            let own = if self.linux {
                "Linux"
            } else {
                "another system"
            };
            return Err(format!("not on {own}"));
        }
        if let Some(peer) = &rule.peer_is
            && peer != self.host.peer.name()
        {
            return Err(format!("peer access is {}", self.host.peer.name()));
        }
        if let Some(first) = rule.unless.iter().find(|it| self.serves(it)) {
            return Err(format!("{first} serves these GPUs"));
        }
        let (sm, ranks) = (self.host.sm, self.host.ranks);
        let arch = self.host.architecture();
        if rule.arch.as_ref().is_some_and(|it| !it.has(sm))
            || rule.not_arch.as_ref().is_some_and(|it| it.has(sm))
        {
            return Err(format!("not for GPUs of {arch}"));
        }
        let by_arch = rule.ranks_by_arch.as_ref();
        let known = match by_arch.map(|it| of_architecture(it, sm)) {
            Some(None) => return Err(format!("not for GPUs of {arch}")),
            Some(own) => own,
            None => rule.ranks.as_ref(),
        };
        if known.is_some_and(|it| !it.0.contains(&ranks)) {
            return Err(format!("not for {ranks} GPUs"));
        }
        self.link(rule.link)?;
        self.peers(rule)
    }

    fn link(&self, link: Option<Link>) -> Result<(), String> {
        let host = self.host;
        let refused = match link {
            Some(Link::Multicast) if !host.multicast => "the GPUs have no multicast (NVSwitch)",
            Some(Link::Nvlink) if !host.nvlink => "NVLink does not join every pair",
            Some(Link::NvlinkOrPair) if host.ranks != 2 && !host.nvlink => {
                "more than two GPUs, and NVLink does not join every pair"
            }
            Some(_) if host.peer == Peer::None => "the driver grants no peer access",
            _ => return Ok(()),
        };
        Err(refused.to_owned())
    }

    fn peers(&self, rule: &Rule) -> Result<(), String> {
        let tests = rule.write_test.as_ref();
        let writes = tests.is_some_and(|it| it.holds(self.settings).is_ok());
        let refused = match (self.host.peer, rule.check) {
            (Peer::None, Some(_)) => "the driver grants no peer access",
            (Peer::WritesLost, _) if writes => "its write test fails: writes to peers are lost",
            (Peer::IpcFails, _) if writes => {
                "its write test fails: CUDA IPC cannot open the memory"
            }
            (Peer::IpcFails, Some(Check::Ipc)) => "CUDA IPC cannot open the peers' memory",
            _ => return Ok(()),
        };
        Err(refused.to_owned())
    }

    /// A size in a unit. Rows count whole, and at least one.
    fn measure(&self, unit: Unit, bytes: u64) -> u64 {
        let (element, ranks) = (
            u64::from(self.data_type.bytes()),
            u64::from(self.host.ranks),
        );
        match unit {
            Unit::Bytes => bytes,
            Unit::AllRanks => bytes.saturating_mul(ranks),
            Unit::PerRank => bytes / ranks.max(1),
            Unit::Wire => bytes.saturating_mul(2) / element,
            Unit::Elements => bytes / element,
            Unit::Rows => (bytes / self.row()).max(1),
        }
    }

    /// Bytes of a row.
    pub fn row(&self) -> u64 {
        (self.width * u64::from(self.data_type.bytes())).max(1)
    }

    /// The first size, bytes, that measures at least so much.
    fn first(&self, unit: Unit, measure: u64) -> u64 {
        let (element, ranks) = (
            u64::from(self.data_type.bytes()),
            u64::from(self.host.ranks),
        );
        match unit {
            Unit::Bytes => measure,
            Unit::AllRanks => measure.div_ceil(ranks.max(1)),
            Unit::PerRank => measure.saturating_mul(ranks),
            Unit::Wire => measure.saturating_mul(element).div_ceil(2),
            Unit::Elements => measure.saturating_mul(element),
            Unit::Rows => measure.saturating_mul(self.row()),
        }
    }

    /// The sizes of a rule: those beside another method, where that serves the GPUs.
    fn sizes<'r>(&self, rule: &'r Rule) -> Option<&'r ByArchitecture> {
        let beside = rule.beside.as_ref().filter(|it| self.serves(it));
        let beside = beside.and(rule.sizes_beside.as_ref());
        beside.or(rule.sizes.as_ref())
    }

    /// The method and kernel of a rule for a message.
    ///
    /// # Errors
    /// The rule does not take it.
    pub fn takes(&self, at: usize, message: Message) -> Result<Taken, String> {
        let rule = &self.engine.rules[at];
        self.gates(rule)?;
        if rule
            .types
            .as_ref()
            .is_some_and(|it| !it.0.contains(&self.data_type))
        {
            return Err(format!("not for {}", self.data_type.name()));
        }
        let bytes = message.bytes;
        let too = |what: &str| Err(format!("not for messages of {bytes} bytes{what}"));
        if rule.grain.is_some_and(|it| !bytes.is_multiple_of(it)) {
            return too(", which are no multiple of its packets");
        }
        let rows = self.measure(Unit::Rows, bytes);
        if rule.rows_for_each_rank && rows < u64::from(self.host.ranks) {
            return too(": fewer rows than GPUs");
        }
        let (sm, ranks) = (self.host.sm, self.host.ranks);
        let sizes = self.sizes(rule).map(|it| (rule.unit, it));
        let narrow = rule.narrow.as_ref().map(|it| (it.unit, &it.sizes));
        for (unit, sizes) in sizes.into_iter().chain(narrow) {
            match sizes.of(sm, ranks) {
                Some(spans) if spans.has(self.measure(unit, bytes)) => {}
                Some(_) => return too(""),
                None => return Err(format!("no sizes for {ranks} GPUs of it")),
            }
        }
        if self.cap(rule).is_some_and(|it| bytes > it) {
            return too("");
        }
        for name in &rule.behind {
            let all = self.engine.rules.iter().enumerate();
            let mut others = all.filter(|(_, it)| it.method == *name && self.has(it));
            if others.any(|(other, _)| self.takes(other, message).is_ok()) {
                return Err(format!("{name} takes it"));
            }
        }
        if rule.table.is_some() {
            return Ok(self.by_table(at, rows));
        }
        let kernel = rule.kernels.iter().find(|it| self.runs(it, message));
        Ok(Taken {
            rule: at,
            method: rule.method.clone(),
            kernel: kernel.map(|it| it.kernel.clone()),
            is_nccl: rule.is_nccl,
        })
    }

    /// The largest size that a setting allows, bytes.
    fn cap(&self, rule: &Rule) -> Option<u64> {
        let cap = rule.cap.as_ref()?;
        let value = self.settings.get(&cap.name)?.parse::<u64>().ok()?;
        Some(value.saturating_mul(cap.unit))
    }

    fn runs(&self, kernel: &Kernel, message: Message) -> bool {
        let (sm, ranks) = (self.host.sm, self.host.ranks);
        let size = self.measure(kernel.unit, message.bytes);
        kernel.mode.is_none_or(|it| it == message.mode)
            && kernel.arch.as_ref().is_none_or(|it| it.has(sm))
            && kernel.ranks.as_ref().is_none_or(|it| it.0.contains(&ranks))
            && kernel
                .types
                .as_ref()
                .is_none_or(|it| it.0.contains(&self.data_type))
            && self.link(kernel.link).is_ok()
            && kernel
                .switches
                .iter()
                .all(|it| it.holds(self.settings).is_ok())
            && kernel
                .sizes
                .as_ref()
                .is_none_or(|sizes| sizes.of(sm, ranks).is_some_and(|spans| spans.has(size)))
    }

    /// The strategy of the table: its places are powers of two.
    fn by_table(&self, rule: usize, rows: u64) -> Taken {
        let power = |it: u64| it.max(1).ilog2();
        let width = power(self.width).checked_sub(FIRST_WIDTH);
        let own = of_architecture(&self.facts.strategies, self.host.sm);
        let ranks = 1_u32 << power(self.host.ranks.into());
        let letter = own.and_then(|it| {
            let rows_of = it.get(&ranks)?.get(width? as usize)?;
            rows_of.as_bytes().get(power(rows) as usize)
        });
        let method = match letter {
            Some(b'T') if rows >= u64::from(self.host.ranks) => "TWOSHOT",
            Some(b'O' | b'T') => "ONESHOT",
            Some(_) => "NCCL",
            None => "NCCL_SYMMETRIC",
        };
        Taken {
            rule,
            method: method.to_owned(),
            kernel: None,
            is_nccl: method.starts_with("NCCL"),
        }
    }

    /// The method that takes a message.
    pub fn taken(&self, message: Message) -> Option<Taken> {
        let rules = self.engine.rules.iter().enumerate();
        let mut own = rules.filter(|(_, it)| self.has(it));
        own.find_map(|(at, _)| self.takes(at, message).ok())
    }

    /// Multiples of [`GRAIN`] at which the method or its kernel can change, bytes.
    pub fn edges(&self) -> BTreeSet<u64> {
        let mut all = BTreeSet::from([GRAIN]);
        let (sm, ranks) = (self.host.sm, self.host.ranks);
        let mut add = |unit, measure: u64| {
            let first = self.first(unit, measure);
            if let Some(edge) = first.checked_next_multiple_of(GRAIN) {
                all.insert(edge.max(GRAIN));
            }
        };
        for rule in self.engine.rules.iter().filter(|it| self.has(it)) {
            let own = self.sizes(rule).map(|it| (rule.unit, it));
            let narrow = rule.narrow.as_ref().map(|it| (it.unit, &it.sizes));
            let kernels = rule.kernels.iter();
            let kernels = kernels.filter_map(|it| Some((it.unit, it.sizes.as_ref()?)));
            for (unit, sizes) in own.into_iter().chain(narrow).chain(kernels) {
                for (from, to) in sizes.of(sm, ranks).iter().flat_map(|it| &it.0) {
                    add(unit, *from);
                    add(unit, to.saturating_add(1));
                }
            }
            if let Some(cap) = self.cap(rule) {
                add(Unit::Bytes, cap.saturating_add(1));
            }
            if rule.rows_for_each_rank || rule.table.is_some() {
                add(Unit::Rows, ranks.into());
            }
            if rule.table.is_some() {
                (0..=15).for_each(|power| add(Unit::Rows, 1 << power));
            }
        }
        all
    }

    /// What happens although the method is taken.
    pub fn hazard(&self, taken: &Taken) -> Option<String> {
        let rule = &self.engine.rules[taken.rule];
        if let Some(own) = rule.hazards.get(self.host.peer.name()) {
            return Some(own.clone());
        }
        let uses_peers = rule.link.is_some() && !taken.is_nccl;
        match self.host.peer {
            Peer::WritesLost if uses_peers => {
                Some("it waits for writes to peers that never arrive, or reads old data".to_owned())
            }
            Peer::IpcFails if uses_peers => {
                Some("it opens the peers' memory by CUDA IPC, which fails".to_owned())
            }
            Peer::WritesLost if taken.is_nccl && self.host.nccl_p2p => {
                Some("NCCL does not test by writing and may hang: NCCL_P2P_DISABLE=1".to_owned())
            }
            _ => None,
        }
    }
}
