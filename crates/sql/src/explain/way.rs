//! EXPLAIN ANALYZE: the statement's way through stages and nodes.

use rubato_base::NodeId;
use rubato_base::trace::Effort;
use rubato_stages::StageKind;

/// What the slices of a statement took in one kind of stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceFigures {
    /// The stage.
    pub stage: StageKind,
    /// How many slices have ended.
    pub slices: u64,
    /// Time in which the statement waited for its turn.
    pub queued_us: u64,
    /// Time in which it was worked on.
    pub worked_us: u64,
    /// Time in which it waited for other nodes or transactions.
    pub parked_us: u64,
}

impl SliceFigures {
    /// Nothing yet.
    pub(crate) fn of(stage: StageKind) -> SliceFigures {
        SliceFigures {
            stage,
            slices: 0,
            queued_us: 0,
            worked_us: 0,
            parked_us: 0,
        }
    }
}

/// What a statement had another node do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFigures {
    /// The node.
    pub node: NodeId,
    /// Operations on its rows.
    pub operations: u64,
    /// Messages there and back.
    pub messages: u64,
    /// Bytes of what it was asked.
    pub bytes_sent: u64,
    /// Bytes of what it answered.
    pub bytes_received: u64,
    /// Rows, or groups of rows, that came from it.
    pub rows: u64,
    /// Time between questions and answers.
    pub waited_us: u64,
    /// What of it the node says that it took.
    pub effort: Effort,
}

impl NodeFigures {
    /// Nothing yet.
    pub(crate) fn of(node: NodeId) -> NodeFigures {
        NodeFigures {
            node,
            operations: 0,
            messages: 0,
            bytes_sent: 0,
            bytes_received: 0,
            rows: 0,
            waited_us: 0,
            effort: Effort::default(),
        }
    }
}

/// A statement's way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WayFigures {
    /// The node on which it ran, in a grid.
    pub node: Option<NodeId>,
    /// The stages of that node, by their index.
    pub slices: Vec<SliceFigures>,
    /// Other nodes, by their number.
    pub nodes: Vec<NodeFigures>,
}

type Fields = Vec<(&'static str, u64)>;

impl SliceFigures {
    fn fields(&self) -> Fields {
        vec![
            ("Slices", self.slices),
            ("Queued us", self.queued_us),
            ("Worked us", self.worked_us),
            ("Parked us", self.parked_us),
        ]
    }
}

impl NodeFigures {
    fn fields(&self) -> Fields {
        vec![
            ("Operations", self.operations),
            ("Messages", self.messages),
            ("Bytes sent", self.bytes_sent),
            ("Bytes received", self.bytes_received),
            ("Rows", self.rows),
            ("Waited us", self.waited_us),
            ("Queued there us", self.effort.queued_us),
            ("Worked there us", self.effort.worked_us),
            ("Waited there us", self.effort.waited_us),
        ]
    }
}

impl WayFigures {
    /// One line for each stage and node.
    pub(super) fn text_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.node.iter().map(|node| format!("Run by node {node}")).collect();
        lines.extend(self.slices.iter().map(|slice| {
            format!(
                "Slices of the {} stage: {} (queued {} us, worked {} us, parked {} us)",
                slice.stage, slice.slices, slice.queued_us, slice.worked_us, slice.parked_us
            )
        }));
        lines.extend(self.nodes.iter().map(|node| {
            let Effort {
                queued_us,
                worked_us,
                waited_us,
            } = node.effort;
            format!(
                "Node {}: operations {}, messages {}, bytes {} sent and {} received, rows {}, waited {} us \
                 (there: queued {queued_us} us, worked {worked_us} us, waited {waited_us} us)",
                node.node,
                node.operations,
                node.messages,
                node.bytes_sent,
                node.bytes_received,
                node.rows,
                node.waited_us
            )
        }));
        lines
    }

    /// Fields of a JSON document, each with a comma behind it.
    pub(super) fn json_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.node.iter().map(|node| format!("    \"Node\": {node},")).collect();
        let slices = self.slices.iter().map(|slice| {
            let stage = ("Stage", format!("\"{}\"", slice.stage));
            document(stage, slice.fields())
        });
        let nodes = self
            .nodes
            .iter()
            .map(|node| document(("Node", node.node.to_string()), node.fields()));
        list(&mut lines, "Slices", slices.collect());
        list(&mut lines, "Nodes", nodes.collect());
        lines
    }
}

fn list(lines: &mut Vec<String>, name: &str, documents: Vec<String>) {
    lines.push(format!("    \"{name}\": ["));
    let last = documents.len().saturating_sub(1);
    let documents = documents.into_iter().enumerate();
    lines.extend(documents.map(|(at, document)| format!("      {document}{}", if at < last { "," } else { "" })));
    lines.push("    ],".to_owned());
}

fn document((key, value): (&str, String), fields: Fields) -> String {
    let rest: String = fields
        .into_iter()
        .map(|(key, value)| format!(", \"{key}\": {value}"))
        .collect();
    format!("{{\"{key}\": {value}{rest}}}")
}
