//! `--rank-order`: by name, as a list, or as a file with a list.

use std::path::Path;

use answers::{Order, suggest};
use anyhow::{Context, Result, bail};
use plan::order::MAX_ORDERED_RANKS;

use crate::numbers;

/// The default order, host after host.
pub(crate) const HOST: &str = "host";

/// The other order with a name.
const ROUND_ROBIN: &str = "round-robin";

/// Largest file that is read, bytes: room for an order of the most ranks.
const FILE_LIMIT: u64 = 256 << 20;

/// Reads which rank runs on which GPU: by name, as a list, or `@FILE` with a list in which `#`
/// begins a remark.
pub(crate) fn parse(text: &str) -> Result<Order> {
    let most = MAX_ORDERED_RANKS as usize;
    match text {
        HOST => return Ok(Order::HostByHost),
        ROUND_ROBIN => return Ok(Order::RoundRobin),
        _ => {}
    }
    if let Some(file) = text.strip_prefix('@') {
        return Ok(Order::Listed(read(Path::new(file), most)?));
    }
    if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
        let near = suggest::nearest(text, [HOST, ROUND_ROBIN].into_iter(), 1);
        bail!(
            "--rank-order {text}: no such order (expected host, round-robin, a list such as 0,8,1,9, or @FILE){}",
            suggest::question(&near)
        );
    }
    let numbers = numbers::list(text, most).with_context(|| format!("--rank-order {text}"))?;
    Ok(Order::Listed(numbers))
}

fn read(file: &Path, most: usize) -> Result<Vec<u32>> {
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
    Ok(slots)
}
