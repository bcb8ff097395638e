//! Machines as people paste them.

use records::Listings;
use topology::xml::Document;

fn read(text: &str) -> Document {
    records::machine("test", text.as_bytes())
        .expect(text)
        .document
}

/// Two GPUs under one bridge.
pub(crate) const PAIR: &str = "\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tPIX\t0-23\t0\t\tN/A
GPU1\tPIX\t X \t0-23\t0\t\tN/A
";

#[test]
fn forms_in_which_people_paste_say_the_same() {
    let plain = topology::xml::write(&read(PAIR));
    let each = |form: &dyn Fn(&str) -> String| PAIR.lines().map(form).collect::<String>();
    let forms = [
        each(&|line| format!("> {line}\n")),
        each(&|line| format!(">> {line}\r\n")),
        each(&|line| format!("2026-11-28T10:00:00.123456Z {line}\n")),
        each(&|line| format!("[2026-11-28 10:00:00] {line}\n")),
        format!("<pre><code>$ nvidia-smi topo -m\n{PAIR}</code></pre>\n"),
        format!("$ nvidia-smi topo -m {}", PAIR.trim_start()),
        PAIR.replacen(" ID\n", "\n ID\n", 1),
        PAIR.replace('\t', "&#9;"),
        table_of_markdown(PAIR),
        table_of_html(PAIR),
    ];
    for form in forms {
        assert_eq!(topology::xml::write(&read(&form)), plain, "{form}");
    }
}

/// The cells of a matrix.
fn cells(matrix: &str) -> Vec<Vec<&str>> {
    let rows = matrix.lines().map(|line| line.split('\t').map(str::trim));
    rows.map(Iterator::collect).collect()
}

fn table_of_markdown(matrix: &str) -> String {
    let rows = cells(matrix)
        .into_iter()
        .map(|row| format!("| {} |\n", row.join(" | ")));
    let mut rows: Vec<String> = rows.collect();
    rows.insert(1, "|---|:--|---|---|---|---|\n".to_owned());
    rows.concat()
}

/// All of it in one line.
fn table_of_html(matrix: &str) -> String {
    let row = |row: Vec<&str>| {
        let cells: String = row
            .iter()
            .map(|it| format!("<td class=\"c\">{it}</td>"))
            .collect();
        format!("<tr>{cells}</tr>")
    };
    let rows: String = cells(matrix).into_iter().map(row).collect();
    format!("<p>Ours:</p><table border=\"1\">{rows}</table><p>ours &times; 2</p>\n")
}

#[test]
fn reports_name_gpus_and_processors_in_prose() {
    let text = |more: &str| {
        let machine = records::machine("test", format!("{more}{PAIR}").as_bytes()).unwrap();
        let assumed = machine.assumed.join("\n");
        (topology::xml::write(&machine.document), assumed)
    };
    let amd = "- **CPU:** AMD Ryzen 9 9950X3D 16-Core Processor (32 threads)\n";
    let each = "- **GPU 0:** NVIDIA GeForce RTX 5090, 32607 MiB\n- **GPU 1:** NVIDIA GeForce RTX 5090 | 32607 MiB\n";
    for names in [each, "GPU 0,1: NVIDIA GeForce RTX 5090\n"] {
        let (machine, assumed) = text(&format!("{amd}{names}"));
        assert_eq!(machine.matches("sm=\"120\"").count(), 2, "{machine}");
        assert!(machine.contains("AuthenticAMD"), "{machine}");
        assert!(!assumed.contains("the GPUs are"), "{assumed}");
    }
    // What is said of one, or of a number of them, holds for all, and is said to be so.
    for (names, said) in [
        (
            "GPU 0: NVIDIA GeForce RTX 5090\n",
            "GPUs without a name are taken for NVIDIA GeForce RTX 5090",
        ),
        (
            "## 2x RTX 5090 on one Turin\n",
            "the GPUs are taken for RTX 5090, as",
        ),
        ("My box: 2 × RTX 5090\n", "the GPUs are taken for RTX 5090"),
        ("2x5090, one fan\n", "the GPUs are taken for RTX 5090"),
        ("* GPUs: dual RTX5090s\n", "the GPUs are taken for RTX 5090"),
        ("Our 2 rtx 5090 cards\n", "the GPUs are taken for RTX 5090"),
        (
            "Ubuntu, NVIDIA GeForce RTX 5090 x2\n",
            "taken for NVIDIA GeForce RTX 5090",
        ),
        (
            "NVIDIA GeForce RTX 5090\nNVIDIA GeForce RTX 5090\n",
            "NVIDIA GeForce RTX 5090",
        ),
        (
            "- **GPU:** NVIDIA GeForce RTX 5090 (32 GB)\n",
            "NVIDIA GeForce RTX 5090",
        ),
    ] {
        let (machine, assumed) = text(names);
        assert_eq!(machine.matches("sm=\"120\"").count(), 2, "{machine}");
        assert!(assumed.contains(said), "{assumed}");
    }
    // Another number is of another machine.
    let (machine, assumed) = text("beside our 8x H100 node\n");
    assert!(
        machine.contains("sm=\"80\"") && assumed.contains("taken for sm 80"),
        "{assumed}"
    );
}

