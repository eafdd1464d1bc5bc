//! Reading, with every number checked against its table.

use super::{Format, damaged};
use crate::catalog::{
    Catalog, Check, Column, Deferral, Dependency, Domain, DomainBase, DomainCheck, DomainRule, EnumType, Extension,
    ForeignKey, Index, IndexOptions, KeyExpression, KeyOrder, Materialised, OnCommit, PARTS_MAX, ReferentialAction,
    RelationName, Remarked, RowExpression, SchemaId, Sequence, Spread, SpreadWay, Table, View, ViewCheck, ViewOptions,
    ViewQuery, available_extension,
};
use rubato_base::codec::{ByteReader, decode_value};
use rubato_base::{ColumnType, EnumLabel, NodeId, Result, TableId, Value};
use rubato_formula::Expr;
use std::sync::Arc;

pub(super) fn catalog(reader: &mut ByteReader<'_>, format: Format) -> Result<Catalog> {
    let version = reader.u64()?;
    let next_id = reader.u32()?;
    let mut catalog = Catalog {
        version,
        next_id,
        ..Catalog::default()
    };
    if format >= Format::Schemas {
        let schema = |reader: &mut ByteReader<'_>| Ok((text(reader)?, SchemaId(reader.u32()?)));
        catalog.schemas = list(reader, schema)?.into_iter().collect();
    }
    for table in list(reader, |reader| table(reader, format))? {
        catalog.table_names.insert(table.id, table.key());
        catalog.tables.insert(table.key(), Arc::new(table));
    }
    for sequence in list(reader, |reader| sequence(reader, format))? {
        catalog.sequences.insert(sequence.key(), Arc::new(sequence));
    }
    if format >= Format::Views {
        for view in list(reader, |reader| view(reader, format))? {
            catalog.views.insert(view.key(), Arc::new(view));
        }
    }
    if format >= Format::Comments {
        let comment = |reader: &mut ByteReader<'_>| Ok(((reader.u32()?, reader.u32()?), text(reader)?));
        catalog.comments.extend(list(reader, comment)?);
    }
    if format >= Format::Types {
        for domain in list(reader, |reader| domain(reader, format))? {
            catalog.domains.insert(domain.key(), Arc::new(domain));
        }
    }
    if format >= Format::Details {
        for own in list(reader, enum_type)? {
            catalog.enums.insert(own.key(), Arc::new(own));
        }
        catalog.collect_enum_labels();
    }
    if format >= Format::Extensions {
        catalog.extensions.extend(list(reader, extension)?);
    }
    check_references(&catalog)?;
    if format < Format::Schemas {
        crate::schema_change::number_sequences(&mut catalog);
    }
    crate::schema_change::number_identities(&mut catalog);
    Ok(catalog)
}

fn extension(reader: &mut ByteReader<'_>) -> Result<(String, Extension)> {
    let name = text(reader)?;
    let own = Extension {
        oid: reader.u32()?,
        schema: SchemaId(reader.u32()?),
    };
    match available_extension(&name) {
        Some(_) => Ok((name, own)),
        None => Err(damaged("an extension that there is not")),
    }
}

fn domain(reader: &mut ByteReader<'_>, format: Format) -> Result<Domain> {
    Ok(Domain {
        oid: reader.u32()?,
        version: reader.u64()?,
        schema: SchemaId(reader.u32()?),
        name: text(reader)?,
        column_type: column_type(reader)?,
        not_null: flag(reader)?,
        default: option(reader, expr)?,
        default_text: option(reader, text)?,
        checks: domain_checks(reader, format)?,
        base: match format >= Format::Stacked {
            true => option(reader, |reader| domain_base(reader, format))?,
            false => None,
        },
    })
}

fn domain_base(reader: &mut ByteReader<'_>, format: Format) -> Result<DomainBase> {
    Ok(DomainBase {
        oid: reader.u32()?,
        not_null: flag(reader)?,
        checks: domain_checks(reader, format)?,
    })
}

