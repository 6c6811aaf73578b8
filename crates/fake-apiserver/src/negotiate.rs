//! Which representation a client accepts: first the router in front of the built-in kinds looks, then the handler.
//!
//! Start at [`representation`].

use crate::gotext::go_quote;
use crate::kinds::Resource;
use crate::status::Status;

/// The form of an object in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Representation {
    /// The object itself.
    Full,
    /// Metadata only: `PartialObjectMetadata` or its list.
    Metadata(MetaVersion),
    /// A table for people.
    Table(MetaVersion, Include),
}

/// What a row of a table shows of its object beside the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    /// Its metadata: what the server shows unless asked for something else.
    Metadata,
    /// All of it.
    Object,
    /// Nothing.
    Nothing,
}

impl Include {
    /// The parameter `includeObject`.
    ///
    /// # Errors
    /// 400 for a value that there is not.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        Ok(match text {
            "" | "Metadata" => Self::Metadata,
            "Object" => Self::Object,
            "None" => Self::Nothing,
            other => {
                return Err(Status::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', \
                     'None', or empty",
                    go_quote(other)
                )));
            }
        })
    }
}

impl Representation {
    pub(crate) fn is_metadata(self) -> bool {
        matches!(self, Self::Metadata(_))
    }

    pub(crate) fn is_table(self) -> bool {
        matches!(self, Self::Table(..))
    }

    /// Tells the forms apart.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Full => 0,
            Self::Metadata(version) => 1 + version as u8,
            Self::Table(version, include) => 3 + version as u8 + 2 * include as u8,
        }
    }
}

/// The version of a form that is made for many kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    V1,
    V1Beta1,
}

impl MetaVersion {
    /// As an object has it.
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A form that can be had.
    Form(Representation),
    /// One object as a list or a list as one object: refused when there is something to show.
    Unfit,
}

impl Wanted {
    fn is_table(self) -> bool {
        matches!(self, Self::Form(form) if form.is_table())
    }
}

/// Where an answer is used: what may be asked for differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One object.
    Object,
    /// A list.
    List,
    /// Watch events.
    Watch,
}

const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// What the router of a collection that can be watched lists besides.
const STREAMS: &str = ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

const PROTOBUF: &str = "vnd.kubernetes.protobuf";

/// One part of an `Accept` header, read as Go's negotiation reads it.
struct Clause<'a> {
    media_type: &'a str,
    subtype: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

/// What a client wants an answer converted to: the parameters `as`, `g` and `v`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    pub(crate) kind: &'a str,
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
}

/// The clauses of a header, the most wanted first. What is malformed is left out.
fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<_> = accept.split(',').filter_map(clause).collect();
    // Stable: of equal ones the first wins. A quality of 0 is the least wanted, not refused.
    let rank = |clause: &Clause<'_>| (clause.media_type == "*", clause.subtype == "*");
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality).then_with(|| rank(a).cmp(&rank(b))));
    clauses
}

fn clause(text: &str) -> Option<Clause<'_>> {
    let mut parts = text.split(';');
    let range = parts.next()?.trim();
    let (media_type, subtype) = match range.split_once('/') {
        Some((media_type, subtype)) if !subtype.is_empty() => (media_type.trim(), subtype.trim()),
        _ if range == "*" => ("*", "*"),
        _ => return None,
    };
    if subtype.contains('/') {
        return None;
    }
    let mut quality = 1.0;
    let mut parameters = Vec::new();
    for part in parts {
        let Some((name, value)) = part.split_once('=').filter(|(_, value)| !value.is_empty()) else {
            continue;
        };
        match name.trim() {
            _ if value.contains('=') => {}
            "q" => quality = value.parse().unwrap_or(0.0),
            name => parameters.push((name, value.trim())),
        }
    }
    Some(Clause {
        media_type,
        subtype,
        parameters,
        quality,
    })
}

impl<'a> Clause<'a> {
    /// Whether the server writes this media type: protobuf of its own kinds only, whatever its texts say.
    fn is_known(&self, custom: bool) -> bool {
        match (self.media_type, self.subtype) {
            ("application", "json" | "yaml" | "*") | ("*", "*") => true,
            ("application", PROTOBUF) => !custom,
            _ => false,
        }
    }

    /// What the answer is to be converted to; one part of it is enough to ask.
    fn target(&self) -> Option<Target<'a>> {
        let mut target = None;
        for (name, value) in &self.parameters {
            let target = match *name {
                "as" | "g" | "v" => target.get_or_insert_with(Target::default),
                _ => continue,
            };
            match *name {
                "as" => target.kind = value,
                "g" => target.group = value,
                _ => target.version = value,
            }
        }
        target
    }

    fn streams(&self) -> Option<&'a str> {
        let stream = self.parameters.iter().find(|(name, _)| *name == "stream");
        stream.map(|(_, value)| *value)
    }
}

