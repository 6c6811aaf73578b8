//! What the transformation of a recipe does, given something that reads.

use super::brittle::Brittle;
use super::history::{Ask, Fetch, KEYS, Kind, Object, Recipe, Wanted};
use crate::traits::Labels;

/// A condition with everything it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    Key(String),
    Keys([String; 2]),
    Name(String),
    Namespace(String),
    Labels(Labels),
    Selecting(Labels),
    SelectingNonEmpty(Labels),
    Thirds(i64),
    Where(i64),
    WhereWith(i64),
}

impl Condition {
    /// Whether it tells where to look for what it lets through.
    pub(super) fn is_indexed(&self) -> bool {
        match self {
            Self::Where(_) | Self::WhereWith(_) => false,
            Self::Labels(labels) => !labels.is_empty(),
            _ => true,
        }
    }
}

/// Something that answers fetches.
pub(super) trait Reader {
    fn objects(&mut self, target: usize, conditions: &[Condition]) -> Vec<Object>;
    fn exists(&mut self, target: usize, conditions: &[Condition]) -> bool;
    fn halves(&mut self, target: usize, conditions: &[Condition]) -> Vec<i64>;
    /// Reads state that is no collection.
    fn state(&mut self, number: usize) -> i64;
    fn discard(&mut self);
}

fn key_of(value: i64) -> &'static str {
    KEYS[usize::try_from(value.rem_euclid(4)).unwrap()]
}

fn condition(wanted: &Wanted, input: &Object) -> Condition {
    match wanted {
        Wanted::Key(key) => Condition::Key((*key).into()),
        Wanted::Keys(key) => Condition::Keys([(*key).into(), input.key.clone()]),
        Wanted::KeyOfValue => Condition::Key(key_of(input.value).into()),
        Wanted::OwnKey => Condition::Key(input.key.clone()),
        Wanted::Name => Condition::Name(Object::namespace_and_name(&input.key).1.into()),
        Wanted::Namespace => Condition::Namespace(Object::namespace_and_name(&input.key).0.into()),
        Wanted::Labels => Condition::Labels(input.labels.clone()),
        Wanted::Selecting => Condition::Selecting(input.labels.clone()),
        Wanted::SelectingNonEmpty => Condition::SelectingNonEmpty(input.labels.clone()),
        Wanted::Thirds => Condition::Thirds(input.value.rem_euclid(3)),
        Wanted::Where(least) => Condition::Where(*least),
        Wanted::WhereWith => Condition::WhereWith(input.value),
    }
}

/// Makes one fetch; returns what it saw as text, and a number of it.
fn fetch(fetch: &Fetch, input: &Object, reader: &mut dyn Reader) -> (String, i64) {
    let which = usize::try_from(input.value).unwrap() % fetch.targets.len();
    let target = fetch.targets[which];
    let conditions: Vec<_> = fetch.wanted.iter().map(|wanted| condition(wanted, input)).collect();
    match fetch.ask {
        Ask::Objects => {
            let objects = reader.objects(target, &conditions);
            let text: Vec<_> = objects
                .iter()
                .map(|one| format!("{}={}({})", one.key, one.value, one.trail))
                .collect();
            (text.join(","), objects.iter().map(|one| one.value).sum())
        }
        Ask::Exists => {
            let exists = reader.exists(target, &conditions);
            (exists.to_string(), i64::from(exists))
        }
        Ask::Halves => {
            let halves = reader.halves(target, &conditions);
            (format!("{halves:?}"), halves.iter().sum())
        }
    }
}

/// The transformation: what an input gives. An input without a collection has value 3.
pub(super) fn transform(recipe: &Recipe, input: &Object, reader: &mut dyn Reader) -> Vec<Object> {
    let (mut trail, mut sum) = (String::new(), input.value);
    for one in &recipe.fetches {
        if one.only.is_none_or(|rest| input.value.rem_euclid(3) == rest) {
            let (text, number) = fetch(one, input, reader);
            trail = format!("{trail}[{text}]");
            sum += number;
        }
    }
    if let Some(state) = recipe.state.filter(|_| input.value % 2 == 0) {
        sum += reader.state(state);
    }
    assert!(!recipe.panics || sum % 8 != 7, "the recipe says so");
    if recipe.discards && sum % 8 == 6 {
        reader.discard();
    }
    let output = |number: i64| Object {
        key: if recipe.renames || number > 0 {
            key_of(sum + number).into()
        } else {
            input.key.clone()
        },
        value: (sum + number) % 8,
        labels: input.labels.clone(),
        selector: input.selector.clone(),
        // Trails of trails would grow without bound.
        trail: if recipe.coarse || trail.len() > 300 {
            String::new()
        } else {
            trail.clone()
        },
        brittle: Brittle::new(recipe.breaks.filter(|_| (sum + number) % 4 == 1)),
    };
    match recipe.kind {
        Kind::Many(_) | Kind::Status(..) => (0..sum % 4).map(output).collect(),
        _ if sum % 8 == 5 => Vec::new(),
        _ => vec![output(0)],
    }
}

/// The input of a collection that has none.
pub(super) fn constant() -> Object {
    Object {
        key: "a".into(),
        value: 3,
        labels: Labels::from([("p".into(), "1".into())]),
        selector: None,
        trail: String::new(),
        brittle: Brittle::default(),
    }
}

/// What a projection makes of an object.
pub(super) fn map(object: &Object) -> Object {
    Object {
        value: (object.value + 3) % 8,
        ..object.clone()
    }
}

/// The status of an input that gives these outputs.
pub(super) fn status(outputs: &[Object]) -> Option<i64> {
    let sum = outputs.iter().map(|one| one.value).sum::<i64>() % 8;
    (sum != 6).then_some(sum)
}

/// An object that shows a status.
pub(super) fn shown(input: &Object, status: i64) -> Object {
    Object {
        value: status,
        trail: input.value.to_string(),
        brittle: Brittle::default(),
        ..input.clone()
    }
}

/// What a merge makes of the objects with one key.
pub(super) fn merge(objects: &[&Object], panics: bool) -> Option<Object> {
    let value = objects.iter().fold(0, |all, one| (all * 3 + one.value) % 8);
    assert!(!panics || value != 6, "the recipe says so");
    (value != 5).then(|| Object {
        value,
        brittle: Brittle::default(),
        trail: objects
            .iter()
            .map(|one| one.value.to_string())
            .collect::<Vec<_>>()
            .join(";"),
        ..objects[0].clone()
    })
}

/// The group of the objects whose values leave this rest when divided by three.
pub(super) fn group(third: i64, objects: &[&Object]) -> Object {
    let seen = objects
        .iter()
        .map(|one| format!("{}={}({})", one.key, one.value, one.trail));
    let trail = seen.collect::<Vec<_>>().join("+");
    Object {
        key: key_of(third).into(),
        value: objects.iter().map(|one| one.value).sum::<i64>() % 8,
        labels: objects.first().map(|one| one.labels.clone()).unwrap_or_default(),
        selector: objects.first().and_then(|one| one.selector.clone()),
        trail: if trail.len() > 300 { String::new() } else { trail },
        brittle: Brittle::default(),
    }
}
