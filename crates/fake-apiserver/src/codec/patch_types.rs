//! The types of built-in kinds as a strategic merge patch asks for them: what a member of an object is, whether it is
//! merged, and by which key. The texts about a member that is not what it is taken for are those of the real server.

use super::tables::{Field, Shape, Strategy, TypeId};

/// The Go type at some place of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GoType {
    shape: Shape,
    /// As Go writes it, with the mark of a pointer.
    go: &'static str,
}

/// How a patch goes on at a member of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    /// The type of the member, or of its items.
    pub(crate) of: GoType,
    pub(crate) strategy: Strategy,
    /// Empty if there is none.
    pub(crate) merge_key: &'static str,
}

impl GoType {
    /// A whole object.
    pub(crate) fn of_object(id: TypeId) -> Self {
        Self {
            shape: Shape::Struct(id),
            go: id.get().go,
        }
    }

    /// What Go calls the kind of type.
    pub(crate) fn kind(self) -> &'static str {
        if self.go.starts_with('*') {
            return "ptr";
        }
        match self.shape {
            Shape::Str => "string",
            Shape::Bool => "bool",
            Shape::Int32 => "int32",
            Shape::Int64 => "int64",
            Shape::Float64 => "float64",
            Shape::Bytes | Shape::List(_) => "slice",
            Shape::Map(_) => "map",
            _ => "struct",
        }
    }

    fn pointed_to(self) -> Self {
        Self {
            go: self.go.strip_prefix('*').unwrap_or(self.go),
            ..self
        }
    }

    /// The member of an object that is patched by an object.
    ///
    /// # Errors
    /// The text about a type without such a member.
    pub(crate) fn member(self, name: &str) -> Result<Member, String> {
        let of = self.pointed_to();
        let kind = of.kind();
        if kind != "struct" {
            return Err(format!(
                "merging an object in json but data type is not struct, instead is: {kind}"
            ));
        }
        let Some(field) = of.field(name) else {
            let own = of.go.rsplit('.').next().unwrap_or(of.go);
            let name = crate::gotext::go_quote(name);
            return Err(format!(
                "unable to find api field in struct {own} for the json field {name}"
            ));
        };
        Ok(Member {
            of: Self {
                shape: field.shape,
                go: field.go,
            },
            strategy: field.strategy,
            merge_key: field.merge_key,
        })
    }

    /// The member of an object that is patched by a list; its type is that of the items.
    ///
    /// # Errors
    /// The text about a type without such a member.
    pub(crate) fn list_member(self, name: &str) -> Result<Member, String> {
        let member = self.member(name)?;
        let of = member.of.pointed_to();
        let is_pointer = of.go != member.of.go;
        let item = |shape: Shape| Self {
            shape,
            go: of.go.strip_prefix("[]").unwrap_or("string"),
        };
        let of = match of.shape {
            Shape::List(Shape::List(_) | Shape::Bytes) if !is_pointer => {
                return Err("unexpected slice of slice".to_owned());
            }
            Shape::List(element) => item(*element),
            Shape::Bytes => Self {
                shape: Shape::Int32,
                go: "uint8",
            },
            _ if is_pointer => of,
            _ => return Err(format!("expected slice or array type, but got: {}", self.kind())),
        };
        Ok(Member { of, ..member })
    }

    /// The field that Go's decoder takes for a member: of another case, if none is called so.
    fn field(self, name: &str) -> Option<&'static Field> {
        let Shape::Struct(id) = self.shape else { return None };
        let fields = id.get().fields;
        let exact = fields.iter().find(|field| field.name == name);
        exact.or_else(|| fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)))
    }
}
