//! `ibstat`, `ibstatus`, `ibv_devinfo -v`, `ibdev2netdev` and `rdma link`: the ports of RDMA
//! adapters.

use crate::text::{MOST, has, is_device_name, value};

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
    /// Its network interface.
    pub interface: Option<String>,
    /// Its link layer is InfiniBand.
    pub is_infiniband: bool,
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
        if let Some((name, is_active, interface)) = rdma_link(line).or_else(|| netdev(line)) {
            let known = self.adapters.iter().position(|it| it.name == name);
            let place = known.unwrap_or(self.adapters.len());
            if place == self.adapters.len() {
                if place == MOST {
                    return;
                }
                self.adapters.push(Adapter {
                    name: name.to_owned(),
                    ..Adapter::default()
                });
            }
            let adapter = &mut self.adapters[place];
            adapter.is_active.get_or_insert(is_active);
            adapter.interface = interface.map(|it| it.chars().take(64).collect());
            return;
        }
        let name = value(line, "hca_id").or_else(|| {
            let quoted = line.trim().strip_prefix("CA '")?;
            quoted.strip_suffix('\'')
        });
        let name = name.or_else(|| {
            let quoted = line.trim().strip_prefix("Infiniband device '")?;
            quoted.split_once("' port 1 status:").map(|it| it.0)
        });
        if let Some(name) = name.filter(|it| is_device_name(it) && self.adapters.len() < MOST) {
            self.lanes = None;
            // The last one is the one that further lines describe.
            let known = self.adapters.iter().position(|it| it.name == name);
            let adapter = known.map(|at| self.adapters.remove(at));
            self.adapters.push(adapter.unwrap_or_else(|| Adapter {
                name: name.to_owned(),
                ..Adapter::default()
            }));
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
        } else if let Some(rate) = value(line, "Rate").or_else(|| value(line, "rate")) {
            adapter.speed = adapter.speed.or_else(|| speed(first(rate)?));
        } else if let Some(layer) = value(line, "Link layer").or_else(|| value(line, "link_layer"))
        {
            adapter.is_infiniband = layer == "InfiniBand";
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
/// `link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth0`: whether it is up, and its
/// interface.
fn rdma_link(line: &str) -> Option<(&str, bool, Option<&str>)> {
    let (place, state) = has(line, "state ").then(|| line.split_once(" state "))??;
    let name = place
        .split_whitespace()
        .last()?
        .trim_end_matches(':')
        .strip_suffix("/1")?;
    let interface = state.split_once(" netdev ");
    let interface = interface.and_then(|it| it.1.split_whitespace().next());
    let state = state.split_whitespace().next()?;
    is_device_name(name).then_some((name, state == "ACTIVE", interface))
}

/// As [`rdma_link`], of a line of ibdev2netdev: `mlx5_0 port 1 ==> eth0 (Up)`.
fn netdev(line: &str) -> Option<(&str, bool, Option<&str>)> {
    let (name, rest) = has(line, "==> ").then(|| line.trim().split_once(" port 1 ==> "))??;
    let (interface, state) = rest.split_once(" (")?;
    let name = is_device_name(name).then_some(name)?;
    Some((name, state.trim_end() == "Up)", Some(interface)))
}
