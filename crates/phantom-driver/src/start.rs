//! Whether the library serves: only if a variable names a machine file.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use phantom_machine::{Machine, Setup, VARIABLE};
use topology::{System, xml};

use crate::report;

/// Most bytes of a machine file and of a topology file.
const MOST_BYTES: u64 = 16 << 20;

static MACHINE: OnceLock<Result<Machine, String>> = OnceLock::new();

/// Whether `cuInit` has succeeded.
static INITIALISED: AtomicBool = AtomicBool::new(false);

fn open() -> Result<Machine, String> {
    let path = std::env::var_os(VARIABLE).ok_or_else(|| {
        format!(
            "this library is not NVIDIA's driver, but a stand-in for tests of the program topo; it presents no GPU \
             because {VARIABLE} names no machine file"
        )
    })?;
    let path = std::path::PathBuf::from(path);
    let text = files::read_text(&path, MOST_BYTES).map_err(|error| error.to_string())?;
    let setup = Setup::parse(&text).map_err(|why| format!("{}: {why}", path.display()))?;
    let file = setup.topology.clone();
    let bytes = files::read(file.as_ref(), MOST_BYTES).map_err(|error| error.to_string())?;
    let document = xml::parse(&file, &bytes).map_err(|error| error.to_string())?;
    let system = System::from_document(&document).map_err(|error| error.to_string())?;
    let machine = Machine::new(&system, setup)?;
    if machine.setup.report.is_some() {
        // SAFETY: the function is of this library, which stays loaded.
        unsafe { libc::atexit(write_report) };
    }
    if !machine.setup.pidfd {
        crate::seccomp::forbid_pidfd_getfd();
    }
    Ok(machine)
}

extern "C" fn write_report() {
    if let Some(Ok(Machine { setup, .. })) = MACHINE.get()
        && let Some(path) = &setup.report
    {
        report::write(path);
    }
}

/// The machine.
///
/// # Errors
/// No variable names a machine file, or it cannot be read.
pub fn machine() -> Result<&'static Machine, &'static str> {
    let opened = MACHINE.get_or_init(|| {
        let opened = open();
        if let Err(why) = &opened {
            eprintln!("topo phantom: {why}");
        }
        opened
    });
    opened.as_ref().map_err(String::as_str)
}

/// `cuInit` has succeeded.
pub fn initialise() {
    INITIALISED.store(true, Ordering::Release);
}

/// Whether `cuInit` has succeeded.
pub fn is_initialised() -> bool {
    INITIALISED.load(Ordering::Acquire)
}

/// The error with which this call of a function fails, if the machine file says so.
pub fn planted(function: &str, number: u64) -> Option<u32> {
    let setup = &machine().ok()?.setup;
    let mut planted = setup.failures.iter();
    let found = planted.find(|it| it.function == function && it.number == number);
    found.map(|it| it.error)
}
