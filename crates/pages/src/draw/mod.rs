//! Pictures of machines and channels.
//!
//! A machine is drawn as people draw it: processors on top, switches below them, network ports and
//! GPUs at the bottom, the NVSwitch or curves for NVLinks below the GPUs. Lines are wider with more
//! bandwidth, and change color with the load of the channels. Pictures are SVG with text as text,
//! colors for light and dark screens, and a hint for each box and line.
//!
//! The crate is pure. In reading order: [`parts`], [`layout`], [`svg`], [`traffic`], [`picture`],
//! [`strips`], [`differences`], [`timeline`](mod@timeline), [`dot`](mod@dot), [`html`],
//! [`plans`].

pub mod differences;
pub mod dot;
pub mod html;
pub mod layout;
pub mod parts;
pub mod picture;
pub mod plans;
pub mod strips;
pub mod svg;
pub mod text;
pub mod timeline;
pub mod traffic;

use plan::Graph;
use planner::Routing;
use planner::explain::NodeNames;

pub use dot::dot;
pub use picture::{Marks, Overlay, Route};
use svg::Elements;

/// Left edge and height of a title, pixels.
const TITLE: (f64, f64) = (20.0, 30.0);

/// Least room for channels below a machine, pixels.
const ROOM: f64 = 900.0;

/// A picture of a machine alone: an SVG file, or an element of a page if it is not `alone`.
pub fn machine(title: &str, names: &NodeNames<'_>, shown: &Overlay, alone: bool) -> String {
    let (elements, size) = picture::machine(names, shown);
    elements.picture(size, title, alone)
}

/// The channels of a search on its machine.
#[derive(Debug, Clone, Copy)]
pub struct Channels<'a> {
    /// The machine with its paths.
    pub routing: &'a Routing,
    /// The channels.
    pub graph: &'a Graph,
    /// The numbers of the channels to draw as arrows.
    pub routes: &'a [usize],
    /// Differences from another machine.
    pub marks: &'a Marks,
}

/// A picture of a machine with the load of every link by the channels of a search, and the channels
/// in order below: an SVG file, or an element of a page if it is not `alone`.
pub fn channels(title: &str, channels: Channels<'_>, alone: bool) -> String {
    let Channels {
        routing,
        graph,
        routes,
        marks,
    } = channels;
    let system = routing.system();
    let names = NodeNames::new(system);
    let route = |number: &usize| {
        let channel = graph.channels.get(*number)?;
        Some(Route {
            name: format!("{} {number}", graph.kind),
            color: *number,
            hops: traffic::hops(system, graph.pattern, channel),
        })
    };
    let shown = Overlay {
        loads: traffic::loads(routing, graph),
        routes: routes.iter().filter_map(route).collect(),
        marks: marks.clone(),
    };
    let (machine, size) = picture::machine(&names, &shown);
    let mut elements = Elements::default();
    elements.text("t", (TITLE.0, TITLE.1 - 6.0), title);
    let mut y = TITLE.1;
    let mut width = size.0;
    elements.shifted((0.0, y), &machine);
    y += size.1;
    let strips = strips::draw(&names, graph, size.0.max(ROOM));
    for (part, size) in [picture::legend(), strips] {
        elements.shifted((0.0, y), &part);
        y += size.1;
        width = width.max(size.0);
    }
    elements.picture((width, y), title, alone)
}
