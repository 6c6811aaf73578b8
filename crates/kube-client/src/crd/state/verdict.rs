//! Whether a kind is known, and why not: from its definition, or from what discovery lists.

use kube::core::GroupVersionResource;

use super::{Inner, Source, full_name};
use crate::crd::options::Rules;
use crate::crd::report::KindStatus;
use crate::crd::subscription::KindState;
use crate::crd::topic::{Identity, Verdict};
use crate::discovery::Lookup;
use crate::object::Scope;

impl Inner {
    /// Whether the kind is known; `None` if that cannot be said yet.
    pub(super) fn verdict(&self, rules: &Rules, kind: &GroupVersionResource) -> Option<Verdict> {
        self.judge(rules, kind, &mut |_| {})
    }

    /// The verdict, and the reason for it in words.
    pub(super) fn status(&self, rules: &Rules, kind: &GroupVersionResource) -> KindStatus {
        let mut reason = String::new();
        let verdict = self.judge(rules, kind, &mut |why| reason = why());
        let (state, scope) = match verdict {
            None => (None, Scope::Unknown),
            Some(Verdict::Unknown) => (Some(KindState::Unknown), Scope::Unknown),
            Some(Verdict::Known(identity)) => (Some(KindState::Known), identity.scope),
        };
        KindStatus { state, scope, reason }
    }

    /// Decides; `say` is called with the reason.
    fn judge(
        &self,
        rules: &Rules,
        kind: &GroupVersionResource,
        say: &mut dyn FnMut(&dyn Fn() -> String),
    ) -> Option<Verdict> {
        let name = full_name(kind);
        if rules.ignores(&name) {
            say(&|| "it matches a pattern that is ignored".to_owned());
            return Some(Verdict::Unknown);
        }
        let entry = self.definitions.get(name.as_str());
        if let Some(objection) = entry.and_then(|entry| entry.objection.as_ref()) {
            say(&|| objection.clone());
            return Some(Verdict::Unknown);
        }
        if let Some(entry) = entry
            && self.source != Source::Discovery
        {
            let definition = &entry.definition;
            if !definition.serves(&kind.version) {
                say(&|| definition.why_not(&kind.version).unwrap_or_default());
                return Some(Verdict::Unknown);
            }
            say(&|| "its definition serves it".to_owned());
            return Some(Verdict::Known(Identity {
                uid: Some(definition.metadata.uid.clone()),
                scope: definition.scope(),
            }));
        }
        // Also before anything else is known. Discovery lags behind.
        if entry.is_none() && self.gone.contains_key(name.as_str()) {
            say(&|| "its definition was deleted".to_owned());
            return Some(Verdict::Unknown);
        }
        let Some(apis) = self.apis.as_ref().filter(|_| self.source != Source::Starting) else {
            say(&|| "nothing has been read of the server yet".to_owned());
            return None;
        };
        // Discovery does not tell versions of bundles.
        if entry.is_none() && rules.has_minimum(&name) {
            say(&|| "it needs a minimum version, and there is no definition to tell it".to_owned());
            return Some(Verdict::Unknown);
        }
        if let Some(listed) = apis.find(&Lookup::from(kind)) {
            say(&|| "discovery lists it".to_owned());
            return Some(Verdict::Known(Identity {
                uid: None,
                scope: listed.scope(),
            }));
        }
        if let Some(unavailable) = apis.cannot_tell(&kind.group, Some(&kind.version)) {
            // It may be served all the same: neither can be said.
            say(&|| format!("discovery cannot tell: {unavailable}"));
            return None;
        }
        say(&|| "it has no definition, and discovery does not list it".to_owned());
        Some(Verdict::Unknown)
    }

    /// Whether discovery alone can tell of what has this full name.
    pub(super) fn only_discovery_tells(&self, rules: &Rules, name: &str) -> bool {
        !self.definitions.contains_key(name) && !rules.ignores(name) && !rules.has_minimum(name)
    }
}
