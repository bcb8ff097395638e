//! Ways in which a measurement goes on a host of 8 GPUs, and programs that are not as they should be.

use std::sync::LazyLock;

use findings::check::Verdict;

/// The head of a table with a line for each GPU.
macro_rules! ranks {
    (4) => {
        concat!(
            "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 4 minBytes 8589934592 maxBytes 8589934592\n# Using devices\n",
            "#  Rank  0 Group  0 Pid   7001 on       n1 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3\n",
            "#  Rank  1 Group  0 Pid   7001 on       n1 device  1 [0000:43:00] NVIDIA H100 80GB HBM3\n",
            "#  Rank  2 Group  0 Pid   7001 on       n1 device  2 [0000:52:00] NVIDIA H100 80GB HBM3\n",
            "#  Rank  3 Group  0 Pid   7001 on       n1 device  3 [0000:61:00] NVIDIA H100 80GB HBM3\n",
        )
    };
    (8) => {
        concat!(
            ranks!(4),
            "#  Rank  4 Group  0 Pid   7001 on       n1 device  4 [0000:9d:00] NVIDIA H100 80GB HBM3\n",
            "#  Rank  5 Group  0 Pid   7001 on       n1 device  5 [0000:c3:00] NVIDIA H100 80GB HBM3\n",
            "#  Rank  6 Group  0 Pid   7001 on       n1 device  6 [0000:d1:00] NVIDIA H100 80GB HBM3\n",
            "#  Rank  7 Group  0 Pid   7001 on       n1 device  7 [0000:df:00] NVIDIA H100 80GB HBM3\n",
        )
    };
}

/// The names of the columns.
macro_rules! columns {
    () => {
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    };
}

/// A table of a number of GPUs with a bus bandwidth.
macro_rules! table {
    ($ranks:tt, $time:literal, $algorithm:literal, $gbps:literal) => {
        concat!(
            ranks!($ranks),
            columns!(),
            "  8589934592    2147483648     float     sum      -1  ",
            concat!($time, "  ", $algorithm, "  ", $gbps, "    N/A  "),
            concat!($time, "  ", $algorithm, "  ", $gbps),
            "    N/A\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : ",
            $gbps,
            " \n#\n"
        )
    };
}

/// A program that prints a text.
macro_rules! prints {
    ($text:expr) => {
        concat!("cat <<'END'\n", $text, "END")
    };
}

/// A table that ends before its row does.
macro_rules! cut {
    () => {
        concat!(
            ranks!(8),
            columns!(),
            "  8589934592    2147483648     float     sum      -1  35000.0  245.43  42\n"
        )
    };
}

/// What nccl-tests prints where a GPU cannot be used.
macro_rules! cuda_error {
    () => {
        concat!(
            ranks!(8),
            columns!(),
            "n1: Test CUDA failure common.cu:1042 'an illegal memory access was encountered'\n",
            " .. n1 pid 7001: Test failure common.cu:891\n"
        )
    };
}

/// What a way needs of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// A log, or a program that it runs.
    Nothing,
    /// It runs programs.
    Programs,
    /// It measures idle hosts only.
    Idle,
    /// It drains hosts by a program.
    Drains,
}

/// A way.
pub(crate) struct Run {
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    /// `all_reduce_perf` in the language of the shell, for gates that run it; none: it is missing.
    pub(crate) program: Option<&'static str>,
    /// What it printed, for gates that read it; none: there is no log.
    pub(crate) log: Option<&'static str>,
    /// Other programs in the language of the shell, in place of good ones.
    pub(crate) tools: &'static [(&'static str, &'static str)],
    pub(crate) verdict: Verdict,
    /// Words of which the gate must say at least one.
    pub(crate) says: &'static [&'static str],
}

/// A good run.
const GOOD: Run = Run {
    name: "good",
    needs: Needs::Nothing,
    program: Some(prints!(table!(8, "34126.3", "251.71", "440.50"))),
    log: Some(table!(8, "34126.3", "251.71", "440.50")),
    tools: &[],
    verdict: Verdict::Pass,
    says: &[],
};

/// A slow one.
const SLOW: Run = Run {
    name: "slow",
    program: Some(prints!(table!(8, "64489.0", "133.20", "233.10"))),
    log: Some(table!(8, "64489.0", "133.20", "233.10")),
    verdict: Verdict::Fail,
    says: &["430", "429.7"],
    ..GOOD
};

const UNKNOWN: Verdict = Verdict::Unknown(String::new());

