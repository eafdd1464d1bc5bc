//! Simple queries: a script of statements, one after the other.

use super::anew::Anew;
use super::extended::in_failed_block;
use super::plans::{CachedPlan, pinned_literals};
use super::prepared::{gives_the_same, result_type_changed};
use super::{Block, Current, Next, Origin, Session, SessionContext, ToBind};
use crate::binder::{self, TextSettings};
use crate::client::Responder;
use crate::parser::{Literals, at_semicolon, check_syntax, normalise, split_script};
use crate::partition::Partition;
use crate::statement::{Statement, Utility};
use rubato_base::text_format::parse_text;
use rubato_base::{DataType, Error, Result, SqlState, Value};
use rubato_stages::StageKind;
use std::sync::Arc;

/// Longer texts are not kept with their plans: they are bulk loads.
pub(super) const PLAN_TEXT_BYTES_MAX: usize = 64 << 10;

/// How many blanks may stand in the place of the statements before one.
const BLANKS_MAX: usize = 64;

/// One statement of a script.
pub(super) struct Piece {
    pub(super) text: Arc<str>,
    pub(super) characters_before: u32,
    /// Where in the script its semicolon stands, if it has one.
    semicolon: Option<u32>,
    /// Whether the script has no other statement.
    pub(super) alone: bool,
    /// It has begun on another node, and begins anew here: see `anew.rs`.
    pub(super) is_anew: bool,
}

impl Piece {
    /// Its text with as many characters before it as stand there in the script, so that errors name the place in the client's text. Many are
    /// one comment, because each blank is a token for whoever reads the text.
    fn in_place(&self) -> String {
        let before = self.characters_before as usize;
        match before.checked_sub("/**/".len()) {
            Some(length @ BLANKS_MAX..) => format!("/*{}*/{}", "-".repeat(length), self.text),
            _ => " ".repeat(before) + &self.text,
        }
    }
}

impl Session {
    /// Takes a script apart. Gives an error where a quote does not end.
    pub(super) fn start_script(&mut self, sql: &str) -> Result<()> {
        self.in_script = true;
        self.portals.remove("");
        let pieces = split_script(sql)?;
        self.look_for_trace(sql);
        let alone = pieces.len() == 1;
        if !alone {
            // Nothing of a script runs, not even up to a COMMIT within it, unless all of it can be read.
            for piece in &pieces {
                check_syntax(piece.text).map_err(|error| placed(error, piece.characters_before, piece.semicolon))?;
            }
        }
        self.script = pieces
            .into_iter()
            .map(|piece| Piece {
                text: Arc::from(piece.text),
                characters_before: piece.characters_before,
                semicolon: piece.semicolon,
                alone,
                is_anew: false,
            })
            .collect();
        Ok(())
    }

    /// Starts the next statement of the script; `None` at its end.
    pub(super) fn next_of_script(&mut self, context: &mut SessionContext<'_>) -> Option<Next> {
        let piece = self.script.pop_front()?;
        // Several statements are one transaction, and so is what follows a COMMIT or ROLLBACK among them.
        if !piece.alone && self.block == Block::None {
            self.block = Block::Implicit;
        }
        if self.own_catalog().is_some() {
            self.to_bind = Some(ToBind::Script(piece));
            return Some(Next::To(StageKind::Optimizer));
        }
        let normalised = normalise(&piece.text, 0);
        let key = self.plan_key(&normalised.key);
        let cached = key.and_then(|key| context.plans.lock().get(&key).cloned());
        if let Some(cached) = cached.filter(|cached| cached.is_for(&normalised.literals))
            && let Ok(parameters) = self.literal_values_of(&normalised.literals, &cached)
        {
            let (statement, version) = (cached.statement, cached.catalog_version);
            self.current = Some(self.scripted(statement, version, &piece, parameters, context.now_us));
            return Some(Next::To(StageKind::Security));
        }
        self.to_bind = Some(ToBind::Script(piece));
        Some(Next::To(StageKind::Optimizer))
    }

