//! `labelSelector=`: the grammar and the texts of the server's parser.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::SelectorError;
use crate::steps::step;
use crate::{
    gotext::{self, go_quote},
    validation::{label_key_errors, label_value_errors},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    /// In order. `=` is `In` with one value, `!=` is `NotIn` with one.
    values: Vec<String>,
}

impl Requirement {
    /// Whether a label of this value, or its absence, is as required.
    fn matches(&self, value: Option<&str>) -> bool {
        let is_in = |value: &str| self.values.iter().any(|wanted| wanted == value);
        match self.operator {
            Operator::In => value.is_some_and(is_in),
            Operator::NotIn => value.is_none_or(|value| !is_in(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan | Operator::LessThan => {
                let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
                let (Some(value), Some(bound)) = (number(value), number(self.values.first().map(String::as_str)))
                else {
                    return false;
                };
                if self.operator == Operator::GreaterThan {
                    value > bound
                } else {
                    value < bound
                }
            }
        }
    }
}

/// A parsed label selector: all requirements must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LabelSelector {
    requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Parses the query parameter; the empty text selects everything.
    ///
    /// # Errors
    ///
    /// The parser's text, `unable to parse requirement: …` included.
    pub(crate) fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parser = Parser {
            tokens: tokens(text),
            at: 0,
        };
        parser
            .selector()
            .map(|requirements| Self { requirements })
            .map_err(SelectorError)
    }

