//! Small grammars: quantities, times, media types, the paths of columns.

use super::{Target, parts};
use crate::codec::{ContentType, canonical_quantity, time};
use crate::json::Tape;
use crate::negotiate::{Shape, check_stream, representation};
use crate::table::first_at_path;

/// A quantity, a time, a header, and the path of a column.
pub(super) const TARGET: Target = Target {
    name: "texts",
    run,
    seeds: &[
        "1500m\n2024-02-29T23:59:59.123456+01:00\napplication/json;as=Table;v=v1;g=meta.k8s.io,*/*;q=0.5\n.status.conditions[?(@.type==\"Ready\")].status",
        "-1.5Gi\n0001-01-01T00:00:00Z\napplication/json; charset=\"utf-8\"; a=\\\"\n{.spec.a[0:2:1]['b','c'][*]..d[-1]}",
        "1e-3\n9999-12-31T23:59:59.999999Z\napplication/apply-patch+yaml;\n.a[?(@.b<=1e3)][?(@.c)]",
        "+.5E6\n2024-13-01T00:00:60Z\n,;=\n.a\\.b",
    ],
    words: &[
        "n",
        "u",
        "m",
        "k",
        "Ki",
        "Mi",
        "Gi",
        "Ti",
        "Pi",
        "Ei",
        "E",
        "e-9",
        "e9999999999",
        ".",
        "-",
        "+",
        "T",
        "Z",
        ":",
        "application/json",
        ";as=Table",
        ";v=v1",
        ";g=meta.k8s.io",
        ";q=",
        ",",
        "[?(@",
        "==",
        ")]",
        "[*]",
        "..",
        "[",
        "]",
        "'",
        "\"",
    ],
};

fn run(data: &[u8]) {
    let Some([quantity, time, header, path]) = parts(data) else {
        return;
    };
    let text = String::from_utf8_lossy;
    quantities(&text(quantity));
    times(&text(time));
    let header = text(header);
    let _ = ContentType::from_header(Some(&header));
    for shape in [Shape::Object, Shape::List, Shape::Watch] {
        for custom in [false, true] {
            let _ = (
                representation(&header, shape, custom, true, true),
                check_stream(&header, custom),
            );
        }
    }
    let object =
        serde_json::json!({"spec": {"a": [{"b": 1, "c": "x"}, {"b": null}]}, "a": [[1, 2], {"d": {"d": 1.5}}]});
    let _ = first_at_path(&object, &text(path));
}

/// A canonical quantity is one.
fn quantities(text: &str) {
    if let Ok(once) = canonical_quantity(text) {
        assert_eq!(canonical_quantity(&once).as_deref(), Ok(&*once), "{text:?}");
    }
}

/// A time that is written reads back as itself, without what is not written.
fn times(text: &str) {
    type Parse = fn(&str) -> Result<jiff::Timestamp, String>;
    type Write = fn(&mut Vec<u8>, jiff::Timestamp);
    let forms: [(Parse, Write); 2] = [(time::parse, time::write), (time::parse_micro, time::write_micro)];
    for (parse, write) in forms {
        let Ok(parsed) = parse(text) else { continue };
        let mut written = Vec::new();
        write(&mut written, parsed);
        let tape = Tape::parse(&written).expect("a time is JSON");
        let Some(again) = tape.root().as_str() else { continue };
        let again = parse(&again).unwrap_or_else(|error| panic!("{text:?} as {again:?}: {error}"));
        let mut twice = Vec::new();
        write(&mut twice, again);
        assert_eq!(twice, written, "{text:?}");
    }
}
