//! Pages of a command that have arguments of their own.
//!
//! `topo show --matrix` takes the arguments of the hidden command `matrix`, which was a command
//! before: [`resolve`] names it instead, before the arguments are read.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

use super::tasks;

/// A page that a command has instead of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode {
    /// The command.
    command: &'static str,
    /// The argument that asks for the page.
    argument: &'static str,
    /// The hidden command that has the page's arguments.
    hidden: &'static str,
    /// The argument is an option of the hidden command, too, with a value.
    has_value: bool,
    /// The hidden command's name stays, because it is shorter.
    keeps_name: bool,
}

const fn mode(command: &'static str, argument: &'static str, hidden: &'static str) -> Mode {
    Mode {
        command,
        argument,
        hidden,
        has_value: false,
        keeps_name: false,
    }
}

const MODES: [Mode; 16] = [
    mode("show", "--machines", "machines"),
    mode("show", "--matrix", "matrix"),
    mode("show", "--program", "program"),
    // Behind `--program`, which has an option of this name, too.
    Mode {
        has_value: true,
        ..mode("show", "--rank", "rank")
    },
    mode("diff", "--each-failure", "what-if"),
    mode("expect", "--results", "results"),
    mode("expect", "--run", "acceptance"),
    mode("simulate", "--network-only", "fabric"),
    mode("diagnose", "--log", "log"),
    mode("diagnose", "--collect", "collect"),
    Mode {
        keeps_name: true,
        ..mode("diagnose", "--watch", "watch")
    },
    mode("run", "--new-id", "id"),
    mode("run", "--calibrate", "calibrate"),
    mode("gen", "schema", "schema"),
    mode("gen", "completions", "completions"),
    mode("gen", "man", "man"),
];

/// The command line with the hidden command of a mode instead of the mode.
pub(crate) struct Resolved {
    /// The arguments for clap.
    pub arguments: Vec<OsString>,
    /// The mode, or that of a command's former name.
    pub mode: Option<Mode>,
    /// Whether the mode was asked for by the former name.
    pub is_former: bool,
}

/// Names the hidden command if a mode is asked for.
pub(crate) fn resolve(mut arguments: Vec<OsString>) -> Resolved {
    let resolved = |arguments: Vec<OsString>, mode, is_former| Resolved {
        arguments,
        mode,
        is_former,
    };
    let Some(name) = arguments.get(1).cloned() else {
        return resolved(arguments, None, false);
    };
    let own = arguments.iter().take_while(|it| *it != "--").count();
    for mode in MODES.into_iter().filter(|it| name == it.command) {
        let asks = |it: &OsString| {
            let text = it.to_string_lossy();
            let rest = text.strip_prefix(mode.argument);
            rest.is_some_and(|rest| rest.is_empty() || mode.has_value && rest.starts_with('='))
        };
        // A word is what is generated; an option may be anywhere.
        let until = if mode.argument.starts_with("--") {
            own
        } else {
            own.min(3)
        };
        let Some(at) = (2..until).find(|at| asks(&arguments[*at])) else {
            continue;
        };
        arguments[1] = mode.hidden.into();
        let next = arguments.get(at + 1);
        let asks_for_help = next.is_some_and(|it| it == "--help" || it == "-h");
        if !mode.has_value || asks_for_help {
            arguments.remove(at);
        }
        return resolved(arguments, Some(mode), false);
    }
    let former = name.to_str().and_then(of);
    let is_former = former.is_some_and(|it| !it.keeps_name);
    resolved(arguments, former, is_former)
}

/// The mode that has the arguments of a hidden command.
pub(crate) fn of(hidden: &str) -> Option<Mode> {
    MODES.into_iter().find(|it| it.hidden == hidden)
}

impl Mode {
    /// What to type.
    fn words(self) -> String {
        match self.keeps_name {
            true => format!("topo {}", self.hidden),
            false => format!("topo {} {}", self.command, self.argument),
        }
    }

