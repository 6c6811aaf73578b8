//! JSON patch (RFC 6902), with the leniency of the real server's library: a replace of a missing key adds it, a copy
//! from a missing key gives null, an add without a value gives null, negative indices count from the end, and what
//! stands before the first slash of a path is ignored.

use std::collections::HashSet;

use super::{
    MAX_DEPTH, PatchError,
    document::{self, Node, remove, set},
};
use crate::codec::{FieldValidation, duplicates_below};
use crate::gotext::go_quote;
use crate::json::{Kind, Tape, Value};
use crate::steps::{step, steps};

/// The real server takes no more operations in one patch.
const MAX_OPERATIONS: usize = 10_000;

/// The real server tells of no more unknown and duplicate members.
const MAX_FINDINGS: usize = 100;

/// The real server lets copies add no more bytes in one patch, as a few operations could otherwise double a document time and again.
const MAX_COPIED: usize = 3 << 20;

/// The operations of a patch may look at so many nodes together: more than those of any patch that is meant well.
const MAX_VISITED: usize = 20_000_000;

/// So many items of a list are moved aside in the time that it takes to look at a node.
const MOVED: usize = 16;

/// What a patch has used up.
#[derive(Debug, Default)]
struct Budget {
    copied: usize,
    visited: usize,
}

impl Budget {
    /// Counts a copy; `None` if it is one too many.
    fn copy(&mut self, node: &Node<'_>) -> Option<()> {
        let mut text = Vec::new();
        node.write(&mut text);
        self.copied += text.len();
        (self.copied <= MAX_COPIED).then_some(())
    }

    /// Counts a look at so many nodes; `None` if it is one too many.
    fn visit(&mut self, nodes: usize) -> Option<()> {
        steps(nodes);
        self.visited += nodes;
        (self.visited <= MAX_VISITED).then_some(())
    }

    /// Counts the items that make room for one, or take it up again.
    fn shift(&mut self, container: &Node<'_>, key: &str) -> Option<()> {
        let Node::Array(items) = container else { return Some(()) };
        let at = index(key, items.len() + 1).unwrap_or(items.len());
        self.visit((items.len() - at) / MOVED)
    }

    /// Counts a look at a node, and checks that it may be put under a path of so many keys.
    fn insert(&mut self, node: &Node<'_>, keys: usize) -> Option<()> {
        let mut visited = 0;
        let depth = depth(node, &mut visited);
        self.visit(visited)?;
        (keys + depth <= MAX_DEPTH).then_some(())
    }
}

/// Applies a JSON patch.
pub(super) fn apply(current: &Tape<'_>, patch: &[u8], validation: FieldValidation) -> Result<Vec<u8>, PatchError> {
    let patch = Tape::parse(patch).map_err(|_| PatchError::BadRequest("invalid JSON patch".to_owned()))?;
    let operations = operations(patch.root(), validation)?;
    let mut document = Node::Parsed(current.root());
    let mut budget = Budget::default();
    for operation in operations {
        run(&mut document, operation, &mut budget).ok_or_else(PatchError::does_not_apply)?;
    }
    let mut out = Vec::with_capacity(current.root().raw().len() + patch.root().raw().len());
    document.write(&mut out);
    Ok(out)
}

