//! `cargo xtask wheel`: what a new library of NCCL has otherwise than the last known one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use libdeflater::{Decompressor, crc32};
use nccl_binary::elf::Constants;
use nccl_binary::package::{KNOWN, cached};
use planner::settings::effect;
use regex::bytes::Regex;
use tempfile::NamedTempFile;
use xtask::workspace::nccl_libraries;

/// Most bytes of a wheel, and of a library in it; those of 2.32 have 300 and 474 MB.
const MOST_BYTES: u64 = 2 << 30;

/// Most bytes of a wheel's list of files.
const MOST_LIST_BYTES: u32 = 1 << 20;

/// The library in a wheel.
const LIBRARY: &str = "nvidia/nccl/lib/libnccl.so.2";

/// Most bytes after the list of files: its end with the longest comment.
const END_BYTES: u64 = 22 + 0xffff;

/// Beginnings of names that are no tables of NCCL's: the CUDA runtime's, the compiler's, C++'s.
const OTHERS: [&str; 4] = ["libcudart", "CSWTCH", "_Z", "__"];

/// Arguments of `cargo xtask wheel`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// A wheel of nvidia-nccl-cu12 or -cu13, or libnccl.so.2, for x86-64
    file: PathBuf,
    /// The same of the version to compare with; if left out, the newest one that `cargo xtask fetch
    /// nccl` has fetched
    #[arg(long)]
    beside: Option<PathBuf>,
}

/// What is compared of a library.
#[derive(Debug, Default, PartialEq)]
struct Content {
    /// Such as 2.32.3; empty if the library does not say it.
    version: String,
    /// Tables of numbers and other objects, by name; some names are there several times.
    tables: BTreeMap<String, BTreeSet<Vec<u8>>>,
    settings: BTreeSet<String>,
    /// Interfaces of plug-ins that it looks up, such as `ncclTunerPlugin_v6`.
    plugins: BTreeSet<String>,
}

