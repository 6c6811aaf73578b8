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

/// The real server takes no more operations in one patch.
const MAX_OPERATIONS: usize = 10_000;

/// The real server tells of no more unknown and duplicate members.
const MAX_FINDINGS: usize = 100;

/// Copies may add so many nodes in one patch, as a few operations could otherwise double a document time and again.
const MAX_COPIED: usize = 1_000_000;

/// Moves and copies may look at so many nodes in one patch.
const MAX_VISITED: usize = 20_000_000;

/// What a patch has used up.
#[derive(Debug, Default)]
struct Budget {
    copied: usize,
    visited: usize,
}

impl Budget {
    /// Counts a copy; `None` if it is one too many.
    fn copy(&mut self, node: &Node<'_>) -> Option<()> {
        self.copied += size(node);
        (self.copied <= MAX_COPIED).then_some(())
    }

    /// Counts a look at a node, and checks that it may be put under a path of so many keys.
    fn insert(&mut self, node: &Node<'_>, keys: usize) -> Option<()> {
        let depth = depth(node, &mut self.visited);
        (self.visited <= MAX_VISITED && keys + depth <= MAX_DEPTH).then_some(())
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
    let mut found: Vec<String> = Vec::new();
    for (index, operation) in root.items().enumerate() {
        let mut seen = Vec::new();
        for (key, value) in operation.entries() {
            let name = key.as_str().unwrap_or_default();
            let path = format!("[{index}].{name}");
            if !matches!(&*name, "op" | "path" | "from" | "value") {
                found.push(format!("unknown field {}", go_quote(&path)));
                continue;
            }
            if seen.contains(&name) {
                found.push(format!("duplicate field {}", go_quote(&path)));
            } else {
                seen.push(name);
            }
            found.extend(duplicates_below(value, path));
        }
    }
    let mut seen = HashSet::with_capacity(found.len());
    found.retain(|text| seen.insert(text.clone()));
    found.truncate(MAX_FINDINGS);
    found
}

/// Runs one operation; `None` if it does not apply.
fn run<'t>(document: &mut Node<'t>, operation: Value<'t>, budget: &mut Budget) -> Option<()> {
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let path = text("path");
    let value = || operation.get("value").map_or(Node::Null, Node::Parsed);
    match &*text("op")? {
        "add" => {
            let (container, key) = find(document, &path?)?;
            add(container, &key, value())
        }
        "remove" => {
            let (container, key) = find(document, &path?)?;
            take(container, &key).map(drop)
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
            let value = take(container, &key)?;
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
            let equal = if path.is_empty() {
                equal(document, &wanted)
            } else {
                let (container, key) = find(document, &path)?;
                match get(container, &key)? {
                    Found::Node(found) => equal(found, &wanted),
                    Found::Missing => wanted.is_null(),
                }
            };
            equal.then_some(())
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
    add(container, &key, value)
}

fn add<'t>(container: &mut Node<'t>, key: &str, value: Node<'t>) -> Option<()> {
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

fn take<'t>(container: &mut Node<'t>, key: &str) -> Option<Node<'t>> {
    if let Some(entries) = container.object() {
        return remove(entries, key);
    }
    let items = container.array()?;
    let at = index(key, items.len())?;
    Some(items.remove(at))
}

/// How many nodes a value has, changed parts counted one by one.
fn size(node: &Node<'_>) -> usize {
    match node {
        Node::Null => 1,
        Node::Parsed(value) => value.size(),
        Node::Object(entries) => 1 + entries.iter().map(|(_, node)| size(node)).sum::<usize>(),
        Node::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
    }
}

/// How deep the changed parts of a node nest; counts the nodes that it looks at.
fn depth(node: &Node<'_>, visited: &mut usize) -> usize {
    *visited += 1;
    let below = match node {
        Node::Null | Node::Parsed(_) => 0,
        Node::Object(entries) => entries.iter().map(|(_, node)| depth(node, visited)).max().unwrap_or(0),
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
