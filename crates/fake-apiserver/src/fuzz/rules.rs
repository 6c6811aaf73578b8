//! Rules and patterns of schemas.

use super::{Target, parts, resources};
use crate::codec::{ContentType, FieldValidation, decode};
use crate::schemas::{Rule, ValueSchema, compile_pattern, compile_rule, validate};
use crate::validation::Written;

/// A rule, a pattern, and a text.
pub(super) const TARGET: Target = Target {
    name: "rules",
    run,
    seeds: &[
        "self.n > 0 && self.l.all(x, x.startsWith('a')) || has(self.s)\n^[a-z]([-a-z0-9]*[a-z0-9])?$\nabc",
        "self.s.matches('^a+$') ? self.m['a'] == 1 : size(self.l) in [1, 2]\n(a|b)*c{2,3}\\d\\Q.\\E[^]&&[:alpha:]]\nabcc1.",
        "self.l.filter(x, x != '').map(x, x + 'b').exists_one(x, x == quantity('1').asInteger())\n\\pL\\x{61}(?i)a\\bz*?\n",
        "oldSelf.n <= self.n && duration('1h') > duration('1m') && timestamp('2024-01-01T00:00:00Z').getFullYear() == 2024\n[\n",
        "self.d.exists(k, self.d[k] / self.n % 0 == -9223372036854775808)\n(?P<x>a){1000}{1000}\n",
    ],
    words: &[
        "self",
        "oldSelf",
        ".n",
        ".s",
        ".l",
        ".m",
        ".all(x, ",
        ".exists(x, ",
        ".map(x, ",
        ".filter(x, ",
        "has(",
        "size(",
        "matches(",
        "quantity(",
        "duration(",
        "timestamp(",
        "ip(",
        "cidr(",
        "url(",
        "semver(",
        ".find(",
        ".replace(",
        ".split(",
        ".join(",
        ".substring(",
        "9223372036854775807",
        "-9223372036854775808",
        "1u",
        "1.0e308",
        "b'\\xff'",
        "?",
        ":",
        "[",
        "]",
        "{",
        "}",
        "(",
        ")",
        "'",
        "\"\"\"",
        "&&",
        "||",
        "!",
        "-",
        "%",
        "/ 0",
        " in ",
        "optional.of(",
        "{1000}",
        "\\Q",
        "\\E",
        "[:alpha:]",
        "(?i)",
        "(?P<a>",
        "*?",
        "\\pL",
        "\\C",
        "\\z",
        "|",
    ],
};

const PROPERTIES: &str = r#""n":{"type":"integer"},"s":{"type":"string"},"l":{"type":"array","items":{"type":"string"}},"m":{"type":"object","additionalProperties":{"type":"integer"}},"d":{"type":"object","additionalProperties":{"type":"number"}}"#;

fn run(data: &[u8]) {
    let Some([rule, pattern, text]) = parts(data) else {
        return;
    };
    let (Ok(rule), Ok(pattern)) = (std::str::from_utf8(rule), std::str::from_utf8(pattern)) else {
        return;
    };
    if let Ok(pattern) = compile_pattern(pattern) {
        let _ = pattern.is_match(&String::from_utf8_lossy(text));
    }
    rules(rule, text);
}

/// A rule that can be made ready gives an answer about any object.
fn rules(rule: &str, text: &[u8]) {
    let schema = format!(r#"{{"type":"object","properties":{{{PROPERTIES}}}}}"#);
    let schema = ValueSchema::parse(schema.as_bytes()).expect("a schema");
    let wanted = Rule {
        rule: rule.to_owned(),
        ..Rule::default()
    };
    if compile_rule(&wanted, &schema, false).is_err() {
        return;
    }
    let quoted = serde_json::Value::from(rule).to_string();
    let schema = format!(
        r#"{{"type":"object","properties":{{"spec":{{"type":"object","properties":{{{PROPERTIES}}},"x-kubernetes-validations":[{{"rule":{quoted}}}]}}}}}}"#
    );
    let resource = resources::custom(schema.as_bytes()).expect("a schema");
    let text = serde_json::Value::from(String::from_utf8_lossy(text)).to_string();
    let body = format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Widget","spec":{{"n":7,"s":{text},"l":["a",{text}],"m":{{"a":1,"b":-1}},"d":{{"x":0.5}}}}}}"#
    );
    let decoded = decode(&resource, ContentType::Json, body.as_bytes(), FieldValidation::Ignore);
    let object = decoded.expect("an object").object;
    let findings = |old| {
        let written = Written {
            new: &object,
            old,
            of_status: false,
        };
        let found = validate(&resource, &written, Vec::new());
        found.into_iter().map(|error| error.message).collect::<Vec<_>>()
    };
    assert_eq!(findings(None), findings(None), "the same object, the same answer");
    let _ = findings(Some(&object));
}
