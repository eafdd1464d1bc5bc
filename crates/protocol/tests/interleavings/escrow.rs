//! Every interleaving of transactions that add and take under limits: escrow (rules E-1 to E-5).

use super::world::Op::*;
use super::world::{Figures, Op, all_policies, explore, explore_all, replay};
use rubato_protocol::Policies;

fn plainly(programs: &[&[Op]]) -> Figures {
    explore_all(programs, &[1]);
    explore(programs, &[1], Policies::default())
}

#[test]
fn sums_that_fit_in_any_case_neither_wait_nor_abort() {
    let figures = plainly(&[&[Within(1, -30), C], &[Within(1, -30), C], &[Within(1, -30), C]]);
    assert_eq!((figures.aborting, figures.refused, figures.waiting), (0, 0, 0));
    let figures = plainly(&[
        &[Within(1, -30), Within(1, -20), C],
        &[Within(1, 50), C],
        &[R(1), R(1), C],
    ]);
    assert_eq!((figures.aborting, figures.refused, figures.waiting), (0, 0, 0));
}

#[test]
fn of_two_that_take_more_than_there_is_one_is_refused_in_either_order() {
    let figures = plainly(&[&[Within(1, -60), C], &[Within(1, -60), C]]);
    assert_eq!((figures.aborting, figures.refused), (0, figures.orders));
    assert_eq!(figures.commits, figures.orders, "one of the two sells, always");
    assert!(figures.waiting > 0, "the second waits to see what the first does");
    let figures = plainly(&[&[Within(1, 40), C], &[Within(1, 40), C]]);
    assert_eq!((figures.aborting, figures.refused), (0, figures.orders));
    assert_eq!(figures.commits, figures.orders, "there is an upper limit too");
    // Nobody counts on what somebody else may still take back.
    plainly(&[&[Within(1, -60), C], &[Within(1, 40), C], &[Within(1, -60), C]]);
    plainly(&[&[Within(1, -60), C], &[Within(1, 40), Rollback], &[Within(1, -60), C]]);
}

#[test]
fn what_is_rolled_back_gives_its_share_back() {
    let figures = plainly(&[&[Within(1, -60), Rollback], &[Within(1, -60), C]]);
    assert_eq!(figures.aborting, 0);
    assert_eq!(figures.commits, figures.orders, "the second sells in any case");
    let figures = plainly(&[&[Save, Within(1, -60), Back, C], &[Within(1, -60), C]]);
    assert_eq!(figures.aborting, 0);
    // Only he who comes after the other has sold is refused.
    assert_eq!(figures.commits + figures.refused, 2 * figures.orders);
    plainly(&[
        &[Save, Within(1, -60), Back, Within(1, -50), C],
        &[Within(1, -50), C],
        &[Within(1, -10), C],
    ]);
}

/// What was told of a statement that was undone holds where its transaction comes to stand: not at a snapshot before it.
#[test]
fn what_is_undone_has_kept_the_limits_where_its_transaction_stands() {
    plainly(&[&[Save, R(1), Within(1, 60), Back, C], &[Within(1, -60), C]]);
    plainly(&[
        &[R(2), Save, Within(1, 60), Back, R(2), C],
        &[Within(1, -60), Set(2, 5), C],
    ]);
    plainly(&[&[Save, R(1), Grow(1, 2), Back, C], &[Within(1, -60), C]]);
}

#[test]
fn assignments_and_sums_keep_the_limits_together() {
    plainly(&[&[Within(1, -80), C], &[Put(1, 5), C]]);
    plainly(&[&[Within(1, -80), C], &[Put(1, 5), C], &[Within(1, -5), C]]);
    plainly(&[&[Within(1, -80), C], &[Put(1, 5), Rollback], &[Put(1, 120), C]]);
}

#[test]
fn an_ordered_writer_is_neither_slipped_past_nor_starved() {
    plainly(&[&[WithinShown(1, -60), C], &[Within(1, -60), C], &[Within(1, -30), C]]);
    plainly(&[&[L(1), Put(1, 5), C], &[Within(1, -60), C], &[Within(1, -30), C]]);
    plainly(&[
        &[L(1), WithinShown(1, -90), C],
        &[Within(1, -20), C],
        &[Within(1, -20), C],
    ]);
    // The place was taken for another column, and the sum let through behind it.
    plainly(&[&[Stand(1), Put(1, 5), C], &[Within(1, -60), C], &[Within(1, -30), C]]);
    plainly(&[&[Stand(1), WithinShown(1, -90), C], &[Within(1, -60), C], &[R(1), C]]);
    plainly(&[
        &[Within(1, -10), R(1), Put(1, 5), C],
        &[Within(1, -60), C],
        &[Within(1, -5), C],
    ]);
    plainly(&[
        &[Within(1, -10), R(1), Within(1, -60), C],
        &[Within(1, -60), C],
        &[R(1), C],
    ]);
}

