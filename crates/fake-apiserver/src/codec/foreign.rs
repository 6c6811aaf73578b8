//! Bodies of another built-in kind than the one that is asked for.
//!
//! The real server reads a body as what it says to be, and only then finds that this cannot become what the request is
//! about: first what is wrong with the body as such, then that there is no conversion. So the known kinds and their
//! types matter here. Start at [`check`].

mod unserved;

use super::{
    tables::{KINDS, LIST_META, STATUS, Shape, TypeId, options_type},
    typed::Writer,
};
use crate::{
    json::{Kind, Value},
    kinds::{Resource, is_built_in_version, is_listed_kind},
};

/// Kinds that the real server knows in every version, whatever that is.
const UNVERSIONED: [&str; 5] = ["Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList"];
/// Kinds that are registered in every version of every group.
const OF_EVERY_GROUP: [&str; 7] = [
    "WatchEvent",
    "ListOptions",
    "GetOptions",
    "DeleteOptions",
    "CreateOptions",
    "UpdateOptions",
    "PatchOptions",
];
/// Groups whose resources are served by programs of their own, which know no kinds of other groups.
const APART: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];

/// How a kind is read.
enum Form {
    Struct(TypeId),
    /// A list of these, or of anything.
    List(Option<TypeId>),
    /// Of which only the name is known.
    Other,
}

/// What a body says to be, as far as the server of a resource knows it.
pub(super) struct Foreign {
    form: Form,
    /// The Go type.
    pub(super) go: String,
}

/// Looks a kind up; `None` if the server of the resource does not know it.
pub(super) fn known(resource: &Resource, group: &str, version: &str, kind: &str) -> Option<Foreign> {
    let apart = APART.contains(&&*resource.group);
    let same_server = if apart {
        group == resource.group
    } else {
        !APART.contains(&group)
    };
    let find = |kind: &str| {
        let row = KINDS
            .iter()
            .find(|row| same_server && (row.0, row.1, row.2) == (group, version, kind))?;
        Some(row.3)
    };
    if let Some(id) = find(kind) {
        let go = id.get().go.to_owned();
        return Some(Foreign {
            form: Form::Struct(id),
            go,
        });
    }
    let of_list = kind
        .strip_suffix("List")
        .filter(|of_list| is_listed_kind(group, version, of_list));
    if let Some(id) = of_list.and_then(find) {
        let go = format!("{}List", id.get().go);
        return Some(Foreign {
            form: Form::List(Some(id)),
            go,
        });
    }
    if same_server && unserved::is_known(group, version, kind) {
        // It is read as what it has become: most fields are the same.
        let now = unserved::group_of(group, kind);
        let row = KINDS.iter().find(|row| (row.0, row.2) == (now, kind));
        return Some(Foreign {
            form: row.map_or(Form::Other, |row| Form::Struct(row.3)),
            go: format!("{version}.{kind}"),
        });
    }
    let every_group = same_server && is_built_in_version(group, version) || (group, version) == ("", "v1");
    let form = match kind {
        "Status" => Form::Struct(STATUS),
        kind if OF_EVERY_GROUP.contains(&kind) && every_group => options_type(kind).map_or(Form::Other, Form::Struct),
        kind if UNVERSIONED.contains(&kind) => Form::Other,
        "List" if !apart && (group, version) == ("", "v1") => Form::List(None),
        _ => return None,
    };
    Some(Foreign {
        form,
        go: format!("v1.{kind}"),
    })
}

/// The Go type of a kind of the resource's group where the real server's own form of it is meant, which has no version.
pub(super) fn without_version(resource: &Resource, kind: &str) -> Option<String> {
    if kind == "WatchEvent" {
        return Some("v1.InternalEvent".to_owned());
    }
    if OF_EVERY_GROUP.contains(&kind) {
        return None;
    }
    let found = known(resource, &resource.group, &resource.version, kind)?;
    if UNVERSIONED.contains(&kind) {
        return Some(found.go);
    }
    Some(format!("{}.{kind}", resource.go_package()))
}

/// Whether a kind is that of a resource in an old version, which is not served.
pub(super) fn is_old_version(resource: &Resource, group: &str, version: &str, kind: &str) -> bool {
    unserved::is_known(group, version, kind)
        && (unserved::group_of(group, kind), kind) == (&*resource.group, &*resource.kind)
}

/// Looks a kind up that stands in the place of the options of a request; `None` if the real server does not know it there.
pub(super) fn in_place_of_options(group: &str, version: &str, kind: &str) -> Option<Foreign> {
    let of_meta = matches!(
        kind,
        "WatchEvent"
            | "ListOptions"
            | "GetOptions"
            | "PatchOptions"
            | "Table"
            | "TableOptions"
            | "PartialObjectMetadata"
            | "PartialObjectMetadataList"
    );
    let form = match kind {
        "Status" => Form::Struct(STATUS),
        "CreateOptions" | "UpdateOptions" => options_type(kind).map_or(Form::Other, Form::Struct),
        kind if UNVERSIONED.contains(&kind) => Form::Other,
        kind if of_meta && (group, version) == ("meta.k8s.io", "v1") => {
            options_type(kind).map_or(Form::Other, Form::Struct)
        }
        _ => return None,
    };
    let go = format!("v1.{kind}");
    Some(Foreign { form, go })
}

impl Foreign {
    /// Reads a body as what it says to be; returns its unknown and duplicate fields.
    ///
    /// # Errors
    /// The decoder's text.
    pub(super) fn read(&self, root: Value<'_>) -> Result<Vec<String>, String> {
        if root.kind() != Kind::Object {
            return Ok(Vec::new());
        }
        let mut writer = Writer::new(true, 0);
        match self.form {
            Form::Struct(id) => writer.structure(id, Some(root)),
            Form::List(id) => return self.read_list(id, root).map(|()| Vec::new()),
            Form::Other => {}
        }
        let (result, findings, _) = writer.finish();
        result.map(|()| findings)
    }

    /// Reads a list of a kind. The types of lists are not known here: what is wrong is told as of the member, which is
    /// then put before it.
    fn read_list(&self, id: Option<TypeId>, root: Value<'_>) -> Result<(), String> {
        for (key, value) in root.entries() {
            let name = key.as_str().unwrap_or_default();
            let mut writer = Writer::new(false, 0);
            match &*name {
                "metadata" => drop(writer.value(Shape::Struct(LIST_META), "v1.ListMeta", value)),
                "items" if value.kind() == Kind::Array => {
                    for (item, id) in value.items().filter_map(|item| Some((item, id?))) {
                        writer.value(Shape::Struct(id), id.get().go, item);
                    }
                }
                "items" if !value.is_null() => {
                    let item = id.map_or("runtime.RawExtension", |id| id.get().go);
                    writer.mismatch(value, &format!("[]{item}"));
                }
                _ => {}
            }
            let list = self.go.rsplit('.').next().unwrap_or_default();
            writer
                .finish()
                .0
                .map_err(|text| match text.split_once(" into Go struct field ") {
                    Some((what, place)) => {
                        let (ty, path) = place.split_once('.').unwrap_or((place, ""));
                        format!("{what} into Go struct field {ty}.{name}.{path}")
                    }
                    None => text.replacen("Go value", &format!("Go struct field {list}.{name}"), 1),
                })?;
        }
        Ok(())
    }
}
