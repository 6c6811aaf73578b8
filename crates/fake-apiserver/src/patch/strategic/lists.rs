//! Lists of a strategic merge patch: merged by a key or as sets, and brought into an order.
//!
//! The order that `$setElementOrder` gives comes before that of the patch, and that before the object's own. What only the
//! object has is put between what the patch has, where the object's order says so.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::value::{Found, GoKind, Scalar, kind, look_up, scalar, shown_list, shown_lists};
use super::{
    DIRECTIVE, SET_ORDER, bad_type, internal, list_of, merge_maps, no_merge_key, panics, text, unknown_directive,
    without_directives,
};
use crate::codec::{GoType, Member, Strategy};
use crate::patch::PatchError;
use crate::patch::document::{Node, get, remove, set};
use crate::steps::step;

/// Go's stable sort puts so many items in order one by one.
const RUN: usize = 20;

/// What a list of the patch does to one of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Merge {
    Union,
    /// It names the items that go.
    Delete,
}

/// A merged list.
#[derive(Debug)]
pub(super) struct Merged<'t> {
    pub(super) ordered: Vec<Node<'t>>,
    /// The same before it was ordered, which is what the real server's old list has become meanwhile; `None` if it was not
    /// touched.
    unordered: Option<Vec<Node<'t>>>,
}

/// Items by their merge keys, or by themselves where there is none.
struct Places<'t> {
    key: &'static str,
    first: HashMap<Scalar<'t>, usize>,
    /// The first item that is no map, although there is a merge key.
    odd: Option<usize>,
    length: usize,
}

impl<'t> Places<'t> {
    fn new(key: &'static str, items: &[Node<'t>]) -> Self {
        let mut places = Self {
            key,
            first: HashMap::with_capacity(items.len()),
            odd: None,
            length: 0,
        };
        for item in items {
            places.push(item);
        }
        places
    }

    fn push(&mut self, item: &Node<'t>) {
        step();
        let found = if self.key.is_empty() {
            scalar(item).map_or(Found::Other, Found::Scalar)
        } else {
            look_up(item, self.key)
        };
        match found {
            Found::Scalar(scalar) => {
                self.first.entry(scalar).or_insert(self.length);
            }
            Found::NoMap if self.odd.is_none() => self.odd = Some(self.length),
            Found::NoMap | Found::Missing | Found::Other => {}
        }
        self.length += 1;
    }

    /// The place of the first item of a key.
    fn find(&self, key: &Scalar<'t>) -> Result<Option<usize>, PatchError> {
        let at = self.first.get(key).copied();
        match self.odd {
            Some(odd) if at.is_none_or(|at| odd < at) => Err(internal(format!("value for key {odd} is not a map"))),
            _ => Ok(at),
        }
    }

    /// The place of the first item that is the same as this one.
    fn place(&self, item: &Node<'t>) -> Option<usize> {
        let key = if self.key.is_empty() {
            scalar(item)
        } else {
            match look_up(item, self.key) {
                Found::Scalar(scalar) => Some(scalar),
                Found::NoMap | Found::Missing | Found::Other => None,
            }
        };
        self.first.get(&key?).copied()
    }
}

/// The merge key of an item of a list.
fn key_of<'t>(item: &Node<'t>, key: &str) -> Result<Scalar<'t>, PatchError> {
    match look_up(item, key) {
        Found::Scalar(scalar) => Ok(scalar),
        Found::Missing => Err(no_merge_key(item, key)),
        Found::NoMap => Err(bad_type(GoKind::Map, item)),
        // It is compared with itself.
        Found::Other => Err(panics()),
    }
}

