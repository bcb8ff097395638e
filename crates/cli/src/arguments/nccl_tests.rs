//! Options of nccl-tests that `topo run` has no use for: it says what to use instead.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

/// An option that only nccl-tests has.
struct OtherOption {
    short: char,
    long: &'static str,
    /// Values that ask for nothing else than what `topo run` does.
    accepted: &'static [&'static str],
    /// The replacement.
    instead: &'static str,
}

const fn other(
    short: char,
    long: &'static str,
    accepted: &'static [&'static str],
    instead: &'static str,
) -> OtherOption {
    OtherOption {
        short,
        long,
        accepted,
        instead,
    }
}

/// In the order of nccl-tests' own help.
const OTHERS: [OtherOption; 15] = [
    other(
        'm',
        "agg_iters",
        &["1"],
        "launches are not aggregated; -n N sets how many are timed, --graph N launches N as one \
         CUDA graph",
    ),
    other(
        'N',
        "run_cycles",
        &["1"],
        "the sizes are run once; expected 1, and the command in a loop for more",
    ),
    other(
        'p',
        "parallel_init",
        &["0", "1"],
        "all ranks join at the same time; expected 0 or 1",
    ),
    other(
        'z',
        "blocking",
        &["0"],
        "launches are also timed one by one: columns p50, p99 and max; expected 0",
    ),
    other(
        'y',
        "stream_null",
        &["0"],
        "each rank has a stream of its own; expected 0",
    ),
    other(
        'G',
        "cudagraph",
        &["0"],
        "--graph N launches N timed launches as one CUDA graph; expected 0",
    ),
    other(
        'C',
        "report_cputime",
        &["0"],
        "on CPUs a time is that of the whole launch, on GPUs the device's; expected 0",
    ),
    other(
        'a',
        "average",
        &["3"],
        "a time is that of the slowest rank; expected 3",
    ),
    other(
        'R',
        "local_register",
        &["0"],
        "on GPUs --register lets NVLS use the buffers where they are, and --transfer direct all ranks; expected 0",
    ),
    other(
        'x',
        "cta_policy",
        &["0"],
        "--channels N limits the thread blocks; expected 0",
    ),
    other(
        'D',
        "device_implementation",
        &["0"],
        "--algorithm, --protocol and --transfer choose what runs; expected 0",
    ),
    other(
        'V',
        "device_cta_count",
        &[],
        "--channels N limits the thread blocks",
    ),
    other(
        'J',
        "output_file",
        &[],
        "--json prints JSON, which a shell can redirect: --json > FILE",
    ),
    other(
        'S',
        "report_timestamps",
        &["0"],
        "each row is printed when it is measured, so that `| ts` can add the time; expected 0",
    ),
    other(
        'M',
        "memory_report",
        &["0"],
        "memory is not reported; expected 0",
    ),
];

/// Accepts or refuses the options of nccl-tests that are not those of `topo run`.
#[derive(Debug)]
pub(crate) struct NcclTestsArguments;

impl FromArgMatches for NcclTestsArguments {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self)
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}

impl Args for NcclTestsArguments {
    fn augment_args(command: Command) -> Command {
        let arguments = OTHERS.iter().map(|option| {
            Arg::new(option.long)
                .short(option.short)
                .long(option.long)
                .value_name("N")
                .hide(true)
                .value_parser(|text: &str| accept(option, text))
        });
        command.args(arguments)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn accept(option: &OtherOption, text: &str) -> Result<String, &'static str> {
    match option.accepted.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(option.instead),
    }
}

/// Reads `1` or `0`.
pub(crate) fn check(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(
            "expected 1, which checks the first and the last launch of each figure, or 0".into(),
        ),
    }
}

/// Reads the root; nccl-tests also takes -1.
pub(crate) fn root(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| {
        "expected one rank, from 0; for all roots in turn, the command in a loop".to_owned()
    })
}
