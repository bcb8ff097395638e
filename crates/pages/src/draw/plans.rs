//! Pictures of plans: SVG, HTML, Graphviz.

use plan::{Graph, GraphKind};
use planner::explain::NodeNames;
use planner::{HostPlan, Planned};
use topology::System;

use super::differences::marks;
use super::html::{self, Tab};
use super::{Channels, Marks, Overlay, dot};
use crate::terminal::Look;

/// Channels to draw as arrows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Highlight {
    /// Their kind.
    pub kind: GraphKind,
    /// The channel; all without it.
    pub channel: Option<usize>,
}

/// Reads `ring`, `tree`, `ring:3`.
///
/// # Errors
/// The text is none of these; the error says what is expected.
pub fn highlight(text: &str) -> Result<Highlight, String> {
    let expected = || {
        format!(
            "expected ring, tree, nvls or collnet, or one of its channels such as ring:3, not `{text}`"
        )
    };
    let (kind, channel) = match text.split_once(':') {
        Some((kind, channel)) => (kind, Some(channel)),
        None => (text, None),
    };
    let kind = match kind {
        "collnet" => GraphKind::CollnetDirect,
        name => {
            let mut all = GraphKind::IN_SEARCH_ORDER.into_iter();
            all.find(|it| it.name() == name).ok_or_else(expected)?
        }
    };
    let channel = channel.map(|it| it.parse().map_err(|_| expected()));
    Ok(Highlight {
        kind,
        channel: channel.transpose()?,
    })
}

/// The look of text in a page.
pub const LOOK: Look = Look {
    width: 120,
    color: false,
};

/// The forms of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PictureFormat {
    /// A picture, for browsers and documents
    Svg,
    /// A page with pictures and the text, for browsers
    Html,
    /// A graph for Graphviz
    Dot,
}

/// A machine without a plan.
pub fn machine(name: &str, system: &System, format: PictureFormat, text: &str) -> String {
    let names = NodeNames::new(system);
    match format {
        PictureFormat::Svg => super::machine(name, &names, &Overlay::default(), true),
        PictureFormat::Dot => dot(name, &names),
        PictureFormat::Html => {
            let picture = super::machine(name, &names, &Overlay::default(), false);
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
pub fn plan(
    planned: &Planned,
    text: &str,
    format: PictureFormat,
    highlight: Option<Highlight>,
) -> Result<String, String> {
    let (name, first) = first(planned)?;
    let hosts = hosts(planned);
    match format {
        PictureFormat::Dot => Ok(dot(name, &NodeNames::new(first.view.system()))),
        PictureFormat::Svg => {
            if hosts.len() > 1 {
                return Err(format!(
                    "{}: {} different machines are no single picture; html has one for each",
                    planned.name(),
                    hosts.len()
                ));
            }
            self::host(planned, (name, first), highlight)
        }
        PictureFormat::Html => page(planned, text),
    }
}

/// A page with the pictures of all machines of a plan, above a text.
///
/// # Errors
/// A machine cannot be drawn.
pub fn page(planned: &Planned, text: &str) -> Result<String, String> {
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

/// The first of them.
fn first(planned: &Planned) -> Result<(&str, &HostPlan), String> {
    let found = hosts(planned).into_iter().next();
    found.ok_or_else(|| format!("{}: the plan has no host to draw", planned.name()))
}

/// A host's picture with the load of its links, and channels as arrows.
///
/// # Errors
/// The plan has no such channel.
pub fn host(
    planned: &Planned,
    (machine, host): (&str, &HostPlan),
    highlight: Option<Highlight>,
) -> Result<String, String> {
    let title = title(machine, planned);
    picture(&title, host, highlight, &Marks::default(), true)
}

/// A machine's name, and how many equal hosts there are.
fn title(name: &str, planned: &Planned) -> String {
    match planned.plan().request.hosts {
        0 | 1 => name.to_owned(),
        hosts => format!("{name}, one of {hosts} hosts"),
    }
}

/// The first machines of two jobs, with what each has and the other lacks: SVG files, or elements
/// of a page if they are not `alone`.
///
/// # Errors
/// A job has no host.
pub fn beside(sides: [&Planned; 2], alone: bool) -> Result<[String; 2], String> {
    let [(name, one), (other_name, other)] = [first(sides[0])?, first(sides[1])?];
    let names = [one, other].map(|it| NodeNames::new(it.view.system()));
    let gone = marks(&names[0], &names[1], "gone");
    let new = marks(&names[1], &names[0], "new");
    Ok([
        picture(&title(name, sides[0]), one, None, &gone, alone)?,
        picture(&title(other_name, sides[1]), other, None, &new, alone)?,
    ])
}

/// A page with two machines, with what each has and the other lacks.
///
/// # Errors
/// A job has no host.
pub fn differences(sides: [&Planned; 2], text: &str) -> Result<String, String> {
    let names = sides.map(Planned::name);
    let pictures = ["A", "B"]
        .into_iter()
        .zip(&names)
        .zip(beside(sides, false)?);
    let tabs = pictures.map(|((letter, name), picture)| Tab {
        name: format!("{letter}: {name}"),
        picture,
    });
    let title = format!("{} and {}", names[0], names[1]);
    Ok(html::page(&title, &tabs.collect::<Vec<_>>(), text))
}

/// One host with the channels of one kind.
fn picture(
    name: &str,
    host: &HostPlan,
    highlight: Option<Highlight>,
    marks: &Marks,
    alone: bool,
) -> Result<String, String> {
    let kind = highlight.map_or(GraphKind::Ring, |it| it.kind);
    let Some(graph) = host.graph(kind).filter(|it| !it.channels.is_empty()) else {
        // One GPU has no channels.
        if highlight.is_none() {
            let names = NodeNames::new(host.view.system());
            let shown = Overlay {
                marks: marks.clone(),
                ..Overlay::default()
            };
            return Ok(super::machine(name, &names, &shown, alone));
        }
        return Err(format!("{name}: the plan has no channel of kind {kind}"));
    };
    let count = graph.channels.len();
    let routes: Vec<usize> = match highlight {
        None => Vec::new(),
        Some(Highlight { channel: None, .. }) => (0..count).collect(),
        Some(Highlight {
            channel: Some(channel),
            ..
        }) if channel < count => vec![channel],
        Some(_) => {
            return Err(format!(
                "{name}: {kind} has the channels 0 to {}",
                count - 1
            ));
        }
    };
    let routing = host.view.routing();
    let channels = Channels {
        routing,
        graph,
        routes: &routes,
        marks,
    };
    Ok(super::channels(name, channels, alone))
}

/// All pictures of a host: the load by rings, each different ring, the trees, NVLS.
fn tabs_of(name: &str, prefix: &str, host: &HostPlan) -> Result<Vec<Tab>, String> {
    let mut tabs = Vec::new();
    let mut add = |label: String, highlight: Option<Highlight>| -> Result<(), String> {
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