fn domain_checks(reader: &mut ByteReader<'_>, format: Format) -> Result<Vec<DomainCheck>> {
    list(reader, |reader| {
        let check = DomainCheck {
            name: text(reader)?,
            condition: expr(reader)?,
            is_valid: validity(reader, format)?,
        };
        expr_within(&check.condition, 1)?;
        Ok(check)
    })
}

fn enum_type(reader: &mut ByteReader<'_>) -> Result<EnumType> {
    let own = EnumType {
        oid: reader.u32()?,
        version: reader.u64()?,
        schema: SchemaId(reader.u32()?),
        name: text(reader)?,
        labels: Arc::new(list(reader, |reader| {
            Ok(EnumLabel {
                oid: reader.u32()?,
                position: reader.u64()? as i64,
                text: reader.text()?.into(),
            })
        })?),
    };
    match own.labels.is_sorted_by(|one, other| one.position < other.position) {
        true => Ok(own),
        false => Err(damaged("the labels of an enum are not in order")),
    }
}

fn view(reader: &mut ByteReader<'_>, format: Format) -> Result<View> {
    Ok(View {
        oid: reader.u32()?,
        version: reader.u64()?,
        schema: schema(reader, format)?,
        name: text(reader)?,
        columns: list(reader, |reader| Ok((text(reader)?, column_type(reader)?)))?,
        query: view_query(reader, format)?,
        options: match format >= Format::Details {
            true => view_options(reader)?,
            false => ViewOptions::default(),
        },
    })
}

fn view_options(reader: &mut ByteReader<'_>) -> Result<ViewOptions> {
    Ok(ViewOptions {
        check: match reader.u8()? {
            0 => None,
            1 => Some(ViewCheck::Local),
            2 => Some(ViewCheck::Cascaded),
            _ => return Err(damaged("check option of a view")),
        },
        security_barrier: option(reader, flag)?,
        security_invoker: option(reader, flag)?,
    })
}

fn view_query(reader: &mut ByteReader<'_>, format: Format) -> Result<ViewQuery> {
    Ok(ViewQuery {
        text: text(reader)?,
        depends: list(reader, |reader| {
            Ok(Dependency {
                relation: relation(reader, format)?,
                columns: numbers(reader)?,
            })
        })?,
        path: match format >= Format::Schemas {
            true => list(reader, |reader| schema(reader, format))?,
            false => vec![SchemaId::PUBLIC],
        },
    })
}

/// The schema of what follows; formerly all was in `public`.
fn schema(reader: &mut ByteReader<'_>, format: Format) -> Result<SchemaId> {
    match format >= Format::Schemas {
        true => Ok(SchemaId(reader.u32()?)),
        false => Ok(SchemaId::PUBLIC),
    }
}

fn relation(reader: &mut ByteReader<'_>, format: Format) -> Result<RelationName> {
    Ok(RelationName {
        schema: schema(reader, format)?,
        name: text(reader)?,
    })
}

fn check_references(catalog: &Catalog) -> Result<()> {
    for table in catalog.tables.values() {
        let columns = table.columns.iter().filter(|column| !column.dropped);
        let mut numbers = columns.filter_map(|column| column.column_type.data_type.enum_number());
        if numbers.any(|number| catalog.enum_by_oid(number).is_none()) {
            return Err(damaged("a column has a type that is not there"));
        }
        for key in &table.foreign_keys {
            let Some(referred) = catalog.tables.get(&key.referenced_table) else {
                return Err(damaged("a foreign key refers to no table"));
            };
            within(&key.referenced_columns, referred.columns.len())?;
        }
    }
    let materialised = catalog.tables.values().filter_map(|table| table.materialised.as_ref());
    let queries = catalog.views.values().map(|view| &view.query);
    let queries = queries.chain(materialised.map(|materialised| &materialised.query));
    for dependency in queries.flat_map(|query| &query.depends) {
        match catalog.tables.get(&dependency.relation) {
            Some(table) => within(&dependency.columns, table.columns.len())?,
            None if catalog.views.contains_key(&dependency.relation)
                || catalog.sequences.contains_key(&dependency.relation)
                || catalog.has_type(&dependency.relation) => {}
            None => return Err(damaged("a view reads no table")),
        }
    }
    for sequence in catalog.sequences.values() {
        if let Some((table, column)) = &sequence.owned_by {
            let columns = catalog.tables.get(table).map_or(0, |table| table.columns.len());
            within(&[*column], columns)?;
        }
    }
    Ok(())
}

