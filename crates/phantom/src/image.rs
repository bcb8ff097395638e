//! Images of kernels: which GPUs and drivers load them, and what they hold.
//!
//! A cubin is an ELF file: `e_flags` has the compute capability, `EI_ABIVERSION` the version of
//! the form, and a section `.text.NAME` each kernel. NVRTC 12.8 and 12.9 write form 7, and form 8
//! for compute capability 10.0 and 12.0; NVRTC 13 writes form 8. A kernel's registers are in the
//! upper byte of that section's `sh_info`, or in `.nv.info`. PTX says `.version`, `.target` and
//! `.entry`.

use cudarc::driver::sys::CUresult;

use crate::answer::{Answer, Section, refuse};

/// Most bytes of an image.
const MOST_BYTES: u64 = 256 << 20;

/// Bytes of an ELF header and of a section's header.
const ELF_HEADER: usize = 64;
const SECTION_HEADER: usize = 64;

/// The first driver that loads cubins of form 8, for GPUs from compute capability 10.0 on and for
/// older ones. It is the toolkit's version that first wrote them.
const fn form_8_driver(sm: u32) -> u32 {
    if sm >= 100 { 12_080 } else { 13_000 }
}

/// Registers of a kernel of PTX, which a driver would decide when it compiles.
const PTX_REGISTERS: u32 = 96;

/// A kernel of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Registers of a thread.
    pub registers: u32,
}

/// The kernels of an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Image {
    /// Compute capability × 10 that its code is for.
    pub capability: u32,
    /// The kernels.
    pub functions: Vec<Function>,
}

/// The number of bytes of an image whose first bytes these are; `None`: it is text that ends with a
/// 0.
///
/// # Errors
/// It is an ELF file that says a length out of bounds.
pub fn elf_length(header: &[u8]) -> Answer<Option<u64>> {
    if !header.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    // The tables of segments and of sections; one of them is at the end.
    let end = |table: usize, size: usize| {
        let bytes = number(header, size, 2) * number(header, size + 2, 2);
        number(header, table, 8).checked_add(bytes)
    };
    match end(32, 54)
        .zip(end(40, 58))
        .map(|(one, other)| one.max(other))
    {
        Some(end) if end <= MOST_BYTES => Ok(Some(end)),
        _ => refuse(
            CUresult::CUDA_ERROR_INVALID_IMAGE,
            Section::Module,
            "the image is too long",
        ),
    }
}

