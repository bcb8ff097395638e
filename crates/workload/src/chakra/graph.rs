//! The order of nodes that depend on each other.
//!
//! A rank has one resource for computation. Calls do not block it: they begin as soon as what they
//! depend on is done, so that they come first of all nodes that are ready. Computation that need
//! not wait for a call comes before computation that must, else nodes keep the order of the file.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::node::{Communication, Event};

/// Most dependencies of all nodes.
const MOST_DEPENDENCIES: usize = 1 << 24;

/// Nodes that depend on each other.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    places: HashMap<u64, u32>,
    /// Ids that nodes depend on, of all nodes.
    dependencies: Vec<u64>,
}

#[derive(Debug)]
struct Node {
    id: u64,
    kind: Kind,
    /// The end of its dependencies; they begin where those of the node before end.
    end: usize,
}

/// What a node does.
#[derive(Debug)]
pub(super) enum Kind {
    /// Nothing that takes time.
    None,
    /// Computes, µs.
    Compute(f64),
    /// Computes on the host, µs.
    HostCompute(f64),
    /// Calls.
    Call(Box<Communication>),
}

/// The latest call of each group that a node must wait for: calls of a group follow each other.
type Waits = Vec<(u32, usize)>;

impl Graph {
    /// Adds a node.
    ///
    /// # Errors
    /// Another node has its id, or there are too many dependencies.
    pub(super) fn add(
        &mut self,
        id: u64,
        kind: Kind,
        dependencies: impl Iterator<Item = u64>,
    ) -> Result<(), String> {
        let at = self.nodes.len() as u32;
        if self.places.insert(id, at).is_some() {
            return Err(format!("another node has id {id}, too; expected one"));
        }
        self.dependencies
            .extend(dependencies.filter(|it| *it != id));
        if self.dependencies.len() > MOST_DEPENDENCIES {
            return Err(format!(
                "more than {MOST_DEPENDENCIES} dependencies; expected fewer"
            ));
        }
        let end = self.dependencies.len();
        self.nodes.push(Node { id, kind, end });
        Ok(())
    }

    /// Nodes so far.
    pub(super) const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The events in order. Computation on the host counts only if `host` is set.
    ///
    /// # Errors
    /// Nodes depend on each other in a circle.
    pub(super) fn events(self, host: bool) -> Result<Vec<Event>, String> {
        let count = self.nodes.len();
        // Nodes that depend on each node, as lists that follow each other.
        let mut starts = vec![0usize; count + 1];
        let mut missing = vec![0u32; count];
        let (nodes, places, dependencies) = (&self.nodes, &self.places, &self.dependencies);
        let edges = || {
            let begins = std::iter::once(0).chain(nodes.iter().map(|it| it.end));
            begins
                .zip(nodes)
                .enumerate()
                .flat_map(|(at, (begin, node))| {
                    let its = dependencies[begin..node.end].iter();
                    its.filter_map(move |id| Some((*places.get(id)? as usize, at)))
                })
        };
        for (from, to) in edges() {
            starts[from + 1] += 1;
            missing[to] += 1;
        }
        for at in 0..count {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut after = vec![0u32; starts[count]];
        for (from, to) in edges() {
            after[next[from]] = to as u32;
            next[from] += 1;
        }
        let mut order = Order {
            waits: vec![Waits::new(); count],
            ..Order::default()
        };
        let mut kinds: Vec<(u64, Option<Kind>)> = Vec::with_capacity(count);
        kinds.extend(self.nodes.into_iter().map(|node| {
            let kind = match node.kind {
                Kind::HostCompute(time) if host => Kind::Compute(time),
                Kind::HostCompute(_) => Kind::None,
                kind => kind,
            };
            (node.id, Some(kind))
        }));
        for (at, missing) in missing.iter().enumerate() {
            if *missing == 0 {
                order.ready(at, &kinds[at].1);
            }
        }
        let mut done = 0;
        while let Some(at) = order.next() {
            done += 1;
            if let Some(kind) = kinds[at].1.take() {
                order.run(at, kind);
            }
            let waits = order.take_waits(at);
            for to in after[starts[at]..starts[at + 1]]
                .iter()
                .map(|it| *it as usize)
            {
                order.inherit(to, &waits)?;
                missing[to] -= 1;
                if missing[to] == 0 {
                    order.ready(to, &kinds[to].1);
                }
            }
        }
        match kinds.iter().find(|(_, kind)| kind.is_some()) {
            Some((id, _)) if done < count => Err(format!(
                "node {id} depends on itself by way of other nodes; expected no circle"
            )),
            _ => Ok(order.events),
        }
    }
}

/// The order while it is made.
#[derive(Debug, Default)]
struct Order {
    events: Vec<Event>,
    /// Calls so far.
    calls: usize,
    /// Groups of processes so far.
    groups: HashMap<String, u32>,
    /// What each node must wait for.
    waits: Vec<Waits>,
    /// How much that is of all nodes.
    held: usize,
    /// The latest call of each group that computation has waited for.
    awaited: HashMap<u32, usize>,
    /// Nodes that are ready: those that take no time and calls, computation, and computation that
    /// waits for a call.
    first: BinaryHeap<Reverse<usize>>,
    compute: BinaryHeap<Reverse<usize>>,
    waiting: BinaryHeap<Reverse<usize>>,
}

impl Order {
    /// Adds what a node must wait for.
    fn inherit(&mut self, to: usize, waits: &Waits) -> Result<(), String> {
        for (group, call) in waits {
            match self.waits[to].iter_mut().find(|it| it.0 == *group) {
                Some(known) => known.1 = known.1.max(*call),
                None => {
                    self.waits[to].push((*group, *call));
                    self.held += 1;
                }
            }
        }
        match self.held > MOST_DEPENDENCIES {
            true => Err(format!(
                "nodes wait for more than {MOST_DEPENDENCIES} calls at once; expected fewer groups"
            )),
            false => Ok(()),
        }
    }

