//! Reads what redirection needs from a shared library: its functions and its import slots.
//!
//! Source of the numbers: the System V ABI (ELF-64) and its x86-64 supplement.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::Unusable;

/// Most bytes of one table of a library; NCCL's are below 2 MB.
const MOST_TABLE_BYTES: u64 = 256 << 20;

/// Most bytes of a name; longer ones are taken for empty.
const MOST_NAME_BYTES: usize = 4 << 10;

const HEADER_BYTES: usize = 64;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const RELOCATION_BYTES: usize = 24;
const DYNAMIC_BYTES: usize = 16;
const X86_64: u16 = 62;
const SHARED_LIBRARY: u16 = 3;
const SYMBOLS: u32 = 2;
const RELOCATIONS: u32 = 4;
const DYNAMIC: u32 = 6;
const WITHOUT_BYTES: u32 = 8;
const DYNAMIC_SYMBOLS: u32 = 11;
const OBJECT: u8 = 1;
const FUNCTION: u8 = 2;
const GLOBAL_SLOT: u32 = 6;
const JUMP_SLOT: u32 = 7;
const NEEDED: u64 = 1;

/// A function of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its address, from where the library is loaded.
    pub address: u64,
    /// Bytes of its code.
    pub bytes: u64,
}

/// A slot that holds the address of an imported function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// The function's name.
    pub name: String,
    /// The slot's address, from where the library is loaded.
    pub address: u64,
}

/// What was read from a library.
#[derive(Debug, Clone, Default)]
pub struct Elf {
    /// Its functions that have names.
    pub functions: Vec<Function>,
    /// The functions that it offers to others.
    pub exports: Vec<Function>,
    /// Its import slots.
    pub slots: Vec<Slot>,
    /// The libraries that it needs.
    pub needed: Vec<String>,
}

/// The constants of a library and the first values of its variables.
#[derive(Debug, Clone, Default)]
pub struct Constants {
    /// Its read-only data, which holds its texts.
    pub texts: Vec<u8>,
    /// Its objects that have names, with their bytes.
    pub objects: Vec<(String, Vec<u8>)>,
}

struct Section {
    name: u64,
    kind: u32,
    address: u64,
    offset: u64,
    bytes: u64,
    link: u32,
}

impl Elf {
    /// Reads a library for x86-64.
    ///
    /// # Errors
    /// The file cannot be read, or is no complete library for this architecture.
    pub fn read(path: &Path) -> Result<Self, Unusable> {
        Reader::open(path)?.library()
    }
}

impl Constants {
    /// Reads a library for x86-64.
    ///
    /// # Errors
    /// The file cannot be read, or is no complete library for this architecture with names.
    pub fn read(path: &Path) -> Result<Self, Unusable> {
        Reader::open(path)?.constants()
    }
}

struct Reader {
    file: File,
    length: u64,
    sections: Vec<Section>,
    /// Which section has the sections' names.
    names: usize,
}

impl Reader {
    fn open(path: &Path) -> Result<Self, Unusable> {
        let file = File::open(path).map_err(Unusable::File)?;
        let length = file.metadata().map_err(Unusable::File)?;
        if !length.is_file() {
            return Err(Unusable::NotLibrary);
        }
        let length = length.len();
        let header =
            read(&file, 0, HEADER_BYTES as u64, length).map_err(|_| Unusable::NotLibrary)?;
        check_header(&header)?;
        let (at, size, count) = (word(&header, 40), half(&header, 58), half(&header, 60));
        if usize::from(size) != SECTION_BYTES || count == 0 {
            return Err(Unusable::Stripped);
        }
        let table = read(&file, at, u64::from(count) * u64::from(size), length)?;
        let sections: Vec<Section> = table.chunks_exact(SECTION_BYTES).map(section).collect();
        let kept = sections.iter().filter(|it| it.kind != WITHOUT_BYTES);
        let end = kept.map(|it| it.offset.saturating_add(it.bytes)).max();
        if let Some(expected) = end.filter(|end| *end > length) {
            return Err(Unusable::Truncated { expected, length });
        }
        Ok(Self {
            file,
            length,
            sections,
            names: usize::from(half(&header, 62)),
        })
    }

    fn constants(&self) -> Result<Constants, Unusable> {
        let names = self.sections.get(self.names).ok_or(Unusable::NotLibrary)?;
        let names = self.bytes(names)?;
        let table = self.sections.iter().find(|it| it.kind == SYMBOLS);
        let symbols = self.symbols(table.ok_or(Unusable::Stripped)?)?;
        let mut constants = Constants::default();
        // Symbols may lie on each other.
        let mut room = MOST_TABLE_BYTES;
        for (number, section) in self.sections.iter().enumerate() {
            let name = text(&names, section.name);
            if section.kind == WITHOUT_BYTES || ![".rodata", ".data"].contains(&name.as_str()) {
                continue;
            }
            let bytes = self.bytes(section)?;
            let own = symbols
                .iter()
                .filter(|it| it.is_object && usize::from(it.section) == number);
            constants.objects.extend(own.filter_map(|it| {
                let from = usize::try_from(it.address.checked_sub(section.address)?).ok()?;
                let to = from.checked_add(usize::try_from(it.bytes).ok()?)?;
                let own = bytes.get(from..to)?;
                room = room.checked_sub(it.bytes)?;
                Some((it.name.clone(), own.to_vec()))
            }));
            if name == ".rodata" {
                constants.texts = bytes;
            }
        }
        Ok(constants)
    }

