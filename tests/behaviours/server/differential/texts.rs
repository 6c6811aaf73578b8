//! What can be odd about the text of a body, beside what it says: forms of JSON, and YAML.

use fastrand::Rng;
use serde_json::Value;

use super::super::noise::pick;
use super::bodies;
use super::probe::{Content, Probe};

/// Writes a body of JSON in another form, which may be a wrong one.
pub(super) fn rewrite(rng: &mut Rng, may_be_yaml: bool, probe: &mut Probe) {
    let Content::Json(value) = &probe.body else { return };
    if may_be_yaml && rng.bool() {
        probe.body = Content::Raw(yaml(rng, value).into_bytes());
        probe.headers.retain(|(name, _)| *name != "content-type");
        probe.headers.push(("content-type", "application/yaml".to_owned()));
    } else {
        probe.body = Content::Raw(json(rng, value));
    }
}

/// Numbers that are good JSON, and some that are not.
const NUMBERS: &[&str] = &[
    "1e3",
    "1.0",
    "-0",
    "1.5",
    "1E+2",
    "0.1e1",
    "1e400",
    "-1e-400",
    "01",
    "+1",
    ".5",
    "5.",
    "0x1",
    "12345678901234567890",
    "9223372036854775808",
    "NaN",
    "-",
    "1e",
    "1_000",
    "-0.0",
    "1e-7",
    "2147483648",
    "123456789012345678901234567890",
];

/// A place in a text before which there is the beginning of an object; in a text that has one.
fn opening(rng: &mut Rng, text: &str) -> Option<usize> {
    let all: Vec<usize> = text.match_indices("{\"").map(|(at, _)| at + 1).collect();
    (!all.is_empty()).then(|| all[rng.usize(..all.len())])
}

/// A place in a text after which there is a letter of no name of a place that a run fills in.
fn letter(rng: &mut Rng, text: &str) -> Option<usize> {
    let mut in_place = false;
    let mut all = Vec::new();
    for (at, c) in text.char_indices() {
        in_place = match c {
            '{' => text[at + 1..].starts_with(|c: char| c.is_ascii_lowercase()),
            '}' => false,
            _ => in_place,
        };
        if c.is_ascii_alphabetic() && !in_place && !text[..at].ends_with('\\') {
            all.push(at);
        }
    }
    (!all.is_empty()).then(|| all[rng.usize(..all.len())])
}

fn json(rng: &mut Rng, value: &Value) -> Vec<u8> {
    let mut text = value.to_string();
    let opening = opening(rng, &text);
    match (rng.u8(..14), opening) {
        (0 | 1, Some(at)) => {
            let key = text[at..].split('"').nth(1).unwrap_or_default().to_owned();
            let odd = pick(rng, &["null", "\"x\"", "{}", "[]", "5", "{\"name\":\"a\"}"]);
            text.insert_str(at, &format!("\"{key}\":{odd},"));
        }
        (2 | 3, _) => {
            let number = pick(rng, NUMBERS);
            let key = pick(rng, &["generation", "deletionGracePeriodSeconds", "nope", "name"]);
            text = text.replacen("\"metadata\":{\"", &format!("\"metadata\":{{\"{key}\":{number},\""), 1);
        }
        (4, Some(at)) => text.insert_str(at, &format!("\"nope\":{},", pick(rng, NUMBERS))),
        (5, _) => {
            if let Some(at) = letter(rng, &text) {
                let code = format!("\\u{:04x}", u32::from(text.as_bytes()[at]));
                text.replace_range(at..=at, &code);
            }
        }
        (6 | 7, _) => {
            if let Some(at) = letter(rng, &text) {
                let odd = [
                    "\\ud800",
                    "\\ud83d\\ude00",
                    "\\u12",
                    "\\x41",
                    "\\/",
                    "\\u0000",
                    "\\b",
                    "\u{1}",
                    "\t",
                    "\u{2028}",
                    "\u{7f}",
                    "\\",
                    "\\ud83d\\u0041",
                    "\u{fffd}",
                    "\u{10fe00}",
                ];
                text.insert_str(at, pick(rng, &odd));
            }
        }
        (8, _) => text = text.replace(',', pick(rng, &[" ,\r\n\t", ",\u{b}", ",,", ", ", ";"])),
        (9, _) => text.insert_str(0, pick(rng, &["\u{feff}", " \n\t", "\u{b}", "// x\n", "\0"])),
        (10, _) => {
            text += pick(
                rng,
                &[" {}", "null", ",", "}", "//x", "\0", "\u{b}", "\n\n", "]", "\u{feff}"],
            );
        }
        (11, _) => {
            if let Some(at) = text.rfind('}') {
                text.insert_str(at, pick(rng, &[",", ",\"x\"", ",\"x\":", "\"x\":1", ":", " "]));
            }
        }
        (12, Some(at)) => text.insert_str(
            at,
            pick(rng, &["/* x */", "'x':1,", "x:1,", "null:1,", "\"\":1,", "1:1,"]),
        ),
        _ => {
            if let Some(at) = letter(rng, &text) {
                let c = text.as_bytes()[at] ^ 0x20;
                text.replace_range(at..=at, &char::from(c).to_string());
            }
        }
    }
    text.into_bytes()
}

