//! Chores of the project's developers: `cargo xtask …`.

mod fuzz;
mod laptops;
mod loom;
mod matrix;
mod planted;
mod test;
mod times;

#[cfg(feature = "whole")]
mod whole {
    pub(crate) mod dist;
    pub(crate) mod fetch;
    pub(crate) mod measure;
    pub(crate) mod peers;
    pub(crate) mod probe_gpu;
    pub(crate) mod probing;
    pub(crate) mod replay;
    pub(crate) mod scale;
    pub(crate) mod site;
    pub(crate) mod timing;
    pub(crate) mod torch;
    pub(crate) mod web;
    pub(crate) use xtask::{bless, compare_library, kernels};
}
#[cfg(not(feature = "whole"))]
mod forwarded;
#[cfg(not(feature = "whole"))]
use forwarded as whole;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::workspace::{exit, repository};
use xtask::{sanitize, tidy};

use whole::{
    bless, compare_library, dist, fetch, kernels, measure, peers, probe_gpu, probing, replay,
    scale, site, timing, torch, web,
};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the project")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Record the planner's output for machines without answers of NCCL
    Bless(bless::Arguments),
    /// Run a command and print its seconds and its peak memory in MB
    Measure(measure::Arguments),
    /// Build all files of a release in target/dist, and check them; publish nothing
    Dist(dist::Arguments),
    /// Fetch libraries of others with which tests run, into a cache
    Fetch(fetch::Arguments),
    /// Fuzz every reader of bytes from outside
    Fuzz(fuzz::Arguments),
    /// Compile the GPU kernels for all architectures without a GPU, and check their resources
    Kernels(kernels::Arguments),
    /// Compile what needs no Linux for macOS, Windows and the browser; start what is for Windows
    /// under Wine
    Laptops(laptops::Arguments),
    /// Check the memory order of what ranks share with the model checker loom
    Loom,
    /// Run the whole correctness matrix of collectives
    Matrix(matrix::Arguments),
    /// Run collectives of the CUDA backend, drawn at random, on phantom machines
    PhantomMatrix(matrix::PhantomArguments),
    /// Time collectives beside Open MPI and MPICH, which it installs first
    Peers(peers::Arguments),
    /// Plant faults in jobs of NCCL, and compare what `topo diagnose` says with the fault
    Planted(planted::Arguments),
    /// Compare `topo probe` with nvidia-smi and NCCL on a machine with GPUs; needs only the built
    /// programs
    ProbeGpu(probe_gpu::Arguments),
    /// Time `topo probe` on fake machines beside hwloc's lstopo
    Probing(probing::Arguments),
    /// Plan every golden case of a folder again and compare with NCCL's decisions
    Replay(replay::Arguments),
    /// Run the kernels on the emulator under AddressSanitizer
    Sanitize(sanitize::Arguments),
    /// Measure many ranks: planning jobs of equal hosts, running here, simulating
    Scale(scale::Arguments),
    /// Build the site in target/site: the page that plans, docs with a search, schemas, machines
    Site,
    /// Run all quick tests, several test programs at a time
    Test(test::Arguments),
    /// Run the deep tests: planted faults in all variants, sanitizers, many draws
    Deep(test::Arguments),
    /// Run the tests of memory that ranks share under ThreadSanitizer
    ThreadSanitizer,
    /// Check the repository's rules: dependencies between crates, unsafe code, length of files,
    /// documentation
    Tidy,
    /// Time planning beside NCCL's own code
    Timing(timing::Arguments),
    /// Time collectives of PyTorch beside Gloo
    TorchPeers(torch::peers::Arguments),
    /// Time what one waits for, from a fresh clone: the first plan, tests, continuous integration
    Times(times::Arguments),
    /// Train with PyTorch on hosts with limited networks, and compare with `topo step`
    TorchSteps(torch::steps::Arguments),
    /// Run torch's own tests of backends on topo and on Gloo; fails where only Gloo passes
    TorchSuite(torch::suite::Arguments),
    /// Build the page that plans in the browser: target/web/topo.html
    Web,
    /// Compare a new library of NCCL, or its wheel, with the last known one: tables of numbers,
    /// variables, plug-in interfaces
    #[command(name = "wheel")]
    CompareLibrary(compare_library::Arguments),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(said) if said.use_stderr() => {
            eprint!("{}", files::printable(&said.render().to_string()));
            return ExitCode::from(2);
        }
        Err(help) => help.exit(),
    };
    let done = match arguments.chore {
        Chore::Bless(arguments) => bless::run(&arguments),
        Chore::Measure(arguments) => measure::run(&arguments),
        Chore::Dist(arguments) => dist::run(&arguments),
        Chore::Fetch(arguments) => fetch::run(&arguments),
        Chore::Fuzz(arguments) => fuzz::run(&arguments),
        Chore::Kernels(arguments) => kernels::run(&arguments),
        Chore::Laptops(arguments) => laptops::run(&arguments),
        Chore::Loom => loom::run(),
        Chore::Matrix(arguments) => matrix::run(&arguments),
        Chore::PhantomMatrix(arguments) => matrix::phantom(&arguments),
        Chore::Peers(arguments) => peers::run(&arguments),
        Chore::Planted(arguments) => planted::run(&arguments),
        Chore::ProbeGpu(arguments) => probe_gpu::run(&arguments),
        Chore::Probing(arguments) => probing::run(&arguments),
        Chore::Replay(arguments) => replay::run(&arguments),
        Chore::Sanitize(arguments) => sanitize::run(&arguments),
        Chore::Scale(arguments) => scale::run(&arguments),
        Chore::Test(arguments) => test::run(&arguments),
        Chore::Deep(arguments) => test::deep(&arguments),
        Chore::ThreadSanitizer => sanitize::run_shared(),
        Chore::Tidy => run_tidy(),
        Chore::Timing(arguments) => timing::run(&arguments),
        Chore::Times(arguments) => times::run(&arguments),
        Chore::TorchPeers(arguments) => torch::peers::run(&arguments),
        Chore::TorchSteps(arguments) => torch::steps::run(&arguments),
        Chore::TorchSuite(arguments) => torch::suite::run(&arguments),
        Chore::Site => site::run(),
        Chore::Web => web::run(),
        Chore::CompareLibrary(arguments) => compare_library::run(&arguments),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{}", files::printable(&format!("error: {error:#}")));
            ExitCode::from(2)
        }
    }
}

fn run_tidy() -> Result<ExitCode> {
    let problems = tidy::check(&repository())?;
    problems.iter().for_each(|problem| println!("{problem}"));
    Ok(exit(problems.is_empty()))
}
