//! Writing.

use crate::catalog::{
    Catalog, Check, Column, Deferral, Domain, DomainCheck, EnumType, ForeignKey, Index, IndexOptions, KeyExpression,
    Materialised, OnCommit, ReferentialAction, RelationName, Remarked, RowExpression, SchemaId, Sequence, SpreadWay,
    Table, View, ViewCheck, ViewOptions, ViewQuery,
};
use rubato_base::codec::{encode_value, put_bytes, put_data_type, put_length};
use rubato_base::{ColumnType, Value};
use rubato_formula::Expr;

pub(super) fn catalog(catalog: &Catalog, out: &mut Vec<u8>) {
    out.extend_from_slice(&catalog.version.to_le_bytes());
    out.extend_from_slice(&catalog.next_id.to_le_bytes());
    list(out, catalog.schemas.iter(), |out, (name, id)| {
        text(out, name);
        schema(out, *id);
    });
    list(out, catalog.tables.values(), |out, own| table(own, out));
    list(out, catalog.sequences.values(), |out, own| sequence(own, out));
    list(out, catalog.views.values(), |out, own| view(own, out));
    list(out, catalog.comments.iter(), |out, ((relation, column), comment)| {
        out.extend_from_slice(&relation.to_le_bytes());
        out.extend_from_slice(&column.to_le_bytes());
        text(out, comment);
    });
    list(out, catalog.domains.values(), |out, own| domain(own, out));
    list(out, catalog.enums.values(), |out, own| enum_type(own, out));
    list(out, catalog.extensions.iter(), |out, (name, own)| {
        text(out, name);
        out.extend_from_slice(&own.oid.to_le_bytes());
        schema(out, own.schema);
    });
}

fn enum_type(own: &EnumType, out: &mut Vec<u8>) {
    out.extend_from_slice(&own.oid.to_le_bytes());
    out.extend_from_slice(&own.version.to_le_bytes());
    schema(out, own.schema);
    text(out, &own.name);
    list(out, own.labels.iter(), |out, label| {
        out.extend_from_slice(&label.oid.to_le_bytes());
        out.extend_from_slice(&label.position.to_le_bytes());
        text(out, &label.text);
    });
}

fn domain(domain: &Domain, out: &mut Vec<u8>) {
    out.extend_from_slice(&domain.oid.to_le_bytes());
    out.extend_from_slice(&domain.version.to_le_bytes());
    schema(out, domain.schema);
    text(out, &domain.name);
    type_and_modifier(out, domain.column_type);
    out.push(u8::from(domain.not_null));
    option(out, domain.default.as_ref(), expr);
    option(out, domain.default_text.as_ref(), |out, default| text(out, default));
    domain_checks(out, &domain.checks);
    option(out, domain.base.as_ref(), |out, base| {
        out.extend_from_slice(&base.oid.to_le_bytes());
        out.push(u8::from(base.not_null));
        domain_checks(out, &base.checks);
    });
}

fn domain_checks(out: &mut Vec<u8>, checks: &[DomainCheck]) {
    list(out, checks.iter(), |out, check| {
        text(out, &check.name);
        expr(out, &check.condition);
        out.push(u8::from(check.is_valid));
    });
}

fn view(view: &View, out: &mut Vec<u8>) {
    out.extend_from_slice(&view.oid.to_le_bytes());
    out.extend_from_slice(&view.version.to_le_bytes());
    schema(out, view.schema);
    text(out, &view.name);
    list(out, view.columns.iter(), |out, (name, column_type)| {
        text(out, name);
        type_and_modifier(out, *column_type);
    });
    view_query(&view.query, out);
    view_options(&view.options, out);
}

fn view_options(options: &ViewOptions, out: &mut Vec<u8>) {
    out.push(match options.check {
        None => 0,
        Some(ViewCheck::Local) => 1,
        Some(ViewCheck::Cascaded) => 2,
    });
    for truth in [options.security_barrier, options.security_invoker] {
        option(out, truth, |out, truth| out.push(u8::from(truth)));
    }
}

