//! `cargo xtask wheel`: what a new library of NCCL has otherwise than the last known one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use flate2::read::DeflateDecoder;
use nccl_binary::elf::Constants;
use nccl_binary::package::{KNOWN, cached};
use planner::settings::effect;
use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ZipArchive};
use regex::bytes::Regex;
use tempfile::NamedTempFile;

use crate::workspace::nccl_libraries;

/// Most bytes of a library in a wheel; that of 2.32 has 474 MB.
const MOST_BYTES: u64 = 2 << 30;

/// The library in a wheel.
const LIBRARY: &str = "nvidia/nccl/lib/libnccl.so.2";

/// Beginnings of names that are no tables of NCCL's: the CUDA runtime's, the compiler's, C++'s.
const OTHERS: [&str; 4] = ["libcudart", "CSWTCH", "_Z", "__"];

/// Arguments of `cargo xtask wheel`.
#[derive(Args)]
pub struct Arguments {
    /// A wheel of nvidia-nccl-cu12 or -cu13, or libnccl.so.2, for x86-64
    file: PathBuf,
    /// The same of the version to compare with; if left out, the newest one that `cargo xtask fetch
    /// nccl` has fetched
    #[arg(long)]
    beside: Option<PathBuf>,
}

/// What is compared of a library.
#[derive(Debug, Default, PartialEq)]
pub struct Content {
    /// Such as 2.32.3; empty if the library does not say it.
    pub version: String,
    /// Tables of numbers and other objects, by name; some names are there several times.
    pub tables: BTreeMap<String, BTreeSet<Vec<u8>>>,
    /// Its variables.
    settings: BTreeSet<String>,
    /// Interfaces of plug-ins that it looks up, such as `ncclTunerPlugin_v6`.
    plugins: BTreeSet<String>,
}

impl Content {
    /// Reads a wheel or a library.
    ///
    /// # Errors
    /// The file is no wheel of NCCL and no library of it with names.
    pub fn of(path: &Path) -> Result<Self> {
        let mut file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
        let mut start = [0; 4];
        let is_packed = file.read_exact(&mut start).is_ok() && start == *b"PK\x03\x04";
        let unpacked = match is_packed {
            true => Some(unpacked(file).with_context(|| path.display().to_string())?),
            false => None,
        };
        let library = unpacked.as_ref().map_or(path, |it| it.path());
        let constants = Constants::read(library);
        let constants = constants.map_err(|why| anyhow::anyhow!("{} {why}", path.display()))?;
        Ok(Self::from(&constants))
    }

    fn from(constants: &Constants) -> Self {
        let mut content = Self::default();
        let all = |pattern: &str| -> BTreeSet<String> {
            let pattern = Regex::new(pattern).unwrap_or_else(|why| unreachable!("{why}"));
            let texts = constants.texts.split(|byte| *byte == 0);
            let found = texts.filter_map(|text| pattern.captures(text));
            let names = found.map(|it| String::from_utf8_lossy(&it[1]).into_owned());
            names.collect()
        };
        content.settings = all("^(NCCL_[A-Z0-9_]{3,60})$");
        content.plugins = all("^(nccl[A-Z][A-Za-z]{1,30}_v[0-9]{1,4})$");
        let versions = all(r"^NCCL version ([0-9]{1,3}(?:\.[0-9]{1,3}){2})");
        content.version = versions.into_iter().next().unwrap_or_default();
        for (name, bytes) in &constants.objects {
            let name = name.strip_prefix("_ZL").map_or(&**name, |it| {
                it.trim_start_matches(|it: char| it.is_ascii_digit())
            });
            if !OTHERS.iter().any(|it| name.starts_with(it)) {
                content
                    .tables
                    .entry(name.to_owned())
                    .or_default()
                    .insert(bytes.clone());
            }
        }
        content
    }

