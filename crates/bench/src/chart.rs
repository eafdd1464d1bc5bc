//! Lines in a frame as a small SVG, with a title and a legend.

use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 24.0;
/// Room for a title and three lines of legend.
const TOP: f64 = 84.0;
const BOTTOM: f64 = 56.0;
/// Distinguishable for the colour-blind (Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// A line.
pub(crate) struct Line {
    /// Which of the legend's entries it belongs to; lines of one entry have one colour.
    pub entry: usize,
    /// How dark it is, from 0 to 1.
    pub opacity: f64,
    /// Where it goes.
    pub points: Vec<(f64, f64)>,
}

/// A plot.
pub(crate) struct Chart {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    /// The x axis goes to here at least.
    pub x_max: f64,
    pub legend: Vec<String>,
    pub lines: Vec<Line>,
    /// Whether each point has a dot: where there are few of them.
    pub dots: bool,
}

impl Chart {
    /// Draws it.
    pub fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let frame = Frame {
            x_max: points().map(|(x, _)| *x).fold(self.x_max, f64::max),
            y_max: nice_step(points().map(|(_, y)| *y).fold(0.0, f64::max).max(1e-3)) * 5.0,
        };
        let mut out = String::new();
        head(&mut out, &self.title);
        frame.axes(&mut out, &self.x_label, &self.y_label);
        for line in &self.lines {
            let colour = COLOURS[line.entry % COLOURS.len()];
            frame.line(&mut out, line, colour);
            if self.dots {
                frame.dots(&mut out, line, colour);
            }
        }
        for (index, label) in self.legend.iter().enumerate() {
            legend(&mut out, index, COLOURS[index % COLOURS.len()], label);
        }
        out.push_str("</svg>\n");
        out
    }
}

struct Frame {
    x_max: f64,
    y_max: f64,
}

impl Frame {
    fn x(&self, value: f64) -> f64 {
        LEFT + value / self.x_max * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - value / self.y_max * (HEIGHT - TOP - BOTTOM)
    }

    fn axes(&self, out: &mut String, x_label: &str, y_label: &str) {
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
        let mut at = 0.0;
        while at <= self.x_max + 1e-9 {
            let (x, y) = (self.x(at), HEIGHT - BOTTOM);
            put(
                out,
                &format!(
                    "<line x1='{x:.1}' y1='{y}' x2='{x:.1}' y2='{}' stroke='#444'/>",
                    y + 5.0
                ),
            );
            put(
                out,
                &format!("<text x='{x:.1}' y='{}' text-anchor='middle'>{at}</text>", y + 20.0),
            );
            at += step;
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
            &format!(
                "<text x='{middle_x}' y='{below}' text-anchor='middle'>{}</text>",
                escaped(x_label)
            ),
        );
        let turned = format!("transform='translate(20 {middle_y}) rotate(-90)' text-anchor='middle'");
        put(out, &format!("<text {turned}>{}</text>", escaped(y_label)));
    }

    fn line(&self, out: &mut String, line: &Line, colour: &str) {
        let mut points = String::new();
        for &(x, y) in &line.points {
            let _ = write!(points, "{:.1},{:.1} ", self.x(x), self.y(y));
        }
        let opacity = line.opacity;
        let style = format!("fill='none' stroke='{colour}' stroke-width='2' stroke-opacity='{opacity:.2}'");
        put(
            out,
            &format!(
                "<polyline points='{}' {style} stroke-linejoin='round'/>",
                points.trim_end()
            ),
        );
    }

    fn dots(&self, out: &mut String, line: &Line, colour: &str) {
        for &(x, y) in &line.points {
            let (x, y) = (self.x(x), self.y(y));
            put(
                out,
                &format!("<circle cx='{x:.1}' cy='{y:.1}' r='3.5' fill='{colour}'/>"),
            );
        }
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

/// `12,000`; small values with their decimal places.
fn grouped(value: f64) -> String {
    if value < 10.0 && value.fract().abs() > 1e-9 {
        return format!("{value:.2}");
    }
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

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        Chart {
            title: "a<b".to_owned(),
            x_label: "nodes".to_owned(),
            y_label: "transactions (1/s)".to_owned(),
            x_max: 4.0,
            legend: vec!["real".to_owned()],
            lines: vec![Line {
                entry: 0,
                opacity: 1.0,
                points,
            }],
            dots: true,
        }
    }

    #[test]
    fn lines_stay_inside_the_frame() {
        let svg = chart(vec![(1.0, 100.0), (2.0, 250.0), (16.0, 0.0)]).svg();
        assert_eq!(
            (svg.matches("<polyline").count(), svg.matches("<circle").count()),
            (1, 3)
        );
        assert!(svg.contains("a&lt;b") && svg.contains("(1/s)") && svg.contains(">nodes<"));
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
        assert!(!chart(Vec::new()).svg().contains("NaN"));
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
        assert_eq!((grouped(200.0), grouped(0.25)), ("200".to_owned(), "0.25".to_owned()));
    }
}