    /// The optimizer stage: binds what is to be bound.
    pub fn on_optimizer(
        &mut self,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Next {
        self.text.now_us = self.transaction_time_us(context.now_us);
        self.see_enums(&self.catalog(partition));
        match self.to_bind.take() {
            None => Next::To(StageKind::Parser),
            Some(ToBind::Script(piece)) => match self.bind_piece(&piece, partition, context) {
                Ok(current) => {
                    self.current = Some(current);
                    Next::To(StageKind::Security)
                }
                Err(error) if self.fails_all(&error) => self.fail(in_failed_block(), partition, responder),
                Err(error) if error.code() != SqlState::SYNTAX_ERROR && self.may_be_known_elsewhere(partition) => {
                    self.current = Some(self.for_elsewhere(&piece, context.now_us));
                    Next::To(StageKind::Security)
                }
                Err(error) => {
                    let error = placed(error, piece.characters_before, piece.semicolon);
                    self.fails_by_words = true;
                    self.fail(error, partition, responder)
                }
            },
            Some(ToBind::Parse { name, sql, types }) => match self.bind_prepared(&sql, &types, partition, context) {
                Ok(prepared) => {
                    // A tick that was waited for is not one to begin at: others commit before this statement is run.
                    self.tick_ticket = None;
                    self.prepared.insert(name, Arc::new(prepared));
                    responder.parse_complete();
                    Next::To(StageKind::Parser)
                }
                Err(error) if self.fails_all(&error) => self.fail(in_failed_block(), partition, responder),
                Err(error) => match self.awaits_names(&error, partition) {
                    Ok(true) => {
                        self.to_bind = Some(ToBind::Parse { name, sql, types });
                        Next::Park(StageKind::Optimizer)
                    }
                    Ok(false) => {
                        self.fails_by_words = true;
                        self.fail(error, partition, responder)
                    }
                    Err(unsure) => self.fail(unsure, partition, responder),
                },
            },
            Some(ToBind::Again) => match self.bind_again(partition) {
                Ok(()) => Next::To(StageKind::Security),
                Err(error) => self.fail(error, partition, responder),
            },
        }
    }

    /// Whether the block has failed, so that what is wrong with a statement's names does not matter: those that the block has made are gone.
    fn fails_all(&self, error: &Error) -> bool {
        self.block == Block::Failed && error.code() != SqlState::SYNTAX_ERROR
    }

    /// Whether the names of a text that is to be prepared may come to be known: the node may not have heard yet of a schema change that
    /// was acknowledged. It has when it has a tick (rule T-6), which is waited for. Where none is to be had nobody can say whether a name
    /// is one: that is the error then.
    fn awaits_names(&mut self, error: &Error, partition: &Partition) -> Result<bool> {
        let desk = partition.grid.as_ref().filter(|desk| desk.keeper().is_some());
        let (Some(desk), None, None) = (desk, &self.transaction, &self.cancelled) else {
            return Ok(false);
        };
        if error.code() == SqlState::SYNTAX_ERROR {
            return Ok(false);
        }
        let tick = desk.take_tick(self.id, &mut self.tick_ticket)?;
        Ok(tick.is_none())
    }

    fn bind_piece(
        &mut self,
        piece: &Piece,
        partition: &Partition,
        context: &mut SessionContext<'_>,
    ) -> Result<Current> {
        let catalog = self.catalog(partition);
        let own_catalog = !Arc::ptr_eq(&catalog, self.committed(partition));
        let normalised = normalise(&piece.text, 0);
        self.path_in(&catalog);
        let settings = TextSettings {
            text: self.text.clone(),
            path: self.set_path(),
        };
        let bound = match binder::bind(&normalised.key, &normalised.literals, &[], &catalog, &settings) {
            Ok(statement) => Ok((statement, normalised.literals)),
            // The error must speak of the user's own text.
            Err(_) if !normalised.literals.is_empty() => {
                binder::bind(&piece.text, &[], &[], &catalog, &settings).map(|statement| (statement, Literals::new()))
            }
            Err(error) => Err(error),
        };
        let (mut statement, mut literals) = bound?;
        let mut types = parameter_types(&statement);
        let is_plan = literals.is_empty() || matches!(statement, Statement::Planned(_));
        let parameters = match self.literal_values(&literals, &types) {
            Ok(parameters) if types.len() == literals.len() && is_plan => parameters,
            // A literal that its type does not read, or one that is to be shown.
            _ => {
                statement = binder::bind(&piece.text, &[], &[], &catalog, &settings)?;
                types = parameter_types(&statement);
                literals = Literals::new();
                Arc::from([])
            }
        };
        // A text that is as it was sent, with its literals, is hardly met again.
        let cacheable =
            !own_catalog && matches!(statement, Statement::Planned(_)) && piece.text.len() <= PLAN_TEXT_BYTES_MAX;
        let key = if literals.is_empty() {
            &*piece.text
        } else {
            &*normalised.key
        };
        if cacheable && let Some(key) = self.plan_key(key) {
            let plan = CachedPlan {
                statement: statement.clone(),
                catalog_version: catalog.version,
                parameter_types: Arc::from(types),
                enums: Arc::clone(&catalog.enum_labels),
                pinned: pinned_literals(&statement, &literals),
            };
            context.plans.lock().put(&key, plan);
        }
        Ok(self.scripted(statement, catalog.version, piece, parameters, context.now_us))
    }

    /// A piece as it stands, for another node to make sense of.
    fn for_elsewhere(&self, piece: &Piece, now_us: i64) -> Current {
        Current {
            sql: Arc::from(piece.in_place()),
            ..self.scripted(Statement::Elsewhere, 0, piece, Arc::from([]), now_us)
        }
    }

    fn scripted(
        &self,
        statement: Statement,
        catalog_version: u64,
        piece: &Piece,
        parameters: Arc<[Value]>,
        now_us: i64,
    ) -> Current {
        Current {
            statement,
            catalog_version,
            sql: Arc::clone(&piece.text),
            is_prepared: false,
            parameters,
            cursor: None,
            origin: Origin::Script,
            formats: crate::client::Formats::new(),
            max_rows: usize::MAX,
            rows: 0,
            describe: true,
            savepoint: None,
            mark: 0,
            streamed: false,
            holds: false,
            alone: piece.alone && self.block == Block::None,
            tag: None,
            fetch: None,
            failure: None,
            told_tag: None,
            making: None,
            started_us: now_us,
            numbers: None,
            sees_others: false,
            anew: piece.is_anew.then_some(Anew::Table),
        }
    }

    /// The values of literals for a plan that is kept. Labels are those that it was made with: if they have changed since, it is made again.
    fn literal_values_of(&mut self, literals: &Literals, cached: &CachedPlan) -> Result<Arc<[Value]>> {
        if !Arc::ptr_eq(&self.text.enums, &cached.enums) {
            self.text.enums = Arc::clone(&cached.enums);
        }
        self.literal_values(literals, &cached.parameter_types)
    }

    /// The values of literals that were taken out of a text: strings are read as the types the plan gave them.
    fn literal_values(&self, literals: &Literals, types: &[DataType]) -> Result<Arc<[Value]>> {
        let values = literals
            .iter()
            .enumerate()
            .map(|(index, literal)| match literal.value() {
                Value::Text(text) => match types.get(index) {
                    Some(DataType::Text | DataType::Varchar | DataType::Unknown) | None => Ok(Value::Text(text)),
                    Some(data_type) => parse_text(*data_type, -1, &text, &self.text),
                },
                value => Ok(value),
            });
        values.collect()
    }

    /// The current statement's plan is for other versions of its tables: binds it again.
    fn bind_again(&mut self, partition: &Partition) -> Result<()> {
        let catalog = self.catalog(partition);
        let Some(current) = &self.current else { return Ok(()) };
        let (types, sql, values) = (
            parameter_types(&current.statement),
            Arc::clone(&current.sql),
            current.parameters.len(),
        );
        let (statement, parameters) = match current.origin {
            // Its text has the literals in it.
            Origin::Script if !current.is_prepared => {
                (binder::bind(&sql, &[], &[], &catalog, self)?, Some(Arc::from([])))
            }
            _ if values == 0 || types.len() != values => (binder::bind(&sql, &[], &[], &catalog, self)?, None),
            _ => (binder::bind(&sql, &[], &types, &catalog, self)?, None),
        };
        if let Some(current) = &mut self.current {
            if !gives_the_same(&current.statement, &statement) {
                if current.is_prepared {
                    return Err(result_type_changed());
                }
                // Its client has been told what columns it has.
                if !current.describe && current.origin == Origin::Script {
                    let table = current.sql.to_string();
                    return Err(Error::serialization(
                        "the schema was changed by another transaction",
                        table,
                    ));
                }
            }
            current.statement = statement;
            current.catalog_version = catalog.version;
            current.cursor = None;
            if let Some(parameters) = parameters {
                current.parameters = parameters;
            }
        }
        Ok(())
    }

    /// The end of a script: its implicit transaction commits.
    pub(super) fn end_script(&mut self, partition: &mut Partition, responder: &mut dyn Responder) -> Next {
        if self.block == Block::Implicit {
            match self.commit_now(partition, responder) {
                Ok(None) => {}
                Ok(Some(park)) => return park,
                Err(error) => {
                    let _ = self.fail(error, partition, responder);
                }
            }
        }
        self.in_script = false;
        // Numbers of statements that failed: nobody was shown them, and the next attempt writes them down.
        let _ = self.note_sequences(partition);
        self.deliver(responder);
        self.tell_ready(responder);
        Next::Idle
    }
}

/// The types of a statement's parameters.
pub(super) fn parameter_types(statement: &Statement) -> Vec<DataType> {
    match statement {
        Statement::Planned(plan) => plan.parameter_types.clone(),
        Statement::Utility(utility) => match &**utility {
            Utility::Declare { statement, .. } | Utility::Explain { statement, .. } => parameter_types(statement),
            Utility::CreateTableAs(create) => create.source.parameter_types.clone(),
            _ => Vec::new(),
        },
        Statement::Empty | Statement::Elsewhere => Vec::new(),
    }
}

/// An error of one statement, as an error of its script.
fn placed(error: Error, characters_before: u32, semicolon: Option<u32>) -> Error {
    at_semicolon(error.moved(characters_before), semicolon)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binder::SearchPath;
    use crate::catalog::Catalog;
    use rubato_base::text_format::TextContext;

    /// A statement keeps its place in its script, and what stands before it is no more than some tokens for who reads it once more.
    #[test]
    fn a_statement_far_behind_is_few_tokens() {
        for before in [0, 3, 64, 70, 1000, 100_000] {
            let piece = Piece {
                text: Arc::from("select nope"),
                characters_before: before,
                semicolon: None,
                alone: false,
                is_anew: false,
            };
            let placed = piece.in_place();
            assert_eq!(placed.chars().count(), before as usize + piece.text.len());
            let error = binder::bind(
                &placed,
                &[],
                &[],
                &Catalog::default(),
                &TextSettings {
                    text: TextContext::default(),
                    path: SearchPath::default(),
                },
            )
            .expect_err("there is no such column");
            assert_eq!(error.fields().position, Some(before + 8), "{error}");
            let blanks = placed.chars().take_while(|next| *next == ' ').count();
            assert!(blanks <= BLANKS_MAX + "/**/".len(), "{blanks}");
        }
    }
}
