//! The file of `--rank-order @FILE`.

use std::path::Path;

use answers::values::numbers;
use anyhow::{Context, Result, anyhow, bail};
use plan::order::MAX_ORDERED_RANKS;

/// Largest file that is read, bytes: room for an order of the most ranks.
const FILE_LIMIT: u64 = 256 << 20;

/// Reads a list of the GPU of each rank, in which `#` begins a remark.
pub(crate) fn read(file: &Path) -> Result<Vec<u32>> {
    let cannot = || format!("cannot read the rank order {}", file.display());
    let text = files::read_text(file, FILE_LIMIT).with_context(cannot)?;
    let mut slots = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let text = line.split('#').next().unwrap_or_default().trim();
        if !text.is_empty() {
            let room = MAX_ORDERED_RANKS as usize - slots.len();
            let found = numbers(text, room);
            slots.extend(found.map_err(|why| anyhow!("{}:{}: {why}", file.display(), index + 1))?);
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
