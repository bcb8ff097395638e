//! The transcripts of SKILL.md: each command prints what stands below it.
//!
//! A transcript is a block that begins with `$ `. It shows the first lines of the output, and `…`
//! if there are others. With `TOPO_BLESS=1` the lines are written anew, as many as there were.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};

/// The mark of further lines.
const MORE: &str = "…";

/// A block of code.
const FENCE: &str = "```";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The output of a command of a shell that finds the program, without the user's own settings.
fn output(command: &str) -> Result<String, Failed> {
    let program = Path::new(env!("CARGO_BIN_EXE_topo"));
    let folder = program.parent().ok_or("the program has no folder")?;
    let done = Command::new("sh")
        .args(["-c", command])
        .current_dir(root())
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .env("COLUMNS", "100")
        .output()?;
    let text = [done.stdout, done.stderr].concat();
    Ok(String::from_utf8(text)?)
}

/// As many first lines of an output as are shown, and whether there are more.
fn excerpt(output: &str, shown: usize) -> String {
    let lines: Vec<&str> = output.lines().map(str::trim_end).collect();
    let kept = lines[..lines.len().min(shown)].join("\n");
    match lines.len() > shown {
        true => format!("{kept}\n{MORE}"),
        false => kept,
    }
}

/// The block of a transcript, as the program makes it today.
fn today(block: &str) -> Result<String, Failed> {
    let (command, shown) = block.split_once('\n').unwrap_or((block, ""));
    let command = command.trim_start_matches("$ ");
    let lines = shown.lines().filter(|line| *line != MORE).count();
    Ok(format!(
        "$ {command}\n{}\n",
        excerpt(&output(command)?, lines)
    ))
}

/// The blocks of a document that are transcripts.
fn transcripts(text: &str) -> Vec<String> {
    let blocks = text.split(FENCE).skip(1).step_by(2);
    let blocks = blocks.filter_map(|it| it.strip_prefix("text\n"));
    let blocks = blocks.filter(|it| it.starts_with("$ "));
    blocks.map(str::to_owned).collect()
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let path = root().join("SKILL.md");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(why) => {
            eprintln!("{}: {why}", path.display());
            return ExitCode::FAILURE;
        }
    };
    let blocks = transcripts(&text);
    if std::env::var_os("TOPO_BLESS").is_some() {
        let mut blessed = text;
        for block in &blocks {
            match today(block) {
                Ok(made) => blessed = blessed.replace(block.as_str(), &made),
                Err(why) => eprintln!("{block}: {why:?}"),
            }
        }
        return match std::fs::write(&path, blessed) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{}: {why}", path.display());
                ExitCode::FAILURE
            }
        };
    }
    let count = blocks.len();
    let mut trials: Vec<Trial> = blocks
        .into_iter()
        .enumerate()
        .map(|(number, block)| {
            let command = block.lines().next().unwrap_or_default();
            let name = format!("{number}::{}", command.trim_start_matches("$ "));
            Trial::test(name, move || match today(&block)? {
                made if made == block => Ok(()),
                made => Err(format!("SKILL.md shows\n{block}\nthe program prints\n{made}").into()),
            })
        })
        .collect();
    trials.push(Trial::test("ten_transcripts", move || match count {
        0..10 => Err(format!("SKILL.md has {count} transcripts; expected at least 10").into()),
        _ => Ok(()),
    }));
    libtest_mimic::run(&arguments, trials).exit_code()
}