    fn library(&self) -> Result<Elf, Unusable> {
        let mut elf = Elf::default();
        for section in &self.sections {
            match section.kind {
                SYMBOLS => elf.functions = functions(&self.symbols(section)?),
                DYNAMIC_SYMBOLS => elf.exports = functions(&self.symbols(section)?),
                RELOCATIONS => elf.slots.extend(self.slots(section)?),
                DYNAMIC => elf.needed = self.needed(section)?,
                _ => {}
            }
        }
        Ok(elf)
    }

    fn bytes(&self, section: &Section) -> Result<Vec<u8>, Unusable> {
        read(&self.file, section.offset, section.bytes, self.length)
    }

    fn linked(&self, section: &Section) -> Result<&Section, Unusable> {
        let linked = self.sections.get(section.link as usize);
        linked.ok_or(Unusable::NotLibrary)
    }

    fn symbols(&self, section: &Section) -> Result<Vec<Symbol>, Unusable> {
        let names = self.bytes(self.linked(section)?)?;
        let table = self.bytes(section)?;
        let symbols = table.chunks_exact(SYMBOL_BYTES).map(|it| Symbol {
            name: text(&names, u64::from(number(it, 0))),
            is_function: it[4] & 0xf == FUNCTION,
            is_object: it[4] & 0xf == OBJECT,
            section: half(it, 6),
            address: word(it, 8),
            bytes: word(it, 16),
        });
        Ok(symbols.collect())
    }

    fn slots(&self, section: &Section) -> Result<Vec<Slot>, Unusable> {
        let linked = self.linked(section)?;
        if linked.kind != DYNAMIC_SYMBOLS {
            return Ok(Vec::new());
        }
        let symbols = self.symbols(linked)?;
        let table = self.bytes(section)?;
        let slots = table.chunks_exact(RELOCATION_BYTES).filter_map(|it| {
            let (kind, symbol) = (number(it, 8), number(it, 12) as usize);
            let symbol = symbols.get(symbol)?;
            matches!(kind, GLOBAL_SLOT | JUMP_SLOT).then(|| Slot {
                name: symbol.name.clone(),
                address: word(it, 0),
            })
        });
        Ok(slots.collect())
    }

    fn needed(&self, section: &Section) -> Result<Vec<String>, Unusable> {
        let names = self.bytes(self.linked(section)?)?;
        let table = self.bytes(section)?;
        let entries = table.chunks_exact(DYNAMIC_BYTES);
        let needed = entries.filter(|it| word(it, 0) == NEEDED);
        Ok(needed.map(|it| text(&names, word(it, 8))).collect())
    }
}

struct Symbol {
    name: String,
    is_function: bool,
    is_object: bool,
    /// Its section; 0 if it is another library's.
    section: u16,
    address: u64,
    bytes: u64,
}

fn functions(symbols: &[Symbol]) -> Vec<Function> {
    let defined = symbols
        .iter()
        .filter(|it| it.is_function && it.section != 0);
    let functions = defined.map(|it| Function {
        name: it.name.clone(),
        address: it.address,
        bytes: it.bytes,
    });
    functions.collect()
}

fn check_header(header: &[u8]) -> Result<(), Unusable> {
    if header[..4] != *b"\x7fELF" {
        return Err(Unusable::NotLibrary);
    }
    let (is_64, is_little_endian) = (header[4] == 2, header[5] == 1);
    let machine = half(header, 18);
    if !is_64 || !is_little_endian || machine != X86_64 {
        return Err(Unusable::Architecture(architecture(machine)));
    }
    match half(header, 16) {
        SHARED_LIBRARY => Ok(()),
        _ => Err(Unusable::NotLibrary),
    }
}

fn architecture(machine: u16) -> String {
    match machine {
        3 => "x86 (32 bits)".to_owned(),
        21 => "ppc64".to_owned(),
        183 => "aarch64".to_owned(),
        X86_64 => "x86-64 with other words".to_owned(),
        other => format!("machine {other}"),
    }
}

fn section(bytes: &[u8]) -> Section {
    Section {
        name: u64::from(number(bytes, 0)),
        kind: number(bytes, 4),
        address: word(bytes, 16),
        offset: word(bytes, 24),
        bytes: word(bytes, 32),
        link: number(bytes, 40),
    }
}

fn read(file: &File, at: u64, bytes: u64, length: u64) -> Result<Vec<u8>, Unusable> {
    let expected = at.saturating_add(bytes);
    if expected > length {
        return Err(Unusable::Truncated { expected, length });
    }
    if bytes > MOST_TABLE_BYTES {
        return Err(Unusable::NotLibrary);
    }
    let mut buffer = vec![0; bytes as usize];
    file.read_exact_at(&mut buffer, at)
        .map_err(Unusable::File)?;
    Ok(buffer)
}

/// The text at an offset of a table of names; empty if there is none.
fn text(names: &[u8], at: u64) -> String {
    let rest = usize::try_from(at).ok().and_then(|at| names.get(at..));
    let rest = rest.unwrap_or_default();
    let rest = &rest[..rest.len().min(MOST_NAME_BYTES)];
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(0);
    String::from_utf8_lossy(&rest[..end]).into_owned()
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from(half(bytes, at)) | u32::from(half(bytes, at + 2)) << 16
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from(number(bytes, at)) | u64::from(number(bytes, at + 4)) << 32
}
