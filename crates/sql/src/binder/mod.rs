//! From text to typed statements: names are looked up, types resolved, and the rest left to the planner.

mod aggregate;
mod alter_table;
mod arbiter;
mod array;
mod blocks;
mod column_options;
mod column_type;
mod comparison;
mod create;
mod create_as;
mod dml;
mod domain;
mod enums;
mod expand;
mod expression;
mod from;
mod function;
mod generated_names;
mod grouping_sets;
mod identity;
mod in_order;
mod insert;
mod interval;
mod joins;
mod json;
mod key_clauses;
mod labels;
mod list_sets;
mod materialised;
mod merge;
mod named_arguments;
mod named_literals;
mod naming;
mod nested;
mod normal_form;
mod number;
mod outer;
mod output_names;
mod parameters;
mod range_frame;
mod records;
mod recursion;
mod renaming;
mod row_expression;
mod row_lock;
mod schema;
mod schemas;
mod scope;
mod search_path;
mod select;
mod sequence;
mod sets;
mod stored_text;
mod subquery;
mod system_columns;
mod table_like;
mod table_options;
mod tail;
mod target;
mod templates;
mod true_type;
mod typed;
pub(crate) mod types;
mod utility;
mod view;
mod whole_row;
mod window;
mod writing_with;

use crate::catalog::{Catalog, RelationName, Table, View, ViewQuery};
use crate::caught::caught;
use crate::databases::is_same_name;
use crate::parser::places::{Marks, Places};
use crate::parser::syntax::{Source, cut, fold, parse_statement, with_stack_for};
use crate::parser::utility::parse_utility;
use crate::parser::{Literal, text_of_key};
use crate::plan::{Plan, PlanBody, SelectPlan};
use crate::planner::{BoundQuery, BoundSelect, KnownParameters, is_read_only, query_locks};
use crate::route::KnownNeeds;
use crate::statement::{Statement, Utility};
use crate::system_tables;
use parameters::Parameters;
use rubato_base::text_format::TextContext;
use rubato_base::{DataType, Error, Result, SqlState};
use sqlparser::ast;
use sqlparser::tokenizer::Span;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use table_options::refuse_parts;
use writing_with::writing_body;

#[cfg(test)]
pub(crate) mod tests_support;

pub(crate) use blocks::{bind_condition, bind_definition};
pub(crate) use named_literals::{OF_SEQUENCES, with_named_literals, with_sequences};
pub(crate) use output_names::{materialised_text, view_text};
pub(crate) use renaming::{Renaming, renamed_check, renamed_query};
pub(crate) use schemas::bind_element;
pub(crate) use scope::{Hidden, ScopeColumn};
pub use search_path::{ResolvedPath, SearchPath};
pub(crate) use stored_text::lacks_groups;
pub(crate) use system_columns::{refuse_system_name, say_number};
pub(crate) use target::writable;
pub(crate) use types::{no_domain, no_type, type_of_text};

/// What binding depends on besides text and catalog. Nothing of it may change the plan: plans are shared between sessions. It is
/// used to check literals and to give their errors.
pub trait BindSettings {
    /// The session's time zone and clock.
    fn text_context(&self) -> TextContext {
        TextContext::default()
    }

    /// Where unqualified names are looked for and made. Plans for another one are not shared.
    fn search_path(&self) -> SearchPath {
        SearchPath::default()
    }

    /// Whether the statement may name parameters. 42P02 if it does and may not.
    fn takes_parameters(&self) -> bool {
        true
    }
}

/// The settings of no session in particular.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultSettings;

impl BindSettings for DefaultSettings {}

/// The settings of a text that comes without values for parameters.
#[derive(Clone, Debug)]
pub struct TextSettings {
    /// For reading literals.
    pub text: TextContext,
    /// Where names are looked for.
    pub path: SearchPath,
}

impl BindSettings for TextSettings {
    fn text_context(&self) -> TextContext {
        self.text.clone()
    }

    fn search_path(&self) -> SearchPath {
        self.path.clone()
    }

    fn takes_parameters(&self) -> bool {
        false
    }
}

