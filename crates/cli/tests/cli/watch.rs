//! `topo watch` beside a made-up RAS.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use super::{FAILED, topo};

/// What is asked of RAS: only questions that change nothing.
const ASKED: [&str; 3] = ["CLIENT PROTOCOL 2", "SET FORMAT json", "VERBOSE STATUS"];

/// Answers as many questions as there are answers, then refuses; `None` never answers.
fn serve(answers: Vec<Option<String>>) -> (SocketAddr, thread::JoinHandle<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let mut silent = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            for asked in ASKED {
                assert_eq!(lines.next().unwrap().unwrap(), asked);
            }
            match answer {
                Some(answer) => stream.write_all(answer.as_bytes()).unwrap(),
                None => silent.push(stream),
            }
        }
    });
    (address, server)
}

/// Processes that no system has: beyond the most that Linux gives.
const PROCESSES: u64 = 5_000_000;

/// An answer with the all-reduces of each rank, on a host with an odd name.
fn counts(counts: [u64; 3]) -> Option<String> {
    counts_of(PROCESSES, counts)
}

/// The same with the process of rank 0; the others have the next numbers.
fn counts_of(process: u64, counts: [u64; 3]) -> Option<String> {
    let ranks = counts.iter().enumerate().map(|(rank, count)| {
        format!(
            r#"{{"rank": {rank}, "host": "n\"\n1", "pid": {}, "status": {{}},
               "collective_counts": {{"AllReduce": {count}}}}}"#,
            process + rank as u64
        )
    });
    let ranks = ranks.collect::<Vec<_>>().join(",");
    Some(format!(
        "SERVER PROTOCOL 2\nOK\n{{\"communicators_count\": 1, \"communicators\": [{{\"hash\": \"0xa1\", \
         \"size\": 3, \"ranks\": [{ranks}], \"missing_ranks\": []}}]}}\n"
    ))
}

/// A watch of a job that gives these answers, then ends.
fn watched(answers: Vec<Option<String>>, options: &[&str]) -> super::Said {
    let (address, server) = serve(answers);
    let mut command = topo();
    command.args(["watch", &address.to_string()]).args(options);
    let said = super::said(command.output().unwrap());
    server.join().unwrap();
    said
}

/// A file that cannot be written is said, and the watch continues.
#[test]
fn a_folder_that_is_gone() {
    let folder = tempfile::tempdir().unwrap().path().join("gone/topo.prom");
    let answers = (1..4).map(|it| counts([it, it, it]));
    let options = ["--prometheus", folder.to_str().unwrap()];
    let done = watched(answers.collect(), &options);
    assert_eq!(done.status, Some(0), "{} {}", done.out, done.err);
    let told = done.err.matches("gone/topo.prom").count();
    assert_eq!(told, 1, "{}", done.err);
    assert!(done.out.contains("ended; before: moves"), "{}", done.out);
}

/// The process that listens dies, and another one of the job is left.
#[test]
fn a_job_whose_listener_dies() {
    let own = u64::from(std::process::id());
    let answers = (1..4).map(|it| counts_of(own, [it, it, it]));
    let done = watched(answers.collect(), &[]);
    assert_eq!(done.status, Some(3), "{} {}", done.out, done.err);
    let left = format!("processes of the job are left: {own}");
    assert!(done.err.contains(&left), "{}", done.err);
}

#[test]
fn a_job_that_moves_and_ends() {
    let answers = (1..4).map(|it| counts([it, it, it]));
    let answers = answers.chain([Some("ERROR: odd\n".to_owned())]);
    let done = watched(answers.collect(), &[]);
    assert_eq!(done.status, Some(0), "{} {}", done.out, done.err);
    assert!(
        done.out.contains("moves: operations are launched\n"),
        "{}",
        done.out
    );
    assert!(
        done.out
            .ends_with("ended; before: moves: operations are launched\n")
    );
}

/// The word for what is unknown comes once.
#[test]
fn equal_counts_that_do_not_change() {
    let done = watched(vec![counts([9, 9, 9]), None], &["--time-limit", "3"]);
    assert_eq!(done.status, Some(3), "{} {}", done.out, done.err);
    assert!(done.err.starts_with("UNKNOWN: "), "{}", done.err);
    assert!(!done.err.contains("unknown: "), "{}", done.err);
}

#[test]
fn a_rank_that_never_comes() {
    let folder = tempfile::tempdir().unwrap();
    let in_folder = |name: &str| folder.path().join(name);
    let answers = (0..40).map(|it| if it == 3 { None } else { counts([9, 8, 9]) });
    let (address, _server) = serve(answers.collect());
    let said = super::said(
        topo()
            .args([
                "watch",
                "--json",
                "--hang-after",
                "10",
                "--time-limit",
                "16",
            ])
            .arg("--folder")
            .arg(folder.path())
            .arg("--prometheus")
            .arg(in_folder("topo.prom"))
            .args([
                "--hook",
                "echo $TOPO_WATCH_STATE $TOPO_WATCH_FOLDER > $TOPO_WATCH_FOLDER/hook",
            ])
            .arg(address.to_string())
            .output()
            .unwrap(),
    );
    assert_eq!(said.status, Some(1), "{} {}", said.out, said.err);
    let lines: Vec<serde_json::Value> = said
        .out
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    let states: Vec<&str> = lines
        .iter()
        .map(|it| it["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["unknown", "waits", "hang", "hang"]);
    assert_eq!(lines[2]["ranks"][0]["rank"], 1);
    assert_eq!(lines[2]["ranks"][0]["host"], "n\"\n1");
    assert_eq!(lines[2]["verdict"], true);
    assert_eq!(lines[2]["format"], "topo-watch");
    let hook = fs::read_to_string(in_folder("hook")).unwrap();
    assert_eq!(hook, format!("hang {}\n", folder.path().display()));
    let metrics = fs::read_to_string(in_folder("topo.prom")).unwrap();
    assert!(
        metrics.contains("topo_watch_state{state=\"hang\"} 1\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("rank=\"1\",host=\"n\\\"\\n1\",process=\"5000001\""),
        "{metrics}"
    );
    let diagnosis = fs::read_to_string(in_folder("diagnosis.json")).unwrap();
    assert!(diagnosis.contains("\"rank-missing\""), "{diagnosis}");
    assert!(in_folder("ras-4.json").is_file() && in_folder("watch.json").is_file());
    // The evidence is what `topo diagnose` reads.
    let again = topo()
        .arg("diagnose")
        .arg(in_folder("ras-1.json"))
        .arg(in_folder("ras-2.json"))
        .output();
    let again = super::said(again.unwrap());
    assert!(
        again.out.contains("rank 1 of communicator"),
        "{}",
        again.out
    );
}

#[test]
fn mistakes_are_refused() {
    for (words, why) in [
        (
            &["watch", "no.such.host.invalid"][..],
            "expected a host or HOST:PORT",
        ),
        (&["watch", "--interval", "0"], "--interval"),
        (&["watch", "--hang-after", "1"], "--hang-after"),
    ] {
        let said = super::said(topo().args(words).output().unwrap());
        assert_eq!(said.status, Some(FAILED), "{words:?}");
        assert!(said.err.contains(why), "{}", said.err);
    }
}
