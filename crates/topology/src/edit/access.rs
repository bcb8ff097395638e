//! Peer access between GPUs, taken away.

use std::collections::BTreeSet;

use super::apply::Work;
use super::names::{Device, DeviceKind};
use crate::node::NO_P2P;
use crate::xml::c_int;

impl Work<'_> {
    /// Takes the access away between GPUs and all others of their host, in both directions.
    pub(super) fn refuse_access(&mut self, gpus: &[&Device]) {
        let host = gpus.first().map_or(0, |it| it.host);
        let devices = self.devices.all.iter();
        let of_host = devices.filter(|it| it.kind == DeviceKind::Gpu && it.host == host);
        let of_host: Vec<&Device> = of_host.collect();
        let number = |device: &Device| self.at(&device.element).get("dev").map_or(-1, c_int);
        let lists = of_host.iter().map(|own| {
            let is_one = |it: &Device| gpus.iter().any(|gpu| gpu.element == it.element);
            let others = of_host.iter().filter(|it| number(it) != number(own));
            let refused = others.filter(|it| is_one(own) || is_one(it));
            let known = self.at(&own.element).get(NO_P2P).unwrap_or_default();
            let known = known.split(',').filter_map(|it| it.trim().parse().ok());
            let all: BTreeSet<i32> = refused.map(|it| number(it)).chain(known).collect();
            let all: Vec<String> = all.iter().map(ToString::to_string).collect();
            (own.element.clone(), NO_P2P, all.join(","))
        });
        let lists: Vec<_> = lists.filter(|it| !it.2.is_empty()).collect();
        self.set.extend(lists);
    }
}
