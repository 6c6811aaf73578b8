//! Finding the end of a value in trusted JSON (our own canonical bytes) without parsing it.

/// The offset after the value that starts at `at`. Canonical bytes have no white space.
pub(crate) fn value_end(json: &[u8], at: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = at;
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => {
                at = string_end(json, at);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                if depth == 0 {
                    return at;
                }
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            b',' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

/// The members of an object: each name as it is between its quotes, where the value starts, and the value.
pub(crate) fn members(object: &[u8]) -> impl Iterator<Item = (&[u8], usize, &[u8])> {
    let mut at = usize::from(object.first() == Some(&b'{'));
    std::iter::from_fn(move || {
        if at == 0 || object.get(at) != Some(&b'"') {
            return None;
        }
        let key_end = string_end(object, at);
        let start = key_end + 1;
        let end = value_end(object, start);
        let member = (object.get(at + 1..key_end - 1)?, start, object.get(start..end)?);
        at = end + 1;
        Some(member)
    })
}

/// The value of a member of an object. The name must need no escape.
pub(crate) fn member<'j>(object: &'j [u8], name: &str) -> Option<&'j [u8]> {
    let found = members(object).find(|(key, _, _)| *key == name.as_bytes());
    found.map(|(_, _, value)| value)
}

/// The offset after the string whose opening quote is at `at`.
fn string_end(json: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(found) = json.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if json[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    json.len()
}
