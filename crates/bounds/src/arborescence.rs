//! Cheapest trees over ranks, where every pair of ranks has a cost.

/// Costs from each rank (row) to each other (column).
pub(crate) type Costs = Vec<Vec<f64>>;

/// The parents of the cheapest tree that leads from a root to all others (Chu and Liu 1965,
/// Edmonds 1967). The root is its own parent.
pub(crate) fn from_root(costs: &Costs, root: usize) -> Vec<usize> {
    let count = costs.len();
    let mut parents = vec![root; count];
    for to in (0..count).filter(|to| *to != root) {
        let others = (0..count).filter(|from| *from != to);
        let nearest = others.min_by(|one, two| costs[*one][to].total_cmp(&costs[*two][to]));
        parents[to] = nearest.unwrap_or(root);
    }
    let Some(circle) = circle(&parents, root) else {
        return parents;
    };
    // The circle becomes one vertex, the last. To enter it at a member costs what it costs beyond
    // the member's edge in the circle.
    let inside = |vertex: &usize| circle.contains(vertex);
    let outside: Vec<usize> = (0..count).filter(|vertex| !inside(vertex)).collect();
    let beyond = |from: usize, to: usize| costs[from][to] - costs[parents[to]][to];
    let cheapest = |of: &dyn Fn(usize) -> f64| {
        let mut members = circle.iter().copied();
        let first = members.next().unwrap_or(root);
        members.fold(first, |best, it| match of(it) < of(best) {
            true => it,
            false => best,
        })
    };
    let enters: Vec<usize> = outside
        .iter()
        .map(|from| cheapest(&|member| beyond(*from, member)))
        .collect();
    let leaves: Vec<usize> = outside
        .iter()
        .map(|to| cheapest(&|member| costs[member][*to]))
        .collect();
    let mut contracted: Costs = Vec::new();
    for (row, from) in outside.iter().enumerate() {
        let mut own: Vec<f64> = outside.iter().map(|to| costs[*from][*to]).collect();
        own.push(beyond(*from, enters[row]));
        contracted.push(own);
    }
    let mut last: Vec<f64> = (0..outside.len())
        .map(|column| costs[leaves[column]][outside[column]])
        .collect();
    last.push(f64::INFINITY);
    contracted.push(last);
    let place = outside.iter().position(|vertex| *vertex == root);
    let found = from_root(&contracted, place.unwrap_or(0));
    let hub = outside.len();
    for (at, vertex) in outside.iter().enumerate().filter(|(_, it)| **it != root) {
        parents[*vertex] = match found[at] {
            parent if parent == hub => leaves[at],
            parent => outside[parent],
        };
    }
    let entrance = found[hub];
    parents[enters[entrance]] = outside[entrance];
    parents
}

/// The vertices of a circle of parents; `None` if all lead to the root.
fn circle(parents: &[usize], root: usize) -> Option<Vec<usize>> {
    let mut safe = vec![false; parents.len()];
    safe[root] = true;
    for start in 0..parents.len() {
        let (mut path, mut at) = (Vec::new(), start);
        while !safe[at] {
            if let Some(first) = path.iter().position(|vertex| *vertex == at) {
                return Some(path.split_off(first));
            }
            path.push(at);
            at = parents[at];
        }
        for vertex in path {
            safe[vertex] = true;
        }
    }
    None
}

/// The parents of the cheapest tree whose edges are used in both directions (Prim), with the root
/// in its middle. The root is its own parent.
pub(crate) fn in_both_directions(costs: &Costs) -> Vec<usize> {
    let count = costs.len();
    let both = |one: usize, two: usize| costs[one][two] + costs[two][one];
    let mut near: Vec<(f64, usize)> = (0..count).map(|vertex| (both(0, vertex), 0)).collect();
    let mut neighbors = vec![Vec::new(); count];
    let mut joined = vec![false; count];
    joined[0] = true;
    for _ in 1..count {
        let open = (0..count).filter(|vertex| !joined[*vertex]);
        let next = open.min_by(|one, two| near[*one].0.total_cmp(&near[*two].0));
        let Some(next) = next else { break };
        joined[next] = true;
        neighbors[next].push(near[next].1);
        neighbors[near[next].1].push(next);
        for vertex in (0..count).filter(|vertex| !joined[*vertex]) {
            if both(next, vertex) < near[vertex].0 {
                near[vertex] = (both(next, vertex), next);
            }
        }
    }
    let from = |start: usize| walk(&neighbors, start);
    let end = from(0).0;
    let (other, parents) = from(end);
    let mut path = vec![other];
    while path[path.len() - 1] != end {
        path.push(parents[path[path.len() - 1]]);
    }
    from(path[path.len() / 2]).1
}

/// The last vertex that a walk from a vertex reaches, and the parents on the way.
fn walk(neighbors: &[Vec<usize>], start: usize) -> (usize, Vec<usize>) {
    let mut parents = vec![start; neighbors.len()];
    let mut order = vec![start];
    let mut at = 0;
    while at < order.len() {
        let vertex = order[at];
        at += 1;
        for next in &neighbors[vertex] {
            if *next != parents[vertex] && *next != start {
                parents[*next] = vertex;
                order.push(*next);
            }
        }
    }
    (order[order.len() - 1], parents)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(costs: &Costs, parents: &[usize], root: usize) -> f64 {
        let edges = (0..parents.len()).filter(|vertex| *vertex != root);
        edges.map(|vertex| costs[parents[vertex]][vertex]).sum()
    }

    /// All parents that make a tree, one after the other.
    fn least(costs: &Costs, root: usize) -> f64 {
        let count = costs.len();
        let mut least = f64::INFINITY;
        for mut number in 0..count.pow(count as u32) {
            let mut parents = vec![root; count];
            for parent in &mut parents {
                *parent = number % count;
                number /= count;
            }
            let own = (0..count).any(|it| it != root && parents[it] == it);
            if parents[root] == root && !own && circle(&parents, root).is_none() {
                least = least.min(total(costs, &parents, root));
            }
        }
        least
    }

    #[test]
    fn no_tree_is_cheaper() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let count = random.usize(2..6);
            let row = |random: &mut fastrand::Rng| {
                let costs = (0..count).map(|_| f64::from(random.u32(1..12)));
                costs.collect::<Vec<f64>>()
            };
            let costs: Costs = (0..count).map(|_| row(&mut random)).collect();
            let root = random.usize(0..count);
            let parents = from_root(&costs, root);
            assert!(circle(&parents, root).is_none());
            let found = total(&costs, &parents, root);
            assert!((found - least(&costs, root)).abs() < 1e-9, "{costs:?}");
            let both: Costs = (0..count)
                .map(|one| {
                    (0..count)
                        .map(|two| costs[one][two] + costs[two][one])
                        .collect()
                })
                .collect();
            let parents = in_both_directions(&costs);
            let root = (0..count).find(|it| parents[*it] == *it).unwrap();
            let found = total(&both, &parents, root);
            assert!((found - least(&both, root)).abs() < 1e-9, "{costs:?}");
        }
    }
}
