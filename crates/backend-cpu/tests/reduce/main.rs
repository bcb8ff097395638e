//! Every type, operation, and number of sources and destinations, against a plain reference.

mod reference;

use std::process::ExitCode;

use backend_cpu::reduce::{Reduce, ReduceStep, Vectors, copy};
use half::{bf16, f16};
use libtest_mimic::{Arguments, Completion, Trial};
use program::{ElementType, Reduction};
use proptest::prelude::*;
use reference::reference;

/// The work of one step, in numbers.
#[derive(Debug, Clone)]
struct Case {
    operation: Reduction,
    element: ElementType,
    sources: usize,
    destinations: usize,
    elements: usize,
    /// Offset of each place from an aligned address, bytes.
    misaligned: usize,
    /// The destination that is this source.
    alias: Option<(usize, usize)>,
    pre_multiply: u8,
    finish: bool,
    stream: u8,
    factor: u64,
    ranks: u32,
}

/// Random bytes that hold the odd values of floats too: tiny, huge, infinite, NaN.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..bytes).map(|_| (next() >> 32) as u8).collect()
}

fn check(case: &Case, vectors: Vectors) {
    let size = case.element.bytes() as usize;
    let bytes = case.elements * size;
    let room = 64 + bytes + 64;
    let guard = 0xa5;
    let mut places: Vec<Vec<u8>> = (0..case.sources + case.destinations)
        .map(|place| {
            let mut memory = vec![guard; room + 64];
            let start = start_of(&memory, case.misaligned);
            if place < case.sources {
                let data = noise(place as u64 + 7 * case.elements as u64, bytes);
                memory[start..start + bytes].copy_from_slice(&data);
            }
            memory
        })
        .collect();
    let starts: Vec<usize> = places
        .iter()
        .map(|place| start_of(place, case.misaligned))
        .collect();
    let inputs: Vec<Vec<u8>> = (0..case.sources)
        .map(|source| places[source][starts[source]..][..bytes].to_vec())
        .collect();
    let expected = reference(case, &inputs);
    let sources: Vec<*const u8> = (0..case.sources)
        .map(|source| places[source][starts[source]..].as_ptr())
        .collect();
    let destinations: Vec<*mut u8> = (0..case.destinations)
        .map(|index| match case.alias {
            Some((destination, source)) if destination == index => sources[source].cast_mut(),
            _ => {
                let place = case.sources + index;
                places[place][starts[place]..].as_mut_ptr()
            }
        })
        .collect();
    let reduce = Reduce::with_vectors(
        case.operation,
        case.element,
        case.factor,
        case.ranks,
        vectors,
    );
    let step = ReduceStep {
        destinations: &destinations,
        sources: &sources,
        elements: case.elements,
        pre_multiply: case.pre_multiply,
        finish: case.finish,
        stream: case.stream,
    };
    // SAFETY: every place has room for the elements.
    unsafe { reduce.run(&step) };
    for index in 0..case.destinations {
        let place = match case.alias {
            Some((destination, source)) if destination == index => source,
            _ => case.sources + index,
        };
        let (before, rest) = places[place].split_at(starts[place]);
        let (found, after) = rest.split_at(bytes);
        assert!(
            before.iter().chain(after).all(|&byte| byte == guard),
            "outside: {case:?}"
        );
        for element in 0..case.elements {
            let range = element * size..(element + 1) * size;
            let (found, expected) = (&found[range.clone()], &expected[range]);
            assert!(
                found == expected || is_nan(case.element, found) && is_nan(case.element, expected),
                "element {element}: {found:?} is not {expected:?}; {vectors:?} {case:?}"
            );
        }
    }
    for (source, input) in inputs.iter().enumerate() {
        if case.alias.is_none_or(|(_, aliased)| aliased != source) {
            assert!(
                places[source][starts[source]..][..bytes] == *input,
                "source: {case:?}"
            );
        }
    }
}

/// Where in this memory a place begins that is so many bytes past an aligned one.
fn start_of(memory: &[u8], misaligned: usize) -> usize {
    memory.as_ptr().align_offset(64) + misaligned
}

fn is_nan(element: ElementType, bytes: &[u8]) -> bool {
    match element {
        ElementType::F16 => f16::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        ElementType::Bf16 => bf16::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        ElementType::F32 => f32::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        ElementType::F64 => f64::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        _ => false,
    }
}