/// A list; memory grows with what is read, never with what a length promises.
fn list<'r, T>(reader: &mut ByteReader<'r>, mut read: impl FnMut(&mut ByteReader<'r>) -> Result<T>) -> Result<Vec<T>> {
    let count = reader.length()?;
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(read(reader)?);
    }
    Ok(items)
}

fn text(reader: &mut ByteReader<'_>) -> Result<String> {
    reader.text().map(str::to_owned)
}

fn numbers(reader: &mut ByteReader<'_>) -> Result<Vec<usize>> {
    list(reader, |reader| reader.length())
}

fn expr(reader: &mut ByteReader<'_>) -> Result<Expr> {
    let mut own = ByteReader::new(reader.bytes()?);
    let expr = Expr::decode(&mut own)?;
    if own.is_empty() {
        Ok(expr)
    } else {
        Err(damaged("bytes after an expression"))
    }
}

fn option<T>(reader: &mut ByteReader<'_>, read: impl FnOnce(&mut ByteReader<'_>) -> Result<T>) -> Result<Option<T>> {
    flag(reader)?.then(|| read(reader)).transpose()
}

fn within(columns: &[usize], count: usize) -> Result<()> {
    match columns.iter().all(|column| *column < count) {
        true => Ok(()),
        false => Err(damaged("a column number is out of range")),
    }
}

fn expr_within(expr: &Expr, count: usize) -> Result<()> {
    let mut fits = true;
    expr.for_each_column(&mut |column| fits &= column < count);
    if fits {
        Ok(())
    } else {
        Err(damaged("an expression reads a column that is not there"))
    }
}

