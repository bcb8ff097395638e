//! Simulates equal lanes once, where that is exact.
//!
//! Lanes, connections and links are divided into classes until all of a class are alike: lanes have
//! the same steps, the same start and, end by end, connections of the same classes; connections
//! have the same properties and join lanes of the same classes over links of the same classes;
//! links have the same capacity and carry as many connections of each class. This is color
//! refinement, and the result is an equitable partition.
//!
//! On such a partition the simulation is exact with one of each class: lanes of a class start
//! alike, and if all of a class were alike until some time, then max-min rates are equal within
//! each class, because filling all links at the same pace keeps equal links equally full. So the
//! next event happens to a whole class at once. A ring over equal hosts becomes a few lanes,
//! however many hosts there are, and a machine's equal rails become one.
//!
//! Colors are hashes, so at the end the partition is compared member by member; nothing depends on
//! hashes being different.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

use crate::model::{Connection, Lane, Link, Model};

/// Most rounds of refinement. Without symmetry there are as many as the longest chain of lanes.
const MOST_ROUNDS: usize = 100;

/// A model with one of each class.
#[derive(Debug, Clone)]
pub struct CollapsedModel {
    /// The smaller model.
    pub model: Model,
    /// For each of its lanes, the lane that it was in the whole model, and how many there are.
    pub lanes: Vec<(u32, u32)>,
    /// For each of its links, the link that it was in the whole model, and how many there are.
    pub links: Vec<(u32, u32)>,
    /// For each of its connections, the connection that it was in the whole model.
    pub connections: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Colors {
    lanes: Vec<u64>,
    connections: Vec<u64>,
    links: Vec<u64>,
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    // FxHasher leaves the low bits of small numbers alike.
    hasher
        .finish()
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
}

/// The properties of a connection without those that name its places.
fn properties(connection: &Connection) -> impl Hash + Eq + use<> {
    (
        connection.transport,
        (connection.limit, connection.limit_kind),
        connection.latency,
        connection.slots,
        (connection.header, connection.expansion),
        (connection.sender_end, connection.receiver_end),
    )
}

impl Colors {
    fn new(model: &Model) -> Self {
        let lane = |lane: &Lane| hash((lane.shape, lane.start, lane.work.is_some(), lane.channel));
        // Lanes of different channels may be alike; the channel is only a name.
        let lane = |it: &Lane| lane(&Lane { channel: 0, ..*it });
        Self {
            lanes: model.lanes.iter().map(lane).collect(),
            connections: model
                .connections
                .iter()
                .map(|it| hash(properties(it)))
                .collect(),
            links: model.links.iter().map(hash).collect(),
        }
    }

    fn refined(&self, model: &Model) -> Self {
        let mut sums = vec![0u64; model.links.len()];
        let connections = model.connections.iter().zip(&self.connections);
        let connections = connections.map(|(connection, color)| {
            let (sender, receiver) = (connection.sender, connection.receiver);
            let lanes = (self.lanes[sender as usize], self.lanes[receiver as usize]);
            let links = model.route(connection).iter();
            let links = links.fold(0u64, |all, (link, _)| {
                // A route is a set: the order of its links does not matter.
                all.wrapping_add(hash(self.links[*link as usize]))
            });
            hash((color, lanes, links))
        });
        let connections: Vec<u64> = connections.collect();
        for (connection, color) in model.connections.iter().zip(&connections) {
            for (link, weight) in model.route(connection) {
                let sum = &mut sums[*link as usize];
                *sum = sum.wrapping_add(hash(*color).wrapping_mul(u64::from(*weight)));
            }
        }
        let lanes = model.lanes.iter().zip(&self.lanes).map(|(lane, color)| {
            let mut hasher = FxHasher::default();
            color.hash(&mut hasher);
            let work = lane.work.iter();
            for end in model.ends_of(lane).iter().chain(work) {
                connections[*end as usize].hash(&mut hasher);
            }
            hash(hasher.finish())
        });
        let links = self.links.iter().zip(&sums);
        Self {
            lanes: lanes.collect(),
            links: links.map(|(color, sum)| hash((color, sum))).collect(),
            connections,
        }
    }

    fn distinct(&self) -> [usize; 3] {
        [&self.lanes, &self.connections, &self.links].map(|colors| {
            let mut sorted = colors.clone();
            sorted.sort_unstable();
            sorted.dedup();
            sorted.len()
        })
    }
}

/// The class of each member, and the first member and size of each class.
struct Classes {
    of: Vec<u32>,
    first: Vec<(u32, u32)>,
}

impl Classes {
    fn new(colors: &[u64]) -> Self {
        let mut known: FxHashMap<u64, u32> = FxHashMap::default();
        let mut first: Vec<(u32, u32)> = Vec::new();
        let of = colors.iter().zip(0..).map(|(color, member)| {
            let class = *known.entry(*color).or_insert_with(|| {
                first.push((member, 0));
                (first.len() - 1) as u32
            });
            first[class as usize].1 += 1;
            class
        });
        let of = of.collect();
        Self { of, first }
    }

    fn class(&self, member: u32) -> u32 {
        self.of[member as usize]
    }
}

struct Partition<'a> {
    model: &'a Model,
    lanes: Classes,
    connections: Classes,
    links: Classes,
}

