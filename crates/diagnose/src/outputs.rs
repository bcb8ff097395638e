//! Output of commands that advice asks for, where a number or the lines around count: errors of
//! NVLinks, and stacks of py-spy.

use std::collections::BTreeMap;

use findings::causes::table::nvlink;
use findings::causes::{Certainty, Subject};
use findings::facts::{Meaning, frames};

use crate::verdict::{Line, MOST_LINES, Verdict};

/// Words of which every line that [`errors`] or [`Stacks::line`] reads has one, beside the
/// functions of [`frames`]. Those behind the first are in the first line of a stack.
pub(crate) const WORDS: [&str; 3] = [" Errors: ", "(idle): \"", "(active): \""];

/// All of them.
pub(crate) fn words() -> impl Iterator<Item = &'static str> {
    WORDS.into_iter().chain(frames::functions())
}

/// Most stacks that are kept.
const MOST_STACKS: usize = 64;

/// What a line of `nvidia-smi nvlink -e` means, such as `Link 3: CRC Errors: 12`, if there are
/// errors. Links correct some of them, so they may have had no effect.
pub(crate) fn errors(line: &str) -> Option<Meaning> {
    let (link, rest) = line.trim().strip_prefix("Link ")?.split_once(": ")?;
    let (_, count) = rest.rsplit_once(" Errors: ")?;
    let is_counted =
        link.parse::<u32>().is_ok() && count.trim().parse::<u64>().is_ok_and(|it| it > 0);
    is_counted.then(|| Meaning {
        means: "an NVLink has counted errors, when or in which job is not known",
        advice: "Xid and SXid in the kernel's log; read the counters again after a minute of the job",
        ..Meaning::of(&nvlink::XID_NVLINK, Certainty::Possible)
    })
}

/// Where main threads of processes are, by py-spy, and what threads do, by py-spy and gdb.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    all: Vec<Line>,
    /// The next line is the first frame of a main thread.
    pub(crate) is_next: bool,
    /// What threads of this input do, and how many.
    doing: BTreeMap<&'static str, u32>,
    /// The frame whose function said so last, by gdb's number, in the stack that is read.
    told: Option<u32>,
}

impl Stacks {
    /// Takes a line of a text. `is_head`: it has one of the words. Returns `true` if it is read.
    pub(crate) fn line(&mut self, line: &str, is_head: bool, of: impl FnOnce() -> Line) -> bool {
        let is_thread = is_head && line.contains("Thread ");
        let is_main = is_thread && line.contains("\"MainThread\"");
        let is_frame = std::mem::replace(&mut self.is_next, is_main);
        let is_place = line.trim_end().ends_with(')') && line.starts_with(' ');
        let is_kept = is_frame && is_place && self.all.len() < MOST_STACKS;
        if is_kept {
            self.all.push(of());
        }
        if is_thread {
            self.told = None;
        }
        let of_gdb = line
            .trim_start()
            .strip_prefix('#')
            .and_then(|it| it.split(' ').next());
        let number = of_gdb.and_then(|it| it.parse::<u32>().ok());
        if is_head && (number.is_some() || is_place) {
            let number = number.unwrap_or(u32::MAX);
            // A lower number is that of another stack.
            let is_first = self.told.is_none_or(|told| number < told);
            if let Some(doing) = frames::doing(line).filter(|_| is_first) {
                *self.doing.entry(doing).or_default() += 1;
                self.told = Some(number);
            } else if !is_first && number != u32::MAX {
                self.told = Some(number);
            }
            return true;
        }
        is_kept
    }

    /// What threads of the input do that was read. The next one is another input.
    pub(crate) fn says(&mut self) -> Vec<String> {
        (self.told, self.is_next) = (None, false);
        let doing = std::mem::take(&mut self.doing).into_iter();
        let says = doing.map(|(doing, count)| match count {
            1 => format!("1 thread: {doing}"),
            _ => format!("{count} threads: {doing}"),
        });
        says.collect()
    }

    /// Adds where the processes are to the verdict about a hang that is the surest.
    pub(crate) fn add_to(self, verdicts: &mut [Verdict]) {
        let is_hang = |it: &&mut Verdict| it.cause.subject == Subject::Hang;
        if let Some(verdict) = verdicts.iter_mut().find(is_hang) {
            verdict.lines.extend(self.all.into_iter().take(MOST_LINES));
        }
    }
}