pub(super) fn table(reader: &mut ByteReader<'_>, format: Format) -> Result<Table> {
    let oid = reader.u32()?;
    let id = TableId(reader.u32()?);
    let version = reader.u64()?;
    let mut table = Table {
        oid,
        id,
        version,
        schema: schema(reader, format)?,
        name: text(reader)?,
        columns: list(reader, |reader| column(reader, format))?,
        primary_key: numbers(reader)?,
        primary_key_name: text(reader)?,
        primary_key_included: Vec::new(),
        remarks: Default::default(),
        indexes: list(reader, |reader| index(reader, format))?,
        expressions: match format >= Format::Types {
            true => list(reader, key_expression)?,
            false => Vec::new(),
        },
        checks: list(reader, |reader| check(reader, format))?,
        foreign_keys: list(reader, |reader| foreign_key(reader, format))?,
        referenced_by: list(reader, |reader| Ok((relation(reader, format)?, text(reader)?)))?,
        materialised: match format >= Format::Schemas {
            true => option(reader, materialised)?.map(Arc::new),
            false => None,
        },
        on_commit: match format >= Format::Schemas {
            true => on_commit(reader)?,
            false => OnCommit::Preserve,
        },
        is_unchecked: false,
        spread: None,
    };
    if format >= Format::Details {
        table.primary_key_included = numbers(reader)?;
        let remarks = list(reader, |reader| {
            let kind = match flag(reader)? {
                true => Remarked::Constraint,
                false => Remarked::Index,
            };
            Ok(((kind, text(reader)?), text(reader)?))
        })?;
        table.remarks = remarks.into_iter().collect();
    }
    if format >= Format::Exempt {
        let missing = list(reader, |reader| option(reader, missing_value))?;
        if missing.len() != table.columns.len() {
            return Err(damaged("what rows lack is of other columns"));
        }
        let columns = table.columns.iter_mut().zip(missing);
        columns.for_each(|(column, missing)| column.missing = missing);
    }
    if format >= Format::Spread {
        table.spread = option(reader, |reader| spread(reader, format))?;
    }
    if format >= Format::Unchecked {
        table.is_unchecked = flag(reader)?;
    }
    if format < Format::Ways && table.materialised.is_none() && !table.schema.is_temporary() {
        table.spread.get_or_insert_default();
    }
    let columns = table.columns.len();
    let by = table.spread.as_ref().and_then(|spread| spread.way.column());
    within(&by.into_iter().collect::<Vec<_>>(), columns)?;
    within(&table.primary_key, columns)?;
    within(&table.primary_key_included, columns)?;
    let included = table.indexes.iter().map(|index| &index.options.included);
    included
        .into_iter()
        .try_for_each(|included| within(included, columns))?;
    check_keys(&table)?;
    table
        .checks
        .iter()
        .try_for_each(|check| expr_within(&check.condition, columns))?;
    for key in &table.foreign_keys {
        within(&key.columns, columns)?;
        if key.columns.len() != key.referenced_columns.len() {
            return Err(damaged("the two sides of a foreign key differ in length"));
        }
    }
    // A default reads no column at all.
    table
        .columns
        .iter()
        .filter_map(|column| column.default.as_ref())
        .try_for_each(|default| expr_within(default, 0))?;
    table
        .generated_columns()
        .try_for_each(|(_, own)| expr_within(&own.expr, columns))?;
    Ok(table)
}

fn missing_value(reader: &mut ByteReader<'_>) -> Result<Value> {
    match decode_value(reader.bytes()?)? {
        Value::Null => Err(damaged("what rows lack is NULL")),
        value => Ok(value),
    }
}

fn check_keys(table: &Table) -> Result<()> {
    let columns = table.columns.len();
    for index in &table.indexes {
        let is_known = |number: &usize| *number < columns || table.key_expression(*number).is_some();
        if !index.columns.iter().all(is_known) {
            return Err(damaged("an index holds a column that is not there"));
        }
        if let Some(predicate) = &index.predicate {
            expr_within(&predicate.expr, columns)?;
        }
    }
    let expressions = table.expressions.iter();
    expressions
        .into_iter()
        .try_for_each(|own| expr_within(&own.value.expr, columns))
}

fn row_expression(reader: &mut ByteReader<'_>) -> Result<RowExpression> {
    expr(reader).map(RowExpression::new)
}

fn key_expression(reader: &mut ByteReader<'_>) -> Result<KeyExpression> {
    Ok(KeyExpression {
        column_type: column_type(reader)?,
        value: row_expression(reader)?,
    })
}

fn materialised(reader: &mut ByteReader<'_>) -> Result<Materialised> {
    Ok(Materialised {
        query: view_query(reader, Format::Schemas)?,
        is_populated: flag(reader)?,
    })
}

fn spread(reader: &mut ByteReader<'_>, format: Format) -> Result<Spread> {
    let nodes = list(reader, |reader| reader.u32().map(NodeId))?;
    if !nodes.windows(2).all(|pair| pair[0] < pair[1]) {
        return Err(damaged("the nodes of a table are not in order"));
    }
    let way = match format >= Format::Ways {
        true => way(reader, format)?,
        false => SpreadWay::default(),
    };
    if way == SpreadWay::Whole && nodes.len() != 1 {
        return Err(damaged("a table that is whole lies on several nodes"));
    }
    let mut spread = Spread {
        nodes,
        ..Spread::of_way(way)
    };
    if format >= Format::Moving {
        (spread.turns, spread.former) = (turns(reader)?, turns(reader)?);
        spread.takes_new = flag(reader)?;
        if spread.turns.iter().any(|node| !spread.nodes.contains(node)) {
            return Err(damaged("a part of a table lies on none of its nodes"));
        }
    }
    Ok(spread)
}

