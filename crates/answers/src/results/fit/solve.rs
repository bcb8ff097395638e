//! Least squares: which columns data determine, and the step to better values.

/// Two columns are told apart if this share of a column's length is not in the span of the others.
const LEAST_APART: f64 = 0.02;

/// Columns whose squares sum to less have no influence.
const LEAST_INFLUENCE: f64 = 1e-6;

/// The verdict on a column before a fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// It is determined.
    Free,
    /// No measurement depends on it.
    WithoutInfluence,
    /// It cannot be told apart from the free columns, of which this one is most like it.
    Like(usize),
    /// It is determined only to this relative error.
    Weak(f64),
}

/// Judges columns (of logarithms of times by logarithms of constants) in order of `order`, then of
/// their influence. `noise` is the relative error of a time, `least` the relative error with
/// which a constant counts as determined.
pub(super) fn judge(columns: &[Vec<f64>], order: &[u8], noise: f64, least: f64) -> Vec<Verdict> {
    let mut verdicts = vec![Verdict::WithoutInfluence; columns.len()];
    let mut rest: Vec<Vec<f64>> = columns.to_vec();
    let mut basis: Vec<(usize, Vec<f64>)> = Vec::new();
    let mut left: Vec<usize> = (0..columns.len())
        .filter(|at| square(&columns[*at]) > LEAST_INFLUENCE)
        .collect();
    while !left.is_empty() {
        let first = left.iter().map(|at| order[*at]).min();
        let candidates = left.iter().copied().filter(|at| Some(order[*at]) == first);
        let Some(next) = candidates.max_by(|a, b| square(&rest[*a]).total_cmp(&square(&rest[*b])))
        else {
            break;
        };
        left.retain(|at| *at != next);
        let apart = square(&rest[next]).sqrt();
        let length = square(&columns[next]).sqrt();
        let error = noise / apart.max(f64::MIN_POSITIVE);
        if apart < LEAST_APART * length {
            let alike = |at: &(usize, Vec<f64>)| {
                dot(&columns[at.0], &columns[next]).abs() / square(&columns[at.0]).sqrt()
            };
            let nearest = basis.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)));
            verdicts[next] = nearest.map_or(Verdict::Weak(error), |it| Verdict::Like(it.0));
            continue;
        }
        if error > least {
            verdicts[next] = Verdict::Weak(error);
            continue;
        }
        verdicts[next] = Verdict::Free;
        let unit: Vec<f64> = rest[next].iter().map(|it| it / apart).collect();
        for at in &left {
            let along = dot(&rest[*at], &unit);
            for (value, unit) in rest[*at].iter_mut().zip(&unit) {
                *value -= along * unit;
            }
        }
        basis.push((next, unit));
    }
    verdicts
}

/// Solves (AᵀWA + damping · its diagonal) x = AᵀWb for columns A; `None` if they are dependent.
pub(super) fn step(
    columns: &[Vec<f64>],
    weights: &[f64],
    errors: &[f64],
    damping: f64,
) -> Option<Vec<f64>> {
    let mut matrix = normal(columns, weights);
    for (at, row) in matrix.iter_mut().enumerate() {
        row[at] *= 1.0 + damping;
    }
    let right: Vec<f64> = columns
        .iter()
        .map(|it| weighted(it, weights, errors))
        .collect();
    let lower = cholesky(matrix)?;
    Some(substitute(&lower, &right))
}

/// The standard errors of the solution for errors of size 1; infinite for a column without
/// influence.
pub(super) fn standard_errors(columns: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
    let used: Vec<usize> = (0..columns.len())
        .filter(|at| square(&columns[*at]) > LEAST_INFLUENCE)
        .collect();
    let some: Vec<Vec<f64>> = used.iter().map(|at| columns[*at].clone()).collect();
    let mut errors = vec![f64::INFINITY; columns.len()];
    if let Some(lower) = cholesky(normal(&some, weights)) {
        for (place, at) in used.iter().enumerate() {
            let mut unit = vec![0.0; used.len()];
            unit[place] = 1.0;
            errors[*at] = substitute(&lower, &unit)[place].max(0.0).sqrt();
        }
    }
    errors
}

fn normal(columns: &[Vec<f64>], weights: &[f64]) -> Vec<Vec<f64>> {
    let row = |one: &Vec<f64>| {
        columns
            .iter()
            .map(|other| weighted(one, weights, other))
            .collect()
    };
    columns.iter().map(row).collect()
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

fn square(column: &[f64]) -> f64 {
    dot(column, column)
}

fn weighted(one: &[f64], weights: &[f64], other: &[f64]) -> f64 {
    let products = one.iter().zip(weights).zip(other);
    products.map(|((a, w), b)| a * w * b).sum()
}

/// The lower triangle L with LLᵀ = matrix; `None` if the matrix is not positive.
fn cholesky(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    for at in 0..matrix.len() {
        for column in 0..=at {
            let before = dot(&matrix[at][..column], &matrix[column][..column]);
            let left = matrix[at][column] - before;
            if column < at {
                matrix[at][column] = left / matrix[column][column];
            } else if left > 0.0 && left.is_finite() {
                matrix[at][at] = left.sqrt();
            } else {
                return None;
            }
        }
    }
    Some(matrix)
}

fn substitute(lower: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let mut values = right.to_vec();
    for at in 0..values.len() {
        let before = dot(&lower[at][..at], &values[..at]);
        values[at] = (values[at] - before) / lower[at][at];
    }
    for at in (0..values.len()).rev() {
        let after: f64 = (at + 1..values.len())
            .map(|row| lower[row][at] * values[row])
            .sum();
        values[at] = (values[at] - after) / lower[at][at];
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equations_are_solved() {
        let columns = [vec![1.0, 1.0, 1.0], vec![0.0, 1.0, 2.0]];
        let solved = step(&columns, &[1.0; 3], &[1.0, 3.0, 5.0], 0.0).unwrap();
        assert!((solved[0] - 1.0).abs() < 1e-9 && (solved[1] - 2.0).abs() < 1e-9);
        assert!(step(&[vec![1.0], vec![2.0]], &[1.0], &[1.0], 0.0).is_none());
    }

    #[test]
    fn columns_that_say_the_same_are_told() {
        let columns = [
            vec![2.0, 2.0, 0.0],
            vec![1.0, 1.0, 0.0],
            vec![0.0, 0.0, 0.0],
            vec![0.0, 0.0, 1e-2],
        ];
        assert_eq!(
            judge(&columns, &[1, 0, 0, 0], 0.05, 0.25),
            [
                Verdict::Like(1),
                Verdict::Free,
                Verdict::WithoutInfluence,
                Verdict::Weak(5.0)
            ]
        );
    }
}
