//! Probes a machine.

use topology::xml::Document;

use crate::machine::{Detail, Machine};
use crate::nvml::{self, Answers};
use crate::sysfs::Sysfs;
use crate::{Addresses, Probe, ProbeOptions, base, checks, gpu, net, tree};

/// The document's name in messages.
const NAME: &str = "this machine";

impl Probe {
    /// Probes a machine.
    pub fn of(
        sysfs: &Sysfs,
        answers: Answers,
        addresses: Option<&Addresses>,
        options: &ProbeOptions,
    ) -> Self {
        let mut answers = answers;
        let mut options = options.clone();
        if options.gpus.is_some() || options.visible_devices.is_some() {
            // UUIDs cannot be matched once they are replaced.
            options.gpus = Some(gpu::in_use(&answers, &options));
            options.visible_devices = None;
        }
        let mut hidden = None;
        sysfs.with_privacy(|privacy| {
            nvml::hide(&mut answers, privacy);
            hidden = addresses.map(|addresses| addresses.hidden(privacy));
            let file = &mut options.topology_file;
            *file = file.as_deref().map(|text| base::hidden(text, privacy));
            for list in [&mut options.ib_hca, &mut options.socket_ifname] {
                *list = list.as_deref().map(|text| privacy.list(text));
            }
        });
        let addresses = hidden.as_ref().or(addresses);
        let detail = if options.all_devices {
            Detail::Everything
        } else {
            Detail::Topology
        };
        let gpus = gpu::list(&answers, &options);
        let ends = gpus.iter().flat_map(|gpu| {
            let targets = gpu.nvlinks.iter().map(|(target, _)| target);
            targets.chain([&gpu.bus_id]).cloned()
        });
        let machine = Machine::read(sysfs, detail, addresses, ends);
        let nets = net::list(&machine, &options);
        let base = options.topology_file.as_deref().map(base::read);
        let (base, unread) = match base {
            Some(Ok(root)) => (Some(root), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        let parts = tree::TreeParts::new(&machine, &gpus, &nets, base.as_ref());
        let document = Document::from_root(NAME, parts.root(options.all_devices));
        let mut probe = Self {
            document,
            machine,
            answers,
            gpus,
            nets,
            options,
            base: None,
            findings: Vec::new(),
        };
        probe.base = base;
        probe.findings = checks::of_probe(&probe, unread);
        probe
    }
}
