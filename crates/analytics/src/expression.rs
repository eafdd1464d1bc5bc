//! Nodes as DataFusion's expressions.

use crate::kinds::Column;
use crate::node::Node;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A node with the words that EXPLAIN shows for it.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    node: Arc<Node>,
    words: Arc<str>,
}

impl Compiled {
    /// `node` as an expression of DataFusion's.
    pub(crate) fn expr(node: Node, words: String) -> Arc<dyn PhysicalExpr> {
        Arc::new(Compiled {
            node: Arc::new(node),
            words: words.into(),
        })
    }

    /// The form of a column as a field of a schema.
    pub(crate) fn arrow_type(column: Column) -> DataType {
        column.kind.arrow_type()
    }
}

impl fmt::Display for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// The same node is the same expression; no two are looked through for being alike.
impl PartialEq for Compiled {
    fn eq(&self, other: &Compiled) -> bool {
        Arc::ptr_eq(&self.node, &other.node)
    }
}

impl Eq for Compiled {}

impl Hash for Compiled {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (Arc::as_ptr(&self.node) as usize).hash(state);
    }
}

impl PhysicalExpr for Compiled {
    fn data_type(&self, _input_schema: &Schema) -> Result<DataType> {
        Ok(Compiled::arrow_type(self.node.column))
    }

    fn nullable(&self, _input_schema: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let operand = self.node.evaluate(batch)?;
        Ok(match operand.is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&operand.array, 0)?),
            false => ColumnarValue::Array(operand.array),
        })
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(self)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}
