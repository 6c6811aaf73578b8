//! A deserializer adapter that skips `metadata.managedFields` and keeps vectors small.
//!
//! # Design
//!
//! `managedFields` is about a third of a typical object and nobody reads it from a cache. The adapter sits between
//! `serde_json` and the type: at the level of `metadata` it takes the value of that key as `IgnoredAny`, so it is scanned
//! but never built; exact, whatever the type, and without a copy. The levels are a const parameter, so that everything
//! below `metadata` pays for no check.
//!
//! Every sequence reports a size hint of one element. `serde_json` knows no length, and a `Vec` that starts empty takes
//! room for four small elements at its first push; most sequences of Kubernetes objects have one.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::{BorrowedStrDeserializer, StringDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

/// The object itself: its key `metadata` leads to [`METADATA`].
const OBJECT: u8 = 0;
/// The object's `metadata`: its key `managedFields` is skipped.
const METADATA: u8 = 1;
/// Anything else.
const INNER: u8 = 2;

/// Decodes `K` without its managed fields.
#[derive(Debug)]
pub(crate) struct Lean<K>(pub(crate) K);

impl<'de, K: Deserialize<'de>> Deserialize<'de> for Lean<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        K::deserialize(Adapter::<D, OBJECT>(deserializer)).map(Lean)
    }
}

/// Decodes `K` with its managed fields.
#[derive(Debug)]
pub(crate) struct Full<K>(pub(crate) K);

impl<'de, K: Deserialize<'de>> Deserialize<'de> for Full<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        K::deserialize(Adapter::<D, INNER>(deserializer)).map(Full)
    }
}

/// Wraps a deserializer, visitor, seed or access; `L` is the level it is at.
struct Adapter<T, const L: u8>(T);

macro_rules! forward {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {$(
        #[inline]
        fn $name<V: Visitor<'de>>(self, $($arg: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$name($($arg,)* Adapter::<V, L>(visitor))
        }
    )*};
}

macro_rules! pass {
    ($($name:ident)*) => {$(
        #[inline]
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$name(visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>, const L: u8> Deserializer<'de> for Adapter<D, L> {
    type Error = D::Error;

    // Scalars hold nothing to adapt.
    pass! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64
        deserialize_char deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit
        deserialize_identifier deserialize_ignored_any
    }

    forward! {
        deserialize_any();
        deserialize_option();
        deserialize_seq();
        deserialize_map();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_struct(name: &'static str, fields: &'static [&'static str]);
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! visit_scalar {
    ($($name:ident: $type:ty,)*) => {$(
        #[inline]
        fn $name<E: serde::de::Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$name(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>, const L: u8> Visitor<'de> for Adapter<V, L> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    visit_scalar! {
        visit_bool: bool, visit_i8: i8, visit_i16: i16, visit_i32: i32, visit_i64: i64, visit_i128: i128,
        visit_u8: u8, visit_u16: u16, visit_u32: u32, visit_u64: u64, visit_u128: u128,
        visit_f32: f32, visit_f64: f64, visit_char: char,
        visit_str: &str, visit_borrowed_str: &'de str, visit_string: String,
        visit_bytes: &[u8], visit_borrowed_bytes: &'de [u8], visit_byte_buf: Vec<u8>,
    }

    #[inline]
    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    #[inline]
    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    #[inline]
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Adapter::<D, L>(deserializer))
    }

    #[inline]
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Adapter::<D, L>(deserializer))
    }

    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Adapter::<A, INNER>(seq))
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Map::<A, L> {
            map,
            in_metadata: false,
        })
    }

    #[inline]
    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(Adapter::<A, INNER>(data))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Adapter<A, INNER> {
    type Error = A::Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        self.0.next_element_seed(Adapter::<T, INNER>(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(1)
    }
}

impl<'de, T: DeserializeSeed<'de>, const L: u8> DeserializeSeed<'de> for Adapter<T, L> {
    type Value = T::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T::Value, D::Error> {
        self.0.deserialize(Adapter::<D, L>(deserializer))
    }
}

/// A map at level `L`.
struct Map<A, const L: u8> {
    map: A,
    // The key read last is `metadata` of the object.
    in_metadata: bool,
}

impl<'de, A: MapAccess<'de>, const L: u8> MapAccess<'de> for Map<A, L> {
    type Error = A::Error;

    #[inline]
    fn next_key_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        if L == INNER {
            return self.map.next_key_seed(seed);
        }
        while let Some(Key(key)) = self.map.next_key()? {
            if L == METADATA && key == "managedFields" {
                self.map.next_value::<IgnoredAny>()?;
                continue;
            }
            self.in_metadata = L == OBJECT && key == "metadata";
            return match key {
                Cow::Borrowed(key) => seed.deserialize(BorrowedStrDeserializer::new(key)),
                Cow::Owned(key) => {
                    let owned: StringDeserializer<A::Error> = key.into_deserializer();
                    seed.deserialize(owned)
                }
            }
            .map(Some);
        }
        Ok(None)
    }

    #[inline]
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        if L == OBJECT && self.in_metadata {
            self.map.next_value_seed(Adapter::<T, METADATA>(seed))
        } else {
            self.map.next_value_seed(Adapter::<T, INNER>(seed))
        }
    }

    fn size_hint(&self) -> Option<usize> {
        self.map.size_hint()
    }
}