fn turns(reader: &mut ByteReader<'_>) -> Result<Vec<NodeId>> {
    let turns = list(reader, |reader| {
        let number = u32::try_from(reader.length()?);
        number.map(NodeId).map_err(|_| damaged("no number of a node"))
    })?;
    match turns.len() <= usize::from(PARTS_MAX) {
        true => Ok(turns),
        false => Err(damaged("the parts of a table are too many")),
    }
}

fn way(reader: &mut ByteReader<'_>, format: Format) -> Result<SpreadWay> {
    Ok(match reader.u8()? {
        0 => SpreadWay::Hash {
            column: option(reader, |reader| reader.length())?,
            parts: match reader.u16()? {
                parts @ 1..=PARTS_MAX => parts,
                _ => return Err(damaged("the parts of a table are too many")),
            },
        },
        1 => SpreadWay::Range {
            column: option(reader, |reader| reader.length())?,
            bounds: list(reader, |reader| decode_value(reader.bytes()?))?,
        },
        2 => SpreadWay::Everywhere,
        3 if format >= Format::Whole => SpreadWay::Whole,
        _ => return Err(damaged("an unknown way to lay rows")),
    })
}

fn on_commit(reader: &mut ByteReader<'_>) -> Result<OnCommit> {
    Ok(match reader.u8()? {
        0 => OnCommit::Preserve,
        1 => OnCommit::Delete,
        2 => OnCommit::Drop,
        _ => return Err(damaged("an unknown ON COMMIT")),
    })
}

fn flag(reader: &mut ByteReader<'_>) -> Result<bool> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(damaged("a flag is neither 0 nor 1")),
    }
}

fn column_type(reader: &mut ByteReader<'_>) -> Result<ColumnType> {
    Ok(ColumnType {
        data_type: reader.data_type()?,
        modifier: reader.u32()? as i32,
    })
}

fn column(reader: &mut ByteReader<'_>, format: Format) -> Result<Column> {
    let name = text(reader)?;
    let column_type = column_type(reader)?;
    let flags = reader.u8()?;
    let identity_always = match flags {
        flags if flags > 11 || flags & 12 == 12 => return Err(damaged("unknown column flags")),
        flags if flags & 8 != 0 => Some(true),
        flags if flags & 4 != 0 => Some(false),
        _ => None,
    };
    Ok(Column {
        name,
        column_type,
        not_null: flags & 1 != 0,
        dropped: flags & 2 != 0,
        identity_always,
        default: option(reader, expr)?,
        default_text: option(reader, text)?,
        generated: match format >= Format::Types {
            true => option(reader, row_expression)?,
            false => None,
        },
        domain: match format >= Format::Types {
            true => option(reader, |reader| relation(reader, Format::Types))?,
            false => None,
        },
        missing: None,
    })
}

fn index(reader: &mut ByteReader<'_>, format: Format) -> Result<Index> {
    let id = TableId(reader.u32()?);
    let name = text(reader)?;
    let columns = numbers(reader)?;
    let flags = reader.u8()?;
    if flags > 3 {
        return Err(damaged("unknown index flags"));
    }
    let deferral = match format {
        Format::First => Deferral::Never,
        _ => deferral(reader)?,
    };
    let predicate = match format >= Format::Types {
        true => option(reader, row_expression)?,
        false => None,
    };
    if deferral.is_deferrable() && flags != 2 {
        return Err(damaged("an index is unique and deferrable at once"));
    }
    let options = match format >= Format::Details {
        true => index_options(reader, columns.len())?,
        false => IndexOptions::default(),
    };
    Ok(Index {
        id,
        name,
        columns,
        predicate,
        unique: flags & 1 != 0,
        constraint: flags & 2 != 0,
        deferral,
        options,
    })
}

