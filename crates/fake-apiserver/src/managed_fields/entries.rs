//! The entries of `managedFields`, read and written.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;

use bytes::Bytes;
use jiff::Timestamp;

use crate::codec::time;
use crate::json::{Kind, Tape, Value, write};
use crate::structured::{Set, fields_v1};

/// How a manager came to own its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// One entry.
#[derive(Debug, Clone)]
pub(super) struct Entry<'a> {
    pub(super) manager: Cow<'a, str>,
    pub(super) operation: Operation,
    pub(super) api_version: Cow<'a, str>,
    pub(super) subresource: Cow<'a, str>,
    pub(super) time: Option<Timestamp>,
    pub(super) set: Set<'a>,
}

/// What tells entries apart, as the real server writes it: the version counts for updates only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity(String);

impl Entry<'_> {
    /// What tells this entry from others.
    pub(super) fn identity(&self) -> Identity {
        let mut out = Vec::with_capacity(128);
        out.push(b'{');
        let api_version = match self.operation {
            Operation::Apply => "",
            Operation::Update => &self.api_version,
        };
        for (name, value) in [
            ("manager", &*self.manager),
            ("operation", self.operation.as_str()),
            ("apiVersion", api_version),
            ("subresource", &self.subresource),
        ] {
            if !value.is_empty() {
                write::name(&mut out, name);
                write::string(&mut out, value);
            }
        }
        out.push(b'}');
        Identity(String::from_utf8(out).unwrap_or_default())
    }

    /// The manager as the texts of conflicts name it.
    pub(super) fn shown(&self) -> String {
        let mut text = crate::gotext::go_quote(&self.manager);
        if !self.subresource.is_empty() {
            text.push_str(" with subresource ");
            text.push_str(&crate::gotext::go_quote(&self.subresource));
        }
        if self.operation == Operation::Update {
            text.push_str(" using ");
            text.push_str(&self.api_version);
        }
        text
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        let text = |out: &mut Vec<u8>, name: &str, value: &str| {
            if !value.is_empty() {
                write::name(out, name);
                write::string(out, value);
            }
        };
        text(out, "manager", &self.manager);
        text(out, "operation", self.operation.as_str());
        text(out, "apiVersion", &self.api_version);
        if let Some(at) = self.time {
            write::name(out, "time");
            time::write(out, at);
        }
        text(out, "fieldsType", "FieldsV1");
        write::name(out, "fieldsV1");
        fields_v1::encode(&self.set, out);
        text(out, "subresource", &self.subresource);
        out.push(b'}');
    }

    /// The time in seconds, by which entries are ordered; none comes first.
    pub(super) fn seconds(&self) -> i64 {
        self.time.map_or(0, Timestamp::as_second)
    }
}

/// All entries of an object.
#[derive(Debug, Default)]
pub(super) struct Managers<'a>(BTreeMap<Identity, Entry<'a>>);

impl<'a> Managers<'a> {
    /// Reads the entries.
    ///
    /// # Errors
    ///
    /// The real server's text about entries that it would not take.
    pub(super) fn decode(tape: &'a Tape<'a>) -> Result<Self, String> {
        let mut managers = Self::default();
        for (at, item) in tape.root().items().enumerate() {
            let entry = decode_entry(item, at)?;
            managers.put(entry);
        }
        Ok(managers)
    }

    /// The canonical bytes; `None` if there are no entries.
    pub(super) fn encode(&self) -> Option<Bytes> {
        encode(self.0.values())
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an entry, in place of the one of the same identity.
    pub(super) fn put(&mut self, entry: Entry<'a>) {
        self.0.insert(entry.identity(), entry);
    }

    /// Adds what an entry owns to that of the same identity, or the entry if there is none: what else the entry says counts.
    pub(super) fn put_more(&mut self, mut entry: Entry<'a>) {
        match self.0.entry(entry.identity()) {
            MapEntry::Vacant(place) => {
                place.insert(entry);
            }
            MapEntry::Occupied(mut place) => {
                let known = std::mem::take(&mut place.get_mut().set);
                entry.set = entry.set.union(known);
                place.insert(entry);
            }
        }
    }

    /// Removes an entry.
    pub(super) fn take(&mut self, identity: &Identity) -> Option<Entry<'a>> {
        self.0.remove(identity)
    }

    /// The entry of an identity.
    pub(super) fn get(&self, identity: &Identity) -> Option<&Entry<'a>> {
        self.0.get(identity)
    }

    /// The entries, in the order in which conflicts are told.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Identity, &Entry<'a>)> {
        self.0.iter()
    }

    /// Changes the sets of entries, and drops those that then own nothing, or of which `change` says so.
    pub(super) fn retain(&mut self, mut change: impl FnMut(&Identity, &mut Entry<'a>) -> bool) {
        self.0
            .retain(|identity, entry| change(identity, entry) && !entry.set.is_empty());
    }
}

/// The canonical bytes of entries; `None` if there are none.
pub(super) fn encode<'e, 'a: 'e>(entries: impl Iterator<Item = &'e Entry<'a>>) -> Option<Bytes> {
    let mut entries: Vec<&Entry<'_>> = entries.collect();
    if entries.is_empty() {
        return None;
    }
    entries.sort_by(|a, b| {
        let parts = |entry: &Entry<'_>| (entry.operation, entry.seconds());
        let names = |a: &Entry<'_>, b: &Entry<'_>| {
            a.manager
                .cmp(&b.manager)
                .then_with(|| a.api_version.cmp(&b.api_version))
                .then_with(|| a.subresource.cmp(&b.subresource))
        };
        parts(a).cmp(&parts(b)).then_with(|| names(a, b))
    });
    let mut out = Vec::with_capacity(entries.len() * 256);
    out.push(b'[');
    for entry in entries {
        write::comma(&mut out);
        entry.write(&mut out);
    }
    out.push(b']');
    Some(Bytes::from(out))
}

