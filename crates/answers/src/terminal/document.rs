//! A topology file that is not a valid machine, as a tree.

use topology::xml::{Document, Element, Tag};

use super::Look;
use super::branch::Branch;

/// The file's elements as a tree.
pub fn tree(document: &Document, look: Look) -> String {
    let mut text = String::new();
    for cpu in &document.root.children {
        let mut branch = branch(cpu);
        branch.text = look.heading(&branch.text);
        text.push_str(&branch.draw());
    }
    let gpus = gpus_by_bus_id(&document.root);
    for (title, tag) in [
        ("NVLink", Tag::Nvlink),
        ("xGMI", Tag::Xgmi),
        ("C2C", Tag::C2c),
    ] {
        let mut lines = Vec::new();
        links(&document.root, tag, None, &gpus, &mut lines);
        if !lines.is_empty() {
            text.push_str(&format!("\n{}\n", look.heading(title)));
            lines
                .iter()
                .for_each(|line| text.push_str(&format!("  {line}\n")));
        }
    }
    text
}

fn branch(element: &Element) -> Branch {
    let get = |name| element.get(name).unwrap_or("?");
    let text = match element.tag {
        Tag::Cpu => format!(
            "CPU{}  {} {}",
            get("numaid"),
            element.get("arch").unwrap_or(""),
            element.get("vendor").unwrap_or("")
        ),
        Tag::Pci => {
            let width = element
                .get("link_width")
                .map_or_else(String::new, |width| format!(" x{width}"));
            let speed = element.get("link_speed").filter(|speed| !speed.is_empty());
            let class = element
                .get("class")
                .map_or_else(String::new, |class| format!("  class {class}"));
            let speed = speed.map_or_else(String::new, |speed| format!("  {speed}{width}"));
            format!("{}{class}{speed}", get("busid"))
        }
        Tag::Gpu => format!(
            "GPU{}  sm {}",
            get("dev"),
            element.get("gcn").unwrap_or_else(|| get("sm"))
        ),
        Tag::Net => format!("NIC{}  {}  {} Mb/s", get("dev"), get("name"), get("speed")),
        other => other.name().to_owned(),
    };
    let crossing = [Tag::Nvlink, Tag::Xgmi, Tag::C2c];
    let mut below: Vec<Branch> = element
        .children
        .iter()
        .filter(|child| !crossing.contains(&child.tag))
        .map(branch)
        .collect();
    // A <nic> with one port adds nothing to its port.
    if element.tag == Tag::Nic && below.len() == 1 {
        return below.remove(0);
    }
    Branch {
        text: text.trim_end().to_owned(),
        below,
    }
}

/// The names of GPUs by the bus id that links give as their target.
fn gpus_by_bus_id(root: &Element) -> Vec<(String, String)> {
    fn walk(element: &Element, found: &mut Vec<(String, String)>) {
        for child in &element.children {
            if child.tag == Tag::Gpu {
                let bus_id = element.get("busid").unwrap_or_default().to_owned();
                found.push((bus_id, format!("GPU{}", child.get("dev").unwrap_or("?"))));
            }
            walk(child, found);
        }
    }
    let mut found = Vec::new();
    walk(root, &mut found);
    found
}

fn links(
    element: &Element,
    tag: Tag,
    gpu: Option<&str>,
    gpus: &[(String, String)],
    lines: &mut Vec<String>,
) {
    let ends: Vec<String> = element
        .children(tag)
        .map(|link| {
            let target = link.get("target").unwrap_or_default();
            let name = gpus
                .iter()
                .find(|(bus_id, _)| bus_id == target)
                .map(|(_, name)| name.as_str());
            let name = name.unwrap_or(match (tag, target) {
                (Tag::C2c, _) => "its CPU",
                (_, "fffffff:ffff:ff") => "NVSwitch",
                _ => target,
            });
            format!("{name} ×{}", link.get("count").unwrap_or("?"))
        })
        .collect();
    if let Some(gpu) = gpu.filter(|_| !ends.is_empty()) {
        lines.push(format!("{gpu} – {}", ends.join(", ")));
    }
    for child in &element.children {
        let name =
            (child.tag == Tag::Gpu).then(|| format!("GPU{}", child.get("dev").unwrap_or("?")));
        links(child, tag, name.as_deref(), gpus, lines);
    }
}
