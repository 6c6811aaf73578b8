//! The query options of list, watch and deletecollection, with the real rules and texts.

use super::list::Token;
use std::sync::Arc;

use crate::gotext::go_quote;
use crate::json::write::quoted;
use crate::kinds::Resource;
use crate::request::Query;
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::{Cause, Status, Subject};
use crate::stored::Selection;

/// `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    Unset,
    Exact,
    NotOlderThan,
}

/// `resourceVersion`: unset, `0` (any state will do) or a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Unset,
    Any,
    At(u64),
}

/// The options, checked.
#[derive(Debug)]
pub(crate) struct ListOptions {
    pub(crate) version: Version,
    pub(crate) version_match: Match,
    /// 0 stands for no limit.
    pub(crate) limit: usize,
    pub(crate) continue_token: Option<String>,
    pub(crate) selection: Selection,
    /// For a watch.
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) allow_bookmarks: bool,
    /// In seconds; negative ends a watch at once.
    pub(crate) timeout: i64,
}

const LIST_OPTIONS: Subject<'static> = Subject {
    group: "meta.k8s.io",
    plural: "listoptions",
    kind: "ListOptions",
};

impl ListOptions {
    /// Reads the options of a list, or of a watch.
    ///
    /// # Errors
    /// 400 for what cannot be read, 422 for what cannot be combined.
    pub(crate) fn parse(query: &Query, resource: &Arc<Resource>, watch: bool) -> Result<Self, Status> {
        Self::read(query, resource, watch)?.settle()
    }

    /// As [`parse`](Self::parse), up to what the storage looks at.
    ///
    /// # Errors
    /// 400 for what cannot be read, 422 for what cannot be combined.
    pub(crate) fn read(query: &Query, resource: &Arc<Resource>, watch: bool) -> Result<Unsettled, Status> {
        let timeout = number(query, "timeoutSeconds")?.unwrap_or_default();
        let limit = number(query, "limit")?.unwrap_or_default();
        let send_initial_events = query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents"));
        let bad = |error: crate::selector::SelectorError| Status::bad_request(error.to_string());
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default()).map_err(bad)?;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default()).map_err(bad)?;
        let raw_version = query.get("resourceVersion").unwrap_or_default();
        let raw_match = query.get("resourceVersionMatch").unwrap_or_default();
        let continue_token = query.non_empty("continue").map(str::to_owned);
        // The old form of a watch is checked as a list, and the deletion of a collection as a watch if it says so.
        let causes = if query.flag("watch") {
            watch_causes(
                raw_version,
                raw_match,
                continue_token.is_some(),
                send_initial_events.is_some(),
            )
        } else {
            list_causes(
                raw_version,
                raw_match,
                continue_token.is_some(),
                send_initial_events.is_some(),
            )
        };
        if !causes.is_empty() {
            return Err(Status::invalid(LIST_OPTIONS, "", causes));
        }
        let fields = fields.of_resource(resource).map_err(bad)?;
        Ok(Unsettled {
            options: Self {
                version: Version::Unset,
                version_match: match raw_match {
                    "Exact" => Match::Exact,
                    "NotOlderThan" => Match::NotOlderThan,
                    _ => Match::Unset,
                },
                limit: usize::try_from(limit).unwrap_or_default(),
                continue_token,
                selection: Selection {
                    labels,
                    custom: (!fields.is_everything() && resource.custom).then(|| Arc::clone(resource)),
                    fields,
                },
                send_initial_events,
                allow_bookmarks: query.flag("allowWatchBookmarks"),
                timeout,
            },
            version: raw_version.to_owned(),
            watch,
        })
    }
}

/// Options that are good together. What they say about versions is for the storage, which is asked later.
#[derive(Debug)]
pub(crate) struct Unsettled {
    options: ListOptions,
    version: String,
    watch: bool,
}

