//! One host: a process that follows a script, then stands still.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::ptr;

use program::Collective;

use super::{Line, Script, Step};
use crate::host::{asked, end_with, prepare, say, wait_for_end};
use crate::nccl::{Communicator, Id, Nccl, Part};
use crate::stand_in;

/// NCCL's number of 32-bit floats, and of a sum.
const FLOAT: i32 = 7;
const SUM: i32 = 0;

/// Bytes of an element.
const ELEMENT: usize = 4;

/// Does what a parent asks for on standard input, and says on standard output how far it is. NCCL's
/// log goes to standard error. The process ends with standard input, or with its parent.
///
/// The library's code runs in this process, which must do nothing else.
///
/// # Errors
/// Standard input or output is closed, no script comes, or the process has other threads.
pub fn serve(input: &mut impl BufRead, output: &mut impl Write) -> Result<(), std::io::Error> {
    let script: Script = asked(input)?;
    end_with(script.request.parent)?;
    stand_in::limit_multicast(script.multicast);
    // SAFETY: `asked` found no other threads.
    match unsafe { prepare(&script.request) } {
        Ok((nccl, gpus, _topology)) => {
            let host = Host::new(&nccl, gpus, &script);
            let ended = host.and_then(|host| host.follow(&script, input, output));
            say(output, &Line::Ends(ended.err()))?;
        }
        Err(unusable) => say(output, &Line::Unusable(unusable.to_string()))?,
    }
    wait_for_end(input)
}

/// The ranks of this host.
struct Host<'a> {
    nccl: &'a Nccl,
    /// The job's rank of each GPU.
    ranks: Vec<u32>,
    /// By GPU buffers and a stream, without a communicator.
    parts: Vec<Part>,
    /// By unique id and GPU.
    communicators: BTreeMap<(u32, usize), Communicator>,
}

impl<'a> Host<'a> {
    fn new(nccl: &'a Nccl, gpus: usize, script: &Script) -> Result<Self, String> {
        let elements = script.steps.iter().map(|step| match step {
            Step::AllReduce { elements, .. } => *elements as usize,
            Step::Make { .. } => 0,
        });
        let bytes = elements.max().unwrap_or(0).max(1) * ELEMENT;
        let part = |gpu: usize| {
            stand_in::set_device(gpu as i32);
            Ok(Part {
                communicator: ptr::null_mut(),
                input: stand_in::new_memory(bytes)?,
                output: stand_in::new_memory(bytes)?,
                stream: stand_in::new_stream(),
            })
        };
        Ok(Self {
            nccl,
            ranks: (script.first..).take(gpus).collect(),
            parts: (0..gpus).map(part).collect::<Result<_, String>>()?,
            communicators: BTreeMap::new(),
        })
    }

    fn follow(
        mut self,
        script: &Script,
        input: &mut impl BufRead,
        output: &mut impl Write,
    ) -> Result<(), String> {
        let text = |error: std::io::Error| error.to_string();
        let ids = self.ids(script, input, output)?;
        for (number, step) in script.steps.iter().enumerate() {
            say(output, &Line::Begins(number)).map_err(text)?;
            match step {
                Step::Make { id, ranks } => {
                    let unique = ids.get(*id as usize).ok_or("the job has no such id")?;
                    self.make(*id, *unique, ranks)?;
                }
                Step::AllReduce { id, elements } => self.all_reduce(*id, *elements as usize)?,
            }
        }
        Ok(())
    }

    /// The first host makes the job's ids and says them; the others are told.
    fn ids(
        &self,
        script: &Script,
        input: &mut impl BufRead,
        output: &mut impl Write,
    ) -> Result<Vec<Id>, String> {
        let text = |error: std::io::Error| error.to_string();
        if script.request.host == 0 {
            let ids = (0..script.ids).map(|_| self.nccl.id());
            let ids = ids.collect::<Result<Vec<_>, _>>()?;
            let digits = ids.iter().map(Id::digits).collect();
            say(output, &Line::Ids(digits)).map_err(text)?;
            return Ok(ids);
        }
        let mut line = String::new();
        input.read_line(&mut line).map_err(text)?;
        let digits: Vec<String> = serde_json::from_str(&line).map_err(|it| it.to_string())?;
        let ids = digits.iter().map(|it| Id::of(it));
        ids.collect::<Option<_>>()
            .ok_or_else(|| "no unique ids were passed on".to_owned())
    }

    fn make(&mut self, number: u32, id: Id, ranks: &[u32]) -> Result<(), String> {
        let all = i32::try_from(ranks.len()).map_err(|_| "too many ranks")?;
        let mut made: Vec<(usize, i32, Communicator)> = Vec::new();
        for (gpu, own) in self.ranks.iter().enumerate() {
            let rank = ranks.iter().position(|it| it == own);
            made.extend(rank.map(|rank| (gpu, rank as i32, ptr::null_mut())));
        }
        self.nccl.group(|| {
            for (gpu, rank, communicator) in &mut made {
                stand_in::set_device(*gpu as i32);
                self.nccl.init(communicator, all, id, *rank)?;
            }
            Ok(())
        })?;
        let made = made.into_iter();
        self.communicators
            .extend(made.map(|(gpu, _, communicator)| ((number, gpu), communicator)));
        Ok(())
    }

    fn all_reduce(&self, id: u32, elements: usize) -> Result<(), String> {
        self.nccl.group(|| {
            for (gpu, part) in self.parts.iter().enumerate() {
                let Some(communicator) = self.communicators.get(&(id, gpu)).copied() else {
                    continue;
                };
                stand_in::set_device(gpu as i32);
                let part = Part {
                    communicator,
                    ..*part
                };
                self.nccl
                    .collective(Collective::AllReduce, &part, elements, FLOAT, SUM)?;
            }
            Ok(())
        })
    }
}
