//! Reads every topology file of the shared corpus and of the golden cases, where they are present.

use std::path::{Path, PathBuf};

use topology::xml::{parse, write};

/// The folder of shared test input: `TOPO_SHARED`, or `shared` beside the workspace.
fn shared() -> PathBuf {
    std::env::var_os("TOPO_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    )
}

/// The XML files of a folder; prints that the test was not run when there is no such folder.
fn files(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = shared().join(folder);
    let Ok(entries) = std::fs::read_dir(&folder) else {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        println!(
            "not run: {test}: {} is not there (set TOPO_SHARED)",
            folder.display()
        );
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "xml"));
    paths.sort();
    assert!(!paths.is_empty(), "{} holds no XML files", folder.display());
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    paths
        .iter()
        .map(|path| (name(path), std::fs::read(path).unwrap()))
        .collect()
}

/// Every file of a folder loads, and survives being written.
fn check_folder(folder: &str) {
    for (file, bytes) in files(folder) {
        let document = parse(&file, &bytes).unwrap_or_else(|error| panic!("{error}"));
        println!("{file}: {} warnings", document.warnings.len());
        for warning in &document.warnings {
            println!("  {warning}");
        }
        assert!(
            document.warnings.len() < 60,
            "{file}: too many warnings to read"
        );
        let text = write(&document);
        let again = parse(&file, text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(
            document.root.same_as(&again.root),
            "{file} changed when written:\n{text}"
        );
        assert_eq!(document.version, again.version, "{file}");
    }
}

#[test]
fn nccl_corpus_loads() {
    check_folder("corpus/nccl");
}

#[test]
fn rccl_corpus_loads() {
    check_folder("corpus/rccl");
}

#[test]
fn golden_topologies_load() {
    check_folder("golden/topologies");
}

#[test]
fn golden_topologies_give_no_warning_that_nccl_refuses_them() {
    for (file, bytes) in files("golden/topologies") {
        let document = parse(&file, &bytes).unwrap_or_else(|error| panic!("{error}"));
        let refused: Vec<_> = document
            .warnings
            .iter()
            .filter(|w| w.message.contains("refuses this file"))
            .collect();
        assert!(refused.is_empty(), "{file}: {refused:?}");
    }
}

#[test]
fn elements_that_are_not_nccls_are_named() {
    for (file, bytes) in files("corpus/nccl") {
        if bytes.windows(4).any(|window| window == b"<apu") {
            let document = parse(&file, &bytes).unwrap_or_else(|error| panic!("{error}"));
            assert!(
                document
                    .warnings
                    .iter()
                    .any(|w| w.message.contains("unknown element `<apu>`")),
                "{file}"
            );
        }
    }
}
