//! Ways out for state that is no collection. Whoever reads what the engine does not see depends on a [`Trigger`], which is fired when it
//! changes; state that the program may hand over is [`RecomputeProtected`], and is of an epoch like everything else.

use std::fmt;
use std::sync::Arc;

use crate::engine::operator::source::{SourceBuffer, Touch};
use crate::engine::panics;
use crate::fetch::Context;
use crate::key::KeyRef;
use crate::krt::Krt;
use crate::options::Options;
use crate::statics::StaticCollection;
use crate::traits::{Keyed, Text};

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

/// State of the program's, read by transformations: whoever has read it runs again when it is modified. It is a cheap clone.
///
/// Use it for what has neither keys nor equality of its own: a table that is loaded as a whole, a client's settings. What has is better
/// off in a [`StaticCollection`], whose readers run again only if what they read changed.
///
/// ```
/// use krt::testing::Stepper;
/// use krt::{Krt, Text};
///
/// let krt = Krt::builder("test").build();
/// let mut stepper = Stepper::new(&krt)?;
/// let suffix = krt.recompute_protected("suffix", String::from("?"));
/// let names = krt.static_collection("names", [Text::from("a")]);
/// let read = suffix.clone();
/// let asked = krt.collection("asked", &names, move |cx, name| Some(Text(format!("{}{}", name.0, read.get(cx)))));
/// stepper.settle();
/// assert!(asked.get("a?").is_some());
/// suffix.modify(|suffix| format!("{suffix}!"));
/// stepper.settle();
/// assert!(asked.get("a?!").is_some());
/// # Ok::<_, krt::Error>(())
/// ```
///
/// # Guarantees
///
/// A transformation gets the value of its epoch, the same one in all collections, however often it is modified meanwhile. Modified several
/// times between two epochs, its readers run once. They run whether the new value equals the old one or not; what they give is
/// gated as always.
pub struct RecomputeProtected<T: Send + Sync + 'static> {
    source: StaticCollection<Protected<T>>,
}

/// The one object of the source.
struct Protected<T: Send + Sync + 'static> {
    name: Arc<str>,
    value: Arc<T>,
}

impl<T: Send + Sync + 'static> Keyed for Protected<T> {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::Plain(&self.name)
    }
}

impl Krt {
    /// State that transformations read by [`RecomputeProtected::get`].
    ///
    /// # Panics
    ///
    /// If the name is empty.
    pub fn recompute_protected<T: Send + Sync + 'static>(
        &self,
        name: impl Into<Options>,
        value: T,
    ) -> RecomputeProtected<T> {
        let options = name.into();
        let value = Protected {
            name: Arc::clone(&options.name),
            value: Arc::new(value),
        };
        RecomputeProtected {
            source: StaticCollection::new(self, options, [value], true, |_, _| false),
        }
    }
}

impl<T: Send + Sync + 'static> RecomputeProtected<T> {
    /// The value as of this run's epoch. The input runs again when it is modified.
    ///
    /// # Panics
    ///
    /// As [`Context::fetch`].
    pub fn get(&self, cx: &mut Context<'_>) -> Arc<T> {
        let found = cx.fetch_one(self.source.query().key(self.source.name()));
        // If it was made in this epoch, the input runs once more when it is there, and this run's result is not used.
        let found = found.or_else(|| self.last());
        Arc::clone(&found.expect("state of an engine that runs").value)
    }

    /// The value that readers have now: that of the newest epoch. `None` before the first one.
    pub fn published(&self) -> Option<Arc<T>> {
        let published = self.source.list().pop()?;
        Some(Arc::clone(&published.value))
    }

    /// What was written last. `None` after the end.
    fn last(&self) -> Option<Arc<Protected<T>>> {
        let id = self.source.id();
        let last = |buffer: &SourceBuffer<Protected<T>>| buffer.latest().pop();
        let last = self
            .source
            .shared()
            .ingress
            .look(|state| state.buffer(id).and_then(last));
        last.map(|(_, protected)| protected)
    }

    /// Puts another value in the place of the last one. Nothing is lost if several threads do so at once: the function is called
    /// without locks, and again if another one was faster. After the end of the engine, nothing happens.
    pub fn modify(&self, change: impl Fn(&T) -> T) {
        while let Some(last) = self.last() {
            let value = Arc::new(change(&last.value));
            let next = Arc::new(Protected {
                name: Arc::clone(&last.name),
                value,
            });
            if self.exchange(&last, next) {
                return;
            }
        }
    }

    /// Writes a value if this is still the last one.
    fn exchange(&self, last: &Arc<Protected<T>>, next: Arc<Protected<T>>) -> bool {
        let key = self.source.key(last);
        let written = self.source.write(move |buffer| {
            let is_last = buffer.latest().pop().is_some_and(|(_, own)| Arc::ptr_eq(&own, last));
            if is_last {
                Ok(buffer.set(&key, next, Touch::Always))
            } else {
                Err(next)
            }
        });
        let is_written = !matches!(written, Some(Err(_)));
        panics::drop_each([written]);
        is_written
    }
}

impl<T: Send + Sync + 'static> Clone for RecomputeProtected<T> {
    fn clone(&self) -> Self {
        Self {
            source: self.source.clone(),
        }
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for RecomputeProtected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecomputeProtected")
            .field("name", &self.source.name())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trigger")
            .field("name", &self.source.name())
            .finish_non_exhaustive()
    }
}