#[test]
fn what_is_no_plain_sum_keeps_the_limits_too() {
    // Far from the limits nobody waits, whatever they are: 100 - 3 * 20, and 91 more if it should be refilled.
    let figures = plainly(&[&[Refill(1, 20), C], &[Within(1, -20), C], &[Put(1, 59), C]]);
    assert_eq!((figures.aborting, figures.refused), (0, 0));
    let figures = plainly(&[&[Put(1, 20), C], &[Grow(1, 2), C], &[Grow(1, 2), C]]);
    assert_eq!(figures.aborting, 0);
    // 100 may be doubled by nobody, 50 by one, and 30 by two only if nothing is added before.
    let figures = plainly(&[&[Grow(1, 2), C], &[Within(1, -50), C]]);
    assert_eq!(figures.aborting, 0);
    assert!(figures.refused > 0 && figures.waiting > 0);
    plainly(&[&[Within(1, -50), C], &[Grow(1, 2), C], &[Grow(1, 2), C]]);
    plainly(&[&[Within(1, -70), C], &[Grow(1, 2), Rollback], &[Within(1, 40), C]]);
    plainly(&[&[Put(1, 30), C], &[Grow(1, 2), C], &[Within(1, 40), C]]);
    plainly(&[&[Grow(1, -1), C], &[Put(1, 0), C], &[Within(1, -30), C]]);
    plainly(&[&[Refill(1, 60), C], &[Refill(1, 60), C], &[Within(1, 30), C]]);
    plainly(&[
        &[Save, Grow(1, 1), Back, Put(1, 150), C],
        &[Refill(1, 100), C],
        &[R(1), C],
    ]);
    plainly(&[
        &[Refill(1, 20), R(1), Put(1, 5), C],
        &[Grow(1, 0), C],
        &[Within(1, -5), C],
    ]);
}

#[test]
fn a_row_that_goes_and_comes_back_keeps_the_limits() {
    plainly(&[&[Delete(1), Insert(1), Put(1, 5), C], &[Within(1, -60), C]]);
    plainly(&[&[Delete(1), C], &[Insert(1), Put(1, 5), C], &[Within(1, -60), C]]);
    plainly(&[&[Delete(1), Insert(1), C], &[Within(1, -60), C], &[Within(1, -60), C]]);
}

#[test]
fn random_programs_under_limits() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    let (mut refused, mut waits) = (0, 0);
    for _ in 0..20_000 {
        let count = 2 + next(3) as usize;
        let programs: Vec<Vec<Op>> = (0..count)
            .map(|_| {
                let mut program = vec![Save];
                for _ in 0..1 + next(3) {
                    let (x, amount) = (next(2) as i32, [-60, -30, -5, 20, 40][next(5) as usize]);
                    program.push(match next(14) {
                        0..=5 => Within(x, amount),
                        12 => Grow(x, [2, 3, 0, -1, 1][next(5) as usize]),
                        13 => Refill(x, amount.abs()),
                        6 => WithinShown(x, amount),
                        7 => Put(x, amount.abs()),
                        8 => [L(x), Stand(x)][next(2) as usize],
                        9 => R(x),
                        10 => [Delete(x), Insert(x)][next(2) as usize],
                        _ => Back,
                    });
                }
                program.push(if next(8) == 0 { Rollback } else { C });
                program
            })
            .collect();
        let programs: Vec<&[Op]> = programs.iter().map(Vec::as_slice).collect();
        let mut order: Vec<usize> = (0..count).flat_map(|i| vec![i; programs[i].len()]).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, next(at as u64 + 1) as usize);
        }
        for policies in all_policies() {
            let run = replay(&programs, &[0, 1], policies, &order);
            refused += run.refused;
            waits += run.waits;
        }
    }
    assert!(refused > 0 && waits > 0, "some of them must meet");
}
