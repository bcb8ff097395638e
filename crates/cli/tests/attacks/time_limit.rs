//! Commands that take long.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use libtest_mimic::{Completion, Failed};

use crate::program::{LONG, Running, not_run, on_terminal, shell, topo};

/// A machine of 32 GPUs with irregular NVLinks between some of them, so that each failure takes
/// long to plan; of 237 elements, which NCCL has room for.
fn odd_machine() -> (tempfile::TempDir, PathBuf) {
    const GPUS: u32 = 32;
    let links = |one: u32, other: u32| {
        let (low, high) = (one.min(other), one.max(other));
        // Any irregular function will do.
        let number = low * 7919 + high * 104_729;
        if number % 4 == 0 { number % 11 % 5 } else { 0 }
    };
    let mut text = "<system version=\"1\">\n".to_owned();
    for cpu in 0..2 {
        let _ = writeln!(
            text,
            "<cpu numaid=\"{cpu}\" affinity=\"ffff\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"79\">"
        );
        for gpu in cpu * GPUS / 2..(cpu + 1) * GPUS / 2 {
            let _ = writeln!(
                text,
                "<pci busid=\"0000:{:02x}:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">\
                 <gpu dev=\"{gpu}\" sm=\"70\" rank=\"{gpu}\" gdr=\"1\">",
                gpu + 1
            );
            for other in (0..GPUS).filter(|other| *other != gpu && links(gpu, *other) > 0) {
                let count = links(gpu, other);
                let _ = writeln!(
                    text,
                    "<nvlink target=\"0000:{:02x}:00.0\" count=\"{count}\" tclass=\"0x030200\"/>",
                    other + 1
                );
            }
            text.push_str("</gpu></pci>\n");
        }
        let _ = writeln!(
            text,
            "<pci busid=\"0000:8{cpu}:00.0\" class=\"0x020700\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><nic>\
             <net name=\"mlx5_{cpu}\" dev=\"{cpu}\" speed=\"100000\" port=\"1\" guid=\"0x{}\" maxconn=\"131072\" gdr=\"1\"/>\
             </nic></pci></cpu>",
            cpu + 1
        );
    }
    text.push_str("</system>\n");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("odd.xml");
    std::fs::write(&file, text).unwrap();
    (folder, file)
}

pub(crate) fn what_if_ends_with_what_was_done() {
    let (_folder, file) = odd_machine();
    let what_if = |more: &[&str]| {
        let mut command = topo();
        command
            .args(["diff", "--each-failure"])
            .arg(&file)
            .args(["--hosts", "2"]);
        Running::start(command.args(["--time-limit", "2"]).args(more))
    };
    let (text, json) = (what_if(&[]), what_if(&["--format", "json"]));
    let said = text.within(LONG);
    assert_eq!(said.status, Some(1), "{said:?}");
    assert!(said.took < Duration::from_secs(8), "{:?}", said.took);
    assert!(said.out.contains("Not looked at"), "{}", said.out);
    assert!(said.out.contains("GPU0"), "{}", said.out);
    assert!(said.err.contains("--time-limit 2"), "{}", said.err);
    let json: serde_json::Value = serde_json::from_str(&json.within(LONG).out).unwrap();
    let left_out = json["left_out"].as_array().unwrap().len();
    let done: usize = json["failures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["names"].as_array().unwrap().len())
        .sum();
    assert!(left_out > 0 && done > 0, "{done} done, {left_out} left out");
}

/// A terminal shows progress; a pipe does not.
pub(crate) fn progress_is_shown_on_a_terminal_only() -> Result<Completion, Failed> {
    let (folder, file) = odd_machine();
    let page = folder.path().join("page");
    let line = format!(
        "what-if {} --hosts 2 --time-limit 3 > {}",
        file.display(),
        page.display()
    );
    let Some(shown) = on_terminal(&line) else {
        return not_run("there is no program `script`");
    };
    assert!(
        shown.out.contains(" of ") && shown.out.contains("failures"),
        "{shown:?}"
    );
    let page = std::fs::read_to_string(page).unwrap();
    assert!(!page.contains('\r'), "{page}");
    let mut piped = shell("exec \"$0\" \"$@\"");
    piped
        .args(["diff", "--each-failure"])
        .arg(&file)
        .args(["--hosts", "2", "--time-limit", "2"]);
    let said = Running::start(&mut piped).within(LONG);
    assert!(
        !said.err.contains('\r') && !said.err.contains("failures:"),
        "{}",
        said.err
    );
    Ok(Completion::Completed)
}

/// A job of many machines, each of which takes some time.
pub(crate) fn a_long_plan_shows_progress_on_a_terminal() -> Result<Completion, Failed> {
    let (folder, file) = odd_machine();
    let text = std::fs::read_to_string(&file).unwrap();
    let mut files = String::new();
    for number in 0..300 {
        // The processors differ, so that each machine is planned.
        let name = folder.path().join(format!("{number}.xml"));
        std::fs::write(
            &name,
            text.replace("ffff", &format!("{:04x}", 0x1000 + number)),
        )
        .unwrap();
        files.push_str(&format!(" {}", name.display()));
    }
    let Some(shown) = on_terminal(&format!("plan{files} --format quiet > /dev/null")) else {
        return not_run("there is no program `script`");
    };
    assert!(shown.out.contains("planning: 1 s"), "{shown:?}");
    Ok(Completion::Completed)
}
