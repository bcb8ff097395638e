//! Rings, and what is lost of them, in words.

use super::gbps;
use crate::rings::{Cost, Rings};

/// Losses below this are rounding, GB/s.
const NOTHING: f32 = 0.01;

/// `3×12`.
fn rings(rings: Option<Rings>) -> String {
    rings.map_or("none".to_owned(), |rings| {
        format!("{}×{}", rings.channels, gbps(rings.each))
    })
}

/// `−72 GB/s between hosts (3×12, not 9×12)`.
pub fn cost(cost: &Cost) -> String {
    let part = |lost: f32, place: &str, now, mended| {
        (lost > NOTHING).then(|| {
            let (now, mended) = (rings(now), rings(mended));
            format!("−{} GB/s {place} ({now}, not {mended})", gbps(lost))
        })
    };
    let (now, mended) = (&cost.now, &cost.mended);
    let parts = [
        part(cost.inside, "inside", now.inside, mended.inside),
        part(cost.between, "between hosts", now.between, mended.between),
    ];
    match parts.into_iter().flatten().collect::<Vec<_>>().join(", ") {
        nothing if nothing.is_empty() => "nothing for rings".to_owned(),
        parts => parts,
    }
}
