//! Completions and manual pages, from the command line's own description.

use std::path::Path;

use answers::suggest;
use anyhow::{Context, Result, bail};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::arguments::{self, concise, layout, modes};
use crate::environment::Environment;
use crate::output::{self, Output};

pub(crate) fn completions(shell: Shell, output: &mut Output) -> Result<()> {
    let mut bytes = Vec::new();
    clap_complete::generate(
        shell,
        &mut modes::describe_all(arguments::all(), layout::MOST_COLUMNS),
        "topo",
        &mut bytes,
    );
    output.text = String::from_utf8(bytes)?;
    Ok(())
}

/// The help of the program, of a command, or the page of a topic's options.
pub(crate) fn help(
    name: Option<&str>,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let width = environment.width.min(layout::MOST_COLUMNS);
    if let Some(mut page) = name.and_then(|it| concise::page(it, width)) {
        output.text = page.render_help().to_string();
        return Ok(());
    }
    let mut command = layout::help(environment.width, name, name.and_then(modes::of));
    command.build();
    if let Some(name) = name {
        let names = command.get_subcommands().map(clap::Command::get_name);
        let names = names.chain(concise::topics());
        let near = suggest::nearest(name, names, 1);
        let Some(found) = command.find_subcommand(name) else {
            bail!("there is no command `{name}`{}", suggest::question(&near));
        };
        command = found.clone();
    }
    output.text = command.render_help().to_string();
    Ok(())
}

/// The manual page of the program, or all pages in a folder that this makes in an existing one.
pub(crate) fn man(directory: Option<&Path>, output: &mut Output) -> Result<()> {
    let mut command = modes::describe_all(arguments::all(), layout::MOST_COLUMNS);
    command.build();
    let Some(directory) = directory else {
        output.text = page(&command, "topo")?;
        return Ok(());
    };
    if !directory.is_dir() {
        std::fs::create_dir(directory)
            .with_context(|| format!("cannot make the folder {}", directory.display()))?;
    }
    let mut pages = vec![("topo".to_owned(), command.clone())];
    let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    pages.extend(visible.map(|sub| (format!("topo-{}", sub.get_name()), sub.clone())));
    pages.extend(modes::pages(&command));
    for (name, command) in pages {
        let file = directory.join(format!("{name}.1"));
        output::write(&file, &page(&command, &name)?)?;
        output.text.push_str(&format!("{}\n", file.display()));
    }
    Ok(())
}

fn page(command: &clap::Command, name: &str) -> Result<String> {
    let mut bytes = Vec::new();
    Man::new(command.clone()).title(name).render(&mut bytes)?;
    Ok(String::from_utf8(bytes)?)
}