    /// A text that is read as this selector.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn to_text(&self) -> String {
        let one = |requirement: &Requirement| {
            let Requirement { key, operator, values } = requirement;
            let values = values.join(",");
            match operator {
                Operator::In => format!("{key} in ({values})"),
                Operator::NotIn => format!("{key} notin ({values})"),
                Operator::Exists => key.clone(),
                Operator::DoesNotExist => format!("!{key}"),
                Operator::GreaterThan => format!("{key}>{values}"),
                Operator::LessThan => format!("{key}<{values}"),
            }
        };
        let parts: Vec<String> = self.requirements.iter().map(one).collect();
        parts.join(",")
    }

    /// Whether every object matches.
    pub(crate) fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether the labels match of which `label` gives the value of a key.
    pub(crate) fn matches<'l>(&self, label: impl Fn(&str) -> Option<Cow<'l, str>>) -> bool {
        let mut requirements = self.requirements.iter();
        requirements.all(|requirement| requirement.matches(label(&requirement.key).as_deref()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'t> {
    Identifier(&'t str),
    /// `=`, `==`, `!=`, `!`, `(`, `)`, `,`, `<` or `>`.
    Symbol(&'t str),
    End,
}

impl<'t> Token<'t> {
    fn text(self) -> &'t str {
        match self {
            Self::Identifier(text) | Self::Symbol(text) => text,
            Self::End => "",
        }
    }

    fn is(self, symbol: &str) -> bool {
        self == Token::Symbol(symbol)
    }
}

/// The tokens of a text; a NUL byte ends it, as on the server.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let is_symbol = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '<' | '>');
    let mut tokens = Vec::new();
    let mut rest = text.split('\0').next().unwrap_or_default().trim_start_matches(is_space);
    while let Some(first) = rest.chars().next() {
        let length = if !is_symbol(first) {
            rest.find(|c: char| is_space(c) || is_symbol(c)).unwrap_or(rest.len())
        } else if rest.starts_with("==") || rest.starts_with("!=") {
            2
        } else {
            1
        };
        let (token, after) = rest.split_at(length);
        tokens.push(if is_symbol(first) {
            Token::Symbol(token)
        } else {
            Token::Identifier(token)
        });
        rest = after.trim_start_matches(is_space);
    }
    tokens
}

struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Token<'t> {
        self.tokens.get(self.at).copied().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'t> {
        step();
        let token = self.peek();
        self.at += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(requirements),
                Token::Identifier(_) | Token::Symbol("!") => {}
                Token::Symbol(found) => {
                    return Err(format!("found '{found}', expected: !, identifier, or 'end of string'"));
                }
            }
            requirements.push(
                self.requirement()
                    .map_err(|text| format!("unable to parse requirement: {text}"))?,
            );
            match self.next() {
                Token::End => return Ok(requirements),
                Token::Symbol(",") => {
                    let next = self.peek();
                    if !matches!(next, Token::Identifier(_) | Token::Symbol("!")) {
                        return Err(format!("found '{}', expected: identifier after ','", next.text()));
                    }
                }
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.next();
        let negated = token.is("!");
        if negated {
            token = self.next();
        }
        let Token::Identifier(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.text()));
        };
        let problems = label_key_errors(key);
        if !problems.is_empty() {
            return Err(format!(
                "<nil>: Invalid value: {}: {}",
                go_quote(key),
                problems.join("; ")
            ));
        }
        if negated || matches!(self.peek(), Token::End | Token::Symbol(",")) {
            let operator = if negated {
                Operator::DoesNotExist
            } else {
                Operator::Exists
            };
            return Ok(Requirement {
                key: key.to_owned(),
                operator,
                values: Vec::new(),
            });
        }
        let token = self.next();
        let operator = match token.text() {
            "=" | "==" | "in" => Operator::In,
            "!=" | "notin" => Operator::NotIn,
            ">" => Operator::GreaterThan,
            "<" => Operator::LessThan,
            found => return Err(format!("found '{found}', expected: in, notin, =, ==, !=, gt, lt")),
        };
        let values = if matches!(token, Token::Identifier(_)) {
            self.value_list()?
        } else {
            self.exact_value()?
        };
        check_values(key, operator, &values)?;
        Ok(Requirement {
            key: key.to_owned(),
            operator,
            values,
        })
    }

    fn exact_value(&mut self) -> Result<Vec<String>, String> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(vec![String::new()]);
        }
        match self.next() {
            Token::Identifier(value) => Ok(vec![value.to_owned()]),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    /// `(a,b)`; an empty list is one empty value.
    fn value_list(&mut self) -> Result<Vec<String>, String> {
        let open = self.next();
        if !open.is("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        let mut values = BTreeSet::new();
        match self.peek() {
            Token::Identifier(_) | Token::Symbol(",") => {}
            Token::Symbol(")") => {
                self.next();
                return Ok(vec![String::new()]);
            }
            other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        }
        loop {
            match self.next() {
                Token::Identifier(value) => {
                    values.insert(value.to_owned());
                    match self.peek() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => break,
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                Token::Symbol(",") => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    if self.peek().is(")") {
                        values.insert(String::new());
                        break;
                    }
                    if self.peek().is(",") {
                        self.next();
                        values.insert(String::new());
                    }
                }
                other => return Err(format!("found '{}', expected: ',', or identifier", other.text())),
            }
        }
        let close = self.next();
        if close.is(")") {
            let mut values: Vec<String> = values.into_iter().collect();
            values.sort_by(|a, b| gotext::bytes(a).cmp(&gotext::bytes(b)));
            Ok(values)
        } else {
            Err(format!("found '{}', expected: ')'", close.text()))
        }
    }
}

fn check_values(key: &str, operator: Operator, values: &[String]) -> Result<(), String> {
    let mut errors = Vec::new();
    if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
        for (at, value) in values.iter().enumerate() {
            if value.parse::<i64>().is_err() {
                let text = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(format!("values[{at}]: Invalid value: {}: {text}", go_quote(value)));
            }
        }
    }
    for (at, value) in values.iter().enumerate() {
        let problems = label_value_errors(value);
        if !problems.is_empty() {
            errors.push(format!(
                "values[{at}][{key}]: Invalid value: {}: {}",
                go_quote(value),
                problems.join("; ")
            ));
        }
    }
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0)),
        _ => Err(format!("[{}]", errors.join(", "))),
    }
}
