//! A client of NCCL's RAS: lines over TCP, as `ncclras` speaks them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take. RAS waits 5 s for ranks that do not answer.
const DEADLINE: Duration = Duration::from_secs(30);

/// Longest answer that is read, bytes.
const MOST_BYTES: u64 = 4 << 20;

/// The form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As `ncclras -v` prints it.
    Text,
    /// As `ncclras -v -f json` prints it, since NCCL 2.28.
    Json,
}

/// Asks for a report. Returns `None` if RAS does not know the form.
///
/// # Errors
/// Nobody answers.
pub fn ask(address: SocketAddr, form: Form) -> std::io::Result<Option<String>> {
    let stream = TcpStream::connect_timeout(&address, DEADLINE)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))?;
    let mut lines = BufReader::new(stream.try_clone()?.take(MOST_BYTES));
    let mut stream = stream;
    let mut ask = |question: &str| -> std::io::Result<String> {
        writeln!(stream, "{question}")?;
        let mut line = String::new();
        lines.read_line(&mut line)?;
        Ok(line)
    };
    ask("CLIENT PROTOCOL 2")?;
    if form == Form::Json && ask("SET FORMAT json")?.trim() != "OK" {
        return Ok(None);
    }
    let mut text = ask("VERBOSE STATUS")?;
    lines.read_to_string(&mut text)?;
    Ok(Some(text))
}
