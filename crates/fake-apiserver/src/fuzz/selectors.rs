//! Selectors of labels and fields.

use super::{Target, parts, resources};
use crate::gotext;
use crate::object::StringMap;
use crate::selector::{FieldSelector, LabelSelector};

/// A label selector, a field selector, and labels.
pub(super) const TARGET: Target = Target {
    name: "selectors",
    run,
    seeds: &[
        "a=b,c!=d,e in (f,g),h notin (,i),!j,k,l>5,m<-1\nmetadata.name=a,spec.nodeName!=b\na=b",
        "x.io/a==b , in in ( in,,) , notin notin ()\n=,a==b\\,c\\=\\\\,status.phase!=Running\nx.io/a=b",
        "a=,b\u{0}c\nmetadata.namespace=\\x\n",
    ],
    words: &[
        "=",
        "==",
        "!=",
        "!",
        "in",
        "notin",
        "(",
        ")",
        ",",
        "<",
        ">",
        "\\",
        "\u{0}",
        " ",
        "/",
        ".",
        "metadata.name",
    ],
};

fn run(data: &[u8]) {
    let Some([labels, fields, of_object]) = parts(data) else {
        return;
    };
    let mut map = StringMap::default();
    for pair in String::from_utf8_lossy(of_object).split(',') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        map.insert(key, value);
    }
    let labels = gotext::decode(labels.to_vec());
    if let Ok(selector) = LabelSelector::parse(&labels) {
        let text = selector.to_text();
        let again = LabelSelector::parse(&text).unwrap_or_else(|error| panic!("{text:?} of {labels:?}: {error}"));
        assert_eq!(again, selector, "{text:?}");
        let label = |key: &str| map.get(key).map(std::borrow::Cow::Borrowed);
        assert_eq!(again.matches(label), selector.matches(label));
    }
    let fields = gotext::decode(fields.to_vec());
    if let Ok(selector) = FieldSelector::parse(&fields) {
        let text = selector.to_text();
        // A character that stands for a byte stands for itself once it was shown.
        if gotext::shown(&text) != text {
            return;
        }
        let again = FieldSelector::parse(&text).unwrap_or_else(|error| panic!("{text:?} of {fields:?}: {error}"));
        assert_eq!(again.to_text(), text, "{fields:?}");
        // Whether there are such fields is said for each resource.
        let _ = selector.of_resource(resources::built_in("pods"));
    }
}
