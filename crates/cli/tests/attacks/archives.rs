//! Archives whose names take much memory.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::program::{LONG, Running, Said, shell};

/// Most memory that an archive may take, KiB. It is a limit on addresses, the program's own too.
const MOST_MEMORY: u32 = 320 << 10;

/// A description of a file: its kind, its length, and whether names are of bytes that are no text.
struct Names {
    kind: tar::EntryType,
    bytes: u64,
    count: u32,
    byte: u8,
}

fn write(path: &Path, names: &Names) {
    let mut packed = GzEncoder::new(File::create(path).unwrap(), Compression::fast());
    for number in 0..names.count {
        let mut header = tar::Header::new_gnu();
        header.set_path("././@LongLink").unwrap();
        header.set_size(names.bytes);
        header.set_entry_type(names.kind);
        header.set_cksum();
        packed.write_all(header.as_bytes()).unwrap();
        let padded = names.bytes.next_multiple_of(512);
        io::copy(&mut io::repeat(names.byte).take(padded), &mut packed).unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_path(format!("f{number}")).unwrap();
        header.set_size(2);
        header.set_cksum();
        packed.write_all(header.as_bytes()).unwrap();
        packed.write_all(b"x\n").unwrap();
        packed.write_all(&[0; 510]).unwrap();
    }
    packed.write_all(&[0; 1024]).unwrap();
    packed.finish().unwrap();
}

fn diagnosed(path: &Path) -> Said {
    let mut command = shell(&format!("ulimit -v {MOST_MEMORY}; exec \"$0\" \"$@\""));
    command.args(["diagnose", "--json"]).arg(path);
    Running::start(&mut command).within(LONG)
}

pub(crate) fn long_names_take_little_memory() {
    use tar::EntryType;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("names.tgz");
    for (kind, bytes, count, byte) in [
        (EntryType::GNULongName, 300_000_000, 1, b'A'),
        (EntryType::GNULongName, 100_000_000, 1, 0xff),
        (EntryType::GNULongLink, 300_000_000, 1, b'A'),
        (EntryType::XHeader, 300_000_000, 1, b'A'),
        (EntryType::XGlobalHeader, 300_000_000, 1, b'A'),
        (EntryType::GNULongName, 1_000_000, 240, 0xff),
        (EntryType::GNULongName, 4_000, 16_000, 0xff),
    ] {
        write(
            &path,
            &Names {
                kind,
                bytes,
                count,
                byte,
            },
        );
        let said = diagnosed(&path);
        // One that unpacks to far more than its size is refused as a whole.
        let text = match said.status {
            Some(0 | 3) => &said.out,
            Some(2) => &said.err,
            other => panic!("{kind:?} {bytes}: {other:?}, {}", said.err),
        };
        assert!(text.len() < 64 << 20, "{}", text.len());
        let is_named = text.contains("so it was not read") || text.contains("unpacks to");
        assert!(is_named || bytes <= 4096, "{kind:?} {bytes}: {text}");
    }
}
