//! Maximum flows and minimum cuts (Dinic's algorithm) on one graph with changing capacities.

/// A graph for flows. Arcs are pairs: 2·i leads forward, 2·i + 1 backward.
#[derive(Debug, Clone)]
pub struct FlowGraph {
    /// First entry of each vertex in `arcs`.
    first: Vec<u32>,
    /// Arcs, by the vertex where they begin.
    arcs: Vec<u32>,
    /// Where each arc ends.
    head: Vec<u32>,
    /// The residual capacity of each arc.
    residual: Vec<i128>,
    level: Vec<u32>,
    next: Vec<u32>,
    queue: Vec<u32>,
}

/// No vertex has this level.
const UNREACHED: u32 = u32::MAX;

impl FlowGraph {
    /// A graph of this many vertices with these arcs (from, to), all without capacity.
    pub fn new(vertices: usize, ends: &[(u32, u32)]) -> Self {
        let mut first = vec![0u32; vertices + 1];
        for (from, to) in ends {
            first[*from as usize + 1] += 1;
            first[*to as usize + 1] += 1;
        }
        for vertex in 0..vertices {
            first[vertex + 1] += first[vertex];
        }
        let mut place = first.clone();
        let mut arcs = vec![0u32; 2 * ends.len()];
        let mut head = Vec::with_capacity(2 * ends.len());
        for (from, to) in ends {
            for (tail, head_of) in [(*from, *to), (*to, *from)] {
                arcs[place[tail as usize] as usize] = head.len() as u32;
                place[tail as usize] += 1;
                head.push(head_of);
            }
        }
        Self {
            first,
            arcs,
            residual: vec![0; head.len()],
            head,
            level: vec![UNREACHED; vertices],
            next: vec![0; vertices],
            queue: Vec::new(),
        }
    }

    /// Sets the capacity of an arc, and takes back its flow.
    pub fn set(&mut self, arc: usize, capacity: i128) {
        self.residual[2 * arc] = capacity;
        self.residual[2 * arc + 1] = 0;
    }

    /// Sets the capacity of an arc, all of which flows.
    pub fn fill(&mut self, arc: usize, capacity: i128) {
        self.residual[2 * arc] = 0;
        self.residual[2 * arc + 1] = capacity;
    }

    /// The flow over an arc.
    pub fn flow(&self, arc: usize) -> i128 {
        self.residual[2 * arc + 1]
    }

    /// Adds flow from `source` to `sink` until it is maximal, or has grown by `most`. Returns the
    /// growth.
    pub fn augment(&mut self, source: usize, sink: usize, most: i128) -> i128 {
        let mut total = 0;
        while total < most && self.levels(source, sink) {
            for vertex in 0..self.next.len() {
                self.next[vertex] = self.first[vertex];
            }
            total += self.push_all(source, sink, most - total);
        }
        total
    }

    /// Distances from the source in the residual graph, up to that of the sink; whether the sink is
    /// reached.
    fn levels(&mut self, source: usize, sink: usize) -> bool {
        self.level.fill(UNREACHED);
        self.level[source] = 0;
        self.queue.clear();
        self.queue.push(source as u32);
        let mut at = 0;
        while at < self.queue.len() {
            let vertex = self.queue[at] as usize;
            at += 1;
            for entry in self.first[vertex]..self.first[vertex + 1] {
                let arc = self.arcs[entry as usize] as usize;
                let to = self.head[arc] as usize;
                if self.residual[arc] > 0 && self.level[to] == UNREACHED {
                    self.level[to] = self.level[vertex] + 1;
                    if to == sink {
                        return true;
                    }
                    self.queue.push(to as u32);
                }
            }
        }
        false
    }

    /// A blocking flow of at most `most`, along arcs that lead one level down.
    fn push_all(&mut self, source: usize, sink: usize, most: i128) -> i128 {
        let mut path: Vec<usize> = Vec::new();
        let mut total = 0;
        let mut vertex = source;
        while total < most {
            if vertex == sink {
                let room = path.iter().map(|arc| self.residual[*arc]).min();
                let amount = room.unwrap_or(0).min(most - total);
                for arc in &path {
                    self.residual[*arc] -= amount;
                    self.residual[arc ^ 1] += amount;
                }
                total += amount;
                path.clear();
                vertex = source;
                continue;
            }
            if let Some(arc) = self.advance(vertex) {
                path.push(arc);
                vertex = self.head[arc] as usize;
                continue;
            }
            // A dead end: no path leads on from here.
            self.level[vertex] = UNREACHED;
            match path.pop() {
                Some(arc) => vertex = self.head[arc ^ 1] as usize,
                None => break,
            }
        }
        total
    }

    /// The next usable arc of a vertex that leads one level down.
    fn advance(&mut self, vertex: usize) -> Option<usize> {
        while self.next[vertex] < self.first[vertex + 1] {
            let arc = self.arcs[self.next[vertex] as usize] as usize;
            let to = self.head[arc] as usize;
            if self.residual[arc] > 0
                && self.level[to] != UNREACHED
                && self.level[to] == self.level[vertex] + 1
            {
                return Some(arc);
            }
            self.next[vertex] += 1;
        }
        None
    }

    /// The vertices that the source still reaches: the smallest source side of a minimum cut.
    pub fn source_side(&self, source: usize) -> Vec<bool> {
        self.search(source, |arc| self.residual[arc] > 0)
    }

    fn search(&self, start: usize, usable: impl Fn(usize) -> bool) -> Vec<bool> {
        let mut seen = vec![false; self.level.len()];
        seen[start] = true;
        let mut stack = vec![start];
        while let Some(vertex) = stack.pop() {
            for entry in self.first[vertex]..self.first[vertex + 1] {
                let arc = self.arcs[entry as usize] as usize;
                let to = self.head[arc] as usize;
                if usable(arc) && !seen[to] {
                    seen[to] = true;
                    stack.push(to);
                }
            }
        }
        seen
    }
}