/// Binds one statement.
///
/// `sql` is a statement's text or the key that [`crate::parser::normalise`] made of it, with its `literals`. `declared` are the
/// parameter types from Parse, [`DataType::Unknown`] where they are to be inferred; the types of the literals follow those of the
/// user's parameters, and a string literal gets the type its place gives it.
///
/// Errors carry PostgreSQL's SQLSTATE, message and character position in `sql`. A panic is XX000.
pub fn bind(
    sql: &str,
    literals: &[Literal],
    declared: &[DataType],
    catalog: &Catalog,
    settings: &dyn BindSettings,
) -> Result<Statement> {
    let bound = caught(|| bind_source(Source::new(text_of_key(sql)), literals, declared, catalog, settings));
    bound.map_err(|error| {
        let path = settings.search_path().resolve(catalog);
        error.with_type_names(&|marked| path.name_of(marked, catalog))
    })
}

/// Binds a statement that is part of a larger text.
fn bind_source(
    source: Source<'_>,
    literals: &[Literal],
    declared: &[DataType],
    catalog: &Catalog,
    settings: &dyn BindSettings,
) -> Result<Statement> {
    if let Some(syntax) = parse_utility(source)? {
        return utility::bind_utility(syntax, source, literals, declared, catalog, settings);
    }
    with_stack_for(source.text, || {
        bind_grammar(source, literals, declared, catalog, settings)
    })
}

/// Binds a statement of the library's grammar.
fn bind_grammar(
    source: Source<'_>,
    literals: &[Literal],
    declared: &[DataType],
    catalog: &Catalog,
    settings: &dyn BindSettings,
) -> Result<Statement> {
    let parsed = parse_statement(source)?;
    let highest = crate::parser::highest_parameter(source.text).unwrap_or(0);
    let context = Context {
        parameters: RefCell::new(Parameters::new(
            highest,
            literals,
            declared,
            settings.takes_parameters(),
        )),
        ..Context::new(
            source,
            catalog,
            settings.text_context(),
            settings.search_path().resolve(catalog),
        )
    };
    match &parsed.statement {
        ast::Statement::Query(query) => {
            context.check_clauses(&parsed.insert, query)?;
            context.may_write_within.set(query.with.is_some());
            // WITH in front of a statement that writes.
            if let Some(statement) = writing_body(query) {
                context.push_names(query.with.as_ref())?;
                let (mut body, mut output) = context.writing(statement, &parsed.insert)?;
                context.show_returned(&mut body, &mut output)?;
                return context.finish(body, output);
            }
            if matches!(&*query.body, ast::SetExpr::Select(select) if select.into.is_some()) {
                return context.select_into(query);
            }
            let (mut select, mut output) = context.query(query, &[])?;
            context.show_names(&mut select.parts, &mut output)?;
            let plan = context.plan(select);
            context.finish(PlanBody::Select(plan), output)
        }
        statement @ (ast::Statement::Insert(_)
        | ast::Statement::Update(_)
        | ast::Statement::Delete(_)
        | ast::Statement::Merge(_)) => {
            let (mut body, mut output) = context.writing(statement, &parsed.insert)?;
            context.show_returned(&mut body, &mut output)?;
            context.finish(body, output)
        }
        ast::Statement::CreateTable(create) if create.query.is_some() => {
            refuse_parts(create)?;
            match &create.query {
                Some(query) => context.create_table_as(create, query, !parsed.with_no_data),
                None => context.schema_statement(&parsed.statement),
            }
        }
        ast::Statement::CreateView(create) => {
            let change = context.create_view(create, parsed.view_check)?;
            Ok(Statement::Utility(Arc::new(Utility::Schema(change))))
        }
        other => context.schema_statement(other),
    }
}