fn index_options(reader: &mut ByteReader<'_>, width: usize) -> Result<IndexOptions> {
    let flags = reader.u8()?;
    let options = IndexOptions {
        is_primary: flags & 1 != 0,
        nulls_not_distinct: flags & 2 != 0,
        included: numbers(reader)?,
        orders: list(reader, |reader| {
            let bits = reader.u8()?;
            Ok(KeyOrder {
                descending: bits & 1 != 0,
                nulls_first: bits & 2 != 0,
            })
        })?,
    };
    match flags < 4 && (options.orders.is_empty() || options.orders.len() == width) {
        true => Ok(options),
        false => Err(damaged("options of an index")),
    }
}

fn domain_rule(reader: &mut ByteReader<'_>) -> Result<DomainRule> {
    Ok(DomainRule {
        domain: relation(reader, Format::Types)?,
        oid: reader.u32()?,
        constraint: option(reader, text)?,
    })
}

fn check(reader: &mut ByteReader<'_>, format: Format) -> Result<Check> {
    let (name, text) = (text(reader)?, text(reader)?);
    let condition = expr(reader)?;
    Ok(Check {
        name,
        text,
        columns: condition.columns(),
        condition,
        is_valid: validity(reader, format)?,
        domain: match format >= Format::Types {
            true => option(reader, domain_rule)?,
            false => None,
        },
        option_of: None,
    })
}

/// Before NOT VALID was there, all was valid.
fn validity(reader: &mut ByteReader<'_>, format: Format) -> Result<bool> {
    match format >= Format::Exempt {
        true => flag(reader),
        false => Ok(true),
    }
}

fn action(reader: &mut ByteReader<'_>) -> Result<ReferentialAction> {
    Ok(match reader.u8()? {
        0 => ReferentialAction::Refuse,
        1 => ReferentialAction::Cascade,
        2 => ReferentialAction::SetNull,
        3 => ReferentialAction::SetDefault,
        4 => ReferentialAction::Restrict,
        _ => return Err(damaged("an unknown referential action")),
    })
}

fn deferral(reader: &mut ByteReader<'_>) -> Result<Deferral> {
    Ok(match reader.u8()? {
        0 => Deferral::Never,
        1 => Deferral::Immediate,
        2 => Deferral::Deferred,
        _ => return Err(damaged("an unknown way to defer")),
    })
}

fn foreign_key(reader: &mut ByteReader<'_>, format: Format) -> Result<ForeignKey> {
    Ok(ForeignKey {
        name: text(reader)?,
        referenced_table: relation(reader, format)?,
        columns: numbers(reader)?,
        referenced_columns: numbers(reader)?,
        on_delete: action(reader)?,
        on_update: action(reader)?,
        deferral: match format {
            Format::First => Deferral::Never,
            _ => deferral(reader)?,
        },
        is_valid: validity(reader, format)?,
    })
}

fn sequence(reader: &mut ByteReader<'_>, format: Format) -> Result<Sequence> {
    let id = reader.u32()?;
    let schema = schema(reader, format)?;
    let name = text(reader)?;
    let mut numbers = [0i64; 4];
    for number in &mut numbers {
        *number = reader.u64()? as i64;
    }
    let cycle = flag(reader)?;
    let owned_by = match flag(reader)? {
        true => Some((relation(reader, format)?, reader.length()?)),
        false => None,
    };
    let [start, increment, minimum, maximum] = numbers;
    Ok(Sequence {
        id,
        schema,
        name,
        start,
        increment,
        minimum,
        maximum,
        cycle,
        owned_by,
        data_type: match format >= Format::Details {
            true => option(reader, |reader| reader.data_type())?,
            false => None,
        },
        cache: match format >= Format::Unchecked {
            true => reader.u64()? as i64,
            false => 1,
        },
        values: match format >= Format::Restarted {
            true => reader.u32()?,
            false => id,
        },
    })
}
