//! Which representation a client accepts.

use crate::status::Status;

/// The form of an object in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Representation {
    /// The object itself.
    Full,
    /// Metadata only: `PartialObjectMetadata` or its list.
    Metadata,
    /// A table for people.
    Table,
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

/// Picks the first form of an `Accept` header that can be had.
/// `reads` says that the request is a GET.
///
/// # Errors
/// 406 if none can.
pub(crate) fn representation(
    accept: &str,
    shape: Shape,
    kind: &str,
    custom: bool,
    reads: bool,
) -> Result<Representation, Status> {
    if accept.trim().is_empty() {
        return Ok(Representation::Full);
    }
    if let Some(found) = accept.split(',').find_map(|range| one(range, shape, custom)) {
        return Ok(found);
    }
    let wants = |name: &str| accept.split([';', ',']).any(|part| part.trim() == format!("as={name}"));
    Err(match shape {
        Shape::List if wants("PartialObjectMetadata") => {
            let text = format!("you requested PartialObjectMetadata, but the requested object is a list ({kind}List)");
            Status::new(406, "NotAcceptable", text)
        }
        Shape::Object if wants("PartialObjectMetadataList") => {
            let text =
                format!("you requested PartialObjectMetadataList, but the requested object is not a list ({kind})");
            Status::new(406, "NotAcceptable", text)
        }
        // The router knows the media type; it is the form that cannot be had.
        _ if custom
            || accept
                .split(',')
                .any(|range| routed(range.split(';').next().unwrap_or_default().trim())) =>
        {
            Status::not_acceptable(ACCEPTED)
        }
        _ => {
            let streams = if reads && shape != Shape::Object { STREAMS } else { "" };
            let mut status = Status::new(
                406,
                "NotAcceptable",
                format!("406: Not Acceptable\n\nAvailable representations: {ACCEPTED}{streams}"),
            );
            status.details = Some(Box::default());
            status
        }
    })
}

/// Whether the router in front of the built-in kinds knows a media type.
fn routed(media_type: &str) -> bool {
    matches!(
        media_type,
        "*/*" | "application/json" | "application/vnd.kubernetes.protobuf" | "application/yaml"
    )
}

fn one(range: &str, shape: Shape, custom: bool) -> Option<Representation> {
    let mut parts = range.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default();
    // Answers are JSON; clients that prefer protobuf read the answer's content type and accept JSON too.
    let known = routed(media_type);
    // The router in front of the built-in kinds knows no partial wildcard.
    let wildcard = custom && media_type == "application/*";
    if !(known || wildcard) {
        return None;
    }
    let (mut kind, mut group, mut version, mut quality) = ("", "", "", "1");
    for part in parts {
        match part.split_once('=').unwrap_or((part, "")) {
            ("as", value) => kind = value,
            ("g", value) => group = value,
            ("v", value) => version = value,
            ("q", value) => quality = value,
            _ => {}
        }
    }
    if quality.parse::<f32>().is_ok_and(|quality| quality == 0.0) {
        return None;
    }
    if kind.is_empty() {
        return Some(Representation::Full);
    }
    if group != "meta.k8s.io" || !matches!(version, "v1" | "v1beta1") {
        return None;
    }
    match (kind, shape) {
        ("Table", _) => Some(Representation::Table),
        ("PartialObjectMetadata", Shape::Object | Shape::Watch) | ("PartialObjectMetadataList", Shape::List) => {
            Some(Representation::Metadata)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_acceptable_form_wins() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(
            representation(table, Shape::List, "Pod", false, true),
            Ok(Representation::Table)
        );
        assert_eq!(
            representation("", Shape::List, "Pod", false, true),
            Ok(Representation::Full)
        );
        let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(
            representation(metadata, Shape::Object, "Pod", false, true),
            Ok(Representation::Metadata)
        );
        // [F4] the single form is refused for a list
        assert_eq!(
            representation(metadata, Shape::List, "Pod", false, true).map_err(|status| status.code),
            Err(406)
        );
        assert_eq!(
            representation("text/plain", Shape::Object, "Pod", false, true).map_err(|status| status.code),
            Err(406)
        );
    }
}