/// Picks the first clause of an `Accept` header of which `allows` makes something. An empty header is one clause
/// without a target.
pub(crate) fn negotiate<T>(accept: &str, custom: bool, allows: impl Fn(Option<Target<'_>>) -> Option<T>) -> Option<T> {
    if accept.is_empty() {
        return allows(None);
    }
    clauses(accept)
        .iter()
        .filter(|clause| clause.is_known(custom) && clause.streams().is_none_or(|stream| stream == "watch"))
        // A table has no protobuf form.
        .filter(|clause| clause.subtype != PROTOBUF || clause.target().is_none_or(|target| target.kind != "Table"))
        .find_map(|clause| allows(clause.target()))
}

/// What the router in front of the built-in kinds says before anything else.
///
/// # Errors
/// 406 if it knows no media type of the header; `more` is what it lists besides the usual ones.
pub(crate) fn route(accept: &str, more: &str) -> Result<(), Status> {
    let known = |range: &str| {
        matches!(
            range.split(';').next().unwrap_or_default().trim(),
            "*/*" | "application/json" | "application/vnd.kubernetes.protobuf" | "application/yaml"
        )
    };
    if accept.is_empty() || accept.split(',').any(known) {
        return Ok(());
    }
    Err(unroutable(&format!("{ACCEPTED}{more}")))
}

/// 406 of the router.
pub(crate) fn unroutable(available: &str) -> Status {
    let mut status = Status::new(
        406,
        "NotAcceptable",
        format!("406: Not Acceptable\n\nAvailable representations: {available}"),
    );
    status.details = Some(Box::default());
    status
}

/// 406 of the handler.
pub(crate) fn not_acceptable() -> Status {
    Status::not_acceptable(ACCEPTED)
}

/// Picks the form of an answer about a resource by the `Accept` header.
/// `reads` says that the request is a GET, `tables` that there is a table of what is shown.
///
/// # Errors
/// 406 if none can be had.
pub(crate) fn representation(
    accept: &str,
    shape: Shape,
    custom: bool,
    reads: bool,
    tables: bool,
) -> Result<Wanted, Status> {
    if !custom {
        route(accept, if reads && shape != Shape::Object { STREAMS } else { "" })?;
    }
    negotiate(accept, custom, |target| {
        wanted(target, shape).filter(|wanted| tables || !wanted.is_table())
    })
    .ok_or_else(not_acceptable)
}

/// What a clause asks for, if there is such a form.
fn wanted(target: Option<Target<'_>>, shape: Shape) -> Option<Wanted> {
    let Some(target) = target else {
        return Some(Wanted::Form(Representation::Full));
    };
    let version = match (target.group, target.version) {
        ("meta.k8s.io", "v1") => MetaVersion::V1,
        ("meta.k8s.io", "v1beta1") => MetaVersion::V1Beta1,
        _ => return None,
    };
    match (target.kind, shape) {
        ("Table", _) => Some(Wanted::Form(Representation::Table(version, Include::Metadata))),
        ("PartialObjectMetadata", Shape::Object | Shape::Watch) | ("PartialObjectMetadataList", Shape::List) => {
            Some(Wanted::Form(Representation::Metadata(version)))
        }
        ("PartialObjectMetadata" | "PartialObjectMetadataList", _) => Some(Wanted::Unfit),
        _ => None,
    }
}

/// Checks that the form which [`representation`] picks for a watch can be sent event by event.
///
/// # Errors
/// 406 for YAML.
pub(crate) fn check_stream(accept: &str, custom: bool) -> Result<(), Status> {
    let picked = clauses(accept)
        .into_iter()
        .find(|clause| clause.is_known(custom) && wanted(clause.target(), Shape::Watch).is_some());
    if picked.is_some_and(|clause| clause.subtype == "yaml") {
        return Err(Status::not_acceptable(STREAMS.trim_start_matches(", ")));
    }
    Ok(())
}

/// 406 for one object in the form of a list, or a list in the form of one object. The text names the Go type.
pub(crate) fn unfit(shape: Shape, resource: &Resource) -> Status {
    let (package, kind) = match shape {
        Shape::Object | Shape::Watch if resource.custom => return Status::untyped("content is not a list"),
        _ if resource.custom => ("unstructured", "Unstructured"),
        _ => (resource.go_package(), &*resource.kind),
    };
    let text = match shape {
        Shape::List => {
            format!("you requested PartialObjectMetadata, but the requested object is a list (*{package}.{kind}List)")
        }
        Shape::Object | Shape::Watch => format!(
            "you requested PartialObjectMetadataList, but the requested object is not a list (*{package}.{kind})"
        ),
    };
    Status::new(406, "NotAcceptable", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(accept: &str, shape: Shape) -> Result<Wanted, u16> {
        representation(accept, shape, false, true, true).map_err(|status| status.code)
    }

    #[test]
    fn first_acceptable_form_wins() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        for (accept, shape, expected) in [
            (
                format!("{table},application/json"),
                Shape::List,
                Ok(Wanted::Form(Representation::Table(MetaVersion::V1, Include::Metadata))),
            ),
            (String::new(), Shape::List, Ok(Wanted::Form(Representation::Full))),
            (
                metadata.to_owned(),
                Shape::Object,
                Ok(Wanted::Form(Representation::Metadata(MetaVersion::V1))),
            ),
            // [F4] the form has the version that was asked for
            (
                metadata.replace("v=v1", "v=v1beta1"),
                Shape::Object,
                Ok(Wanted::Form(Representation::Metadata(MetaVersion::V1Beta1))),
            ),
            // [F4] the single form is refused for a list, when it is shown
            (metadata.to_owned(), Shape::List, Ok(Wanted::Unfit)),
            ("text/plain".to_owned(), Shape::Object, Err(406)),
            // The wishes count before the order.
            (
                format!("application/json;q=0.1,{table}"),
                Shape::List,
                Ok(Wanted::Form(Representation::Table(MetaVersion::V1, Include::Metadata))),
            ),
            (
                format!("*/*,{table}"),
                Shape::List,
                Ok(Wanted::Form(Representation::Table(MetaVersion::V1, Include::Metadata))),
            ),
            (
                "application/json;q=0".to_owned(),
                Shape::Object,
                Ok(Wanted::Form(Representation::Full)),
            ),
            // Half a target cannot be had.
            ("application/json;v=v1".to_owned(), Shape::Object, Err(406)),
            (
                "application/json;pretty=1;x".to_owned(),
                Shape::Object,
                Ok(Wanted::Form(Representation::Full)),
            ),
        ] {
            assert_eq!(form(&accept, shape), expected, "{accept} {shape:?}");
        }
    }
}
