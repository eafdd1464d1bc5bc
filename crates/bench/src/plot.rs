//! Throughput over time: one line for each server and round.

use crate::chart::{Chart, Line};
use crate::report::Comparison;

/// Draws the comparison.
pub(crate) fn svg(comparison: &Comparison) -> String {
    let mut chart = Chart {
        title: format!("{} ({})", comparison.workload, comparison.settings),
        x_label: "time since measuring began (s)".to_owned(),
        y_label: "committed transactions (1/s)".to_owned(),
        x_max: 2.0,
        legend: Vec::new(),
        lines: Vec::new(),
        dots: false,
    };
    for (entry, target) in comparison.targets.iter().enumerate() {
        for (index, round) in target.rounds.iter().enumerate() {
            chart.x_max = chart.x_max.max(round.throughput.len() as f64);
            // Each point stands in the middle of its second.
            let points = round.throughput.iter().enumerate();
            chart.lines.push(Line {
                entry,
                // Later rounds are drawn lighter.
                opacity: 1.0 / (1.0 + 0.4 * index as f64),
                points: points.map(|(at, value)| (at as f64 + 0.5, *value)).collect(),
            });
        }
        let isolation = &target.isolation;
        chart.legend.push(format!(
            "{} ({isolation}): {:.0} {}",
            target.name, target.headline.value, target.headline.name
        ));
    }
    chart.svg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Measurement;
    use crate::report::{Headline, RoundReport, TargetReport};
    use std::time::Duration;

    fn comparison() -> Comparison {
        let mut round = RoundReport::new(&Measurement::new(0, 3), &[], Duration::from_secs(3));
        round.throughput = vec![100.0, 250.0, 200.0];
        let target = TargetReport {
            name: "a<b".to_owned(),
            server_version: "15".to_owned(),
            isolation: "read committed".to_owned(),
            tls: false,
            load_s: None,
            copy_s: None,
            rounds: vec![round],
            headline: Headline {
                name: "tpmC",
                value: 0.0,
            },
            ratio_to_first: 0.0,
            checks: Vec::new(),
        };
        Comparison {
            workload: "TPC-C".to_owned(),
            settings: "1 warehouse".to_owned(),
            targets: vec![target],
        }
    }

    #[test]
    fn a_line_for_each_round() {
        let svg = svg(&comparison());
        assert_eq!(svg.matches("<polyline").count(), 1);
        assert!(svg.contains("a&lt;b") && svg.contains("(1/s)") && svg.contains("(s)"));
    }
}