impl Content {
    /// # Errors
    /// The file is no wheel of NCCL and no library of it with names.
    fn of(path: &Path) -> Result<Self> {
        let mut file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
        let mut start = [0; 4];
        let is_packed = file.read_exact(&mut start).is_ok() && start == *b"PK\x03\x04";
        let unpacked = match is_packed {
            true => Some(unpacked(&mut file).with_context(|| path.display().to_string())?),
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
    fn beside(&self, old: &Self) -> Vec<String> {
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
    fn beside_program(&self) -> Vec<String> {
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
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
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

/// Unpacks the library of a wheel (a ZIP archive) into a file.
fn unpacked(archive: &mut File) -> Result<NamedTempFile> {
    let length = archive.metadata()?.len();
    ensure!(
        length <= MOST_BYTES,
        "it has {length} bytes; expected at most {MOST_BYTES}"
    );
    let end_at = length.saturating_sub(END_BYTES);
    let end = bytes_at(archive, end_at, length - end_at)?;
    let found = end.windows(4).rposition(|it| it == b"PK\x05\x06");
    let end = &end[found.context("it has no list of files; download it again")?..];
    let (bytes, at) = (number(end, 12)?, number(end, 16)?);
    ensure!(
        bytes <= MOST_LIST_BYTES,
        "its list of files has {bytes} bytes; expected at most {MOST_LIST_BYTES}"
    );
    let list = bytes_at(archive, at.into(), bytes.into())?;
    let mut rest = &list[..];
    while rest.starts_with(b"PK\x01\x02") {
        let half = |at| Ok::<_, anyhow::Error>((number(rest, at)? & 0xffff) as usize);
        let (name, extra, comment) = (half(28)?, half(30)?, half(32)?);
        if rest.get(46..46 + name) == Some(LIBRARY.as_bytes()) {
            let entry = [
                number(rest, 16)?,
                number(rest, 20)?,
                number(rest, 24)?,
                number(rest, 42)?,
            ];
            return unpack(archive, half(10)?, entry);
        }
        rest = rest.get(46 + name + extra + comment..).unwrap_or_default();
    }
    bail!("it holds no {LIBRARY}; expected a wheel of nvidia-nccl-cu12 or -cu13")
}

/// Unpacks a file of an archive: its checksum, packed and unpacked bytes, and where it begins.
fn unpack(
    archive: &mut File,
    method: usize,
    [sum, packed, bytes, at]: [u32; 4],
) -> Result<NamedTempFile> {
    ensure!(
        u64::from(bytes) <= MOST_BYTES,
        "its library has {bytes} bytes; expected at most {MOST_BYTES}"
    );
    let header = bytes_at(archive, at.into(), 30)?;
    let names = (number(&header, 26)? & 0xffff) + (number(&header, 26)? >> 16);
    let packed = bytes_at(
        archive,
        u64::from(at) + 30 + u64::from(names),
        packed.into(),
    )?;
    let library = match method {
        0 => packed,
        8 => {
            let mut library = vec![0; bytes as usize];
            let unpacked = Decompressor::new().deflate_decompress(&packed, &mut library);
            ensure!(
                unpacked.is_ok_and(|it| it == library.len()),
                "its library is damaged; download it again"
            );
            library
        }
        _ => bail!(
            "its library is packed by method {method}; expected 0 (not at all) or 8 (deflate)"
        ),
    };
    ensure!(
        crc32(&library) == sum,
        "the checksum of its library is wrong; download it again"
    );
    let mut file = NamedTempFile::new()?;
    file.write_all(&library)?;
    Ok(file)
}

/// Bytes of a file, no more than it has.
fn bytes_at(file: &mut File, at: u64, bytes: u64) -> Result<Vec<u8>> {
    let length = file.metadata()?.len();
    ensure!(
        at.saturating_add(bytes) <= length,
        "it ends at byte {length}; expected {bytes} bytes from byte {at} on"
    );
    let mut found = vec![0; bytes as usize];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut found)?;
    Ok(found)
}

/// The number of four bytes.
fn number(bytes: &[u8], at: usize) -> Result<u32> {
    let found = bytes
        .get(at..at + 4)
        .context("its list of files is cut off; download it again")?;
    Ok(u32::from_le_bytes(found.try_into()?))
}

#[cfg(test)]
mod tests {
    use libdeflater::{CompressionLvl, Compressor};

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
        let mut packer = Compressor::new(CompressionLvl::fastest());
        let mut packed = vec![0; packer.deflate_compress_bound(file.len())];
        let bytes = packer.deflate_compress(file, &mut packed).unwrap();
        packed.truncate(bytes);
        let number = |value: usize| (value as u32).to_le_bytes();
        let sizes = [
            crc32(file).to_le_bytes(),
            number(bytes),
            number(file.len()),
            number(name.len()),
        ]
        .concat();
        let head = [&[20, 0, 0, 0, 8, 0, 0, 0, 0, 0], &sizes[..]].concat();
        let mut archive = [b"PK\x03\x04", &head[..], name.as_bytes(), &packed].concat();
        let list = [b"PK\x01\x02\0\0", &head[..], &[0; 14], name.as_bytes()].concat();
        let at = archive.len();
        archive.extend(&list);
        archive.extend(
            [
                b"PK\x05\x06\0\0\0\0\x01\0\x01\0",
                &number(list.len())[..],
                &number(at),
                &[0; 2],
            ]
            .concat(),
        );
        archive
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

    #[test]
    fn real_libraries_differ_as_is_known() {
        let found = ["2.32.3", "2.31.2"].map(|version| cached(&nccl_libraries(), version));
        let [Some(new), Some(old)] = found else {
            eprintln!("not run: NCCL 2.31.2 and 2.32.3 are not fetched (cargo xtask fetch nccl)");
            return;
        };
        let [new, old] = [new, old].map(|library| Content::of(&library).unwrap());
        assert_eq!(new.version, "2.32.3");
        let sizes = |name: &str| new.tables[name].first().unwrap().len();
        assert_eq!(
            (sizes("ncclTunerConstantsDefaults"), sizes("nvlsEfficiency")),
            (1152, 16)
        );
        let lines = new.beside(&old);
        for known in [
            "variable  + NCCL_IB_RAIL_POLICY",
            "variable  - NCCL_NET_GDR_MLOPART",
            "table     rubinSpeedArrayIntra: 36 bytes (was none)",
        ] {
            assert!(lines.iter().any(|it| it == known), "{known}: {lines:#?}");
        }
        // NCCL's counters of its plug-ins, and a name that only a text has.
        let unknown = new.beside_program();
        let counted = unknown
            .iter()
            .filter(|it| it.ends_with("_PLUGIN_REF_COUNT"));
        assert_eq!((unknown.len(), counted.count()), (4, 3), "{unknown:#?}");
    }
}
