//! `topo`: plans a machine's NCCL channels offline, and explains them.
//!
//! All contact with the outside is here: arguments, environment, files, the terminal. Commands are
//! functions that make text ([`output`]); `main` prints it.
//!
//! In reading order: [`arguments`], [`environment`], [`input`], [`sources`], [`settings`],
//! [`job`], [`rank_order`], [`plan`], [`rank`], [`show`], [`cost`],
//! [`engines`], [`expect`], [`bound`], [`what_if`], [`export`](mod@export), [`tune`](mod@tune),
//! [`diff`], [`program`], [`simulate`], [`step`](mod@step), [`fabric`], [`linux_only`], [`linux`]
//! (`run`, `join`, `nccl_check`, `collect`, `driver`: not on other systems), [`live`],
//! [`probing`], [`doctor`], [`matrix`], [`view`], [`machines`], [`log`],
//! [`results`], [`watch`], [`complete`], [`vm`], [`render`], [`schemas`], [`output`], [`hints`],
//! [`exit`].

// What only commands of Linux use is there on other systems, too.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

mod arguments;
mod bound;
#[cfg(target_os = "linux")]
mod collect;
mod complete;
mod cost;
mod diagnose;
mod diff;
mod doctor;
#[cfg(target_os = "linux")]
mod driver;
mod engines;
mod environment;
mod exit;
mod expect;
mod export;
mod fabric;
mod generate;
mod hints;
#[cfg(target_os = "linux")]
mod id;
mod input;
mod job;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
#[path = "not_linux.rs"]
mod linux;
mod linux_only;
mod listings;
mod live;
mod log;
mod machines;
mod matrix;
mod measured;
#[cfg(target_os = "linux")]
mod nccl_check;
mod output;
mod plan;
mod probing;
mod program;
mod progress;
mod rank;
mod rank_order;
mod render;
mod results;
#[cfg(target_os = "linux")]
mod run;
mod schemas;
mod settings;
mod show;
mod simulate;
mod sources;
mod step;
mod tune;
mod view;
mod vm;
mod watch;
mod what_if;

#[cfg(not(feature = "schema"))]
use no_schema::JsonSchema;
#[cfg(feature = "schema")]
use schemars::JsonSchema;

use std::process::ExitCode;

use clap::FromArgMatches;

use arguments::modes::{self, Resolved};
use arguments::{Arguments, Command};
use environment::Environment;
use output::Output;

/// Stack of the thread that works where the main thread's is small, bytes.
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    abort_on_panic();
    if !linux::has_small_stack() {
        return work();
    }
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(work);
    match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(status)) => status,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(error) => {
            let error = anyhow::Error::from(error).context("no thread can start");
            exit::finish(Err(error), &Output::default())
        }
    }
}

/// Ends the program when any thread panics, also where it was built so that a panic unwinds: the
/// other threads and ranks would wait for that one.
fn abort_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
}

fn work() -> ExitCode {
    let environment = Environment::read();
    let words: Vec<_> = std::env::args_os().collect();
    let Resolved {
        arguments,
        mode,
        is_former,
    } = modes::resolve(words.clone());
    let command = arguments::layout::command(environment.width, &arguments, mode);
    let used = arguments
        .get(1)
        .and_then(|it| it.to_str().map(str::to_owned));
    let matches = command.try_get_matches_from(arguments);
    let arguments = match matches.and_then(|it| Arguments::from_arg_matches(&it)) {
        Ok(arguments) => arguments,
        Err(mut said) => {
            hints::of_usage(&mut said, used.as_deref());
            return exit::without_command(&said);
        }
    };
    let mut output = Output::default();
    if let Some(mode) = mode.filter(|_| is_former) {
        output.notes.push_str(&format!("note: {}\n", mode.hint()));
    }
    let done = match &arguments.command {
        Command::Plan(arguments) => plan::run(arguments, &environment, &mut output),
        Command::Rank(arguments) => rank::run(arguments, &environment, &mut output),
        Command::Show(arguments) => show::run(arguments, &environment, &mut output),
        Command::Cost(arguments) => cost::run(arguments, &environment, &mut output),
        Command::Bound(arguments) => bound::run(arguments, &environment, &mut output),
        Command::Engines(arguments) => engines::run(arguments, &environment, &mut output),
        Command::Expect(arguments) => expect::run(arguments, &environment, &mut output),
        Command::WhatIf(arguments) => what_if::run(arguments, &environment, &mut output),
        Command::Export(arguments) => export::run(arguments, &environment, &mut output),
        Command::Tune(arguments) => tune::run(arguments, &environment, &mut output),
        Command::Diagnose(arguments) => diagnose::run(arguments, &environment, &mut output),
        Command::Collect(arguments) => linux::collect(arguments, &environment, &mut output),
        Command::Watch(arguments) => watch::run(arguments, &environment, &mut output),
        Command::DriverAnswers => linux::driver_answers(&mut output),
        Command::Diff(arguments) => diff::run(arguments, &environment, &mut output),
        Command::Probe(arguments) => probing::run(arguments, &environment, &mut output),
        Command::Doctor(arguments) => doctor::run(arguments, &environment, &mut output),
        Command::Matrix(arguments) => matrix::run(arguments, &environment, &mut output),
        Command::View(arguments) => view::run(arguments, &mut output),
        Command::Machines(form) => machines::run(**form, &environment, &mut output),
        Command::Complete(arguments) => complete::run(arguments, &mut output),
        Command::Vm(arguments) => vm::run(arguments, &environment, &mut output),
        Command::Log(arguments) => log::run(arguments, &environment, &mut output),
        Command::Results(arguments) => results::run(arguments, &environment, &mut output),
        Command::Acceptance(arguments) => linux::acceptance(arguments, &environment, &mut output),
        Command::NcclCheck(arguments) => linux::nccl_check(arguments, &environment, &mut output),
        Command::NcclHost => linux::nccl_host(),
        Command::Program(arguments) => program::run(arguments, &environment, &mut output),
        Command::Run(arguments) => linux::run(arguments, &environment, &mut output),
        Command::Fabric(arguments) => fabric::run(arguments, &environment, &mut output),
        Command::Simulate(arguments) => simulate::run(arguments, &environment, &mut output),
        Command::Step(arguments) => step::run(arguments, &environment, &mut output),
        Command::GpuTest(arguments) => linux::gpu_test(arguments, &environment, &mut output),
        Command::Id(arguments) => linux::id(arguments, &mut output),
        Command::Calibrate(arguments) => linux::calibrate(arguments, &environment, &mut output),
        Command::Gen { what } => generate::help(Some(what), &environment, &mut output),
        Command::Help { command } => generate::help(command.as_deref(), &environment, &mut output),
        Command::Schema { name } => schemas::run(name.as_deref(), &mut output),
        Command::Completions { shell } => generate::completions(*shell, &mut output),
        Command::Man { directory } => generate::man(directory.as_deref(), &mut output),
    };
    exit::finish_of(done, &output, &words)
}
