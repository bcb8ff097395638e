//! Public threads with known answers, where they are there: which verdict comes first.

use std::path::Path;

use diagnose::{Floor, Pile};
use findings::causes::Certainty;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use testkit::elsewhere;

/// So many threads get the known answer, at least; none another one as likely or proved.
const RIGHT: usize = 48;

fn main() -> std::process::ExitCode {
    let arguments = Arguments::from_args();
    let test = Trial::ignorable_test("threads::known_answers", || match elsewhere::corpus() {
        Ok(corpus) => known_answers(&corpus.join("evidence/fresh")).map(|()| Completion::Completed),
        Err(why) => Ok(Completion::ignored_with(format!("not run: {why}"))),
    });
    libtest_mimic::run(&arguments, vec![test]).exit_code()
}

/// The first verdict of a thread: its cause and certainty.
fn first(path: &Path) -> Option<(&'static str, Certainty)> {
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap();
        files = entries.map(|it| it.unwrap().path()).collect();
        files.sort();
    }
    let mut pile = Pile::default();
    for file in files {
        let text = std::fs::read(&file).unwrap();
        pile.read(&file.display().to_string(), &text[..], |_| {})
            .unwrap();
    }
    let found = pile.finish(&Floor);
    let first = found.verdicts.first()?;
    Some((first.cause.id, first.certainty))
}

fn known_answers(folder: &Path) -> Result<(), Failed> {
    let rows = include_str!("threads.tsv").lines();
    let (mut right, mut wrong) = (0, Vec::new());
    for row in rows.filter(|it| !it.starts_with('#')) {
        let mut columns = row.split('\t');
        let mut next = || columns.next().unwrap_or("");
        let (thread, ids, near, answer) = (next(), next(), next(), next());
        let has = |ids: &str, id: &str| ids.split(' ').any(|it| it == id);
        let found = first(&folder.join(thread));
        let judged = match found {
            None if ids == "-" => "right",
            None => "silent",
            Some((id, _)) if has(ids, id) => "right",
            Some((id, _)) if has(near, id) => "near",
            Some((_, Certainty::Possible)) => "weak",
            Some(_) => "WRONG",
        };
        right += usize::from(judged == "right");
        if judged == "WRONG" {
            wrong.push(thread);
        }
        println!("{judged:7} {thread:28} {found:?}: {answer}");
    }
    println!("{right} right; wrong: {wrong:?}");
    match wrong.is_empty() && right >= RIGHT {
        true => Ok(()),
        false => Err(format!("{right} right, {RIGHT} expected; wrong: {wrong:?}").into()),
    }
}
