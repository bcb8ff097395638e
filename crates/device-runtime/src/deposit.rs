//! The deposit of a rank: its programs with the addresses of this launch.

use executor::backend::Part;

use crate::backend::{DeviceProgram, Kernels};
use crate::driver::{DeviceDriver, LaunchMemory};
use crate::entry::Kernel;
use crate::gang::Deposit;
use crate::launch::Launcher;
use crate::layout::LaunchPart;

impl<M: DeviceDriver> Kernels<M> {
    pub(crate) fn launcher(&self) -> Launcher<'_, M> {
        Launcher {
            shared: &self.shared,
            rank: self.rank,
            proxy_bells: &self.connected.proxy_bells,
        }
    }

    /// A deposit without parts.
    pub(crate) fn deposit(&self, stream: Option<u64>) -> Deposit {
        Deposit {
            rank: self.rank,
            peers: Vec::new(),
            device: self.device(),
            kernel: Kernel::Move,
            parts: Vec::new(),
            remote: Vec::new(),
            uses_network: false,
            stream,
            before: Vec::new(),
            after: Vec::new(),
        }
    }

    /// Address of the staging buffers in the window, if other processes access them.
    pub(crate) fn window_buffers(&self, program: &DeviceProgram<M>) -> Option<u64> {
        let scratch_bytes = program.window_scratch?;
        self.connected.buffer_tables.behind_scratch(scratch_bytes)
    }

    /// What is subtracted from the addresses of buffers in the window, or of those that only this
    /// process accesses.
    fn window_origins(&self, program: &DeviceProgram<M>) -> [u64; 2] {
        let window = self.connected.buffer_tables.window;
        let window = window.filter(|_| program.window_scratch.is_some());
        [window.map_or(0, |(address, _)| address); 2]
    }

    /// What is subtracted from the addresses of the buffers of a launch in the buffer table.
    pub(crate) fn origins(
        &self,
        part: &Part<'_, DeviceProgram<M>>,
        own: &LaunchMemory<M::Block>,
    ) -> [u64; 2] {
        let memory = &part.memory;
        match part.program.registered {
            true => self.registered_places(own, (memory.input_bytes(), memory.output_bytes())),
            false => self.window_origins(part.program),
        }
    }

    /// Adds a program to a deposit, with its buffers and what is subtracted from their addresses in
    /// the buffer table.
    pub(crate) fn add_part(
        &self,
        deposit: &mut Deposit,
        part: &Part<'_, DeviceProgram<M>>,
        (own, [input, output]): (&LaunchMemory<M::Block>, [u64; 2]),
        launch: u64,
    ) {
        let program = &part.program;
        let window = self.connected.buffer_tables.window;
        let window = window.filter(|_| program.window_scratch.is_some());
        let window = window.map(|(address, _)| address);
        let of_rank = self.scratch.as_ref().map_or(0, |(_, address)| *address);
        let scratch = program.scratch.or(window).unwrap_or(of_rank);
        let buffer_table = self.connected.buffer_tables.own;
        deposit.kernel = program.kernel;
        deposit.remote.extend(&program.remote);
        deposit.uses_network |= program.uses_network;
        deposit.parts.push(LaunchPart {
            buffers: [own.input, own.output, scratch],
            buffer_table: buffer_table
                .filter(|_| program.direct || program.registered)
                .unwrap_or_default(),
            launch,
            scalar: part.scalar,
            origins: [input, output, window.unwrap_or(0)],
            ..program.part
        });
        deposit.peers.extend(&program.peers);
    }
}
