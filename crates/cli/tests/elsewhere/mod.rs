//! The cases with a program for another system: that of Windows, started under Wine.

use std::borrow::Cow;
use std::ffi::OsString;

/// The variable that names the program, or a script that starts it.
const PROGRAM: &str = "TOPO_PROGRAM";

/// The needs of scripts that only Linux meets, by their words.
const NEEDS: [(&str, &str); 14] = [
    ("topo run", "topo run needs Linux"),
    ("topo run --calibrate", "topo run --calibrate needs Linux"),
    ("topo gpu-test", "topo gpu-test needs Linux"),
    ("topo run --new-id", "topo run --new-id needs Linux"),
    ("topo nccl-check", "topo nccl-check needs Linux"),
    ("topo probe", "topo probe reads a machine with Linux"),
    ("--from", "a recording has links"),
    ("--sysfs-root", "the files of a machine have links"),
    ("mkfifo", "a FIFO"),
    ("ulimit", "limits of a process"),
    ("ln -s", "links"),
    ("chmod", "permissions"),
    ("/dev/", "devices of Linux"),
    ("<(", "pipes with names"),
];

/// The systems' words, as Wine has them and as Linux has them.
const WORDS: [(&str, &str); 2] = [
    (
        "File not found. (os error 2)",
        "No such file or directory (os error 2)",
    ),
    (
        "Path not found. (os error 3)",
        "No such file or directory (os error 2)",
    ),
];

/// Whether another program than that of this build is tested.
pub(crate) fn is_asked() -> bool {
    std::env::var_os(PROGRAM).is_some()
}

/// The program of the cases.
pub(crate) fn program() -> OsString {
    std::env::var_os(PROGRAM).unwrap_or_else(|| env!("CARGO_BIN_EXE_topo").into())
}

/// The need of a script that another system does not meet.
pub(crate) fn needs(script: &str) -> Option<&'static str> {
    // Where nothing is written to or read from is the script's own.
    let script = script.replace("> /dev/null", "").replace("< /dev/null", "");
    let found = NEEDS.iter().find(|(text, _)| script.contains(text));
    found.map(|(_, why)| *why)
}

/// A text in which the systems do not differ: paths and what the system says. Wine has the files of
/// Linux on drive Z.
pub(crate) fn alike(text: &str) -> Cow<'_, str> {
    if !is_asked() {
        return text.into();
    }
    let mut text = text
        .replace("\\\\", "/")
        .replace('\\', "/")
        .replace("Z:/", "/");
    for (there, here) in WORDS {
        text = text.replace(there, here);
    }
    text.into()
}
