//! `topo.h` declares what the library exports, with the same types and numbers.

use std::collections::BTreeSet;
use std::path::Path;

use cbindgen::{Builder, Config, ExportConfig, Language, Style};
use toporing::communicator::{ElementType, Reduction};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn header() -> String {
    std::fs::read_to_string(here().join("include/topo.h")).unwrap()
}

/// The declarations of functions and structures, without comments, line breaks and the words that
/// no caller notices.
fn declarations(header: &str) -> BTreeSet<String> {
    let mut code = String::new();
    let mut rest = header;
    while let Some((before, after)) = rest.split_once("/*") {
        code += before;
        rest = after.split_once("*/").expect("a comment ends").1;
    }
    code += rest;
    let lines = code.lines().filter(|line| !line.starts_with('#'));
    let code = lines.collect::<Vec<_>>().join(" ");
    let code = code.replace("extern \"C\" {", " ");
    let (mut found, mut part, mut depth) = (BTreeSet::new(), String::new(), 0);
    for letter in code.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ';' if depth == 0 => {
                found.extend(normal(&std::mem::take(&mut part)));
                continue;
            }
            _ => {}
        }
        part.push(letter);
    }
    found
}

/// A declaration as it is compared; nothing for those of other kinds.
fn normal(declaration: &str) -> Option<String> {
    let signs = ["*", "(", ")", ",", "{", "}", ";"];
    let spaced = signs.iter().fold(declaration.to_owned(), |text, sign| {
        text.replace(sign, &format!(" {sign} "))
    });
    let words = spaced.split_whitespace();
    let text = words.collect::<Vec<_>>().join(" ");
    // A handle is the library's own, so whether it says `const` is a promise to nobody.
    let text = text.replace("const topo_comm *", "topo_comm *");
    let is_function = text.contains(" (") && !text.contains('{');
    let is_structure = text.starts_with("typedef struct") && text.contains('{');
    (is_function || is_structure).then_some(text)
}

#[test]
fn the_header_declares_what_is_exported() {
    let config = Config {
        language: Language::C,
        style: Style::Both,
        no_includes: true,
        usize_is_size_t: true,
        documentation: false,
        export: ExportConfig {
            rename: [("Comm".to_owned(), "topo_comm".to_owned())].into(),
            ..ExportConfig::default()
        },
        ..Config::default()
    };
    let mut builder = Builder::new().with_config(config);
    for file in ["ffi", "transfers", "on_streams", "last", "options"] {
        builder = builder.with_src(here().join(format!("src/{file}.rs")));
    }
    let mut exported = Vec::new();
    builder.generate().unwrap().write(&mut exported);
    let exported = String::from_utf8(exported).unwrap();
    // As C has it: no `struct` before names of types, and a word that is none in Rust.
    let names = [
        ("struct topo_comm", "topo_comm"),
        ("int element", "topo_type type"),
        ("int collective", "topo_collective collective"),
        ("int operation", "topo_operation operation"),
        ("int result", "topo_result result"),
        ("ID_BYTES", "256"),
    ];
    let exported = names
        .iter()
        .fold(exported, |text, (rust, c)| text.replace(rust, c));
    let arguments = ["const struct ", "(struct ", ", struct "];
    let exported = arguments.iter().fold(exported, |text, before| {
        text.replace(before, &before.replace("struct ", ""))
    });
    let (found, expected) = (declarations(&header()), declarations(&exported));
    let missing: Vec<_> = expected.difference(&found).collect();
    let unknown: Vec<_> = found.difference(&expected).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "exported, not declared so: {missing:#?}\ndeclared, not exported so: {unknown:#?}"
    );
    assert!(found.len() > 20, "{found:?}");
}

#[test]
fn the_numbers_of_the_header_are_those_of_the_runtime() {
    let header = header();
    for element in ElementType::ALL {
        let name = element.name().to_uppercase();
        let line = format!("TOPO_{name} = {}", element as i32);
        assert!(header.contains(&line), "{line}");
    }
    for (name, operation) in [
        ("SUM", Reduction::Sum),
        ("PRODUCT", Reduction::Product),
        ("MINIMUM", Reduction::Minimum),
        ("MAXIMUM", Reduction::Maximum),
        ("AVERAGE", Reduction::Average),
        ("BIT_AND", Reduction::BitAnd),
        ("BIT_OR", Reduction::BitOr),
        ("BIT_XOR", Reduction::BitXor),
    ] {
        let number = topo_c::numbers::number_of(operation).unwrap();
        let line = format!("TOPO_{name} = {number}");
        assert!(header.contains(&line), "{line}");
    }
}
