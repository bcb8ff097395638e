//! Devices and links that are not what they seem.

use super::super::{Element, c_int};
use super::{Lint, at, excerpt};
use crate::node::NodeType;
use crate::{BusId, bandwidth};

/// A port faster than this (in Mb/s) is taken for a mistake: 10 Tb/s.
const FASTEST_NET: i32 = 10_000_000;

impl<'d> Lint<'d> {
    pub(super) fn pci(&mut self, pci: &'d Element) {
        self.bus_id(pci, "busid");
        if let Some(text) = pci.get("busid")
            && let Some(first) =
                Self::first(&mut self.bus_ids, (self.host, BusId::parse(text)), pci)
        {
            self.warn("same bus id", text, pci, Some("busid"), || {
                format!(
                    "bus id {} stands {} already: NCCL looks up the first, and GPUs or NICs of one bus id become one node",
                    excerpt(text),
                    at(first)
                )
            });
        }
        if let Some(class) = pci.get("class")
            && !self.knows_class(class)
        {
            self.warn("class", class, pci, Some("class"), || {
                format!(
                    "NCCL does not know the PCI class {} and takes the device for a PCI switch",
                    excerpt(class)
                )
            });
        }
        if let Some(speed) = pci.get("link_speed")
            && !bandwidth::is_known_link_speed(speed)
        {
            self.warn("link_speed", speed, pci, Some("link_speed"), || {
                link_speed_message(speed)
            });
        }
        if let Some(width) = pci.get("link_width")
            && !matches!(c_int(width), 0 | 1 | 2 | 4 | 8 | 12 | 16 | 32)
        {
            self.warn("link_width", width, pci, Some("link_width"), || {
                format!(
                    "{} is not a width that PCI Express has: NCCL calculates with it as it stands",
                    excerpt(width)
                )
            });
        }
    }

    pub(super) fn gpu(&mut self, gpu: &'d Element, pci: Option<&'d Element>) {
        if let Some(bus_id) = pci.and_then(|pci| pci.get("busid")) {
            self.gpu_bus_ids
                .insert((self.host, BusId::parse(bus_id)), ());
        }
        match gpu.get("rank") {
            None => self.warn("no rank", "", gpu, None, || {
                "a GPU without `rank`: NCCL leaves out this GPU and everything else in its <pci>".to_owned()
            }),
            Some(rank) => {
                if let Some(first) = Self::first(&mut self.ranks, (self.host, c_int(rank)), gpu) {
                    self.warn("rank", rank, gpu, Some("rank"), || {
                        format!("rank {} stands {} already: a rank means one GPU", excerpt(rank), at(first))
                    });
                }
            }
        }
        // Several ranks may share a device: their <gpu>s are in one <pci> with one `dev`.
        let earlier = pci.is_some_and(|pci| {
            let earlier = pci
                .children(gpu.tag)
                .take_while(|other| !std::ptr::eq(*other, gpu));
            earlier
                .into_iter()
                .any(|other| other.get("dev") == gpu.get("dev"))
        });
        if let Some(dev) = gpu.get("dev")
            && !earlier
            && let Some(first) = Self::first(&mut self.gpu_devs, (self.host, c_int(dev)), gpu)
        {
            self.warn("dev", dev, gpu, Some("dev"), || {
                format!("GPU {} stands {} already, on another bus id: a device number means one GPU of a host", excerpt(dev), at(first))
            });
        }
    }

    pub(super) fn net(&mut self, net: &'d Element) {
        let Some(dev) = net.get("dev") else {
            self.warn("no dev", "", net, None, || {
                "a network port without `dev`: NCCL leaves it out".to_owned()
            });
            return;
        };
        if net.get("net").is_none_or(|flag| c_int(flag) != 0)
            && let Some(first) = Self::first(&mut self.net_devs, (self.host, c_int(dev)), net)
        {
            self.warn("net dev", dev, net, Some("dev"), || {
                format!(
                    "network device {} stands {} already: NCCL looks up the first of a number",
                    excerpt(dev),
                    at(first)
                )
            });
        }
        match net.get("speed") {
            None => self.warn("speed", "", net, None, || {
                "a network port without `speed` counts as 10 Gb/s".to_owned()
            }),
            Some(text) => {
                let speed = c_int(text);
                if speed <= 0 {
                    self.warn("speed", text, net, Some("speed"), || {
                        format!("NCCL reads {speed} here, and counts a speed that is not above 0 as 10 Gb/s")
                    });
                } else if speed > FASTEST_NET {
                    self.warn("speed", text, net, Some("speed"), || {
                        format!("{speed} Mb/s is more than 10 Tb/s; the speed is given in Mb/s")
                    });
                }
            }
        }
    }

    pub(super) fn nvlink(&mut self, nvlink: &'d Element) {
        let Some(class) = nvlink.get("tclass") else {
            return;
        };
        if !self.knows_class(class) {
            self.warn("tclass", class, nvlink, Some("tclass"), || {
                format!(
                    "NCCL does not know the PCI class {} and takes the far end for an NVSwitch",
                    excerpt(class)
                )
            });
        } else if bandwidth::class_kind(class) == NodeType::Gpu {
            self.bus_id(nvlink, "target");
            self.nvlinks.push((self.host, nvlink));
        }
    }

    /// Warns about NVLinks to GPUs that are not in the file. To be called when all GPUs were seen.
    pub(super) fn nvlink_targets(&mut self) {
        for (host, nvlink) in std::mem::take(&mut self.nvlinks) {
            let Some(target) = nvlink.get("target") else {
                continue;
            };
            if !self.gpu_bus_ids.contains_key(&(host, BusId::parse(target))) {
                self.warn("nvlink", target, nvlink, Some("target"), || {
                    format!(
                        "no <gpu> of this host has the bus id {}: NCCL leaves out the link",
                        excerpt(target)
                    )
                });
            }
        }
    }

    /// AMD's accelerators have a class of their own, which RCCL knows.
    fn knows_class(&self, class: &str) -> bool {
        bandwidth::is_known_class(class)
            || (self.version == super::names::RCCL_VERSION && class.starts_with("0x12"))
    }
}

/// The message for an unknown link speed, with the probable correction.
fn link_speed_message(text: &str) -> String {
    const GENERATIONS: [(&str, &str); 6] = [
        ("2.5", "2.5 GT/s PCIe"),
        ("5", "5.0 GT/s PCIe"),
        ("8", "8.0 GT/s PCIe"),
        ("16", "16.0 GT/s PCIe"),
        ("32", "32.0 GT/s PCIe"),
        ("64", "64.0 GT/s PCIe"),
    ];
    let gen3 = "8 GT/s (PCIe Gen3)";
    if text.is_empty() {
        return format!("an empty link speed counts as {gen3}");
    }
    let number = text.split([' ', 'G']).next().unwrap_or("");
    let number = number.strip_suffix(".0").unwrap_or(number);
    let meant = GENERATIONS.iter().find(|(rate, _)| *rate == number);
    let advice = meant.map_or_else(String::new, |(_, meant)| {
        format!("; write `{meant}` if that is meant")
    });
    format!(
        "NCCL does not know the link speed {} and counts it as {gen3}{advice}",
        excerpt(text)
    )
}
