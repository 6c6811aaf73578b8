//! Resource quantities: `1000m` is `1`, `1024Mi` is `1Gi`.
//!
//! Values are digit strings with a power of ten, because the real server keeps any number of digits. Digits below a
//! nano round up; binary quantities are capped at 2^63-1.

const FORMAT: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX: &str = "unable to parse quantity's suffix";

/// Fraction digits past these only tell whether there is a rest to round up.
const MAX_FRACTION: usize = 200;

#[derive(Clone, Copy, PartialEq)]
enum Format {
    DecimalSi,
    BinarySi,
    DecimalExponent,
}

struct Parsed<'t> {
    negative: bool,
    /// Without leading zeros.
    whole: &'t str,
    fraction: &'t str,
    suffix: &'t str,
}

/// The canonical form of a quantity.
///
/// # Errors
///
/// The server's text.
pub(crate) fn canonical(text: &str) -> Result<String, &'static str> {
    let parsed = split(text)?;
    let (format, power) = suffix(parsed.suffix)?;
    if is_kept(&parsed, format, power) {
        return Ok(text.to_owned());
    }
    let mut value = Decimal::new(&parsed, if format == Format::BinarySi { 0 } else { power });
    if format == Format::BinarySi {
        value.double(power);
    }
    value.round_up_to_nanos();
    if value.is_zero() {
        return Ok("0".to_owned());
    }
    if format == Format::BinarySi {
        value.cap();
    }
    let mut out = String::new();
    if parsed.negative {
        out.push('-');
    }
    // The binary form shows neither fractions nor anything below its first suffix.
    match value
        .as_u64()
        .filter(|value| format == Format::BinarySi && *value >= 1024)
    {
        Some(value) => binary(&mut out, value),
        None => value.write(&mut out, format),
    }
    Ok(out)
}

/// A canonical quantity without what is below a thousandth, which counts as one; none if there is nothing below.
pub(crate) fn round_up_to_milli(text: &str) -> Option<String> {
    let power: u32 = match text.as_bytes().last()? {
        b'n' => 6,
        b'u' => 3,
        _ => return None,
    };
    let digits: i128 = text[..text.len() - 1].parse().ok()?;
    let unit = 10_i128.pow(power);
    // As on the real server, away from zero.
    let rounded = (digits.abs() + unit - 1) / unit * digits.signum();
    canonical(&format!("{rounded}m")).ok()
}

fn split(text: &str) -> Result<Parsed<'_>, &'static str> {
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())),
        None => ("", rest),
    };
    let letters = suffix
        .find(|c: char| !"eEinumkKMGTP".contains(c))
        .unwrap_or(suffix.len());
    let exponent = suffix[letters..].strip_prefix(['-', '+']).unwrap_or(&suffix[letters..]);
    if text.is_empty() || !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(FORMAT);
    }
    Ok(Parsed {
        negative: text.starts_with('-'),
        whole: whole.trim_start_matches('0'),
        fraction,
        suffix,
    })
}

/// The format, and the power of two (binary) or of ten.
fn suffix(suffix: &str) -> Result<(Format, i64), &'static str> {
    const BINARY: [(&str, i64); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
    if let Some((_, power)) = BINARY.iter().find(|(binary, _)| *binary == suffix) {
        return Ok((Format::BinarySi, *power));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(decimal, _)| *decimal == suffix) {
        return Ok((Format::DecimalSi, *power));
    }
    match suffix.strip_prefix(['e', 'E']).map(str::parse::<i32>) {
        Some(Ok(power)) => Ok((Format::DecimalExponent, power.into())),
        _ => Err(SUFFIX),
    }
}

