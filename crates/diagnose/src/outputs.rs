//! Output of commands that advice asks for, where a number or the lines around count: errors of
//! NVLinks, and stacks of py-spy.

use findings::causes::table::nvlink;
use findings::causes::{Certainty, Subject};
use findings::facts::Meaning;

use crate::verdict::{Line, MOST_LINES, Verdict};

/// Words of which every line that [`errors`] or [`Stacks::line`] reads has one. The second is also
/// in the first line of a stack.
pub(crate) const WORDS: [&str; 2] = [" Errors: ", "\"MainThread\""];

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

/// Where main threads of processes are, by py-spy.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    all: Vec<Line>,
    /// The next line is the first frame of a main thread.
    pub(crate) is_next: bool,
}

impl Stacks {
    /// Takes a line of a text. `is_head`: it names a main thread. Returns `true` if it is read.
    pub(crate) fn line(&mut self, line: &str, is_head: bool, of: impl FnOnce() -> Line) -> bool {
        let is_frame = std::mem::replace(&mut self.is_next, is_head && line.contains("Thread "));
        let is_place = line.trim_end().ends_with(')') && line.starts_with(' ');
        let is_kept = is_frame && is_place && self.all.len() < MOST_STACKS;
        if is_kept {
            self.all.push(of());
        }
        is_kept
    }

    /// Adds where the processes are to the verdict about a hang that is the surest.
    pub(crate) fn add_to(self, verdicts: &mut [Verdict]) {
        let is_hang = |it: &&mut Verdict| it.cause.subject == Subject::Hang;
        if let Some(verdict) = verdicts.iter_mut().find(is_hang) {
            verdict.lines.extend(self.all.into_iter().take(MOST_LINES));
        }
    }
}
