//! The speed of reducing and copying sources: `cargo bench -p backend-cpu`.
//!
//! Rates are bytes of one operand per second.

use backend_cpu::reduce::{Reduce, ReduceStep, Vectors, copy};
use divan::Bencher;
use divan::counter::BytesCount;
use program::{ElementType, Reduction};

fn main() {
    divan::main();
}

const SIZES: [usize; 4] = [64, 16 << 10, 1 << 20, 64 << 20];

/// Memory of its own pages, touched.
fn memory(bytes: usize) -> Vec<u8> {
    vec![1; bytes]
}

fn sum(bencher: Bencher<'_, '_>, element: ElementType, sources: usize, bytes: usize, stream: u8) {
    let reduce = Reduce::new(Reduction::Sum, element, 0, 2);
    let inputs: Vec<Vec<u8>> = (0..sources).map(|_| memory(bytes)).collect();
    let inputs: Vec<*const u8> = inputs.iter().map(|input| input.as_ptr()).collect();
    run(bencher, &reduce, &inputs, bytes, element, stream);
}

fn run(
    bencher: Bencher<'_, '_>,
    reduce: &Reduce,
    inputs: &[*const u8],
    bytes: usize,
    element: ElementType,
    stream: u8,
) {
    let mut output = memory(bytes);
    let step = ReduceStep {
        destinations: &[output.as_mut_ptr()],
        sources: inputs,
        elements: bytes / element.bytes() as usize,
        pre_multiply: 0,
        finish: true,
        stream,
    };
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        // SAFETY: all memory is `bytes` long and stays until the end.
        unsafe { reduce.run(&step) };
    });
}

#[divan::bench(args = SIZES)]
fn two_f32(bencher: Bencher<'_, '_>, bytes: usize) {
    sum(bencher, ElementType::F32, 2, bytes, 0);
}

#[divan::bench(args = SIZES)]
fn two_f32_past_the_caches(bencher: Bencher<'_, '_>, bytes: usize) {
    sum(bencher, ElementType::F32, 2, bytes, 1);
}

#[divan::bench(args = SIZES)]
fn four_f32(bencher: Bencher<'_, '_>, bytes: usize) {
    sum(bencher, ElementType::F32, 4, bytes, 0);
}

#[divan::bench(args = SIZES)]
fn two_f16(bencher: Bencher<'_, '_>, bytes: usize) {
    sum(bencher, ElementType::F16, 2, bytes, 0);
}

#[divan::bench(args = SIZES)]
fn two_bf16(bencher: Bencher<'_, '_>, bytes: usize) {
    sum(bencher, ElementType::Bf16, 2, bytes, 0);
}

#[divan::bench(args = SIZES)]
fn two_i8(bencher: Bencher<'_, '_>, bytes: usize) {
    sum(bencher, ElementType::I8, 2, bytes, 0);
}

/// Every type's sum, average and minimum of two in the second cache.
#[divan::bench(args = ElementType::ALL)]
fn sum_16_kib(bencher: Bencher<'_, '_>, element: ElementType) {
    of_operation(bencher, element, Reduction::Sum, Vectors::best());
}

#[divan::bench(args = ElementType::ALL)]
fn average_of_three_16_kib(bencher: Bencher<'_, '_>, element: ElementType) {
    of_operation(bencher, element, Reduction::Average, Vectors::best());
}

#[divan::bench(args = ElementType::ALL)]
fn minimum_16_kib(bencher: Bencher<'_, '_>, element: ElementType) {
    of_operation(bencher, element, Reduction::Minimum, Vectors::best());
}

#[divan::bench(args = ElementType::ALL)]
fn sum_16_kib_basic_vectors(bencher: Bencher<'_, '_>, element: ElementType) {
    of_operation(bencher, element, Reduction::Sum, Vectors::Basic);
}

fn of_operation(
    bencher: Bencher<'_, '_>,
    element: ElementType,
    operation: Reduction,
    vectors: Vectors,
) {
    let bytes = 16 << 10;
    let reduce = Reduce::with_vectors(operation, element, 0, 3, vectors);
    let inputs = [memory(bytes), memory(bytes)];
    let inputs = [inputs[0].as_ptr(), inputs[1].as_ptr()];
    run(bencher, &reduce, &inputs, bytes, element, 0);
}

fn copying(bencher: Bencher<'_, '_>, bytes: usize, part: usize, stream: bool) {
    let source = memory(bytes);
    let mut destination = memory(bytes);
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        for start in (0..bytes).step_by(part) {
            let length = part.min(bytes - start);
            // SAFETY: the range is within both.
            unsafe {
                let (to, from) = (
                    destination.as_mut_ptr().add(start),
                    source.as_ptr().add(start),
                );
                copy(to, from, length, stream);
            }
        }
    });
}

/// In parts, as programs copy.
const PART: usize = 256 << 10;

#[divan::bench(args = SIZES)]
fn copy_in_parts(bencher: Bencher<'_, '_>, bytes: usize) {
    copying(bencher, bytes, PART, false);
}

#[divan::bench(args = SIZES)]
fn copy_in_parts_past_the_caches(bencher: Bencher<'_, '_>, bytes: usize) {
    copying(bencher, bytes, PART, true);
}

#[divan::bench(args = SIZES)]
fn copy_whole(bencher: Bencher<'_, '_>, bytes: usize) {
    copying(bencher, bytes, bytes, false);
}