/// Values of all kinds that YAML has, and some mistakes.
const SCALARS: &[&str] = &[
    "yes",
    "no",
    "On",
    "y",
    "~",
    "null",
    "",
    "0x1F",
    "0b11",
    "0o17",
    "017",
    "08",
    "1_000",
    "1e3",
    "1.0",
    ".5",
    ".inf",
    "-.inf",
    ".nan",
    "2001-01-01",
    "2001-01-01T00:00:00Z",
    "!!str 5",
    "!!int \"5\"",
    "!!int x",
    "!!float 5",
    "!!binary aGk=",
    "!!binary x",
    "!!null x",
    "!x y",
    "! 5",
    "&a b",
    "*a",
    "*b",
    "|\n        x\n",
    ">-\n        x\n        y\n",
    "'it''s'",
    "'x",
    "\"x",
    "\"\\x41\\u00e9\\N\"",
    "\"\\q\"",
    "a b",
    "a: b",
    "a #b",
    "a#b",
    "[x, y]",
    "{x: y}",
    "[x",
    "{x",
    "x]",
    "@x",
    "`x",
    "%x",
    "- x",
    "? x",
    "<<",
    "18446744073709551615",
    "-9223372036854775808",
    "1e400",
    "12:30:45",
    "x:y",
    "=",
    "\u{e9}",
    "|x\n",
    "!!set {x}",
];

/// Lines that may stand among others.
const LINES: &[&str] = &[
    "<<: {x: y}",
    "<<: [{x: y}, {x: z}]",
    "<<: x",
    "? x\n: y",
    "1: x",
    "1.5: x",
    "~: x",
    "true: x",
    "yes: x",
    "[x]: y",
    "{x: y}: z",
    "x: &a y",
    "x: *a",
    "x: *a\ny: &a z",
    "kind: Pod",
    "\tx: y",
    "x:\ty",
    "x: |\n      y",
    "- x",
    "x:y",
    "x",
    "x: 'y",
    "\"x\" : y",
    "x: {",
    "x: }",
    "x: @",
    "x: - y",
    "? [x, y]",
    "!!str x: y",
    "&k x: y",
    "# x",
    "#",
    "---",
    "...",
    "%x",
    "x: y: z",
    ": x",
    "?",
    "18446744073709551615: x",
    ".inf: x",
    "x: y #z",
    "name: b",
    "\"name\": c",
    "x: &a [*a]",
    "x: !!int y",
];

fn yaml(rng: &mut Rng, value: &Value) -> String {
    let mut text = match rng.u8(..8) {
        0 => value.to_string() + "\n",
        _ => bodies::yaml(value),
    };
    for _ in 0..rng.usize(..3) {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let at = rng.usize(..lines.len().max(1));
        match rng.u8(..12) {
            0 => {
                let by = " ".repeat(rng.usize(1..4));
                for line in &mut lines {
                    line.insert_str(0, &by);
                }
            }
            1 => lines.insert(
                0,
                pick(
                    rng,
                    &[
                        "---",
                        "--- ",
                        "%YAML 1.1\n---",
                        "%YAML 1.2\n---",
                        "%YAML 2.0\n---",
                        "%TAG ! tag:x,1:\n---",
                        "%BAD\n---",
                        "# x",
                        "\u{feff}",
                        "",
                        "...",
                        "--- # x",
                        "---\n---",
                        "--- x",
                        "%YAML 1.1",
                        "\t",
                        " ",
                        "%YAML 1.1\n%YAML 1.1\n---",
                    ],
                )
                .to_owned(),
            ),
            2 => lines.push(
                pick(
                    rng,
                    &[
                        "---\nx: y",
                        "...",
                        "...\nx: [",
                        "# x",
                        "\t",
                        "- x",
                        " x: y",
                        "x: y",
                        "]",
                        "---",
                        "--- [",
                        "x",
                        "  x: y",
                        "\0",
                    ],
                )
                .to_owned(),
            ),
            3 | 4 => lines.iter_mut().for_each(|line| {
                let indent = line.len() - line.trim_start().len();
                if let Some((key, rest)) = line[indent..].strip_prefix('"').and_then(|line| line.split_once("\":")) {
                    *line = format!("{}{key}:{rest}", &line[..indent]);
                }
            }),
            5..=7 => {
                let odd = pick(rng, SCALARS);
                if let Some(line) = lines.get_mut(at)
                    && let Some(end) = line.find(": ")
                {
                    line.replace_range(end + 2.., odd);
                }
            }
            8 | 9 => {
                let line = lines.get(at).map_or("", String::as_str);
                let indent = " ".repeat(line.len() - line.trim_start().len());
                let odd = pick(rng, LINES).replace('\n', &format!("\n{indent}"));
                lines.insert(at, indent + &odd);
            }
            10 => lines.iter_mut().for_each(|line| line.push('\r')),
            _ => {
                if let Some(line) = lines.get_mut(at) {
                    *line = match rng.u8(..3) {
                        0 => line.replacen("  ", "\t", 1),
                        1 => format!(" {line}"),
                        _ => line.trim_start().to_owned(),
                    };
                }
            }
        }
        text = lines.join("\n") + if rng.u8(..8) == 0 { "" } else { "\n" };
    }
    text
}
