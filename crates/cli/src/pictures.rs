//! Pictures of machines and plans: SVG, HTML, Graphviz.

use anyhow::{Result, anyhow, bail};
use pages::draw::html::{self, Tab};
use pages::draw::{Channels, Marks, Overlay};
use plan::{Graph, GraphKind};
use planner::explain::NodeNames;
use planner::{HostPlan, Planned};
use topology::System;

use crate::arguments::picture::Highlight;
use crate::render::Look;
use crate::render::plan::PlanPage;

/// The look of text in a page.
pub(crate) const LOOK: Look = Look {
    width: 120,
    color: false,
};

/// The forms of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PictureFormat {
    /// A picture, for browsers and documents
    Svg,
    /// A page with pictures and the text, for browsers
    Html,
    /// A graph for Graphviz
    Dot,
}

/// A machine without a plan.
pub(crate) fn machine(name: &str, system: &System, format: PictureFormat, text: &str) -> String {
    let names = NodeNames::new(system);
    match format {
        PictureFormat::Svg => pages::draw::machine(name, &names, &Overlay::default(), true),
        PictureFormat::Dot => pages::draw::dot(name, &names),
        PictureFormat::Html => {
            let picture = pages::draw::machine(name, &names, &Overlay::default(), false);
            let tab = Tab {
                name: "machine".to_owned(),
                picture,
            };
            html::page(name, &[tab], text)
        }
    }
}

/// The machines of a plan with their channels.
///
/// # Errors
/// The plan has no such channel.
pub(crate) fn plan(
    planned: &Planned,
    page: &PlanPage<'_>,
    format: PictureFormat,
    highlight: Option<Highlight>,
) -> Result<String> {
    let hosts = hosts(planned);
    let Some((name, first)) = hosts.first() else {
        bail!("{}: the plan has no host to draw", planned.name());
    };
    match format {
        PictureFormat::Dot => Ok(pages::draw::dot(name, &NodeNames::new(first.view.system()))),
        PictureFormat::Svg => {
            if hosts.len() > 1 {
                bail!(
                    "{}: {} different machines are no single picture; take --format html, which has one for each",
                    planned.name(),
                    hosts.len()
                );
            }
            picture(
                &title(name, planned),
                first,
                highlight,
                &Marks::default(),
                true,
            )
        }
        PictureFormat::Html => self::page(planned, &page.page().text(LOOK)),
    }
}

/// A page with the pictures of all machines of a plan, above a text.
///
/// # Errors
/// A machine cannot be drawn.
pub(crate) fn page(planned: &Planned, text: &str) -> Result<String> {
    let hosts = hosts(planned);
    let mut tabs = Vec::new();
    for (name, host) in &hosts {
        let prefix = match hosts.len() {
            1 => String::new(),
            _ => format!("{name}: "),
        };
        tabs.extend(tabs_of(&title(name, planned), &prefix, host)?);
    }
    Ok(html::page(&planned.name(), &tabs, text))
}

/// The hosts of a plan that differ, each with its machine's name.
fn hosts(planned: &Planned) -> Vec<(&str, &HostPlan)> {
    let machines = planned.machines().iter();
    let hosts = machines.flat_map(|machine| {
        let nodes = machine.nodes.iter();
        nodes.map(|node| (machine.name.as_str(), node))
    });
    hosts.collect()
}

/// A machine's name, and how many equal hosts there are.
fn title(name: &str, planned: &Planned) -> String {
    match planned.plan().request.hosts {
        0 | 1 => name.to_owned(),
        hosts => format!("{name}, one of {hosts} hosts"),
    }
}

/// Two machines, with what each has and the other lacks.
///
/// # Errors
/// A job has no host.
pub(crate) fn differences(sides: [&Planned; 2], text: &str) -> Result<String> {
    let mut hosts = Vec::new();
    for side in sides {
        let host = side.machines().first().and_then(|it| it.nodes.first());
        hosts.push(host.ok_or_else(|| anyhow!("{}: the plan has no host to draw", side.name()))?);
    }
    let names: Vec<NodeNames<'_>> = hosts
        .iter()
        .map(|host| NodeNames::new(host.view.system()))
        .collect();
    let marks = [
        pages::draw::differences::marks(&names[0], &names[1], "gone"),
        pages::draw::differences::marks(&names[1], &names[0], "new"),
    ];
    let mut tabs = Vec::new();
    for (letter, number) in [("A", 0), ("B", 1)] {
        let label = format!("{letter}: {}", sides[number].name());
        let host = hosts[number];
        let picture = picture(&label, host, None, &marks[number], false)?;
        tabs.push(Tab {
            name: label,
            picture,
        });
    }
    let title = format!("{} and {}", sides[0].name(), sides[1].name());
    Ok(html::page(&title, &tabs, text))
}

/// One host with the channels of one kind.
fn picture(
    name: &str,
    host: &HostPlan,
    highlight: Option<Highlight>,
    marks: &Marks,
    alone: bool,
) -> Result<String> {
    let kind = highlight.map_or(GraphKind::Ring, |it| it.kind);
    let Some(graph) = host.graph(kind).filter(|it| !it.channels.is_empty()) else {
        // One GPU has no channels.
        if highlight.is_none() {
            let names = NodeNames::new(host.view.system());
            let shown = Overlay {
                marks: marks.clone(),
                ..Overlay::default()
            };
            return Ok(pages::draw::machine(name, &names, &shown, alone));
        }
        bail!("{name}: the plan has no channel of kind {kind}");
    };
    let count = graph.channels.len();
    let routes: Vec<usize> = match highlight {
        None => Vec::new(),
        Some(Highlight { channel: None, .. }) => (0..count).collect(),
        Some(Highlight {
            channel: Some(channel),
            ..
        }) if channel < count => vec![channel],
        Some(_) => bail!("{name}: {kind} has the channels 0 to {}", count - 1),
    };
    let routing = host.view.routing();
    let channels = Channels {
        routing,
        graph,
        routes: &routes,
        marks,
    };
    Ok(pages::draw::channels(name, channels, alone))
}

/// All pictures of a host: the load by rings, each different ring, the trees, NVLS.
fn tabs_of(name: &str, prefix: &str, host: &HostPlan) -> Result<Vec<Tab>> {
    let mut tabs = Vec::new();
    let mut add = |label: String, highlight: Option<Highlight>| -> Result<()> {
        let picture = picture(name, host, highlight, &Marks::default(), false)?;
        let name = format!("{prefix}{label}");
        tabs.push(Tab { name, picture });
        Ok(())
    };
    add("load by rings".to_owned(), None)?;
    for kind in [GraphKind::Ring, GraphKind::Tree] {
        let Some(graph) = host.graph(kind) else {
            continue;
        };
        for number in different(graph) {
            let channel = Some(number);
            add(
                format!("{kind} {number}"),
                Some(Highlight { kind, channel }),
            )?;
        }
    }
    if host
        .graph(GraphKind::Nvls)
        .is_some_and(|it| !it.channels.is_empty())
    {
        let kind = GraphKind::Nvls;
        let channel = None;
        add("nvls".to_owned(), Some(Highlight { kind, channel }))?;
    }
    Ok(tabs)
}

/// The first of each kind of channel with equal order.
fn different(graph: &Graph) -> Vec<usize> {
    let channels = &graph.channels;
    let is_first = |index: &usize| !channels[..*index].contains(&channels[*index]);
    (0..channels.len()).filter(is_first).collect()
}
