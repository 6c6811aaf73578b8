//! Times: RFC 3339 in, whole seconds (`Time`) or exactly six digits (`MicroTime`) in UTC out.

use jiff::{Timestamp, civil::DateTime, tz::Offset};

use crate::gotext::time_quote as quote;

/// Layout elements of Go's RFC 3339, as its error texts name them.
const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
/// The same for `MicroTime`, whose fraction is not optional.
const MICRO_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Parses what Go's `time.Parse(time.RFC3339, …)` accepts.
///
/// # Errors
///
/// Go's text.
pub(crate) fn parse(text: &str) -> Result<Timestamp, String> {
    parse_as(text, LAYOUT)
}

/// Parses what a `MicroTime` accepts: exactly six digits of a second.
///
/// # Errors
///
/// Go's text.
pub(crate) fn parse_micro(text: &str) -> Result<Timestamp, String> {
    parse_as(text, MICRO_LAYOUT)
}

fn parse_as(text: &str, layout: &'static str) -> Result<Timestamp, String> {
    parse_layout(text, layout == MICRO_LAYOUT).map_err(|problem| match problem {
        Problem::Element { rest, element } => format!(
            "parsing time {} as \"{layout}\": cannot parse {} as \"{element}\"",
            quote(text),
            quote(rest)
        ),
        Problem::Range(what) => format!("parsing time {}: {what} out of range", quote(text)),
        Problem::Extra(rest) => format!("parsing time {}: extra text: {}", quote(text), quote(rest)),
    })
}

enum Problem<'t> {
    Element { rest: &'t str, element: &'static str },
    Range(&'static str),
    Extra(&'t str),
}

fn number<'t>(rest: &mut &'t str, digits: usize, element: &'static str) -> Result<i32, Problem<'t>> {
    match rest.get(..digits) {
        Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            *rest = &rest[digits..];
            Ok(text
                .bytes()
                .fold(0, |value, digit| value * 10 + i32::from(digit - b'0')))
        }
        _ => Err(Problem::Element { rest, element }),
    }
}

fn separator<'t>(rest: &mut &'t str, separator: &'static str) -> Result<(), Problem<'t>> {
    *rest = rest.strip_prefix(separator).ok_or(Problem::Element {
        rest,
        element: separator,
    })?;
    Ok(())
}

fn parse_layout(text: &str, micro: bool) -> Result<Timestamp, Problem<'_>> {
    let mut rest = text;
    let year = number(&mut rest, 4, "2006")?;
    separator(&mut rest, "-")?;
    let month = number(&mut rest, 2, "01")?;
    if !(1..=12).contains(&month) {
        return Err(Problem::Range("month"));
    }
    separator(&mut rest, "-")?;
    let day = number(&mut rest, 2, "02")?;
    separator(&mut rest, "T")?;
    // Of all parts, this one may have a single digit.
    let one_digit = !rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    let hour = number(&mut rest, if one_digit { 1 } else { 2 }, "15")?;
    if hour > 23 {
        return Err(Problem::Range("hour"));
    }
    separator(&mut rest, ":")?;
    let minute = number(&mut rest, 2, "04")?;
    if minute > 59 {
        return Err(Problem::Range("minute"));
    }
    separator(&mut rest, ":")?;
    let second = number(&mut rest, 2, "05")?;
    if second > 59 {
        return Err(Problem::Range("second"));
    }
    let mut nanos = 0;
    if micro {
        let wrong = Problem::Element {
            rest,
            element: ".000000",
        };
        let fraction = rest.strip_prefix(['.', ',']).ok_or(wrong)?;
        let mut after = fraction;
        nanos = number(&mut after, 6, ".000000").map_err(|_| Problem::Element {
            rest,
            element: ".000000",
        })? * 1000;
        rest = after;
    } else if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            for at in 0..9 {
                let digit = if at < digits { fraction.as_bytes()[at] - b'0' } else { 0 };
                nanos = nanos * 10 + i32::from(digit);
            }
            rest = &fraction[digits..];
        }
    }
    let offset = zone(&mut rest)?;
    if !rest.is_empty() {
        return Err(Problem::Extra(rest));
    }
    let small = |value: i32| i8::try_from(value).unwrap_or(i8::MAX);
    let year = i16::try_from(year).unwrap_or(i16::MAX);
    let civil = DateTime::new(
        year,
        small(month),
        small(day),
        small(hour),
        small(minute),
        small(second),
        nanos,
    )
    .map_err(|_| Problem::Range("day"))?;
    offset.to_timestamp(civil).map_err(|_| Problem::Range("year"))
}

fn zone<'t>(rest: &mut &'t str) -> Result<Offset, Problem<'t>> {
    const ELEMENT: &str = "Z07:00";
    let whole = *rest;
    let wrong = || Problem::Element {
        rest: whole,
        element: ELEMENT,
    };
    if let Some(after) = rest.strip_prefix('Z') {
        *rest = after;
        return Ok(Offset::UTC);
    }
    let sign = match whole.as_bytes().first() {
        Some(b'+') => Some(1),
        Some(b'-') => Some(-1),
        _ => None,
    };
    let mut after = whole.get(1..).ok_or_else(wrong)?;
    // The numbers may be out of range before the rest is found to be wrong.
    if whole.len() < 6 || whole.as_bytes().get(3) != Some(&b':') {
        return Err(wrong());
    }
    let hours = number(&mut after, 2, ELEMENT).map_err(|_| wrong())?;
    let out_of_range = (hours > 24).then_some("time zone offset hour");
    let minutes = separator(&mut after, ":").and_then(|()| number(&mut after, 2, ELEMENT));
    let minutes = minutes.map_err(|_| out_of_range.map_or_else(wrong, Problem::Range))?;
    if minutes > 60 {
        return Err(Problem::Range("time zone offset minute"));
    }
    if let Some(what) = out_of_range {
        return Err(Problem::Range(what));
    }
    let sign = sign.ok_or_else(wrong)?;
    *rest = after;
    Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).map_err(|_| Problem::Range("time zone offset hour"))
}

