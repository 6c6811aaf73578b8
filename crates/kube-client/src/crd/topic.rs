//! One kind and who follows it: whether it is known, which of its lives this is, and what each follower was told last.
//!
//! Lives under the lock of `state`. Constant size per follower, however often the kind comes and goes.
//!
//! # Design
//!
//! Each time that a kind becomes known is a *life* of it, with a number. A life ends when the kind is unknown, and when
//! another definition shows in its place (another uid or scope), of which the end was not seen. A follower keeps the
//! number that it was told of, so that it learns of an end however late it looks. Knowledge may change its source within a
//! life: what discovery says has no uid and contradicts none.

use kube::core::GroupVersionResource;

use crate::crd::subscription::KindState;
use crate::object::Scope;
use crate::sync::Waiters;

/// Called with each change.
pub(super) type Change = Box<dyn FnMut(KindState) + Send>;

/// What is known of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is served, by this.
    Known(Identity),
    Unknown,
}

/// What serves a kind, as far as it can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    /// The uid of its definition; `None` if discovery alone says so.
    pub(super) uid: Option<Box<str>>,
    pub(super) scope: Scope,
}

impl Identity {
    /// Whether both cannot be the same.
    fn contradicts(&self, other: &Identity) -> bool {
        let uids = self.uid.as_ref().zip(other.uid.as_ref());
        let scopes = [self.scope, other.scope];
        uids.is_some_and(|(one, other)| one != other) || (scopes[0] != scopes[1] && !scopes.contains(&Scope::Unknown))
    }

    /// Adds what was not known before.
    fn learn(&mut self, other: Identity) {
        if other.uid.is_some() {
            self.uid = other.uid;
        }
        if other.scope != Scope::Unknown {
            self.scope = other.scope;
        }
    }
}

/// Whether a kind is there, and in which of its lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Known(u64),
    Unknown,
}

/// What a follower was told last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Told(Option<Standing>);

impl Told {
    /// What to tell next.
    fn next(self, current: Option<Standing>) -> Option<(Standing, KindState)> {
        match (self.0, current?) {
            (Some(told), current) if told == current => None,
            // The life that was told of is over, even if another one has begun.
            (Some(Standing::Known(_)), _) | (_, Standing::Unknown) => Some((Standing::Unknown, KindState::Unknown)),
            (_, known @ Standing::Known(_)) => Some((known, KindState::Known)),
        }
    }
}

/// A kind in one version, with whoever follows it.
pub(super) struct Topic {
    pub(super) kind: GroupVersionResource,
    // `None` until it can be said.
    standing: Option<Standing>,
    // Invariant: of the life that `standing` tells, or of the last one.
    identity: Identity,
    lives: u64,
    pub(super) subscribers: usize,
    pub(super) waiters: Waiters,
    pub(super) handlers: Vec<Handler>,
}

/// One who is called with each change.
pub(super) struct Handler {
    pub(super) id: u64,
    told: Told,
    // A call is due and queued.
    queued: bool,
    // `None` while it is called.
    change: Option<Change>,
}

impl Topic {
    pub(super) fn new(kind: &GroupVersionResource, verdict: Option<Verdict>) -> Self {
        let mut topic = Self {
            kind: kind.clone(),
            standing: None,
            identity: Identity {
                uid: None,
                scope: Scope::Unknown,
            },
            lives: 0,
            subscribers: 0,
            waiters: Waiters::default(),
            handlers: Vec::new(),
        };
        topic.set(verdict);
        topic
    }

    /// Takes a verdict in. True if there is something to tell. What could be said once is not taken back to "cannot be
    /// said".
    pub(super) fn set(&mut self, verdict: Option<Verdict>) -> bool {
        let standing = match (verdict, self.standing) {
            (None, _) | (Some(Verdict::Unknown), Some(Standing::Unknown)) => return false,
            (Some(Verdict::Unknown), _) => Standing::Unknown,
            (Some(Verdict::Known(identity)), Some(Standing::Known(_))) if !self.identity.contradicts(&identity) => {
                self.identity.learn(identity);
                return false;
            }
            (Some(Verdict::Known(identity)), _) => {
                self.lives += 1;
                self.identity = identity;
                Standing::Known(self.lives)
            }
        };
        self.standing = Some(standing);
        true
    }

    /// What to tell one who was told `told`, which becomes that.
    pub(super) fn tell(&self, told: &mut Told) -> Option<KindState> {
        let (standing, state) = told.next(self.standing)?;
        *told = Told(Some(standing));
        Some(state)
    }

