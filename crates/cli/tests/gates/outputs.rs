//! Parsers of others that read what is written.

use std::fs;
use std::path::Path;
use std::process::Command;

use libtest_mimic::{Completion, Failed, Trial};

use crate::{not_run, output, program, text, written};

const FETCH: &str = "cargo xtask fetch readers";

/// What reads a file: a module of Python, and a script whose argument is the file.
type Parser = (&'static str, &'static str, &'static str);

const PYTHON: [Parser; 3] = [
    (
        "junit.xml",
        "junitparser",
        "import sys, junitparser, xml.etree.ElementTree as tree\n\
         suite, = junitparser.JUnitXml.fromfile(sys.argv[1])\n\
         kinds = [type(it).__name__ for case in suite for it in case.result]\n\
         root, = tree.parse(sys.argv[1]).getroot()\n\
         assert suite.tests == len(list(suite)) == len(root) > 0, suite.tests\n\
         counts = [kinds.count(it) for it in ('Failure', 'Error', 'Skipped')]\n\
         assert counts == [suite.failures, suite.errors, suite.skipped], counts\n\
         assert all(case.name and case.classname for case in suite)",
    ),
    (
        "topo.prom",
        "prometheus_client",
        "import sys\n\
         from prometheus_client.parser import text_string_to_metric_families as read\n\
         text = open(sys.argv[1], newline='').read()\n\
         all = [it for family in read(text) for it in family.samples]\n\
         keys = [(it.name, tuple(sorted(it.labels.items()))) for it in all]\n\
         assert len(keys) == len(set(keys)) > 2, all",
    ),
    (
        "kubernetes.yaml",
        "kubernetes_validate",
        "import sys, yaml, kubernetes_validate\n\
         for it in yaml.safe_load_all(open(sys.argv[1])):\n    \
         kubernetes_validate.validate(it, '1.32', strict=True)",
    ),
];

/// Commands that write what was checked, with files that have odd names; and their statuses.
const COMMANDS: [(&str, &str, i32); 6] = [
    ("doctor", "doctor good.xml", 0),
    ("doctor_bad", "doctor a&<b>\"]]>\u{1b}\\.xml", 1),
    (
        "doctor_many",
        "doctor good.xml a&<b>\"]]>\u{1b}\\.xml good.xml",
        1,
    ),
    (
        "results",
        "expect --results run.log --topology good.xml --expect",
        3,
    ),
    ("diagnose", "diagnose run.log a&<b>\"]]>\u{1b}\\.xml", 1),
    ("bound", "bound pcie.xml --measured pairs.txt", 0),
];

pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    let outputs = COMMANDS.iter().flat_map(|command| {
        PYTHON[..2].iter().map(move |parser| {
            let name = format!("{}::{}", parser.0, command.0);
            Trial::ignorable_test(name, move || of_command(command, parser))
        })
    });
    let manifests = ["kubernetes-job", "kubernetes-daemonset"].map(|format| {
        let name = format!("{format}::schema");
        Trial::ignorable_test(name, move || {
            let folder = tempfile::tempdir()?;
            let file = folder.path().join(PYTHON[2].0);
            fs::write(&file, written(format, &["--json"; 0])?)?;
            parsed(&PYTHON[2], &file)
        })
    });
    let formats = [
        "slurm",
        "slurm-health",
        "nhc",
        "kubernetes-job",
        "kubernetes-daemonset",
        "action",
    ];
    let checked = formats.map(|format| {
        let name = format!("{format}::shellcheck");
        Trial::ignorable_test(name, move || shellcheck(format))
    });
    outputs.chain(manifests).chain(checked)
}

/// Runs a parser on a file.
fn parsed((_, module, script): &Parser, file: &Path) -> Result<Completion, Failed> {
    let python = program("TOPO_READERS_PYTHON", "python3");
    let Some(python) = python else {
        return not_run(FETCH);
    };
    let has = output(Command::new(&python).args(["-c", &format!("import {module}")]))?;
    if !has.status.success() {
        return not_run(&format!("there is no Python with {module} ({FETCH})"));
    }
    let said = output(Command::new(python).args(["-c", script]).arg(file))?;
    match said.status.success() {
        true => Ok(Completion::Completed),
        false => Err(format!("{}{}", text(&said), fs::read_to_string(file)?).into()),
    }
}

fn of_command(
    (_, words, status): &(&str, &str, i32),
    parser: &Parser,
) -> Result<Completion, Failed> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
    let folder = tempfile::tempdir()?;
    for (name, machine) in [
        ("good.xml", "dgx-h100"),
        ("a&<b>\"]]>\u{1b}\\.xml", "broken-vm"),
        ("pcie.xml", "pcie-8gpu-root-ports"),
    ] {
        fs::copy(
            root.join(machine).join("topology.xml"),
            folder.path().join(name),
        )?;
    }
    fs::write(
        folder.path().join("run.log"),
        "NCCL WARN <a>&\"]]>\u{7}\u{ffff}\n",
    )?;
    fs::write(folder.path().join("pairs.txt"), PAIRS)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_topo"));
    command.args(words.split(' ')).current_dir(folder.path());
    command.args(["--junit", "junit.xml", "--prometheus", "topo.prom"]);
    let said = output(&mut command)?;
    if said.status.code() != Some(*status) {
        return Err(format!("expected {status}: {}", text(&said)).into());
    }
    parsed(parser, &folder.path().join(parser.0))
}

/// Bandwidths between two GPUs.
const PAIRS: &str = "\
P2P Connectivity Matrix\n     D\\D     0     1\n     0\t     1     1\n     1\t     1     1\n\
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0      1 \n\
     0 1500.00  26.39 \n     1  26.03 1500.00 \n";

fn shellcheck(format: &str) -> Result<Completion, Failed> {
    let Some(program) = program("TOPO_SHELLCHECK", "shellcheck") else {
        return not_run(
            "there is no shellcheck (cargo xtask fetch readers), which TOPO_SHELLCHECK can name",
        );
    };
    let folder = tempfile::tempdir()?;
    let some: &[&str] = match format {
        // A container cannot measure these.
        "kubernetes-job" => &[],
        _ => &["--gpus", "4-7"],
    };
    for options in [&[][..], some] {
        let file = folder.path().join(format);
        let args = "          args:\n            - |\n";
        let script = match format {
            "action" => {
                let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
                let action = fs::read_to_string(root.join("action.yml"))?;
                format!(
                    "#!/bin/bash\n{}",
                    crate::readers::block(&action, "      run: |\n")
                )
            }
            _ => {
                let file = written(format, options)?;
                match file.contains(args) {
                    true => format!("#!/bin/sh\n{}", crate::readers::block(&file, args)),
                    false => file,
                }
            }
        };
        fs::write(&file, script)?;
        let said = output(Command::new(&program).arg(&file))?;
        if !said.status.success() {
            return Err(text(&said).into());
        }
    }
    Ok(Completion::Completed)
}
