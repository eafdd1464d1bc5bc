//! Enums as the catalog holds them.

use super::{Catalog, RelationName, SchemaId};
use rubato_base::enumeration::EnumLabels;
use rubato_base::{DataType, EnumTypes};
use std::sync::Arc;

/// An enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumType {
    /// Its number among the types; the one behind it is that of its arrays.
    pub oid: u32,
    /// Another one for each definition.
    pub version: u64,
    /// Its schema.
    pub schema: SchemaId,
    /// Its name.
    pub name: String,
    /// Its labels, in order.
    pub labels: Arc<EnumLabels>,
}

impl EnumType {
    /// What the catalog finds it by.
    pub fn key(&self) -> RelationName {
        RelationName::new(self.schema, self.name.as_str())
    }

    /// The type of its values.
    pub fn data_type(&self) -> DataType {
        DataType::Enum(self.oid)
    }
}

impl Catalog {
    /// The enum with this number.
    pub fn enum_by_oid(&self, oid: u32) -> Option<&Arc<EnumType>> {
        self.enums.values().find(|own| own.oid == oid)
    }

    /// A type by PostgreSQL's number of it, also one of the users; domains are told by those that they are of.
    pub fn type_by_oid(&self, oid: u32) -> Option<DataType> {
        let own = |own: &Arc<EnumType>| {
            let types = [Some(own.data_type()), own.data_type().array()];
            types.into_iter().flatten().find(|data_type| data_type.oid() == oid)
        };
        DataType::from_oid(oid).or_else(|| self.enums.values().find_map(own))
    }

    /// The name of the enum or domain with this number.
    pub fn type_by_number(&self, number: u32) -> Option<RelationName> {
        let domain = || self.domains.values().find(|own| own.oid == number).map(|own| own.key());
        self.enum_by_oid(number).map(|own| own.key()).or_else(domain)
    }

    /// Whether a domain or an enum has this name.
    pub fn has_type(&self, name: &RelationName) -> bool {
        self.domains.contains_key(name) || self.enums.contains_key(name)
    }

    /// Makes the labels by number anew: enums have changed.
    pub(crate) fn collect_enum_labels(&mut self) {
        let labels = self.enums.values().map(|own| (own.oid, Arc::clone(&own.labels)));
        self.enum_labels = Arc::new(EnumTypes::new(labels));
    }
}
