//! Options of launches on GPUs, and what programs do with them: `topo run`, C, Rust, Python and
//! PyTorch alike. Each of them runs an all-reduce of two ranks in each case.

use std::path::Path;
use std::process::Command;

use crate::phantom::Phantom;

/// The machine.
pub const MACHINE: &str = "dgx-h100";

/// A variable or a setting of a plan, and its value.
type Setting = (&'static str, &'static str);

/// A case.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Variables of the environment.
    pub variables: &'static [Setting],
    /// The settings of the plan of the machine's first two GPUs that the ranks run; `None`: none.
    pub plan: Option<&'static [Setting]>,
    /// Functions of the driver that are called, of [`FUNCTIONS`]; others are not.
    calls: &'static [&'static str],
    /// Why ranks that are threads of a process are refused; `None`: they are processes.
    pub refused: Option<&'static str>,
}

/// Memory of another process by CUDA IPC, by a descriptor, host memory, and a multicast.
const FUNCTIONS: [&str; 4] = [IPC, DESCRIPTOR, HOST, MULTICAST];
const IPC: &str = "cuIpcOpenMemHandle_v2";
const DESCRIPTOR: &str = "cuMemImportFromShareableHandle";
const HOST: &str = "cuMemHostRegister_v2";
const MULTICAST: &str = "cuMulticastCreate";

const USUAL: Case = Case {
    variables: &[],
    plan: None,
    calls: &[IPC],
    refused: None,
};

/// NVLS from 1 KiB on.
const NVLS: Setting = ("NCCL_ALGO", "NVLS");
const NO_P2P: Setting = ("NCCL_P2P_DISABLE", "1");
const EMPTY: Setting = ("NCCL_P2P_DISABLE", "");
const NO_SHM: Setting = ("NCCL_SHM_DISABLE", "1");

/// All cases.
pub const CASES: [Case; 9] = [
    Case {
        variables: &[EMPTY],
        ..USUAL
    },
    Case {
        variables: &[NO_P2P],
        calls: &[HOST],
        ..USUAL
    },
    Case {
        variables: &[("NCCL_CUMEM_ENABLE", "1")],
        calls: &[DESCRIPTOR],
        ..USUAL
    },
    Case {
        plan: Some(&[NVLS]),
        calls: &[IPC, DESCRIPTOR, MULTICAST],
        ..USUAL
    },
    Case {
        // CUDA IPC shares no multicast.
        variables: &[("NCCL_CUMEM_ENABLE", "0")],
        plan: Some(&[NVLS]),
        calls: &[IPC],
        ..USUAL
    },
    Case {
        variables: &[EMPTY],
        plan: Some(&[NO_P2P]),
        calls: &[HOST],
        ..USUAL
    },
    Case {
        variables: &[("NCCL_P2P_DISABLE", "0")],
        plan: Some(&[NO_P2P, ("NCCL_NVLS_ENABLE", "0")]),
        ..USUAL
    },
    Case {
        variables: &[NO_P2P, NO_SHM],
        refused: Some("not SHM (NCCL_SHM_DISABLE is set)"),
        ..USUAL
    },
    Case {
        plan: Some(&[NO_P2P, NO_SHM]),
        refused: Some("not SHM (NCCL_SHM_DISABLE is set)"),
        ..USUAL
    },
];

impl Case {
    /// Runs a program on a phantom machine with the variables of this case. `run` gets a change of
    /// its commands, and returns whether it succeeded and what it said.
    ///
    /// # Panics
    /// It has done something else with the options.
    pub fn check(
        &self,
        libraries: &Path,
        run: impl FnOnce(&dyn Fn(&mut Command)) -> (bool, String),
    ) {
        let phantom = Phantom::new(libraries, MACHINE, &[]);
        let phantom = phantom.unwrap_or_else(|why| panic!("{self:?}: {why}"));
        let (succeeded, said) = run(&|command| {
            phantom.prepare(command);
            command.envs(self.variables.iter().copied());
        });
        let report = std::fs::read_to_string(phantom.path("report")).unwrap_or_default();
        if let Some(why) = self.refused {
            assert!(!succeeded && said.contains(why), "{self:?}: {said}");
            return;
        }
        assert!(succeeded, "{self:?}: {said}");
        for function in FUNCTIONS {
            let is_called = report.contains(&format!("call {function} "));
            let expected = self.calls.contains(&function);
            assert_eq!(is_called, expected, "{self:?}: {function}\n{report}");
        }
    }
}
