//! What a session keeps open between its statements, as it is asked for in `pg_prepared_statements` and `pg_cursors`.

use super::portals::{Portal, Portals};
use super::prepared::Prepared;
use crate::client::Format;
use rubato_base::{Array, DataType, Result, Value};
use rubato_formula::Environment;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The prepared statements and portals of a session.
pub(crate) struct OpenThings<'a> {
    pub(super) prepared: &'a BTreeMap<String, Arc<Prepared>>,
    pub(super) portals: &'a Portals,
    pub(super) channels: &'a BTreeSet<Arc<str>>,
}

impl OpenThings<'_> {
    /// The named prepared statements. There is one plan for all values of the parameters, so that every execution counts as one of a
    /// generic plan.
    pub(super) fn statements(&self, environment: &dyn Environment) -> Result<Vec<Vec<Value>>> {
        let named = self.prepared.iter().filter(|(name, _)| !name.is_empty());
        let row = |(name, prepared): (&String, &Arc<Prepared>)| {
            Ok(vec![
                Value::text(name),
                Value::text(prepared.told()),
                Value::TimestampTz(prepared.since_us),
                types(&prepared.types, environment)?,
                Value::Bool(prepared.declared.is_some()),
                Value::Int8(prepared.runs.load(Ordering::Relaxed) as i64),
                Value::Int8(0),
            ])
        };
        named.map(row).collect()
    }

    /// The portals, of DECLARE or of the protocol.
    pub(super) fn cursors(&self) -> Vec<Vec<Value>> {
        let row = |(name, portal): (&str, &Portal)| {
            vec![
                Value::text(name),
                Value::text(portal.prepared.told()),
                Value::Bool(portal.is_holdable()),
                Value::Bool(portal.formats.first() == Some(&Format::Binary)),
                Value::Bool(portal.is_scrollable),
                Value::TimestampTz(portal.since_us),
            ]
        };
        self.portals.iter().map(row).collect()
    }
}

impl OpenThings<'_> {
    /// The channels that the session listens to.
    pub(super) fn channels(&self) -> Vec<Vec<Value>> {
        self.channels.iter().map(|channel| vec![Value::text(channel)]).collect()
    }
}

/// The names of types.
fn types(types: &[DataType], environment: &dyn Environment) -> Result<Value> {
    let name = |data_type: &DataType| {
        let number = Value::Int8(i64::from(data_type.oid()));
        environment.catalog_function("format_type", &[number, Value::Null])
    };
    let names = types.iter().map(name).collect::<Result<_>>()?;
    Ok(Value::Array(Arc::new(Array::new(DataType::Text, names))))
}
