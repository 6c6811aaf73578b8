//! The types that structured merge knows of the built-in kinds: `structures.rs` in `OUT_DIR`.
//!
//! Named types and the lists and maps between them are one table of atoms, which refer to each other by place.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::{object, text, texts};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// The places of the atoms that are always there.
const UNTYPED: usize = 0;
const DEDUCED: usize = 1;
const TEXT: usize = 2;

struct Table<'a> {
    types: &'a serde_json::Map<String, Value>,
    defaults: &'a Value,
    /// The same types as Go has them: a key field that Go always writes is never absent.
    structs: &'a Value,
    named: BTreeMap<&'a str, usize>,
    /// The atoms as Rust expressions; `None` while a named type is being read.
    atoms: Vec<Option<String>>,
    /// Equal atoms without a name are one.
    anonymous: BTreeMap<String, usize>,
    statics: String,
}

/// The places of the kinds by group, version and kind.
pub(super) type Places = BTreeMap<(String, String, String), usize>;

/// The file, and the place of each kind in it.
pub(super) fn structures(types: &Value, facts: &Value, structs: &Value) -> (String, Places) {
    let names = object(&types["types"]);
    let mut table = Table {
        types: names,
        defaults: &facts["schemaDefaults"],
        structs: &structs["types"],
        named: BTreeMap::new(),
        atoms: Vec::new(),
        anonymous: BTreeMap::new(),
        statics: String::new(),
    };
    table.add(atom(
        "Some(Scalar::Untyped)",
        &list_of(true, "NO_KEYS", UNTYPED),
        &map_of(true, UNTYPED),
    ));
    table.add(atom(
        "Some(Scalar::Untyped)",
        &list_of(true, "NO_KEYS", UNTYPED),
        &map_of(false, DEDUCED),
    ));
    table.add(scalar("Text"));
    let mut places = Places::new();
    for kind in types["kinds"].as_array().expect("kinds") {
        let row = texts(kind);
        // Lists and options have no fields that anybody owns.
        if names[row[3]]["fields"].get("metadata").and_then(Value::as_str) == Some(META) {
            let key = (row[0].to_owned(), row[1].to_owned(), row[2].to_owned());
            places.insert(key, table.named(row[3]));
        }
    }
    let meta = table.named(META);
    let mut out = table.statics;
    out.push_str("static NO_KEYS: [Name; 0] = [];\nstatic NO_FIELDS: [Field; 0] = [];\n");
    writeln!(out, "static ATOMS: [Atom; {}] = [", table.atoms.len()).expect("strings take all");
    for atom in &table.atoms {
        writeln!(out, "{},", atom.as_deref().expect("every atom is read")).expect("strings take all");
    }
    out.push_str("];\n");
    for (name, at) in [
        ("UNTYPED", UNTYPED),
        ("DEDUCED", DEDUCED),
        ("TEXT", TEXT),
        ("OBJECT_META", meta),
    ] {
        writeln!(out, "const {name}: u16 = {at};").expect("strings take all");
    }
    (out, places)
}

fn atom(scalar: &str, list: &str, map: &str) -> String {
    format!("Atom {{ scalar: {scalar}, list: {list}, map: {map} }}")
}

fn scalar(name: &str) -> String {
    atom(&format!("Some(Scalar::{name})"), "None", "None")
}

fn list_of(atomic: bool, keys: &str, element: usize) -> String {
    format!("Some(List {{ atomic: {atomic}, keys: Cow::Borrowed(&{keys}), element: built_in({element}) }})")
}

fn map_of(atomic: bool, element: usize) -> String {
    format!("Some(Map {{ atomic: {atomic}, fields: Cow::Borrowed(&NO_FIELDS), element: Some(built_in({element})) }})")
}

impl<'a> Table<'a> {
    fn add(&mut self, atom: String) -> usize {
        self.atoms.push(Some(atom));
        self.atoms.len() - 1
    }

    fn anonymous(&mut self, atom: String) -> usize {
        if let Some(&at) = self.anonymous.get(&atom) {
            return at;
        }
        let at = self.add(atom.clone());
        self.anonymous.insert(atom, at);
        at
    }

    fn named(&mut self, name: &'a str) -> usize {
        if let Some(&at) = self.named.get(name) {
            return at;
        }
        let ty = self.types.get(name).unwrap_or_else(|| panic!("no type {name}"));
        match (name, ty.get("t").map(text)) {
            (QUANTITY, _) => return self.anonymous(scalar("Untyped")),
            (RAW_EXTENSION, _) => return UNTYPED,
            // An object that declares nothing, or a value of any kind.
            (_, Some("any")) => return DEDUCED,
            (_, Some(other)) => return self.anonymous(scalar(scalar_of(other))),
            (_, None) => {}
        }
        let at = self.atoms.len();
        self.named.insert(name, at);
        self.atoms.push(None);
        self.atoms[at] = Some(self.structure(name, ty));
        at
    }

