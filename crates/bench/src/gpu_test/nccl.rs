//! NCCL with all ranks on one GPU, beside this program's ranks there.

use crate::cuda;
use anyhow::{Context, Result, anyhow};
use backend_cuda::nccl::{Nccl, NcclCall};
use device_runtime::{DeviceBuffer, DeviceDriver};
use executor::Settings;
use executor::check::Check;
use program::{Collective, Reduction};

use crate::gpu_test::GpuTestQuestion;
use crate::gpu_test::one_gpu::{COLLECTIVES, NO_NCCL, Times, lengths};
use crate::gpu_test::report::Figure;

/// Measures NCCL's figures for a number of ranks, without the bound.
///
/// # Errors
/// The GPU or the library cannot be opened.
pub(crate) fn measure(count: u32, options: &GpuTestQuestion) -> Result<Times> {
    let path = options.nccl_library.as_ref().context(NO_NCCL)?;
    let opened = cuda::open_on_first(1, &Settings::default())?;
    let driver = &opened.process_ranks.driver;
    let nccl = Nccl::open(driver, path, count).map_err(|why| anyhow!(why))?;
    let mut times = Times::default();
    let mut all = || -> Result<()> {
        let allocate = || DeviceBuffer::new(driver, 0, options.end).map_err(|why| anyhow!(why));
        let buffers: Result<Vec<[DeviceBuffer<_>; 2]>> =
            (0..count).map(|_| Ok([allocate()?, allocate()?])).collect();
        let buffers = buffers?;
        let mut limits = cuda::TimingLimits {
            warm: options.warm_up(),
            ..cuda::TimingLimits::default()
        };
        for collective in COLLECTIVES {
            for bytes in lengths(options.end) {
                let what = || {
                    let name = collective.command_name();
                    format!("{name} by NCCL {}, {bytes} bytes", nccl.version)
                };
                let check = Check {
                    collective,
                    reduction: Reduction::Sum,
                    ranks: count,
                    root: 0,
                    count: (bytes / 4 / collective.blocks(count)) as usize,
                    seed: bytes,
                };
                let ranks = Ranks {
                    driver,
                    nccl: &nccl,
                    buffers: &buffers,
                };
                let (time_us, wrong) = ranks.figure(&check, &limits).with_context(what)?;
                limits.warm = std::time::Duration::ZERO;
                if wrong > 0 {
                    return Err(anyhow!("{}: {wrong} wrong elements", what()));
                }
                times.figures.push(Figure {
                    gpus: 1,
                    ranks: count,
                    ranks_are: "threads".to_owned(),
                    collective: collective.command_name().to_owned(),
                    variant: format!("NCCL {}", nccl.version),
                    bytes,
                    time_us,
                    bus_bandwidth_gbps: None,
                    bound_us: None,
                });
            }
        }
        Ok(())
    };
    let ended = all();
    times.problem = ended.err().map(|why| format!("{why:#}"));
    Ok(times)
}

/// All ranks, which this thread enqueues.
struct Ranks<'a> {
    driver: &'a backend_cuda::Cuda,
    nccl: &'a Nccl,
    /// Input and output of each rank.
    buffers: &'a [[DeviceBuffer<backend_cuda::Cuda>; 2]],
}

impl Ranks<'_> {
    /// The time of a launch, µs, and the number of wrong elements of all ranks after the last one.
    fn figure(&self, check: &Check, limits: &cuda::TimingLimits) -> Result<(f64, usize)> {
        let failed = |why: String| anyhow!(why);
        for (rank, [from, to]) in (0..).zip(self.buffers) {
            let mut input = vec![0.0_f32; check.input_elements(rank)];
            check.fill(rank, 0, &mut input);
            // No result of an earlier launch may pass as one of these.
            let output = vec![f32::NAN; check.output_elements(rank)];
            for (buffer, values) in [(from, &input), (to, &output)] {
                let bytes = bytemuck::cast_slice(values);
                let written = self.driver.write(0, buffer.address(), bytes);
                written.map_err(failed)?;
            }
        }
        let call = match check.collective {
            Collective::AllReduce => NcclCall::AllReduce,
            Collective::AllGather => NcclCall::AllGather,
            Collective::Broadcast => NcclCall::Broadcast,
            other => return Err(anyhow!("{} is not timed", other.command_name())),
        };
        let time_us = cuda::repeat(limits, &mut |times| {
            let timed = self.nccl.time(call, self.buffers, check.count, times);
            timed.map_err(failed)
        })?;
        let mut wrong = 0;
        for (rank, [_, to]) in (0..).zip(self.buffers) {
            let mut output = vec![0.0_f32; check.output_elements(rank)];
            let bytes = bytemuck::cast_slice_mut(&mut output);
            self.driver.read(0, to.address(), bytes).map_err(failed)?;
            wrong += check.wrong(rank, &output);
        }
        Ok((time_us, wrong))
    }
}
