//! The tables of lines.

use findings::causes::Certainty::{Likely, Possible};
use findings::causes::{Subject, of_id};
use findings::facts::{Said, all, counters, find, frames, of_warning};

fn said(text: &str, is_warning: bool) -> Said<'_> {
    match is_warning {
        true => Said::warning(text, None),
        false => Said::line(text),
    }
}

/// Each pattern finds a line of its form, and not one that lacks a letter of it.
#[test]
fn every_row_fits_a_line_and_no_near_miss() {
    let mut rows = 0;
    for fact in all() {
        let Some((line, is_warning)) = fact.example() else {
            continue;
        };
        rows += 1;
        let before = format!("x {line} y");
        let found = find(&said(&before, is_warning)).expect(&line);
        // A pattern with more letters may fit the same line; then it says more.
        assert!(
            std::ptr::eq(found, fact) || found.example() != fact.example(),
            "{line}: two rows"
        );
        for cut in line.char_indices().map(|it| it.0).skip(1).step_by(3) {
            let miss = format!("{}\u{1}{}", &line[..cut], &line[cut..]);
            let found = find(&said(&miss, is_warning));
            let is_in_gap = ["x9 y", "17"].iter().any(|gap| {
                line.match_indices(gap)
                    .any(|(at, _)| (at..=at + gap.len()).contains(&cut))
            });
            let is_same = found.is_some_and(|it| std::ptr::eq(it, fact));
            assert!(!is_same || is_in_gap, "{miss:?}");
        }
    }
    assert!(rows >= 800, "{rows}");
}

#[test]
fn every_row_says_what_to_do() {
    for fact in all() {
        let it = &fact.meaning;
        assert!(!it.means.is_empty() && !it.means.ends_with('.'), "{it:?}");
        let needs_none = it.cause.subject == Subject::Harmless;
        assert!(needs_none || !it.advice.is_empty(), "{it:?}");
    }
}

/// Each counter has a cause that is known, or none; its names are words.
#[test]
fn counters_have_causes() {
    assert!(counters::all().count() > 60);
    for (name, counter) in counters::all() {
        assert!(counter.cause.is_none_or(|it| of_id(it).is_some()), "{name}");
        assert!(
            !counter.counts.is_empty() && !counter.counts.ends_with('.'),
            "{name}"
        );
        assert!(counters::of(&name.replace('#', "3")).is_some(), "{name}");
    }
    for other in ["rx_packets", "PortXmitData", "rx_prio3_packets", "", "#"] {
        assert_eq!(counters::of(other), None);
    }
}

/// Each function is found as a word of a frame, and not within another word.
#[test]
fn functions_of_stacks_are_words() {
    for function in frames::functions() {
        let frame = format!("#3  0x7f in {function} (a=1) at x.cc:7");
        assert!(frames::doing(&frame).is_some(), "{function}");
        assert_eq!(
            frames::doing(&format!("#3  my{function}s ()")),
            None,
            "{function}"
        );
    }
}

#[test]
fn codes_are_judged_by_place_and_number() {
    let cause = |text: &str, place: &str| of_warning(text, Some(place)).map(|it| it.cause.id);
    for (text, place, expected) in [
        (
            "Cuda failure 401 'x'",
            "transport/nvls.cc:244",
            "nvls-fabric",
        ),
        (
            "Cuda failure 'invalid argument'",
            "transport/nvls.cc:165",
            "nvls-fabric",
        ),
        (
            "Cuda failure 'invalid argument'",
            "misc/shmutils.cc:103",
            "host-register",
        ),
        (
            "Cuda failure 'out of memory'",
            "include/alloc.h:178",
            "gpu-memory-full",
        ),
        ("Cuda failure 12345 'x'", "init.cc:1", "cuda-failure"),
        (
            "NET/IB: Got completion from peer 10.0.0.2<1> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=x",
            "p.cc:1",
            "completion-timeout",
        ),
        (
            "NET/IB : Got completion from peer a with error 4, opcode 1, len 2, vendor err 81",
            "p.cc:1",
            "nic-memory-access",
        ),
        (
            "NET/IB: Got completion from peer a with status=5 opcode=1",
            "p.cc:1",
            "peer-closed",
        ),
        (
            "Error: failed to extend /dev/shm/nccl-x to 9 bytes, error: No space left on device (28)",
            "s.cc:1",
            "shared-memory",
        ),
        (
            "Error: failed to create shared memory file /dev/shm/nccl-x, error Read-only file system (30)",
            "s.cc:1",
            "shm-refused",
        ),
    ] {
        assert_eq!(cause(text, place), Some(expected), "{text}");
    }
}

#[test]
fn lines_of_any_program_are_judged_by_codes_and_reasons() {
    let line = |text: &str| find(&Said::line(text)).map(|it| it.meaning.cause.id);
    for (text, expected) in [
        (
            "NVRM: Xid (PCI:0000:1b:00): 145, RLW_RXPIPE Nonfatal XC0",
            "no-action",
        ),
        (
            "NVRM: Xid (PCI:0000:1b:00): 149, NETIR Fatal XC0 i0",
            "xid-nvlink",
        ),
        (
            "NVRM: Xid (PCI:0000:1b:00): 45, pid=7, caused by previous Xid 79",
            "xid-79",
        ),
        ("NVRM: Xid (PCI:0000:1b:00): 45, pid=7", "xid-after"),
        (
            "Test CUDA failure common.cu:516 'no kernel image is available for execution on the device'",
            "library-lacks-gpu",
        ),
        // Numbers are whole.
        ("exits with return code = -7", "crashed"),
        ("exits with return code = -70", "earlier-failure"),
        ("exits with return code = -150", "earlier-failure"),
        (
            "RuntimeError: CUDA error: device-side assert triggered",
            "kernel-fault",
        ),
    ] {
        assert_eq!(line(text), Some(expected), "{text}");
    }
    let certainty = |text: &str| find(&Said::line(text)).map(|it| it.meaning.certainty);
    let step = "srun: error: Unable to create step for job 991: ";
    for (text, expected) in [
        ("More processors requested than permitted", Likely),
        ("Requested node configuration is not available", Likely),
        ("Job/step already completing or completed", Possible),
    ] {
        assert_eq!(
            certainty(&format!("{step}{text}")),
            Some(expected),
            "{text}"
        );
    }
    let needs = "torchvision 0.15 is not compatible with the current PyTorch installation";
    assert_eq!(line(needs), None);
    assert_eq!(line("wandb: CUDA is fine"), None);
    assert_eq!(line("NVRM: GPU0 Xid and so on"), None);
}
