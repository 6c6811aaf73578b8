//! Schedules in the five fields of cron.

/// The least and the greatest number of a field, and the names that it has for some.
type Field = (u32, u32, &'static [&'static str]);

const FIELDS: [Field; 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (
        1,
        12,
        &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    ),
    (0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];

/// What is wrong with a schedule.
pub(super) fn error(schedule: &str) -> Option<String> {
    if schedule.contains("TZ") {
        return Some("cannot use TZ or CRON_TZ in schedule, use timeZone field instead".to_owned());
    }
    if let Some(descriptor) = schedule.strip_prefix('@') {
        let known = ["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"];
        let known = known.contains(&descriptor) || descriptor.starts_with("every ");
        return (!known).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let shown = fields.join(" ");
        return Some(format!("expected exactly 5 fields, found {}: [{shown}]", fields.len()));
    }
    fields.iter().zip(&FIELDS).find_map(|(text, field)| {
        text.split(',')
            .filter(|part| !part.is_empty())
            .find_map(|part| range_error(part, field))
    })
}

fn range_error(text: &str, (least, greatest, names): &Field) -> Option<String> {
    let number = |text: &str| -> Result<u32, String> {
        let lower = text.to_ascii_lowercase();
        if let Some(at) = names.iter().position(|name| *name == lower) {
            return Ok(u32::try_from(at).unwrap_or_default() + least);
        }
        match text.parse::<i64>() {
            Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
            Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
            Err(_) => Err(format!(
                "failed to parse int from {text}: strconv.Atoi: parsing {}: invalid syntax",
                crate::gotext::go_quote(text)
            )),
        }
    };
    let check = || -> Result<(), String> {
        let parts: Vec<&str> = text.split('/').collect();
        let ends: Vec<&str> = parts[0].split('-').collect();
        let mut start = *least;
        let mut end = *greatest;
        if !matches!(ends[0], "*" | "?") {
            start = number(ends[0])?;
            match ends.as_slice() {
                [_] => end = if parts.len() > 1 { *greatest } else { start },
                [_, last] => end = number(last)?,
                _ => return Err(format!("too many hyphens: {text}")),
            }
        }
        match parts.as_slice() {
            [_] => {}
            [_, step] => {
                if number(step)? == 0 {
                    return Err(format!("step of range should be a positive number: {text}"));
                }
            }
            _ => return Err(format!("too many slashes: {text}")),
        }
        if start < *least {
            return Err(format!("beginning of range ({start}) below minimum ({least}): {text}"));
        }
        if end > *greatest {
            return Err(format!("end of range ({end}) above maximum ({greatest}): {text}"));
        }
        if start > end {
            return Err(format!(
                "beginning of range ({start}) beyond end of range ({end}): {text}"
            ));
        }
        Ok(())
    };
    check().err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_field_by_field() {
        for good in ["* * * * *", "*/5 0-3 1,15 jan mon-fri", "@hourly", "@every 1h"] {
            assert_eq!(error(good), None, "{good}");
        }
        for (bad, text) in [
            ("x", "expected exactly 5 fields, found 1: [x]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            (
                "a * * * *",
                "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax",
            ),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ] {
            assert_eq!(error(bad).as_deref(), Some(text), "{bad}");
        }
    }
}
