//! The source text of the kernels.

/// The header files; each one includes only earlier ones.
const FILES: [(&str, &str); 10] = [
    ("arguments.h", include_str!("../../../kernels/arguments.h")),
    ("device.cuh", include_str!("../../../kernels/device.cuh")),
    ("element.cuh", include_str!("../../../kernels/element.cuh")),
    ("reduce.cuh", include_str!("../../../kernels/reduce.cuh")),
    ("block.cuh", include_str!("../../../kernels/block.cuh")),
    (
        "protocol_multicast.cuh",
        include_str!("../../../kernels/protocol_multicast.cuh"),
    ),
    (
        "protocol_simple.cuh",
        include_str!("../../../kernels/protocol_simple.cuh"),
    ),
    (
        "protocol_ll.cuh",
        include_str!("../../../kernels/protocol_ll.cuh"),
    ),
    (
        "protocol_ll128.cuh",
        include_str!("../../../kernels/protocol_ll128.cuh"),
    ),
    ("roles.cuh", include_str!("../../../kernels/roles.cuh")),
];

/// The file that defines the entries.
const MAIN: &str = include_str!("../../../kernels/execute_program.cu");

/// The file with the litmus kernels.
const LITMUS: &str = include_str!("../../../kernels/litmus.cu");

/// All kernels in one text: the run-time compiler gets no files to include.
pub fn text() -> String {
    whole(MAIN)
}

/// As [`text`], of the litmus kernels.
pub fn litmus() -> String {
    whole(LITMUS)
}

fn whole(main: &str) -> String {
    let mut known = Vec::new();
    let mut text = String::new();
    expand(main, &mut known, &mut text);
    text
}

fn expand(from: &str, known: &mut Vec<String>, to: &mut String) {
    for (number, line) in from.lines().enumerate() {
        let included = line
            .strip_prefix("#include \"")
            .and_then(|rest| rest.strip_suffix('"'));
        match included {
            // Host headers stay as `#include`: they are not for the device compiler.
            Some(file) if !file.starts_with("host/") => {
                if known.iter().any(|other| other == file) {
                    continue;
                }
                known.push(file.to_owned());
                let found = FILES.iter().find(|(name, _)| *name == file);
                if let Some((name, from)) = found {
                    to.push_str(&format!("#line 1 \"{name}\"\n"));
                    expand(from, known, to);
                    to.push_str(&format!("#line {} \"{name}\"\n", number + 2));
                }
            }
            _ if line == "#pragma once" => {}
            _ => {
                to.push_str(line);
                to.push('\n');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_there_once() {
        let text = text();
        for (name, _) in FILES {
            assert_eq!(
                text.matches(&format!("#line 1 \"{name}\"")).count(),
                1,
                "{name}"
            );
        }
        let includes = text.lines().filter(|line| line.starts_with("#include"));
        assert_eq!(
            includes.collect::<Vec<_>>(),
            ["#include \"host/device_host.h\""]
        );
        assert!(text.contains("TOPO_ELEMENTS(TOPO_ONE)"));
    }
}
