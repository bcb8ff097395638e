//! Numbers in the environment that no job can have.

use crate::program::{LONG, Running, topo};

/// Variables of a rank, the variable that is wrong, and what is said of it.
fn refused(variables: &[(&str, &str)], words: &[&str]) {
    let mut command = topo();
    command.args([
        "run",
        "all-reduce",
        "-b",
        "8",
        "-e",
        "8",
        "--join-timeout",
        "2",
    ]);
    command.envs(variables.iter().copied());
    let said = Running::start(&mut command).within(LONG);
    let says = said.status == Some(2) && words.iter().all(|it| said.err.contains(it));
    assert!(says, "{variables:?}, expected {words:?}: {said:?}");
}

#[test]
fn ports_of_torchrun() {
    for port in [
        "65535",
        "65536",
        "4294967295",
        "4294967296",
        "0",
        "-1",
        "text",
        "29500x",
        "99999999999999999999",
    ] {
        let variables = [
            ("RANK", "0"),
            ("WORLD_SIZE", "2"),
            ("MASTER_ADDR", "127.0.0.1"),
            ("MASTER_PORT", port),
        ];
        refused(&variables, &[&format!("MASTER_PORT={port}"), "1 to 65534"]);
    }
}

#[test]
fn ports_of_addresses() {
    for place in [
        "127.0.0.1:0",
        "127.0.0.1:65536",
        "127.0.0.1:x",
        "127.0.0.1:",
        "127.0.0.1",
        "[::1]",
        ":29500",
    ] {
        for rank in ["0", "1"] {
            let rank = ("OMPI_COMM_WORLD_RANK", rank);
            let size = ("OMPI_COMM_WORLD_SIZE", "2");
            refused(
                &[rank, size, ("NCCL_COMM_ID", place)],
                &[&format!("NCCL_COMM_ID={place}"), "HOST:PORT", "1 to 65535"],
            );
            let given = format!("tcp:{place}");
            refused(
                &[rank, size, ("TOPO_RENDEZVOUS", &given)],
                &[&given, "HOST:PORT"],
            );
        }
    }
}

#[test]
fn ranks_and_worlds() {
    for (rank, size) in [
        ("RANK", "WORLD_SIZE"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
        ("JOB_COMPLETION_INDEX", "WORLD_SIZE"),
    ] {
        for number in ["0", "65537", "4294967295", "4294967296", "-1", "two"] {
            refused(
                &[(rank, "0"), (size, number)],
                &[&format!("{size}={number}"), "1 to 65536"],
            );
        }
        for number in ["4294967295", "4294967296", "-1", "one"] {
            refused(
                &[(rank, number), (size, "2")],
                &[&format!("{rank}={number}")],
            );
        }
    }
    let step = [
        ("SLURM_PROCID", "0"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_JOB_ID", "1"),
    ];
    for name in ["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"] {
        for number in ["0", "4294967295", "x"] {
            refused(
                &[&step[..], &[(name, number)]].concat(),
                &[&format!("{name}={number}"), "1 to 65536"],
            );
        }
    }
    for (name, number) in [
        ("LOCAL_WORLD_SIZE", "0"),
        ("LOCAL_WORLD_SIZE", "3"),
        ("LOCAL_WORLD_SIZE", "x"),
    ] {
        refused(
            &[
                ("RANK", "0"),
                ("WORLD_SIZE", "2"),
                ("MASTER_ADDR", "127.0.0.1"),
                (name, number),
            ],
            &[&format!("{name}={number}"), "1 to 2"],
        );
    }
}

#[test]
fn sockets_of_a_connection() {
    for name in ["NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"] {
        for number in ["0", "-1", "x", "65536", "4294967297"] {
            refused(
                &[
                    ("OMPI_COMM_WORLD_RANK", "0"),
                    ("OMPI_COMM_WORLD_SIZE", "2"),
                    ("NCCL_COMM_ID", "127.0.0.1:29417"),
                    (name, number),
                ],
                &[&format!("{name}={number}"), "expected"],
            );
        }
    }
}