/// Checks the types of the operations, and their number. Without field validation, members of a wrong type are found when
/// the operation is run.
fn operations(root: Value<'_>, validation: FieldValidation) -> Result<Vec<Value<'_>>, PatchError> {
    let ignore = validation == FieldValidation::Ignore;
    let wrong = |value: Value<'_>, target: &str| {
        let kind = value.kind().go_name();
        let who = if ignore { "" } else { "error decoding patch: " };
        PatchError::BadRequest(format!("{who}json: cannot unmarshal {kind} into Go {target}"))
    };
    let (of_patch, of_operation) = if ignore {
        ("value of type jsonpatch.Patch", "value of type jsonpatch.Operation")
    } else {
        (
            "value of type []handlers.jsonPatchOp",
            "value of type handlers.jsonPatchOp",
        )
    };
    if !matches!(root.kind(), Kind::Array | Kind::Null) {
        return Err(wrong(root, of_patch));
    }
    let operations: Vec<_> = root.items().collect();
    for operation in &operations {
        if !matches!(operation.kind(), Kind::Object | Kind::Null) {
            return Err(wrong(*operation, of_operation));
        }
        if ignore {
            continue;
        }
        for (key, value) in operation.entries() {
            if let Some(name) = ["op", "path", "from"].into_iter().find(|name| key.is(name))
                && !matches!(value.kind(), Kind::String | Kind::Null)
            {
                return Err(wrong(value, &format!("struct field jsonPatchOp.{name} of type string")));
            }
        }
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    Ok(operations)
}

/// The duplicate members of operations, and those that mean nothing, in document order, each once. What stands below a
/// member that means nothing is not looked at.
pub(super) fn findings(root: Value<'_>) -> Vec<String> {
    let mut found = Findings::default();
    for (index, operation) in root.items().enumerate() {
        let mut seen = Vec::new();
        for (key, value) in operation.entries() {
            let name = key.as_str().unwrap_or_default();
            let path = format!("[{index}].{name}");
            if !matches!(&*name, "op" | "path" | "from" | "value") {
                found.add(format!("unknown field {}", go_quote(&path)));
                continue;
            }
            if seen.contains(&name) {
                found.add(format!("duplicate field {}", go_quote(&path)));
            } else {
                seen.push(name);
            }
            for text in duplicates_below(value, path) {
                found.add(text);
            }
            if found.texts.len() >= MAX_FINDINGS {
                found.texts.truncate(MAX_FINDINGS);
                return found.texts;
            }
        }
    }
    found.texts
}

/// Findings, each once.
#[derive(Default)]
struct Findings {
    texts: Vec<String>,
    seen: HashSet<String>,
}

impl Findings {
    fn add(&mut self, text: String) {
        if self.seen.insert(text.clone()) {
            self.texts.push(text);
        }
    }
}

/// Runs one operation; `None` if it does not apply.
fn run<'t>(document: &mut Node<'t>, operation: Value<'t>, budget: &mut Budget) -> Option<()> {
    step();
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let path = text("path");
    let value = || operation.get("value").map_or(Node::Null, Node::Parsed);
    match &*text("op")? {
        "add" => {
            let (container, key) = find(document, &path?)?;
            add(container, &key, value(), budget)
        }
        "remove" => {
            let (container, key) = find(document, &path?)?;
            take(container, &key, budget).map(drop)
        }
        "replace" => {
            let path = path?;
            if path.is_empty() {
                let new = operation.get("value")?;
                if !matches!(new.kind(), Kind::Object | Kind::Array) {
                    return None;
                }
                *document = Node::Parsed(new);
                return Some(());
            }
            let (container, key) = find(document, &path)?;
            replace(container, &key, value())
        }
        "move" => {
            let (container, key) = find(document, &text("from")?)?;
            let value = take(container, &key, budget)?;
            insert(document, &path?, value, budget)
        }
        "copy" => {
            let (container, key) = find(document, &text("from")?)?;
            let value = match get(container, &key)? {
                Found::Node(node) => {
                    budget.copy(node)?;
                    node.clone()
                }
                Found::Missing => Node::Null,
            };
            insert(document, &path?, value, budget)
        }
        "test" => {
            let path = path?;
            let wanted = value();
            let found = if path.is_empty() {
                document
            } else {
                let (container, key) = find(document, &path)?;
                match get(container, &key)? {
                    Found::Node(found) => found,
                    Found::Missing => return wanted.is_null().then_some(()),
                }
            };
            budget.visit(size(found))?;
            equal(found, &wanted).then_some(())
        }
        _ => None,
    }
}

/// The container that a path leads to and the last key, unescaped. A path without a slash leads nowhere.
fn find<'n, 't>(document: &'n mut Node<'t>, path: &str) -> Option<(&'n mut Node<'t>, String)> {
    let mut keys: Vec<String> = path
        .split('/')
        .skip(1)
        .map(|key| key.replace("~1", "/").replace("~0", "~"))
        .collect();
    let last = keys.pop()?;
    if keys.len() > MAX_DEPTH {
        return None;
    }
    let mut container = document;
    for key in keys {
        let Found::Node(next) = get(container, &key)? else {
            return None;
        };
        container = next;
    }
    (container.object().is_some() || container.array().is_some()).then_some((container, last))
}

