//! Builds the page that plans in the browser: one file with the planner as WebAssembly inside.

use std::fs;
use std::io::Write;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

use xtask::workspace::{cargo, repository, target, web};

/// The target of the planner.
const TARGET: &str = "wasm32-unknown-unknown";

/// The standard library is compiled for size, too, which the stable compiler can do but does not
/// promise.
const STANDARD_LIBRARY: [&str; 2] = [
    "-Zbuild-std=std,panic_abort",
    "-Zbuild-std-features=optimize_for_size",
];

/// A panic stops the module without a message, which nobody would see there.
const FLAGS: &str = "-Zunstable-options -Cpanic=immediate-abort -Zlocation-detail=none";

/// The page's scripts in reading order.
const SCRIPTS: [&str; 8] = [
    "parts.js",
    "hosts.js",
    "picture.js",
    "plot.js",
    "waits.js",
    "views.js",
    "share.js",
    "script.js",
];

/// Most bytes of the page.
const MOST_BYTES: usize = 1_950_000;

/// The best level of zstd.
const LEVEL: i32 = 22;

/// Builds the page.
///
/// # Errors
/// The source of the compiler's library is missing, the planner does not build, or the page is too
/// long.
pub(crate) fn run() -> Result<ExitCode> {
    let installed = Command::new("rustup")
        .args(["component", "list", "--installed"])
        .output();
    let source = "rust-src";
    if !installed.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains(source)) {
        bail!(
            "there is no source of the compiler's library; install it with: rustup component add \
             {source}"
        );
    }
    // As a library of Rust, too, it would be linked without optimization across crates.
    for part in [
        &["rustc", "--lib", "--crate-type", "cdylib"][..],
        &["build", "--example", "unpack"],
    ] {
        let built = cargo()
            .args(part)
            .args(["--quiet", "--locked", "-p", "web", "--profile", "web"])
            .args(["--target", TARGET])
            .args(STANDARD_LIBRARY)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS", FLAGS)
            .status()
            .context("cannot start cargo")?;
        ensure!(built.success(), "the planner did not build for {TARGET}");
    }
    let code = |name: &str| {
        let path = target().join(TARGET).join("web").join(name);
        fs::read(&path).with_context(|| path.display().to_string())
    };
    let unpacker = gzip(&code("examples/unpack.wasm")?)?;
    let code = code("web.wasm")?;
    let module = packed(&code)?;
    let folder = repository().join("crates/web/page");
    let part = |name: &str| {
        let path = folder.join(name);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok::<_, anyhow::Error>(short(&text))
    };
    let style = format!(
        "{}{}{}",
        pages::draw::svg::STYLE,
        pages::draw::html::PAGE,
        part("style.css")?
    );
    let unpack = part("unpack.js")?;
    let worker = serde_json::to_string(&part("worker.js")?)?;
    let mut scripts = String::new();
    for name in SCRIPTS {
        scripts.push_str(&part(name)?);
    }
    let page = part("index.html")?
        .replace("/*STYLE*/", &style)
        .replace("/*UNPACK*/", &unpack)
        .replace("/*WORKER*/", &worker)
        .replace("/*PLANNER*/", &part("planner.js")?)
        .replace("/*SCRIPTS*/", &gzip(scripts.as_bytes())?)
        .replace("/*UNPACKER*/", &unpacker)
        .replace("/*MODULE*/", &module);
    let page = with_hashes(&page)?;
    ensure!(
        page.len() <= MOST_BYTES,
        "the page has {} bytes; expected at most {MOST_BYTES}",
        page.len()
    );
    fs::create_dir_all(web())?;
    let path = web().join("topo.html");
    files::write(&path, page.as_bytes()).with_context(|| path.display().to_string())?;
    println!(
        "{}: {} KB; the planner in it {} KB, packed {} KB",
        path.display(),
        page.len() / 1000,
        code.len() / 1000,
        module.len() / 1000
    );
    Ok(ExitCode::SUCCESS)
}

/// The page with the hashes of its only script and style in its policy, which lets no other one in
/// that is written into the page.
fn with_hashes(page: &str) -> Result<String> {
    let hash = |tag: &str| {
        let (_, behind) = page
            .split_once(&format!("<{tag}>"))
            .context("no such part")?;
        let (text, _) = behind
            .split_once(&format!("</{tag}>"))
            .context("no end of it")?;
        let hash = STANDARD.encode(Sha256::digest(text));
        anyhow::Ok(format!("sha256-{hash}"))
    };
    let (script, style) = (hash("script")?, hash("style")?);
    let page = page.replacen("/*HASH*/", &script, 1);
    Ok(page.replacen("/*STYLEHASH*/", &style, 1))
}

/// A script, style or page without the lines of comments, and without indentation: none has texts
/// of several lines.
fn short(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|it| !it.is_empty() && !it.starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Content as text for `unpack.js`.
fn gzip(content: &[u8]) -> Result<String> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(content)?;
    Ok(STANDARD.encode(packer.finish()?))
}

/// Content as text for `crates/web/examples/unpack.rs`.
fn packed(content: &[u8]) -> Result<String> {
    let mut packed = u32::try_from(content.len())?.to_le_bytes().to_vec();
    packed.extend(zstd::bulk::compress(content, LEVEL)?);
    Ok(base_125(&packed))
}

/// Bytes as text of ASCII, without what HTML changes: seven characters for six bytes.
fn base_125(bytes: &[u8]) -> String {
    let excess = bytes.len().next_multiple_of(6) - bytes.len();
    let mut text = excess.to_string();
    for part in bytes.chunks(6) {
        let mut number = [0; 8];
        number[2..][..part.len()].copy_from_slice(part);
        let number = u64::from_be_bytes(number);
        text.extend((0..7).rev().map(|place| {
            let mut code = (number / 125_u64.pow(place) % 125) as u8 + 1;
            code += u8::from(code >= b'\r');
            char::from(code + u8::from(code >= b'<'))
        }));
    }
    text
}
