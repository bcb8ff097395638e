//! `--rank-order`: which rank runs on which GPU.

use std::path::Path;

use anyhow::{Context, Result, bail};
use plan::RankOrder;
use plan::order::MAX_ORDERED_RANKS;

use crate::numbers;
use crate::suggest;

/// The usual order, host after host.
pub const HOST: &str = "host";

/// Orders that have a name.
const NAMED: [&str; 2] = [HOST, "round-robin"];

/// Largest file that is read, bytes: more than the numbers of as many ranks as may have an order take.
const FILE_LIMIT: u64 = 256 << 20;

/// The order that a text asks for, `None` for host after host: by name, a list, or `@FILE` with a list in which `#` begins a remark. `machines` are
/// (GPUs of a machine, machines in a row).
pub fn parse(text: &str, machines: &[(u32, u32)]) -> Result<Option<RankOrder>> {
    let most = MAX_ORDERED_RANKS as usize;
    match text {
        HOST => return Ok(None),
        "round-robin" => {
            let ranks = machines
                .iter()
                .map(|(gpus, count)| u64::from(*gpus) * u64::from(*count))
                .sum::<u64>();
            if ranks > u64::from(MAX_ORDERED_RANKS) {
                bail!(
                    "--rank-order round-robin: the job has {ranks} ranks; an order is kept for at most {most}"
                );
            }
            return Ok(Some(RankOrder::round_robin(machines)));
        }
        _ => {}
    }
    if let Some(file) = text.strip_prefix('@') {
        return read(Path::new(file), most).map(Some);
    }
    if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
        let near = suggest::nearest(text, NAMED.into_iter(), 1);
        bail!(
            "--rank-order {text}: no such order (expected host, round-robin, a list such as 0,8,1,9, or @FILE){}",
            suggest::question(&near)
        );
    }
    let slots = numbers::list(text, most).with_context(|| format!("--rank-order {text}"))?;
    Ok(Some(RankOrder::new(slots)))
}

fn read(file: &Path, most: usize) -> Result<RankOrder> {
    let cannot = || format!("cannot read the rank order {}", file.display());
    let text = files::read_text(file, FILE_LIMIT).with_context(cannot)?;
    let mut slots = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let numbers = line.split('#').next().unwrap_or_default().trim();
        if !numbers.is_empty() {
            let room = most - slots.len();
            let found = numbers::list(numbers, room);
            slots.extend(found.with_context(|| format!("{}:{}", file.display(), index + 1))?);
        }
    }
    if slots.is_empty() {
        bail!(
            "the rank order {} is empty; expected the GPU of each rank, such as 0,8,1,9",
            file.display()
        );
    }
    Ok(RankOrder::new(slots))
}
