//! Reads many objects: which revision a list shows, and its pages.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use serde::Serialize;

use super::Context;
use super::options::{ListOptions, Match, Version};
use crate::answer::Answer;
use crate::gotext;
use crate::json::{Kind, Tape, Value};
use crate::negotiate::Shape;
use crate::status::Status;
use crate::storage::{ListQuery, Page, Range, ReadError, Revision};
use crate::stored::{Selection, Stored, key_of};
use crate::view::List;

/// `GET` of a collection.
///
/// # Errors
/// 400, 406, 410 for an expired revision or token, 422 for options that exclude each other, 504 for a revision in
/// the future.
pub(super) async fn list(context: Context<'_>) -> Result<Answer, Status> {
    let view = context.view(Shape::List)?;
    let options = ListOptions::parse(&context.request.query, context.resource, false)?;
    let page = read_page(context, &options).await?;
    Ok(Answer::json(200, view.get()?.list(page)))
}

/// Reads what the options ask for.
pub(super) async fn read_page(context: Context<'_>, options: &ListOptions) -> Result<List, Status> {
    let range = narrowed(context, &options.selection);
    if let Some(raw) = &options.continue_token {
        return continue_page(context, options, raw, range).await;
    }
    let (at, limit) = match (options.version, options.version_match) {
        (Version::Unset, _) => {
            context.catch_up().await;
            (At::Seen(Revision::MAX), options.limit)
        }
        (Version::Any, _) => (At::Seen(context.seen()), limit_of_any(context, options)),
        (Version::At(rv), Match::Exact) => (At::Exactly(rv), options.limit),
        // A page is of one version; what has one object at most is no page.
        (Version::At(rv), Match::Unset) if options.limit > 0 && !matches!(range, Range::Key(_)) => {
            (At::Exactly(rv), options.limit)
        }
        (Version::At(rv), _) => {
            context.wait_for_revision(rv).await?;
            (At::Seen(context.seen()), options.limit)
        }
    };
    if let At::Exactly(rv) = at {
        context.wait_for_revision(rv).await?;
    }
    let page = read(context, options, &range, None, at, limit).map_err(|error| match error {
        ReadError::Compacted { .. } => Status::expired("The resourceVersion for the provided list is too old."),
        ReadError::Future { current } => Status::too_large_resource_version(at.revision(), current),
    })?;
    Ok(finish(page, options, &prefix(context)))
}

async fn continue_page(context: Context<'_>, options: &ListOptions, raw: &str, range: Range) -> Result<List, Status> {
    let limit = match options.version {
        Version::Unset => options.limit,
        Version::Any => limit_of_any(context, options),
        Version::At(_) => {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
    };
    let token = Token::decode(raw)?;
    let (start, bound) = token.first_key();
    let start = format!("{}{start}", prefix(context));
    let at = if token.rv > 0 {
        let rv = token.rv.unsigned_abs();
        context.wait_for_revision(rv).await?;
        At::Exactly(rv)
    } else {
        context.catch_up().await;
        At::Seen(Revision::MAX)
    };
    let page = read(context, options, &range, Some((&start, bound)), at, limit).map_err(|error| match error {
        ReadError::Compacted { .. } => expired_token(&token),
        ReadError::Future { current } => Status::too_large_resource_version(at.revision(), current),
    })?;
    Ok(finish(page, options, &prefix(context)))
}

/// The limit of a list of any version: the cache of a real server, which such a list is read from, ignores it.
fn limit_of_any(context: Context<'_>, options: &ListOptions) -> usize {
    if context.is_cached() { 0 } else { options.limit }
}

/// Which state a page shows.
#[derive(Clone, Copy, Debug)]
enum At {
    /// The one of a revision.
    Exactly(Revision),
    /// The one of a server that has got to a revision, or to the newest.
    Seen(Revision),
}

impl At {
    fn revision(self) -> Revision {
        match self {
            Self::Exactly(rv) | Self::Seen(rv) => rv,
        }
    }
}

fn read(
    context: Context<'_>,
    options: &ListOptions,
    range: &Range,
    start: Option<(&str, Bound)>,
    at: At,
    limit: usize,
) -> Result<Page<Stored>, ReadError> {
    let limit = match context.server.options.max_page {
        Some(max) if limit > 0 => limit.min(max),
        _ => limit,
    };
    let (after, from) = match start {
        Some((key, Bound::After)) => (Some(key), ""),
        Some((key, Bound::From)) => (None, key),
        None => (None, ""),
    };
    let filter = |key: &str, stored: &Stored| key >= from && options.selection.matches(key, stored);
    let everything = |_: &str, _: &Stored| true;
    let filter: &dyn Fn(&str, &Stored) -> bool = if options.selection.is_everything() && from.is_empty() {
        &everything
    } else {
        &filter
    };
    let storage = &context.server.storage;
    let query = ListQuery {
        range: range.clone(),
        after,
        at: match at {
            At::Exactly(rv) => Some(rv),
            At::Seen(_) => None,
        },
        limit,
        filter,
    };
    match at {
        At::Seen(seen) if seen != Revision::MAX => Ok(storage.snapshot_seen(context.id, &query, seen).0),
        At::Seen(_) | At::Exactly(_) => storage.list(context.id, &query),
    }
}

fn finish(page: Page<Stored>, options: &ListOptions, prefix: &str) -> List {
    let last = page.items.last().filter(|_| page.more);
    let token = last.map(|(key, _)| {
        let start = format!("/{}\0", key.strip_prefix(prefix).unwrap_or(key));
        Token {
            v: TOKEN_VERSION.to_owned(),
            rv: i64::try_from(page.rv).unwrap_or(i64::MAX),
            start,
        }
        .encode()
    });
    // With a selector the server cannot know how many of the remaining keys match.
    let remaining = token
        .as_ref()
        .filter(|_| options.selection.is_everything())
        .map(|_| page.remaining);
    List {
        items: page.items,
        rv: page.rv,
        continue_token: token,
        remaining,
    }
}

/// What all keys of the path begin with; tokens leave it out.
fn prefix(context: Context<'_>) -> String {
    context
        .namespace()
        .map(|namespace| format!("{namespace}/"))
        .unwrap_or_default()
}

/// The range of the path, or one key if the selector names the object.
pub(super) fn narrowed(context: Context<'_>, selection: &Selection) -> Range {
    let Some(name) = selection.fields.requires_exact("metadata.name") else {
        return context.range();
    };
    let namespace = context
        .namespace()
        .or_else(|| selection.fields.requires_exact("metadata.namespace"));
    match (context.resource.namespaced(), namespace) {
        (true, None) => Range::All,
        (true, Some(namespace)) => Range::Key(key_of(Some(namespace), name)),
        (false, _) => Range::Key(name.to_owned()),
    }
}

/// Unpadded base64url which, like Go's, does not mind what the last bits say.
const BASE64: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

const TOKEN_VERSION: &str = "meta.k8s.io/v1";

/// Where Go's decoder stops in a text that is not unpadded base64url.
fn first_bad_byte(raw: &[u8]) -> usize {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte) || is_line_end(byte);
    raw.iter()
        .position(|byte| !good(*byte))
        .unwrap_or_else(|| raw.len().saturating_sub(1))
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// A continue token.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Token {
    v: String,
    /// The revision of all pages; -1 or less for a list that continues at the latest one.
    rv: i64,
    start: String,
}