impl Model {
    /// The model with one of each class; `None` if hardly any are alike.
    pub fn collapsed(&self) -> Option<CollapsedModel> {
        let mut colors = Colors::new(self);
        let mut count = colors.distinct();
        for _ in 0..MOST_ROUNDS {
            colors = colors.refined(self);
            let refined = colors.distinct();
            if refined[0] * 4 > self.lanes.len() * 3 {
                return None;
            }
            if refined == count {
                let partition = Partition {
                    model: self,
                    lanes: Classes::new(&colors.lanes),
                    connections: Classes::new(&colors.connections),
                    links: Classes::new(&colors.links),
                };
                return partition.is_equitable().then(|| partition.collapsed());
            }
            count = refined;
        }
        None
    }
}

impl Partition<'_> {
    /// Link classes of a route, ascending, each once.
    fn route_classes(&self, connection: &Connection) -> Vec<u32> {
        let route = self.model.route(connection).iter();
        let mut classes: Vec<u32> = route.map(|(link, _)| self.links.class(*link)).collect();
        classes.sort_unstable();
        classes
    }

    /// How often each class of connections is on a link, for all links.
    fn loads(&self) -> Vec<Vec<(u32, u32)>> {
        let mut loads = vec![Vec::new(); self.model.links.len()];
        for (connection, class) in self.model.connections.iter().zip(&self.connections.of) {
            for (link, weight) in self.model.route(connection) {
                let load: &mut Vec<(u32, u32)> = &mut loads[*link as usize];
                load.push((*class, *weight));
            }
        }
        for load in &mut loads {
            load.sort_unstable();
            load.dedup_by(|later, kept| {
                let same = later.0 == kept.0;
                if same {
                    kept.1 += later.1;
                }
                same
            });
        }
        loads
    }

    /// Compares every member with the first of its class.
    fn is_equitable(&self) -> bool {
        let model = self.model;
        let ends = |lane: &Lane| {
            let ends = model.ends_of(lane).iter().chain(lane.work.iter());
            ends.map(|end| self.connections.class(*end))
                .collect::<Vec<u32>>()
        };
        let lane_like = |one: &Lane, other: &Lane| {
            (one.shape, one.start, one.work.is_some())
                == (other.shape, other.start, other.work.is_some())
                && ends(one) == ends(other)
        };
        let lanes = |it: &Connection| (self.lanes.class(it.sender), self.lanes.class(it.receiver));
        let connection_like = |one: &Connection, other: &Connection| {
            properties(one) == properties(other)
                && lanes(one) == lanes(other)
                && self.route_classes(one) == self.route_classes(other)
        };
        let loads = self.loads();
        let all = |classes: &Classes, like: &dyn Fn(usize, usize) -> bool| {
            let members = classes.of.iter().enumerate();
            members
                .map(|(member, class)| (member, classes.first[*class as usize].0 as usize))
                .all(|(member, first)| member == first || like(member, first))
        };
        all(&self.lanes, &|one, other| {
            lane_like(&model.lanes[one], &model.lanes[other])
        }) && all(&self.connections, &|one, other| {
            connection_like(&model.connections[one], &model.connections[other])
        }) && all(&self.links, &|one, other| {
            model.links[one] == model.links[other] && loads[one] == loads[other]
        })
    }

    fn collapsed(&self) -> CollapsedModel {
        let mut small = Model {
            links: self.firsts(&self.links, &self.model.links),
            shapes: self.model.shapes.clone(),
            ..Model::default()
        };
        for (first, _) in &self.lanes.first {
            let lane = self.model.lanes[*first as usize];
            let ends = small.ends.len() as u32;
            let own = self.model.ends_of(&lane).iter();
            small
                .ends
                .extend(own.map(|end| self.connections.class(*end)));
            small.lanes.push(Lane {
                ends,
                work: lane.work.map(|work| self.connections.class(work)),
                ..lane
            });
        }
        let loads = self.loads();
        for (first, _) in &self.connections.first {
            let connection = self.model.connections[*first as usize];
            let mut classes = self.route_classes(&connection);
            classes.dedup();
            let begin = small.routes.len() as u32;
            let own = self.connections.class(*first);
            for class in classes {
                let load = &loads[self.links.first[class as usize].0 as usize];
                let weight = load.iter().find(|(of, _)| *of == own);
                small
                    .routes
                    .push((class, weight.map_or(1, |(_, weight)| *weight)));
            }
            small.connections.push(Connection {
                sender: self.lanes.class(connection.sender),
                receiver: self.lanes.class(connection.receiver),
                route: (begin, small.routes.len() as u32),
                ..connection
            });
        }
        CollapsedModel {
            model: small,
            lanes: self.lanes.first.clone(),
            links: self.links.first.clone(),
            connections: self
                .connections
                .first
                .iter()
                .map(|(first, _)| *first)
                .collect(),
        }
    }

    fn firsts(&self, classes: &Classes, links: &[Link]) -> Vec<Link> {
        let firsts = classes.first.iter();
        firsts.map(|(first, _)| links[*first as usize]).collect()
    }
}
