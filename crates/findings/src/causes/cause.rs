//! A cause and its signs.

/// A cause.
#[derive(Debug, PartialEq, Eq)]
pub struct Cause {
    /// Its id, such as `nvls-slots`. Ids never change.
    pub id: &'static str,
    /// Its subject.
    pub subject: Subject,
    /// The problem, in a few words.
    pub title: &'static str,
    /// What it means.
    pub means: &'static str,
    /// What to do.
    pub advice: &'static str,
    /// The versions of NCCL that have it.
    pub versions: &'static str,
    /// Lines of text that show it.
    pub signs: &'static [Sign],
    /// The evidence that proves it.
    pub proof: &'static str,
    /// The evidence that excludes it.
    pub excluded: &'static str,
    /// Why no evidence that jobs leave shows it; empty where some does.
    pub unseen: &'static str,
    /// Public threads and documents.
    pub sources: &'static [&'static str],
}

impl Cause {
    /// The fields that most causes do not have.
    pub(crate) const USUAL: Self = Self {
        id: "",
        subject: Subject::Hang,
        title: "",
        means: "",
        advice: "",
        versions: "",
        signs: &[],
        proof: "",
        excluded: "",
        unseen: "",
        sources: &[],
    };

    /// A cause of a table of lines: id, subject, title, meaning, advice and what excludes it.
    pub(crate) fn of_row(row: &'static str) -> Option<Self> {
        let mut columns = row.split('\t');
        let id = columns.next().filter(|it| !it.starts_with('#'))?;
        let word = columns.next()?;
        let mut subjects = Subject::ALL.into_iter();
        Some(Self {
            id,
            subject: subjects.find(|it| format!("{it:?}").eq_ignore_ascii_case(word))?,
            title: columns.next()?,
            means: columns.next()?,
            advice: columns.next()?,
            excluded: columns.next()?,
            versions: "all",
            proof: "the line, at the first failure of the job",
            ..Self::USUAL
        })
    }
}

/// What a cause is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Ranks that wait for each other.
    Hang,
    /// The start of a job.
    Start,
    /// NICs, ports and the network.
    Network,
    /// NVLinks and NVSwitches.
    NvLink,
    /// GPUs and their driver.
    Gpu,
    /// PCIe, NUMA and virtual machines.
    Pcie,
    /// Variables of NCCL.
    Settings,
    /// Memory of GPUs and hosts.
    Memory,
    /// The speed of collectives.
    Speed,
    /// Messages that need no action.
    Harmless,
    /// Failures that follow others.
    Consequence,
}

impl Subject {
    /// All subjects, in the order of the table: a queue pair that times out is the network's before
    /// it is a TCP connection's.
    pub const ALL: [Self; 11] = [
        Self::Hang,
        Self::Network,
        Self::Start,
        Self::NvLink,
        Self::Gpu,
        Self::Pcie,
        Self::Settings,
        Self::Memory,
        Self::Speed,
        Self::Harmless,
        Self::Consequence,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hang => "hangs",
            Self::Start => "start of a job",
            Self::Network => "network",
            Self::NvLink => "NVLink",
            Self::Gpu => "GPUs",
            Self::Pcie => "PCIe, NUMA, virtual machines",
            Self::Settings => "settings",
            Self::Memory => "memory",
            Self::Speed => "speed",
            Self::Harmless => "harmless messages",
            Self::Consequence => "consequences of other failures",
        }
    }
}

/// How sure a verdict is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// The evidence proves it.
    Proved,
    /// The evidence fits, and hardly anything else does.
    Likely,
    /// The evidence fits, as it does other causes.
    Possible,
}

impl Certainty {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proved => "proved",
            Self::Likely => "likely",
            Self::Possible => "possible",
        }
    }
}

/// Words of a line that show a cause.
#[derive(Debug, PartialEq, Eq)]
pub struct Sign {
    /// The words; all must be there.
    pub words: &'static [&'static str],
    /// The lines in which they count.
    pub scope: Scope,
    /// How sure the cause is where they are.
    pub certainty: Certainty,
}

/// The lines in which a sign counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All lines: nothing else says these words.
    Anywhere,
    /// Messages of NCCL at any level.
    Message,
    /// Warnings of NCCL: in other lines the words mean other things.
    Warning,
}

impl Sign {
    /// Whether a text has all words.
    pub fn is_in(&self, text: &str) -> bool {
        self.words.iter().all(|word| text.contains(word))
    }
}

/// Words that nothing but the cause says.
pub(crate) const fn proves(words: &'static [&'static str]) -> Sign {
    Sign {
        words,
        scope: Scope::Anywhere,
        certainty: Certainty::Proved,
    }
}

/// Words that hardly anything but the cause says.
pub(crate) const fn suggests(words: &'static [&'static str]) -> Sign {
    Sign {
        words,
        scope: Scope::Anywhere,
        certainty: Certainty::Likely,
    }
}

/// Words that fit the cause, as they do others.
pub(crate) const fn fits(words: &'static [&'static str]) -> Sign {
    Sign {
        words,
        scope: Scope::Anywhere,
        certainty: Certainty::Possible,
    }
}

/// Words of a message of NCCL that prove the cause.
pub(crate) const fn logged(words: &'static [&'static str]) -> Sign {
    Sign {
        words,
        scope: Scope::Message,
        certainty: Certainty::Proved,
    }
}

/// Words of a warning of NCCL.
pub(crate) const fn nccl(words: &'static [&'static str], certainty: Certainty) -> Sign {
    Sign {
        words,
        scope: Scope::Warning,
        certainty,
    }
}