    /// The note for people who use the former name.
    pub(crate) fn hint(self) -> String {
        format!(
            "`topo {}` is `{}` now; the next release no longer has the former name",
            self.hidden,
            self.words()
        )
    }
}

/// All commands: those of modes hidden, each mode among the options of its command, and the
/// commands by task, in at most so many columns.
pub(crate) fn describe_all(mut all: Command, width: usize) -> Command {
    for mode in MODES {
        all = all.mut_subcommand(mode.hidden, |hidden| hidden.hide(true));
        all = name_beside_options(all, mode);
    }
    let list = tasks::list(&all, width);
    all.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{list}\nOptions:\n{{options}}{{after-help}}"
    ))
}

/// All commands, of which one is used: its modes are among its options, and its usage says `mode`
/// if it has the arguments of one.
pub(crate) fn describe(mut all: Command, used: &str, mode: Option<Mode>) -> Command {
    for mode in MODES.into_iter().filter(|it| it.command == used) {
        all = name_beside_options(all, mode);
    }
    let Some(mode) = mode else { return all };
    all.mut_subcommand(mode.hidden, |hidden| {
        let mut named = hidden.clone().bin_name(mode.words());
        let usage = named.render_usage().to_string();
        hidden.override_usage(usage.trim_start_matches("Usage:").trim().to_owned())
    })
}

/// The commands of modes, with the names of their manual pages.
pub(crate) fn pages(all: &Command) -> impl Iterator<Item = (String, Command)> {
    MODES.into_iter().filter_map(|mode| {
        let hidden = all.find_subcommand(mode.hidden)?.clone();
        let name = mode.words().replace("--", "").replace(' ', "-");
        let named = hidden.bin_name(mode.words()).display_name(name.clone());
        Some((name, named))
    })
}

/// Names a mode among the options of its command.
fn name_beside_options(all: Command, mode: Mode) -> Command {
    let Some(long) = mode.argument.strip_prefix("--") else {
        return all;
    };
    let hidden = all.find_subcommand(mode.hidden);
    let about = hidden.and_then(Command::get_about).map(ToString::to_string);
    let about = format!("{}: {} --help", about.unwrap_or_default(), mode.words());
    let argument = Arg::new(mode.argument)
        .long(long)
        .action(ArgAction::SetTrue)
        .help(about)
        .help_heading("Pages with options of their own");
    all.mut_subcommand(mode.command, |command| command.arg(argument))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(words: &str) -> (String, bool) {
        let arguments = words.split(' ').map(OsString::from).collect();
        let done = resolve(arguments);
        let words: Vec<_> = done
            .arguments
            .iter()
            .map(|it| it.to_string_lossy())
            .collect();
        (words.join(" "), done.is_former)
    }

    #[test]
    fn modes_are_the_commands_that_have_their_arguments() {
        for (typed, read) in [
            ("topo show a --matrix --json", "topo matrix a --json"),
            ("topo show p.json --rank 3", "topo rank p.json --rank 3"),
            ("topo show p.json --rank=3", "topo rank p.json --rank=3"),
            ("topo show --rank 3 --program", "topo program --rank 3"),
            ("topo show --rank --help", "topo rank --help"),
            ("topo show -- --matrix", "topo show -- --matrix"),
            ("topo run --new-id 1.2.3.4:5", "topo id 1.2.3.4:5"),
            ("topo gen man dir", "topo man dir"),
            ("topo gen --help", "topo gen --help"),
            ("topo diagnose --watch a", "topo watch a"),
            ("topo watch a", "topo watch a"),
            ("topo plan --rank 3", "topo plan --rank 3"),
        ] {
            assert_eq!(resolved(typed), (read.to_owned(), false));
        }
        assert_eq!(
            resolved("topo matrix a"),
            ("topo matrix a".to_owned(), true)
        );
    }
}
