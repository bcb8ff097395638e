//! Devices that a file leaves to NCCL, and what is assumed of them.

use std::fmt;
use std::sync::Arc;

use findings::complete::{
    self, AssumedGpu, AssumedLink, AssumedNic, Assumptions, MissingParts, PRESETS,
};
use plan::ranges;
use planner::explain::count;
use topology::xml::Document;

use crate::suggest;

/// Most bus ids in a sentence.
const NAMED: usize = 3;

/// Most NVLinks of a GPU, with room for GPUs to come.
const MOST_LINKS: i32 = 64;

/// Devices that a file lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incomplete {
    /// The file.
    pub file: String,
    /// The missing part.
    pub missing: MissingParts,
    /// A known machine with such GPUs, by the name of its assumptions.
    pub like: &'static str,
}

/// An assumption that does not fit a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an assumed NVLink: {file} has no GPU{gpu}; it has GPU {}", ranges(.known, ", "))]
pub struct AssumeError {
    /// The file.
    pub file: String,
    /// The device number.
    pub gpu: i32,
    /// Those that there are.
    pub known: Vec<i32>,
}

impl Incomplete {
    /// The missing parts of a document, if there are any.
    pub fn of(document: &Document, missing: MissingParts) -> Option<Self> {
        let (_, kinds) = complete::without_links(document);
        let known = kinds.iter().find_map(|sm| Assumptions::with_nvswitch(*sm));
        (!missing.is_empty()).then(|| Self {
            file: document.file.to_string(),
            missing,
            like: known.map_or("h100-sxm", |(name, _)| name),
        })
    }
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |bus_ids: &[String], kind: &str, tag: &str| {
            let mut named: Vec<&str> = bus_ids.iter().take(NAMED).map(String::as_str).collect();
            if bus_ids.len() > NAMED {
                named.push("…");
            }
            (!bus_ids.is_empty()).then(|| {
                let count = count(bus_ids.len(), kind);
                format!("{count} without <{tag}> ({})", named.join(", "))
            })
        };
        let lists = [
            list(&self.missing.gpus, "GPU", "gpu"),
            list(&self.missing.nics, "NIC", "net"),
            list(&self.missing.nvlinks, "GPU", "nvlink"),
        ];
        let lists: Vec<String> = lists.into_iter().flatten().collect();
        write!(
            f,
            "{} leaves to NCCL what it finds on the machine: {}; say what they are",
            self.file,
            lists.join(", ")
        )
    }
}

/// The document with what is assumed of it, and what it still lacks.
///
/// # Errors
/// An assumed NVLink leads to a GPU that is not there.
pub fn completed(
    document: &Arc<Document>,
    assume: &Assumptions,
) -> Result<(Arc<Document>, Option<Incomplete>), AssumeError> {
    let completed = match *assume == Assumptions::default() {
        true => Arc::clone(document),
        false => Arc::new(complete::complete(document, assume)),
    };
    let known = complete::devices(&completed);
    let mut named = assume.nvlinks.iter().flat_map(|link| link.between);
    if let Some(gpu) = named.find(|dev| !known.contains(dev)) {
        let file = document.file.to_string();
        return Err(AssumeError { file, gpu, known });
    }
    let mut missing = MissingParts::of(&completed);
    let (_, kinds) = complete::without_links(&completed);
    if assume.gpu.is_some_and(|gpu| kinds.contains(&gpu.sm)) {
        // These GPUs are described, so those without NVLinks have none.
        missing.nvlinks.clear();
    }
    let incomplete = Incomplete::of(&completed, missing);
    Ok((completed, incomplete))
}

/// The assumptions of a known machine.
///
/// # Errors
/// There is no such machine.
pub fn preset(name: &str) -> Result<Assumptions, String> {
    Assumptions::preset(name).ok_or_else(|| {
        let known = || PRESETS.iter().map(|preset| preset.name);
        let near = suggest::nearest(name, known(), 1);
        let known: Vec<&str> = known().collect();
        format!("expected {}{}", known.join(", "), suggest::question(&near))
    })
}

/// Reads a GPU: `sm=90,nvswitch-links=18,gdr=1`.
///
/// # Errors
/// It is none; a sentence.
pub fn gpu(text: &str) -> Result<AssumedGpu, String> {
    let keys = ["sm", "nvswitch-links", "gdr"];
    let [sm, links, gdr] = numbers(text, keys)?;
    let sm = sm.ok_or("expected sm=N, the compute capability × 10, such as sm=90")?;
    if !(20..=200).contains(&sm) {
        return Err(format!(
            "sm={sm} is not a compute capability × 10; expected a number such as 90"
        ));
    }
    let nvswitch_links = links.unwrap_or(0);
    if nvswitch_links > MOST_LINKS {
        return Err(format!(
            "nvswitch-links={nvswitch_links} is more than any GPU has; expected a number such as 18"
        ));
    }
    Ok(AssumedGpu {
        sm,
        nvswitch_links,
        gdr: gdr.unwrap_or(1) != 0,
    })
}

/// Reads NVLinks between two GPUs: `GPU0:GPU1=4`.
///
/// # Errors
/// They are none; a sentence.
pub fn link(text: &str) -> Result<AssumedLink, String> {
    let expected = || {
        format!(
            "`{text}`: expected two GPUs and the number of NVLinks between them, such as GPU0:GPU1=4"
        )
    };
    let device = |name: &str| {
        let digits = name.trim();
        let digits = digits.strip_prefix("GPU").unwrap_or(digits);
        digits.parse::<i32>().ok().filter(|dev| *dev >= 0)
    };
    let (pair, count) = text.split_once('=').ok_or_else(expected)?;
    let (from, to) = pair.split_once(':').ok_or_else(expected)?;
    let (from, to) = device(from).zip(device(to)).ok_or_else(expected)?;
    if from == to {
        return Err(format!(
            "`{text}`: both ends are GPU{from}; expected two GPUs"
        ));
    }
    match count.trim().parse::<i32>() {
        Ok(count @ 1..=MOST_LINKS) => Ok(AssumedLink {
            between: [from, to],
            count,
        }),
        _ => Err(format!(
            "`{text}`: {count} is no number of NVLinks; expected 1 to {MOST_LINKS}"
        )),
    }
}

/// Reads a NIC: `speed=400000,gdr=1`, Mb/s.
///
/// # Errors
/// It is none; a sentence.
pub fn nic(text: &str) -> Result<AssumedNic, String> {
    let [speed, gdr] = numbers(text, ["speed", "gdr"])?;
    match speed {
        Some(speed @ 1..=10_000_000) => Ok(AssumedNic {
            speed,
            gdr: gdr.unwrap_or(1) != 0,
        }),
        _ => Err("expected speed=N in Mb/s, such as speed=400000".to_owned()),
    }
}

/// Reads KEY=VALUE pairs of these keys.
fn numbers<const N: usize>(text: &str, keys: [&str; N]) -> Result<[Option<i32>; N], String> {
    let mut values = [None; N];
    for pair in text.split(',') {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| format!("`{pair}`: expected KEY=VALUE"))?;
        let Some(at) = keys.iter().position(|known| *known == key.trim()) else {
            let near = suggest::nearest(key, keys.into_iter(), 1);
            return Err(format!(
                "unknown key `{key}`; expected {}{}",
                keys.join(", "),
                suggest::question(&near)
            ));
        };
        let number = value
            .trim()
            .parse::<i32>()
            .ok()
            .filter(|number| *number >= 0);
        values[at] =
            Some(number.ok_or_else(|| format!("{key} is `{value}`; expected a whole number"))?);
    }
    Ok(values)
}