fn view_query(query: &ViewQuery, out: &mut Vec<u8>) {
    text(out, &query.text);
    list(out, query.depends.iter(), |out, dependency| {
        relation(out, &dependency.relation);
        numbers(out, &dependency.columns);
    });
    list(out, query.path.iter(), |out, id| schema(out, *id));
}

fn schema(out: &mut Vec<u8>, schema: SchemaId) {
    out.extend_from_slice(&schema.0.to_le_bytes());
}

fn relation(out: &mut Vec<u8>, relation: &RelationName) {
    schema(out, relation.schema);
    text(out, &relation.name);
}

fn list<T>(out: &mut Vec<u8>, items: impl ExactSizeIterator<Item = T>, mut put: impl FnMut(&mut Vec<u8>, T)) {
    put_length(out, items.len());
    for item in items {
        put(out, item);
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

fn numbers(out: &mut Vec<u8>, numbers: &[usize]) {
    list(out, numbers.iter(), |out, number| put_length(out, *number));
}

fn expr(out: &mut Vec<u8>, expr: &Expr) {
    let mut bytes = Vec::new();
    expr.encode(&mut bytes);
    put_bytes(out, &bytes);
}

fn option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

pub(super) fn table(table: &Table, out: &mut Vec<u8>) {
    out.extend_from_slice(&table.oid.to_le_bytes());
    out.extend_from_slice(&table.id.0.to_le_bytes());
    out.extend_from_slice(&table.version.to_le_bytes());
    schema(out, table.schema);
    text(out, &table.name);
    list(out, table.columns.iter(), column);
    numbers(out, &table.primary_key);
    text(out, &table.primary_key_name);
    list(out, table.indexes.iter(), index);
    list(out, table.expressions.iter(), key_expression);
    list(out, table.checks.iter(), check);
    list(out, table.foreign_keys.iter(), foreign_key);
    list(out, table.referenced_by.iter(), |out, (table, key)| {
        relation(out, table);
        text(out, key);
    });
    option(out, table.materialised.as_deref(), materialised);
    out.push(match table.on_commit {
        OnCommit::Preserve => 0,
        OnCommit::Delete => 1,
        OnCommit::Drop => 2,
    });
    numbers(out, &table.primary_key_included);
    list(out, table.remarks.iter(), |out, ((kind, name), comment)| {
        out.push(u8::from(*kind == Remarked::Constraint));
        text(out, name);
        text(out, comment);
    });
    list(out, table.columns.iter(), |out, column| {
        option(out, column.missing.as_ref(), value);
    });
    option(out, table.spread.as_ref(), |out, spread| {
        list(out, spread.nodes.iter(), |out, node| {
            out.extend_from_slice(&node.0.to_le_bytes())
        });
        way(out, &spread.way);
        for turns in [&spread.turns, &spread.former] {
            list(out, turns.iter(), |out, node| put_length(out, node.0 as usize));
        }
        out.push(u8::from(spread.takes_new));
    });
    out.push(u8::from(table.is_unchecked));
}

fn way(out: &mut Vec<u8>, way: &SpreadWay) {
    let by = |out: &mut Vec<u8>, column: &Option<usize>| {
        option(out, column.as_ref(), |out, column| put_length(out, *column))
    };
    match way {
        SpreadWay::Hash { column, parts } => {
            out.push(0);
            by(out, column);
            out.extend_from_slice(&parts.to_le_bytes());
        }
        SpreadWay::Range { column, bounds } => {
            out.push(1);
            by(out, column);
            list(out, bounds.iter(), value);
        }
        SpreadWay::Everywhere => out.push(2),
        SpreadWay::Whole => out.push(3),
    }
}

fn value(out: &mut Vec<u8>, value: &Value) {
    let mut bytes = Vec::new();
    encode_value(value, &mut bytes);
    put_bytes(out, &bytes);
}

fn materialised(out: &mut Vec<u8>, materialised: &Materialised) {
    view_query(&materialised.query, out);
    out.push(u8::from(materialised.is_populated));
}

fn type_and_modifier(out: &mut Vec<u8>, column_type: ColumnType) {
    put_data_type(out, column_type.data_type);
    out.extend_from_slice(&column_type.modifier.to_le_bytes());
}

fn row_expression(out: &mut Vec<u8>, own: &RowExpression) {
    expr(out, &own.expr);
}

fn key_expression(out: &mut Vec<u8>, own: &KeyExpression) {
    type_and_modifier(out, own.column_type);
    row_expression(out, &own.value);
}

fn column(out: &mut Vec<u8>, column: &Column) {
    text(out, &column.name);
    type_and_modifier(out, column.column_type);
    let identity = match column.identity_always {
        None => 0,
        Some(false) => 4,
        Some(true) => 8,
    };
    out.push(u8::from(column.not_null) | u8::from(column.dropped) << 1 | identity);
    option(out, column.default.as_ref(), expr);
    option(out, column.default_text.as_ref(), |out, default| text(out, default));
    option(out, column.generated.as_ref(), row_expression);
    option(out, column.domain.as_ref(), relation);
}

fn index(out: &mut Vec<u8>, index: &Index) {
    out.extend_from_slice(&index.id.0.to_le_bytes());
    text(out, &index.name);
    numbers(out, &index.columns);
    out.push(u8::from(index.unique) | u8::from(index.constraint) << 1);
    deferral(out, index.deferral);
    option(out, index.predicate.as_ref(), row_expression);
    index_options(out, &index.options);
}

fn index_options(out: &mut Vec<u8>, options: &IndexOptions) {
    out.push(u8::from(options.is_primary) | u8::from(options.nulls_not_distinct) << 1);
    numbers(out, &options.included);
    list(out, options.orders.iter(), |out, order| out.push(order.bits()));
}

fn check(out: &mut Vec<u8>, check: &Check) {
    text(out, &check.name);
    text(out, &check.text);
    expr(out, &check.condition);
    out.push(u8::from(check.is_valid));
    option(out, check.domain.as_ref(), |out, rule| {
        relation(out, &rule.domain);
        out.extend_from_slice(&rule.oid.to_le_bytes());
        option(out, rule.constraint.as_ref(), |out, constraint| text(out, constraint));
    });
}

fn action(out: &mut Vec<u8>, action: ReferentialAction) {
    out.push(match action {
        ReferentialAction::Refuse => 0,
        ReferentialAction::Cascade => 1,
        ReferentialAction::SetNull => 2,
        ReferentialAction::SetDefault => 3,
        ReferentialAction::Restrict => 4,
    });
}

fn deferral(out: &mut Vec<u8>, deferral: Deferral) {
    out.push(match deferral {
        Deferral::Never => 0,
        Deferral::Immediate => 1,
        Deferral::Deferred => 2,
    });
}

fn foreign_key(out: &mut Vec<u8>, key: &ForeignKey) {
    text(out, &key.name);
    relation(out, &key.referenced_table);
    numbers(out, &key.columns);
    numbers(out, &key.referenced_columns);
    action(out, key.on_delete);
    action(out, key.on_update);
    deferral(out, key.deferral);
    out.push(u8::from(key.is_valid));
}

fn sequence(sequence: &Sequence, out: &mut Vec<u8>) {
    out.extend_from_slice(&sequence.id.to_le_bytes());
    schema(out, sequence.schema);
    text(out, &sequence.name);
    for number in [sequence.start, sequence.increment, sequence.minimum, sequence.maximum] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.push(u8::from(sequence.cycle));
    option(out, sequence.owned_by.as_ref(), |out, (table, column)| {
        relation(out, table);
        put_length(out, *column);
    });
    option(out, sequence.data_type, put_data_type);
    out.extend_from_slice(&sequence.cache.to_le_bytes());
    out.extend_from_slice(&sequence.values.to_le_bytes());
}
