//! Values of nodes: aliases followed, mappings merged, each key once.

use std::collections::{HashMap, HashSet};

use super::compose::{Content, Document, NodeId};
use super::emit;
use super::parser::Scalar;
use super::resolve::{Resolved, resolve};
use crate::service::BODY_LIMIT;
use crate::steps;

/// The place of a value.
pub(super) type ValueId = usize;

pub(super) enum Value {
    Scalar(Resolved),
    Sequence(Vec<ValueId>),
    Mapping(Mapping),
}

/// The entries of a mapping, in the order in which their keys came.
#[derive(Default)]
pub(super) struct Mapping {
    pub(super) entries: Vec<(Resolved, ValueId)>,
    /// Where the entry of a key is.
    index: HashMap<Key, usize>,
}

/// A key as Go compares it.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(u64),
    Text(String),
}

/// All values of a document.
pub(super) struct Values {
    /// Invariant: every id in a value is the place of another one.
    pub(super) all: Vec<Value>,
    pub(super) root: ValueId,
    /// Which keys came again, where that is forbidden.
    pub(super) duplicates: Vec<String>,
}

/// The values of a document.
///
/// # Errors
///
/// The real decoder's text.
pub(super) fn values(document: &Document) -> Result<Values, String> {
    let mut decoder = Decoder {
        document,
        values: Vec::with_capacity(document.nodes.len()),
        frames: Vec::new(),
        aliases: HashSet::new(),
        duplicates: Vec::new(),
        decoded: 1,
        of_aliases: 0,
        text_of_aliases: 0,
    };
    let mut done = decoder.enter(document.root)?;
    loop {
        let Some(mut frame) = decoder.frames.pop() else {
            let root = done.unwrap_or_default();
            return Ok(Values {
                all: decoder.values,
                root,
                duplicates: decoder.duplicates,
            });
        };
        done = match decoder.step(&mut frame, done)? {
            // The frame goes below the one that it has opened, if it has.
            Step::Enter(node) => {
                decoder.frames.push(frame);
                decoder.enter(node)?
            }
            Step::Merge { node, into } => {
                decoder.frames.push(frame);
                decoder.enter_into(node, Some(into))?
            }
            Step::MergeAll { nodes, into } => {
                decoder.frames.push(frame);
                decoder.frames.push(Frame::Merges { nodes, target: into });
                None
            }
            Step::Leave(value) => value,
        };
    }
}

struct Decoder<'d> {
    document: &'d Document,
    values: Vec<Value>,
    /// What is being decoded, from the root.
    frames: Vec<Frame<'d>>,
    /// The aliases that are being followed.
    aliases: HashSet<NodeId>,
    duplicates: Vec<String>,
    /// How many nodes were decoded, and how many of these for an alias.
    decoded: u64,
    of_aliases: u64,
    /// How long the texts are that were decoded for an alias.
    text_of_aliases: usize,
}

enum Frame<'d> {
    Sequence {
        children: &'d [NodeId],
        next: usize,
        items: Vec<ValueId>,
    },
    Mapping {
        children: &'d [NodeId],
        next: usize,
        /// The mapping that the entries go to.
        target: ValueId,
        /// Whether they go to one that is not of this node.
        merges: bool,
        state: State,
    },
    Alias(NodeId),
    /// Mappings to merge, the next one last.
    Merges {
        nodes: Vec<NodeId>,
        target: ValueId,
    },
}

/// What a mapping waits for.
enum State {
    Nothing,
    Key,
    Value(Resolved),
}

enum Step {
    Enter(NodeId),
    Merge {
        node: NodeId,
        into: ValueId,
    },
    /// In this order from the end.
    MergeAll {
        nodes: Vec<NodeId>,
        into: ValueId,
    },
    /// With a value, unless it went into another one.
    Leave(Option<ValueId>),
}

impl<'d> Decoder<'d> {
    fn enter(&mut self, node: NodeId) -> Result<Option<ValueId>, String> {
        self.enter_into(node, None)
    }