/// Everything that binding one statement needs at hand.
pub(crate) struct Context<'a> {
    /// The text.
    pub source: Source<'a>,
    /// Marks in it, once a place was asked for.
    marks: OnceCell<Marks>,
    /// The schema.
    pub catalog: &'a Catalog,
    /// For reading literals.
    pub text: TextContext,
    /// For names without a schema.
    pub path: ResolvedPath,
    /// Parameter types.
    pub parameters: RefCell<Parameters>,
    /// Where columns were named last, by number: grouping errors are found when the syntax tree is gone.
    noted: RefCell<BTreeMap<usize, Span>>,
    /// The functions of rows in the select list that is being bound.
    sets: RefCell<Vec<sets::BoundSet>>,
    /// The tables that the plan depends on, with their versions.
    tables: RefCell<BTreeMap<RelationName, u64>>,
    /// The names of WITH in reach, innermost last.
    names: RefCell<Vec<nested::NamedQuery>>,
    /// Which columns of the SELECT bound last had no type of their own.
    unsettled: RefCell<Vec<bool>>,
    /// The queries within expressions.
    subqueries: RefCell<Vec<subquery::BoundSubquery>>,
    /// The queries around the one that is bound, innermost last.
    outer_levels: RefCell<Vec<outer::OuterLevel>>,
    /// The types of what queries refer to of those around them.
    outer_types: RefCell<Vec<DataType>>,
    /// The queries of views that are being bound, one in the other.
    views: RefCell<Vec<ViewQuery>>,
    /// Whether the statement defines a view.
    defines_view: Cell<bool>,
    /// Whether what is bound is part of a definition, which is as the session reads it that makes it.
    fixes_literals: Cell<bool>,
    /// How many queries of WITH RECURSIVE there are, and statements that write within WITH.
    working_numbers: Cell<usize>,
    /// How often columns of queries around were referred to.
    outer_uses: Cell<usize>,
    /// Whether the next WITH is that of the statement itself, within which others may write.
    may_write_within: Cell<bool>,
    /// Whether some statement within WITH writes.
    writes_within: Cell<bool>,
    /// Those statements.
    writing_parts: RefCell<Vec<crate::plan::WithPart>>,
    /// The tables and views that the statement itself names.
    named_relations: RefCell<BTreeSet<RelationName>>,
    /// The queries of views that it names.
    view_queries: RefCell<Vec<Arc<BoundQuery>>>,
    /// Where that is asked for, what the names in the text mean.
    names_meant: Option<RefCell<renaming::Names>>,
}

/// What a table name stands for.
pub(crate) enum NamedRelation {
    Table(Arc<Table>),
    System(&'static system_tables::SystemTable),
    View(Arc<View>),
}

impl<'a> Context<'a> {
    /// A context in which nothing is bound yet, without parameters.
    fn new(source: Source<'a>, catalog: &'a Catalog, text: TextContext, path: ResolvedPath) -> Context<'a> {
        let text = TextContext {
            enums: Arc::clone(&catalog.enum_labels),
            ..text
        };
        Context {
            source,
            marks: OnceCell::new(),
            catalog,
            text,
            path,
            parameters: RefCell::default(),
            noted: RefCell::default(),
            sets: RefCell::default(),
            tables: RefCell::default(),
            names: RefCell::default(),
            unsettled: RefCell::default(),
            subqueries: RefCell::default(),
            outer_levels: RefCell::default(),
            outer_types: RefCell::default(),
            views: RefCell::default(),
            defines_view: Cell::default(),
            fixes_literals: Cell::default(),
            working_numbers: Cell::default(),
            outer_uses: Cell::default(),
            may_write_within: Cell::default(),
            writes_within: Cell::default(),
            writing_parts: RefCell::default(),
            named_relations: RefCell::default(),
            view_queries: RefCell::default(),
            names_meant: None,
        }
    }

    /// The same for another text.
    fn over<'b>(&self, source: Source<'b>) -> Context<'b>
    where
        'a: 'b,
    {
        let context = Context::new(source, self.catalog, self.text.clone(), self.path.clone());
        context.fixes_literals.set(self.fixes_literals.get());
        context
    }
}

impl Context<'_> {
    fn note_column(&self, global: usize, span: Span) {
        self.noted.borrow_mut().insert(global, span);
    }

    /// Where lines and columns of the text are.
    pub(super) fn places(&self) -> Places<'_> {
        let marks = self.marks.get_or_init(|| Marks::of(self.source.text));
        marks.places(self.source)
    }

    /// The position where `span` starts, if the syntax tree knows.
    pub(super) fn position(&self, span: Span) -> Option<u32> {
        self.places().position(span)
    }

    /// Where column `global` was named.
    pub fn noted_position(&self, global: usize) -> Option<u32> {
        let span = self.noted.borrow().get(&global).copied()?;
        self.position(span)
    }

    /// Plans a query with the parameters' types as they are by now.
    pub(super) fn plan(&self, select: BoundSelect) -> SelectPlan {
        select.plan(self)
    }

    /// The finished plan. 42P18 if a parameter is left without a type.
    fn finish(self, body: PlanBody, output: Vec<crate::client::OutputColumn>) -> Result<Statement> {
        Ok(Statement::Planned(self.finished(body, output)?))
    }

    fn finished(self, body: PlanBody, output: Vec<crate::client::OutputColumn>) -> Result<Arc<Plan>> {
        let mut body = self.with_writing_parts(body);
        let asks_sizes = crate::planner::asks_sizes(&body);
        let subqueries = self.plan_subqueries(&mut body)?;
        let asked_lock = subqueries.queries.iter().any(|asked| query_locks(&asked.plan));
        let read_only = is_read_only(&body) && !asked_lock;
        let parameters = self.parameters.take();
        let pinned = parameters.pinned();
        let parameter_types = parameters.finish()?;
        parameter_types.iter().for_each(|own| self.depend_on_labels(*own));
        let table_versions = self.tables.into_inner().into_iter().collect();
        let path = self.path.searched;
        Ok(Arc::new(Plan {
            body,
            parameter_types,
            output,
            table_versions,
            path,
            read_only,
            asks_sizes,
            pinned,
            subqueries: Arc::new(subqueries),
            needs: KnownNeeds::default(),
        }))
    }
}

