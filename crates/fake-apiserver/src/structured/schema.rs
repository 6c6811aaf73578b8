//! The types that structured merge knows: what a value may be, and whether it is owned as a whole or part by part.
//!
//! A [`Schema`] is a table of [`Atom`]s that refer to each other by place. The one of the built-in kinds is made by the
//! build script; [`definition`] makes one of each version of a custom resource definition, which may refer to the
//! built-in one (metadata is of one type everywhere). [`Type`] is an atom in its schema, the handle that all walks use.

mod definition;

use std::borrow::Cow;

use super::Literal;
use crate::json::{Kind, Value};

pub(crate) use definition::of_definition;

/// A name from the tables (borrowed) or from a definition (owned).
type Name = Cow<'static, str>;

/// What a value of a type may be. More than one of the three for a type that is not known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Atom {
    scalar: Option<Scalar>,
    list: Option<List>,
    map: Option<Map>,
}

/// The kinds of scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Numeric,
    Text,
    Boolean,
    /// Any of them.
    Untyped,
}

/// A list.
#[derive(Debug, Clone)]
struct List {
    /// Owned as a whole.
    atomic: bool,
    /// The fields that tell items apart; none in a set. Of lists that are not atomic.
    keys: Cow<'static, [Name]>,
    element: Ref,
}

/// A map or a struct.
#[derive(Debug, Clone)]
struct Map {
    /// Owned as a whole.
    atomic: bool,
    /// Invariant: sorted by name.
    fields: Cow<'static, [Field]>,
    /// The type of the values of all other keys; none may be there if absent.
    element: Option<Ref>,
}

/// A field of a struct.
#[derive(Debug, Clone)]
struct Field {
    name: Name,
    of: Ref,
    /// What it is when it is absent: key fields only are asked.
    default: Option<Literal<'static>>,
}

/// A type by its place.
#[derive(Debug, Clone, Copy)]
struct Ref {
    place: Place,
    /// Where a field says otherwise than its type: whether the map is owned as a whole.
    atomic: Option<bool>,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// In the table of the built-in kinds.
    BuiltIn(u16),
    /// In the same schema.
    Own(u32),
}

const fn built_in(at: u16) -> Ref {
    Ref {
        place: Place::BuiltIn(at),
        atomic: None,
    }
}

const fn with(of: Ref, atomic: bool) -> Ref {
    Ref {
        atomic: Some(atomic),
        ..of
    }
}

include!(concat!(env!("OUT_DIR"), "/structures.rs"));

/// The types of one version of a kind.
#[derive(Debug)]
pub(crate) struct Schema {
    atoms: Vec<Atom>,
    root: Ref,
}

impl Schema {
    /// The type at this place of the table of the built-in kinds; the one that is known of nothing without a place.
    pub(crate) fn of_built_in(place: Option<u16>) -> Self {
        Self {
            atoms: Vec::new(),
            root: built_in(place.unwrap_or(DEDUCED)),
        }
    }

    /// The type of a built-in kind.
    #[cfg(test)]
    pub(super) fn of_kind(group: &str, version: &str, kind: &str) -> std::sync::Arc<Self> {
        let kinds = crate::kinds::Registry::new().snapshot();
        let resource = kinds.resource_of_kind(group, version, kind).expect("a built-in kind");
        std::sync::Arc::clone(&resource.structures.own)
    }

    /// The type that is known of nothing: maps are owned entry by entry, lists as a whole.
    pub(crate) fn deduced() -> Self {
        Self::of_built_in(None)
    }

    /// The type of the objects.
    pub(crate) fn root(&self) -> Type<'_> {
        self.resolve(self.root)
    }

    fn resolve(&self, of: Ref) -> Type<'_> {
        let atom = match of.place {
            Place::BuiltIn(at) => &ATOMS[usize::from(at)],
            Place::Own(at) => &self.atoms[at as usize],
        };
        Type {
            schema: self,
            atom,
            atomic: of.atomic,
        }
    }
}

/// A type of a schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Type<'s> {
    schema: &'s Schema,
    atom: &'s Atom,
    atomic: Option<bool>,
}

/// One of the forms that a value of a type may have.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form<'s> {
    Map(MapType<'s>),
    Scalar(Scalar),
    List(ListType<'s>),
}

impl Form<'_> {
    /// Whether the two are the same form of one type.
    pub(crate) fn is_same(self, other: Form<'_>) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl<'s> Type<'s> {
    /// The form that a value has. One that the type does not allow, null among them, has the first form of the type.
    pub(crate) fn form(self, value: Option<Value<'_>>) -> Option<Form<'s>> {
        let map = || self.map().map(Form::Map);
        let scalar = || self.atom.scalar.map(Form::Scalar);
        let list = || self.list().map(Form::List);
        let own = match value.map(Value::kind) {
            None | Some(Kind::Null) => None,
            Some(Kind::Object) => map(),
            Some(Kind::Array) => list(),
            Some(_) => scalar(),
        };
        own.or_else(map).or_else(scalar).or_else(list)
    }

    /// The map or struct that a value of this type may be.
    pub(crate) fn map(self) -> Option<MapType<'s>> {
        let map = self.atom.map.as_ref()?;
        Some(MapType {
            schema: self.schema,
            map,
            atomic: self.atomic.unwrap_or(map.atomic),
        })
    }

    /// The list that a value of this type may be.
    pub(crate) fn list(self) -> Option<ListType<'s>> {
        let list = self.atom.list.as_ref()?;
        Some(ListType {
            schema: self.schema,
            list,
        })
    }
}