#[test]
fn grace_is_known_by_its_gpus() {
    let matrix = "\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV18\t0-71\t0,3-9\t2
GPU1\tNV18\t X \t72-143\t1,19-25\t10
";
    for (text, links) in [
        (format!("GPU 0,1: NVIDIA GB300\n{matrix}"), "count=\"5\""),
        (matrix.to_owned(), "count=\"10\""),
    ] {
        let machine = topology::xml::write(&read(&text));
        assert!(
            machine.contains("arm64") && !machine.contains("vendor"),
            "{machine}"
        );
        assert_eq!(machine.matches("c2c bw=\"44712\"").count(), 2, "{machine}");
        assert!(machine.contains(links), "{machine}");
    }
    let xeon = format!("Architecture: x86_64\nVendor ID: GenuineIntel\n{matrix}");
    assert!(topology::xml::write(&read(&xeon)).contains("x86_64"));
}

#[test]
fn a_second_machine_is_not_left_out_in_silence() {
    let machine = records::machine("test", format!("node1:\n{PAIR}\nnode2:\n{PAIR}").as_bytes());
    let assumed = machine.unwrap().assumed;
    assert!(
        assumed.iter().any(|it| it.contains("left out: 1;")),
        "{assumed:?}"
    );
}

#[test]
fn listings_in_several_files_are_one_machine() {
    let lscpu = "Vendor ID: AuthenticAMD\nCPU family: 26\nModel: 2\n";
    let files = [
        ("cpu.txt", lscpu.as_bytes()),
        ("matrix.txt", PAIR.as_bytes()),
    ];
    let joined = Listings::read_all(&files).unwrap().unwrap();
    assert!(joined.has_places());
    assert_eq!(
        joined,
        Listings::read("all", format!("{lscpu}{PAIR}").as_bytes())
            .unwrap()
            .unwrap()
    );
    let broken = PAIR.replace("PIX", "PXX");
    let files = [
        ("cpu.txt", lscpu.as_bytes()),
        ("matrix.txt", broken.as_bytes()),
    ];
    let error = Listings::read_all(&files).unwrap_err().to_string();
    assert!(error.starts_with("matrix.txt:2:"), "{error}");
}

#[test]
fn peer_access_is_part_of_the_machine() {
    let access = |cells: [&str; 2]| {
        let [one, other] = cells;
        format!("{PAIR}\n \tGPU0\tGPU1\n GPU0\tX\t{one}\n GPU1\t{other}\tX\n")
    };
    let named = "GPU 0,1: NVIDIA GeForce RTX 4090\n";
    for (cells, lists) in [
        (["OK", "OK"], vec![]),
        (["CNS", "CNS"], vec!["0:1", "1:0"]),
        (["OK", "DR"], vec!["1:0"]),
    ] {
        let machine =
            records::machine("test", format!("{named}{}", access(cells)).as_bytes()).unwrap();
        let system = topology::System::from_document(&machine.document).unwrap();
        let gpus = system.gpus().flat_map(|(_, gpu)| {
            gpu.no_p2p
                .iter()
                .map(|other| format!("{}:{other}", gpu.dev))
        });
        assert_eq!(gpus.collect::<Vec<_>>(), lists);
        let doubts = machine.assumed.iter().any(|it| it.contains("peer access"));
        assert!(!doubts, "{:?}", machine.assumed);
    }
    // Cards of owners are doubted by name, others are not.
    for (name, doubted) in [
        ("NVIDIA GeForce RTX 4090", true),
        ("RTX 4000 Ada Generation", false),
    ] {
        let text = format!("GPU 0,1: {name}\n{PAIR}");
        let assumed = records::machine("test", text.as_bytes()).unwrap().assumed;
        assert_eq!(
            assumed.iter().any(|it| it.contains("peer access is taken")),
            doubted,
            "{name}"
        );
    }
}