impl Unsettled {
    /// Reads the continue token and the version.
    ///
    /// # Errors
    /// 400, and 500 without a reason for the version of a watch.
    pub(crate) fn settle(self) -> Result<ListOptions, Status> {
        let mut options = self.options;
        if let Some(token) = options.continue_token.as_deref().filter(|_| !self.watch) {
            // What is wrong with a token comes before what is wrong with a version.
            Token::decode(token)?;
            if !matches!(self.version.as_str(), "" | "0") {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
        }
        options.version = parse_version(&self.version).map_err(|text| {
            if self.watch {
                Status::untyped(text)
            } else {
                Status::bad_request(format!("invalid resource version: {text}"))
            }
        })?;
        Ok(options)
    }
}

/// Reads `resourceVersion`.
///
/// # Errors
/// The text about the field.
pub(crate) fn parse_version(raw: &str) -> Result<Version, String> {
    match raw {
        "" => Ok(Version::Unset),
        "0" => Ok(Version::Any),
        raw => match parse_uint(raw) {
            Ok(0) => Ok(Version::Any),
            Ok(rv) => Ok(Version::At(rv)),
            Err(why) => Err(format!("resourceVersion: Invalid value: {}: {why}", go_quote(raw))),
        },
    }
}

/// Reads an unsigned number as Go's `strconv.ParseUint` does.
pub(crate) fn parse_uint(raw: &str) -> Result<u64, String> {
    digits(raw).map_err(|why| format!("strconv.ParseUint: parsing {}: {why}", go_quote(raw)))
}

/// A number of the query; a parameter without a value is none.
///
/// # Errors
/// 400 with the text of Go's `strconv.ParseInt`.
pub(super) fn number(query: &Query, key: &str) -> Result<Option<i64>, Status> {
    query.get(key).map(parse_int).transpose().map_err(Status::bad_request)
}

/// Reads a number as Go's `strconv.ParseInt` does.
fn parse_int(raw: &str) -> Result<i64, String> {
    let (text, is_negative) = match raw.strip_prefix('-') {
        Some(text) => (text, true),
        None => (raw.strip_prefix('+').unwrap_or(raw), false),
    };
    let signed = |value: u64| {
        if is_negative {
            0i64.checked_sub_unsigned(value)
        } else {
            i64::try_from(value).ok()
        }
    };
    let value = digits(text).and_then(|value| signed(value).ok_or(OUT_OF_RANGE));
    value.map_err(|why| format!("strconv.ParseInt: parsing {}: {why}", go_quote(raw)))
}

const OUT_OF_RANGE: &str = "value out of range";

/// What is wrong first counts: a number may be too large before a character comes that is no digit.
fn digits(text: &str) -> Result<u64, &'static str> {
    if text.is_empty() {
        return Err("invalid syntax");
    }
    text.bytes().try_fold(0u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
        let digit = digit.ok_or("invalid syntax")?;
        let value = value.checked_mul(10).and_then(|value| value.checked_add(digit));
        value.ok_or(OUT_OF_RANGE)
    })
}

fn forbidden(field: &str, text: &str) -> Cause {
    Cause::new("FieldValueForbidden", format!("Forbidden: {text}"), field)
}

const MATCH: &str = "resourceVersionMatch";

fn list_causes(version: &str, version_match: &str, continues: bool, initial_events: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    if !version_match.is_empty() {
        if version.is_empty() {
            causes.push(forbidden(
                MATCH,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if continues {
            causes.push(forbidden(
                MATCH,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        if !matches!(version_match, "Exact" | "NotOlderThan") {
            let text = format!(
                "Unsupported value: {}: supported values: \"Exact\", \"NotOlderThan\", \"\"",
                quoted(version_match)
            );
            causes.push(Cause::new("FieldValueNotSupported", text, MATCH));
        }
        if version_match == "Exact" && version == "0" {
            let text = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            causes.push(forbidden(MATCH, text));
        }
    }
    if initial_events {
        causes.push(forbidden(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        ));
    }
    causes
}

fn watch_causes(version: &str, version_match: &str, continues: bool, initial_events: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    // A watch that says nothing of it starts with the initial events, for which the server sets a match.
    let defaulted = version_match.is_empty() && !initial_events && matches!(version, "" | "0");
    if initial_events && version_match != "NotOlderThan" {
        causes.push(forbidden(
            MATCH,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    if !version_match.is_empty() {
        if !initial_events {
            let text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            causes.push(forbidden(MATCH, text));
        }
        if version_match != "NotOlderThan" {
            let text = format!(
                "Unsupported value: {}: supported values: \"NotOlderThan\"",
                quoted(version_match)
            );
            causes.push(Cause::new("FieldValueNotSupported", text, MATCH));
        }
    }
    if continues && (defaulted || !version_match.is_empty()) {
        causes.push(forbidden(
            MATCH,
            "resourceVersionMatch is forbidden when continue is provided",
        ));
    }
    causes
}
