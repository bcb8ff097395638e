//! All-reduces of engines: ranges of sizes agree with single messages, on drawn GPUs.

use std::collections::BTreeMap;

use answers::engines::Outcome;
use answers::engines::evaluate::{GRAIN, Message, Setup};
use answers::engines::facts::{EngineFacts, Mode, facts};
use answers::engines::host::{Host, Peer};
use plan::cost::DataType;

/// GPUs that are drawn for each engine and version.
const DRAWN: usize = 60;

fn host(random: &mut fastrand::Rng) -> Host {
    let nvlink = random.bool();
    let peers = [Peer::Granted, Peer::None, Peer::WritesLost, Peer::IpcFails];
    let sm = [70, 80, 86, 89, 90, 100, 103, 107, 120];
    let peer = if nvlink {
        Peer::Granted
    } else {
        peers[random.usize(..4)]
    };
    Host {
        ranks: random.u32(2..=16),
        sm: sm[random.usize(..sm.len())],
        nvlink,
        multicast: nvlink && random.bool(),
        peer,
        nccl_p2p: peer == Peer::Granted,
    }
}

/// Some settings at one of the values that the rules name.
fn settings(engine: &EngineFacts, random: &mut fastrand::Rng) -> BTreeMap<String, String> {
    let switches = engine.rules.iter().flat_map(|it| &it.switches);
    let mut all = BTreeMap::new();
    for switch in switches {
        let value = switch.is.iter().chain(&switch.not).next();
        if let Some(value) = value.filter(|_| random.usize(..4) == 0) {
            all.insert(switch.name.clone(), value.clone());
        }
    }
    all
}

#[test]
fn ranges_agree_with_single_messages() {
    let mut random = fastrand::Rng::with_seed(7);
    let facts = facts().unwrap();
    let mut compared = 0;
    for engine in &facts.engines {
        for version in 0..engine.versions.len() {
            for _ in 0..DRAWN {
                let (host, settings) = (host(&mut random), settings(engine, &mut random));
                let setup = Setup {
                    facts,
                    engine,
                    version,
                    host: &host,
                    settings: &settings,
                    linux: random.bool(),
                    data_type: [DataType::Bf16, DataType::F32, DataType::I8][random.usize(..3)],
                    width: [64, 1000, 8192][random.usize(..3)],
                };
                for mode in [Mode::Graph, Mode::Eager] {
                    let outcome = Outcome::of(&setup, Some(mode), &[]);
                    let ranges = &outcome.ranges;
                    assert_eq!(ranges[0].from, GRAIN, "{}", engine.id);
                    for (one, next) in ranges.iter().zip(&ranges[1..]) {
                        assert_eq!(one.to.map(|it| it + GRAIN), Some(next.from));
                    }
                    assert_eq!(ranges.last().unwrap().to, None);
                    for range in ranges {
                        let last = range.to.unwrap_or(range.from * 4);
                        let between = random.u64(range.from / GRAIN..=last / GRAIN) * GRAIN;
                        for bytes in [range.from, between, last] {
                            let taken = setup.taken(Message { bytes, mode }).unwrap();
                            let found = (&taken.method, &taken.kernel, taken.is_nccl);
                            let said = (&range.method, &range.kernel, range.is_nccl);
                            assert_eq!(found, said, "{} {bytes} {host:?} {settings:?}", engine.id);
                            compared += 1;
                        }
                    }
                    for refused in &outcome.refused {
                        assert!(!refused.why.is_empty());
                        assert!(ranges.iter().all(|it| it.method != refused.method));
                    }
                }
            }
        }
    }
    assert!(compared > 5000, "{compared}");
}

#[test]
fn versions_are_found_or_named() {
    let engines = &facts().unwrap().engines;
    let engine = |id: &str| engines.iter().find(|it| it.id == id).unwrap();
    let (vllm, llama) = (engine("vllm"), engine("llama.cpp"));
    let of = |engine: &EngineFacts, text| {
        let (at, note) = engine.version(Some(text));
        (engine.versions[at].clone(), note.is_some())
    };
    assert_eq!(of(vllm, "0.30.0"), ("0.30.0".to_owned(), false));
    assert_eq!(of(vllm, "v0.31"), ("0.30.0".to_owned(), true));
    assert_eq!(of(vllm, "0.6.1"), ("0.20.2".to_owned(), true));
    assert_eq!(of(vllm, "1.0"), ("0.33.0".to_owned(), true));
    assert_eq!(of(vllm, "0.28.1.dev3+gabc"), ("0.28.0".to_owned(), true));
    assert_eq!(of(vllm, ""), ("0.33.0".to_owned(), true));
    assert_eq!(
        of(vllm, "99999999999999999999.1"),
        ("0.33.0".to_owned(), true)
    );
    assert_eq!(of(llama, "ggml d99724f2"), ("d99724f2".to_owned(), false));
    assert_eq!(of(llama, "b9999"), ("d99724f2".to_owned(), true));
    assert_eq!(of(engine("sglang"), "0.5.10"), ("0.5.9".to_owned(), true));
}