#[test]
fn switches_that_a_matrix_cannot_show_are_no_finding() {
    let matrix = |gpus: usize, cell: &str| {
        let names: Vec<String> = (0..gpus).map(|it| format!("GPU{it}")).collect();
        let row = |own: usize| {
            let cells = (0..gpus).map(|it| if it == own { "X" } else { cell });
            format!(
                "GPU{own}\t{}\t0-63\t0\n",
                cells.collect::<Vec<_>>().join("\t")
            )
        };
        let rows: String = (0..gpus).map(row).collect();
        format!(
            "\t{}\tCPU Affinity\tNUMA Affinity\n{rows}",
            names.join("\t")
        )
    };
    for (gpus, cell, found) in [(8, "NV12", 0), (8, "NODE", 0), (4, "PHB", 0), (8, "PHB", 1)] {
        let machine = records::machine("test", matrix(gpus, cell).as_bytes()).unwrap();
        let findings = machine.findings();
        let flat = findings.iter().filter(|it| it.rule == findings::Rule::Flat);
        assert_eq!(flat.count(), found, "{gpus} {cell}");
    }
}

#[test]
fn pages_say_the_version_and_variables() {
    let said = |lines: &str| {
        let machine = records::machine("test", format!("{PAIR}{lines}").as_bytes()).unwrap();
        let set = machine
            .said
            .set
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        (machine.said.nccl, set.collect::<Vec<_>>().join(" "))
    };
    for (lines, version, set) in [
        ("[pip3] nvidia-nccl-cu13==2.29.7\n", Some("2.29.7"), ""),
        (
            "nvidia-nccl-cu12          2.27.5                   pypi\n",
            Some("2.27.5"),
            "",
        ),
        ("NCCL version 2.21.5+cuda12.4\n", Some("2.21.5"), ""),
        ("nvidia-nccl-cu12 @ file:///x\n", None, ""),
        (
            "export NCCL_ALGO=\"Ring\"\n- `NCCL_P2P_LEVEL=SYS`\n",
            None,
            "NCCL_ALGO=Ring",
        ),
        (
            "  -x NCCL_IB_HCA=mlx5_0,mlx5_1\nNCCL_TOPO_FILE=/x\n",
            None,
            "NCCL_IB_HCA=mlx5_0,mlx5_1",
        ),
        (
            "try NCCL_ALGO=Ring\nNCCL_ALGO=Ring python train.py\n",
            None,
            "",
        ),
        ("NCCL_ALGO=Ring\nNCCL_ALGO=Tree\n", None, "NCCL_ALGO=Tree"),
        ("#export NCCL_ALGO=Ring\nNCCL_IB_HCA=$HCA\n", None, ""),
        ("  -x NCCL_ALGO=Ring \\\n", None, "NCCL_ALGO=Ring"),
    ] {
        assert_eq!(
            said(lines),
            (version.map(str::to_owned), set.to_owned()),
            "{lines}"
        );
    }
    // They alone are no listing.
    assert!(
        Listings::read("test", b"NCCL_ALGO=Ring\n")
            .unwrap()
            .is_none()
    );
}

#[test]
fn what_decides_is_said_and_what_is_amds_is_refused_by_name() {
    let assumed = |more: &str| {
        let machine = records::machine("test", format!("{PAIR}{more}").as_bytes()).unwrap();
        machine.assumed.join(" ")
    };
    assert!(assumed("").contains("two GPUs on AMD"));
    // A word of AMD's tools beside a matrix is a word.
    assert!(assumed("which: no rocm-smi in (/usr/bin)\n").contains("two GPUs on AMD"));
    assert!(!assumed("Vendor ID: AuthenticAMD\n").contains("two GPUs on AMD"));
    for text in [
        "$ amd-smi topology\nACCESS TABLE:\n",
        "= ROCm System Management Interface =\n GPU0 GPU1\nGPU0 0 1\n",
    ] {
        let error = records::machine("test", text.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(error.contains("RCCL decides otherwise"), "{error}");
    }
}
