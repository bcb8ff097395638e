//! The proposals of `tune`: nothing gets slower, on all machines of `topologies/` and on files of
//! other people, if they are there.

use std::path::Path;
use std::process::ExitCode;

use answers::sizes::Sizes;
use answers::tune::{TuneQuestion, TuneReport, Verdict, tune};
use answers::{JobSpec, Machine, gpus::AskedGpus, request::JobRequest};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use planner::{NcclVersion, Settings};
use program::Collective;
use testkit::elsewhere::{self, files};

/// A share of the time that counts as equal.
const EQUAL: f64 = 0.999;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut tests = vec![
        Trial::test("a_dgx_has_nothing_to_gain", || {
            a_dgx_has_nothing_to_gain();
            Ok(())
        }),
        Trial::test("six_gpus_of_a_dgx_1v_get_better_rings", || {
            six_gpus_of_a_dgx_1v_get_better_rings();
            Ok(())
        }),
        Trial::test("a_setting_that_the_job_has_is_not_tried", || {
            a_setting_that_the_job_has_is_not_tried();
            Ok(())
        }),
    ];
    for machine in testkit::Machine::all().unwrap_or_default() {
        let file = machine.folder.join("topology.xml");
        tests.push(Trial::test(
            format!("machine::{}", machine.name),
            move || nothing_gets_slower(&file, 1),
        ));
    }
    tests.extend(of_others());
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// Files of other people. Those of two hosts are deep tests: some take seconds.
fn of_others() -> Vec<Trial> {
    let corpus = match elsewhere::corpus() {
        Ok(corpus) => corpus,
        Err(why) => {
            return vec![Trial::ignorable_test("corpus::files", move || {
                Ok(Completion::ignored_with(format!("not run: {why}")))
            })];
        }
    };
    let mut tests = Vec::new();
    for folder in ["nccl", "rccl", "evidence/xml"] {
        for file in files(&corpus.join(folder), "xml").unwrap_or_default() {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            for hosts in [1, 2] {
                let file = file.clone();
                let is_deep = hosts > 1;
                let prefix = if is_deep { "deep::" } else { "" };
                let name = format!("{prefix}corpus::{folder}/{name}::{hosts}");
                let test = Trial::test(name, move || nothing_gets_slower(&file, hosts));
                tests.push(test.with_ignored_flag(is_deep));
            }
        }
    }
    let turin = corpus.join("evidence/xml/turin-8x-rtxpro6000-direct-CONSTRUCTED.xml");
    let test = "a_hand_written_graph_file_is_no_better";
    tests.push(match turin.is_file() {
        true => Trial::test(test, move || {
            a_hand_written_graph_file_is_no_better(&turin);
            Ok(())
        }),
        false => Trial::ignorable_test(test, || {
            Ok(Completion::ignored_with(
                "not run: the corpus has no such machine",
            ))
        }),
    });
    tests
}

/// Tunes a machine; an error if there is none.
fn tuned(file: &Path, hosts: u32, settings: &Settings) -> Result<TuneReport, String> {
    let text = std::fs::read(file).map_err(|why| why.to_string())?;
    let name = file.display().to_string();
    let document = topology::xml::parse(&name, &text).map_err(|why| why.to_string())?;
    let spec = JobSpec {
        hosts,
        ..JobSpec::of(Machine::new(name, document))
    };
    let job = spec.job().map_err(|why| why.to_string())?.job;
    tune(job, settings, &question(0)).map_err(|why| why.to_string())
}

/// All collectives at [`sizes`]; messages from these bytes count.
fn question(from: u64) -> TuneQuestion {
    TuneQuestion {
        collective: Vec::new(),
        sizes: Sizes::each(&sizes()),
        from,
    }
}

/// The powers of two at which plans are compared, and sizes between them, bytes.
fn sizes() -> Vec<u64> {
    let all = plan::cost::doubling(1 << 10, 4 << 30);
    all.flat_map(|it| [it, it + it / 2]).collect()
}

/// A machine is refused with a reason, or nothing is slower at the sizes at which plans are
/// compared, nor noticeably between them.
fn nothing_gets_slower(file: &Path, hosts: u32) -> Result<(), Failed> {
    match tuned(file, hosts, &Settings::default()) {
        Ok(answer) => loses_nothing(&answer).map_err(Failed::from),
        Err(why) if why.trim().is_empty() => Err("refused without a reason".into()),
        Err(_) => Ok(()),
    }
}

fn loses_nothing(answer: &TuneReport) -> Result<(), String> {
    for gains in &answer.gains {
        for gain in &gains.sizes {
            let compared = gain.bytes.is_power_of_two();
            let least = if compared { EQUAL } else { 0.99 };
            let [links, rated] = [Some(gain.gain), gain.rated_gain].map(|it| it.unwrap_or(1.0));
            if links < least || rated < least {
                return Err(format!(
                    "{} of {} bytes: {links} times as fast by the links, {rated} as rated",
                    gains.collective, gain.bytes
                ));
            }
        }
    }
    let changes = answer.gains.iter().flat_map(|it| &it.sizes);
    match (&answer.proposal, changes.filter(|it| it.changes()).count()) {
        (None, 1..) => Err("nothing is proposed, but times change".to_owned()),
        (Some(_), 0) => Err("something is proposed, but nothing changes".to_owned()),
        _ => Ok(()),
    }
}

