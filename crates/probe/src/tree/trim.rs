//! Trims a file to the part that one rank uses.

use topology::xml::{Element, Tag};

use crate::net::ProbedNet;

/// Keeps the GPU at this bus id, the network devices, and their ancestors.
pub fn to(root: &mut Element, gpu: &str, nets: &[ProbedNet]) {
    root.children.retain_mut(|cpu| is_used(cpu, gpu, nets));
}

fn is_used(element: &mut Element, gpu: &str, nets: &[ProbedNet]) -> bool {
    match element.tag {
        Tag::Net => nets
            .iter()
            .any(|net| Some(net.name.as_str()) == element.get("name")),
        Tag::Cpu | Tag::Pci | Tag::Nic => {
            let own = element
                .get("busid")
                .is_some_and(|own| own.eq_ignore_ascii_case(gpu));
            element
                .children
                .retain_mut(|child| is_used(child, gpu, nets));
            let holds = |tags: &[Tag]| {
                element
                    .children
                    .iter()
                    .any(|child| tags.contains(&child.tag))
            };
            holds(&[Tag::Pci, Tag::Nic, Tag::Net]) || own && holds(&[Tag::Gpu])
        }
        // Other elements are kept with their parent.
        _ => true,
    }
}
