//! What the terms of a query say of each of its relations, read once, and the ways to a relation behind others.

use super::access::{Candidate, other_candidate, table_candidates};
use super::bound::{Query, QueryRelation};
use super::equalities::derive;
use super::facts::{Branch, Branches, Fact, FactReader};
use super::{ParameterTypes, implies, is_alike_in_all_sessions};
use crate::catalog::Table;
use crate::plan::{JoinKind, Relation};
use rubato_formula::{Comparison, Expr};
use std::cell::OnceCell;
use std::collections::BTreeSet;

/// Relations that come before others.
pub(super) struct Placed {
    count: usize,
    /// Whether each relation is among them.
    has: Vec<bool>,
}

impl Placed {
    /// None of so many relations.
    pub fn none(relations: usize) -> Placed {
        Placed {
            count: 0,
            has: vec![false; relations],
        }
    }

    /// All of so many relations.
    pub fn all(relations: usize) -> Placed {
        Placed {
            count: relations,
            has: vec![true; relations],
        }
    }

    pub fn push(&mut self, relation: usize) {
        self.count += 1;
        self.has[relation] = true;
    }

    pub fn contains(&self, relation: usize) -> bool {
        self.has[relation]
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn has_all(&self, relations: &[usize]) -> bool {
        relations.iter().all(|relation| self.has[*relation])
    }

    /// The facts whose values are there.
    fn usable<'a>(&self, facts: &'a [Fact]) -> Vec<&'a Fact> {
        facts.iter().filter(|fact| self.has_all(&fact.needs)).collect()
    }
}

/// The terms that may lead to relations: WHERE's for inner ones, its ON for a left join.
pub(super) struct Terms<'a> {
    pub query: &'a Query,
    parameters: ParameterTypes<'a>,
    /// Equalities that follow from others: usable, but never satisfied.
    derived: Vec<Expr>,
    relations: Vec<Own>,
}

/// What belongs to one relation.
#[derive(Default)]
struct Own {
    /// The terms of WHERE and inner ON that read it.
    terms: Vec<usize>,
    /// Those that follow from others.
    derived: Vec<usize>,
    /// The relations that have to come before it.
    waits_for: Vec<usize>,
    known: OnceCell<Known>,
}

/// What is known of a relation, wherever it comes.
struct Known {
    facts: Vec<Fact>,
    ors: Vec<Branches>,
    /// The indexes that have an entry for every row that the terms ask for.
    usable: Vec<usize>,
    /// The relations that what its columns are compared with reads, for each comparison.
    compared: Vec<Vec<usize>>,
}

/// An OR with what can be used of its branches.
pub(super) struct Or<'a> {
    pub branches: Vec<OrBranch<'a>>,
    /// The term.
    pub term: usize,
}

/// One branch of an OR.
pub(super) struct OrBranch<'a> {
    pub facts: Vec<&'a Fact>,
    /// How many terms it has.
    pub terms: usize,
}