    fn take_waits(&mut self, at: usize) -> Waits {
        let waits = std::mem::take(&mut self.waits[at]);
        self.held = self.held.saturating_sub(waits.len());
        waits
    }

    /// The calls that a node must wait for and computation has not.
    fn outstanding(&self, at: usize) -> Vec<usize> {
        let its = self.waits[at].iter();
        let its = its
            .filter(|(group, call)| self.awaited.get(group).is_none_or(|awaited| awaited < call));
        let mut found: Vec<usize> = its.map(|(_, call)| *call).collect();
        found.sort_unstable();
        found
    }

    fn ready(&mut self, at: usize, kind: &Option<Kind>) {
        match kind {
            Some(Kind::Compute(_)) if self.outstanding(at).is_empty() => {
                self.compute.push(Reverse(at));
            }
            Some(Kind::Compute(_)) => self.waiting.push(Reverse(at)),
            _ => self.first.push(Reverse(at)),
        }
    }

    fn next(&mut self) -> Option<usize> {
        let first = self.first.pop().or_else(|| self.compute.pop());
        first.or_else(|| self.waiting.pop()).map(|it| it.0)
    }

    fn run(&mut self, at: usize, kind: Kind) {
        match kind {
            Kind::None | Kind::HostCompute(_) => {}
            Kind::Compute(time) => {
                let after = self.outstanding(at);
                if !after.is_empty() {
                    self.events.push(Event::Wait(after));
                }
                for (group, call) in self.take_waits(at) {
                    let awaited = self.awaited.entry(group).or_insert(call);
                    *awaited = call.max(*awaited);
                }
                self.events.push(Event::Compute(time));
            }
            Kind::Call(mut call) => {
                call.after = self.outstanding(at);
                let next = self.groups.len() as u32;
                let key = (call.group.clone(), &call.ranks);
                let group = *self.groups.entry(format!("{key:?}")).or_insert(next);
                self.take_waits(at);
                self.waits[at] = vec![(group, self.calls)];
                self.held += 1;
                self.calls += 1;
                self.events.push(Event::Call(*call));
            }
        }
    }
}
