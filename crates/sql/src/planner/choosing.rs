//! The order of joins, without sizes: from the relation that makes the whole pipeline touch least, greedily.

use super::access::{Candidate, ONE_ROW, cheapest};
use super::ways::{Placed, Terms};
use crate::plan::JoinKind;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::rc::Rc;

/// So many relations are all tried as the driving one, and every way to each is looked at. Of more the most promising ones are tried,
/// and a relation to which a whole key leads is not looked at again.
const ALL_TRIED_MAX: usize = 12;
/// At most so many looks at relations are taken to put them in order, if one order takes fewer.
const LOOKS_MAX: usize = 10_000_000;

/// Relations in the order in which they are read, with the way to each.
pub(super) type Planned = Vec<(usize, Candidate)>;

/// Tries relations as the driving one.
pub(super) fn choose_order(terms: &Terms<'_>) -> Planned {
    let choosing = Choosing::new(terms);
    let mut best: Option<(f64, Chosen)> = None;
    for driver in choosing.drivers() {
        let least = best.as_ref().map(|(least, _)| *least);
        let (cost, chosen) = choosing.follow(driver, least);
        if least.is_none_or(|least| cost < least) {
            best = Some((cost, chosen));
        }
    }
    let chosen = best.map(|(_, chosen)| chosen).unwrap_or_default();
    // Ways are shared while there are other orders.
    drop(choosing);
    let own = |candidate| Rc::try_unwrap(candidate).unwrap_or_else(|shared: Rc<Candidate>| (*shared).clone());
    chosen
        .into_iter()
        .map(|(relation, candidate)| (relation, own(candidate)))
        .collect()
}

type Chosen = Vec<(usize, Rc<Candidate>)>;

struct Choosing<'a> {
    terms: &'a Terms<'a>,
    /// The cheapest way to each relation that comes first.
    first: Vec<Rc<Candidate>>,
    /// For each relation those to which there may be other ways behind it.
    followers: Vec<BTreeSet<usize>>,
}

