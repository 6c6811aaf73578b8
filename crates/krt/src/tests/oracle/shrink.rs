//! Makes a failing history smaller for as long as it still fails.

use super::history::History;

/// A history as small as it gets, and why it fails.
pub(super) fn shrink(
    mut history: History,
    mut text: String,
    failure: impl Fn(&History) -> Option<String>,
) -> (History, String) {
    loop {
        let Some((smaller, why)) = candidates(&history).find_map(|one| failure(&one).map(|why| (one, why))) else {
            return (history, text);
        };
        (history, text) = (smaller, why);
    }
}

/// Histories with something left out, the greatest omissions first.
fn candidates(history: &History) -> impl Iterator<Item = History> {
    let edits = history.edits.len();
    let lengths = std::iter::successors(Some(edits.div_ceil(2)), |length| {
        (*length > 1).then(|| length.div_ceil(2))
    });
    let without_edits = lengths.flat_map(move |length| {
        (0..edits).step_by(length.max(1)).map(move |start| {
            let mut smaller = history.clone();
            smaller.edits.drain(start..edits.min(start + length));
            smaller
        })
    });
    let last = (!history.recipes.is_empty()).then(|| {
        let mut smaller = history.clone();
        smaller.recipes.pop();
        smaller
    });
    let without_fetches = history.recipes.iter().enumerate().flat_map(move |(recipe, one)| {
        (0..one.fetches.len()).map(move |fetch| {
            let mut smaller = history.clone();
            smaller.recipes[recipe].fetches.remove(fetch);
            smaller
        })
    });
    let simpler = (0..history.recipes.len()).flat_map(move |recipe| {
        (0..6).filter_map(move |flag| {
            let mut smaller = history.clone();
            let one = &mut smaller.recipes[recipe];
            let is_simpler = match flag {
                0 => std::mem::take(&mut one.renames),
                1 => std::mem::take(&mut one.coarse),
                2 => std::mem::take(&mut one.panics),
                3 => std::mem::take(&mut one.discards),
                4 => one.state.take().is_some(),
                _ => one.breaks.take().is_some(),
            };
            is_simpler.then_some(smaller)
        })
    });
    let without_conditions = history.recipes.iter().enumerate().flat_map(move |(recipe, one)| {
        one.fetches.iter().enumerate().flat_map(move |(fetch, made)| {
            (0..made.wanted.len()).map(move |wanted| {
                let mut smaller = history.clone();
                smaller.recipes[recipe].fetches[fetch].wanted.remove(wanted);
                smaller
            })
        })
    });
    last.into_iter()
        .chain(without_edits)
        .chain(without_fetches)
        .chain(simpler)
        .chain(without_conditions)
}

#[test]
fn a_history_is_shrunk_to_what_makes_it_fail() {
    use super::history::Edit;
    let history = (1..1000)
        .map(History::random)
        .find(|history| history.edits.len() > 40 && history.recipes.len() > 3);
    let is_pin = |edit: &&Edit| matches!(edit, Edit::Pin);
    let mut history = history.unwrap();
    history.edits.insert(7, Edit::Pin);
    history.edits.insert(33, Edit::Pin);
    // It fails if there are two pins.
    let failure = |history: &History| (history.edits.iter().filter(is_pin).count() > 1).then(|| "two".to_owned());
    let (smallest, text) = shrink(history, String::new(), failure);
    assert_eq!(text, "two");
    assert!(smallest.recipes.is_empty());
    assert!(matches!(smallest.edits[..], [Edit::Pin, Edit::Pin]));
}