fn decode_entry(item: Value<'_>, at: usize) -> Result<Entry<'_>, String> {
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
    let operation = match &*text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err("operation must be `Apply` or `Update`".to_owned()),
    };
    let api_version = text("apiVersion");
    if api_version.is_empty() {
        return Err("apiVersion must not be empty".to_owned());
    }
    match &*text("fieldsType") {
        "FieldsV1" => {}
        "" => return Err(format!("missing fieldsType in managed fields entry {at}")),
        other => {
            let other = crate::gotext::go_quote(other);
            return Err(format!("invalid fieldsType {other} in managed fields entry {at}"));
        }
    }
    let set = match item.get("fieldsV1").filter(|fields| fields.kind() != Kind::Null) {
        Some(fields) => fields_v1::decode(fields).map_err(|error| format!("error decoding set: {error}"))?,
        None => Set::default(),
    };
    let at = text("time");
    Ok(Entry {
        manager: text("manager"),
        operation,
        api_version,
        subresource: text("subresource"),
        time: time::parse(&at).ok().filter(|_| !at.is_empty()),
        set,
    })
}

/// Whether two fields hold the same entries but for their times, and not the same times.
pub(super) fn differ_in_times_only(a: &[u8], b: &[u8]) -> bool {
    if a == b {
        return false;
    }
    let (Ok(a), Ok(b)) = (Tape::parse(a), Tape::parse(b)) else {
        return false;
    };
    let parts = |entry: Value<'_>| -> Vec<(Vec<u8>, Vec<u8>)> {
        let entries = entry.entries().filter(|(key, _)| !key.is("time"));
        entries
            .map(|(key, value)| (key.raw().to_vec(), value.raw_quoted().to_vec()))
            .collect()
    };
    let (a, b) = (a.root().items(), b.root().items());
    a.clone().count() == b.clone().count() && a.zip(b).all(|(a, b)| parts(a) == parts(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(text: &str) -> Option<String> {
        let tape = Tape::parse(text.as_bytes()).unwrap();
        let managers = Managers::decode(&tape).unwrap();
        managers
            .encode()
            .map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn entries_are_written_in_the_order_of_the_real_server() {
        // [F11] Apply first, then time with none first, manager, version
        let entry = |manager: &str, operation: &str, version: &str, time: &str, subresource: &str| {
            let time = if time.is_empty() {
                String::new()
            } else {
                format!(r#""time":"{time}","#)
            };
            let subresource = if subresource.is_empty() {
                String::new()
            } else {
                format!(r#","subresource":"{subresource}""#)
            };
            format!(
                r#"{{"manager":"{manager}","operation":"{operation}","apiVersion":"{version}",{time}"fieldsType":"FieldsV1","fieldsV1":{{"f:a":{{}}}}{subresource}}}"#
            )
        };
        let sorted = [
            entry("z", "Apply", "v1", "", ""),
            entry("b", "Apply", "v1", "2026-01-01T00:00:00Z", ""),
            entry("a", "Apply", "v1", "2026-01-01T00:00:01Z", ""),
            entry("a", "Update", "v1", "2026-01-01T00:00:00Z", ""),
            entry("a", "Update", "v1", "2026-01-01T00:00:00Z", "status"),
            entry("a", "Update", "v2", "2026-01-01T00:00:00Z", ""),
            entry("b", "Update", "v1", "2026-01-01T00:00:00Z", ""),
        ];
        let mut shuffled = sorted.clone();
        shuffled.reverse();
        assert_eq!(
            round(&format!("[{}]", shuffled.join(","))),
            Some(format!("[{}]", sorted.join(",")))
        );
        assert_eq!(round("[]"), None);
    }

    #[test]
    fn entries_that_no_server_has_written_are_refused() {
        // [F11]
        for (entry, text) in [
            (r"{}", "operation must be `Apply` or `Update`"),
            (r#"{"operation":"Apply"}"#, "apiVersion must not be empty"),
            (
                r#"{"operation":"Apply","apiVersion":"v1"}"#,
                "missing fieldsType in managed fields entry 0",
            ),
            (
                r#"{"operation":"Apply","apiVersion":"v1","fieldsType":"x"}"#,
                "invalid fieldsType \"x\" in managed fields entry 0",
            ),
        ] {
            let text_of = format!("[{entry}]");
            let tape = Tape::parse(text_of.as_bytes()).unwrap();
            assert_eq!(Managers::decode(&tape).unwrap_err(), text);
        }
    }

    #[test]
    fn times_alone_make_no_difference() {
        // [F11]
        let at = |time: &str, field: &str| {
            format!(r#"[{{"manager":"m","time":"{time}","fieldsV1":{{"f:{field}":{{}}}}}}]"#).into_bytes()
        };
        assert!(differ_in_times_only(&at("1", "a"), &at("2", "a")));
        assert!(!differ_in_times_only(&at("1", "a"), &at("1", "a")));
        assert!(!differ_in_times_only(&at("1", "a"), &at("2", "b")));
        assert!(!differ_in_times_only(b"[]", &at("2", "b")));
    }
}
