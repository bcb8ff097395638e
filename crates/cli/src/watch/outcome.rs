//! The file for Prometheus, and at a verdict the evidence, the diagnosis and the hook.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Instant, SystemTime};

use ::diagnose::watch::{Situation, State};
use ::diagnose::{Floor, Pile};
use answers::diagnose::page;
use answers::report;
use anyhow::{Context, Result};
use findings::check::Metrics;

use super::FILE_PERIOD;
use crate::arguments::watch::WatchArguments;
use crate::environment::Environment;
use crate::exit;
use crate::output::{Output, write};

/// Last answers that are kept, and their bytes together, beyond which only the last two are.
const KEPT: usize = 4;
const KEPT_BYTES: usize = 4 << 20;

/// Most ranks in the file for Prometheus.
const MOST_RANKS: usize = 64;

pub(super) struct Outcome<'a> {
    arguments: &'a WatchArguments,
    answers: VecDeque<Vec<u8>>,
    written: Option<Instant>,
    hook: Option<Child>,
    failures: Failures,
    /// The verdict of now, and any, was told.
    pub is_told: bool,
    pub has_told: bool,
}

impl<'a> Outcome<'a> {
    pub(super) fn new(arguments: &'a WatchArguments) -> Result<Self> {
        if let Some(folder) = &arguments.folder {
            let cannot = || format!("cannot make the folder {}", folder.display());
            std::fs::create_dir_all(folder).with_context(cannot)?;
        }
        Ok(Self {
            arguments,
            answers: VecDeque::new(),
            written: None,
            hook: None,
            failures: Failures::default(),
            is_told: false,
            has_told: false,
        })
    }

    /// Keeps an answer as evidence.
    pub(super) fn keep(&mut self, answer: Vec<u8>) {
        self.answers.push_back(answer);
        let bytes: usize = self.answers.iter().map(Vec::len).sum();
        let most = if bytes > KEPT_BYTES { 2 } else { KEPT };
        while self.answers.len() > most {
            self.answers.pop_front();
        }
    }

    /// Writes the evidence and the diagnosis, prints the diagnosis, and starts the hook.
    pub(super) fn tell(
        &mut self,
        situation: &Situation,
        is_json: bool,
        environment: &Environment,
        output: &mut Output,
    ) -> Result<()> {
        (self.is_told, self.has_told) = (true, true);
        let folder = self.arguments.folder.as_deref().map(unused);
        let folder = folder.as_ref();
        let mut pile = Pile::default();
        if let Some(folder) = folder {
            let made = std::fs::create_dir_all(folder);
            self.failures
                .say(made.with_context(|| folder.display().to_string()), output);
        }
        for (answer, number) in self.answers.iter().zip(1..) {
            let text = String::from_utf8_lossy(answer);
            let json = text.find("\n{").map(|at| &text[at + 1..]);
            let form = if json.is_some() { "json" } else { "txt" };
            let (name, report) = (format!("ras-{number}.{form}"), json.unwrap_or(&text));
            pile.read(&name, report.as_bytes(), |_| {})?;
            if let Some(folder) = folder {
                self.failures.say(write(&folder.join(name), report), output);
            }
        }
        let diagnosis = pile.finish(&Floor);
        let text = page(&diagnosis).text(environment.look());
        if let Some(folder) = folder {
            let situation = serde_json::to_string_pretty(situation)? + "\n";
            let diagnosis = report::json(&diagnosis)?;
            for (name, text) in [
                ("watch.json", &situation),
                ("diagnosis.txt", &text),
                ("diagnosis.json", &diagnosis),
            ] {
                self.failures.say(write(&folder.join(name), text), output);
            }
        }
        if !is_json {
            output.text = format!("\n{text}");
            exit::print_now(output)?;
        }
        if let Some(hook) = &self.arguments.hook {
            if let Some(Ok(None)) = self.hook.as_mut().map(Child::try_wait) {
                output
                    .warnings
                    .push(format!("`{hook}` still runs; it was not started again"));
                return Ok(());
            }
            let mut command = Command::new("sh");
            command
                .arg("-c")
                .arg(hook)
                .stdin(Stdio::null())
                .stdout(std::io::stderr());
            command.env("TOPO_WATCH_STATE", situation.state.word());
            command.env(
                "TOPO_WATCH_WHAT",
                files::printable(&situation.what).as_ref(),
            );
            command.env(
                "TOPO_WATCH_FOLDER",
                folder.map_or("".as_ref(), |it| it.as_os_str()),
            );
            self.hook = Some(command.spawn().context("cannot start sh for --hook")?);
        }
        Ok(())
    }

    /// Writes the file for Prometheus, if there is one and it is due.
    pub(super) fn file(
        &mut self,
        situation: &Situation,
        [polls, answers]: [u64; 2],
        is_new: bool,
        output: &mut Output,
    ) {
        let Some(file) = &self.arguments.prometheus else {
            return;
        };
        if !is_new && self.written.is_some_and(|it| it.elapsed() < FILE_PERIOD) {
            return;
        }
        self.written = Some(Instant::now());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let mut metrics = Metrics::default();
        let states = State::ALL.map(|it| {
            let is_it = u64::from(it == situation.state);
            (vec![("state", it.word().to_owned())], is_it)
        });
        let help = "1 for the state of the job.";
        metrics.add(["topo_watch_state", "gauge", help], states);
        let ranks = situation.ranks.iter().take(MOST_RANKS).map(|it| {
            let labels = vec![
                ("rank", it.rank.to_string()),
                ("host", it.host.clone()),
                ("process", it.process.to_string()),
                ("communicator", it.communicator.clone()),
            ];
            (labels, 1)
        });
        let help = "1 for a rank that others wait for, or that is gone.";
        metrics.add(["topo_watch_rank", "gauge", help], ranks);
        let (since, ended) = (situation.since.as_secs(), u64::from(situation.ended));
        let now = now.unwrap_or_default().as_secs();
        for (name, kind, help, value) in [
            ("since_seconds", "gauge", "For how long it is in it.", since),
            ("ended", "gauge", "1 when the job has ended.", ended),
            ("polls_total", "counter", "Polls.", polls),
            ("answers_total", "counter", "Polls with an answer.", answers),
            (
                "time_seconds",
                "gauge",
                "When this was written, since 1970.",
                now,
            ),
        ] {
            let name = format!("topo_watch_{name}");
            metrics.add([&name, kind, help], [(Vec::new(), value)]);
        }
        let text = metrics.text;
        self.failures.say(write(file, &text), output);
    }
}

/// Failures of writing, which do not end the watch: each is said once.
#[derive(Default)]
struct Failures(Vec<String>);

impl Failures {
    fn say(&mut self, written: Result<()>, output: &mut Output) {
        let Err(why) = written else { return };
        let why = format!("{why:#}");
        if !self.0.contains(&why) {
            self.0.push(why.clone());
            output.warnings.push(why);
        }
    }
}

/// The folder of a verdict: the given one, or a new one in it if that has a verdict already.
fn unused(folder: &Path) -> PathBuf {
    let has_verdict = |it: &PathBuf| it.join("watch.json").exists();
    let next = (2..10_000).map(|it| folder.join(it.to_string()));
    let mut all = [folder.to_owned()].into_iter().chain(next);
    all.find(|it| !has_verdict(it))
        .unwrap_or_else(|| folder.to_owned())
}
