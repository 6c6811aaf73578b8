//! The table representation: what `kubectl get` shows.
//!
//! Kinds that users look at most have the columns of the real server ([`cells`]); all others show name and age.

mod cells;

mod json_path;

#[cfg(any(test, fuzzing))]
pub(crate) use json_path::first as first_at_path;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::{Resource, TableColumn};
use crate::negotiate::{Include, MetaVersion};
use crate::object::{Object, TypeMeta, write_metadata, write_output};
use crate::storage::Revision;
use crate::stored::Stored;
use crate::view::metadata_only;

/// Whether a table says what its columns are: later events of a watch do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    Shown,
    Omitted,
}

/// An object whose cells are wanted.
struct Row<'a> {
    resource: &'a Resource,
    object: &'a Object,
    age: &'a str,
    now: Timestamp,
}

impl Row<'_> {
    fn name(&self) -> Value {
        name(self.object)
    }

    fn age(&self) -> Value {
        self.age.into()
    }

    fn field(&self, name: &str) -> Value {
        field(self.object, name)
    }

    /// How long a time of the object is past.
    fn since(&self, value: &Value) -> Value {
        let time = time_of(value);
        time.map_or_else(
            || "<unknown>".into(),
            |time| duration(self.now.as_second() - time.as_second()).into(),
        )
    }
}

/// A time in an object.
fn time_of(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// The cells of a resource, if they are those of the real server.
fn cells_of(resource: &Resource) -> Option<cells::Cells> {
    if resource.custom {
        return None;
    }
    cells::of(&resource.group, &resource.plural)
}

/// The columns of a resource: its own where the cells are known, else name and age.
fn columns(resource: &Resource) -> Vec<TableColumn> {
    if cells_of(resource).is_some() {
        return resource.policy.table.clone();
    }
    let column = |name: &'static str, kind: &'static str, format: &'static str| TableColumn {
        name: name.into(),
        kind: kind.into(),
        format: format.into(),
        description: "".into(),
        priority: 0,
        json_path: None,
    };
    let mut columns = vec![column("Name", "string", "name")];
    let printed = resource.policy.table.iter().filter(|column| column.json_path.is_some());
    columns.extend(printed.cloned());
    if columns.len() == 1 {
        columns.push(column("Age", if resource.custom { "date" } else { "string" }, ""));
    }
    columns
}

/// Writes everything up to the first row.
pub(crate) fn write_head(
    resource: &Resource,
    (shown, version): (Columns, MetaVersion),
    rv: Revision,
    continue_token: Option<&str>,
    remaining: Option<usize>,
    out: &mut Vec<u8>,
) {
    let mut metadata = serde_json::Map::new();
    if rv > 0 {
        metadata.insert("resourceVersion".to_owned(), rv.to_string().into());
    }
    if let Some(token) = continue_token {
        metadata.insert("continue".to_owned(), token.into());
    }
    if let Some(remaining) = remaining {
        metadata.insert("remainingItemCount".to_owned(), remaining.into());
    }
    let definitions = match shown {
        Columns::Omitted => Value::Null,
        Columns::Shown => columns(resource)
            .into_iter()
            .map(|column| {
                json!({
                    "name": column.name, "type": column.kind, "format": column.format,
                    "description": column.description,
                    "priority": column.priority,
                })
            })
            .collect(),
    };
    let metadata = Value::Object(metadata);
    let head = format!(
        "{{\"kind\":\"Table\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\
         \"columnDefinitions\":{definitions},\"rows\":[",
        version.api_version()
    );
    out.extend_from_slice(head.as_bytes());
}

