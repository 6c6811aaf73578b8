//! Sets of fields: a tree of path elements.
//!
//! A field and what is below it are apart: a set may have `a` without `a.b`, and `a.b` without `a`. An owner of a map's
//! entry does not own the map.

use std::cmp::Ordering;

use super::schema::{ListType, Type};
use super::{At, Element};

/// A set of fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Set<'a> {
    /// Invariant: sorted by element, no element twice; each is a member or has something below it.
    nodes: Vec<Node<'a>>,
}

/// One element, and what of the set is at and below it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Node<'a> {
    element: Element<'a>,
    member: bool,
    below: Set<'a>,
}

/// A set whose elements come in any order, and more than once: that of a client. Each is a member or has something below it.
#[derive(Debug, Default)]
pub(crate) struct Loose<'a>(Vec<(Element<'a>, bool, Loose<'a>)>);

impl<'a> Loose<'a> {
    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a child: whether it is a member, and what of the set is below it.
    pub(crate) fn push(&mut self, element: Element<'a>, member: bool, below: Loose<'a>) {
        self.0.push((element, member, below));
    }

    /// The set, which has of children that are the same what is in any of them. Each level is sorted once.
    ///
    /// Recurses: the caller limits the depth.
    pub(crate) fn settle(mut self) -> Set<'a> {
        self.0.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        let mut nodes = Vec::with_capacity(self.0.len());
        let mut children = self.0.into_iter().peekable();
        while let Some((element, mut member, mut below)) = children.next() {
            while let Some((_, also, more)) = children.next_if(|(next, ..)| next.cmp(&element).is_eq()) {
                member |= also;
                below.0.extend(more.0);
            }
            nodes.push(Node {
                element,
                member,
                below: below.settle(),
            });
        }
        Set { nodes }
    }
}

impl<'a> Set<'a> {
    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a child: whether it is a member, and what of the set is below it.
    pub(crate) fn put(&mut self, element: Element<'a>, member: bool, below: Set<'a>) {
        if !member && below.is_empty() {
            return;
        }
        // Mostly they come in order.
        let at = match self.nodes.last() {
            Some(last) if last.element < element => Err(self.nodes.len()),
            Some(_) => self.nodes.binary_search_by(|node| node.element.cmp(&element)),
            None => Err(0),
        };
        match at {
            Ok(at) => {
                let node = &mut self.nodes[at];
                node.member |= member;
                let old = std::mem::take(&mut node.below);
                node.below = old.union(below);
            }
            Err(at) => self.nodes.insert(at, Node { element, member, below }),
        }
    }

