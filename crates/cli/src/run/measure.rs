//! What each rank does: for every size, run and check, then run and time.

use anyhow::Result;
use backend_cpu::{Cpu, Profile};
use executor::check::{Check, Sample};
use executor::{Communicator, Request, Way};
use half::{bf16, f16};
use plan::ElementType;
use serde::Serialize;

use super::Spec;
use super::bench::Bench;
use super::choose::choose;
use super::survey::Survey;

/// What was measured of one placement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Timing {
    /// Time of a launch on the slowest rank, µs; the median of some batches, in a survey the least.
    pub time_us: f64,
    /// Wrong elements on all ranks; none if they were not checked.
    pub wrong: Option<u64>,
}

/// One size.
#[derive(Debug, Clone)]
pub struct Row {
    /// Bytes of the message.
    pub bytes: u64,
    /// Elements of a block.
    pub count: u64,
    /// How it was carried out.
    pub way: Way,
    /// How it was carried out in place.
    pub way_in_place: Option<Way>,
    /// With two buffers.
    pub separate: Timing,
    /// In place.
    pub in_place: Option<Timing>,
    /// Time that the cost profile predicts, µs.
    pub predicted_us: Option<f64>,
}

impl Row {
    /// Wrong elements.
    pub fn wrong(&self) -> u64 {
        let both = [Some(self.separate), self.in_place];
        both.into_iter().flatten().filter_map(|it| it.wrong).sum()
    }
}

/// Runs all sizes on one rank. All ranks get the same rows.
pub fn sweep(
    communicator: &mut Communicator<Cpu>,
    spec: &Spec,
    profile: &Profile,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Row>> {
    match spec.element()? {
        ElementType::I8 => of_type::<i8>(communicator, spec, profile, progress),
        ElementType::U8 => of_type::<u8>(communicator, spec, profile, progress),
        ElementType::I32 => of_type::<i32>(communicator, spec, profile, progress),
        ElementType::U32 => of_type::<u32>(communicator, spec, profile, progress),
        ElementType::I64 => of_type::<i64>(communicator, spec, profile, progress),
        ElementType::U64 => of_type::<u64>(communicator, spec, profile, progress),
        ElementType::F16 => of_type::<f16>(communicator, spec, profile, progress),
        ElementType::Bf16 => of_type::<bf16>(communicator, spec, profile, progress),
        ElementType::F32 => of_type::<f32>(communicator, spec, profile, progress),
        ElementType::F64 => of_type::<f64>(communicator, spec, profile, progress),
    }
}

fn of_type<T: Sample>(
    communicator: &mut Communicator<Cpu>,
    spec: &Spec,
    profile: &Profile,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Row>> {
    let rank = communicator.rank();
    let reduction = spec.reduction()?;
    let check = |bytes: u64| {
        let blocks = if spec.collective.splits_message() {
            u64::from(spec.ranks)
        } else {
            1
        };
        let count = (bytes / size_of::<T>() as u64 / blocks).max(1);
        Check {
            collective: spec.collective,
            reduction,
            ranks: spec.ranks,
            root: spec.root,
            count: usize::try_from(count).unwrap_or(usize::MAX),
            seed: bytes,
        }
    };
    let largest = check(spec.sizes.iter().copied().max().unwrap_or(1));
    let most_output = largest.output_elements(rank).max(largest.in_place(rank).0);
    let mut bench = Bench {
        input: communicator.buffer::<T>(largest.input_elements(rank))?,
        output: communicator.buffer::<T>(most_output)?,
        communicator,
        spec,
    };
    let mut rows = Vec::with_capacity(spec.sizes.len());
    let mut survey = Survey::default();
    for bytes in &spec.sizes {
        progress(*bytes);
        let check = check(*bytes);
        let mut request = Request {
            collective: spec.collective,
            element: T::TYPE,
            reduction,
            root: spec.root,
            to: 0,
            in_place: false,
            count: check.count as u64,
            way: None,
        };
        if spec.survey {
            rows.extend(survey.size(&mut bench, &request, &check)?);
            continue;
        }
        let way = choose(bench.communicator, spec, profile, &request)?;
        let predicted_us = profile.predict(&request, &way, bench.communicator.neighbourhood()?);
        let separate = bench.separate(&check, way)?;
        let (mut way_in_place, mut in_place) = (None, None);
        if spec.in_place {
            request.in_place = true;
            // What does not exist in place is left out, unless it was chosen freely.
            if let Ok(way) = choose(bench.communicator, spec, profile, &request) {
                way_in_place = Some(way);
                in_place = Some(bench.in_place(&check, way)?);
            }
        }
        rows.push(Row {
            bytes: request.bytes(spec.ranks),
            count: request.count,
            way,
            way_in_place,
            separate,
            in_place,
            predicted_us,
        });
    }
    Ok(rows)
}
