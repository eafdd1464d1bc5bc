//! What things cost of which only the sum was measured.

/// What is counted of one kind each, in their order.
pub(super) const KINDS: usize = 3;

/// Below this share of what was counted a difference is none: nobody can tell kinds apart that always come together.
const ALIKE: f64 = 1e-6;

/// Subsets of the kinds, a bit for each, in the order in which they are preferred where they explain as much.
const SUBSETS: [u8; 7] = [0b001, 0b010, 0b100, 0b011, 0b101, 0b110, 0b111];

/// What one of each kind costs, by the least squares over measurements of counts and the sum of their costs. Nothing costs less than
/// nothing, and what cannot be told from others costs nothing beside them.
pub(super) fn costs(measured: &[([f64; KINDS], f64)]) -> [f64; KINDS] {
    let total: f64 = measured.iter().map(|(_, sum)| sum * sum).sum();
    let (mut best, mut left_best) = ([0.0; KINDS], total);
    for subset in SUBSETS {
        let Some(costs) = solve(measured, subset).filter(|costs| costs.iter().all(|cost| *cost >= 0.0)) else {
            continue;
        };
        let left: f64 = measured
            .iter()
            .map(|(counts, sum)| (sum - sum_of(counts, &costs)).powi(2))
            .sum();
        if left < left_best - total * ALIKE {
            (best, left_best) = (costs, left);
        }
    }
    best
}

fn sum_of(counts: &[f64; KINDS], costs: &[f64; KINDS]) -> f64 {
    counts.iter().zip(costs).map(|(count, cost)| count * cost).sum()
}

/// The costs of these kinds that explain the sums best, where the others cost nothing. None if they cannot be told apart.
fn solve(measured: &[([f64; KINDS], f64)], subset: u8) -> Option<[f64; KINDS]> {
    let kinds: Vec<usize> = (0..KINDS).filter(|kind| subset & (1 << kind) != 0).collect();
    let products = |one: usize, other: usize| measured.iter().map(|(counts, _)| counts[one] * counts[other]).sum();
    let with_sums = |one: usize| measured.iter().map(|(counts, sum)| counts[one] * sum).sum();
    // The normal equations, a row for each kind with its right side behind it.
    let mut rows: Vec<Vec<f64>> = kinds
        .iter()
        .map(|one| {
            kinds
                .iter()
                .map(|other| products(*one, *other))
                .chain([with_sums(*one)])
                .collect()
        })
        .collect();
    for at in 0..rows.len() {
        let whole: f64 = products(kinds[at], kinds[at]);
        if rows[at][at] <= whole * ALIKE {
            return None;
        }
        let pivot = rows[at].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(other, _)| *other != at) {
            let factor = row[at] / pivot[at];
            row.iter_mut()
                .zip(&pivot)
                .for_each(|(own, of_pivot)| *own -= factor * of_pivot);
        }
    }
    let mut costs = [0.0; KINDS];
    for (at, kind) in kinds.iter().enumerate() {
        costs[*kind] = rows[at].last()? / rows[at][at];
    }
    Some(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(one: [f64; KINDS], other: [f64; KINDS]) {
        let is_near = one.iter().zip(other).all(|(one, other)| (one - other).abs() < 1e-6);
        assert!(is_near, "{one:?} {other:?}");
    }

    fn measured(counts: &[[f64; KINDS]], costs: [f64; KINDS]) -> Vec<([f64; KINDS], f64)> {
        counts.iter().map(|counts| (*counts, sum_of(counts, &costs))).collect()
    }

    #[test]
    fn costs_are_found_that_were_added_up() {
        let counts = [[1.0, 15.0, 0.1], [2.0, 15.0, 0.2], [3.0, 16.0, 0.5], [29.0, 15.0, 0.1]];
        near(costs(&measured(&counts, [25.0, 1.5, 200.0])), [25.0, 1.5, 200.0]);
        near(costs(&measured(&counts, [25.0, 0.0, 200.0])), [25.0, 0.0, 200.0]);
        near(costs(&measured(&counts, [25.0, 1.5, 0.0])), [25.0, 1.5, 0.0]);
    }

    #[test]
    fn what_always_comes_together_is_not_told_apart_and_nothing_costs_less_than_nothing() {
        let counts = [[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]];
        near(costs(&measured(&counts, [10.0, 0.0, 7.0])), [10.0, 0.0, 0.0]);
        let found = costs(&[([1.0, 2.0, 0.0], 10.0), ([2.0, 2.0, 1.0], 5.0)]);
        assert!(found.iter().all(|cost| *cost >= 0.0), "{found:?}");
        near(costs(&[]), [0.0; KINDS]);
    }
}