fn number(bytes: &[u8], at: usize, count: usize) -> u64 {
    let found = at.checked_add(count).and_then(|end| bytes.get(at..end));
    let digits = found.unwrap_or_default().iter().rev();
    digits.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Loads an image for a GPU of compute capability `sm` / 10.
///
/// # Errors
/// The driver is too old for it, or it is for other GPUs.
pub fn load(image: &[u8], sm: u32, driver: u32) -> Answer<Image> {
    match image.starts_with(b"\x7fELF") {
        true => cubin(image, sm, driver),
        false => ptx(image, sm, driver),
    }
}

fn cubin(image: &[u8], sm: u32, driver: u32) -> Answer<Image> {
    let form = number(image, 8, 1);
    if form >= 8 && driver < form_8_driver(sm) {
        return refuse(
            CUresult::CUDA_ERROR_INVALID_IMAGE,
            Section::Module,
            format!(
                "a driver of CUDA {} does not know cubins of form {form}",
                version(driver)
            ),
        );
    }
    let flags = number(image, 48, 4);
    let target = if form >= 8 {
        flags >> 8 & 0xff
    } else {
        flags & 0xff
    };
    let target = u32::try_from(target).unwrap_or_default();
    if target / 10 != sm / 10 || target % 10 > sm % 10 {
        return refuse(
            CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
            Section::Module,
            format!("the image is for sm_{target}, and the GPU is of sm_{sm}"),
        );
    }
    let table = number(image, 40, 8) as usize;
    let count = number(image, 60, 2) as usize;
    let section = |index: usize| table + index * SECTION_HEADER;
    let names = number(image, section(number(image, 62, 2) as usize) + 24, 8) as usize;
    let name = |index: usize| -> Option<String> {
        let at = names.checked_add(number(image, section(index), 4) as usize)?;
        let text = image.get(at..)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    let information = (0..count).find(|index| name(*index).is_some_and(|it| it == ".nv.info"));
    let told = information.map(|index| {
        let begin = number(image, section(index) + 24, 8) as usize;
        let bytes = number(image, section(index) + 32, 8) as usize;
        let end = begin.saturating_add(bytes).min(image.len());
        registers(image.get(begin..end).unwrap_or_default())
    });
    let told = told.unwrap_or_default();
    let functions = (0..count).filter_map(|index| {
        let information = number(image, section(index) + 44, 4);
        let (symbol, upper) = (information & 0xff_ffff, (information >> 24) as u32);
        let by_symbol = told.iter().find(|(of, _)| *of == symbol);
        Some(Function {
            name: name(index)?.strip_prefix(".text.")?.to_owned(),
            registers: by_symbol.map_or(upper, |(_, registers)| *registers),
        })
    });
    Ok(Image {
        capability: target,
        functions: functions.collect(),
    })
}

/// Symbols of kernels and their registers, from the records of `.nv.info`: a form, an attribute and
/// two bytes, which of form 4 are the length of what follows.
fn registers(records: &[u8]) -> Vec<(u64, u32)> {
    const LONG: u64 = 4;
    const REGISTERS: u64 = 0x2f;
    let mut found = Vec::new();
    let mut at = 0;
    while at + 4 <= records.len() {
        let (form, attribute) = (number(records, at, 1), number(records, at + 1, 1));
        let bytes = if form == LONG {
            number(records, at + 2, 2) as usize
        } else {
            0
        };
        if attribute == REGISTERS && bytes >= 8 {
            found.push((
                number(records, at + 4, 4),
                number(records, at + 8, 4) as u32,
            ));
        }
        at += 4 + bytes;
    }
    found
}

/// The newest PTX that a driver compiles: ISA 8.0 came with CUDA 12.0, 9.0 with 13.0.
const fn newest_ptx(driver: u32) -> (u32, u32) {
    match driver {
        13_000.. => (9, driver / 10 % 100),
        12_000.. => match driver / 10 % 100 {
            // CUDA 12.7 was never released; 12.8 has 8.7 and 12.9 has 8.8.
            minor @ 8.. => (8, minor - 1),
            6 | 7 => (8, 5),
            minor => (8, minor),
        },
        _ => (7, driver / 10 % 100),
    }
}

fn ptx(image: &[u8], sm: u32, driver: u32) -> Answer<Image> {
    let text = String::from_utf8_lossy(image);
    let word = |name: &str| text.split_once(name)?.1.split_whitespace().next();
    let Some((major, minor)) = word(".version").and_then(|it| it.split_once('.')) else {
        return refuse(
            CUresult::CUDA_ERROR_INVALID_IMAGE,
            Section::Module,
            "it is no image",
        );
    };
    let isa = (
        major.parse().unwrap_or(u32::MAX),
        minor.parse().unwrap_or(u32::MAX),
    );
    if isa > newest_ptx(driver) {
        return refuse(
            CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
            Section::Module,
            format!(
                "a driver of CUDA {} does not know PTX {major}.{minor}",
                version(driver)
            ),
        );
    }
    let target = word(".target").and_then(|it| it.strip_prefix("sm_"));
    let digits = target.map(|it| it.trim_end_matches(|it: char| !it.is_ascii_digit()));
    let capability = digits.and_then(|it| it.parse().ok()).unwrap_or(u32::MAX);
    if capability > sm {
        return refuse(
            CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
            Section::Module,
            format!("the PTX is for newer GPUs than sm_{sm}"),
        );
    }
    let functions = text.split(".entry").skip(1).filter_map(|rest| {
        let name = rest
            .trim_start()
            .split(|it: char| it != '_' && !it.is_alphanumeric())
            .next()?;
        Some(Function {
            name: name.to_owned(),
            registers: PTX_REGISTERS,
        })
    });
    Ok(Image {
        capability,
        functions: functions.collect(),
    })
}

fn version(driver: u32) -> String {
    format!("{}.{}", driver / 1000, driver / 10 % 100)
}

/// Reads an image from the caller's memory.
///
/// # Errors
/// The pointer is null, or the image says a length out of bounds.
pub fn read(pointer: *const u8) -> Answer<Vec<u8>> {
    let invalid = |rule: &str| refuse(CUresult::CUDA_ERROR_INVALID_VALUE, Section::Module, rule);
    if pointer.is_null() {
        return invalid("the image is null");
    }
    // SAFETY: callers promise an image; both forms have a first byte, and text ends with a 0.
    let is_elf = unsafe { pointer.read() } == 0x7f;
    let length = if is_elf {
        // SAFETY: an ELF file begins with a header of 64 bytes.
        let header = unsafe { std::slice::from_raw_parts(pointer, ELF_HEADER) };
        elf_length(header)?.unwrap_or_default()
    } else {
        let mut length = 0;
        // SAFETY: text ends with a 0, at which this stops.
        while length < MOST_BYTES && unsafe { pointer.add(length as usize).read() } != 0 {
            length += 1;
        }
        length
    };
    // SAFETY: the image says that it has so many bytes, or they were just read.
    Ok(unsafe { std::slice::from_raw_parts(pointer, length as usize) }.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "// text\n.version 8.8\n.target sm_75\n.visible .entry topo_run_move(\n.param .b8 x[4]) {}\n";

    #[test]
    fn ptx_is_for_newer_gpus_and_drivers() {
        let image = load(PTX.as_bytes(), 90, 12_090).unwrap();
        assert_eq!((image.functions.len(), image.capability), (1, 75));
        assert_eq!(image.functions[0].name, "topo_run_move");
        let old = load(PTX.as_bytes(), 90, 12_080).unwrap_err();
        assert_eq!(
            old.error,
            CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION as u32
        );
        let gpu = load(PTX.as_bytes(), 70, 13_000).unwrap_err();
        assert_eq!(gpu.error, CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU as u32);
        assert!(load(b"hello", 90, 13_000).is_err());
    }

    #[test]
    fn a_cubin_out_of_bounds_is_refused() {
        let mut header = [0xff; ELF_HEADER];
        header[..4].copy_from_slice(b"\x7fELF");
        assert!(elf_length(&header).is_err());
        assert!(cubin(&header, 90, 13_000).is_err());
        assert_eq!(elf_length(b"text").unwrap(), None);
    }
}
