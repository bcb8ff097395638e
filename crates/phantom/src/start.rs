//! The start of the library: it serves only if a variable names a machine file.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::machine::Machine;

use crate::report;

static MACHINE: OnceLock<Result<Machine, String>> = OnceLock::new();

/// Whether `cuInit` has succeeded.
static INITIALISED: AtomicBool = AtomicBool::new(false);

fn open() -> Result<Machine, String> {
    let machine = crate::machine::open()?;
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

/// Presents a machine to this process, whatever the variable says.
///
/// # Errors
/// A machine is presented already.
pub fn present(machine: Machine) -> Result<(), String> {
    let presented = MACHINE.set(Ok(machine));
    presented.map_err(|_| "a machine is presented already".to_owned())
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
