//! The packed type tables: every struct type of the served kinds, as Go sees it.

/// A type of the packed tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TypeId(pub(crate) u16);

impl TypeId {
    pub(crate) fn get(self) -> &'static Type {
        &TYPES[usize::from(self.0)]
    }
}

/// A struct type.
#[derive(Debug)]
pub(crate) struct Type {
    /// The name in Go, `v1.Pod`.
    pub(super) go: &'static str,
    /// In struct order, which is the output order.
    pub(crate) fields: &'static [Field],
    /// Positions in `fields`, sorted by name.
    pub(super) sorted: &'static [u16],
}

impl Type {
    /// The position of a field. `guess` is tried first: clients mostly send fields in a regular order.
    pub(super) fn position(&self, name: &[u8], guess: usize) -> Option<usize> {
        if self
            .fields
            .get(guess)
            .is_some_and(|field| field.name.as_bytes() == name)
        {
            return Some(guess);
        }
        self.sorted
            .binary_search_by(|&at| self.fields[usize::from(at)].name.as_bytes().cmp(name))
            .ok()
            .map(|at| usize::from(self.sorted[at]))
    }
}

/// When Go leaves a field out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Omit {
    Never,
    /// `omitempty`: false, 0, an empty string, list or map, or a nil pointer; never a struct.
    Empty,
    /// `omitzero`: also the zero struct.
    Zero,
}

/// A field of a struct type.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// The Go type, for error texts.
    pub(crate) go: &'static str,
    pub(crate) shape: Shape,
    /// Protobuf field numbers from the outside in: two for a field of an embedded message, none if not in protobuf.
    pub(super) proto: &'static [u16],
    /// A pointer: zero differs from absent.
    pub(crate) pointer: bool,
    pub(super) omit: Omit,
    /// The embedded structs that it is a field of, which error texts name.
    pub(super) inside: &'static str,
    pub(super) strategy: Strategy,
    /// By which field items of a list are the same to a strategic merge patch; empty if by none.
    pub(super) merge_key: &'static str,
}

/// What a strategic merge patch does with a list or map that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// It replaces a list and merges a map.
    Default,
    Merge,
    Replace,
}

/// The shape of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    Str,
    Bool,
    Int32,
    Int64,
    Float64,
    /// Base64 in JSON.
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// Any JSON, kept as it is (`RawExtension`).
    Raw,
    /// Any JSON, kept as it is.
    FieldsV1,
    /// Any JSON, normalised.
    Json,
    SchemaOrBool,
    SchemaOrArray,
    SchemaOrStrings,
    List(&'static Shape),
    Map(&'static Shape),
    Struct(TypeId),
}

/// The type of the options of a verb.
pub(super) fn options_type(kind: &str) -> Option<TypeId> {
    match kind {
        "DeleteOptions" => Some(DELETE_OPTIONS),
        "CreateOptions" => Some(CREATE_OPTIONS),
        "UpdateOptions" => Some(UPDATE_OPTIONS),
        "PatchOptions" => Some(PATCH_OPTIONS),
        _ => None,
    }
}

/// The type of a kind that a body may have.
pub(crate) fn type_of(group: &str, version: &str, kind: &str) -> Option<TypeId> {
    let row = KINDS
        .iter()
        .find(|row| (row.0, row.1, row.2) == (group, version, kind))?;
    Some(row.3)
}

// `KINDS` lists group, version and kind of every served body, those of subresources included.
include!(concat!(env!("OUT_DIR"), "/types.rs"));

#[cfg(test)]
mod tests;
