//! Rendezvous files that other users or earlier jobs left.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Failed};

use crate::program::{LONG, Running, Said, is_root, not_run, shell};
use crate::ranks;

/// The user nobody.
const NOBODY: u32 = 65_534;

/// One of two ranks that runs a small job, if it meets the other one within `join_timeout` seconds.
fn rank(rank: u32, join_timeout: u32) -> Command {
    let mut command = shell("exec \"$0\" \"$@\"");
    command.args(["run", "all-reduce", "-b", "8", "-e", "8", "-n", "2"]);
    command.args(["--join-timeout", &join_timeout.to_string()]);
    command.env("OMPI_COMM_WORLD_RANK", rank.to_string());
    command.env("OMPI_COMM_WORLD_SIZE", "2");
    command
}

/// The same, meeting by a file.
fn by_file(number: u32, join_timeout: u32, file: &Path) -> Command {
    let mut command = rank(number, join_timeout);
    command
        .arg("--rendezvous")
        .arg(format!("file:{}", file.display()));
    command
}

/// The same with a launcher that puts all ranks on this host: they meet in the temporary folder.
fn automatic(number: u32, join_timeout: u32, temporary: &Path) -> Command {
    let mut command = rank(number, join_timeout);
    command
        .env("OMPI_COMM_WORLD_LOCAL_SIZE", "2")
        .env("PMIX_NAMESPACE", "job")
        .env("TMPDIR", temporary);
    command
}

/// Rank 0 of another job, which waits for a rank 1, and the id of that job.
fn stranger(folder: &Path) -> (Running, String) {
    let file = folder.join("of-a-stranger");
    let running = Running::start(&mut by_file(0, 40, &file));
    (running, content(&file))
}

