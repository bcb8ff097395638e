//! Ranks that are joined by a net plug-in. It is compiled here, uses the loopback interface, and
//! checks that it is called as the interface requires.

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Completion, Failed};
use tempfile::TempDir;
use testkit::network::loopback;

use super::{Ranks, SHORT, Said, all_right, all_say, check, meet, not_run};

/// A folder with a plug-in, in which the ranks meet.
struct Place {
    folder: TempDir,
    plugin: PathBuf,
}

impl Place {
    /// Returns `None` without a compiler.
    fn new(version: u32) -> Result<Option<Self>, Failed> {
        if !loopback::can_compile() {
            return Ok(None);
        }
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("libnccl-net-loopback.so");
        let plugin = loopback::compile(version, "", &[], &file).map_err(|it| it.to_string())?;
        Ok(Some(Self { folder, plugin }))
    }

    fn plugin(&self) -> String {
        self.plugin.display().to_string()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Adds a rank's arguments and variables.
    fn tell(&self, rank: u32, world: u32, command: &mut Command) {
        let meeting = format!("file:{}", self.path("meeting").display());
        command.env("TOPO_LOOPBACK_REPORT", self.path("report"));
        meet(command, rank, world, &meeting);
    }

    /// Runs ranks with the plug-in, two on each host; `make` completes each command.
    fn run(&self, world: u32, make: impl Fn(u32, &mut Command)) -> Result<Vec<Said>, Failed> {
        let ranks = Ranks::start(world, |rank, command| {
            command.env("NCCL_NET_PLUGIN", &self.plugin);
            make(rank, command);
            self.tell(rank, world, command);
        });
        ranks?.finish()
    }

    /// The report of the plug-in about its calls, one line for each process.
    fn report(&self) -> Result<Vec<String>, Failed> {
        let text = std::fs::read_to_string(self.path("report"))?;
        Ok(text.lines().map(str::to_owned).collect())
    }
}

const NO_COMPILER: &str = "there is no C compiler";

fn runs(version: u32) -> Result<Completion, Failed> {
    let Some(place) = Place::new(version)? else {
        return not_run(NO_COMPILER);
    };
    let said = place.run(4, |_, command| {
        command.args(SHORT);
        if version == 12 {
            command.arg("--checksums");
        }
    })?;
    let head = [
        "SHM for 1, NET for 2, Loopback by loop0, loop1".to_owned(),
        format!("Loopback, ABI v{version}, {}", place.plugin()),
    ];
    for words in head {
        check(said[0].out.contains(&words), || said[0].out.clone())?;
    }
    all_right(&said)?;
    let report = place.report()?;
    check(report.len() == 4, || format!("{report:?}"))?;
    let mut received = 0;
    for line in report {
        let well = line.starts_with(&format!("v{version}: 1 inits"))
            && line.contains("open: 0 listening, 0 sending, 0 receiving, 0 registered, 0 requests")
            && line.ends_with("0 violations")
            && (version < 11 || line.contains("1 finalizes"));
        check(well, || line.clone())?;
        received += u32::from(!line.contains(" 0 receives"));
    }
    check(received > 0, || "nothing went through it".to_owned())?;
    Ok(Completion::Completed)
}

pub(crate) fn version_8() -> Result<Completion, Failed> {
    runs(8)
}

pub(crate) fn version_9() -> Result<Completion, Failed> {
    runs(9)
}

pub(crate) fn version_10() -> Result<Completion, Failed> {
    runs(10)
}

pub(crate) fn version_11() -> Result<Completion, Failed> {
    runs(11)
}

pub(crate) fn version_12() -> Result<Completion, Failed> {
    runs(12)
}

pub(crate) fn every_protocol_and_json() -> Result<Completion, Failed> {
    let Some(place) = Place::new(9)? else {
        return not_run(NO_COMPILER);
    };
    for protocol in ["ll", "ll128", "simple"] {
        let plugin = place.plugin();
        let said = place.run(2, |rank, command| {
            // The command line overrides the variable.
            command.env("NCCL_NET_PLUGIN", "none");
            command.env("NCCL_HOSTID", format!("host{rank}"));
            command.args(["all-to-all", "-b", "4K", "-e", "4M", "-f", "32", "-n", "2"]);
            command.args(["--protocol", protocol, "--channels", "2", "--json"]);
            command.args(["--net-plugin", &plugin]);
        })?;
        for it in &said {
            check(it.status == Some(0), || it.err.clone())?;
        }
        let value: serde_json::Value = serde_json::from_str(&said[0].out)?;
        let net = &value["net"];
        check(
            net["by"] == "net plug-in"
                && net["name"] == "Loopback"
                && net["abi"] == 9
                && net["library"] == plugin
                && net["devices"][1]["name"] == "loop1"
                && net["devices"][0]["speed_mbps"] == 100_000,
            || net.to_string(),
        )?;
        let wrong = value["rows"].as_array().map(|rows| {
            let all = rows
                .iter()
                .filter_map(|row| row["out_of_place"]["wrong"].as_u64());
            all.collect::<Vec<_>>()
        });
        check(wrong == Some(vec![0, 0, 0]), || said[0].out.clone())?;
    }
    Ok(Completion::Completed)
}

pub(crate) fn the_default_library() -> Result<Completion, Failed> {
    let Some(place) = Place::new(12)? else {
        return not_run(NO_COMPILER);
    };
    std::fs::copy(&place.plugin, place.path("libnccl-net.so"))?;
    let run = |settings: &[(&str, &str)], folder: &Path| {
        place.run(2, |rank, command| {
            command
                .env_remove("NCCL_NET_PLUGIN")
                .env("NCCL_HOSTID", format!("host{rank}"))
                .env("LD_LIBRARY_PATH", folder)
                .envs(settings.iter().copied())
                .args(SHORT);
        })
    };
    let found = run(&[], place.folder.path())?;
    let words = "NET for 1, Loopback by loop0, loop1";
    check(found[0].out.contains(words), || found[0].out.clone())?;
    all_right(&found)?;
    // A plug-in that does not work is not used, and the table says so.
    let broken = run(&[("TOPO_LOOPBACK_INIT", "2")], place.folder.path())?;
    let words = [
        "NET for 1, TCP by lo",
        "TCP instead of a net plug-in",
        "init failed with ncclSystemError",
    ];
    for words in words {
        check(broken[0].out.contains(words), || broken[0].out.clone())?;
    }
    all_right(&broken)?;
    // Without a plug-in, and when sockets are asked for.
    for (settings, folder) in [
        (&[][..], Path::new("/nowhere")),
        (&[("NCCL_NET", "Socket")][..], place.folder.path()),
    ] {
        let none = run(settings, folder)?;
        let well = none[0].out.contains("NET for 1, TCP by lo") && !none[0].out.contains("plug-in");
        check(well, || none[0].out.clone())?;
        all_right(&none)?;
    }
    Ok(Completion::Completed)
}

pub(crate) fn a_plugin_that_does_not_start() -> Result<Completion, Failed> {
    let Some(place) = Place::new(11)? else {
        return not_run(NO_COMPILER);
    };
    let old = place.path("libold.so");
    loopback::compile(7, "", &[], &old).map_err(|it| it.to_string())?;
    let old = old.display().to_string();
    for (name, value, words) in [
        (
            "TOPO_LOOPBACK_INIT",
            "2",
            "init failed with ncclSystemError (2), saying: loopback: INIT fails as asked",
        ),
        ("TOPO_LOOPBACK_DEVICES", "0", "devices gives no devices"),
        ("NCCL_NET_PLUGIN", &old, "ABI v8 and newer"),
        (
            "NCCL_NET_PLUGIN",
            "nowhere",
            "the net plug-in nowhere cannot be opened",
        ),
    ] {
        // On one rank only; all ranks report it.
        let said = place.run(2, |rank, command| {
            command
                .env("NCCL_HOSTID", format!("host{rank}"))
                .args(SHORT);
            if rank == 1 {
                command.env(name, value);
            }
        })?;
        all_say(&said, &[], &["rank 1, process", words])?;
    }
    Ok(Completion::Completed)
}

/// One rank's plug-in hangs: all ranks report it, and its process ends.
pub(crate) fn a_plugin_that_hangs() -> Result<Completion, Failed> {
    let Some(place) = Place::new(12)? else {
        return not_run(NO_COMPILER);
    };
    for name in ["TOPO_LOOPBACK_INIT", "TOPO_LOOPBACK_DEVICES_CALL"] {
        let said = place.run(2, |rank, command| {
            command
                .env("NCCL_HOSTID", format!("host{rank}"))
                .args(SHORT)
                .args(["--join-timeout", "10"]);
            if rank == 1 {
                command.env(name, "hang");
            }
        })?;
        let hangs = format!("the net plug-in {} does not start: ", place.plugin());
        let late = "it did not return within 5 s";
        all_say(&said, &[], &["rank 1, process", &hangs, late])?;
    }
    Ok(Completion::Completed)
}

pub(crate) fn ranks_that_disagree() -> Result<Completion, Failed> {
    let Some(place) = Place::new(9)? else {
        return not_run(NO_COMPILER);
    };
    let newer = place.path("libnewer.so");
    loopback::compile(12, "", &[], &newer).map_err(|it| it.to_string())?;
    let newer = newer.display().to_string();
    for (other, words) in [
        ("none", "has none; give all hosts the same one"),
        (&newer, "has Loopback (ABI v12"),
    ] {
        let said = place.run(2, |rank, command| {
            command
                .env("NCCL_HOSTID", format!("host{rank}"))
                .args(SHORT);
            if rank == 1 {
                command.env("NCCL_NET_PLUGIN", other);
            }
        })?;
        let first = "rank 0, process";
        all_say(
            &said,
            &[],
            &[
                first,
                "has the net plug-in Loopback (ABI v9",
                words,
                "rank 1, process",
            ],
        )?;
    }
    for line in place.report()? {
        check(line.contains("0 listens, 0 connects"), || line.clone())?;
    }
    Ok(Completion::Completed)
}

pub(crate) fn a_failure_in_the_middle() -> Result<Completion, Failed> {
    let Some(place) = Place::new(10)? else {
        return not_run(NO_COMPILER);
    };
    for (name, value, words) in [
        (
            "TOPO_LOOPBACK_TEST",
            "6:400",
            "test failed with ncclRemoteError (6)",
        ),
        (
            "TOPO_LOOPBACK_ISEND",
            "2:20",
            "isend failed with ncclSystemError (2)",
        ),
        (
            "TOPO_LOOPBACK_REGMR",
            "3",
            "regMr failed with ncclInternalError (3)",
        ),
        (
            "TOPO_LOOPBACK_LISTEN",
            "2",
            "listen failed with ncclSystemError (2)",
        ),
    ] {
        let said = place.run(2, |rank, command| {
            command.env("NCCL_HOSTID", format!("host{rank}"));
            command.args(["all-reduce", "-b", "256K", "-e", "256K", "-n", "100000"]);
            if rank == 1 {
                command.env(name, value);
            }
        })?;
        let connection = "the connection from rank";
        all_say(
            &said,
            &[],
            &[words, connection, "(net plug-in ABI v10)", "rank"],
        )?;
    }
    Ok(Completion::Completed)
}

pub(crate) fn messages_that_never_come() -> Result<Completion, Failed> {
    let Some(place) = Place::new(8)? else {
        return not_run(NO_COMPILER);
    };
    let said = place.run(2, |rank, command| {
        command.env("NCCL_HOSTID", format!("host{rank}"));
        command.args([
            "all-reduce",
            "-b",
            "256K",
            "-e",
            "256K",
            "-n",
            "100000",
            "--timeout",
            "3",
        ]);
        if rank == 1 {
            command.env("TOPO_LOOPBACK_STALL", "50");
        }
    })?;
    all_say(&said, &[], &["rank"])?;
    // Requests were abandoned, and everything was closed.
    for line in place.report()? {
        let well =
            line.contains("0 sending, 0 receiving, 0 registered") && line.ends_with("0 violations");
        check(well, || line.clone())?;
    }
    Ok(Completion::Completed)
}

pub(crate) fn a_killed_rank_and_those_that_are_left() -> Result<Completion, Failed> {
    let Some(place) = Place::new(12)? else {
        return not_run(NO_COMPILER);
    };
    for survive in [false, true] {
        let said = place.run(3, |rank, command| {
            command.env("NCCL_HOSTID", format!("host{rank}"));
            command.args(["all-reduce", "-b", "64K", "-e", "64K", "-n", "200"]);
            if survive {
                command.arg("--survive");
            }
            if rank == 2 {
                command.env("TOPO_LOOPBACK_KILL", "20");
            }
        })?;
        check(said[2].status.is_none(), || {
            "rank 2 was not killed".to_owned()
        })?;
        if !survive {
            all_say(&said, &[2], &["rank 2: process"])?;
            continue;
        }
        for (rank, it) in said[..2].iter().enumerate() {
            check(it.status == Some(0), || format!("rank {rank}: {}", it.err))?;
        }
        for words in [
            "all-reduce of 2 processes",
            "Loopback by loop0, loop1",
            "rank 2: ",
            "every element is right",
        ] {
            check(said[0].out.contains(words), || said[0].out.clone())?;
        }
    }
    Ok(Completion::Completed)
}
