//! Matrices of GPUs and NICs from `nvidia-smi topo -m` and `topo show --matrix --format json`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Path types by pairs of devices: `GPU0`, or a NIC's name.
pub(super) type Matrix = BTreeMap<(String, String), String>;

/// Reads the output of nvidia-smi.
///
/// # Errors
/// It is not a matrix.
pub(super) fn of_nvidia_smi(text: &str) -> Result<Matrix> {
    let text = without_colors(text);
    // `NIC0: mlx5_0` is below the matrix. Older versions write the names into it.
    let names: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.trim().split_once(": "))
        .filter(|(label, _)| label.starts_with("NIC"))
        .collect();
    let name = |label: &str| names.get(label).map_or(label, |name| *name).to_owned();
    let mut lines = text.lines();
    let header = lines
        .by_ref()
        .find(|line| line.trim_start().starts_with("GPU0"))
        .context("there is no line that begins with GPU0")?;
    let columns: Vec<String> = header
        .split_whitespace()
        .take_while(|word| *word != "CPU" && *word != "NUMA")
        .map(name)
        .collect();
    let mut matrix = Matrix::new();
    for line in lines.take_while(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let row = name(words.next().unwrap_or_default());
        for (column, letters) in columns.iter().zip(words) {
            matrix.insert((row.clone(), column.clone()), letters.to_owned());
        }
    }
    ensure!(!matrix.is_empty(), "the matrix has no rows");
    Ok(matrix)
}

/// The text without the escape sequences of terminals.
fn without_colors(text: &str) -> String {
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            letters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(letter);
        }
    }
    plain
}

/// Reads the output of topo.
///
/// # Errors
/// It is not a matrix.
pub(super) fn of_topo(text: &str) -> Result<Matrix> {
    let value: Value = serde_json::from_str(text)?;
    let devices = value["devices"].as_array().context("no devices")?;
    let name = |device: &Value| {
        let name = if device["kind"] == "nic" {
            &device["name"]
        } else {
            &device["label"]
        };
        name.as_str().unwrap_or_default().to_owned()
    };
    let mut matrix = Matrix::new();
    for (from, row) in devices.iter().enumerate() {
        for (to, column) in devices.iter().enumerate() {
            let letters = value["matrix"][from][to].as_str().context("no letters")?;
            matrix.insert((name(row), name(column)), letters.to_owned());
        }
    }
    Ok(matrix)
}

/// The number of cells that both have, and a line for each that differs or that one lacks.
/// nvidia-smi lists no NIC without RDMA.
pub(super) fn compare(
    ours: &Matrix,
    theirs: &Matrix,
    has_rdma: impl Fn(&str) -> bool,
) -> (usize, Vec<String>) {
    let (mut compared, mut different) = (0, Vec::new());
    for ((row, column), letters) in theirs {
        match ours.get(&(row.clone(), column.clone())) {
            Some(own) if own == letters => compared += 1,
            Some(own) => different.push(format!(
                "{row} to {column}: {own}, nvidia-smi says {letters}"
            )),
            None if row == column => different.push(format!("{row}: only nvidia-smi has it")),
            None => {}
        }
    }
    let only_ours = ours.keys().filter(|(row, column)| row == column);
    let only_ours = only_ours.filter(|(row, _)| row.starts_with("GPU") || has_rdma(row));
    let missing = only_ours.filter(|pair| !theirs.contains_key(pair));
    different.extend(missing.map(|(row, _)| format!("{row}: nvidia-smi does not have it")));
    (compared, different)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMI: &str = "\t\u{1b}[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\u{1b}[0m\n\
        GPU0\t X \tNV4\tPIX\t0-7\t0\n\
        GPU1\tNV4\t X \tSYS\t8-15\t1\n\
        NIC0\tPIX\tSYS\t X \t\t\n\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_bond_0\n";

    fn ours(letters: &str) -> String {
        serde_json::json!({
            "devices": [
                {"label": "GPU0", "kind": "gpu", "name": null},
                {"label": "GPU1", "kind": "gpu", "name": null},
                {"label": "NIC0", "kind": "nic", "name": "mlx5_bond_0"},
            ],
            "matrix": [["X", "NV4", letters], ["NV4", "X", "SYS"], [letters, "SYS", "X"]],
        })
        .to_string()
    }

    #[test]
    fn cells_are_compared_by_name() {
        let theirs = of_nvidia_smi(SMI).unwrap();
        assert_eq!(theirs.len(), 9);
        let same = compare(&of_topo(&ours("PIX")).unwrap(), &theirs, |_| true);
        assert_eq!(same, (9, Vec::new()));
        let (compared, different) = compare(&of_topo(&ours("NODE")).unwrap(), &theirs, |_| true);
        assert_eq!(compared, 7);
        assert_eq!(
            different[0],
            "GPU0 to mlx5_bond_0: NODE, nvidia-smi says PIX"
        );
    }

    #[test]
    fn devices_of_one_side_are_told() {
        let theirs = of_nvidia_smi(&SMI.replace("NIC0: mlx5_bond_0", "NIC0: mlx5_7")).unwrap();
        let (_, different) = compare(&of_topo(&ours("PIX")).unwrap(), &theirs, |_| true);
        assert_eq!(
            different,
            [
                "mlx5_7: only nvidia-smi has it",
                "mlx5_bond_0: nvidia-smi does not have it"
            ]
        );
        let (_, different) = compare(&of_topo(&ours("PIX")).unwrap(), &theirs, |_| false);
        assert_eq!(different, ["mlx5_7: only nvidia-smi has it"]);
        assert!(of_nvidia_smi("No devices were found").is_err());
    }
}
