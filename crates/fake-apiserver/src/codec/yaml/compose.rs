//! Nodes of the events of the parser: the first document as a tree that lies flat in a list.

use std::collections::HashMap;

use super::parser::{EventKind, Parser, Scalar};

/// The place of a node in its document.
pub(super) type NodeId = usize;

/// A document.
pub(super) struct Document {
    /// Invariant: every id in a node is the place of another one.
    pub(super) nodes: Vec<Node>,
    pub(super) root: NodeId,
}

pub(super) struct Node {
    /// Counted from 1.
    pub(super) line: u64,
    pub(super) content: Content,
}

pub(super) enum Content {
    Scalar(Scalar),
    Sequence(Vec<NodeId>),
    /// Keys and values by turns.
    Mapping(Vec<NodeId>),
    Alias {
        anchor: String,
        node: NodeId,
    },
}

/// The first document of a body, if it has one.
///
/// # Errors
///
/// The real parser's text.
pub(super) fn document(body: &[u8]) -> Result<Option<Document>, String> {
    let mut parser = Parser::new(body);
    let mut composer = Composer::default();
    loop {
        let event = parser.next().map_err(|mistake| mistake.to_string())?;
        let line = event.line + 1;
        match event.kind {
            EventKind::DocumentStart => {}
            EventKind::StreamEnd => return Ok(None),
            EventKind::DocumentEnd => {
                let nodes = composer.nodes;
                return Ok(composer.root.map(|root| Document { nodes, root }));
            }
            EventKind::Alias(anchor) => {
                let Some(&node) = composer.anchors.get(&anchor) else {
                    return Err(format!("yaml: unknown anchor '{anchor}' referenced"));
                };
                composer.add(line, Content::Alias { anchor, node }, None);
            }
            EventKind::Scalar(mut scalar) => {
                let anchor = scalar.anchor.take();
                composer.add(line, Content::Scalar(scalar), anchor);
            }
            EventKind::SequenceStart { anchor } => composer.begin(line, Content::Sequence(Vec::new()), anchor),
            EventKind::MappingStart { anchor } => composer.begin(line, Content::Mapping(Vec::new()), anchor),
            EventKind::SequenceEnd | EventKind::MappingEnd => drop(composer.open.pop()),
        }
    }
}

#[derive(Default)]
struct Composer {
    nodes: Vec<Node>,
    root: Option<NodeId>,
    /// The sequences and mappings around the next node.
    open: Vec<NodeId>,
    anchors: HashMap<String, NodeId>,
}

impl Composer {
    /// A name that is given again means the later node from then on.
    fn add(&mut self, line: u64, content: Content, anchor: Option<String>) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(Node { line, content });
        match self.open.last().map(|&parent| &mut self.nodes[parent].content) {
            Some(Content::Sequence(children) | Content::Mapping(children)) => children.push(id),
            // Only those two are opened.
            Some(Content::Scalar(_) | Content::Alias { .. }) | None => self.root = Some(id),
        }
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, id);
        }
        id
    }

    fn begin(&mut self, line: u64, content: Content, anchor: Option<String>) {
        let id = self.add(line, content, anchor);
        self.open.push(id);
    }
}
