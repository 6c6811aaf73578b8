//! Where a walk over a value is. A path is a chain of steps on the stack, which becomes a text only where something is told, so
//! that what is good costs nothing for it.

use std::fmt;

/// A place in a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'p> {
    above: Option<&'p Place<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'p> {
    /// Where the walk begins.
    From(&'p str),
    Field(&'p str),
    /// A field of a map, which has a dot before it at the root too.
    Member(&'p str),
    Entry(&'p str),
    Index(usize),
}

impl<'p> Place<'p> {
    /// Where a walk begins; an empty text is the root.
    pub(crate) const fn from(path: &'p str) -> Self {
        Self {
            above: None,
            step: Step::From(path),
        }
    }

    const fn below(&'p self, step: Step<'p>) -> Self {
        Self {
            above: Some(self),
            step,
        }
    }

    /// `above.name`, or `name` at the root.
    pub(crate) const fn field(&'p self, name: &'p str) -> Self {
        self.below(Step::Field(name))
    }

    /// `above.name`, at the root too.
    pub(super) const fn member(&'p self, name: &'p str) -> Self {
        self.below(Step::Member(name))
    }

    /// `above[name]`.
    pub(crate) const fn entry(&'p self, name: &'p str) -> Self {
        self.below(Step::Entry(name))
    }

    /// `above[0]`.
    pub(crate) const fn index(&'p self, index: usize) -> Self {
        self.below(Step::Index(index))
    }

    pub(super) fn is_root(&self) -> bool {
        matches!((self.above, self.step), (None, Step::From("")))
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As deep as the schema is.
        if let Some(above) = self.above {
            above.fmt(f)?;
        }
        match self.step {
            Step::From(path) => f.write_str(path),
            Step::Field(name) if self.above.is_some_and(Place::is_root) => f.write_str(name),
            Step::Field(name) | Step::Member(name) => write!(f, ".{name}"),
            Step::Entry(name) => write!(f, "[{name}]"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_as_paths() {
        // [F17]
        let root = Place::from("");
        assert!(root.is_root());
        let spec = root.field("spec");
        let (list, map) = (spec.field("list"), root.member("map"));
        let item = list.index(3);
        assert_eq!(item.field("a").to_string(), "spec.list[3].a");
        assert_eq!(spec.entry("k").to_string(), "spec[k]");
        assert_eq!(map.to_string(), ".map");
        assert_eq!(Place::from("spec.x").field("a").to_string(), "spec.x.a");
    }
}
