//! Prose beside the listings of a machine: kinds and numbers of GPUs, their links, names of
//! processors.

use crate::gpu::{self, kind_of_name};
pub use crate::said_gpus::Mention;
use crate::said_gpus::{is_of_gpus, is_of_one, mention};
use crate::said_link::{SaidLink, link};
use crate::said_processor::{SaidProcessor, labelled, processor};
use crate::text::{is_one_of, item, value};

/// Most statements of a text that are kept.
const MOST: usize = 64;

/// Words of lines that say what the machine is not, was, or may become, or compare it.
const OF_OTHERS: &str = "not no none never cannot dont without sorry instead rather vs versus than unlike \
    compare compared comparison like similar slower faster benchmark benchmarks upgrade \
    upgrades upgraded upgrading plan plans planned planning consider considering buy buying \
    order ordered sell sold cost costs price cheap cheaper expensive replace replaced \
    replaces replacing swap swapped would could should might may will if want wanted wish \
    hope need needs next later soon future eventually old older previous previously former \
    formerly earlier was were had used other others another different second friend \
    friend's colleague their his her your";

/// What a machine of these GPUs may lack.
const LACKED: &str = "nvlink nvlinks nvswitch p2p bridge ecc mig display";

/// What a text says in prose.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prose {
    /// GPUs that it names.
    pub gpus: Vec<Mention>,
    /// Links of all GPUs, as each line says; without lanes where a line is of one GPU.
    pub links: Vec<SaidLink>,
    /// Processors.
    pub processors: Vec<SaidProcessor>,
    /// How many of each were read with the first matrix.
    of_first: [usize; 3],
}

impl Prose {
    /// Reads a line that names no GPU by its number.
    pub(crate) fn line(&mut self, line: &str) {
        let gpus = mention(line).filter(|_| self.gpus.len() < MOST);
        let link = link(line).filter(|_| self.links.len() < MOST && is_of_gpus(line));
        let said = value(item(line).trim_start_matches('*'), "CPU");
        let said = said.map_or_else(|| processor(line), labelled);
        let said = said.filter(|_| self.processors.len() < MOST);
        // Nearly every line says nothing, which is known sooner.
        if (gpus.is_none() && link.is_none() && said.is_none()) || is_of_others(line) {
            return;
        }
        self.gpus.extend(gpus);
        let of_all = |link| Some(link).filter(|_| !is_of_one(line));
        self.links
            .extend(link.map(|it| of_all(it).unwrap_or_default()));
        self.processors.extend(said);
    }

    /// Notes that a line of the first matrix was read.
    pub(crate) const fn note_matrix(&mut self) {
        self.of_first = [self.gpus.len(), self.links.len(), self.processors.len()];
    }

    /// Forgets what is behind the first matrix.
    pub(crate) fn keep_first(&mut self) {
        let [gpus, links, processors] = self.of_first;
        self.gpus.truncate(gpus);
        self.links.truncate(links);
        self.processors.truncate(processors);
    }

    /// The name of all GPUs, if the text has one kind for their number, which may have so many
    /// NVLinks to another device. Another number is of another machine.
    pub(crate) fn name_of(&self, gpus: usize, nvlinks: u32) -> Option<&str> {
        let of = |wanted: Option<usize>| self.gpus.iter().filter(move |it| it.count == wanted);
        let one_kind = |mut found: Vec<&Mention>| {
            let kind = |it: &Mention| kind_of_name(&it.name).map(|it| it.sm);
            let longest = found.iter().map(|it| it.name.len()).max()?;
            found.dedup_by_key(|it| kind(it));
            let is_one = found.windows(2).all(|it| kind(it[0]) == kind(it[1]));
            let mut all = self.gpus.iter();
            all.find(|it| it.name.len() == longest && kind(it) == kind(found[0]))
                .filter(|_| is_one)
        };
        let counted = one_kind(of(Some(gpus)).collect());
        let named = counted.or_else(|| one_kind(of(None).collect()))?;
        Some(&*named.name).filter(|it| nvlinks <= gpu::most_nvlinks(it))
    }

    /// The link of all GPUs, if all lines that say something of it agree.
    pub(crate) fn link(&self) -> Option<SaidLink> {
        let first = self.links.first()?;
        self.links.iter().all(|it| it == first).then_some(*first)
    }

    /// The processor, if the text names one vendor; with the family and model of all.
    pub(crate) fn processor(&self) -> Option<SaidProcessor> {
        let first = self.processors.first()?;
        let is_one = self.processors.iter().all(|it| it.vendor == first.vendor);
        let known = || self.processors.iter().filter(|it| it.family.is_some());
        let named = known().next().unwrap_or(first);
        let agree = known().all(|it| it.family == named.family);
        is_one.then(|| SaidProcessor {
            family: named.family.filter(|_| agree),
            ..named.clone()
        })
    }
}

/// Whether a line may be of another machine, or of none.
fn is_of_others(line: &str) -> bool {
    let lower = line.to_lowercase().replace('’', "'");
    let words = lower.split(|it: char| !it.is_alphanumeric() && it != '\'');
    let words: Vec<&str> = words.filter(|it| !it.is_empty()).collect();
    let is_other = |(at, word): (usize, &&str)| {
        let lacks = ["no", "without", "none"].contains(word);
        let next = words.get(at + 1).or_else(|| words.get(at.checked_sub(1)?));
        let is_lacked = lacks && next.is_some_and(|it| is_one_of(it, LACKED));
        !is_lacked && (is_one_of(word, OF_OTHERS) || word.ends_with("n't"))
    };
    line.contains('?') || words.iter().enumerate().any(is_other)
}