/// A map or a struct of a schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MapType<'s> {
    schema: &'s Schema,
    map: &'s Map,
    /// Whether it is owned as a whole.
    pub(crate) atomic: bool,
}

impl<'s> MapType<'s> {
    fn find(self, name: &str) -> Option<&'s Field> {
        let fields = &self.map.fields;
        let at = fields.binary_search_by(|field| field.name.as_ref().cmp(name)).ok()?;
        Some(&fields[at])
    }

    /// The type of a field of the struct.
    pub(crate) fn declared(self, name: &str) -> Option<Type<'s>> {
        self.find(name).map(|field| self.schema.resolve(field.of))
    }

    /// The type of the values of a map.
    pub(crate) fn element(self) -> Option<Type<'s>> {
        self.map.element.map(|of| self.schema.resolve(of))
    }

    /// The type of the value of a key, and whether it is a field of a struct.
    pub(crate) fn entry(self, name: &str) -> Option<(Type<'s>, bool)> {
        match self.declared(name) {
            Some(field) => Some((field, true)),
            None => self.element().map(|element| (element, false)),
        }
    }

    /// Whether nothing is declared: any key may be there.
    pub(crate) fn is_untyped(self) -> bool {
        self.map.fields.is_empty()
            && self
                .map
                .element
                .is_some_and(|of| matches!(of.place, Place::BuiltIn(DEDUCED)))
    }

    fn default_of(self, name: &str) -> Option<&'s Literal<'static>> {
        self.find(name)?.default.as_ref()
    }
}

/// A list of a schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListType<'s> {
    schema: &'s Schema,
    list: &'s List,
}

impl<'s> ListType<'s> {
    /// Whether it is owned as a whole.
    pub(crate) fn atomic(self) -> bool {
        self.list.atomic
    }

    /// The fields that tell items apart; none in a set.
    pub(crate) fn keys(self) -> &'s [Cow<'static, str>] {
        &self.list.keys
    }

    /// The type of the items.
    pub(crate) fn element(self) -> Type<'s> {
        self.schema.resolve(self.list.element)
    }

    /// What a key field is in an item that has not got it.
    pub(crate) fn default_of(self, key: &str) -> Option<&'s Literal<'static>> {
        self.element().map()?.default_of(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field<'s>(of: Type<'s>, path: &[&str]) -> Type<'s> {
        path.iter().fold(of, |of, name| match of.map() {
            Some(map) => map.entry(name).expect("a field").0,
            None => of.list().expect("a list").element(),
        })
    }

    #[test]
    fn built_in_types_have_their_lists_and_maps() {
        // [F11] the table for apply, not the one for strategic merge
        let pod = Schema::of_kind("", "v1", "Pod");
        let containers = field(pod.root(), &["spec", "containers"]).list().unwrap();
        assert!(!containers.atomic());
        assert_eq!(containers.keys(), ["name"]);
        let ports = field(containers.element(), &["ports"]).list().unwrap();
        assert_eq!(ports.keys(), ["containerPort", "protocol"]);
        assert_eq!(ports.default_of("protocol"), Some(&Literal::Text("TCP".into())));
        assert_eq!(ports.default_of("containerPort"), Some(&Literal::Int(0)));
        assert_eq!(ports.default_of("hostPort"), None);
        assert!(field(pod.root(), &["spec", "tolerations"]).list().unwrap().atomic());
        assert!(field(pod.root(), &["spec", "nodeSelector"]).map().unwrap().atomic);
        assert!(!field(pod.root(), &["metadata", "labels"]).map().unwrap().atomic);
        let finalizers = field(pod.root(), &["metadata", "finalizers"]).list().unwrap();
        assert!(!finalizers.atomic() && finalizers.keys().is_empty());
        let deployment = Schema::of_kind("apps", "v1", "Deployment");
        assert!(field(deployment.root(), &["spec", "selector"]).map().unwrap().atomic);
        let volume = Schema::of_kind("", "v1", "PersistentVolume");
        assert!(!field(volume.root(), &["spec", "claimRef"]).map().unwrap().atomic);
    }

    #[test]
    fn every_kind_has_a_type_of_its_own() {
        // [F11]
        let kinds = crate::kinds::Registry::new().snapshot();
        let versions = kinds.groups().iter().flat_map(|group| &group.versions);
        let mut seen = 0;
        for resource in versions.flat_map(|version| &version.resources) {
            if resource.verbs.contains(crate::kinds::Verb::Update) {
                let root = resource.structures.own.root().map().expect("a struct");
                assert!(root.declared("kind").is_some() && !root.is_untyped(), "{resource:?}");
                seen += 1;
            }
        }
        assert!(seen > 60, "{seen}");
    }

    #[test]
    fn what_is_not_known_is_deduced() {
        // [F11]
        let schema = Schema::deduced();
        let map = schema.root().map().unwrap();
        assert!(map.is_untyped() && !map.atomic);
        let inner = map.entry("a").unwrap().0;
        assert!(inner.list().unwrap().atomic());
        assert!(inner.list().unwrap().element().map().unwrap().atomic);
    }
}
