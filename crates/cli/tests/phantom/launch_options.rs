//! `topo run` does with options of launches what the libraries do (`testkit::launch_options`).

use std::process::Command;

use testkit::launch_options::{CASES, Case, MACHINE};

use crate::machine::libraries;

/// `topo` in a folder.
fn topo(arguments: &[&str], folder: &std::path::Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_topo"));
    command.args(arguments).current_dir(folder);
    command
}

fn run(case: &Case, prepare: &dyn Fn(&mut Command)) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let machine = format!("{}/../../topologies/{MACHINE}", env!("CARGO_MANIFEST_DIR"));
    let mut arguments = vec!["run"];
    match case.plan {
        None => arguments.extend(["--ranks", "2"]),
        Some(settings) => {
            let plan = ["plan", &machine, "--gpus", "0,1", "-o", "plan.json"];
            let mut plan = topo(&plan, folder.path());
            for (name, value) in settings {
                plan.args(["--set", &format!("{name}={value}")]);
            }
            assert!(plan.output().unwrap().status.success());
            arguments.push("plan.json");
        }
    }
    arguments.extend("all-reduce --backend cuda -b 64K -e 64K -n 2 --warm 0".split(' '));
    if case.refused.is_none() {
        arguments.push("--processes");
    }
    let mut command = topo(&arguments, folder.path());
    prepare(&mut command);
    let output = command.output().unwrap();
    let page = String::from_utf8_lossy(&output.stdout);
    let succeeded = output.status.success() && page.contains("every element is right");
    let errors = String::from_utf8_lossy(&output.stderr);
    (succeeded, format!("{page}\n{errors}"))
}

#[test]
fn options_of_launches() {
    for case in CASES {
        case.check(&libraries(), |prepare| run(&case, prepare));
    }
}