/// What a lookup finds: an object may lack a key, but an array never lacks an index that is asked for.
enum Found<'n, 't> {
    Node(&'n mut Node<'t>),
    Missing,
}

/// The node at a key; `None` if there cannot be one.
fn get<'n, 't>(container: &'n mut Node<'t>, key: &str) -> Option<Found<'n, 't>> {
    if container.object().is_some() {
        let entries = container.object()?;
        return Some(document::get(entries, key).map_or(Found::Missing, Found::Node));
    }
    let items = container.array()?;
    let at = index(key, items.len())?;
    items.get_mut(at).map(Found::Node)
}

/// An existing index of an array; negative ones count from the end.
fn index(key: &str, length: usize) -> Option<usize> {
    let at: i64 = key.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    let at = if at < 0 { at.checked_add(length)? } else { at };
    (0..length).contains(&at).then(|| usize::try_from(at).ok()).flatten()
}

/// Adds a node that an operation took or copied from elsewhere in the document.
fn insert<'t>(document: &mut Node<'t>, path: &str, value: Node<'t>, budget: &mut Budget) -> Option<()> {
    budget.insert(&value, path.matches('/').count())?;
    let (container, key) = find(document, path)?;
    add(container, &key, value, budget)
}

fn add<'t>(container: &mut Node<'t>, key: &str, value: Node<'t>, budget: &mut Budget) -> Option<()> {
    // `find` has made it changeable.
    budget.shift(container, key)?;
    if let Some(entries) = container.object() {
        set(entries, key.to_owned().into(), value);
        return Some(());
    }
    let items = container.array()?;
    if key == "-" {
        items.push(value);
    } else {
        let at = index(key, items.len() + 1)?;
        items.insert(at, value);
    }
    Some(())
}

fn replace<'t>(container: &mut Node<'t>, key: &str, value: Node<'t>) -> Option<()> {
    if let Some(entries) = container.object() {
        set(entries, key.to_owned().into(), value);
        return Some(());
    }
    let items = container.array()?;
    let at = index(key, items.len())?;
    *items.get_mut(at)? = value;
    Some(())
}

fn take<'t>(container: &mut Node<'t>, key: &str, budget: &mut Budget) -> Option<Node<'t>> {
    budget.shift(container, key)?;
    if let Some(entries) = container.object() {
        return remove(entries, key);
    }
    let items = container.array()?;
    let at = index(key, items.len())?;
    Some(items.remove(at))
}

/// So many bytes of a text are compared in the time that it takes to look at a node.
const COMPARED: usize = 8;

/// What it takes to look at all of a value.
fn size(node: &Node<'_>) -> usize {
    match node {
        Node::Null => 1,
        Node::Parsed(value) => 1 + value.raw().len() / COMPARED,
        Node::Object(entries) => {
            1 + entries
                .iter()
                .map(|(key, node)| key.len() / COMPARED + size(node))
                .sum::<usize>()
        }
        Node::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
    }
}

/// How deep the changed parts of a node nest; counts the nodes that it looks at.
fn depth(node: &Node<'_>, visited: &mut usize) -> usize {
    *visited += 1;
    let below = match node {
        Node::Null | Node::Parsed(_) => 0,
        Node::Object(entries) => entries.values().map(|node| depth(node, visited)).max().unwrap_or(0),
        Node::Array(items) => items.iter().map(|node| depth(node, visited)).max().unwrap_or(0),
    };
    below + 1
}

/// Whether two nodes are the same JSON: objects in any order, numbers by value.
fn equal(a: &Node<'_>, b: &Node<'_>) -> bool {
    let canonical = |node: &Node<'_>| -> Option<Vec<u8>> {
        let mut text = Vec::new();
        node.write(&mut text);
        let tape = Tape::parse(&text).ok()?;
        let mut out = Vec::with_capacity(text.len());
        crate::json::canonical::write(&mut out, tape.root()).ok()?;
        Some(out)
    };
    matches!((canonical(a), canonical(b)), (Some(a), Some(b)) if a == b)
}
