//! What the filters of each view say of the changes of one step, asked before the lock is taken.
//!
//! What there is to ask is kept from step to step: noting it anew for each event costs as much as the question.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{KEEP_BUFFER, Stage, ViewId, ViewState};
use crate::event::Event;
use crate::informer::store::Change;
use crate::informer::view::criteria::{Criteria, Verdict};
use crate::object::Object;

/// What the filters of each view say of some changes.
#[derive(Default)]
pub(in crate::informer::shared) struct Judged {
    // Most kinds have one view, and a step is made for each event: no memory is asked for then.
    columns: SmallVec<[Column; 1]>,
}

/// What one view's filters say.
struct Column {
    id: ViewId,
    generation: u64,
    // `None` if nothing has to be asked.
    criteria: Option<Arc<Criteria>>,
    // Of the first change, and of those after it: most batches have one.
    first: Option<Verdict>,
    rest: Vec<Verdict>,
}

impl Judged {
    /// Whether these are all views, each at the generation under which it is asked.
    pub(in crate::informer::shared) fn is_current<K: Object>(&self, views: &[ViewState<K>]) -> bool {
        let same = |(column, view): (&Column, &ViewState<K>)| column.is_of(view);
        self.columns.len() == views.len() && self.columns.iter().zip(views).all(same)
    }

    /// Gives back what is no longer current, and notes what there is to ask.
    #[must_use = "drop it after the lock is released: it may hold the last of the user's filters"]
    pub(in crate::informer::shared) fn renew<K: Object>(&mut self, views: &[ViewState<K>]) -> Self {
        let mut known = std::mem::take(&mut self.columns);
        self.columns.extend(views.iter().map(|view| {
            let at = known.iter().position(|column| column.is_of(view));
            at.map_or_else(|| Column::new(view), |at| known.swap_remove(at))
        }));
        Self { columns: known }
    }

    /// Forgets the answers of the last step, not what there is to ask.
    pub(in crate::informer::shared) fn begin(&mut self) {
        for column in &mut self.columns {
            column.first = None;
            column.rest.clear();
            column.rest.shrink_to(KEEP_BUFFER);
        }
    }

    /// Asks what was not asked yet. Runs user code: no lock is held.
    pub(in crate::informer::shared) fn ask<K: Object>(&mut self, changes: &[Change<K>]) {
        for column in self.columns.iter_mut().filter(|column| column.first.is_none()) {
            let Some(criteria) = &column.criteria else { continue };
            let verdict = |change: &Change<K>| match change {
                Change::Upsert { object, .. } => criteria.judge(&**object),
                Change::Delete { .. } => Verdict::Hidden,
            };
            let Some((first, rest)) = changes.split_first() else {
                continue;
            };
            column.first = Some(verdict(first));
            if !rest.is_empty() {
                column.rest.extend(rest.iter().map(verdict));
            }
        }
    }
}

impl Column {
    fn new<K: Object>(view: &ViewState<K>) -> Self {
        let asks = view.stage != Stage::Waiting && !view.criteria.shows_all();
        Self {
            id: view.id,
            generation: view.generation,
            criteria: asks.then(|| Arc::clone(&view.criteria)),
            first: None,
            rest: Vec::new(),
        }
    }

    fn is_of<K: Object>(&self, view: &ViewState<K>) -> bool {
        self.id == view.id && self.generation == view.generation
    }

    fn verdict(&self, at: usize) -> Verdict {
        match (&self.criteria, at.checked_sub(1)) {
            (None, _) => Verdict::Visible,
            (Some(_), None) => self.first.unwrap_or(Verdict::Hidden),
            (Some(_), Some(at)) => self.rest.get(at).copied().unwrap_or(Verdict::Hidden),
        }
    }
}

/// Shows each view what one change of the store came to: the events of the step from `told` on.
pub(in crate::informer::shared) fn show<K: Object>(
    views: &mut [ViewState<K>],
    judged: &Judged,
    at: usize,
    slot: Option<u32>,
    events: &[Event<K>],
    told: usize,
) {
    let Some(slot) = slot else { return };
    for (view, column) in views.iter_mut().zip(&judged.columns) {
        view.show(slot, column.verdict(at), events, told);
    }
}

/// Shows each view that an object is gone: the events of the step from `told` on.
pub(in crate::informer::shared) fn show_gone<K: Object>(
    views: &mut [ViewState<K>],
    slot: u32,
    events: &[Event<K>],
    told: usize,
) {
    for view in views {
        view.show(slot, Verdict::Hidden, events, told);
    }
}