    /// Begins with a node; returns its value if that is done already.
    fn enter_into(&mut self, node: NodeId, into: Option<ValueId>) -> Result<Option<ValueId>, String> {
        steps::step();
        self.count()?;
        let document: &'d Document = self.document;
        match &document.nodes[node].content {
            Content::Scalar(scalar) => {
                self.count_text(scalar)?;
                let value = Value::Scalar(resolve(scalar)?);
                return Ok(Some(self.add(value)));
            }
            Content::Sequence(children) => self.frames.push(Frame::Sequence {
                children,
                next: 0,
                items: Vec::with_capacity(children.len()),
            }),
            Content::Mapping(children) => {
                let target = into.unwrap_or_else(|| self.add(Value::Mapping(Mapping::default())));
                self.frames.push(Frame::Mapping {
                    children,
                    next: 0,
                    target,
                    merges: into.is_some(),
                    state: State::Nothing,
                });
            }
            Content::Alias { anchor, node: named } => {
                if !self.aliases.insert(node) {
                    return Err(format!("yaml: anchor '{anchor}' value contains itself"));
                }
                self.frames.push(Frame::Alias(node));
                // No alias names another one, so that this goes no deeper.
                return self.enter_into(*named, into);
            }
        }
        Ok(None)
    }

    fn add(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        self.values.len() - 1
    }

    /// Counts a node, and refuses what is small and becomes large.
    fn count(&mut self) -> Result<(), String> {
        self.decoded += 1;
        self.of_aliases += u64::from(!self.aliases.is_empty());
        #[expect(clippy::cast_precision_loss, reason = "as Go does")]
        let share = self.of_aliases as f64 / self.decoded as f64;
        if self.of_aliases > 100 && self.decoded > 1_000 && share > allowed_share(self.decoded) {
            return Err(TOO_MANY.to_owned());
        }
        Ok(())
    }

    /// Counts the text of a scalar, and refuses few long ones that become many. The real server does not count text, and
    /// may need any memory for it.
    fn count_text(&mut self, scalar: &Scalar) -> Result<(), String> {
        if !self.aliases.is_empty() {
            self.text_of_aliases += scalar.value.len();
        }
        if self.text_of_aliases > BODY_LIMIT {
            return Err(TOO_MANY.to_owned());
        }
        Ok(())
    }

    /// Goes on with a frame, with what the one above it has left.
    fn step(&mut self, frame: &mut Frame<'d>, done: Option<ValueId>) -> Result<Step, String> {
        let document = self.document;
        match frame {
            Frame::Alias(node) => {
                self.aliases.remove(node);
                Ok(Step::Leave(done))
            }
            Frame::Sequence { children, next, items } => {
                items.extend(done);
                if let Some(child) = children.get(*next) {
                    *next += 1;
                    return Ok(Step::Enter(*child));
                }
                let items = std::mem::take(items);
                Ok(Step::Leave(Some(self.add(Value::Sequence(items)))))
            }
            Frame::Merges { nodes, target } => Ok(match nodes.pop() {
                Some(node) if document.is_mapping(node) => Step::Merge { node, into: *target },
                Some(_) => return Err(NO_MAPPING.to_owned()),
                None => Step::Leave(None),
            }),
            Frame::Mapping {
                children,
                next,
                target,
                merges,
                state,
            } => {
                match (std::mem::replace(state, State::Nothing), done) {
                    (State::Key, Some(key)) => {
                        *state = State::Value(self.key(key)?);
                        *next += 2;
                        return Ok(Step::Enter(children[*next - 1]));
                    }
                    (State::Value(key), Some(value)) => {
                        let line = document.nodes[children[*next - 1]].line;
                        self.insert(*target, key, value, line);
                    }
                    (State::Nothing | State::Key | State::Value(_), _) => {}
                }
                let Some(key) = children.get(*next) else {
                    return Ok(Step::Leave((!*merges).then_some(*target)));
                };
                if document.is_merge(*key) {
                    *next += 2;
                    return self.merge(children[*next - 1], *target);
                }
                *state = State::Key;
                Ok(Step::Enter(*key))
            }
        }
    }

