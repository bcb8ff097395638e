//! The commands by task, as help lists them.

use clap::Command;

use crate::render::wrap;

/// The commands that help shows, by task.
const TASKS: [(&str, &[&str]); 6] = [
    (
        "This machine",
        &["probe", "doctor", "show", "view", "complete", "vm"],
    ),
    (
        "What NCCL does",
        &["plan", "cost", "engines", "diff", "export", "nccl-check"],
    ),
    ("How fast", &["bound", "expect", "tune", "simulate", "step"]),
    ("What is wrong", &["diagnose"]),
    ("Run it", &["run", "gpu-test"]),
    ("About topo", &["gen", "help"]),
];

/// The commands by task, with what each does.
pub(super) fn list(all: &Command, width: usize) -> String {
    let names = TASKS.iter().flat_map(|(_, names)| *names);
    let column = names.map(|name| name.len()).max().unwrap_or(0) + 4;
    let mut text = String::new();
    for (task, names) in TASKS {
        text.push_str(&format!("\n{task}:\n"));
        for name in names {
            let about = all.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let first = format!("  {name:0$}", column - 2);
            text.push_str(&wrap(&about, &first, &" ".repeat(column), width));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::all;
    use super::super::modes::describe_all;
    use super::*;

    #[test]
    fn help_has_each_command_once() {
        let all = describe_all(all(), 100);
        let mut shown: Vec<&str> = all
            .get_subcommands()
            .filter(|it| !it.is_hide_set())
            .map(Command::get_name)
            .collect();
        let mut listed: Vec<&str> = TASKS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        shown.sort_unstable();
        listed.sort_unstable();
        assert_eq!(shown, listed);
        assert!(shown.len() <= 22);
    }
}