    /// What differs from an older library, and what the program's list of variables lacks.
    pub fn beside(&self, old: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut list = |what: &str, new: &BTreeSet<String>, old: &BTreeSet<String>| {
            lines.extend(new.difference(old).map(|it| format!("{what}  + {it}")));
            lines.extend(old.difference(new).map(|it| format!("{what}  - {it}")));
        };
        list("plug-in ", &self.plugins, &old.plugins);
        list("variable", &self.settings, &old.settings);
        let names: BTreeSet<_> = self.tables.keys().chain(old.tables.keys()).collect();
        for name in names {
            let (new, old) = (self.tables.get(name), old.tables.get(name));
            let bytes = |table: Option<&BTreeSet<Vec<u8>>>| match table.and_then(BTreeSet::last) {
                Some(bytes) => format!("{} bytes", bytes.len()),
                None => "none".to_owned(),
            };
            if new != old {
                lines.push(format!(
                    "table     {name}: {} (was {})",
                    bytes(new),
                    bytes(old)
                ));
            }
        }
        lines
    }

    /// Variables that the program does not know.
    pub fn beside_program(&self) -> Vec<String> {
        let unknown = self.settings.iter().filter(|it| effect(it).is_none());
        unknown
            .map(|it| format!("not in topo's list  {it}"))
            .collect()
    }
}

/// Compares, and prints what differs.
///
/// # Errors
/// A file cannot be read.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let newest = || {
        KNOWN
            .iter()
            .rev()
            .find_map(|(version, _)| cached(&nccl_libraries(), version))
    };
    let beside = arguments.beside.clone().or_else(newest);
    let new = Content::of(&arguments.file)?;
    println!(
        "NCCL {}: {} tables, {} variables, {} interfaces of plug-ins",
        new.version,
        new.tables.len(),
        new.settings.len(),
        new.plugins.len()
    );
    let Some(beside) = beside else {
        bail!(
            "there is no library to compare with; expected --beside FILE, or run `cargo xtask fetch nccl`"
        );
    };
    let old = Content::of(&beside)?;
    let lines = new.beside(&old);
    println!(
        "\nbeside {} ({}): {} differences",
        old.version,
        beside.display(),
        lines.len()
    );
    let program = new.beside_program();
    for line in lines.iter().chain(&program) {
        println!("{}", files::printable(line));
    }
    Ok(ExitCode::SUCCESS)
}