    /// Begins to merge a mapping, or each of a list of them, into another one.
    fn merge(&mut self, node: NodeId, target: ValueId) -> Result<Step, String> {
        if self.document.is_mapping(node) {
            return Ok(Step::Merge { node, into: target });
        }
        match &self.document.nodes[node].content {
            Content::Sequence(children) => {
                // The last one first, as the first one counts most.
                let nodes = children.clone();
                Ok(Step::MergeAll { nodes, into: target })
            }
            Content::Scalar(_) | Content::Mapping(_) | Content::Alias { .. } => Err(NO_MAPPING.to_owned()),
        }
    }

    /// A value as a key.
    fn key(&self, value: ValueId) -> Result<Resolved, String> {
        match &self.values[value] {
            Value::Scalar(key) => Ok(key.clone()),
            Value::Sequence(_) | Value::Mapping(_) => Err(format!(
                "yaml: invalid map key: {}",
                emit::go_syntax(&self.values, value)
            )),
        }
    }

    fn insert(&mut self, target: ValueId, key: Resolved, value: ValueId, line: u64) {
        steps::step();
        let Value::Mapping(mapping) = &mut self.values[target] else {
            return;
        };
        let Some(compared) = Key::of(&key) else {
            mapping.entries.push((key, value));
            return;
        };
        match mapping.index.entry(compared) {
            std::collections::hash_map::Entry::Occupied(place) => {
                mapping.entries[*place.get()].1 = value;
                let key = emit::go_scalar(&key, "<nil>");
                self.duplicates
                    .push(format!("line {line}: key {key} already set in map"));
            }
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(mapping.entries.len());
                mapping.entries.push((key, value));
            }
        }
    }
}

const TOO_MANY: &str = "yaml: document contains excessive aliasing";
const NO_MAPPING: &str = "yaml: map merge requires map or sequence of maps as the value";

impl Document {
    /// Whether a node is a mapping, or an alias of one.
    fn is_mapping(&self, node: NodeId) -> bool {
        match &self.nodes[node].content {
            Content::Mapping(_) => true,
            Content::Alias { node, .. } => matches!(self.nodes[*node].content, Content::Mapping(_)),
            Content::Scalar(_) | Content::Sequence(_) => false,
        }
    }

    /// Whether a key says that its value is to be merged.
    fn is_merge(&self, key: NodeId) -> bool {
        match &self.nodes[key].content {
            Content::Scalar(Scalar {
                tag, value, is_plain, ..
            }) => value == "<<" && (*is_plain || tag == "tag:yaml.org,2002:merge"),
            Content::Sequence(_) | Content::Mapping(_) | Content::Alias { .. } => false,
        }
    }
}

impl Key {
    /// None for what equals nothing, not even itself.
    fn of(key: &Resolved) -> Option<Self> {
        Some(match key {
            Resolved::Null => Self::Null,
            Resolved::Bool(value) => Self::Bool(*value),
            Resolved::Int(value) => Self::Int(*value),
            Resolved::Uint(value) => Self::Uint(*value),
            Resolved::Float(value) if value.is_nan() => return None,
            // The two zeros are equal.
            Resolved::Float(value) => Self::Float((value + 0.0).to_bits()),
            Resolved::Text(text) => Self::Text(text.clone()),
        })
    }
}

/// Which share of so many nodes may come from aliases. The numbers are those of the Go library.
fn allowed_share(decoded: u64) -> f64 {
    const LOW: u64 = 400_000;
    const HIGH: u64 = 4_000_000;
    if decoded <= LOW {
        return 0.99;
    }
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let above = (decoded - LOW) as f64 / (HIGH - LOW) as f64;
    0.99 - 0.89 * above.min(1.0)
}