impl Token {
    /// Reads the token of a request.
    ///
    /// # Errors
    /// 400 for what no server has made.
    pub(crate) fn decode(raw: &str) -> Result<Self, Status> {
        let bad = |why: &str| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let raw = gotext::bytes(raw);
        // Line ends do not count.
        let digits: Vec<u8> = raw.iter().copied().filter(|byte| !is_line_end(*byte)).collect();
        let bytes = BASE64
            .decode(&digits)
            .map_err(|_| bad(&format!("illegal base64 data at input byte {}", first_bad_byte(&raw))))?;
        let tape = Tape::parse(&bytes).map_err(|error| bad(&error.to_string()))?;
        let token = Self::read(tape.root()).map_err(|why| bad(&why))?;
        if token.v != TOKEN_VERSION {
            return Err(bad(&format!(
                "server does not recognize this encoded version {}",
                token.v
            )));
        }
        if token.rv == 0 {
            return Err(bad("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
        }
        if token.start.is_empty() {
            return Err(bad("encoded start key empty (version meta.k8s.io/v1)"));
        }
        // A start that is no clean path could leave the range of the list.
        let start = token.start.strip_prefix('/').unwrap_or(&token.start);
        if start.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(bad(&token.start));
        }
        Ok(token)
    }

    /// Reads a token as Go's decoder does: names in any case, nulls as nothing, and the first value of a wrong type at the
    /// end.
    fn read(root: Value<'_>) -> Result<Self, String> {
        let mut token = Self::default();
        let mut wrong = None;
        if !matches!(root.kind(), Kind::Object | Kind::Null) {
            let kind = root.kind().go_name();
            return Err(format!(
                "json: cannot unmarshal {kind} into Go value of type storage.continueToken"
            ));
        }
        for (key, value) in root.entries().filter(|(_, value)| !value.is_null()) {
            let name = key.as_str().unwrap_or_default();
            let text = value.as_str();
            let number = value.as_number();
            let (name, go) = match &*name.to_ascii_lowercase() {
                "v" => ("v", "string"),
                "rv" => ("rv", "int64"),
                "start" => ("start", "string"),
                _ => continue,
            };
            match (name, text, number.and_then(|digits| digits.parse().ok())) {
                ("v", Some(text), _) => token.v = text.into_owned(),
                ("start", Some(text), _) => token.start = text.into_owned(),
                ("rv", _, Some(rv)) => token.rv = rv,
                _ => {
                    let digits = number.filter(|_| go == "int64").map(|digits| format!(" {digits}"));
                    let what = format!("{}{}", value.kind().go_name(), digits.unwrap_or_default());
                    wrong.get_or_insert(format!(
                        "json: cannot unmarshal {what} into Go struct field continueToken.{name} of type {go}"
                    ));
                }
            }
        }
        wrong.map_or(Ok(token), Err)
    }

    /// The text of a token with this JSON.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn text_of(json: &[u8]) -> String {
        BASE64.encode(json)
    }

    pub(crate) fn encode(&self) -> String {
        // Texts and numbers always become JSON.
        BASE64.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Where the page begins. The tokens of a server name the first possible key after the last one of a page.
    fn first_key(&self) -> (&str, Bound) {
        let start = self.start.strip_prefix('/').unwrap_or(&self.start);
        match start.strip_suffix('\0') {
            Some(last) => (last, Bound::After),
            None => (start, Bound::From),
        }
    }
}

/// Whether a page has the key that it begins at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    After,
    From,
}

/// 410 for a token whose revision is gone, with a token that goes on at the latest revision.
fn expired_token(token: &Token) -> Status {
    const TEXT: &str = "The provided continue parameter is too old to display a consistent list result. You can start \
                        a new list without the continue parameter, or use the continue token in this response to \
                        retrieve the remainder of the results. Continuing with the provided token results in an \
                        inconsistent list - objects that were created, modified, or deleted between the time the first \
                        chunk was returned and now may show up in the list.";
    let fresh = Token {
        v: token.v.clone(),
        rv: -1,
        start: token.start.clone(),
    };
    Status::expired(TEXT).continue_token(fresh.encode())
}
