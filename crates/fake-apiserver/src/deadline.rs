//! The time that a client gives a request: `timeout=5s`. It is checked before anything else is looked at, and not kept:
//! no answer takes long here.

use crate::gotext::time_quote;
use crate::request::{Request, Verb};
use crate::status::Status;

/// Units of a duration, in nanoseconds.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Refuses a request with a time that is none. Those that last as long as the client wants have no such time.
///
/// # Errors
/// 400, whatever form the client accepts.
pub(crate) fn check(request: &Request) -> Result<(), Status> {
    let subresource = request.path.as_ref().and_then(|path| path.subresource.as_deref());
    let lasts =
        request.verb == Verb::Watch || matches!(subresource, Some("attach" | "exec" | "proxy" | "log" | "portforward"));
    let Some(text) = request.query.non_empty("timeout").filter(|_| !lasts) else {
        return Ok(());
    };
    let Err(why) = check_duration(text) else {
        return Ok(());
    };
    Err(Status::bad_request(format!(
        "invalid timeout specified in the request URL - time: {why}"
    )))
}

/// Checks a text as Go's `time.ParseDuration` reads it.
fn check_duration(text: &str) -> Result<(), String> {
    let invalid = || format!("invalid duration {}", time_quote(text));
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let end = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if unit.is_empty() {
            return Err(format!("missing unit in duration {}", time_quote(text)));
        }
        let Some((_, nanos)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!(
                "unknown unit {} in duration {}",
                time_quote(unit),
                time_quote(text)
            ));
        };
        let value = if whole.is_empty() { Ok(0) } else { whole.parse::<u64>() };
        // A fraction only counts where the sum is at its very end.
        let value = value.ok().and_then(|value| value.checked_mul(*nanos));
        total = value.and_then(|value| total.checked_add(value)).ok_or_else(invalid)?;
        rest = after;
    }
    let most = i64::MAX.unsigned_abs() + u64::from(negative);
    if total > most { Err(invalid()) } else { Ok(()) }
}

/// Splits the digits off that a text begins with.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::check_duration;

    // What `time.ParseDuration` of Go says of each.
    #[test]
    fn durations_are_go_s() {
        for good in [
            "0",
            "+0",
            "5s",
            "-1.5h",
            "1h2m3.4s",
            ".5s",
            "1.s",
            "3µs",
            "3μs",
            "100ns",
            "2562047h47m16s",
        ] {
            assert_eq!(check_duration(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("", r#"invalid duration """#),
            ("5", r#"missing unit in duration "5""#),
            ("s", r#"invalid duration "s""#),
            (".s", r#"invalid duration ".s""#),
            ("-", r#"invalid duration "-""#),
            ("5 s", r#"unknown unit " s" in duration "5 s""#),
            ("5x1", r#"unknown unit "x" in duration "5x1""#),
            ("5é", r#"unknown unit "\xc3\xa9" in duration "5\xc3\xa9""#),
            ("1s5", r#"missing unit in duration "1s5""#),
            ("3000000h", r#"invalid duration "3000000h""#),
            ("99999999999999999999s", r#"invalid duration "99999999999999999999s""#),
        ] {
            assert_eq!(check_duration(bad), Err(why.to_owned()), "{bad}");
        }
    }
}
