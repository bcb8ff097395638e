//! Completions and manual pages, from the command line's own description.

use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::arguments::Arguments;
use crate::output::{self, Output};

pub fn completions(shell: Shell, output: &mut Output) -> Result<()> {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "topo", &mut bytes);
    output.text = String::from_utf8(bytes)?;
    Ok(())
}

pub fn man(directory: Option<&Path>, output: &mut Output) -> Result<()> {
    let mut command = Arguments::command();
    command.build();
    let Some(directory) = directory else {
        output.text = page(&command, "topo")?;
        return Ok(());
    };
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the folder {}", directory.display()))?;
    let mut pages = vec![("topo".to_owned(), &command)];
    pages.extend(
        command
            .get_subcommands()
            .filter(|sub| sub.get_name() != "help")
            .map(|sub| (format!("topo-{}", sub.get_name()), sub)),
    );
    for (name, command) in pages {
        let file = directory.join(format!("{name}.1"));
        output::write(&file, &page(command, &name)?)?;
        output.text.push_str(&format!("{}\n", file.display()));
    }
    Ok(())
}

fn page(command: &clap::Command, name: &str) -> Result<String> {
    let mut bytes = Vec::new();
    Man::new(command.clone()).title(name).render(&mut bytes)?;
    Ok(String::from_utf8(bytes)?)
}
