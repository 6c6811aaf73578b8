//! A way out for state that the engine does not see: whoever reads it depends on a trigger, which is fired when it changes.

use std::fmt;

use crate::fetch::Context;
use crate::krt::Krt;
use crate::options::Options;
use crate::statics::StaticCollection;
use crate::traits::Text;

/// Has all inputs that depend on it run again when it is fired.
///
/// What they give is gated as always: an equal result is no event. The state itself is not the engine's: a run sees it as it is
/// at that moment, whatever the epoch.
#[derive(Clone)]
pub struct Trigger {
    source: StaticCollection<Text>,
}

impl Krt {
    /// A trigger. Whoever depends on it is not synced before [`mark_synced`](Trigger::mark_synced).
    ///
    /// # Panics
    ///
    /// If the name is empty.
    pub fn trigger(&self, name: impl Into<Options>) -> Trigger {
        let options = name.into();
        let text = Text::from(&*options.name);
        Trigger {
            source: StaticCollection::new(self, options, [text], false, Text::eq),
        }
    }
}

impl Trigger {
    pub(crate) fn source(&self) -> &StaticCollection<Text> {
        &self.source
    }

    /// Has its dependants run again. Fired several times between two epochs, they run once.
    pub fn fire(&self) {
        self.source.update(Text::from(self.source.name()));
    }

    /// The state that this stands for is complete.
    pub fn mark_synced(&self) {
        self.source.mark_synced();
    }
}

impl Context<'_> {
    /// Has this input run again whenever the trigger is fired.
    ///
    /// # Panics
    ///
    /// As [`fetch`](Self::fetch).
    pub fn depend_on(&mut self, trigger: &Trigger) {
        self.fetch(trigger.source.query());
    }
}

impl fmt::Debug for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trigger")
            .field("name", &self.source.name())
            .finish_non_exhaustive()
    }
}
