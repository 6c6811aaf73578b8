//! What tokens hold: scalars of all styles, anchors, tags and directives.

use super::scanner::{Scanner, is_blank, is_blank_or_end, is_break, is_end};
use super::token::{Kind, Mistake};

/// What folds: the blanks and line ends between two parts of a scalar.
#[derive(Default)]
struct Gap {
    blanks: String,
    first_break: String,
    more_breaks: String,
    /// Whether there was a line end.
    has_break: bool,
}

impl Gap {
    /// Appends what stands for the gap, which begins again.
    fn fold_into(&mut self, out: &mut String) {
        if !self.has_break {
            out.push_str(&self.blanks);
        } else if self.first_break.starts_with('\n') {
            if self.more_breaks.is_empty() {
                out.push(' ');
            } else {
                out.push_str(&self.more_breaks);
            }
        } else {
            out.push_str(&self.first_break);
            out.push_str(&self.more_breaks);
        }
        *self = Self::default();
    }
}

/// A letter of a name.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

impl Scanner<'_> {
    fn word(&mut self, out: &mut String) -> Result<(), Mistake> {
        self.need(1)?;
        while is_word(self.at(0)) {
            out.push(self.skip());
            self.need(1)?;
        }
        Ok(())
    }

    pub(super) fn anchor(&mut self, is_alias: bool) -> Result<(Kind, u64), Mistake> {
        self.skip();
        let mut name = String::new();
        self.word(&mut name)?;
        let next = self.at(0);
        let ends = is_blank_or_end(next) || matches!(next, '?' | ':' | ',' | ']' | '}' | '%' | '@' | '`');
        if name.is_empty() || !ends {
            return self.mistake("did not find expected alphabetic or numeric character");
        }
        let kind = if is_alias {
            Kind::Alias(name)
        } else {
            Kind::Anchor(name)
        };
        Ok((kind, self.mark.line))
    }

    pub(super) fn tag(&mut self) -> Result<(Kind, u64), Mistake> {
        self.need(2)?;
        let mut handle = String::new();
        let mut suffix;
        if self.at(1) == '<' {
            self.skip();
            self.skip();
            suffix = self.tag_uri("")?;
            if self.at(0) != '>' {
                return self.mistake("did not find the expected '>'");
            }
            self.skip();
        } else {
            handle = self.tag_handle(false)?;
            if handle.len() > 1 && handle.ends_with('!') {
                suffix = self.tag_uri("")?;
            } else {
                suffix = self.tag_uri(&handle)?;
                "!".clone_into(&mut handle);
                if suffix.is_empty() {
                    std::mem::swap(&mut handle, &mut suffix);
                }
            }
        }
        self.need(1)?;
        if !is_blank_or_end(self.at(0)) {
            return self.mistake("did not find expected whitespace or line break");
        }
        Ok((Kind::Tag { handle, suffix }, self.mark.line))
    }

    fn tag_handle(&mut self, of_directive: bool) -> Result<String, Mistake> {
        self.need(1)?;
        if self.at(0) != '!' {
            return self.mistake("did not find expected '!'");
        }
        let mut handle = String::from(self.skip());
        self.word(&mut handle)?;
        if self.at(0) == '!' {
            handle.push(self.skip());
        } else if of_directive && handle != "!" {
            return self.mistake("did not find expected '!'");
        }
        Ok(handle)
    }

    /// The rest of a tag of which this was read before, with its exclamation mark.
    fn tag_uri(&mut self, head: &str) -> Result<String, Mistake> {
        let mut uri = head.get(1..).unwrap_or_default().as_bytes().to_vec();
        let mut is_empty = head.is_empty();
        self.need(1)?;
        loop {
            let c = self.at(0);
            if c == '%' {
                self.uri_escapes(&mut uri)?;
            } else if is_word(c) || (c != '\0' && ";/?:@&=+$,.!~*'()[]".contains(c)) {
                self.skip();
                uri.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                break;
            }
            is_empty = false;
            self.need(1)?;
        }
        if is_empty {
            return self.mistake("did not find expected tag URI");
        }
        Ok(String::from_utf8_lossy(&uri).into_owned())
    }

    /// One character in the form `%C3%A9`.
    fn uri_escapes(&mut self, out: &mut Vec<u8>) -> Result<(), Mistake> {
        let mut left = None;
        while left != Some(0) {
            self.need(3)?;
            let digits = [self.at(1).to_digit(16), self.at(2).to_digit(16)];
            let (true, [Some(high), Some(low)]) = (self.at(0) == '%', digits) else {
                return self.mistake("did not find URI escaped octet");
            };
            let octet = u8::try_from(high << 4 | low).unwrap_or_default();
            left = Some(match left {
                Some(left) if octet & 0xc0 == 0x80 => left - 1,
                Some(_) => return self.mistake("found an incorrect trailing UTF-8 octet"),
                None => match octet {
                    0..0x80 => 0,
                    0xc0..0xe0 => 1,
                    0xe0..0xf0 => 2,
                    0xf0..0xf8 => 3,
                    _ => return self.mistake("found an incorrect leading UTF-8 octet"),
                },
            });
            out.push(octet);
            for _ in 0..3 {
                self.skip();
            }
        }
        Ok(())
    }

    pub(super) fn directive(&mut self) -> Result<Kind, Mistake> {
        self.skip();
        let mut name = String::new();
        self.word(&mut name)?;
        if name.is_empty() {
            return self.mistake("could not find expected directive name");
        }
        if !is_blank_or_end(self.at(0)) {
            return self.mistake("found unexpected non-alphabetical character");
        }
        let kind = match &*name {
            "YAML" => {
                self.blanks()?;
                let major = self.version_number()?;
                if self.at(0) != '.' {
                    return self.mistake("did not find expected digit or '.' character");
                }
                self.skip();
                let minor = self.version_number()?;
                Kind::VersionDirective { major, minor }
            }
            "TAG" => {
                self.blanks()?;
                let handle = self.tag_handle(true)?;
                self.need(1)?;
                if !is_blank(self.at(0)) {
                    return self.mistake("did not find expected whitespace");
                }
                self.blanks()?;
                let prefix = self.tag_uri("")?;
                self.need(1)?;
                if !is_blank_or_end(self.at(0)) {
                    return self.mistake("did not find expected whitespace or line break");
                }
                Kind::TagDirective { handle, prefix }
            }
            _ => return self.mistake("found unknown directive name"),
        };
        self.rest_of_line()?;
        Ok(kind)
    }

    fn version_number(&mut self) -> Result<u8, Mistake> {
        let mut value = None;
        let mut length = 0;
        self.need(1)?;
        while let Some(digit) = self.at(0).to_digit(10) {
            length += 1;
            if length > 2 {
                return self.mistake("found extremely long version number");
            }
            value = Some(value.unwrap_or(0) * 10 + u8::try_from(digit).unwrap_or_default());
            self.skip();
            self.need(1)?;
        }
        match value {
            Some(value) => Ok(value),
            None => self.mistake("did not find expected version number"),
        }
    }

    /// Takes a line that has nothing more.
    fn rest_of_line(&mut self) -> Result<(), Mistake> {
        self.blanks()?;
        self.comment()?;
        if !is_end(self.at(0)) {
            return self.mistake("did not find expected comment or line break");
        }
        if is_break(self.at(0)) {
            self.line_end()?;
        }
        Ok(())
    }

    pub(super) fn block_scalar(&mut self, is_literal: bool) -> Result<String, Mistake> {
        self.skip();
        self.need(1)?;
        let (mut chomping, mut increment) = (None, None);
        for _ in 0..2 {
            match self.at(0) {
                c @ ('+' | '-') if chomping.is_none() => chomping = Some(c),
                '0' if increment.is_none() => {
                    return self.mistake("found an indentation indicator equal to 0");
                }
                c @ '1'..='9' if increment.is_none() => increment = c.to_digit(10).map(i64::from),
                _ => break,
            }
            self.skip();
            self.need(1)?;
        }
        self.rest_of_line()?;
        let mut indent = increment.map_or(0, |increment| self.indent.max(0) + increment);
        let mut value = String::new();
        let mut last_break = String::new();
        let mut more_breaks = String::new();
        self.block_breaks(&mut indent, &mut more_breaks)?;
        self.need(1)?;
        let mut was_blank = false;
        while self.mark.column == indent && self.at(0) != '\0' {
            let begins_blank = is_blank(self.at(0));
            if !is_literal && !was_blank && !begins_blank && last_break.starts_with('\n') {
                if more_breaks.is_empty() {
                    value.push(' ');
                }
            } else {
                value.push_str(&last_break);
            }
            value.push_str(&more_breaks);
            last_break.clear();
            more_breaks.clear();
            was_blank = begins_blank;
            while !is_end(self.at(0)) {
                value.push(self.skip());
                self.need(1)?;
            }
            if is_break(self.at(0)) {
                last_break.push(self.line_end()?);
            }
            self.block_breaks(&mut indent, &mut more_breaks)?;
        }
        if chomping != Some('-') {
            value.push_str(&last_break);
        }
        if chomping == Some('+') {
            value.push_str(&more_breaks);
        }
        Ok(value)
    }

    /// Takes indentation and empty lines; finds out how far a block is in, if that is not known.
    fn block_breaks(&mut self, indent: &mut i64, breaks: &mut String) -> Result<(), Mistake> {
        let mut furthest = 0;
        loop {
            self.need(1)?;
            let is_before = |scanner: &Self| *indent == 0 || scanner.mark.column < *indent;
            while is_before(self) && self.at(0) == ' ' {
                self.skip();
                self.need(1)?;
            }
            furthest = furthest.max(self.mark.column);
            if is_before(self) && self.at(0) == '\t' {
                return self.mistake("found a tab character where an indentation space is expected");
            }
            if !is_break(self.at(0)) {
                break;
            }
            breaks.push(self.line_end()?);
        }
        if *indent == 0 {
            *indent = furthest.max(self.indent + 1).max(1);
        }
        Ok(())
    }

    pub(super) fn quoted(&mut self, is_single: bool) -> Result<(Kind, u64), Mistake> {
        let quote = self.skip();
        let mut value = String::new();
        loop {
            self.need(4)?;
            if self.document_indicator().is_some() {
                return self.mistake("found unexpected document indicator");
            }
            if self.at(0) == '\0' {
                return self.mistake("found unexpected end of stream");
            }
            let mut gap = Gap::default();
            while !is_blank_or_end(self.at(0)) {
                let c = self.at(0);
                if is_single && c == '\'' && self.at(1) == '\'' {
                    self.skip();
                    value.push(self.skip());
                } else if c == quote {
                    break;
                } else if !is_single && c == '\\' && is_break(self.at(1)) {
                    self.skip();
                    self.line_end()?;
                    gap.has_break = true;
                    break;
                } else if !is_single && c == '\\' {
                    value.push(self.escape()?);
                } else {
                    value.push(self.skip());
                }
                self.need(2)?;
            }
            self.need(1)?;
            if self.at(0) == quote {
                break;
            }
            self.gap(&mut gap, None)?;
            gap.fold_into(&mut value);
        }
        self.skip();
        Ok((Kind::Scalar { value, is_plain: false }, self.mark.line))
    }

    fn escape(&mut self) -> Result<char, Mistake> {
        let (c, digits) = match self.at(1) {
            '0' => ('\0', 0),
            'a' => ('\u{7}', 0),
            'b' => ('\u{8}', 0),
            't' | '\t' => ('\t', 0),
            'n' => ('\n', 0),
            'v' => ('\u{b}', 0),
            'f' => ('\u{c}', 0),
            'r' => ('\r', 0),
            'e' => ('\u{1b}', 0),
            c @ (' ' | '"' | '\'' | '\\') => (c, 0),
            'N' => ('\u{85}', 0),
            '_' => ('\u{a0}', 0),
            'L' => ('\u{2028}', 0),
            'P' => ('\u{2029}', 0),
            'x' => ('\0', 2),
            'u' => ('\0', 4),
            'U' => ('\0', 8),
            _ => return self.mistake("found unknown escape character"),
        };
        self.skip();
        self.skip();
        if digits == 0 {
            return Ok(c);
        }
        self.need(digits)?;
        let mut code: u64 = 0;
        for at in 0..digits {
            let Some(digit) = self.at(at).to_digit(16) else {
                return self.mistake("did not find expected hexdecimal number");
            };
            code = code << 4 | u64::from(digit);
        }
        let Some(c) = u32::try_from(code).ok().and_then(char::from_u32) else {
            return self.mistake("found invalid Unicode character escape code");
        };
        for _ in 0..digits {
            self.skip();
        }
        Ok(c)
    }

    /// Takes blanks and line ends. Of a plain scalar that is so far in, no line may have a tab before that.
    fn gap(&mut self, gap: &mut Gap, indent: Option<i64>) -> Result<(), Mistake> {
        self.need(1)?;
        loop {
            let c = self.at(0);
            if is_blank(c) {
                let is_out = indent.is_some_and(|indent| self.mark.column < indent);
                if gap.has_break && is_out && c == '\t' {
                    return self.mistake("found a tab character that violates indentation");
                }
                let c = self.skip();
                if !gap.has_break {
                    gap.blanks.push(c);
                }
            } else if is_break(c) {
                let c = self.line_end()?;
                if gap.has_break {
                    gap.more_breaks.push(c);
                } else {
                    gap.first_break.push(c);
                    gap.has_break = true;
                }
            } else {
                return Ok(());
            }
            self.need(1)?;
        }
    }

    pub(super) fn plain(&mut self) -> Result<(Kind, u64), Mistake> {
        let indent = self.indent + 1;
        let mut value = String::new();
        let mut end = self.mark.line;
        let mut gap = Gap::default();
        loop {
            self.need(4)?;
            if self.document_indicator().is_some() || self.at(0) == '#' {
                break;
            }
            while !is_blank_or_end(self.at(0)) {
                let c = self.at(0);
                let ends = c == ':' && is_blank_or_end(self.at(1))
                    || self.in_flow() && matches!(c, ',' | '?' | '[' | ']' | '{' | '}');
                if ends {
                    break;
                }
                gap.fold_into(&mut value);
                value.push(self.skip());
                end = self.mark.line;
                self.need(2)?;
            }
            if !(is_blank(self.at(0)) || is_break(self.at(0))) {
                break;
            }
            self.gap(&mut gap, Some(indent))?;
            if !self.in_flow() && self.mark.column < indent {
                break;
            }
        }
        if gap.has_break {
            self.key_allowed = true;
        }
        Ok((Kind::Scalar { value, is_plain: true }, end))
    }
}
