//! A database without disk and log, tables, and short ways to write plans.

use crate::elsewhere::Elsewhere;
use crate::undecided::Lot;
use rubato_base::text_format::TextContext;
use rubato_base::{
    ColumnSet, ColumnType, DataType, Error, Key, Lsn, Result, SessionId, TableId, Timestamp, TransactionId, Value,
};
use rubato_formula::{Comparison, Environment, EvalContext, Expr, Volatility, analyse_assignment, resolve_operator};
use rubato_protocol::{
    BeginOptions, CommitLog, CommitRecord, DecisionRecord, FormulaDatabase, Outcome, Policies, PrepareRecord,
    RowSource, Stop, StoredRow, Wait, WaitReason,
};
use rubato_sql::analytics::Engine;
use rubato_sql::catalog::{Catalog, Check, Column, Deferral, ForeignKey, Index, ReferentialAction, Table};
use rubato_sql::client::OutputColumn;
use rubato_sql::executor::{Completion, Cursor, ExecutionContext, Limits, Progress, RowNumbers};
use rubato_sql::far::Rows;
use rubato_sql::plan::*;
use rubato_sql::system_tables::{View, call};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

pub struct NoStore;

impl RowSource for NoStore {
    fn get(&self, _table: TableId, _key: &[u8]) -> Result<Option<StoredRow>> {
        Ok(None)
    }

    fn scan(
        &self,
        _table: TableId,
        _from: Bound<&[u8]>,
        _to: Bound<&[u8]>,
        _reverse: bool,
        _limit: usize,
    ) -> Result<Vec<(Key, StoredRow)>> {
        Ok(Vec::new())
    }
}

/// A log that keeps nothing.
pub struct NoLog(u64);

impl CommitLog for NoLog {
    fn append(&mut self, _record: &CommitRecord<'_>) -> Result<Lsn> {
        self.0 += 1;
        Ok(Lsn(self.0))
    }

    fn append_prepare(&mut self, _record: &PrepareRecord<'_>) -> Result<Lsn> {
        self.0 += 1;
        Ok(Lsn(self.0))
    }

    fn append_decision(&mut self, _record: &DecisionRecord<'_>) -> Result<Lsn> {
        self.0 += 1;
        Ok(Lsn(self.0))
    }
}

#[derive(Default)]
struct Counter(Cell<u64>);

impl RowNumbers for Counter {
    fn next_row_number(&self, _table: TableId) -> u64 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }

    fn next_place(&self, table: TableId) -> u64 {
        self.next_row_number(table)
    }

    fn note_row_number(&self, _table: TableId, number: u64) {
        self.0.set(self.0.get().max(number));
    }
}

/// Sequences from 1 upwards.
#[derive(Default)]
struct Sequences {
    taken: RefCell<BTreeMap<String, i64>>,
    /// What `rubato.analytics` is set to.
    analytics: Option<&'static str>,
}

/// What functions see of a session: sequences and the catalog.
struct Surroundings<'a> {
    sequences: &'a Sequences,
    catalog: &'a Catalog,
}

impl Environment for Surroundings<'_> {
    fn next_value(&self, sequence: &str) -> Result<i64> {
        let mut sequences = self.sequences.taken.borrow_mut();
        let value = sequences.entry(sequence.to_owned()).or_default();
        *value += 1;
        Ok(*value)
    }

    fn catalog_function(&self, name: &str, arguments: &[Value]) -> Result<Value> {
        let view = View {
            catalog: self.catalog,
            database: "rubato",
            user: "rubato",
            path: &Default::default(),
        };
        call(name, arguments, &view)
    }

    fn setting(&self, name: &str) -> Option<String> {
        (name == "rubato.analytics").then(|| self.sequences.analytics.unwrap_or("auto").to_owned())
    }
}

pub struct World {
    sequences: Sequences,
    pub database: FormulaDatabase,
    pub catalog: Catalog,
    row_numbers: Counter,
    pub limits: Limits,
    insight: rubato_sql::insight::Insight,
    /// How many rows a query looks at before it pauses.
    pub rows_left: usize,
    engine: Option<&'static dyn Engine>,
    /// Beside statements there are prepared branches, by this.
    pub undecided: Option<Lot>,
    /// Rows are on other nodes too.
    pub elsewhere: Option<Elsewhere>,
}

/// What a statement gave: its rows as text, and its tag.
pub type Answer = (Vec<String>, String);

