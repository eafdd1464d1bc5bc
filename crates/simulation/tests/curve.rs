//! The simulated curve of the experiments: what it counts, and that it is the same each time.

use rubato_simulation::curve::{Curve, CurveLoad, Found, Times, measure};
use rubato_workload::ycsb::Workload;

fn curve(nodes: u32, network_delay_us: f64) -> Curve {
    Curve {
        nodes,
        terminals_per_node: 4,
        warehouses_per_node: 1,
        records_per_node: 50,
        loads: vec![
            CurveLoad::Tpcc { remote_share: 10.0 },
            CurveLoad::Ycsb(Workload::WriteIntensive),
        ],
        times: Times {
            statement_us: 20.0,
            frame_us: 15.0,
            message_us: 5.0,
            commit_us: 50.0,
            force_cpu_us: 10.0,
            force_us: 100.0,
            network_delay_us,
            bytes_per_us: 125.0,
        },
        operation_us: 20.0,
        operation_talk_us: (15.0, 5.0),
        measured_us: 100_000,
        seed: 7,
    }
}

fn found(curve: &Curve) -> Vec<Found> {
    let found = measure(curve).expect("the grid works");
    for run in &found {
        assert_eq!((&run.errors, &run.violations), (&vec![], &vec![]));
        assert!(
            run.transactions > 20 && run.latencies_us.len() as u64 == run.transactions,
            "{run:?}"
        );
        assert!(run.forces > 0 && run.forces <= 3 * run.transactions + run.retries);
        // No processor does more than there is time for.
        assert!(
            run.cpu_us <= f64::from(curve.nodes) * curve.measured_us as f64 * 1.05,
            "{}",
            run.cpu_us
        );
    }
    for run in &found {
        assert_eq!(run.busy.len(), curve.nodes as usize);
        let processors_us = run.busy.iter().map(|busy| busy.processor).sum::<f64>() * curve.measured_us as f64;
        assert!(
            (processors_us - run.cpu_us).abs() < 1.0,
            "{processors_us} and {} us",
            run.cpu_us
        );
        assert!(run.busy.iter().all(|busy| busy.processor > 0.0 && busy.disk <= 1.05));
    }
    assert_eq!((found[0].conditions, found[1].conditions), (12, 0));
    found
}

#[test]
fn a_grid_of_one_says_nothing_and_a_larger_one_says_what_it_has_to() {
    let one = found(&curve(1, 30.0));
    assert_eq!(one.iter().map(|run| run.messages).sum::<u64>(), 0);
    let three = found(&curve(3, 30.0));
    for (alone, together) in one.iter().zip(&three) {
        assert!(
            together.messages > together.transactions / 2,
            "{} messages",
            together.messages
        );
        assert!(together.two_phase_commits > 0 || together.first_kind > 0);
        // Nodes that add what they can, and are not so good at it that a mistake explains it.
        let times = together.transactions as f64 / alone.transactions as f64;
        assert!((0.4..3.2).contains(&times), "{times} times as much on three nodes");
    }
    assert!(three[0].two_phase_commits > 0);
}

#[test]
fn a_slow_network_is_felt_and_the_same_seed_gives_the_same() {
    let near = found(&curve(2, 30.0));
    assert_eq!(near, found(&curve(2, 30.0)));
    let far = found(&curve(2, 3_000.0));
    // Most transactions of the node with the timestamp stage say nothing to the other one, and there are more of them when that is slow.
    let slow_us = |run: &Found| run.latencies_us[run.latencies_us.len() * 9 / 10].1;
    for (near, far) in near.iter().zip(&far) {
        assert!(
            slow_us(far) > slow_us(near) + 3_000,
            "{} and {} us",
            slow_us(near),
            slow_us(far)
        );
    }
}