const DECIMAL: [(&str, i64); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

/// Whether the server keeps the client's text, because its quick check sees a canonical form in it.
fn is_kept(parsed: &Parsed<'_>, format: Format, power: i64) -> bool {
    let whole = if parsed.whole.is_empty() { "0" } else { parsed.whole };
    if format == Format::BinarySi {
        // About the decimal digits that 15 leave after the multiplication.
        let room = 14 - i64::try_from(whole.len()).unwrap_or(i64::MAX) - power * 3 / 10;
        return parsed.fraction.is_empty() && room >= 0 && whole.parse::<u64>().is_ok_and(|value| value & 7 != 0);
    }
    let digits = whole.len() + parsed.fraction.len();
    let Ok(fraction) = i64::try_from(parsed.fraction.len()) else {
        return false;
    };
    let scale = power - fraction;
    let zeros = whole
        .bytes()
        .chain(parsed.fraction.bytes())
        .rev()
        .take_while(|digit| *digit == b'0')
        .count();
    digits <= 18 && scale >= -9 && scale % 3 == 0 && zeros < 3 && !whole.starts_with('0')
}

/// `digits * 10^power`, never negative.
struct Decimal {
    /// Values 0 to 9, the most significant first.
    digits: Vec<u8>,
    power: i64,
    /// Whether something more follows the digits.
    rest: bool,
}

impl Decimal {
    fn new(parsed: &Parsed<'_>, power: i64) -> Self {
        let (fraction, rest) = parsed.fraction.split_at(parsed.fraction.len().min(MAX_FRACTION));
        let digits: Vec<u8> = parsed
            .whole
            .bytes()
            .chain(fraction.bytes())
            .map(|digit| digit - b'0')
            .collect();
        let shift = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
        Self {
            digits,
            power: power.saturating_sub(shift),
            rest: rest.bytes().any(|digit| digit != b'0'),
        }
    }

    /// Multiplies by a power of two. A whole part that is beyond the cap anyway is cut first.
    fn double(&mut self, power: i64) {
        let whole = i64::try_from(self.digits.len())
            .unwrap_or(i64::MAX)
            .saturating_add(self.power);
        if whole > 40 {
            self.digits = vec![9; 40];
            self.power = 0;
        }
        for _ in 0..power {
            let mut carry = 0;
            for digit in self.digits.iter_mut().rev() {
                let doubled = *digit * 2 + carry;
                *digit = doubled % 10;
                carry = doubled / 10;
            }
            if carry > 0 {
                self.digits.insert(0, carry);
            }
        }
    }

    fn round_up_to_nanos(&mut self) {
        if self.power < -9 {
            let excess = usize::try_from((-9_i64).saturating_sub(self.power)).unwrap_or(usize::MAX);
            let keep = self.digits.len().saturating_sub(excess);
            self.rest |= self.digits[keep..].iter().any(|digit| *digit != 0);
            self.digits.truncate(keep);
            self.power = -9;
        }
        if self.rest {
            // Only digits below a nano are ever cut, unless a huge exponent makes them whole again: then they are lost.
            while self.power > -9 && self.digits.len() < 2 * MAX_FRACTION {
                self.digits.push(0);
                self.power -= 1;
            }
            self.increment();
            self.rest = false;
        }
        let zeros = self.digits.iter().take_while(|digit| **digit == 0).count();
        self.digits.drain(..zeros);
        while self.digits.last() == Some(&0) {
            self.digits.pop();
            self.power += 1;
        }
    }

    fn increment(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
    }

    fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// The value if it is whole and fits.
    fn as_u64(&self) -> Option<u64> {
        if !(0..20).contains(&self.power) {
            return None;
        }
        let zeros = usize::try_from(self.power).ok()?;
        self.digits
            .iter()
            .chain(std::iter::repeat_n(&0, zeros))
            .try_fold(0_u64, |value, digit| {
                value.checked_mul(10)?.checked_add(u64::from(*digit))
            })
    }

    /// Caps the value at 2^63-1.
    fn cap(&mut self) {
        let max = i64::MAX.to_string();
        let whole = i64::try_from(self.digits.len())
            .unwrap_or(i64::MAX)
            .saturating_add(self.power);
        let above = whole > 19
            || whole == 19
                && self
                    .digits
                    .iter()
                    .copied()
                    .chain(std::iter::repeat(0))
                    .take(19)
                    .ge(max.bytes().map(|digit| digit - b'0'));
        if above {
            self.digits = max.bytes().map(|digit| digit - b'0').collect();
            self.power = 0;
        }
    }

    fn write(&self, out: &mut String, format: Format) {
        let pad = self.power.rem_euclid(3);
        let power = self.power - pad;
        out.extend(self.digits.iter().map(|digit| char::from(b'0' + digit)));
        (0..pad).for_each(|_| out.push('0'));
        match DECIMAL.iter().find(|(_, exponent)| *exponent == power) {
            Some((suffix, _)) if format != Format::DecimalExponent || power == 0 => out.push_str(suffix),
            _ => {
                out.push('e');
                out.push_str(&power.to_string());
            }
        }
    }
}

fn binary(out: &mut String, mut value: u64) {
    const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let mut at = 0;
    while value.is_multiple_of(1024) && at < 6 {
        value /= 1024;
        at += 1;
    }
    out.push_str(&value.to_string());
    out.push_str(SUFFIXES[at]);
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn quantity_has_the_form_of_the_real_parser() {
        // [F26] Pairs printed by the quantity type of apimachinery 0.37.2 after a round trip through protobuf.
        for (given, want) in [
            ("0", "0"),
            ("0n", "0"),
            ("0Ki", "0"),
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("1Ki", "1Ki"),
            ("8Ki", "8Ki"),
            ("0Mi", "0"),
            ("1024", "1024"),
            ("1M", "1M"),
            ("1000k", "1M"),
            ("1.5Gi", "1536Mi"),
            ("0.5", "500m"),
            ("12e6", "12e6"),
            ("1000e3", "1e6"),
            ("1e3", "1e3"),
            ("1E3", "1E3"),
            ("100e-1", "10"),
            (".5", "500m"),
            ("1.", "1."),
            ("-1000m", "-1"),
            ("+5", "+5"),
            ("0.5Mi", "512Ki"),
            ("1.1Ki", "1126400m"),
            ("1Ei", "1Ei"),
            ("9223372036854775807", "9223372036854775807"),
            ("92233720368547758070", "92233720368547758070"),
            ("0.0000000001", "1n"),
            ("1n", "1n"),
            ("0001", "0001"),
            ("0.1Ki", "102400m"),
            ("0.5Ki", "512"),
            ("-1.1Ki", "-1126400m"),
            ("1023.5Ki", "1048064"),
            ("-5Mi", "-5Mi"),
            ("1e20", "100e18"),
            ("10E", "10E"),
            ("5e-12", "1e-9"),
            ("1.0000000001Gi", "1073741824107374183n"),
            ("0.000001Mi", "1048576u"),
            ("1e-3", "1e-3"),
            ("15e-1", "1500e-3"),
            ("-0.0000000001", "-1n"),
            ("100000000000000000000n", "100G"),
            ("1.25Ki", "1280"),
            ("1023", "1023"),
            ("-1024", "-1024"),
            ("12Ei", "9223372036854775807"),
            ("-", "0"),
            (".", "0"),
            ("1e100", "10e99"),
            ("-0", "0"),
            ("-100Ei", "-9223372036854775807"),
        ] {
            assert_eq!(canonical(given).as_deref(), Ok(want), "{given}");
        }
    }

    #[test]
    fn quantity_refuses_what_the_real_parser_refuses() {
        for given in ["", "a", "1.1.1", "1 Ki", "é"] {
            assert!(
                canonical(given).unwrap_err().starts_with("quantities must match"),
                "{given}"
            );
        }
        for given in ["1mm", "1Kii", "1e", "1i", "1KiKi", "4.5e", "5Ki3"] {
            assert_eq!(canonical(given), Err("unable to parse quantity's suffix"), "{given}");
        }
    }
}