impl World {
    pub fn new() -> World {
        World {
            sequences: Sequences::default(),
            database: FormulaDatabase::new(Box::new(NoStore), Policies::default(), Timestamp::ZERO),
            catalog: Catalog::default(),
            row_numbers: Counter::default(),
            limits: Limits::default(),
            insight: Default::default(),
            rows_left: ExecutionContext::UNBOUNDED,
            engine: None,
            undecided: None,
            elsewhere: None,
        }
    }

    /// A world in which an engine runs what it can.
    pub fn with_engine(engine: Option<&'static dyn Engine>) -> World {
        let mut world = World::new();
        world.engine = engine;
        world.sequences.analytics = engine.map(|_| "on");
        world
    }

    pub fn create(&mut self, table: Table) -> Arc<Table> {
        self.database.create_table(table.id);
        table
            .indexes
            .iter()
            .for_each(|index| self.database.create_table(index.id));
        let table = Arc::new(table);
        self.catalog.tables.insert(table.key(), Arc::clone(&table));
        table
    }

    pub fn begin(&mut self) -> TransactionId {
        self.database.begin(BeginOptions {
            session: SessionId(1),
            read_only: false,
        })
    }

    pub fn commit(&mut self, transaction: TransactionId) -> Outcome<()> {
        if let Some(elsewhere) = &mut self.elsewhere {
            elsewhere.end(&mut self.database, |database, branch| {
                database
                    .commit(branch, None, &mut NoLog(0))
                    .expect("nobody is in the way");
            });
        }
        self.database.commit(transaction, None, &mut NoLog(0)).map(|_| ())
    }

    pub fn roll_back(&mut self, transaction: TransactionId) {
        if let Some(elsewhere) = &mut self.elsewhere {
            elsewhere.end(&mut self.database, |database, branch| database.rollback(branch));
        }
        self.database.rollback(transaction);
    }

    /// What waits for other nodes goes on when they have answered.
    pub fn hear(&mut self, wait: &Wait) -> bool {
        wait.reason == WaitReason::Elsewhere && {
            let Some(elsewhere) = &mut self.elsewhere else {
                return false;
            };
            elsewhere.answer(&mut self.database)
        }
    }

    /// Does something to the rows of all nodes.
    pub fn on_all_nodes(&mut self, work: impl Fn(&mut FormulaDatabase)) {
        work(&mut self.database);
        if let Some(elsewhere) = &mut self.elsewhere {
            elsewhere.for_each(work);
        }
    }

    /// A log for what is not a commit.
    pub fn log(&self) -> NoLog {
        NoLog(0)
    }

    /// How values are shown.
    pub fn text(&self) -> TextContext {
        TextContext {
            enums: Arc::clone(&self.catalog.enum_labels),
            ..TextContext::default()
        }
    }