    fn find(&self, element: &Element<'_>) -> Option<&Node<'a>> {
        let at = self.nodes.binary_search_by(|node| node.element.cmp(element));
        at.ok().map(|at| &self.nodes[at])
    }

    /// Whether a child is a member.
    pub(crate) fn has(&self, element: &Element<'_>) -> bool {
        self.find(element).is_some_and(|node| node.member)
    }

    /// What is below a child, if anything.
    pub(crate) fn below(&self, element: &Element<'_>) -> Option<&Set<'a>> {
        self.find(element).map(|node| &node.below).filter(|set| !set.is_empty())
    }

    /// The children in order: each element, whether it is a member, and what is below it.
    pub(crate) fn children(&self) -> impl Iterator<Item = (&Element<'a>, bool, &Set<'a>)> {
        self.nodes.iter().map(|node| (&node.element, node.member, &node.below))
    }

    /// What is in one of the two.
    pub(crate) fn union(self, other: Set<'a>) -> Set<'a> {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        let (mut left, mut right) = (self.nodes.into_iter().peekable(), other.nodes.into_iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => a.element.cmp(&b.element),
            };
            match order {
                Ordering::Less => nodes.extend(left.next()),
                Ordering::Greater => nodes.extend(right.next()),
                Ordering::Equal => {
                    if let (Some(a), Some(b)) = (left.next(), right.next()) {
                        nodes.push(Node {
                            element: a.element,
                            member: a.member || b.member,
                            below: a.below.union(b.below),
                        });
                    }
                }
            }
        }
        Set { nodes }
    }

    /// What is in both.
    pub(crate) fn intersection(&self, other: &Set<'_>) -> Set<'a> {
        let mut result = Set::default();
        for node in &self.nodes {
            if let Some(theirs) = other.find(&node.element) {
                let below = node.below.intersection(&theirs.below);
                result.put(node.element.clone(), node.member && theirs.member, below);
            }
        }
        result
    }

    /// What is in this one alone. A field that goes leaves what is below it.
    pub(crate) fn difference(self, other: &Set<'_>) -> Set<'a> {
        self.without(other, false)
    }

    /// What is in this one alone. A field that goes takes along all that is below it.
    pub(crate) fn recursive_difference(self, other: &Set<'_>) -> Set<'a> {
        self.without(other, true)
    }

    fn without(mut self, other: &Set<'_>, recursive: bool) -> Set<'a> {
        if other.is_empty() {
            return self;
        }
        self.nodes.retain_mut(|node| {
            if let Some(theirs) = other.find(&node.element) {
                if theirs.member && recursive {
                    return false;
                }
                node.member &= !theirs.member;
                let below = std::mem::take(&mut node.below);
                node.below = below.without(&theirs.below, recursive);
            }
            node.member || !node.below.is_empty()
        });
        self
    }

    /// With each struct field a member that has something below it.
    pub(crate) fn with_named_fields(&self, of: Option<Type<'_>>) -> Set<'a> {
        let map = of.and_then(Type::map);
        let list = of.and_then(Type::list);
        let nodes = self.nodes.iter().map(|node| {
            let (named, below) = match &node.element {
                Element::Field(name) => match map.map(|map| (map.declared(name), map.element())) {
                    Some((Some(field), _)) => (!node.below.is_empty(), Some(field)),
                    Some((None, element)) => (false, element),
                    None => (false, None),
                },
                Element::Key(_) => (false, list.map(ListType::element)),
                Element::Value(_) | Element::Index(_) => (false, None),
            };
            Node {
                element: node.element.clone(),
                member: node.member || named,
                below: node.below.with_named_fields(below),
            }
        });
        Set { nodes: nodes.collect() }
    }

    /// Calls `tell` with each field, in the order in which conflicts are told: a node's own fields before what is below them.
    pub(crate) fn each(&self, tell: &mut dyn FnMut(At<'_>)) {
        self.each_below(None, tell);
    }

    fn each_below(&self, above: Option<&At<'_>>, tell: &mut dyn FnMut(At<'_>)) {
        for node in self.nodes.iter().filter(|node| node.member) {
            let element = &node.element;
            tell(At { above, element });
        }
        for node in self.nodes.iter().filter(|node| !node.below.is_empty()) {
            let element = &node.element;
            node.below.each_below(Some(&At { above, element }), tell);
        }
    }

    /// The paths of all fields, as texts.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.each(&mut |at| paths.push(at.to_string()));
        paths
    }
}

/// The set of the given paths of fields.
pub(crate) fn of_paths<'a>(paths: &[&[&'a str]]) -> Set<'a> {
    let mut set = Set::default();
    for path in paths {
        let mut below = Set::default();
        let mut member = true;
        for name in path.iter().rev() {
            let mut parent = Set::default();
            parent.put(Element::Field((*name).into()), member, below);
            (below, member) = (parent, false);
        }
        set = set.union(below);
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets() -> (Set<'static>, Set<'static>) {
        let a = of_paths(&[&["a"], &["a", "b"], &["a", "c", "d"], &["x"]]);
        let b = of_paths(&[&["a"], &["a", "c"], &["y"], &["x", "z"]]);
        (a, b)
    }

    #[test]
    fn sets_combine_member_by_member() {
        // [F11]
        let (a, b) = sets();
        let all = [".a", ".x", ".y", ".a.b", ".a.c", ".a.c.d", ".x.z"];
        assert_eq!(a.clone().union(b.clone()).paths(), all);
        assert_eq!(b.clone().union(a.clone()).paths(), all);
        assert_eq!(a.intersection(&b).paths(), [".a"]);
        assert_eq!(a.clone().difference(&b).paths(), [".x", ".a.b", ".a.c.d"]);
        assert_eq!(b.clone().difference(&a).paths(), [".y", ".a.c", ".x.z"]);
        assert_eq!(a.clone().recursive_difference(&b).paths(), [".x"]);
        assert!(a.clone().difference(&a).is_empty());
        assert_eq!(a.clone().difference(&Set::default()), a);
    }

    #[test]
    fn a_set_knows_its_members_and_what_is_below_them() {
        // [F11]
        let (a, _) = sets();
        let field = |name: &'static str| Element::Field(name.into());
        assert!(a.has(&field("a")) && a.has(&field("x")) && !a.has(&field("c")));
        let below = a.below(&field("a")).unwrap();
        assert!(below.has(&field("b")) && !below.has(&field("c")));
        assert_eq!(below.below(&field("c")).unwrap().paths(), [".d"]);
        assert!(a.below(&field("x")).is_none());
    }

    #[test]
    fn a_node_without_members_is_dropped() {
        let mut set = Set::default();
        set.put(Element::Field("a".into()), false, Set::default());
        assert!(set.is_empty());
    }
}
