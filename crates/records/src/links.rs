//! `nvidia-smi nvlink -s`: the NVLinks of each GPU.

use crate::text::MOST;

/// The NVLinks of a GPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Links {
    /// The GPU's number, as nvidia-smi counts.
    pub gpu: u32,
    /// The GPU's name.
    pub name: String,
    /// The links that are up, a bit for each.
    pub up: u64,
    /// The links that are down, a bit for each.
    pub down: u64,
    /// The speed of the slowest link that is up, GB/s.
    pub slowest: Option<f32>,
    /// The speed of the fastest link that is up, GB/s.
    pub fastest: Option<f32>,
}

/// The links of a text, line by line.
#[derive(Debug, Default)]
pub(crate) struct LinksReader {
    pub(crate) gpus: Vec<Links>,
    /// The GPU whose links follow.
    current: Option<(u32, String)>,
}

impl LinksReader {
    pub(crate) fn line(&mut self, line: &str) {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("GPU ") {
            self.current = rest.split_once(':').and_then(|(number, name)| {
                let name = name.split(" (UUID").next()?.trim();
                Some((number.parse().ok()?, name.chars().take(80).collect()))
            });
            return;
        }
        let Some((number, state)) = line
            .strip_prefix("Link ")
            .and_then(|it| it.split_once(": "))
        else {
            return;
        };
        let number: Option<u32> = number.parse().ok().filter(|it| *it < u64::BITS);
        let (Some(number), Some((gpu, name))) = (number, &self.current) else {
            return;
        };
        let known = self.gpus.iter().position(|it| it.gpu == *gpu);
        let place = known.unwrap_or(self.gpus.len());
        if place == self.gpus.len() {
            if place == MOST {
                return;
            }
            self.gpus.push(Links {
                gpu: *gpu,
                name: name.clone(),
                ..Links::default()
            });
        }
        let links = &mut self.gpus[place];
        let speed = state
            .strip_suffix("GB/s")
            .and_then(|it| it.trim().parse::<f32>().ok());
        if let Some(speed) = speed.filter(|it| (0.1..1e5).contains(it)) {
            links.up |= 1 << number;
            links.down &= !(1 << number);
            links.slowest = Some(links.slowest.map_or(speed, |it| it.min(speed)));
            links.fastest = Some(links.fastest.map_or(speed, |it| it.max(speed)));
        } else if state.trim() == "<inactive>" {
            links.down |= 1 << number;
        }
    }
}
