//! The tables of tasks in the documents, compared with the help.

use super::{ok, root};

/// The pages with tasks.
const PAGES: [&str; 2] = ["README.md", "docs/README.md"];

/// Options that ask for a page with options of its own.
const MODES: [&str; 11] = [
    "--calibrate",
    "--collect",
    "--each-failure",
    "--log",
    "--machines",
    "--matrix",
    "--network-only",
    "--new-id",
    "--program",
    "--rank",
    "--results",
];

/// The commands in code of a page that call `topo`, from its name on.
fn commands(page: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let code = text.split('`').skip(1).step_by(2);
    let called = code.filter_map(|code| {
        let words = code.split_whitespace().map(str::to_owned);
        let words: Vec<String> = words.skip_while(|word| word != "topo").skip(1).collect();
        words
            .first()?
            .starts_with(char::is_lowercase)
            .then_some(words)
    });
    called.collect()
}

/// The commands that the help lists.
pub(super) fn listed() -> Vec<String> {
    let help = ok(&["help"]).out;
    let rows = help.lines().skip_while(|line| !line.ends_with(':')).skip(1);
    let rows = rows.take_while(|line| *line != "Options:");
    let names = rows.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names
        .filter(|it| !it.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn tasks_name_commands_and_options_of_the_help() {
    for page in PAGES {
        for words in commands(page) {
            if words[0] == "help" {
                continue;
            }
            let mode = words.iter().find(|it| MODES.contains(&it.as_str()));
            let help = match mode {
                Some(mode) => ok(&[&words[0], mode, "--help"]).out + mode,
                None => ok(&["help", &words[0]]).out,
            };
            for word in words.iter().filter(|it| it.starts_with("--")) {
                let option = word.split('=').next().unwrap();
                let known = help.split(|it: char| !it.is_alphanumeric() && it != '-');
                let known = known.collect::<Vec<_>>().contains(&option);
                assert!(known, "{page}: topo {} has no {option}", words[0]);
            }
        }
    }
}

#[test]
fn every_command_has_a_task() {
    let named: Vec<String> = commands("docs/README.md")
        .into_iter()
        .map(|words| words[0].clone())
        .collect();
    let listed = listed();
    assert!(listed.len() > 20, "{listed:?}");
    for command in listed {
        assert!(
            named.contains(&command),
            "docs/README.md has no task for topo {command}"
        );
    }
}