/// The items of a list.
fn items_of(mut node: Node<'_>) -> Result<Vec<Node<'_>>, PatchError> {
    match node.array() {
        Some(items) => Ok(std::mem::take(items)),
        None => Err(bad_type(GoKind::List, &node)),
    }
}

/// The kind of the items of two lists, which must be one.
fn item_kind(original: &[Node<'_>], patch: &[Node<'_>]) -> Result<GoKind, PatchError> {
    let mut found = None;
    for item in original.iter().chain(patch) {
        let kind = kind(item);
        match found {
            None if kind == GoKind::Nil => return Err(panics()),
            None if kind == GoKind::List => {
                return Err(PatchError::Unprocessable("lists of lists are not supported".to_owned()));
            }
            None => found = Some(kind),
            Some(first) if first != kind => {
                let lists = shown_lists(&[original, patch]);
                return Err(internal(format!("list element types are not identical: {lists}")));
            }
            Some(_) => {}
        }
    }
    found.ok_or_else(|| internal("no elements in any of the given slices".to_owned()))
}

/// Merges a list of the patch into one of the object.
pub(super) fn merge_lists<'t>(
    original: Node<'t>,
    patch: &mut Node<'t>,
    member: Member,
    merge: Merge,
    depth: usize,
) -> Result<Merged<'t>, PatchError> {
    let original = items_of(original)?;
    let Some(patch) = patch.array() else {
        return Err(bad_type(GoKind::List, patch));
    };
    let untouched = |ordered| Merged {
        ordered,
        unordered: None,
    };
    if member.strategy != Strategy::Merge && merge != Merge::Delete {
        return Ok(untouched(patch.clone()));
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(untouched(original));
    }
    let key = member.merge_key;
    if item_kind(&original, patch)? != GoKind::Map {
        if merge == Merge::Delete {
            let gone: HashSet<_> = patch.iter().filter_map(scalar).collect();
            let kept = |item: &Node<'t>| scalar(item).is_none_or(|item| !gone.contains(&item));
            return Ok(untouched(original.into_iter().filter(kept).collect()));
        }
        let mut seen = HashSet::with_capacity(original.len() + patch.len());
        let both = original.iter().chain(patch.iter());
        let merged: Vec<_> = both.filter(|item| seen.insert(scalar(item))).cloned().collect();
        return Ok(untouched(ordered(merged, patch, patch, &original, key)?));
    }
    if key.is_empty() {
        let kind = member.of.kind();
        return Err(internal(format!("cannot merge lists without merge key for {kind}")));
    }
    let Special { original, left } = take_special(original, patch, key)?;
    let Some(mut left) = left else {
        // They are what there is now, in their own order.
        if let [only] = &original[..]
            && look_up(only, key) == Found::Other
        {
            return Ok(untouched(original));
        }
        let merged = original.clone();
        return Ok(untouched(ordered(merged, &[], &[], &original, key)?));
    };
    let length = original.len();
    let mut merged = original;
    let mut places = Places::new(key, &merged);
    let mut has_odd_key = false;
    for &mut (at, ref mut item) in &mut left {
        let found = match look_up(item, key) {
            // It is told apart from the object's items, but not from itself.
            Found::Other if has_odd_key => return Err(panics()),
            Found::Other => {
                has_odd_key = true;
                None
            }
            _ => places.find(&key_of(item, key)?)?,
        };
        if let Some(found) = found {
            let old = std::mem::replace(&mut merged[found], Node::Null);
            merged[found] = merge_maps(old, item, member.of, depth + 1)?;
        } else {
            places.push(item);
            merged.push(item.clone());
        }
        patch[at] = item.clone();
    }
    if has_odd_key {
        return Err(panics());
    }
    let order: Vec<_> = left.into_iter().map(|(_, item)| item).collect();
    let ordered = ordered(merged.clone(), &order, &order, &merged[..length], key)?;
    Ok(Merged {
        ordered,
        unordered: Some(merged),
    })
}

/// What is left to merge once items with directives are done.
struct Special<'t> {
    original: Vec<Node<'t>>,
    /// With their places in the patch; `None` if they replace the list.
    left: Option<Vec<(usize, Node<'t>)>>,
}