impl<'a> Terms<'a> {
    pub fn new(query: &'a Query, parameters: ParameterTypes<'a>) -> Terms<'a> {
        let derived = derive(query);
        let mut relations: Vec<Own> = Vec::with_capacity(query.relations.len());
        relations.resize_with(query.relations.len(), Own::default);
        for_each_read(query, &query.terms, &mut |relation, term| {
            relations[relation].terms.push(term)
        });
        for_each_read(query, &derived, &mut |relation, term| {
            relations[relation].derived.push(term)
        });
        for (number, own) in query.relations.iter().enumerate() {
            let read = own.on.iter().chain(own.relation.outer_expressions());
            relations[number].waits_for = read_by(query, read)
                .into_iter()
                .filter(|other| *other != number)
                .collect();
        }
        Terms {
            query,
            parameters,
            derived,
            relations,
        }
    }

    /// Every candidate for `relation` when `placed` are bound; the whole table is always among them.
    pub fn candidates(&self, relation: usize, placed: &Placed) -> Vec<Candidate> {
        let known = self.known(relation);
        let relation = &self.query.relations[relation].relation;
        let Relation::Table(table) = relation else {
            let is_compared = known.compared.iter().any(|needs| placed.has_all(needs));
            return vec![other_candidate(relation, is_compared)];
        };
        let ors: Vec<Or<'_>> = known
            .ors
            .iter()
            .map(|or| Or {
                branches: or.branches.iter().map(|own| OrBranch::of(own, placed)).collect(),
                term: or.term,
            })
            .collect();
        table_candidates(table, &known.usable, &placed.usable(&known.facts), &ors)
    }

    /// A left join waits for everything that its condition speaks of, a relation that is made for each tuple for what it reads of the
    /// tuple (which may be nothing: a side of a join that is a query may read values of the tuple around it alone), and functions of a
    /// select list for all relations but what is computed of their rows.
    pub fn may_follow(&self, relation: usize, placed: &Placed) -> bool {
        let relations = &self.query.relations;
        let is_ready = match &relations[relation].relation {
            Relation::Computed(_) => !placed.is_empty(),
            Relation::Functions(functions) if functions.is_last => {
                let is_open = |other: usize| {
                    other != relation
                        && !placed.contains(other)
                        && !matches!(relations[other].relation, Relation::Computed(_))
                };
                !(0..relations.len()).any(is_open)
            }
            _ => true,
        };
        is_ready && placed.has_all(&self.relations[relation].waits_for)
    }

    /// For each relation those to which there may be other ways behind it.
    pub fn followers(&self) -> Vec<BTreeSet<usize>> {
        let mut followers = vec![BTreeSet::new(); self.relations.len()];
        for relation in 0..self.relations.len() {
            let known = self.known(relation);
            let of_branches = known.ors.iter().flat_map(|or| &or.branches).flat_map(|own| &own.facts);
            let facts = known.facts.iter().chain(of_branches);
            for needed in facts.map(|fact| &fact.needs).chain(&known.compared).flatten() {
                followers[*needed].insert(relation);
            }
        }
        followers
    }

    fn known(&self, relation: usize) -> &Known {
        self.relations[relation].known.get_or_init(|| self.read(relation))
    }

    fn read(&self, relation: usize) -> Known {
        let own = &self.query.relations[relation];
        let of_query = &self.relations[relation];
        let terms: Vec<(usize, &Expr)> = match own.join {
            JoinKind::Left => own.on.iter().enumerate().collect(),
            JoinKind::Inner => of_query
                .terms
                .iter()
                .map(|term| (*term, &self.query.terms[*term]))
                .collect(),
        };
        let Relation::Table(table) = &own.relation else {
            return Known {
                facts: Vec::new(),
                ors: Vec::new(),
                usable: Vec::new(),
                compared: terms
                    .iter()
                    .flat_map(|(_, term)| self.compared(relation, term))
                    .collect(),
            };
        };
        let reader = FactReader {
            query: self.query,
            relation,
            parameters: self.parameters,
        };
        let mut facts = reader.facts(terms.iter().copied());
        if own.join == JoinKind::Inner {
            let derived = of_query.derived.iter().map(|term| (*term, &self.derived[*term]));
            facts.extend(
                reader
                    .facts(derived)
                    .into_iter()
                    .map(|fact| Fact { term: None, ..fact }),
            );
        }
        Known {
            facts,
            ors: terms
                .iter()
                .filter_map(|(index, term)| reader.branches(*index, term))
                .collect(),
            usable: self.usable_indexes(table, own),
            compared: Vec::new(),
        }
    }

    /// The indexes that have an entry for every row that the terms ask for.
    fn usable_indexes(&self, table: &Table, own: &QueryRelation) -> Vec<usize> {
        let terms = match own.join {
            JoinKind::Left => &own.on,
            JoinKind::Inner => &self.query.terms,
        };
        let is_usable = |place: &usize| match &table.indexes[*place].predicate {
            None => true,
            Some(predicate) => {
                let wanted = predicate.expr.remap_columns(&|column| own.first + column);
                is_alike_in_all_sessions(&wanted) && implies(terms, &wanted, self.parameters)
            }
        };
        (0..table.indexes.len()).filter(is_usable).collect()
    }

    /// What reads the other side of an equality with a column of a relation, for each side that is one.
    fn compared(&self, relation: usize, term: &Expr) -> Vec<Vec<usize>> {
        let Expr::Compare(Comparison::Equal, left, right) = term else {
            return Vec::new();
        };
        let is_own = |expr: &Expr| matches!(expr, Expr::Column(global) if self.query.relation_of(*global) == relation);
        let sides = [(left, right), (right, left)].into_iter();
        sides
            .filter(|(own, _)| is_own(own))
            .map(|(_, other)| read_by(self.query, [&**other].into_iter()).into_iter().collect())
            .collect()
    }
}

impl<'a> OrBranch<'a> {
    fn of(branch: &'a Branch, placed: &Placed) -> OrBranch<'a> {
        OrBranch {
            facts: placed.usable(&branch.facts),
            terms: branch.terms,
        }
    }
}

/// The relations that expressions read.
fn read_by<'a>(query: &Query, expressions: impl Iterator<Item = &'a Expr>) -> BTreeSet<usize> {
    let mut read = BTreeSet::new();
    for expr in expressions {
        expr.for_each_column(&mut |global| {
            read.insert(query.relation_of(global));
        });
    }
    read
}

/// Visits each relation that a term reads with the term's place.
fn for_each_read(query: &Query, terms: &[Expr], visit: &mut dyn FnMut(usize, usize)) {
    for (place, term) in terms.iter().enumerate() {
        for relation in read_by(query, [term].into_iter()) {
            visit(relation, place);
        }
    }
}