/// Unpacks the library of a wheel into a file.
fn unpacked(archive: File) -> Result<NamedTempFile> {
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let archive = ZipArchive::from_file(archive, &mut buffer)?;
    let mut entries = archive.entries(&mut buffer);
    while let Some(entry) = entries.next_entry()? {
        if entry.file_path().as_ref() != LIBRARY.as_bytes() {
            continue;
        }
        let (method, place) = (entry.compression_method(), entry.wayfinder());
        let entry = archive.get_entry(place)?;
        let packed: Box<dyn Read> = match method {
            CompressionMethod::STORE => Box::new(entry.reader()),
            CompressionMethod::DEFLATE => Box::new(DeflateDecoder::new(entry.reader())),
            _ => bail!("its library is packed in an unknown way; expected deflate, or none"),
        };
        // Its length and checksum are compared at its end.
        let mut library = entry.verifying_reader(packed).take(MOST_BYTES);
        let mut file = NamedTempFile::new()?;
        let bytes = io::copy(&mut library, &mut file).context("its library is damaged")?;
        ensure!(
            bytes < MOST_BYTES,
            "its library has more than {MOST_BYTES} bytes"
        );
        return Ok(file);
    }
    bail!("it holds no {LIBRARY}; expected a wheel of nvidia-nccl-cu12 or -cu13")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;
    use rawzip::ZipArchiveWriter;

    use super::*;

    const TEXTS: &str =
        "\0NCCL version 2.99.1+cuda13\0NCCL_ALGO\0NCCL_NEW_THING\0ncclTunerPlugin_v9\0";

    /// A library for x86-64: read-only data, names of its objects, names of its sections.
    fn library(table: &[u8]) -> Vec<u8> {
        let data = [table, TEXTS.as_bytes()].concat();
        let names = b"\0_ZL14nvlsEfficiency\0libcudart_x\0".to_vec();
        let symbol = |name: u32, at: u64, bytes: u64| {
            let mut symbol = name.to_le_bytes().to_vec();
            symbol.extend([1, 0, 1, 0]);
            symbol.extend([at.to_le_bytes(), bytes.to_le_bytes()].concat());
            symbol
        };
        let symbols = [
            vec![0; 24],
            symbol(1, 0x1000, table.len() as u64),
            symbol(21, 0x1000, 4),
            symbol(1, 0, u64::MAX),
        ]
        .concat();
        let sections = b"\0.rodata\0.symtab\0.strtab\0".to_vec();
        let mut file = vec![0; 64];
        let mut headers = vec![0; 64];
        let parts = [
            (1, 1, 0x1000, data, 0),
            (9, 2, 0, symbols, 3),
            (17, 3, 0, names, 0),
            (17, 3, 0, sections, 0),
        ];
        for (name, kind, address, bytes, link) in parts {
            let mut header = [0; 64];
            header[..4].copy_from_slice(&u32::to_le_bytes(name));
            header[4..8].copy_from_slice(&u32::to_le_bytes(kind));
            header[16..24].copy_from_slice(&u64::to_le_bytes(address));
            header[24..32].copy_from_slice(&(file.len() as u64).to_le_bytes());
            header[32..40].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
            header[40..44].copy_from_slice(&u32::to_le_bytes(link));
            headers.extend(header);
            file.extend(bytes);
        }
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (file[16], file[18], file[58], file[60], file[62]) = (3, 62, 64, 5, 4);
        let at = (file.len() as u64).to_le_bytes();
        file[40..48].copy_from_slice(&at);
        file.extend(headers);
        file
    }

    /// A wheel with a file.
    fn packed_library(name: &str, file: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        let mut archive = ZipArchiveWriter::new(&mut packed);
        let entry = archive.new_file(name);
        let entry = entry.compression_method(CompressionMethod::DEFLATE);
        let (mut entry, config) = entry.start().unwrap();
        let mut writer = config.wrap(DeflateEncoder::new(&mut entry, Compression::fast()));
        writer.write_all(file).unwrap();
        let (encoder, descriptor) = writer.finish().unwrap();
        encoder.finish().unwrap();
        entry.finish(descriptor).unwrap();
        archive.finish().unwrap();
        packed
    }

    fn content(bytes: &[u8]) -> Result<Content> {
        let mut file = NamedTempFile::new()?;
        file.write_all(bytes)?;
        Content::of(file.path())
    }

    #[test]
    fn differences_are_told() {
        let (new, old) = (library(&[1; 20]), library(&[1; 16]));
        let packed = content(&packed_library(LIBRARY, &new)).unwrap();
        assert_eq!(packed, content(&new).unwrap());
        assert_eq!(packed.version, "2.99.1");
        assert_eq!(packed.plugins.first().unwrap(), "ncclTunerPlugin_v9");
        let lines = packed.beside(&content(&old).unwrap());
        assert_eq!(lines, ["table     nvlsEfficiency: 20 bytes (was 16 bytes)"]);
        let program = packed.beside_program();
        assert_eq!(program, ["not in topo's list  NCCL_NEW_THING"]);
    }

    #[test]
    fn damaged_files_are_refused() {
        let whole = packed_library(LIBRARY, &library(&[1; 16]));
        for length in 0..whole.len() - 2 {
            assert!(content(&whole[..length]).is_err(), "{length} bytes");
        }
        for at in 0..whole.len() {
            for value in [0, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                // No panic, and no endless memory.
                let _ = content(&changed);
            }
        }
        assert!(content(&packed_library("nvidia/nccl/lib/other.so", b"")).is_err());
    }
}