    /// Whether nobody follows it.
    pub(super) fn is_idle(&self) -> bool {
        self.subscribers == 0 && self.handlers.is_empty()
    }

    pub(super) fn add_handler(&mut self, id: u64, change: Change) {
        self.handlers.push(Handler {
            id,
            told: Told::default(),
            queued: false,
            change: Some(change),
        });
    }

    /// The handlers that have a call due and not queued yet; they count as queued from now on.
    pub(super) fn queue_handlers(&mut self) -> impl Iterator<Item = u64> {
        let standing = self.standing;
        self.handlers.iter_mut().filter_map(move |handler| {
            let due = !handler.queued && handler.change.is_some() && handler.told.next(standing).is_some();
            handler.queued |= due;
            due.then_some(handler.id)
        })
    }

    /// Takes the call out that was queued for a handler, if it is still there and due.
    pub(super) fn take_call(&mut self, id: u64) -> Option<(KindState, Change)> {
        let standing = self.standing;
        let handler = self.handlers.iter_mut().find(|handler| handler.id == id)?;
        handler.queued = false;
        let (told, state) = handler.told.next(standing)?;
        let change = handler.change.take()?;
        handler.told = Told(Some(told));
        Some((state, change))
    }

    /// Gives a handler back what it is called by, after a call. Returns it if the handler was removed meanwhile.
    #[must_use = "drop it after the lock is released"]
    pub(super) fn put_back(&mut self, id: u64, change: Change) -> Option<Change> {
        match self.handlers.iter_mut().find(|handler| handler.id == id) {
            Some(handler) => handler.change.replace(change),
            None => Some(change),
        }
    }

    /// Forgets a handler.
    #[must_use = "drop it after the lock is released"]
    pub(super) fn remove_handler(&mut self, id: u64) -> Option<Handler> {
        let at = self.handlers.iter().position(|handler| handler.id == id)?;
        Some(self.handlers.remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(uid: &str) -> Verdict {
        known(Some(uid), Scope::Cluster)
    }

    fn known(uid: Option<&str>, scope: Scope) -> Verdict {
        let uid = uid.map(Into::into);
        Verdict::Known(Identity { uid, scope })
    }

    // [I32] a follower that lags gets the net change, and learns of every end, however it came about
    #[test]
    fn follower_gets_net_changes_and_misses_no_end() {
        use KindState::{Known, Unknown};
        let kind = GroupVersionResource::gvr("x.io", "v1", "widgets");
        let mut topic = Topic::new(&kind, None);
        let mut told = Told::default();
        let mut all = |verdicts: &[Verdict]| {
            for verdict in verdicts {
                topic.set(Some(verdict.clone()));
            }
            std::iter::from_fn(|| topic.tell(&mut told)).collect::<Vec<_>>()
        };
        let unknown = || Verdict::Unknown;
        let discovered = || known(None, Scope::Cluster);
        assert_eq!(all(&[]), []);
        assert_eq!(all(&[unknown()]), [Unknown]);
        assert_eq!(all(&[by("1"), unknown()]), [], "what came and went");
        assert_eq!(all(&[by("1")]), [Known]);
        assert_eq!(
            all(&[discovered(), by("1"), discovered()]),
            [],
            "one life, known from here and there"
        );
        assert_eq!(
            all(&[unknown(), by("1")]),
            [Unknown, Known],
            "it was not served for a time"
        );
        assert_eq!(all(&[by("2")]), [Unknown, Known], "replaced");
        assert_eq!(
            all(&[discovered(), by("3")]),
            [Unknown, Known],
            "replaced while discovery alone spoke"
        );
        assert_eq!(
            all(&[unknown(), discovered(), unknown(), discovered()]),
            [Unknown, Known],
            "of lives without a uid, too"
        );
        assert_eq!(all(&[by("4")]), [], "the same life, now by its definition");
        assert_eq!(
            all(&[known(None, Scope::Namespaced)]),
            [Unknown, Known],
            "another scope is another definition"
        );
        assert_eq!(all(&[known(None, Scope::Unknown)]), [], "which says nothing");
        assert_eq!(all(&[known(None, Scope::Cluster)]), [Unknown, Known]);
        assert_eq!(all(&[unknown()]), [Unknown]);
        topic.set(None);
        assert_eq!(topic.tell(&mut told), None, "nothing is taken back");
    }
}
