//! The differences of two trees.

use serde_json::Value;

use super::PlanDifference;

/// Every leaf that differs, in the order of the trees.
///
/// Hops are compared only on channels with the same GPUs and ports, because another order always
/// has other hops.
pub(super) fn differences(first: &Value, second: &Value) -> Vec<PlanDifference> {
    let mut found = Vec::new();
    descend(&mut Vec::new(), Some(first), Some(second), &mut found);
    let changed: Vec<Vec<String>> = found
        .iter()
        .filter_map(|difference| channel(&difference.at, "graphs"))
        .collect();
    found.retain(|difference| {
        channel(&difference.at, "paths").is_none_or(|channel| !changed.contains(&channel))
    });
    found
}

/// The graph or channel below a list of a group, as machine, group, kind and, for a channel, its
/// number.
fn channel(at: &[String], list: &str) -> Option<Vec<String>> {
    match at {
        [
            machines,
            machine,
            groups,
            group,
            own,
            kind,
            channels,
            number,
            ..,
        ] if machines == "machines"
            && groups == "groups"
            && own == list
            && channels == "channels" =>
        {
            Some([machine, group, kind, number].map(Clone::clone).to_vec())
        }
        [machines, machine, groups, group, own, kind]
            if machines == "machines" && groups == "groups" && own == list =>
        {
            Some([machine, group, kind].map(Clone::clone).to_vec())
        }
        _ => None,
    }
}

fn descend(
    at: &mut Vec<String>,
    first: Option<&Value>,
    second: Option<&Value>,
    found: &mut Vec<PlanDifference>,
) {
    if first == second {
        return;
    }
    let inner = |value: &Value| match value {
        Value::Object(_) => true,
        Value::Array(values) => values
            .iter()
            .any(|value| value.is_object() || value.is_array()),
        _ => false,
    };
    // A value that only one plan has is one difference, except the elements of a list.
    let both = match (first, second) {
        (Some(Value::Object(_)), Some(Value::Object(_))) => true,
        (Some(one @ Value::Array(_)), Some(other @ Value::Array(_))) => inner(one) || inner(other),
        _ => false,
    };
    if both {
        for key in keys(first, second) {
            let (one, other) = (child(first, &key), child(second, &key));
            at.push(key);
            descend(at, one, other, found);
            at.pop();
        }
        return;
    }
    found.push(PlanDifference {
        at: at.clone(),
        first: first.cloned(),
        second: second.cloned(),
    });
}

/// The keys of both, the first tree's first.
fn keys(first: Option<&Value>, second: Option<&Value>) -> Vec<String> {
    let of = |value: Option<&Value>| match value {
        Some(Value::Object(map)) => map.keys().cloned().collect(),
        Some(Value::Array(values)) => (0..values.len()).map(|index| index.to_string()).collect(),
        _ => Vec::new(),
    };
    let mut keys: Vec<String> = of(first);
    for key in of(second) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

fn child<'a>(value: Option<&'a Value>, key: &str) -> Option<&'a Value> {
    match value? {
        Value::Object(map) => map.get(key),
        Value::Array(values) => values.get(key.parse::<usize>().ok()?),
        _ => None,
    }
}
