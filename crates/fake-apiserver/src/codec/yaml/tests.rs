//! What the real server's library makes of texts. The answers are its own.

use super::to_json;

/// The JSON of a text, or what is wrong with it.
fn read(text: &[u8]) -> String {
    match to_json(text) {
        Ok((json, _)) => String::from_utf8(json).unwrap(),
        Err(why) => why,
    }
}

/// The JSON of a text, and what is wrong with its keys.
fn keys(text: &str) -> (String, String) {
    let (json, findings) = to_json(text.as_bytes()).unwrap();
    (String::from_utf8(json).unwrap(), findings.unwrap_or_default())
}

// [F18] what YAML 1.1 makes of plain scalars, and what tags do
#[test]
fn scalars_are_those_of_yaml_1_1() {
    for (text, json) in [
        (
            "[yes, no, On, y, ~, null, off, N]",
            "[true,false,true,true,null,null,false,false]",
        ),
        (
            "[0x1F, 0b11, 0o17, 017, 08, 1_000, -0, -0b11, +5]",
            "[31,3,15,15,8,1000,0,-3,5]",
        ),
        (
            "[1e3, 1.0, .5, 1e21, 1e-7, 1e400, +.5]",
            r#"[1000,1,0.5,1e+21,1e-7,"1e400",0.5]"#,
        ),
        (
            "[18446744073709551615, -9223372036854775808, 99999999999999999999]",
            "[18446744073709551615,-9223372036854775808,100000000000000000000]",
        ),
        (
            "[12:30:45, 2001-01-01, x, '5', \"6\", '']",
            r#"["12:30:45","2001-01-01","x","5","6",""]"#,
        ),
        (
            "[!!str 5, !!int \"7\", !!float 3, !!binary aGk=, !x y, ! 5, !!timestamp 2001-1-2]",
            r#"["5",7,3,"hi","y","5","2001-1-2"]"#,
        ),
        (
            "%TAG !e! tag:yaml.org,\n%TAG ! tag:yaml.org,2002:timestampe\n---\n[!e!2002:str 5, !<tag:yaml.org,2002:int> \"7\", !d x]",
            r#"["5",7,"x"]"#,
        ),
        ("a: |\n  x\n  y\nb: >-\n  x\n  y\n", r#"{"a":"x\ny\n","b":"x y"}"#),
        (".inf", "json: unsupported value: +Inf"),
        ("a: .nan", "json: unsupported value: NaN"),
        ("!!int x", "yaml: cannot decode !!str `x` as a !!int"),
        ("!!binary x", "yaml: !!binary value contains invalid base64 data"),
        (
            "!!timestamp 2001-13-01",
            "yaml: cannot decode !!str `2001-13-01` as a !!timestamp",
        ),
        (r#""\ud800""#, "yaml: found invalid Unicode character escape code"),
    ] {
        assert_eq!(read(text.as_bytes()), json, "{text}");
    }
}

// [F18] the first document counts, wherever it begins
#[test]
fn the_first_document_is_read() {
    for (text, json) in [
        ("", "null"),
        ("# x\n", "null"),
        ("---\n---\na: b", "null"),
        ("--- a\n...\n[", r#""a""#),
        ("a: b\n---\n[", r#"{"a":"b"}"#),
        (" a: b\n c: d\n", r#"{"a":"b","c":"d"}"#),
        (" a: b\nc: d", r#"{"a":"b"}"#),
        ("{a: b}}", r#"{"a":"b"}"#),
        // Of an empty collection the colon comes too late to make a key of it.
        ("[]: b", "[]"),
        ("{}: b", "{}"),
        ("%YAML 1.1\n---\na: b", r#"{"a":"b"}"#),
        ("%YAML 1.2\n---\na: b", "yaml: found incompatible YAML document"),
        ("%BAD\n---\na: b", "yaml: found unknown directive name"),
        ("\u{feff}a:\tb", r#"{"a":"b"}"#),
    ] {
        assert_eq!(read(text.as_bytes()), json, "{text}");
    }
    assert_eq!(read(b"\xff\xfea\0:\0 \0b\0"), r#"{"a":"b"}"#);
}

// [F18] keys become texts, in their order; which come twice is told
#[test]
fn keys_are_texts() {
    for (text, json) in [
        (
            "1: a\n1.5: b\n1e30: c\ntrue: d\n.inf: e\n1000000.0: f\n0.00001: g",
            r#"{".inf":"e","1":"a","1.5":"b","1e+06":"f","1e+30":"c","1e-05":"g","true":"d"}"#,
        ),
        ("\"k\": v\n? x\n: z", r#"{"k":"v","x":"z"}"#),
        (
            "~: x",
            r#"unsupported map key of type: %!s(<nil>), key: <nil>, value: "x""#,
        ),
        (
            "18446744073709551615: [1.5, x]",
            r#"unsupported map key of type: uint64, key: 0xffffffffffffffff, value: []interface {}{1.5, "x"}"#,
        ),
        ("[a]: b", r#"yaml: invalid map key: []interface {}{"a"}"#),
        (
            "? {a: [1, ~, {}]}\n: b",
            "yaml: invalid map key: map[interface {}]interface {}{\"a\":[]interface {}{1, interface {}(nil), map[interface \
             {}]interface {}{}}}",
        ),
    ] {
        assert_eq!(read(text.as_bytes()), json, "{text}");
    }
    let (json, findings) = keys("a: b\na: c\nd:\n  1: x\n  1: y\n");
    assert_eq!(json, r#"{"a":"c","d":{"1":true}}"#);
    assert_eq!(
        findings,
        "yaml: unmarshal errors:\n  line 2: key \"a\" already set in map\n  line 5: key 1 already set in map"
    );
}

// [F18] anchors and merges
#[test]
fn anchors_are_followed() {
    let (json, findings) = keys("a: &x {b: c}\nd: *x\ne:\n  <<: *x\n  b: z");
    assert_eq!(json, r#"{"a":{"b":"c"},"d":{"b":"c"},"e":{"b":"z"}}"#);
    assert_eq!(
        findings,
        "yaml: unmarshal errors:\n  line 5: key \"b\" already set in map"
    );
    for (text, json) in [
        ("e:\n  <<: [{a: 1, b: 2}, {a: 3, c: 4}]", r#"{"e":{"a":1,"b":2,"c":4}}"#),
        ("<<: x", "yaml: map merge requires map or sequence of maps as the value"),
        ("a: &x [*x]", "yaml: anchor 'x' value contains itself"),
        ("a: *x", "yaml: unknown anchor 'x' referenced"),
    ] {
        assert_eq!(read(text.as_bytes()), json, "{text}");
    }
    let levels = (1..9).map(|level| {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        format!("a{level}: &a{level} [{aliases}]\n")
    });
    let bomb = std::iter::once("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned());
    let bomb: String = bomb.chain(levels).collect();
    assert_eq!(read(bomb.as_bytes()), "yaml: document contains excessive aliasing");
    // Few nodes, but long ones: the real server would write gigabytes.
    let long = format!("a: &a {}\nb: [{}x]", "x".repeat(1 << 20), "*a, ".repeat(4));
    assert_eq!(read(long.as_bytes()), "yaml: document contains excessive aliasing");
}

// [F18] [F25] mistakes in the words of the real parser; depth costs no stack
#[test]
fn mistakes_have_the_real_texts() {
    for (text, why) in [
        ("a:\n\tb: c", "line 2: found character that cannot start any token"),
        ("a: {b: c", "line 1: did not find expected ',' or '}'"),
        ("a: [b", "line 1: did not find expected ',' or ']'"),
        ("a: b: c", "mapping values are not allowed in this context"),
        ("- a\nb", "line 3: could not find expected ':'"),
        ("a\nb: c", "line 2: mapping values are not allowed in this context"),
        ("a: b\n c: d", "line 2: mapping values are not allowed in this context"),
        (r#""\q""#, "found unknown escape character"),
        ("a: @x", "found character that cannot start any token"),
        ("- []: b", "did not find expected '-' indicator"),
        ("a: 1\n[]: b", "line 1: did not find expected key"),
        ("[[]: b]", "invalid map key: []interface {}{}"),
        (
            "%TAG !a! x\n%TAG !a! y\n---\na",
            "line 1: found duplicate %TAG directive",
        ),
        ("\0", "control characters are not allowed"),
    ] {
        assert_eq!(read(text.as_bytes()), format!("yaml: {why}"), "{text}");
    }
    assert_eq!(read(b"a: \xff"), "yaml: invalid leading UTF-8 octet");
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(read(nested(9_000).as_bytes()), nested(9_000));
    assert_eq!(read(nested(10_001).as_bytes()), "yaml: exceeded max depth of 10000");
}

// [F25] tokens in any order are read or refused
#[test]
fn tokens_in_any_order_never_panic() {
    const TOKENS: &[&str] = &[
        "[",
        "]",
        "{",
        "}",
        ":",
        ": ",
        ",",
        "- ",
        "? ",
        "\n",
        "\n  ",
        " ",
        "\t",
        "a",
        "&a ",
        "*a",
        "!!str ",
        "<<",
        "\"",
        "'",
        "|",
        ">",
        "#",
        "%TAG ! x\n",
        "---",
        "...",
        "~",
        "1",
        "\\",
        "\u{85}",
        "\u{2028}",
        "\u{e9}",
    ];
    let seed = 0x5eed_0018;
    println!("seed {seed:#x}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut accepted = 0;
    for _ in 0..10_000 {
        let text: String = (0..random.usize(1..14))
            .map(|_| TOKENS[random.usize(..TOKENS.len())])
            .collect();
        accepted += u32::from(to_json(text.as_bytes()).is_ok());
    }
    assert!((1_000..9_000).contains(&accepted), "{accepted} of these are good");
}