impl KnownParameters for Context<'_> {
    fn data_type(&self, index: usize) -> DataType {
        self.parameter_type(index)
    }

    fn known_value(&self, index: usize) -> Option<rubato_base::Value> {
        self.known_literal(index)
    }
}

/// Gives an error the position of `span`, unless it has one.
pub(crate) fn located<T>(context: &Context<'_>, span: Span, result: Result<T>) -> Result<T> {
    result.map_err(|error| error.with_position(context.position(span)))
}

/// 42P01.
pub(crate) fn no_relation(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}

/// The folded parts of a name.
pub(crate) fn object_name(name: &ast::ObjectName) -> Result<Vec<String>> {
    name.0
        .iter()
        .map(|part| {
            part.as_ident()
                .map(fold)
                .ok_or_else(|| Error::new(SqlState::INVALID_NAME, "invalid name"))
        })
        .collect()
}

/// The parts of a name that is given as text, as in `nextval('public."Quoted"')`: folded unless quoted. 42602 for other text.
pub(crate) fn name_of_text(text: &str) -> Result<Vec<String>> {
    let invalid = || Error::new(SqlState::INVALID_NAME, "invalid name syntax");
    let mut parts = Vec::new();
    let mut rest = text.trim_start();
    loop {
        let part;
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut name = String::new();
            let mut behind = quoted;
            loop {
                let (before, after) = behind.split_once('"').ok_or_else(invalid)?;
                name.push_str(before);
                match after.strip_prefix('"') {
                    Some(after) => behind = after,
                    None => {
                        rest = after;
                        break;
                    }
                }
                name.push('"');
            }
            part = name;
        } else {
            let end = rest
                .find(|c: char| c == '.' || c.is_ascii_whitespace())
                .unwrap_or(rest.len());
            part = rest[..end].to_ascii_lowercase();
            rest = &rest[end..];
        }
        if part.is_empty() {
            return Err(invalid());
        }
        parts.push(cut(part));
        rest = rest.trim_start();
        match rest.strip_prefix('.') {
            Some(next) => rest = next.trim_start(),
            None if rest.is_empty() => return Ok(parts),
            None => return Err(invalid()),
        }
    }
}

/// Schema and name of a path, with the database left out, which is to be the session's own.
pub(crate) fn split_path<'p>(path: &'p [String], own: &str) -> Result<(Option<&'p str>, &'p str)> {
    match path {
        [name] => Ok((None, name)),
        [schema, name] => Ok((Some(schema), name)),
        [database, schema, name] if is_same_name(database, own) => Ok((Some(schema), name)),
        [_, _, _] => {
            let message = format!("cross-database references are not implemented: \"{}\"", path.join("."));
            Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
        }
        _ => Err(Error::new(
            SqlState::SYNTAX_ERROR,
            format!("improper qualified name (too many dotted names): {}", path.join(".")),
        )),
    }
}

/// Binds a part of `outer`, so that positions are those of the whole.
fn bind_part(
    outer: Source<'_>,
    range: (usize, usize),
    literals: &[Literal],
    declared: &[DataType],
    catalog: &Catalog,
    settings: &dyn BindSettings,
) -> Result<Statement> {
    let part = Source {
        text: &outer.text[range.0..range.1],
        ..outer.tail(range.0)
    };
    bind_source(part, literals, declared, catalog, settings)
}
