//! Throughput over time as a small SVG: one line for each server and round.

use std::fmt::Write;

use crate::report::Comparison;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 24.0;
/// Room for a title and three lines of legend.
const TOP: f64 = 84.0;
const BOTTOM: f64 = 56.0;
/// Distinguishable for the colour-blind (Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// Draws the comparison.
pub(crate) fn svg(comparison: &Comparison) -> String {
    let rounds = || comparison.targets.iter().flat_map(|target| &target.rounds);
    let highest = rounds()
        .flat_map(|round| &round.throughput)
        .copied()
        .fold(0.0, f64::max);
    let longest_s = rounds().map(|round| round.throughput.len()).max().unwrap_or(0).max(2) as f64;
    let frame = Frame {
        x_max: longest_s,
        y_max: nice_step(highest.max(1.0)) * 5.0,
    };
    let mut out = String::new();
    head(&mut out, &format!("{} ({})", comparison.workload, comparison.settings));
    frame.axes(&mut out);
    for (index, target) in comparison.targets.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        for (round_index, round) in target.rounds.iter().enumerate() {
            // Later rounds are drawn lighter.
            let opacity = 1.0 / (1.0 + 0.4 * round_index as f64);
            frame.line(&mut out, &round.throughput, colour, opacity);
        }
        let isolation = &target.isolation;
        let label = format!(
            "{} ({isolation}): {:.0} {}",
            target.name, target.headline.value, target.headline.name
        );
        legend(&mut out, index, colour, &label);
    }
    out.push_str("</svg>\n");
    out
}

struct Frame {
    /// Seconds.
    x_max: f64,
    /// Transactions a second.
    y_max: f64,
}

impl Frame {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + seconds / self.x_max * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, per_second: f64) -> f64 {
        HEIGHT - BOTTOM - per_second / self.y_max * (HEIGHT - TOP - BOTTOM)
    }

    fn axes(&self, out: &mut String) {
        for tick in 0..=5 {
            let value = self.y_max * f64::from(tick) / 5.0;
            let y = self.y(value);
            let right = WIDTH - RIGHT;
            put(
                out,
                &format!("<line x1='{LEFT}' y1='{y:.1}' x2='{right}' y2='{y:.1}' stroke='#ddd'/>"),
            );
            let x = LEFT - 8.0;
            put(
                out,
                &format!(
                    "<text x='{x}' y='{:.1}' text-anchor='end'>{}</text>",
                    y + 4.0,
                    grouped(value)
                ),
            );
        }
        let step = nice_step(self.x_max);
        let mut seconds = 0.0;
        while seconds <= self.x_max + 1e-9 {
            let (x, y) = (self.x(seconds), HEIGHT - BOTTOM);
            put(
                out,
                &format!(
                    "<line x1='{x:.1}' y1='{y}' x2='{x:.1}' y2='{}' stroke='#444'/>",
                    y + 5.0
                ),
            );
            put(
                out,
                &format!(
                    "<text x='{x:.1}' y='{}' text-anchor='middle'>{seconds}</text>",
                    y + 20.0
                ),
            );
            seconds += step;
        }
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        put(
            out,
            &format!("<path d='M{LEFT} {TOP}V{bottom}H{right}' fill='none' stroke='#444'/>"),
        );
        let (middle_x, middle_y) = (f64::midpoint(LEFT, right), f64::midpoint(TOP, bottom));
        let below = HEIGHT - 14.0;
        put(
            out,
            &format!("<text x='{middle_x}' y='{below}' text-anchor='middle'>time since measuring began (s)</text>"),
        );
        let turned = format!("transform='translate(20 {middle_y}) rotate(-90)' text-anchor='middle'");
        put(out, &format!("<text {turned}>committed transactions (1/s)</text>"));
    }

    /// Each point stands in the middle of its second.
    fn line(&self, out: &mut String, values: &[f64], colour: &str, opacity: f64) {
        let mut points = String::new();
        for (index, &value) in values.iter().enumerate() {
            let _ = write!(points, "{:.1},{:.1} ", self.x(index as f64 + 0.5), self.y(value));
        }
        let style = format!("fill='none' stroke='{colour}' stroke-width='2' stroke-opacity='{opacity:.2}'");
        put(
            out,
            &format!(
                "<polyline points='{}' {style} stroke-linejoin='round'/>",
                points.trim_end()
            ),
        );
    }
}

fn head(out: &mut String, title: &str) {
    put(
        out,
        &format!(
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' \
        height='{HEIGHT}' font-family='system-ui, sans-serif' font-size='12' fill='#222'>"
        ),
    );
    put(out, &format!("<rect width='{WIDTH}' height='{HEIGHT}' fill='#fff'/>"));
    put(
        out,
        &format!(
            "<text x='{LEFT}' y='22' font-size='14' font-weight='600'>{}</text>",
            escaped(title)
        ),
    );
}

/// Two entries a line, above the plot.
fn legend(out: &mut String, index: usize, colour: &str, label: &str) {
    let x = LEFT + (index % 2) as f64 * (WIDTH - LEFT - RIGHT) / 2.0;
    let y = 40.0 + (index / 2) as f64 * 15.0;
    put(
        out,
        &format!(
            "<line x1='{x}' y1='{y}' x2='{}' y2='{y}' stroke='{colour}' stroke-width='3'/>",
            x + 18.0
        ),
    );
    put(
        out,
        &format!("<text x='{}' y='{}'>{}</text>", x + 24.0, y + 4.0, escaped(label)),
    );
}

fn put(out: &mut String, element: &str) {
    out.push_str(element);
    out.push('\n');
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('\'', "&#39;")
}

/// A step of 1, 2 or 5 times a power of ten that reaches `highest` in at most five steps.
fn nice_step(highest: f64) -> f64 {
    let power = 10f64.powf((highest / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps
        .into_iter()
        .find(|step| step * 5.0 >= highest - 1e-9)
        .unwrap_or(10.0 * power)
}

/// `12,000`.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
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
    fn a_line_for_each_round_inside_the_frame() {
        let svg = svg(&comparison());
        assert_eq!(svg.matches("<polyline").count(), 1);
        assert!(svg.contains("a&lt;b") && svg.contains("(1/s)") && svg.contains("(s)"));
        let points = svg
            .split("points='")
            .nth(1)
            .and_then(|rest| rest.split('\'').next())
            .expect("points");
        for point in points.split(' ') {
            let (x, y) = point.split_once(',').expect("a point");
            let (x, y): (f64, f64) = (x.parse().expect("x"), y.parse().expect("y"));
            assert!(
                (LEFT..=WIDTH - RIGHT).contains(&x) && (TOP..=HEIGHT - BOTTOM).contains(&y),
                "{point}"
            );
        }
    }

    #[test]
    fn nothing_measured_draws_an_empty_frame() {
        let mut comparison = comparison();
        comparison.targets[0].rounds.clear();
        assert!(!svg(&comparison).contains("NaN"));
    }

    #[test]
    fn steps_are_round_and_reach_the_top() {
        for (highest, step) in [
            (1.0, 0.2),
            (5.0, 1.0),
            (10.0, 2.0),
            (260.0, 100.0),
            (60.0, 20.0),
            (24_999.0, 5_000.0),
        ] {
            assert!(
                (nice_step(highest) - step).abs() < 1e-9,
                "{highest}: {}",
                nice_step(highest)
            );
        }
        assert_eq!(grouped(1_234_567.0), "1,234,567");
        assert_eq!(grouped(200.0), "200");
    }
}