impl<'a> Choosing<'a> {
    fn new(terms: &'a Terms<'a>) -> Choosing<'a> {
        let relations = terms.query.relations.len();
        let none = Placed::none(relations);
        let first = |relation| Rc::new(cheapest(terms.candidates(relation, &none)));
        Choosing {
            terms,
            first: (0..relations).map(first).collect(),
            followers: terms.followers(),
        }
    }

    fn tries_all(&self) -> bool {
        self.first.len() <= ALL_TRIED_MAX
    }

    /// The relations that are tried as the driving one: of many first those that touch least, that cost as much wherever they come, and
    /// that lead to most others.
    fn drivers(&self) -> Vec<usize> {
        let relations = self.first.len();
        let none = Placed::none(relations);
        let may_drive = |driver: &usize| {
            self.terms.query.relations[*driver].join != JoinKind::Left && self.terms.may_follow(*driver, &none)
        };
        let mut drivers: Vec<usize> = (0..relations).filter(may_drive).collect();
        if !self.tries_all() {
            let all = Placed::all(relations);
            let last = |driver| cheapest(self.terms.candidates(driver, &all)).cost;
            let last: Vec<f64> = (0..relations).map(last).collect();
            drivers.sort_by_key(|driver| Reverse(self.followers[*driver].len()));
            drivers.sort_by(|one, other| last[*other].total_cmp(&last[*one]));
            drivers.sort_by(|one, other| self.first[*one].cost.total_cmp(&self.first[*other].cost));
            drivers.truncate((LOOKS_MAX / (relations * relations)).clamp(1, ALL_TRIED_MAX));
        }
        drivers
    }

    /// Starts at `driver` and takes the cheapest next relation each time, as long as that costs less than `least`; the rows touched in
    /// all.
    fn follow(&self, driver: usize, least: Option<f64>) -> (f64, Chosen) {
        let relations = self.first.len();
        let mut ways = self.first.clone();
        let mut is_stale = vec![false; relations];
        let mut placed = Placed::none(relations);
        let (mut rows, mut cost) = (1.0, 0.0);
        let mut chosen = Vec::with_capacity(relations);
        let mut next = Some(driver);
        while let Some(relation) = next {
            rows *= if chosen.is_empty() {
                ways[relation].cost
            } else {
                ways[relation].cost.max(1.0)
            };
            cost += rows;
            placed.push(relation);
            chosen.push((relation, Rc::clone(&ways[relation])));
            if least.is_some_and(|least| cost >= least) {
                break;
            }
            for follower in &self.followers[relation] {
                is_stale[*follower] |= self.tries_all() || ways[*follower].cost > ONE_ROW;
            }
            next = self.next(&mut ways, &mut is_stale, &placed);
        }
        (cost, chosen)
    }

    /// The relation that costs least behind those that are placed.
    fn next(&self, ways: &mut [Rc<Candidate>], is_stale: &mut [bool], placed: &Placed) -> Option<usize> {
        let mut best: Option<usize> = None;
        for relation in 0..ways.len() {
            if placed.contains(relation) || !self.terms.may_follow(relation, placed) {
                continue;
            }
            if std::mem::take(&mut is_stale[relation]) {
                ways[relation] = Rc::new(cheapest(self.terms.candidates(relation, placed)));
            }
            if best.is_none_or(|best| ways[relation].cost < ways[best].cost) {
                best = Some(relation);
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::super::known::KnownParameters;
    use super::super::{NoParameters, Query, QueryRelation};
    use super::*;
    use crate::binder::tests_support::catalog_of;
    use crate::plan::{Access, Relation};
    use rubato_base::{DataType, Value};
    use rubato_formula::{Comparison, Expr};
    use std::cell::Cell;

    /// The first column of the relation with this number.
    fn id(relation: usize) -> Expr {
        Expr::Column(relation * 2)
    }

    fn compare(comparison: Comparison, left: Expr, right: Expr) -> Expr {
        Expr::Compare(comparison, Box::new(left), Box::new(right))
    }

    /// So many times a table with a key and another column, with these conditions.
    fn joined(relations: usize, terms: Vec<Expr>) -> Query {
        let catalog = catalog_of(&["create table t (id int primary key, a int)"]);
        let table = catalog.tables.values().next().expect("the table");
        let types: Vec<_> = table.columns.iter().map(|column| column.column_type).collect();
        let relation = |number: usize| QueryRelation {
            first: number * 2,
            ..QueryRelation::first(Relation::Table(table.clone()), format!("t{number}"), types.clone())
        };
        Query {
            relations: (0..relations).map(relation).collect(),
            terms,
        }
    }

    /// Counts how often it is asked for the type of a parameter: whoever reads a comparison with one asks.
    struct Asked(Cell<usize>);

    impl KnownParameters for Asked {
        fn data_type(&self, _: usize) -> DataType {
            self.0.set(self.0.get() + 1);
            DataType::Int4
        }

        fn known_value(&self, _: usize) -> Option<Value> {
            None
        }
    }

    #[test]
    fn each_condition_is_read_once() {
        for relations in [10, 60] {
            let chained = (1..relations).map(|own| compare(Comparison::Equal, id(own), id(own - 1)));
            let bounded = (0..relations).map(|own| compare(Comparison::Less, id(own), Expr::Parameter(0)));
            let query = joined(relations, chained.chain(bounded).collect());
            let asked = Asked(Cell::new(0));
            assert_eq!(choose_order(&Terms::new(&query, &asked)).len(), relations);
            assert_eq!(asked.0.get(), relations);
        }
    }

    #[test]
    fn of_many_relations_all_but_one_are_reached_by_their_keys() {
        let relations = 60;
        let star = (1..relations).map(|own| compare(Comparison::Equal, id(own), id(0)));
        let chain = (1..relations).map(|own| compare(Comparison::Equal, id(own), id(own - 1)));
        // Of those that refer to another by its key the last one of the chain comes first.
        let referring = (1..relations).map(|own| compare(Comparison::Equal, Expr::Column(own * 2 + 1), id(own - 1)));
        for terms in [star.collect(), chain.collect::<Vec<_>>(), referring.collect()] {
            let query = joined(relations, terms);
            let planned = choose_order(&Terms::new(&query, &NoParameters));
            let by_key = |(_, way): &(usize, Candidate)| matches!(way.access, Access::Point(_));
            assert_eq!(planned.iter().filter(|own| by_key(own)).count(), relations - 1);
        }
    }

    #[test]
    fn a_thousand_relations_without_conditions_stay_in_their_order() {
        let query = joined(1000, Vec::new());
        let planned = choose_order(&Terms::new(&query, &NoParameters));
        assert!(planned.iter().map(|(relation, _)| *relation).eq(0..1000));
    }
}