/// Whether Go calls this time zero, which it writes as `null`.
pub(crate) fn is_zero(time: Timestamp) -> bool {
    time.as_second() == -62_135_596_800 && time.subsec_nanosecond() == 0
}

fn digits(out: &mut Vec<u8>, value: i32, width: u32) {
    for place in (0..width).rev() {
        out.push(b'0' + u8::try_from(value / 10_i32.pow(place) % 10).unwrap_or(0));
    }
}

fn date_and_time(out: &mut Vec<u8>, time: DateTime) {
    digits(out, time.year().into(), 4);
    for (separator, value) in [
        (b'-', time.month()),
        (b'-', time.day()),
        (b'T', time.hour()),
        (b':', time.minute()),
        (b':', time.second()),
    ] {
        out.push(separator);
        digits(out, value.into(), 2);
    }
}

/// Appends `"2006-01-02T15:04:05Z"`, or `null` for the zero time.
pub(crate) fn write(out: &mut Vec<u8>, time: Timestamp) {
    if is_zero(time) {
        return out.extend_from_slice(b"null");
    }
    out.push(b'"');
    date_and_time(out, Offset::UTC.to_datetime(time));
    out.extend_from_slice(b"Z\"");
}

/// Appends `"2006-01-02T15:04:05.000000Z"`, or `null` for the zero time.
pub(crate) fn write_micro(out: &mut Vec<u8>, time: Timestamp) {
    if is_zero(time) {
        return out.extend_from_slice(b"null");
    }
    out.push(b'"');
    let civil = Offset::UTC.to_datetime(time);
    date_and_time(out, civil);
    out.push(b'.');
    digits(out, civil.subsec_nanosecond() / 1000, 6);
    out.extend_from_slice(b"Z\"");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> String {
        let mut out = Vec::new();
        write(&mut out, parse(text).unwrap());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn time_is_shown_in_whole_seconds_of_utc() {
        // [F26]
        assert_eq!(seconds("2024-02-29T01:02:03.999Z"), r#""2024-02-29T01:02:03Z""#);
        assert_eq!(seconds("2024-01-01T00:30:00+01:00"), r#""2023-12-31T23:30:00Z""#);
        assert_eq!(seconds("0001-01-01T00:00:00Z"), "null");
        let mut out = Vec::new();
        write_micro(&mut out, parse("2024-01-01T00:00:00.1234567Z").unwrap());
        assert_eq!(out, br#""2024-01-01T00:00:00.123456Z""#);
    }

    #[test]
    fn time_names_the_element_that_it_cannot_parse() {
        assert_eq!(
            parse("yesterday").unwrap_err(),
            r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#
        );
        assert_eq!(
            parse("2024-13-01T00:00:00Z").unwrap_err(),
            r#"parsing time "2024-13-01T00:00:00Z": month out of range"#
        );
        assert_eq!(
            parse("2024-02-30T00:00:00Z").unwrap_err(),
            r#"parsing time "2024-02-30T00:00:00Z": day out of range"#
        );
        assert!(
            parse("2024-01-01T00:00:00")
                .unwrap_err()
                .ends_with(r#"cannot parse "" as "Z07:00""#)
        );
        assert!(parse("").unwrap_err().ends_with(r#"cannot parse "" as "2006""#));
        // What `time.Parse` of Go says of each.
        assert_eq!(seconds("2024-01-01T1:02:03Z"), r#""2024-01-01T01:02:03Z""#);
        for (text, why) in [
            ("2024-01-01T:02:03Z", r#"cannot parse ":02:03Z" as "15""#),
            (
                "é\"\\\n",
                r#"parsing time "\xc3\xa9\"\\\x0a" as "2006-01-02T15:04:05Z07:00": cannot parse "\xc3\xa9\"\\\x0a" as "2006""#,
            ),
            ("2024-01-01T00:00:00Zé", r#": extra text: "\xc3\xa9""#),
            ("2024-01-01T00:00:00+25:zz", ": time zone offset hour out of range"),
            ("2024-01-01T00:00:00x25:00", ": time zone offset hour out of range"),
            ("2024-01-01T00:00:00+25:61", ": time zone offset minute out of range"),
            ("2024-01-01T00:00:00x01:00", r#"cannot parse "x01:00" as "Z07:00""#),
            ("2024-01-01T00:00:00+0100", r#"cannot parse "+0100" as "Z07:00""#),
            ("2024-01-01T24:00:00Z", ": hour out of range"),
            ("2024-01-01T00:60:00Z", ": minute out of range"),
        ] {
            let found = parse(text).unwrap_err();
            assert!(found.ends_with(why), "{found}");
        }
    }
}