/// A map key, borrowed where the input has it without escapes.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field name")
            }

            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(key))
            }

            fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(key.to_owned()))
            }

            fn visit_string<E>(self, key: String) -> Result<Self::Value, E> {
                Ok(Cow::Owned(key))
            }
        }

        deserializer.deserialize_str(KeyVisitor).map(Key)
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Adapter<A, INNER> {
    type Error = A::Error;
    type Variant = Adapter<A::Variant, INNER>;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self::Variant), A::Error> {
        let (value, variant) = self.0.variant_seed(seed)?;
        Ok((value, Adapter(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Adapter<A, INNER> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, A::Error> {
        self.0.newtype_variant_seed(Adapter::<T, INNER>(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(len, Adapter::<V, INNER>(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, Adapter::<V, INNER>(visitor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::Pod;
    use kube::core::DynamicObject;
    use serde_json::json;

    fn deployment() -> serde_json::Value {
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1",
                "managedFields": [{"manager": "m", "operation": "Update", "fieldsV1": {"f:x": {}}}],
                "labels": {"managedFields": "kept", "metadata": "kept"}
            },
            "spec": {
                "selector": {},
                "template": {
                    "metadata": {"managedFields": [{"manager": "inner"}], "labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 1}], "resources": {"limits": {"cpu": "1"}}}]}
                }
            }
        })
    }

    #[test]
    fn lean_equals_decode_then_drop_managed_fields() {
        let text = deployment().to_string();
        let mut expected: Deployment = serde_json::from_str(&text).unwrap();
        expected.metadata.managed_fields = None;
        let Lean(decoded) = serde_json::from_str::<Lean<Deployment>>(&text).unwrap();
        assert_eq!(decoded, expected);
        // only the object's own: a template's stay
        assert!(decoded.spec.template.metadata.unwrap().managed_fields.is_some());
        let mut expected: DynamicObject = serde_json::from_str(&text).unwrap();
        expected.metadata.managed_fields = None;
        assert_eq!(serde_json::from_str::<Lean<DynamicObject>>(&text).unwrap().0, expected);
    }

    #[test]
    fn full_keeps_managed_fields() {
        let text = deployment().to_string();
        let expected: Deployment = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::from_str::<Full<Deployment>>(&text).unwrap().0, expected);
    }

    #[test]
    fn lean_reads_escaped_keys() {
        let text = r#"{"\u006detadata": {"n\u0061me": "x", "managed\u0046ields": [1, 2], "labels": {"a\n": "b"}}}"#;
        let Lean(pod) = serde_json::from_str::<Lean<Pod>>(text).unwrap();
        assert_eq!(pod.metadata.name.as_deref(), Some("x"));
        assert_eq!(pod.metadata.labels.unwrap()["a\n"], "b");
        assert_eq!(pod.metadata.managed_fields, None);
    }

    #[test]
    fn small_vectors_take_room_for_what_they_hold() {
        let text = deployment().to_string();
        let Lean(decoded) = serde_json::from_str::<Lean<Deployment>>(&text).unwrap();
        let container = &decoded.spec.template.spec.unwrap().containers[0];
        assert_eq!(container.ports.as_ref().unwrap().capacity(), 1);
    }
}