/// Does what the items of a patch say that hold a directive.
fn take_special<'t>(mut original: Vec<Node<'t>>, patch: &mut [Node<'t>], key: &str) -> Result<Special<'t>, PatchError> {
    let mut left = Vec::with_capacity(patch.len());
    let mut deleted = HashSet::new();
    let mut replaces = false;
    for (at, item) in patch.iter_mut().enumerate() {
        let Some(directive) = item.member(DIRECTIVE).map(|directive| directive.clone()) else {
            left.push((at, item.clone()));
            continue;
        };
        match text(&directive).as_deref() {
            Some("delete") => match look_up(item, key) {
                Found::Scalar(scalar) => {
                    deleted.insert(scalar);
                }
                Found::Other => {}
                Found::Missing | Found::NoMap => return Err(no_merge_key(item, key)),
            },
            Some("replace") => replaces = true,
            Some("merge") => {
                return Err(internal(
                    "merging lists cannot yet be specified in the patch".to_owned(),
                ));
            }
            _ => return Err(unknown_directive(&directive, item)),
        }
    }
    if replaces {
        return Ok(Special {
            original: left.into_iter().map(|(_, item)| item).collect(),
            left: None,
        });
    }
    if !deleted.is_empty() {
        original.retain(|item| !matches!(look_up(item, key), Found::Scalar(key) if deleted.contains(&key)));
    }
    Ok(Special {
        original,
        left: Some(left),
    })
}

/// Does what each `$setElementOrder` says, together with the list that it is about.
pub(super) fn set_element_orders<'t>(
    original: &mut Node<'t>,
    patch: &mut Node<'t>,
    of: GoType,
    depth: usize,
) -> Result<(), PatchError> {
    let (Some(entries), Some(members)) = (original.object(), patch.object()) else {
        return Ok(());
    };
    let names = members.keys();
    let names: Vec<_> = names.filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
    for name in names {
        let Some(order) = remove(members, &name) else { continue };
        let order = items_of(order)?;
        let list = list_of(&name, SET_ORDER)?.unwrap_or_default();
        let old = match get(entries, list) {
            Some(node) => Some(items_of(node.clone())?),
            None => None,
        };
        if let Some(new) = get(members, list)
            && new.array().is_none()
        {
            return Err(bad_type(GoKind::List, new));
        }
        let member = of.list_member(list).map_err(internal)?;
        let key = member.merge_key;
        let new = get(members, list);
        check_order(new.as_deref(), &order, key)?;
        let (merged, server_order) = match (old, new) {
            (None, None) => continue,
            (Some(old), None) => {
                check_items(&order, &old, (&old, &[]), key)?;
                (old.clone(), old)
            }
            (None, Some(new)) => {
                let Some(kept) = without_directives(new) else { continue };
                let kept = items_of(kept)?;
                check_items(&order, &kept, (&[], &items_of(new.clone())?), key)?;
                (kept, Vec::new())
            }
            (Some(old), Some(new)) => {
                let merged = merge_lists(Node::Array(old.clone()), new, member, Merge::Union, depth)?;
                check_items(&order, &merged.ordered, (&old, &items_of(new.clone())?), key)?;
                // Items that were added since some were deleted count as the object's own, as far as it was long.
                let server_order = match merged.unordered {
                    Some(unordered) => unordered.into_iter().take(old.len()).collect(),
                    None => old,
                };
                (merged.ordered, server_order)
            }
        };
        let ordered = ordered(merged, &order, &order, &server_order, key)?;
        set(entries, Cow::Owned(list.to_owned()), Node::Array(ordered));
        remove(members, list);
    }
    Ok(())
}