/// An element of the type with the value 3, as a factor.
fn factor_of(element: ElementType) -> u64 {
    match element {
        ElementType::F16 => u64::from(f16::from_f32(3.0).to_bits()),
        ElementType::Bf16 => u64::from(bf16::from_f32(3.0).to_bits()),
        ElementType::F32 => u64::from(3f32.to_bits()),
        ElementType::F64 => 3f64.to_bits(),
        _ => 3,
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let whole: [(&str, fn()); 3] = [
        ("a_number_beats_nan", a_number_beats_nan),
        (
            "a_step_without_sources_is_refused",
            a_step_without_sources_is_refused,
        ),
        ("copies_are_equal", copies_are_equal),
    ];
    let whole = whole.into_iter().map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    let mut trials: Vec<Trial> = whole.collect();
    type Test = fn(Vectors);
    let by_vectors: [(&str, Test); 3] = [
        (
            "every_type_operation_and_number_of_operands_is_right",
            every_type_operation_and_number_of_operands_is_right,
        ),
        (
            "integer_averages_are_rounded_towards_zero",
            integer_averages_are_rounded_towards_zero,
        ),
        (
            "all_16_bit_floats_are_converted",
            all_16_bit_floats_are_converted,
        ),
    ];
    for (name, test) in by_vectors {
        for vectors in Vectors::ALL {
            trials.push(Trial::ignorable_test(
                format!("{name}::{vectors:?}"),
                move || {
                    if !vectors.are_here() {
                        return Ok(Completion::ignored_with("not run: this processor has none"));
                    }
                    test(vectors);
                    Ok(Completion::Completed)
                },
            ));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn every_type_operation_and_number_of_operands_is_right(vectors: Vectors) {
    let lengths = [
        0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 130, 257, 4999,
    ];
    let mut number = Vectors::ALL.iter().take_while(|it| **it != vectors).count();
    for element in ElementType::ALL {
        for operation in Reduction::ALL.into_iter().filter(|it| it.suits(element)) {
            for sources in 1..=4 {
                for destinations in 1..=4 {
                    for elements in lengths {
                        number += 1;
                        // One of all vectors in turn. More than a block takes time, and is the same
                        // for most.
                        let turn = number % Vectors::ALL.len() != 0;
                        if turn || elements > 4096 && number % 7 != 0 {
                            continue;
                        }
                        let case = Case {
                            operation,
                            element,
                            sources,
                            destinations,
                            elements,
                            misaligned: [0, 1, 8, 33][number % 4],
                            alias: (number % 3 == 0)
                                .then_some((number % destinations, number % sources)),
                            pre_multiply: (number % 16) as u8 & ((1 << sources) - 1),
                            finish: number % 5 < 2,
                            stream: if number % 7 < 3 {
                                (number % 16) as u8
                            } else {
                                0
                            },
                            factor: factor_of(element),
                            ranks: [1, 2, 3, 7, 100][number % 5],
                        };
                        check(&case, vectors);
                    }
                }
            }
        }
    }
}

/// All quotients of a byte by all numbers of ranks that matter, and the edges of wider integers.
fn integer_averages_are_rounded_towards_zero(vectors: Vectors) {
    for ranks in 1..=256_u32 {
        let reduce = Reduce::with_vectors(Reduction::Average, ElementType::I8, 0, ranks, vectors);
        let input: Vec<i8> = (i8::MIN..=i8::MAX).collect();
        let mut output = input.clone();
        average(&reduce, &input, &mut output);
        let expected: Vec<i8> = input
            .iter()
            .map(|&value| (i32::from(value) / ranks as i32) as i8)
            .collect();
        assert_eq!(output, expected, "{ranks} ranks");
    }
    for ranks in [1, 2, 3, 7, 1 << 16, u32::MAX] {
        let edges = (0..32).flat_map(|bit| [-1, 0, 1].map(|past| (1_i64 << bit) + past));
        let near = edges.chain([i64::from(ranks) * 3 - 1, i64::from(ranks) * 3]);
        let near: Vec<i64> = near.flat_map(|value| [value, -value]).collect();
        let input: Vec<i32> = near.iter().map(|&value| value as i32).collect();
        let mut output = input.clone();
        let reduce = Reduce::with_vectors(Reduction::Average, ElementType::I32, 0, ranks, vectors);
        average(&reduce, &input, &mut output);
        for (&value, found) in input.iter().zip(output) {
            assert_eq!(i64::from(found), i64::from(value) / i64::from(ranks));
        }
        let input: Vec<u32> = near.iter().map(|&value| value as u32).collect();
        let mut output = input.clone();
        let reduce = Reduce::with_vectors(Reduction::Average, ElementType::U32, 0, ranks, vectors);
        average(&reduce, &input, &mut output);
        for (value, found) in input.into_iter().zip(output) {
            assert_eq!(found, value / ranks);
        }
    }
}

fn average<T>(reduce: &Reduce, input: &[T], output: &mut [T]) {
    let step = ReduceStep {
        destinations: &[output.as_mut_ptr().cast()],
        sources: &[input.as_ptr().cast()],
        elements: input.len(),
        pre_multiply: 0,
        finish: true,
        stream: 0,
    };
    // SAFETY: both are as long.
    unsafe { reduce.run(&step) };
}

/// Every 16-bit float comes back from an operation that changes nothing, and every sum is rounded
/// as `half` rounds.
fn all_16_bit_floats_are_converted(vectors: Vectors) {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    for element in [ElementType::F16, ElementType::Bf16] {
        for shift in [0_u16, 1, 0x101, 0x3c00, 0x4248, 0x8001] {
            let others: Vec<u16> = all
                .iter()
                .map(|bits| bits.wrapping_mul(3) ^ shift)
                .collect();
            let mut output = vec![0_u16; all.len()];
            let step = ReduceStep {
                destinations: &[output.as_mut_ptr().cast()],
                sources: &[all.as_ptr().cast(), others.as_ptr().cast()],
                elements: all.len(),
                pre_multiply: 0,
                finish: false,
                stream: 0,
            };
            // SAFETY: all are as long.
            unsafe { Reduce::with_vectors(Reduction::Sum, element, 0, 1, vectors).run(&step) };
            for ((&one, &other), found) in all.iter().zip(&others).zip(output) {
                let (nan, expected) = match element {
                    ElementType::F16 => {
                        let sum = f16::from_bits(one).to_f32() + f16::from_bits(other).to_f32();
                        (
                            f16::from_bits(found).is_nan() && sum.is_nan(),
                            f16::from_f32(sum).to_bits(),
                        )
                    }
                    _ => {
                        let sum = bf16::from_bits(one).to_f32() + bf16::from_bits(other).to_f32();
                        (
                            bf16::from_bits(found).is_nan() && sum.is_nan(),
                            bf16::from_f32(sum).to_bits(),
                        )
                    }
                };
                assert!(
                    nan || found == expected,
                    "{element}: {one:#x} + {other:#x}: {found:#x}"
                );
            }
        }
    }
}

fn a_number_beats_nan() {
    for (operation, expected) in [(Reduction::Minimum, -1.0), (Reduction::Maximum, 2.0_f32)] {
        let inputs = [
            [f32::NAN, 2.0, f32::NAN],
            [-1.0, f32::NAN, f32::NAN],
            [2.0, -1.0, f32::NAN],
        ];
        let mut output = [0_f32; 3];
        let step = ReduceStep {
            destinations: &[output.as_mut_ptr().cast()],
            sources: &inputs.each_ref().map(|input| input.as_ptr().cast()),
            elements: 3,
            pre_multiply: 0,
            finish: true,
            stream: 0,
        };
        // SAFETY: all are three long.
        unsafe { Reduce::new(operation, ElementType::F32, 0, 3).run(&step) };
        assert_eq!(output[..2], [expected; 2]);
        assert!(output[2].is_nan());
    }
}

fn a_step_without_sources_is_refused() {
    let mut output = [0_u8; 4];
    let step = ReduceStep {
        destinations: &[output.as_mut_ptr()],
        sources: &[],
        elements: 1,
        pre_multiply: 0,
        finish: false,
        stream: 0,
    };
    let reduce = Reduce::new(Reduction::Sum, ElementType::F32, 0, 1);
    // SAFETY: it is refused.
    let run = std::panic::AssertUnwindSafe(|| unsafe { reduce.run(&step) });
    let refused = std::panic::catch_unwind(run).expect_err("a panic");
    let text = refused.downcast_ref::<&str>().expect("a text");
    assert!(text.contains("number of sources"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    fn copies_are_equal(bytes in 0..5000_usize, to in 0..64_usize, from in 0..64_usize, stream: bool) {
        let source = noise(bytes as u64, from + bytes);
        let mut destination = vec![0xa5; to + bytes + 64];
        // SAFETY: both have room.
        unsafe {
            let (to, from) = (destination.as_mut_ptr().add(to), source.as_ptr().add(from));
            copy(to, from, bytes, stream);
        }
        prop_assert_eq!(&destination[to..to + bytes], &source[from..]);
        prop_assert!(destination[..to].iter().chain(&destination[to + bytes..]).all(|&byte| byte == 0xa5));
    }
}