/// The content of a file, as soon as it exists.
fn content(file: &Path) -> String {
    let until = Instant::now() + LONG;
    loop {
        match fs::read_to_string(file) {
            Ok(text) => return text,
            Err(_) => assert!(Instant::now() < until, "{} does not come", file.display()),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A folder with the permissions of /tmp.
fn temporary() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    folder
}

fn put(file: &Path, text: &str, mode: u32, owner: Option<u32>) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    chown(file, owner, None).unwrap();
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Checks that all ranks ended well.
#[track_caller]
fn well(said: &[Said]) {
    assert!(said.iter().all(|it| it.status == Some(0)), "{said:?}");
}

fn both(mut make: impl FnMut(u32) -> Command) -> Vec<Said> {
    let ranks: Vec<_> = (0..2)
        .map(|number| Running::start(&mut make(number)))
        .collect();
    ranks.into_iter().map(|it| it.within(LONG)).collect()
}

pub(crate) fn a_rank_does_not_join_the_job_of_another_user() -> Result<Completion, Failed> {
    if !is_root() {
        return not_run("only root can make files of others");
    }
    let theirs = tempfile::tempdir().unwrap();
    let (_running, id) = stranger(theirs.path());
    // In the temporary folder, under each name that can be guessed.
    let names = [
        ("topo-0-openmpi-job", 0o644),
        ("topo-0-openmpi-job", 0o600),
        ("topo-0/openmpi-job", 0o600),
    ];
    let guessed = names.map(|(name, mode)| {
        let temporary = temporary();
        put(&temporary.path().join(name), &id, mode, Some(NOBODY));
        if name.contains('/') {
            chown(temporary.path().join("topo-0"), Some(NOBODY), None).unwrap();
        }
        let running = Running::start(&mut automatic(1, 3, temporary.path()));
        (temporary, name, running)
    });
    // And in the file that the rank was given.
    let temporary = temporary();
    let file = temporary.path().join("meeting");
    put(&file, &id, 0o600, Some(NOBODY));
    let named = Running::start(&mut by_file(1, 3, &file));
    for (_temporary, name, running) in guessed {
        let said = running.within(LONG);
        said.refused(&["rank 1", "topo-0"]);
        if name.contains('/') {
            said.refused(&["user 65534"]);
        }
    }
    let file = file.display().to_string();
    named.within(LONG).refused(&["rank 1", &file, "user 65534"]);
    Ok(Completion::Completed)
}

pub(crate) fn a_file_that_others_can_write_is_not_believed() {
    let theirs = tempfile::tempdir().unwrap();
    let (_running, id) = stranger(theirs.path());
    let temporary = temporary();
    let started = [0o644, 0o660, 0o602].map(|mode| {
        let file = temporary.path().join(format!("meeting-{mode:o}"));
        put(&file, &id, mode, None);
        let running = Running::start(&mut by_file(1, 2, &file));
        (file, running)
    });
    for (file, running) in started {
        let file = file.display().to_string();
        running
            .within(LONG)
            .refused(&["rank 1", &file, "other users"]);
    }
    // A folder in which others can create files.
    let folder = temporary.path().join(format!("topo-{}", uid()));
    put(&folder.join("openmpi-job"), &id, 0o600, None);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let said = Running::start(&mut automatic(1, 3, temporary.path())).within(LONG);
    said.refused(&[&folder.display().to_string(), "other users"]);
    // Or a link to one.
    let own = tempfile::tempdir().unwrap();
    put(&own.path().join("openmpi-job"), &id, 0o600, None);
    fs::remove_dir_all(&folder).unwrap();
    symlink(own.path(), &folder).unwrap();
    let said = Running::start(&mut automatic(1, 3, temporary.path())).within(LONG);
    said.refused(&[&folder.display().to_string(), "link"]);
}

pub(crate) fn what_is_no_file_is_given_up_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    assert!(
        Command::new("mkfifo")
            .args(["-m", "600"])
            .arg(at("fifo"))
            .status()
            .unwrap()
            .success()
    );
    let _listener = UnixListener::bind(at("socket")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    symlink("/dev/zero", at("link")).unwrap();
    put(&at("huge"), &"x".repeat(1 << 20), 0o600, None);
    put(&at("garbage"), "garbage", 0o600, None);
    put(&at("empty"), "", 0o600, None);
    let cases = [
        (at("fifo"), "FIFO"),
        (at("socket"), "socket"),
        (at("folder"), "folder"),
        (at("link"), "link"),
        (at("huge"), "bytes"),
        (at("garbage"), "topo1-"),
        (at("empty"), "topo1-"),
        (at("missing"), "no such file"),
        (at("missing/file"), "No such file"),
        ("/dev/zero".into(), "device"),
    ];
    let started = cases.map(|(file, words)| {
        let running = Running::start(&mut by_file(1, 2, &file));
        (file, words, running)
    });
    for (file, words, running) in started {
        let said = running.within(LONG);
        said.refused(&["rank 1", &file.display().to_string(), words]);
        assert!(said.took < Duration::from_secs(8), "{said:?}");
    }
    // Rank 0 cannot write there, and reports it at once.
    let said = Running::start(&mut by_file(0, 30, &at("folder"))).within(LONG);
    said.refused(&["cannot write the rendezvous file", "folder"]);
    let said = Running::start(&mut by_file(0, 30, &at("missing/file"))).within(LONG);
    said.refused(&["cannot write the rendezvous file", "missing"]);
}

pub(crate) fn ranks_of_one_host_meet_in_a_folder_of_their_user() {
    let temporary = temporary();
    // A folder, a missing one, one that others can write to, and a file.
    let runtime = tempfile::tempdir().unwrap();
    fs::set_permissions(runtime.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let open = tempfile::tempdir().unwrap();
    fs::set_permissions(open.path(), fs::Permissions::from_mode(0o777)).unwrap();
    for place in [
        Some(runtime.path()),
        None,
        Some(Path::new("/nowhere/at/all")),
        Some(open.path()),
        Some(Path::new("/dev/null")),
    ] {
        well(&both(|number| {
            let mut command = automatic(number, 40, temporary.path());
            if let Some(place) = place {
                command.env("XDG_RUNTIME_DIR", place);
            }
            command
        }));
        let folder = temporary.path().join(format!("topo-{}", uid()));
        if place == Some(runtime.path()) {
            assert!(!folder.exists());
            continue;
        }
        let mode = fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
    assert_eq!(fs::read_dir(open.path()).unwrap().count(), 0);
}

/// The file of an earlier job names a port at which another job listens now.
pub(crate) fn a_file_of_an_earlier_job_is_waited_out() {
    let folder = tempfile::tempdir().unwrap();
    let (stranger, id) = stranger(folder.path());
    let address = id.trim().split_once('@').unwrap().1;
    let file = folder.path().join("meeting");
    let left = format!("topo1-{}@{address}\n", "ab".repeat(32));
    put(&file, &left, 0o600, None);
    let second = Running::start(&mut by_file(1, 40, &file));
    // Time to ask the other job. The attempt leaves no trace to wait for; if it comes later, the
    // ranks meet as well.
    std::thread::sleep(Duration::from_millis(1500));
    let first = Running::start(&mut by_file(0, 40, &file));
    well(&[first.within(LONG), second.within(LONG)]);
    // Without a rank 0 the error names the true reason.
    put(&file, &left, 0o600, None);
    let said = Running::start(&mut by_file(1, 2, &file)).within(LONG);
    said.refused(&[
        "rank 1",
        &file.display().to_string(),
        "another token",
        address,
    ]);
    // The other job was not disturbed.
    let theirs = folder.path().join("of-a-stranger");
    well(&[
        Running::start(&mut by_file(1, 40, &theirs)).within(LONG),
        stranger.within(LONG),
    ]);
}

/// While rank 2 is missing, rank 1 is killed and started again.
pub(crate) fn a_rank_may_be_started_again_while_others_are_missing() {
    let root = ranks::address();
    let id = ranks::id(root);
    let start = |number| {
        let mut command = ranks::rank(number, 3);
        command.args(["all-reduce", "-b", "8", "-e", "8", "-n", "2"]);
        Running::start(command.env("TOPO_ID", &id))
    };
    let first = start(0);
    let killed = start(1);
    ranks::until("rank 1 is connected to the root", || {
        let sockets = ranks::sockets(killed.id());
        sockets.iter().any(|it| it.remote == root)
    });
    assert_eq!(killed.end().signal, Some(9));
    let others = [start(1), start(2), first];
    well(&others.map(|it| it.within(LONG)));
}

/// A program that never answers listens at the port.
pub(crate) fn a_port_of_another_program_is_waited_out() {
    let folder = tempfile::tempdir().unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let file = folder.path().join("meeting");
    let address = silent.local_addr().unwrap();
    let left = format!("topo1-{}@{address}\n", "ab".repeat(32));
    put(&file, &left, 0o600, None);
    let second = Running::start(&mut by_file(1, 40, &file));
    ranks::until("rank 1 is connected to the other program", || {
        let sockets = ranks::sockets(second.id());
        sockets.iter().any(|it| it.remote == address)
    });
    let first = Running::start(&mut by_file(0, 40, &file));
    well(&[first.within(LONG), second.within(LONG)]);
}
