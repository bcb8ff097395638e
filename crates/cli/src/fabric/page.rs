//! The page of `topo simulate --network-only`.

use std::collections::BTreeMap;

use answers::fabric::{FabricView, Network, Order};
use simulator::fabric::host_list::short;

use crate::render::table::Columns;
use crate::render::{Look, count, microseconds, or_dash, trim_lines, wrap};

/// Most switches and missing links that are shown.
const SHOWN: usize = 32;

pub(super) fn page(view: &FabricView, look: Look) -> String {
    let hosts = count(view.names.len(), "host");
    let mut text = look.title(&view.file, &hosts);
    text.push_str(&match &view.network {
        Network::Cables(cables) => {
            let words = format!("{} without a switch", count(cables.count(), "cable"));
            look.field("network", &words)
        }
        Network::Tree(tree, _) => {
            let words = match tree.switches.len() {
                1 => "1 switch".to_owned(),
                all => format!("{all} switches"),
            };
            look.field("network", &words)
        }
        Network::Leaves(leaf) => {
            let leaves = leaf.count(view.names.len() as u32);
            look.field("network", &format!("{leaves} leaf switches"))
        }
    });
    if let Some((one, other)) = &view.apart {
        let words = format!("no switch connects {one} and {other}");
        text.push_str(&look.field("apart", &words));
    }
    if let Network::Cables(cables) = &view.network {
        text.push_str(&cables_section(view, cables, look));
        return trim_lines(&text);
    }
    text.push_str(&look.section("Leaf switches", "", &leaves(view, look)));
    text.push_str(&look.section("Rank order", "", &orders(view, look)));
    trim_lines(&text)
}

fn leaves(view: &FabricView, look: Look) -> String {
    let mut by_leaf: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (host, name) in view.names.iter().enumerate() {
        let leaf = match &view.network {
            Network::Tree(_, leaves) => leaves[host],
            Network::Leaves(leaf) => leaf.of_host(host as u32) as usize,
            Network::Cables(_) => 0,
        };
        by_leaf.entry(leaf).or_default().push(name.clone());
    }
    let mut table = Columns::new(look, &["switch", "below", "hosts", "names"]).right(&[2]);
    let all = by_leaf.len();
    for (leaf, names) in by_leaf.into_iter().take(SHOWN) {
        let (name, above) = match &view.network {
            Network::Tree(tree, _) => {
                let switch = &tree.switches[leaf];
                let above = switch.above.map(|at| tree.switches[at].name.clone());
                (switch.name.clone(), above)
            }
            _ => (format!("leaf {leaf}"), Some("spine".to_owned())),
        };
        table.row(vec![
            name,
            or_dash(above),
            names.len().to_string(),
            short(&names),
        ]);
    }
    let mut text = table.finish();
    if all > SHOWN {
        text.push_str(&look.faint(&format!("  {} more\n", all - SHOWN)));
    }
    text
}

fn orders(view: &FabricView, look: Look) -> String {
    let mut headers = vec!["order", "ring", "trees"];
    if view.simulated.is_some() {
        headers.push("µs");
    }
    headers.push("hosts");
    let right: Vec<usize> = (1..headers.len() - 1).collect();
    let mut table = Columns::new(look, &headers).right(&right);
    let mut row = |name: &str, order: &Order| {
        let names: Vec<String> = order
            .hosts
            .iter()
            .map(|at| view.names[*at].clone())
            .collect();
        let mut cells = vec![
            name.to_owned(),
            order.ring.to_string(),
            order.trees.to_string(),
        ];
        if view.simulated.is_some() {
            cells.push(or_dash(order.time_us.map(microseconds)));
        }
        cells.push(short(&names));
        table.row(cells);
    };
    row("given", &view.given);
    if let Some(best) = view
        .best
        .as_ref()
        .filter(|best| best.ring < view.given.ring)
    {
        row("best", best);
    }
    let mut text = table.finish();
    let mut remarks = vec![
        "ring, trees: switches above the hosts' own that all links between hosts together pass"
            .to_owned(),
    ];
    remarks.extend(
        view.simulated
            .clone()
            .map(|it| format!("µs: simulated, {it}")),
    );
    if view
        .best
        .as_ref()
        .is_some_and(|best| best.ring == view.given.ring)
    {
        remarks.push("no order lets rings pass fewer switches".to_owned());
    } else {
        remarks.push(
            "start ranks in the best order: --hostfile, then mpirun --hostfile, or SLURM_HOSTFILE with srun \
             --distribution=arbitrary"
                .to_owned(),
        );
    }
    for remark in remarks {
        text.push_str(&look.faint(&wrap(&remark, "  ", "  ", look.width)));
    }
    text
}

fn cables_section(view: &FabricView, cables: &simulator::fabric::Cables, look: Look) -> String {
    let given: Vec<u32> = (0..view.names.len() as u32).collect();
    let words = |links: &[(u32, u32)]| {
        let link = |(one, other): &(u32, u32)| {
            format!(
                "{}–{}",
                view.names[*one as usize], view.names[*other as usize]
            )
        };
        let shown: Vec<String> = links.iter().take(SHOWN).map(link).collect();
        shown.join(", ")
    };
    let ring = cables.missing_of_ring(&given);
    let trees = cables.missing_of_trees(&given);
    let mut lines = Vec::new();
    match ring.is_empty() {
        true => lines.push("rings: every link has a cable".to_owned()),
        false => {
            lines.push(format!("rings: no cable for {}", words(&ring)));
            lines.push(match &view.best {
                Some(best) => {
                    let names: Vec<String> = best
                        .hosts
                        .iter()
                        .map(|at| view.names[*at].clone())
                        .collect();
                    format!("start ranks in this order: {}", names.join(","))
                }
                None => {
                    "no order of these hosts is a ring of cables: add cables, or use fewer hosts"
                        .to_owned()
                }
            });
        }
    }
    match trees.is_empty() {
        true => lines.push("trees: every link has a cable".to_owned()),
        false => lines.push(format!("trees: no cable for {}", words(&trees))),
    }
    let body: String = lines
        .iter()
        .map(|it| wrap(it, "  ", "    ", look.width))
        .collect();
    let mut advice = Vec::new();
    if !trees.is_empty() {
        advice.extend([
            "NCCL_ALGO=Ring, so that neither trees nor PAT are used",
            "NCCL_RUNTIME_CONNECT=1 (the default since 2.22) and NCCL_CUMEM_ENABLE=1: NCCL connects trees when they \
             are first used. Without CUDA's virtual memory (cuMem) it connects them at the beginning, and fails",
            "no all-to-all and no send and receive between hosts without a cable",
        ]);
    }
    advice.push(
        "a subnet of its own for each cable and NCCL_IB_SUBNET_AWARE_ROUTING=1 (2.30.7 and later), so that each \
         connection takes the port whose cable reaches its neighbor",
    );
    let advice: String = advice
        .iter()
        .map(|it| wrap(it, "  ", "    ", look.width))
        .collect();
    look.section("Connections", "of the order that was given", &body)
        + &look.section("Set", "", &advice)
}