    pub fn with_context<T>(
        &mut self,
        transaction: TransactionId,
        parameters: &[Value],
        work: impl FnOnce(&mut ExecutionContext<'_>) -> T,
    ) -> T {
        let surroundings = Surroundings {
            sequences: &self.sequences,
            catalog: &self.catalog,
        };
        let text = self.text();
        let evaluation = EvalContext {
            text: &text,
            parameters,
            environment: &surroundings,
            ..EvalContext::constant()
        };
        if let Some(elsewhere) = &mut self.elsewhere {
            elsewhere.own = Some(transaction);
        }
        let mut elsewhere = self.elsewhere.as_mut().map(|elsewhere| &mut elsewhere.rows);
        if let Some(rows) = &mut elsewhere {
            rows.go_on(self.limits.bytes_max);
        }
        let mut context = ExecutionContext {
            database: Rows::new(&mut self.database, elsewhere),
            transaction,
            catalog: &self.catalog,
            evaluation: &evaluation,
            row_numbers: &self.row_numbers,
            limits: self.limits,
            rows_left: ExecutionContext::UNBOUNDED,
            analytics: self.engine,
            insight: &self.insight,
            deferred: None,
            subqueries: None,
            working: None,
        };
        work(&mut context)
    }

    /// Runs a cursor until it pauses or ends.
    pub fn step(
        &mut self,
        transaction: TransactionId,
        cursor: &mut Cursor,
        parameters: &[Value],
        max_rows: usize,
    ) -> Outcome<(Vec<String>, Progress)> {
        let mut rows = Vec::new();
        let progress = self.with_context(transaction, parameters, |context| {
            cursor.run(context, max_rows, &mut |row| {
                rows.push(shown(row));
                true
            })
        })?;
        Ok((rows, progress))
    }

    /// Runs a statement in an open transaction.
    pub fn run_in(&mut self, transaction: TransactionId, body: PlanBody, parameters: &[Value]) -> Outcome<Answer> {
        let mut cursor = Cursor::new(plan(body));
        let (rows, progress) = self.step(transaction, &mut cursor, parameters, usize::MAX)?;
        Ok((rows, completion(progress).to_string()))
    }

    /// Runs a statement in a transaction of its own.
    pub fn run(&mut self, body: PlanBody, parameters: &[Value]) -> Result<Answer> {
        let transaction = self.begin();
        match self.run_in(transaction, body, parameters) {
            Ok(answer) => {
                self.commit(transaction).map_err(error_of)?;
                Ok(answer)
            }
            Err(stop) => {
                self.database.rollback(transaction);
                Err(error_of(stop))
            }
        }
    }

    /// The rows of a table in key order.
    pub fn rows(&mut self, table: &Arc<Table>) -> Vec<String> {
        self.run(select(vec![step(table, Access::Full { reverse: false }, 0)]), &[])
            .unwrap()
            .0
    }
}

pub fn completion(progress: Progress) -> Completion {
    match progress {
        Progress::Complete(completion) => completion,
        Progress::Suspended => panic!("suspended"),
    }
}

pub fn error_of(stop: Stop) -> Error {
    match stop {
        Stop::Fail(error) | Stop::Abort(error) => error,
        Stop::Wait(wait) => panic!("waits: {wait:?}"),
    }
}

pub fn shown(row: &[Value]) -> String {
    let show = |value: &Value| {
        let mut out = Vec::new();
        rubato_base::text_format::write_text(value, value.data_type(), &Default::default(), &mut out);
        if value.is_null() {
            "NULL".to_owned()
        } else {
            String::from_utf8(out).unwrap()
        }
    };
    row.iter().map(show).collect::<Vec<_>>().join("|")
}

/// A plan whose output is whatever its body projects.
pub fn plan(body: PlanBody) -> Arc<Plan> {
    let width = match &body {
        PlanBody::Select(select) => select.projection.len(),
        _ => 0,
    };
    let column = OutputColumn {
        name: "c".into(),
        data_type: DataType::Int4,
        modifier: -1,
        table: None,
        column_number: 0,
        told_type: None,
    };
    Arc::new(Plan {
        body,
        parameter_types: Vec::new(),
        output: vec![column; width],
        table_versions: Vec::new(),
        path: Arc::from([]),
        read_only: false,
        asks_sizes: false,
        pinned: Vec::new(),
        subqueries: Arc::default(),
        needs: rubato_sql::route::KnownNeeds::default(),
    })
}

pub fn column(name: &str, data_type: DataType) -> Column {
    Column {
        name: name.into(),
        column_type: ColumnType::plain(data_type),
        not_null: false,
        default: None,
        default_text: None,
        identity_always: None,
        missing: None,
        generated: None,
        domain: None,
        dropped: false,
    }
}

/// A table `name (id int primary key, a int, b text)` without anything else; `id` is its storage.
pub fn table(name: &str, id: u32) -> Table {
    let mut columns = vec![
        column("id", DataType::Int4),
        column("a", DataType::Int4),
        column("b", DataType::Text),
    ];
    columns[0].not_null = true;
    Table {
        oid: id,
        id: TableId(id),
        name: name.into(),
        columns,
        primary_key: vec![0],
        primary_key_included: Vec::new(),
        spread: None,
        remarks: Default::default(),
        primary_key_name: format!("{name}_pkey"),
        indexes: Vec::new(),
        expressions: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        referenced_by: Vec::new(),
        schema: rubato_sql::catalog::SchemaId::PUBLIC,
        materialised: None,
        on_commit: Default::default(),
        is_unchecked: false,
        version: 1,
    }
}

pub fn index(id: u32, name: &str, columns: &[usize], unique: bool) -> Index {
    Index {
        id: TableId(id),
        name: name.into(),
        columns: columns.to_vec(),
        unique,
        constraint: unique,
        deferral: Deferral::Never,
        predicate: None,
        options: Default::default(),
    }
}

pub fn check(name: &str, condition: Expr) -> Check {
    let columns = condition.columns();
    Check {
        name: name.into(),
        condition,
        columns,
        text: String::new(),
        is_valid: true,
        domain: None,
        option_of: None,
    }
}

/// `child.a` refers to `parent.id`.
pub fn refer(parent: &mut Table, child: &mut Table, action: ReferentialAction) {
    let name = format!("{}_a_fkey", child.name);
    parent.referenced_by.push((child.key(), name.clone()));
    child.foreign_keys.push(ForeignKey {
        name,
        columns: vec![1],
        referenced_table: parent.key(),
        referenced_columns: vec![0],
        on_delete: action,
        on_update: action,
        deferral: Deferral::Never,
        is_valid: true,
    });
}

pub fn int(value: i32) -> Expr {
    Expr::Literal(Value::Int4(value))
}

pub fn text(value: &str) -> Expr {
    Expr::Literal(Value::text(value))
}

pub fn null() -> Expr {
    Expr::Literal(Value::Null)
}

pub fn compare(left: Expr, comparison: Comparison, right: Expr) -> Expr {
    Expr::Compare(comparison, Box::new(left), Box::new(right))
}

/// A call of a binary operator on two int4 operands.
pub fn operator(left: Expr, symbol: &str, right: Expr) -> Expr {
    let resolved = resolve_operator(symbol, Some(DataType::Int4), DataType::Int4).unwrap();
    Expr::Call {
        function: resolved.function,
        arguments: vec![left, right],
    }
}

/// A step over all columns of a table.
pub fn step(table: &Arc<Table>, access: Access, first_slot: usize) -> Step {
    Step {
        relation: Relation::Table(Arc::clone(table)),
        alias: table.name.clone(),
        access,
        join: JoinKind::Inner,
        condition: None,
        filter_after: None,
        first_slot,
        columns: (0..table.columns.len()).collect(),
        reads: ColumnSet::ALL,
    }
}

pub fn select_plan(steps: Vec<Step>) -> SelectPlan {
    let width = steps
        .iter()
        .map(|step| step.first_slot + step.columns.len())
        .max()
        .unwrap_or(0);
    SelectPlan {
        steps,
        filter: None,
        aggregate: None,
        projection: (0..width).map(Expr::Column).collect(),
        visible: width,
        input_limit: None,
        distinct: false,
        order_is_served: false,
        order_by: Vec::new(),
        limit: None,
        offset: None,
        lock: None,
        joins: None,
    }
}

pub fn select(steps: Vec<Step>) -> PlanBody {
    PlanBody::Select(select_plan(steps))
}

pub fn range(index: Option<usize>, prefix: Vec<Expr>) -> RangeAccess {
    RangeAccess {
        index,
        prefix,
        low: None,
        high: None,
        reverse: false,
    }
}

pub fn insert_plan(table: &Arc<Table>, rows: Vec<Vec<Expr>>) -> InsertPlan {
    InsertPlan {
        table: Arc::clone(table),
        source: InsertSource::Values(rows),
        on_conflict: None,
        returning: None,
    }
}

pub fn insert(table: &Arc<Table>, rows: Vec<Vec<Expr>>) -> PlanBody {
    PlanBody::Insert(insert_plan(table, rows))
}

pub fn assignment(table: &Table, column: usize, expression: Expr) -> Assignment {
    let column_type = table.columns[column].column_type;
    let shape = analyse_assignment(
        column as u16,
        column_type,
        &|column| table.columns[column].not_null,
        &expression,
    );
    Assignment {
        column,
        expression,
        shape,
    }
}

pub fn update_plan(table: &Arc<Table>, access: Access, assignments: Vec<(usize, Expr)>) -> UpdatePlan {
    let touches = |columns: &[usize]| assignments.iter().any(|(column, _)| columns.contains(column));
    UpdatePlan {
        target: step(table, access, 0),
        filter: None,
        changes_key: touches(&table.primary_key),
        changed_indexes: (0..table.indexes.len())
            .filter(|index| touches(&table.indexes[*index].columns))
            .collect(),
        assignments: assignments
            .iter()
            .map(|(column, expr)| assignment(table, *column, expr.clone()))
            .collect(),
        ordered_because: None,
        bounds: table.row_bounds(),
        returning: None,
        each_differs: assignments
            .iter()
            .any(|(_, expr)| expr.volatility() == Volatility::Volatile),
        columns_read: OnceLock::new(),
    }
}

pub fn delete_plan(table: &Arc<Table>, access: Access) -> DeletePlan {
    DeletePlan {
        target: step(table, access, 0),
        filter: None,
        returning: None,
    }
}

pub fn point(key: i32) -> Access {
    Access::Point(vec![int(key)])
}

pub fn full() -> Access {
    Access::Full { reverse: false }
}
