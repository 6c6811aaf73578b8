//! A value and where it stands.

use serde_json::Value;

/// A value with its path, as findings name it. What is absent is null.
#[derive(Clone, Debug)]
pub(crate) struct At<'a> {
    pub(crate) path: String,
    pub(crate) value: &'a Value,
}

impl<'a> At<'a> {
    pub(crate) fn new(path: impl Into<String>, value: &'a Value) -> Self {
        Self {
            path: path.into(),
            value,
        }
    }

    /// The field of an object.
    pub(crate) fn field(&self, name: &str) -> Self {
        Self::new(format!("{}.{name}", self.path), &self.value[name])
    }

    /// A field some levels down.
    pub(crate) fn deep(&self, names: &[&str]) -> Self {
        names.iter().fold(self.clone(), |at, name| at.field(name))
    }

    /// An item of a list.
    pub(crate) fn item(&self, index: usize) -> Self {
        Self::new(format!("{}[{index}]", self.path), &self.value[index])
    }

    /// The entry of a map.
    pub(crate) fn key(&self, key: &str) -> Self {
        Self::new(format!("{}[{key}]", self.path), &self.value[key])
    }

    /// The items of a list.
    pub(crate) fn items(&self) -> impl Iterator<Item = Self> + use<'a> {
        let path = self.path.clone();
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items.map(move |(index, value)| Self::new(format!("{path}[{index}]"), value))
    }

    /// The entries of a map, in the order of their keys.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, Self)> + use<'a> {
        let path = self.path.clone();
        let entries = self.value.as_object().into_iter().flatten();
        entries.map(move |(key, value)| (key.as_str(), Self::new(format!("{path}[{key}]"), value)))
    }

    /// How many items or entries there are.
    pub(crate) fn len(&self) -> usize {
        match self.value {
            Value::Array(items) => items.len(),
            Value::Object(entries) => entries.len(),
            _ => 0,
        }
    }

    pub(crate) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    pub(crate) fn int(&self) -> i64 {
        self.value.as_i64().unwrap_or_default()
    }

    pub(crate) fn flag(&self) -> bool {
        self.value == &Value::Bool(true)
    }

    pub(crate) fn is(&self, text: &str) -> bool {
        self.text() == text
    }

    /// Whether the value is there, however empty.
    pub(crate) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Whether there is nothing, an empty text, list or map.
    pub(crate) fn is_empty(&self) -> bool {
        match self.value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(_) | Value::Object(_) => self.len() == 0,
            _ => false,
        }
    }
}
