//! Rules broken one at a time: the explorer notices. (`rubato-simulation broken` breaks all of them.)

use rubato_protocol::Rule;
use rubato_simulation::exhaustive::broken::{NOT_IN_A_MODEL, hunt};
use rubato_simulation::exhaustive::{Configuration, Limits, definition::Op::*, explore};

#[test]
fn a_broken_rule_is_noticed() {
    let rules = [
        Rule::R2,
        Rule::R3,
        Rule::W2,
        Rule::W3,
        Rule::Q1,
        Rule::Q2,
        Rule::Q3,
        Rule::Q4,
        Rule::Q5,
        Rule::C2,
        Rule::C3,
        Rule::C4,
        Rule::V1,
        Rule::V2,
        Rule::V4,
        Rule::F1,
        Rule::F2,
        Rule::A2,
        Rule::P1,
        Rule::P3,
        Rule::P4,
        Rule::P5,
        Rule::T4,
        Rule::D1,
        Rule::D2,
        Rule::D5,
    ];
    for rule in rules {
        assert!(rule.is_breakable() && NOT_IN_A_MODEL.iter().all(|(other, _)| *other != rule));
        let caught = hunt(rule, Limits { states_max: 3_000 });
        assert!(
            caught.is_some(),
            "nobody noticed that this was broken: {} {}",
            rule.id(),
            rule.sentence()
        );
    }
    // Afterwards all rules hold again.
    let configuration = Configuration::new("mended", vec![vec![Read(0), Plus(1, 7)], vec![Read(1), Plus(0, 5)]]);
    assert!(explore(&configuration, Limits { states_max: 10_000 }).found.is_none());
}
