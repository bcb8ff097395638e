//! Reading the machine file that a variable names.

use std::path::PathBuf;

use topology::xml;

use crate::machine::presented::Machine;
use crate::machine::setup::Setup;

/// The variable that names the machine file. Without it a phantom driver presents no GPU.
pub const VARIABLE: &str = "TOPO_PHANTOM_MACHINE";

/// Most bytes of a machine file and of a topology file.
const MOST_BYTES: u64 = 16 << 20;

/// Reads the machine file that [`VARIABLE`] names, and its topology file.
///
/// # Errors
/// The variable is not set, or a file cannot be read, in a sentence.
pub fn open() -> Result<Machine, String> {
    let path = std::env::var_os(VARIABLE).ok_or_else(|| {
        format!(
            "this library is not NVIDIA's driver, but a stand-in for tests of the program topo; it presents no GPU \
             because {VARIABLE} names no machine file"
        )
    })?;
    let path = PathBuf::from(path);
    let text = files::read_text(&path, MOST_BYTES).map_err(|error| error.to_string())?;
    let setup = Setup::parse(&text).map_err(|why| format!("{}: {why}", path.display()))?;
    let file = setup.topology.clone();
    let bytes = files::read(file.as_ref(), MOST_BYTES).map_err(|error| error.to_string())?;
    let document = xml::parse(&file, &bytes).map_err(|error| error.to_string())?;
    Machine::new(&document, setup)
}
