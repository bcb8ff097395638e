//! Runs of nccl-tests on a host of 8 GPUs.

use crate::Verdict;

/// A run.
pub(crate) struct Run {
    pub(crate) name: &'static str,
    /// `all_reduce_perf` in the language of the shell, for gates that run it; none: it is missing.
    pub(crate) program: Option<&'static str>,
    /// What it printed, for gates that read it; none: there is no log.
    pub(crate) log: Option<&'static str>,
    pub(crate) verdict: Verdict,
    /// Words of which the gate must say at least one.
    pub(crate) says: &'static [&'static str],
}

/// The head of a table with a line for each GPU.
macro_rules! ranks {
    (4) => {
        concat!(
            "# nThread 1 nGpus 4 minBytes 8589934592 maxBytes 8589934592\n# Using devices\n",
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
    ($ranks:tt, $gbps:literal) => {
        concat!(
            ranks!($ranks),
            columns!(),
            "  8589934592    2147483648     float     sum      -1  35000.0  245.43  ",
            $gbps,
            "    N/A  35010.0  245.36  ",
            $gbps,
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

/// A run on GPUs 4 to 7, which fails where the program sees others.
pub(crate) const FOUR_SELECTED: &str = concat!(
    "[ \"$CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER\" = \"4,5,6,7 PCI_BUS_ID\" ] || exit 3\n",
    prints!(table!(4, "429.50"))
);

/// What it prints.
pub(crate) const FOUR_SELECTED_LOG: Option<&str> = Some(table!(4, "429.50"));

pub(crate) const RUNS: &[Run] = &[
    Run {
        name: "good",
        program: Some(prints!(table!(8, "440.50"))),
        log: Some(table!(8, "440.50")),
        verdict: Verdict::Pass,
        says: &[],
    },
    Run {
        name: "slow",
        program: Some(prints!(table!(8, "233.10"))),
        log: Some(table!(8, "233.10")),
        verdict: Verdict::Fail,
        says: &["430"],
    },
    Run {
        name: "missing",
        program: None,
        log: None,
        verdict: Verdict::Unknown,
        says: &["127", "there is no file"],
    },
    Run {
        name: "fails",
        program: Some("echo 'libcudart.so.12: cannot open shared object file' >&2; exit 127"),
        log: Some("all_reduce_perf: error while loading shared libraries: libcudart.so.12\n"),
        verdict: Verdict::Unknown,
        says: &["libcudart", "is of 0 GPUs"],
    },
    Run {
        name: "cuda_error",
        program: Some(concat!(prints!(cuda_error!()), "\nexit 3")),
        log: Some(cuda_error!()),
        verdict: Verdict::Unknown,
        says: &["illegal memory access", "no whole table"],
    },
    // A driver that breaks in the last moment: the table is whole, the run is not.
    Run {
        name: "fails_after_its_table",
        program: Some(concat!(prints!(table!(8, "233.10")), "\nkill -SEGV $$")),
        log: Some(concat!(
            ranks!(8),
            columns!(),
            "  8589934592    2147483648     float     sum      -1  35000.0  245.43  233.10    N/A\n",
            "n1: Test CUDA failure common.cu:1042 'unspecified launch failure'\n"
        )),
        verdict: Verdict::Unknown,
        says: &["exit status 139", "no whole table"],
    },
    Run {
        name: "no_table",
        program: Some("echo '# Avg bus bandwidth    : 440.1'"),
        log: Some("# Avg bus bandwidth    : 440.1\n"),
        verdict: Verdict::Unknown,
        says: &["0 GPUs"],
    },
    Run {
        name: "cut_table",
        program: Some(prints!(cut!())),
        log: Some(cut!()),
        verdict: Verdict::Unknown,
        says: &["no bandwidth", "no whole table"],
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
        verdict: Verdict::Unknown,
        says: &["no row of this size", "no whole table"],
    },
    Run {
        name: "fewer_gpus",
        program: Some(prints!(table!(4, "440.10"))),
        log: Some(table!(4, "440.10")),
        verdict: Verdict::Unknown,
        says: &["4 GPUs"],
    },
    Run {
        name: "hangs",
        program: Some("trap '' TERM; echo '# nThread 1 nGpus 8'; sleep 600 & wait; wait"),
        log: Some(""),
        verdict: Verdict::Unknown,
        says: &["no end within", "0 GPUs"],
    },
];