/// A run on GPUs 4 to 7, which fails where the program sees others.
pub(crate) fn selected() -> Run {
    Run {
        name: "selected_gpus",
        program: Some(concat!(
            "[ \"$CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER\" = \"4,5,6,7 PCI_BUS_ID\" ] || exit 3\n",
            prints!(table!(4, "30000.1", "286.33", "429.50"))
        )),
        log: Some(table!(4, "30000.1", "286.33", "429.50")),
        ..GOOD
    }
}

/// The ways.
pub(crate) static RUNS: LazyLock<Vec<Run>> = LazyLock::new(|| {
    vec![
        GOOD,
        SLOW,
        Run {
            name: "missing",
            program: None,
            log: None,
            verdict: UNKNOWN,
            says: &["127", "there is no file"],
            ..GOOD
        },
        Run {
            name: "fails",
            program: Some("echo 'libcudart.so.12: cannot open shared object file' >&2; exit 127"),
            log: Some("all_reduce_perf: error while loading shared libraries: libcudart.so.12\n"),
            verdict: UNKNOWN,
            says: &["libcudart", "is of 0 GPUs"],
            ..GOOD
        },
        Run {
            name: "cuda_error",
            program: Some(concat!(prints!(cuda_error!()), "\nexit 3")),
            log: Some(cuda_error!()),
            verdict: UNKNOWN,
            says: &["illegal memory access", "no whole table"],
            ..GOOD
        },
        // A driver that breaks in the last moment: the table is whole, the run is not.
        Run {
            name: "fails_after_its_table",
            program: Some(concat!(
                prints!(table!(8, "64489.0", "133.20", "233.10")),
                "\nkill -SEGV $$"
            )),
            log: Some(concat!(
                ranks!(8),
                columns!(),
                "  8589934592    2147483648     float     sum      -1  64489.0  133.20  233.10    N/A\n",
                "n1: Test CUDA failure common.cu:1042 'unspecified launch failure'\n"
            )),
            verdict: UNKNOWN,
            says: &["exit status 139", "no whole table"],
            ..GOOD
        },
        Run {
            name: "no_table",
            program: Some("echo '# Avg bus bandwidth    : 440.1'"),
            log: Some("# Avg bus bandwidth    : 440.1\n"),
            verdict: UNKNOWN,
            says: &["0 GPUs"],
            ..GOOD
        },
        Run {
            name: "cut_table",
            program: Some(prints!(cut!())),
            log: Some(cut!()),
            verdict: UNKNOWN,
            says: &["no bandwidth", "no whole table"],
            ..GOOD
        },
        Run {
            name: "too_little_memory",
            program: Some(prints!(concat!(
                ranks!(8),
                "#\n# Reducing maxBytes to 4294967296 due to memory limitation\n",
                columns!(),
                "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : -nan \n"
            ))),
            log: Some(concat!(
                ranks!(8),
                columns!(),
                "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : -nan \n"
            )),
            verdict: UNKNOWN,
            says: &["no row of this size", "no whole table"],
            ..GOOD
        },
        Run {
            name: "fewer_gpus",
            program: Some(prints!(table!(4, "29277.2", "293.40", "440.10"))),
            log: Some(table!(4, "29277.2", "293.40", "440.10")),
            verdict: UNKNOWN,
            says: &["4 GPUs"],
            ..GOOD
        },
        Run {
            name: "hangs",
            program: Some("trap '' TERM; echo '# nThread 1 nGpus 8'; sleep 600 & wait; wait"),
            log: Some(""),
            verdict: UNKNOWN,
            says: &["no end within", "0 GPUs"],
            ..GOOD
        },
        // The names of hosts, GPUs and errors are those of an attacker, in all of these.
        Run {
            name: "hostile_output",
            program: Some(concat!(
                "printf '# $(touch hacked) `touch hacked` %%s \\033[31m; touch hacked\\n'\n",
                prints!(table!(8, "64489.0", "133.20", "233.10"))
            )),
            log: Some(concat!(
                "# $(touch hacked) `touch hacked` \u{1b}[31m\n",
                table!(8, "64489.0", "133.20", "233.10")
            )),
            ..SLOW
        },
        Run {
            name: "hostile_error",
            program: Some(
                "echo \"Error: '; touch hacked; \\\"\\$(touch hacked) ]]> ::error::\"; exit 9",
            ),
            log: Some("Error: '; touch hacked; \"$(touch hacked) ]]> ::error::\n"),
            verdict: UNKNOWN,
            says: &["exit status 9", "0 GPUs", "no measurement"],
            ..GOOD
        },
        Run {
            name: "not_a_number",
            program: Some(prints!(table!(8, "34126.3", "251.71", "nan"))),
            log: Some(table!(8, "34126.3", "251.71", "nan")),
            verdict: UNKNOWN,
            says: &[
                "no bandwidth",
                "no whole table",
                "a row is cut",
                "no measurement",
            ],
            ..GOOD
        },
        Run {
            name: "zero",
            program: Some(prints!(table!(8, "34126.3", "251.71", "0.00"))),
            log: Some(table!(8, "34126.3", "251.71", "0.00")),
            verdict: UNKNOWN,
            says: &[
                "no bandwidth",
                "no whole table",
                "a row is cut",
                "no measurement",
            ],
            ..GOOD
        },
        Run {
            name: "silent",
            program: Some("exit 1"),
            log: Some("\n"),
            verdict: UNKNOWN,
            says: &["exit status 1", "0 GPUs", "no measurement"],
            ..GOOD
        },
        Run {
            name: "killed_for_memory",
            program: Some("echo '# nThread 1 nGpus 8'; kill -KILL $$"),
            log: Some("# nThread 1 nGpus 8\n"),
            verdict: UNKNOWN,
            says: &["no end within", "0 GPUs", "no measurement"],
            ..GOOD
        },
        Run {
            name: "endless_output",
            program: Some("while :; do echo 0123456789012345678901234567890123456789; done"),
            needs: Needs::Programs,
            verdict: UNKNOWN,
            says: &["exit status"],
            ..GOOD
        },
        Run {
            name: "no_timeout",
            needs: Needs::Programs,
            tools: &[("timeout", "echo 'timeout: not found' >&2; exit 127")],
            verdict: UNKNOWN,
            says: &["127"],
            ..SLOW
        },
        Run {
            name: "no_awk",
            needs: Needs::Programs,
            tools: &[("awk", "exit 127")],
            verdict: UNKNOWN,
            says: &["no verdict"],
            ..SLOW
        },
        Run {
            name: "no_mktemp",
            needs: Needs::Programs,
            tools: &[("mktemp", "exit 1")],
            verdict: UNKNOWN,
            says: &["no verdict"],
            ..SLOW
        },
        Run {
            name: "no_logger",
            needs: Needs::Programs,
            tools: &[("logger", "exit 127")],
            ..SLOW
        },
        Run {
            name: "other_gpus",
            needs: Needs::Programs,
            tools: &[("nvidia-smi", "echo 8.9")],
            verdict: UNKNOWN,
            says: &["capability 8.9"],
            ..SLOW
        },
        Run {
            name: "no_nvidia_smi",
            needs: Needs::Programs,
            tools: &[("nvidia-smi", "echo 'nvidia-smi: not found' >&2; exit 127")],
            verdict: UNKNOWN,
            says: &["nvidia-smi"],
            ..SLOW
        },
        Run {
            name: "nvidia_smi_fails",
            needs: Needs::Programs,
            tools: &[(
                "nvidia-smi",
                "echo 'Unable to determine the device handle: $(touch hacked)'; exit 255",
            )],
            verdict: UNKNOWN,
            says: &["device handle"],
            ..SLOW
        },
        Run {
            name: "nvidia_smi_hangs",
            needs: Needs::Programs,
            tools: &[("nvidia-smi", "trap '' TERM; sleep 600")],
            verdict: UNKNOWN,
            says: &["nvidia-smi"],
            ..SLOW
        },
        Run {
            name: "in_use",
            needs: Needs::Idle,
            tools: &[(
                "nvidia-smi",
                "case $* in *compute_cap*) echo 9.0 ;; *) echo 7001 ;; esac",
            )],
            verdict: Verdict::Skipped(String::new()),
            says: &["7001"],
            ..SLOW
        },
        Run {
            name: "used_meanwhile",
            needs: Needs::Idle,
            program: Some(concat!(
                "echo >used\n",
                prints!(table!(8, "64489.0", "133.20", "233.10"))
            )),
            tools: &[(
                "nvidia-smi",
                "case $* in *compute_cap*) echo 9.0 ;; *) [ ! -e used ] || echo 7001 ;; esac",
            )],
            verdict: Verdict::Skipped(String::new()),
            says: &["7001"],
            ..SLOW
        },
        Run {
            name: "cannot_drain",
            needs: Needs::Drains,
            tools: &[
                ("scontrol", "echo 'Invalid node name'; exit 1"),
                ("kubectl", "echo 'nodes is forbidden'; exit 1"),
            ],
            says: &["could not"],
            ..SLOW
        },
        Run {
            name: "no_drainer",
            needs: Needs::Drains,
            tools: &[("scontrol", "exit 127"), ("kubectl", "exit 127")],
            says: &["could not"],
            ..SLOW
        },
        Run {
            name: "draining_hangs",
            needs: Needs::Drains,
            tools: &[
                ("scontrol", "trap '' TERM; sleep 600"),
                ("kubectl", "trap '' TERM; sleep 600"),
            ],
            says: &["could not"],
            ..SLOW
        },
    ]
});
