//! One request as data, with places that each run fills in, so that it can be sent again, and sent smaller.

use serde_json::Value;

use super::kinds::KINDS;

/// A request. In its path, query and body, `{ns}` stands for the namespace of the run, `{run}` for a word that cluster
/// objects of the run begin with, `{group}` for the group of the custom kind, and `{uid}` and `{rv}` for those of the
/// object that the path names, as the server that the request goes to has it.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub(super) method: &'static str,
    pub(super) path: String,
    /// `key=value`, escaped.
    pub(super) query: Vec<String>,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Content,
    /// Plural name of the resource that the path is about; empty if about none.
    pub(super) resource: &'static str,
}

/// A body.
#[derive(Clone, Debug)]
pub(super) enum Content {
    None,
    Json(Value),
    Raw(Vec<u8>),
}

impl Content {
    fn parse(text: &str) -> Content {
        if text.is_empty() {
            return Self::None;
        }
        if let Some(size) = text.strip_prefix('@') {
            let data = "a".repeat(size.parse().expect("a number"));
            return Self::Raw(format!(r#"{{"metadata":{{"name":"big"}},"data":{{"k":"{data}"}}}}"#).into_bytes());
        }
        let Some(escaped) = text.strip_prefix('$') else {
            return Self::Raw(text.into());
        };
        let mut bytes = Vec::new();
        let mut rest = escaped.bytes();
        while let Some(byte) = rest.next() {
            if byte != b'\\' {
                bytes.push(byte);
                continue;
            }
            bytes.push(match rest.next().expect("an escape") {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'x' => {
                    let digits = [rest.next().expect("a digit"), rest.next().expect("a digit")];
                    let digits = std::str::from_utf8(&digits).expect("two digits");
                    u8::from_str_radix(digits, 16).expect("two digits")
                }
                other => other,
            });
        }
        Self::Raw(bytes)
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::None => Vec::new(),
            Self::Json(value) => value.to_string().into_bytes(),
            Self::Raw(bytes) => bytes.clone(),
        }
    }
}

/// The headers that a written request may have.
const HEADERS: [&str; 8] = [
    "accept",
    "content-type",
    "content-encoding",
    "accept-encoding",
    "if-match",
    "if-none-match",
    "range",
    "x-http-method-override",
];

impl Probe {
    /// Reads a request that is written as it is shown: method, path with query, headers in brackets, and the body, which
    /// is the rest of the line. Words for bodies that cannot be written so: `$text` has the escapes of a string of Rust,
    /// `@N` stands for a config map with N bytes of data.
    pub(super) fn parse(line: &str) -> Probe {
        let (method, rest) = line.split_once(' ').expect("a method and a path");
        let (uri, mut rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let mut headers = Vec::new();
        while let Some((name, header)) = HEADERS.into_iter().find_map(|name| {
            let header = rest.strip_prefix('[')?.strip_prefix(name)?.strip_prefix(':')?;
            Some((name, header))
        }) {
            let (value, after) = header.split_once(']').expect("the header ends");
            headers.push((name, value.trim_start().to_owned()));
            rest = after.trim_start();
        }
        let methods = [
            "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "FOO",
        ];
        let parts: Vec<&str> = path.split('/').collect();
        let kind = KINDS.iter().find(|kind| {
            let root: Vec<&str> = kind.root.split('/').collect();
            parts[1..].starts_with(&root) && parts.contains(&kind.plural)
        });
        Probe {
            method: methods
                .into_iter()
                .find(|known| *known == method)
                .expect("a method of these"),
            path: path.to_owned(),
            query: query
                .split('&')
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect(),
            headers,
            body: Content::parse(rest),
            resource: kind.map_or("", |kind| kind.plural),
        }
    }

    /// The path and the query.
    pub(super) fn uri(&self) -> String {
        if self.query.is_empty() {
            return self.path.clone();
        }
        format!("{}?{}", self.path, self.query.join("&"))
    }

    /// Whether the answer may be one that does not end by itself.
    pub(super) fn watches(&self) -> bool {
        self.path.contains("/watch/") || self.query.iter().any(|pair| pair.starts_with("watch"))
    }

    pub(super) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(candidate, _)| *candidate == name);
        found.map_or("", |(_, value)| value)
    }

    /// The path of the object, without a subresource.
    pub(super) fn object_path(&self) -> String {
        let plural = format!("/{}/", self.resource);
        match self.path.split_once(&plural) {
            Some((head, tail)) => format!("{head}{plural}{}", tail.split('/').next().unwrap_or_default()),
            None => self.path.clone(),
        }
    }
}

impl std::fmt::Display for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.uri())?;
        for (name, value) in &self.headers {
            write!(f, " [{name}: {value}]")?;
        }
        let body = self.body.bytes();
        if !body.is_empty() {
            let shown = &body[..body.len().min(1_500)];
            let more = if shown.len() < body.len() { " …" } else { "" };
            write!(f, " {}{more}", shown.escape_ascii().to_string().replace("\\\"", "\""))?;
        }
        Ok(())
    }
}

/// Replaces each `{name}`.
pub(super) fn fill(text: &[u8], places: &[(&str, &str)]) -> Vec<u8> {
    let mut filled = Vec::with_capacity(text.len());
    let mut rest = text;
    'text: while !rest.is_empty() {
        if rest[0] == b'{' {
            for (name, value) in places {
                let after = rest[1..].strip_prefix(name.as_bytes());
                if let Some(after) = after.and_then(|after| after.strip_prefix(b"}")) {
                    filled.extend_from_slice(value.as_bytes());
                    rest = after;
                    continue 'text;
                }
            }
        }
        filled.push(rest[0]);
        rest = &rest[1..];
    }
    filled
}