    fn structure(&mut self, name: &'a str, ty: &'a Value) -> String {
        let fields = object(&ty["fields"]);
        let mut rows = Vec::with_capacity(fields.len());
        for (field, of) in fields {
            let of = self.field(of);
            let default = match self.defaults[name].get(field) {
                Some(Value::String(text)) => format!("Some(Literal::Text(Cow::Borrowed({text:?})))"),
                Some(Value::Number(number)) => format!("Some(Literal::Int({number}))"),
                Some(other) => panic!("a default of {name}.{field}: {other}"),
                None => self.zero(name, field).to_owned(),
            };
            rows.push((
                field,
                format!("Field {{ name: Cow::Borrowed({field:?}), of: {of}, default: {default} }}"),
            ));
        }
        rows.sort();
        let id = format!("FIELDS_{}", self.named[name]);
        writeln!(self.statics, "static {id}: [Field; {}] = [", rows.len()).expect("strings take all");
        for (_, row) in &rows {
            writeln!(self.statics, "{row},").expect("strings take all");
        }
        self.statics.push_str("];\n");
        let atomic = ty["mapType"] == "atomic";
        let map = format!("Some(Map {{ atomic: {atomic}, fields: Cow::Borrowed(&{id}), element: None }})");
        atom("None", "None", &map)
    }

    /// What a field is by default that Go always writes.
    fn zero(&self, name: &str, field: &str) -> &'static str {
        let fields = self.structs[name]["fields"].as_array().into_iter().flatten();
        let found = fields.into_iter().find(|found| found["name"] == *field);
        let Some(found) = found.filter(|found| found.get("omit").is_none() && found["ptr"] != true) else {
            return "None";
        };
        match found["t"].as_str() {
            Some("str") => "Some(Literal::Text(Cow::Borrowed(\"\")))",
            Some("int32" | "int64") => "Some(Literal::Int(0))",
            _ => "None",
        }
    }

    /// The reference of a field.
    fn field(&mut self, of: &'a Value) -> String {
        let (t, facts) = match of.get("t") {
            Some(t) => (t, Some(of)),
            None => (of, None),
        };
        let fact = |name: &str| {
            facts
                .and_then(|facts| facts.get(name))
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        if let Some(element) = t.get("list") {
            let keys = match (fact("listType"), fact("patchStrategy")) {
                ("map", _) => Some(texts(&facts.expect("facts")["listMapKeys"])),
                ("set", _) => Some(Vec::new()),
                // Without a list type, the strategy for strategic merge counts.
                ("", "merge" | "merge,retainKeys") => Some(
                    Some(fact("patchMergeKey"))
                        .filter(|key| !key.is_empty())
                        .into_iter()
                        .collect(),
                ),
                _ => None,
            };
            let element = self.place(element);
            let atomic = keys.is_none();
            let keys = keys.unwrap_or_default();
            let keys_id = if keys.is_empty() {
                "NO_KEYS".to_owned()
            } else {
                let id = format!("KEYS_{}", keys.join("_").to_uppercase());
                if !self.statics.contains(&format!("static {id}:")) {
                    let names: Vec<String> = keys.iter().map(|key| format!("Cow::Borrowed({key:?})")).collect();
                    writeln!(
                        self.statics,
                        "static {id}: [Name; {}] = [{}];",
                        keys.len(),
                        names.join(", ")
                    )
                    .expect("strings take all");
                }
                id
            };
            let at = self.anonymous(atom("None", &list_of(atomic, &keys_id, element), "None"));
            return format!("built_in({at})");
        }
        let at = self.place(t);
        match fact("mapType") {
            "atomic" => format!("with(built_in({at}), true)"),
            "granular" => format!("with(built_in({at}), false)"),
            _ => format!("built_in({at})"),
        }
    }

    /// The place of a type without facts of a field.
    fn place(&mut self, t: &'a Value) -> usize {
        if let Some(element) = t.get("map") {
            let element = self.place(element);
            return self.anonymous(atom("None", "None", &map_of(false, element)));
        }
        if let Some(element) = t.get("list") {
            let element = self.place(element);
            return self.anonymous(atom("None", &list_of(true, "NO_KEYS", element), "None"));
        }
        let name = text(t);
        if name == "any" {
            return DEDUCED;
        }
        if name == "str" {
            return TEXT;
        }
        if self.types.contains_key(name) {
            return self.named(name);
        }
        self.anonymous(scalar(scalar_of(name)))
    }
}

/// The kind of scalar of a JSON type with its format.
fn scalar_of(name: &str) -> &'static str {
    match name {
        "str" | "str:byte" => "Text",
        "bool" => "Boolean",
        _ if name.starts_with("str:") => "Untyped",
        _ if name.starts_with("int") || name.starts_with("num") => "Numeric",
        _ => panic!("unknown type {name}"),
    }
}
