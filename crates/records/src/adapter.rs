//! `ibstat`, `ibv_devinfo -v` and `rdma link`: the ports of RDMA adapters.

use crate::text::{MOST, is_device_name, value};

/// The first port of an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Adapter {
    /// Its name, such as `mlx5_0`.
    pub name: String,
    /// Speed, Mb/s.
    pub speed: Option<i32>,
    /// Whether its port is up.
    pub is_active: Option<bool>,
    /// Largest packet that its port moves, and could move, bytes.
    pub mtu: Option<u32>,
    /// See [`mtu`](Self::mtu).
    pub most_mtu: Option<u32>,
}

/// The adapters of a text, line by line.
#[derive(Debug, Default)]
pub(crate) struct AdapterReader {
    pub(crate) adapters: Vec<Adapter>,
    /// Lanes of the port that is being read.
    lanes: Option<f64>,
}

impl AdapterReader {
    pub(crate) fn line(&mut self, line: &str) {
        if let Some((name, is_active)) = rdma_link(line) {
            let known = self.adapters.iter().position(|it| it.name == name);
            if let Some(known) = known {
                self.adapters[known].is_active.get_or_insert(is_active);
            } else if self.adapters.len() < MOST {
                self.adapters.push(Adapter {
                    name: name.to_owned(),
                    is_active: Some(is_active),
                    ..Adapter::default()
                });
            }
            return;
        }
        let name = value(line, "hca_id").or_else(|| {
            let quoted = line.trim().strip_prefix("CA '")?;
            quoted.strip_suffix('\'')
        });
        if let Some(name) = name.filter(|it| is_device_name(it) && self.adapters.len() < MOST) {
            self.lanes = None;
            self.adapters.push(Adapter {
                name: name.to_owned(),
                ..Adapter::default()
            });
            return;
        }
        let Some(adapter) = self.adapters.last_mut() else {
            return;
        };
        let first = |text: &str| text.split_whitespace().next()?.parse::<f64>().ok();
        let speed = |gigabits: f64| {
            let megabits = gigabits * 1000.0;
            (1.0..=10_000_000.0)
                .contains(&megabits)
                .then_some(megabits as i32)
        };
        if let Some(state) = value(line, "State").or_else(|| value(line, "state")) {
            adapter
                .is_active
                .get_or_insert(state.to_ascii_uppercase().contains("ACTIVE"));
        } else if let Some(rate) = value(line, "Rate") {
            adapter.speed = adapter.speed.or_else(|| speed(first(rate)?));
        } else if let Some(mtu) = value(line, "max_mtu") {
            adapter.most_mtu = adapter.most_mtu.or_else(|| bytes(mtu));
        } else if let Some(mtu) = value(line, "active_mtu") {
            adapter.mtu = adapter.mtu.or_else(|| bytes(mtu));
        } else if let Some(width) = value(line, "active_width") {
            self.lanes = width.split('X').next().and_then(|it| it.parse().ok());
        } else if let Some(rate) = value(line, "active_speed") {
            let lanes = self.lanes.unwrap_or(1.0);
            adapter.speed = adapter.speed.or_else(|| speed(first(rate)? * lanes));
        }
    }
}

/// The bytes of `4096 (5)`.
fn bytes(text: &str) -> Option<u32> {
    let bytes = text.split_whitespace().next()?.parse().ok()?;
    (256..=1 << 16).contains(&bytes).then_some(bytes)
}

/// The first port of an adapter in a line of `rdma link`, such as
/// `link mlx5_0/1 state ACTIVE physical_state LINK_UP`, and whether it is up.
fn rdma_link(line: &str) -> Option<(&str, bool)> {
    let (place, state) = line.split_once(" state ")?;
    let name = place
        .split_whitespace()
        .last()?
        .trim_end_matches(':')
        .strip_suffix("/1")?;
    let state = state.split_whitespace().next()?;
    is_device_name(name).then_some((name, state == "ACTIVE"))
}
