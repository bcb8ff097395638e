//! The files of a log: plain, compressed, or standard input.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};
use files::Stream;
use nccl_log::Collector;

use crate::output::Output;
use crate::progress::Progress;

/// Bytes that are read at once.
const PIECE: usize = 256 << 10;

/// The first bytes of a file that gzip wrote, and of one that zstd wrote.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Reads one file into the collector.
pub fn read(
    file: &Path,
    collector: &mut Collector,
    progress: &Progress,
    output: &mut Output,
) -> Result<()> {
    let is_input = file == Path::new("-");
    let label = match is_input {
        true => "standard input".to_owned(),
        false => file.display().to_string(),
    };
    let stream = match is_input {
        true => Stream::standard_input(),
        false => Stream::open(file),
    };
    let stream = stream.with_context(|| format!("cannot read {label}"))?;
    let size = stream.size();
    let mut stream = BufReader::with_capacity(PIECE, stream);
    let first = stream
        .fill_buf()
        .with_context(|| format!("cannot read {label}"))?;
    let show = |read: u64| {
        progress.set(match size {
            Some(all) => format!("reading {label}: {} of {} MB", read >> 20, all >> 20),
            None => format!("reading {label}: {} MB", read >> 20),
        });
    };
    if first.starts_with(&ZSTD) {
        bail!(
            "{label} is compressed with zstd; expected plain text or gzip: `zstdcat {label} | topo log -`"
        );
    }
    if !first.starts_with(&GZIP) {
        let read = collector.read(&label, stream, show);
        return read.with_context(|| format!("cannot read {label}"));
    }
    let show = |read: u64| progress.set(format!("reading {label}: {} MB of text", read >> 20));
    let mut gzip = Gzip::start(stream, &label)?;
    let text = gzip.text()?;
    let read = collector.read(&label, BufReader::with_capacity(PIECE, text), show);
    read.with_context(|| format!("cannot read {label}"))?;
    if let Some(why) = gzip.finish() {
        output.warnings.push(format!(
            "{label}: {why}; what was read until there is shown"
        ));
    }
    Ok(())
}

/// The program gzip, which decompresses a stream.
struct Gzip {
    process: Child,
    feeder: Option<thread::JoinHandle<()>>,
}

impl Gzip {
    fn start(mut stream: impl Read + Send + 'static, label: &str) -> Result<Self> {
        let process = Command::new("gzip")
            .arg("-dc")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut process = process.with_context(|| {
            format!("{label} is compressed, and the program gzip cannot be started; decompress the file first")
        })?;
        let input = process.stdin.take();
        let feeder = thread::spawn(move || {
            if let Some(mut input) = input {
                // gzip ends early when the file is damaged, and says so.
                let _ = std::io::copy(&mut stream, &mut input);
                let _ = input.flush();
            }
        });
        Ok(Self {
            process,
            feeder: Some(feeder),
        })
    }

    fn text(&mut self) -> Result<impl Read + use<>> {
        let text = self.process.stdout.take();
        text.context("gzip has no output")
    }

    /// Returns why the file could not be decompressed to its end.
    fn finish(mut self) -> Option<String> {
        let mut said = String::new();
        if let Some(errors) = self.process.stderr.take() {
            // A message that cannot be read is replaced below.
            let _ = errors.take(4096).read_to_string(&mut said);
        }
        let ended = self.process.wait();
        if let Some(feeder) = self.feeder.take() {
            let _ = feeder.join();
        }
        if ended.is_ok_and(|status| status.success()) {
            return None;
        }
        let line = said.lines().map(str::trim).find(|line| !line.is_empty());
        let line = line.map(|line| line.trim_start_matches("gzip: stdin: "));
        Some(format!("gzip: {}", line.unwrap_or("the file is damaged")))
    }
}

impl Drop for Gzip {
    fn drop(&mut self) {
        // After an error nobody reads its output.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