fn built_in(name: &str, gpus: &[i64], set: &[(&str, &str)], from: u64) -> TuneReport {
    let set = set
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()));
    let mut job = JobRequest::of(name);
    job.ranks.gpus = Some(AskedGpus::Listed(gpus.to_vec()));
    job.variables.set = set.collect();
    let planned = job.plan().expect("a machine that is built in");
    let settings = &planned.planned.settings;
    tune(planned.job, settings, &question(from)).expect("a job that was planned")
}

fn a_dgx_has_nothing_to_gain() {
    for name in ["dgx-a100", "dgx-h100", "dgx-1v"] {
        let answer = built_in(name, &[], &[], 0);
        assert!(answer.proposal.is_none(), "{name}: {:?}", answer.proposal);
    }
}

/// NCCL finds 40 GB/s, and rings of 60 GB/s are proved to be the best. They pass PCIe, so that
/// short messages are slower.
fn six_gpus_of_a_dgx_1v_get_better_rings() {
    let gpus = [0, 1, 2, 3, 4, 5];
    let answer = built_in("dgx-1v", &gpus, &[], 0);
    assert!(answer.proposal.is_none());
    let rings = answer.tried.iter().find(|it| it.what == "rings");
    let rings = rings.expect("rings are tried");
    assert_eq!(rings.verdict, Verdict::Slower, "{rings:?}");
    let from = rings.helps_from.expect("long messages are faster");
    let answer = built_in("dgx-1v", &gpus, &[], from);
    let proposal = answer.proposal.expect("there are better rings");
    assert!(proposal.rings.is_some(), "{proposal:?}");
    let gather = answer
        .gains
        .iter()
        .find(|it| it.collective == Collective::AllGather);
    let gather = gather.expect("the collective was asked for");
    assert!(
        gather
            .sizes
            .iter()
            .all(|it| it.bytes < from || it.gain >= EQUAL)
    );
    let last = gather.sizes.last().expect("sizes");
    assert!((1.4..1.6).contains(&last.gain), "{last:?}");
    let set = proposal.set();
    assert!(!set.searches && set.gpus == "0-5", "{set:?}");
}

fn a_setting_that_the_job_has_is_not_tried() {
    let answer = built_in("dgx-1v", &[], &[("NCCL_P2P_LEVEL", "NVL")], 0);
    let mut levels = answer
        .tried
        .iter()
        .filter(|it| it.what.starts_with("NCCL_P2P_LEVEL"));
    assert!(levels.all(|it| it.verdict == Verdict::NotTried));
}

/// The graph file that owners of 8 RTX PRO 6000 on two Turins pass around has two rings in the
/// order of the GPUs, for which it states 24 GB/s each; its page has only the head.
fn a_hand_written_graph_file_is_no_better(machine: &Path) {
    let mut theirs = "<graphs version=\"1\">\n".to_owned();
    for (id, pattern) in [(0, 4), (1, 1)] {
        theirs.push_str(&format!(
            "<graph id=\"{id}\" pattern=\"{pattern}\" crossnic=\"0\" nchannels=\"2\" speedintra=\"24\" \
             speedinter=\"24\" latencyinter=\"0\" typeintra=\"PHB\" typeinter=\"PIX\" samechannels=\"1\">\n"
        ));
        let gpus: String = (0..8)
            .map(|gpu| format!("<gpu dev=\"{gpu:#x}\"/>"))
            .collect();
        theirs.push_str(&format!("<channel>{gpus}</channel>\n").repeat(2));
        theirs.push_str("</graph>\n");
    }
    theirs.push_str("</graphs>\n");
    for version in [NcclVersion::V2_28, NcclVersion::V2_31, NcclVersion::V2_32] {
        let level = ("NCCL_P2P_LEVEL".to_owned(), "SYS".to_owned());
        let own = Settings::with_variables(version, [level]);
        let graphs = plan::nccl_graph::GraphFile::parse("theirs.xml", &theirs);
        let given = Settings {
            graphs: Some(graphs.expect("a graph file")),
            ..own.clone()
        };
        let [ours, theirs] = [own, given]
            .map(|settings| tuned(machine, 1, &settings).expect("the job can be planned"));
        for (ours, theirs) in ours.gains.iter().zip(&theirs.gains) {
            for (ours, theirs) in ours.sizes.iter().zip(&theirs.sizes) {
                let (ours, theirs) = (ours.tuned.time_us, theirs.now.time_us);
                assert!(
                    ours <= theirs / EQUAL,
                    "{version}: {ours} µs, theirs {theirs} µs"
                );
            }
        }
    }
}