/// Checks the items of a merged list, which go into a table where there is no key, and those that it was made of.
fn check_items(
    order: &[Node<'_>],
    merged: &[Node<'_>],
    (old, new): (&[Node<'_>], &[Node<'_>]),
    key: &str,
) -> Result<(), PatchError> {
    if key.is_empty() && order.iter().chain(merged).any(|item| scalar(item).is_none()) {
        return Err(panics());
    }
    item_kind(old, new).map(drop)
}

/// Checks that the items of a list of the patch are all in an order, and stand in it.
fn check_order(patch: Option<&Node<'_>>, order: &[Node<'_>], key: &str) -> Result<(), PatchError> {
    let Some(Node::Array(patch)) = patch else { return Ok(()) };
    if order.is_empty() || patch.is_empty() {
        return Ok(());
    }
    if !key.is_empty()
        && let Some(odd) = patch.iter().find(|item| kind(item) != GoKind::Map)
    {
        return Err(bad_type(GoKind::Map, odd));
    }
    let deletes = |item: &Node<'_>| look_up(item, DIRECTIVE) == Found::Scalar(Scalar::Text("delete".into()));
    let mut left = patch.iter().filter(|item| key.is_empty() || !deletes(item)).peekable();
    let mut places = order.iter().peekable();
    while let (Some(&item), Some(&place)) = (left.peek(), places.peek()) {
        step();
        if !matches!(look_up(item, DIRECTIVE), Found::NoMap | Found::Missing) {
            left.next();
            continue;
        }
        if same(item, place, key)? {
            left.next();
        }
        places.next();
    }
    if left.peek().is_some() {
        let (patch, order) = (shown_list(patch), shown_list(order));
        return Err(internal(format!(
            "The order in patch list:\n{patch}\n doesn't match {SET_ORDER} list:\n{order}\n"
        )));
    }
    Ok(())
}

/// Whether an item of a list and one of an order are the same.
fn same(item: &Node<'_>, place: &Node<'_>, key: &str) -> Result<bool, PatchError> {
    if key.is_empty() {
        return match (scalar(item), scalar(place)) {
            (None, None) if kind(item) == kind(place) => Err(panics()),
            (item, place) => Ok(item.is_some() && item == place),
        };
    }
    match (look_up(item, key), look_up(place, key)) {
        (Found::NoMap, _) => Err(bad_type(GoKind::Map, item)),
        (_, Found::NoMap) => Err(bad_type(GoKind::Map, place)),
        (Found::Missing, _) => Err(no_merge_key(item, key)),
        (_, Found::Missing) => Err(no_merge_key(place, key)),
        // Of a list and a map this is not so; but then the merge fails.
        (Found::Other, Found::Other) => Err(panics()),
        (item, place) => Ok(item == place),
    }
}

/// Orders a merged list: the items of `patch` as in `order`, between them the others as in `server_order`.
fn ordered<'t>(
    merged: Vec<Node<'t>>,
    patch: &[Node<'t>],
    order: &[Node<'t>],
    server_order: &[Node<'t>],
    key: &'static str,
) -> Result<Vec<Node<'t>>, PatchError> {
    let in_patch = Places::new(key, patch);
    if key.is_empty() && patch.iter().chain(&merged).any(|item| scalar(item).is_none()) {
        return Err(panics());
    }
    let (mut of_patch, mut of_server) = (Vec::new(), Vec::new());
    for item in merged {
        let found = if key.is_empty() {
            in_patch.place(&item)
        } else {
            in_patch.find(&key_of(&item, key)?)?
        };
        if found.is_some() {
            of_patch.push(item);
        } else {
            of_server.push(item);
        }
    }
    if !key.is_empty() {
        for item in order.iter().chain(server_order) {
            match look_up(item, key) {
                Found::NoMap => return Err(bad_type(GoKind::Map, item)),
                Found::Missing => return Err(no_merge_key(item, key)),
                Found::Scalar(_) | Found::Other => {}
            }
        }
    }
    let server_places = Places::new(key, server_order);
    let of_patch = sorted(of_patch, &Places::new(key, order));
    let of_server = sorted(of_server, &server_places);
    let mut all = Vec::with_capacity(of_patch.len() + of_server.len());
    let mut patch = of_patch.into_iter().peekable();
    for item in of_server {
        let at = server_places.place(&item);
        while let Some(next) = patch.peek() {
            step();
            let before = matches!((at, server_places.place(next)), (Some(item), Some(next)) if item < next);
            if before {
                break;
            }
            all.extend(patch.next());
        }
        all.push(item);
    }
    all.extend(patch);
    Ok(all)
}

/// Sorts items by their places, as Go's stable sort does with those that have none: they go to the front.
fn sorted<'t>(items: Vec<Node<'t>>, places: &Places<'t>) -> Vec<Node<'t>> {
    let mut items: Vec<_> = items.into_iter().map(|item| (places.place(&item), item)).collect();
    if items.len() > RUN {
        items.sort_by_key(|(at, _)| *at);
    } else {
        for next in 1..items.len() {
            let mut at = next;
            while at > 0
                && match (items[at].0, items[at - 1].0) {
                    (Some(this), Some(before)) => this < before,
                    _ => true,
                }
            {
                items.swap(at, at - 1);
                at -= 1;
            }
        }
    }
    items.into_iter().map(|(_, item)| item).collect()
}
