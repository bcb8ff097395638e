//! Tokens and secrets: who can see or guess them.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bootstrap::machine::Ending;
use bootstrap::socket::blocking::Connection;
use bootstrap::{Key, Kind, LinkError};

use super::program::{LONG, Said};
use super::ranks::{Ranks, address, id, listens, rank, topo, until};

const SECRET: &str = "3f9c0a77d1b84e62";

fn all_reduce(command: &mut Command) -> &mut Command {
    command.args(["all-reduce", "-b", "8", "-e", "8", "-n", "1"])
}

fn text(file: &Path) -> String {
    file.display().to_string()
}

/// Runs two ranks with `--id`.
fn joined_by(id: &str) -> Vec<Said> {
    let start = |number: u32| {
        let mut command = rank(number, 2);
        all_reduce(command.args(["--id", id]));
        command
    };
    Ranks::start((0..2).map(start)).finish()
}

pub(crate) fn an_id_in_a_file_is_for_its_owner_and_shows_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("id");
    let mut command = topo();
    command
        .args(["run", "--new-id", &address().to_string(), "-o"])
        .arg(&file);
    let made = command.output().unwrap();
    assert!(made.status.success() && made.stdout.is_empty(), "{made:?}");
    let id = fs::read_to_string(&file).unwrap();
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(id.starts_with("topo1-"), "{id}");
    for said in joined_by(&format!("@{}", text(&file))) {
        assert_eq!(said.status, Some(0), "{}", said.err);
        assert!(!said.err.contains("--id"), "{}", said.err);
    }
}

pub(crate) fn an_id_on_the_command_line_is_warned_of() {
    let said = joined_by(&id(address()));
    assert_eq!(said[0].status, Some(0), "{}", said[0].err);
    assert!(said[0].err.contains("--id @FILE"), "{}", said[0].err);
}

/// Rank 0 with a secret, waiting at an address.
fn waits(root: SocketAddr, secret: &str) -> Command {
    let mut command = rank(0, 2);
    command.env("TOPO_SECRET", secret);
    command.args([
        "--rendezvous",
        &format!("tcp:{root}"),
        "--join-timeout",
        "30",
    ]);
    all_reduce(&mut command);
    command
}

pub(crate) fn a_key_that_costs_nothing_to_make_of_the_secret_is_another_one() {
    let root = address();
    let ranks = Ranks::start([waits(root, SECRET)]);
    until("rank 0 listens", || {
        listens(ranks.0[0].id()).contains(&root)
    });
    let key = Key::of_secret(format!("\n{SECRET}").as_bytes());
    let opened = Connection::open(root, &key, Kind::Root, LONG);
    let wrong = matches!(opened, Err(Ending::Distrusted(LinkError::WrongToken)));
    assert!(wrong, "{opened:?}");
}

pub(crate) fn ranks_with_one_secret_meet() {
    let root = address();
    let start = |number: u32| {
        let mut command = rank(number, 2);
        command.env("TOPO_SECRET", SECRET);
        command.args(["--rendezvous", &format!("tcp:{root}")]);
        all_reduce(&mut command);
        command
    };
    for said in Ranks::start((0..2).map(start)).finish() {
        assert_eq!(said.status, Some(0), "{}", said.err);
    }
}

/// The first message of a listener is equally long in versions 1 and 2.
pub(crate) fn a_root_of_another_version_is_named() {
    let root = address();
    let listener = TcpListener::bind(root).unwrap();
    let mut command = rank(1, 2);
    command.env("TOPO_ID", id(root));
    all_reduce(&mut command);
    let ranks = Ranks::start([command]);
    let (mut stream, _) = listener.accept().unwrap();
    let mut hello = [0; 48];
    stream.read_exact(&mut hello).unwrap();
    assert_eq!(&hello[..12], b"topo\0bs\x01\x02\0\0\0");
    stream.write_all(&[0xa5; 64]).unwrap();
    let said = ranks.finish();
    let named = said[0].err.contains("version 2") && said[0].err.contains("same version of topo");
    assert!(said[0].status == Some(2) && named, "{}", said[0].err);
}

/// When the root times out, it names a rank of version 1 and a rank with another token.
pub(crate) fn a_rank_that_was_turned_away_is_named_by_the_root() {
    for (version, words) in [(1_u32, "speaks version 1"), (2, "has another token")] {
        let root = address();
        let mut command = rank(0, 2);
        command
            .env("TOPO_ID", id(root))
            .args(["--join-timeout", "5"]);
        all_reduce(&mut command);
        let ranks = Ranks::start([command]);
        // It listens for a short time, which a look at its sockets may miss on a busy machine.
        let mut connected = None;
        until("rank 0 listens", || {
            connected = TcpStream::connect(root).ok();
            connected.is_some()
        });
        let mut stream = connected.unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let mut said = b"topo\0bs\x01".to_vec();
        said.extend(version.to_le_bytes());
        // And as many bytes as a proof has.
        said.resize(48 + 32, 0);
        stream.write_all(&said).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.starts_with(b"topo\0bs\x01\x02\0\0\0"), "{answer:?}");
        let said = ranks.finish();
        let named = said[0].err.contains("rank 1: it did not come within 5 s")
            && said[0].err.contains("127.0.0.1")
            && said[0].err.contains(words);
        assert!(said[0].status == Some(2) && named, "{}", said[0].err);
    }
}
