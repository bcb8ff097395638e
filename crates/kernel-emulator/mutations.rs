//! Bugs that the build plants in copies of the kernels, to test the tests.

/// A bug: a variant of `Bug` in `src/lib.rs`, the memory that it is compiled for, and the edits
/// that plant it.
pub struct Mutation {
    pub bug: &'static str,
    pub memory: &'static [Memory],
    pub edits: &'static [Edit],
}

/// The memory that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Memory {
    /// The processor's own.
    Plain,
    /// Memory that keeps no more order than a GPU promises.
    Weak,
    /// The processor's own, and every access asks whether it is allowed.
    Checked,
    /// The processor's own, and every access is counted.
    Counted,
}

/// A file, text that it contains exactly once, and its replacement.
pub type Edit = (&'static str, &'static str, &'static str);

const fn plain(bug: &'static str, edits: &'static [Edit]) -> Mutation {
    let memory = &[Memory::Plain];
    Mutation { bug, memory, edits }
}

const fn weak(bug: &'static str, edits: &'static [Edit]) -> Mutation {
    let memory = &[Memory::Weak];
    Mutation { bug, memory, edits }
}

const DEVICE: &str = "host/device_host.h";
const ROLES: &str = "roles.cuh";

const RELAXED_LOAD: Edit = (
    DEVICE,
    "__atomic_load_n(word, __ATOMIC_ACQUIRE);\n  if (TOPO_WEAK) emulator::weak_acquire();",
    "__atomic_load_n(word, __ATOMIC_RELAXED);",
);
const RELAXED_STORE: Edit = (
    DEVICE,
    "if (TOPO_WEAK) emulator::weak_release();\n  __atomic_store_n(word, value, __ATOMIC_RELEASE);",
    "__atomic_store_n(word, value, __ATOMIC_RELAXED);",
);

/// The end of the code with which the waiting warp reads a FIFO's end.
const TOLD: &str = "          }\n        } else if (operand.kind == EVERYWHERE) {";
const SIGNAL: &str = "wanted = end->step + 1;";

/// All bugs.
pub const MUTATIONS: [Mutation; 16] = [
    plain(
        "EarlyDone",
        &[
            (
                ROLES,
                "    if (!stage->end && stage->bytes != 0)",
                "    barrier_arrive(DONE + (stage != shared.stages), threads_again() - WARP);\n    \
                 if (!stage->end && stage->bytes != 0)",
            ),
            (
                ROLES,
                "= stage->end;\n    barrier_arrive(DONE + (stage != shared.stages), threads_again() - WARP);",
                "= stage->end;",
            ),
        ],
    ),
    plain(
        "NoCredit",
        &[(
            ROLES,
            "wanted = at + 1 > SLOTS ? at + 1 - SLOTS : 0;",
            "wanted = 0;",
        )],
    ),
    plain(
        "EarlyCredit",
        &[(
            ROLES,
            TOLD,
            "          }\n          if (source) store_release(word, value);\n        } else if (operand.kind == EVERYWHERE) {",
        )],
    ),
    plain(
        "WrongFlag",
        &[(
            "protocol_ll.cuh",
            "sum[k], (u32)flag);",
            "sum[k], (u32)flag - 1);",
        )],
    ),
    plain(
        "NoFree",
        &[
            (
                ROLES,
                "    if (issued >= 2) barrier_sync(FREE + issued % 2, 2 * WARP);\n    return",
                "    return",
            ),
            (
                ROLES,
                "    if (issued >= 2) barrier_sync(FREE + issued % 2, 2 * WARP);\n  }",
                "  }",
            ),
            (
                ROLES,
                "    barrier_arrive(FREE + number % 2, 2 * WARP);\n",
                "",
            ),
        ],
    ),
    plain(
        "NoTail",
        &[(
            ROLES,
            TOLD,
            "          }\n          if (!source) word = nullptr;\n        } else if (operand.kind == EVERYWHERE) {",
        )],
    ),
    plain("NoSignal", &[(ROLES, SIGNAL, "wanted = 0;")]),
    plain(
        "NoVote",
        &[
            ("protocol_ll128.cuh", "warp_all(come)", "come"),
            (
                "protocol_ll128.cuh",
                "warp_all(!patience.more())",
                "!patience.more()",
            ),
        ],
    ),
    plain(
        "NoCleaning",
        &[(
            "protocol_ll.cuh",
            "if (flag == 0 || ((flag - 1) & 0x7ffffff8) != 0x7ffffff8) continue;",
            "continue;",
        )],
    ),
    plain(
        "OneShare",
        &[(ROLES, SIGNAL, "wanted = giver != 0 ? 0 : end->step + 1;")],
    ),
    plain(
        "NoComparison",
        &[(ROLES, "    if (!warp_all(alike)) {", "    if (false) {")],
    ),
    Mutation {
        bug: "WeakFence",
        memory: &[Memory::Plain, Memory::Weak],
        edits: &[RELAXED_LOAD, RELAXED_STORE],
    },
    weak("NoAcquire", &[RELAXED_LOAD]),
    weak("NoRelease", &[RELAXED_STORE]),
    weak(
        "OneFlag",
        &[(DEVICE, " && (u32)(high >> 32) == flag;", ";")],
    ),
    weak(
        "SplitLine",
        &[(
            DEVICE,
            "emulator::weak_line_part(place, low, high, active);",
            "if (active) store_vector(place, Vector{low, high});",
        )],
    ),
];