/// Writes one row, with what is wanted of its object.
pub(crate) fn write_row(
    resource: &Resource,
    (version, include): (MetaVersion, Include),
    stored: &Stored,
    rv: Revision,
    now: Timestamp,
    out: &mut Vec<u8>,
) {
    let object = stored.object_as(resource);
    let age = age(&object, now);
    let cells = if let Some(cells) = cells_of(resource) {
        cells(&Row {
            resource,
            object: &object,
            age: &age,
            now,
        })
    } else {
        let columns = columns(resource);
        let is_printed = columns.iter().any(|column| column.json_path.is_some());
        let root = if is_printed {
            whole(stored, resource)
        } else {
            Value::Null
        };
        let cell = |column: &TableColumn| match (&column.json_path, column.name.as_ref()) {
            (None, "Name") => name(&object),
            (None, _) => age.as_str().into(),
            (Some(_), _) => printed(&root, column, now),
        };
        columns.iter().map(cell).collect()
    };
    out.extend_from_slice(b"{\"cells\":");
    out.extend_from_slice(Value::Array(cells).to_string().as_bytes());
    out.extend_from_slice(b",\"object\":");
    // The bookmark that ends the initial events says so in its metadata.
    let says_end = object.meta.annotations.get("k8s.io/initial-events-end").is_some();
    match include {
        Include::Object => {
            let type_meta = TypeMeta {
                api_version: &resource.api_version(),
                kind: &resource.kind,
            };
            write_output(&stored.canonical_as(resource), Some(type_meta), rv, out);
        }
        Include::Nothing if !says_end => out.extend_from_slice(b"null"),
        Include::Metadata | Include::Nothing => {
            write_metadata(&stored.canonical, Some(metadata_only(version)), rv, out);
        }
    }
    out.push(b'}');
}

fn name(object: &Object) -> Value {
    object.meta.name.as_str().into()
}

fn created(object: &Object) -> Option<Timestamp> {
    object.meta.creation_timestamp
}

fn creation_text(object: &Object) -> Value {
    created(object).map_or(Value::Null, |time| crate::clock::time_text(time).into())
}

fn field(object: &Object, name: &str) -> Value {
    // Stored bytes are JSON; an absent field has no cells.
    object
        .field(name)
        .and_then(|bytes| serde_json::from_slice(bytes).ok())
        .unwrap_or_default()
}

/// The value of an additional printer column: the first that its path leads to.
fn printed(root: &Value, column: &TableColumn, now: Timestamp) -> Value {
    let found = column.json_path.as_ref().and_then(|path| json_path::first(root, path));
    let value = found.unwrap_or_default();
    match (column.kind.as_ref(), &value) {
        (_, Value::Null) => Value::Null,
        ("string", Value::String(_)) | ("boolean", Value::Bool(_)) | ("number", Value::Number(_)) => value,
        ("string", other) => other.to_string().into(),
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            #[expect(clippy::cast_possible_truncation, reason = "as Go does it")]
            (None, Some(float)) => (float as i64).into(),
            _ => value,
        },
        ("date", Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(time) => elapsed(time, now).into(),
            Err(_) if text.is_empty() => "<unknown>".into(),
            Err(_) => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

/// The JSON that columns are read from.
fn whole(stored: &Stored, resource: &Resource) -> Value {
    // Stored bytes are JSON; what is nested too deep has no cells.
    serde_json::from_slice(&stored.canonical_as(resource)).unwrap_or_default()
}

/// The age as kubectl writes it.
fn age(object: &Object, now: Timestamp) -> String {
    created(object).map_or_else(|| "<unknown>".to_owned(), |created| elapsed(created, now))
}

/// The time since then as kubectl writes it.
fn elapsed(since: Timestamp, now: Timestamp) -> String {
    duration(now.as_second() - since.as_second())
}

/// A time span as kubectl writes it.
fn duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let with = |value: i64, unit: &str, rest: i64, small: &str| {
        if rest == 0 {
            format!("{value}{unit}")
        } else {
            format!("{value}{unit}{rest}{small}")
        }
    };
    match seconds {
        i64::MIN..=-2 => "<invalid>".to_owned(),
        -1..=0 => "0s".to_owned(),
        1..120 => format!("{seconds}s"),
        120..600 => with(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => with(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => with(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => with(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_written_as_kubectl_writes_it() {
        let created: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut object = Object::default();
        assert_eq!(age(&object, created), "<unknown>");
        object.meta.creation_timestamp = Some(created);
        let cases = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (660, "11m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (28_800, "8h"),
            (172_800, "2d"),
            (176_400, "2d1h"),
            (864_000, "10d"),
            (63_072_000, "2y"),
        ];
        for (seconds, expected) in cases {
            let now = Timestamp::from_second(created.as_second() + seconds).unwrap();
            assert_eq!(age(&object, now), expected, "{seconds} s");
        }
    }
}
