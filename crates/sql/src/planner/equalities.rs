//! Equalities that follow from others.

use super::bound::Query;
use rubato_base::DataType;
use rubato_formula::{Comparison, Expr};
use std::collections::{BTreeMap, BTreeSet};

/// With more relations, columns that are equal are looked at as a whole.
const PAIRWISE_RELATIONS_MAX: usize = 12;
/// So many columns, and so many values, of those that are equal stand for all of them.
const REPRESENTATIVES: usize = 16;

/// Equalities that follow from those among a query's terms. Of few relations, from `a = b` and `b = 5`, `a = 5`: one step is enough
/// for what people write.
pub(super) fn derive(query: &Query) -> Vec<Expr> {
    let equalities = query.terms.iter().filter_map(equality);
    let equalities: Vec<(&Expr, &Expr)> = equalities.filter(|pair| leads_on(query, *pair)).collect();
    if query.relations.len() > PAIRWISE_RELATIONS_MAX {
        within_classes(&equalities)
    } else {
        in_one_step(&equalities)
    }
}

fn equality(term: &Expr) -> Option<(&Expr, &Expr)> {
    match term {
        Expr::Compare(Comparison::Equal, left, right) => Some((left, right)),
        _ => None,
    }
}

/// Whether what is equal to the one is equal to the other: two columns are compared exactly. A number is rounded to be compared with a float,
/// and several times without a zone may be one with a zone.
fn leads_on(query: &Query, pair: (&Expr, &Expr)) -> bool {
    let (Expr::Column(left), Expr::Column(right)) = pair else {
        return true;
    };
    let [left, right] = [left, right].map(|column| {
        let relation = &query.relations[query.relation_of(*column)];
        let known = relation.types.get(column - relation.first);
        known.map_or(DataType::Unknown, |known| known.data_type)
    });
    let is_one_of = |kin: &[DataType]| kin.contains(&left) && kin.contains(&right);
    left == right
        || (left.is_text() && right.is_text())
        || is_one_of(&[DataType::Int2, DataType::Int4, DataType::Int8, DataType::Numeric])
        || is_one_of(&[DataType::Date, DataType::Timestamp])
}

fn equal(left: usize, right: &Expr) -> Expr {
    Expr::Compare(Comparison::Equal, Box::new(Expr::Column(left)), Box::new(right.clone()))
}

fn in_one_step(equalities: &[(&Expr, &Expr)]) -> Vec<Expr> {
    let both_ways = || {
        equalities
            .iter()
            .flat_map(|(left, right)| [(*left, *right), (*right, *left)])
    };
    let mut values: BTreeMap<usize, Vec<&Expr>> = BTreeMap::new();
    let mut pairs = Vec::new();
    let mut seen = BTreeSet::new();
    for (left, right) in both_ways() {
        let Expr::Column(left) = left else { continue };
        match right {
            // Who says a thing twice says no more.
            Expr::Column(right) if !seen.insert((*left, *right)) => continue,
            Expr::Column(right) => pairs.push((*left, *right)),
            _ => {}
        }
        values.entry(*left).or_default().push(right);
    }
    let mut derived = Vec::new();
    let mut seen = BTreeSet::new();
    for (left, middle) in pairs {
        for value in values.get(&middle).into_iter().flatten() {
            let is_new = match value {
                Expr::Column(value) => *value != left && seen.insert((left, *value)),
                _ => true,
            };
            if is_new {
                derived.push(equal(left, value));
            }
        }
    }
    derived
}

/// Columns that are all equal.
#[derive(Default)]
struct Class<'a> {
    columns: Vec<usize>,
    /// What else they are equal to.
    values: Vec<&'a Expr>,
}

/// What follows within each class of equal columns, in as many equalities as it has columns, about.
fn within_classes(equalities: &[(&Expr, &Expr)]) -> Vec<Expr> {
    let mut derived = Vec::new();
    for class in classes(equalities) {
        for column in &class.columns {
            let others = class.columns.iter().filter(|other| *other != column);
            let others = others
                .take(REPRESENTATIVES)
                .map(|other| equal(*column, &Expr::Column(*other)));
            let values = class.values.iter().take(REPRESENTATIVES);
            derived.extend(others.chain(values.map(|value| equal(*column, value))));
        }
    }
    derived
}

/// The classes of columns of which two are equal at the least.
fn classes<'a>(equalities: &[(&'a Expr, &'a Expr)]) -> Vec<Class<'a>> {
    let mut classes: Vec<Class<'a>> = Vec::new();
    let mut class_of: BTreeMap<usize, usize> = BTreeMap::new();
    for (left, right) in equalities {
        let (Expr::Column(left), Expr::Column(right)) = (left, right) else {
            continue;
        };
        let mut of = |column: usize| {
            *class_of.entry(column).or_insert_with(|| {
                classes.push(Class {
                    columns: vec![column],
                    values: Vec::new(),
                });
                classes.len() - 1
            })
        };
        let (one, other) = (of(*left), of(*right));
        if one == other {
            continue;
        }
        // The smaller one moves: so a column moves seldom.
        let (kept, moved) = match classes[one].columns.len() >= classes[other].columns.len() {
            true => (one, other),
            false => (other, one),
        };
        let columns = std::mem::take(&mut classes[moved].columns);
        class_of.extend(columns.iter().map(|column| (*column, kept)));
        classes[kept].columns.extend(columns);
    }
    for (left, right) in equalities {
        for (column, value) in [(left, right), (right, left)] {
            if let Expr::Column(column) = column
                && !matches!(value, Expr::Column(_))
                && let Some(class) = class_of.get(column)
            {
                classes[*class].values.push(value);
            }
        }
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::Value;

    fn column(number: usize) -> Expr {
        Expr::Column(number)
    }

    #[test]
    fn what_many_equal_columns_say_of_each_other_grows_with_their_number() {
        let value = Expr::Literal(Value::Int4(5));
        for columns in [20, 2000] {
            let (first, last) = (column(0), column(columns - 1));
            let own: Vec<Expr> = (0..columns).map(column).collect();
            let mut equalities: Vec<(&Expr, &Expr)> = own.iter().zip(&own[1..]).collect();
            equalities.extend([(&last, &value), (&last, &first)]);
            let derived = within_classes(&equalities);
            assert_eq!(derived.len(), columns * (REPRESENTATIVES + 1));
            assert!(derived.contains(&equal(0, &value)));
        }
    }

    #[test]
    fn what_is_said_twice_follows_once() {
        let (one, other, third) = (column(0), column(1), column(2));
        let once = in_one_step(&[(&one, &other), (&other, &third)]);
        let often = [(&one, &other), (&other, &third)].repeat(100);
        assert_eq!(once, [equal(0, &third), equal(2, &one)]);
        assert_eq!(in_one_step(&often), once);
    }
}
