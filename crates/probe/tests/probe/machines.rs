//! Every machine of the project is rebuilt as files and driver answers, and probed: the topology must come back.

use std::collections::BTreeMap;

use test_support::{FakeMachine, Machine};

use crate::common::{OnDisk, comparable};

/// Machines that no probe could have given, with the reason.
fn not_probed() -> BTreeMap<&'static str, &'static str> {
    let family = "the family 25, which NCCL counts otherwise";
    BTreeMap::from([
        ("random-00069", family),
        ("random-00078", family),
        ("random-00118", family),
        ("random-00174", family),
    ])
}

#[test]
fn topologies_come_back() {
    let mut not_probed = not_probed();
    let mut probed = 0;
    let mut wrong = Vec::new();
    for machine in Machine::all().unwrap() {
        let document = machine.document().unwrap();
        let fake = match FakeMachine::of(&document) {
            Ok(fake) => fake,
            Err(reason) => {
                let reason = format!("{reason:#}");
                if not_probed.remove(machine.name.as_str()) != Some(&reason) {
                    wrong.push(format!("{}: {reason}", machine.name));
                }
                println!("not run: {}: {reason}", machine.name);
                continue;
            }
        };
        let probe = OnDisk::new(&fake).probe();
        let (expected, found) = (comparable(&document), comparable(&probe.document));
        if let Some((expected, found)) = expected.lines().zip(found.lines()).find(|(a, b)| a != b) {
            wrong.push(format!(
                "{}: expected\n{expected}\nfound\n{found}",
                machine.name
            ));
        } else if expected != found {
            wrong.push(format!(
                "{}: expected\n{expected}\nfound\n{found}",
                machine.name
            ));
        }
        probed += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(not_probed.is_empty(), "probed nevertheless: {not_probed:?}");
    assert!(probed > 20, "only {probed} machines were probed");
}
