//! Which names a definition gets: those that no other definition of its group has.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{AcceptedNames, GROUP, PLURAL, nullable};
use crate::gotext::go_quote;
use crate::object::Object;
use crate::server::Shared;
use crate::storage::{Range, ResourceId};

/// The names that the definitions of a group have.
#[derive(Debug, Default)]
pub(super) struct Used {
    resources: HashSet<String>,
    kinds: HashSet<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    accepted_names: AcceptedNames,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Condition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

fn status(object: &Object) -> Status {
    // Canonical bytes of a decoded object.
    object
        .field("status")
        .and_then(|bytes| serde_json::from_slice(bytes).ok())
        .unwrap_or_default()
}

/// The names that a definition has.
pub(super) fn accepted(object: &Object) -> AcceptedNames {
    status(object).accepted_names
}

/// Whether a condition of a definition holds.
pub(super) fn is_true(object: &Object, condition: &str) -> bool {
    let conditions = status(object).conditions;
    conditions
        .iter()
        .any(|found| found.kind == condition && found.status == "True")
}

/// The names that are in use in a group.
pub(super) fn used(server: &Shared, id: ResourceId, group: &str) -> Used {
    let mut used = Used::default();
    for (name, version) in server.storage.all(id, Range::All) {
        if name.split_once('.').is_none_or(|(_, of)| of != group) {
            continue;
        }
        let names = accepted(&version.object.object());
        used.resources.extend([names.plural, names.singular]);
        used.resources.extend(names.short_names);
        used.kinds.extend([names.kind, names.list_kind]);
    }
    used
}

/// What becomes of the names that a definition asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) accepted: AcceptedNames,
    /// The reason and the text about names that others have.
    pub(super) conflict: Option<(&'static str, String)>,
}

impl Used {
    /// Why a name cannot be had, unless it is one's own or nobody's.
    fn refuse(&self, wanted: &str, own: &str, of_kinds: bool) -> Option<String> {
        let used = if of_kinds { &self.kinds } else { &self.resources };
        (wanted != own && used.contains(wanted)).then(|| format!("{} is already in use", go_quote(wanted)))
    }

    /// Decides about the names of a definition that has some already.
    pub(super) fn decide(&self, wanted: &AcceptedNames, own: &AcceptedNames) -> Decision {
        let mut accepted = own.clone();
        let mut conflict = None;
        let mut settle = |own: &mut String, wanted: &String, of_kinds, reason| {
            match self.refuse(wanted, own, of_kinds) {
                None => own.clone_from(wanted),
                // The last one is told.
                Some(text) => conflict = Some((reason, text)),
            }
        };
        settle(&mut accepted.plural, &wanted.plural, false, "PluralConflict");
        settle(&mut accepted.singular, &wanted.singular, false, "SingularConflict");
        let mut of_short_names = None;
        if wanted.short_names != own.short_names {
            let mut texts: Vec<String> = Vec::new();
            for name in wanted.short_names.iter().filter(|name| !own.short_names.contains(name)) {
                texts.extend(self.refuse(name, "", false).filter(|text| !texts.contains(text)));
            }
            match texts.as_slice() {
                [] => accepted.short_names.clone_from(&wanted.short_names),
                [one] => of_short_names = Some(one.clone()),
                many => of_short_names = Some(format!("[{}]", many.join(", "))),
            }
        }
        let mut of_kinds = None;
        let mut settle = |own: &mut String, wanted: &String, reason| match self.refuse(wanted, own, true) {
            None => own.clone_from(wanted),
            Some(text) => of_kinds = Some((reason, text)),
        };
        settle(&mut accepted.kind, &wanted.kind, "KindConflict");
        settle(&mut accepted.list_kind, &wanted.list_kind, "ListKindConflict");
        accepted.categories.clone_from(&wanted.categories);
        let of_short_names = of_short_names.map(|text| ("ShortNamesConflict", text));
        Decision {
            accepted,
            conflict: of_kinds.or(of_short_names).or(conflict),
        }
    }
}

/// The conditions of a definition after a decision about its names.
pub(super) fn conditions(old: &Value, decision: &Decision, now: &str) -> Value {
    let mut conditions = old.as_array().cloned().unwrap_or_default();
    let is_established = conditions
        .iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    let (status, reason, message) = match &decision.conflict {
        None => ("True", "NoConflicts", "no conflicts found"),
        Some((reason, text)) => ("False", *reason, text.as_str()),
    };
    set(&mut conditions, "NamesAccepted", [status, reason, message], now);
    if !is_established {
        let established = match decision.conflict {
            None => ["True", "InitialNamesAccepted", "the initial names have been accepted"],
            Some(_) => ["False", "NotAccepted", "not all names are accepted"],
        };
        set(&mut conditions, "Established", established, now);
    }
    conditions.into()
}

/// Sets a condition; its time stays unless its status changes.
pub(super) fn set(conditions: &mut Vec<Value>, kind: &str, [status, reason, message]: [&str; 3], now: &str) {
    let mut condition = json!({
        "type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message,
    });
    match conditions.iter_mut().find(|condition| condition["type"] == kind) {
        None => conditions.push(condition),
        Some(old) => {
            if old["status"] == status {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            if let Some(generation) = old.get("observedGeneration") {
                condition["observedGeneration"] = generation.clone();
            }
            *old = condition;
        }
    }
}

/// The collection of definitions.
pub(super) fn definitions(server: &Shared) -> Option<ResourceId> {
    let kinds = server.registry.snapshot();
    let resource = kinds.resource(GROUP, "v1", PLURAL)?;
    server.resource_id(resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(plural: &str, kind: &str, short: &[&str]) -> AcceptedNames {
        AcceptedNames {
            plural: plural.into(),
            singular: kind.to_lowercase(),
            short_names: short.iter().map(|&name| name.into()).collect(),
            kind: kind.into(),
            list_kind: format!("{kind}List"),
            categories: Vec::new(),
        }
    }

    #[test]
    fn names_that_others_have_are_refused_and_the_rest_is_accepted() {
        // [F17]
        let used = Used {
            resources: ["widgets", "widget", "wg"].map(str::to_owned).into(),
            kinds: ["Widget", "WidgetList"].map(str::to_owned).into(),
        };
        let nothing = AcceptedNames::default();
        let free = used.decide(&names("gizmos", "Gizmo", &["gz"]), &nothing);
        assert_eq!(free.conflict, None);
        assert_eq!(free.accepted, names("gizmos", "Gizmo", &["gz"]));
        let short = used.decide(&names("gizmos", "Gizmo", &["wg", "widgets", "x"]), &nothing);
        let text = r#"["wg" is already in use, "widgets" is already in use]"#;
        assert_eq!(short.conflict, Some(("ShortNamesConflict", text.to_owned())));
        assert_eq!(short.accepted.short_names, Vec::<String>::new());
        let kind = used.decide(&names("gizmos", "Widget", &[]), &nothing);
        let text = r#""WidgetList" is already in use"#;
        assert_eq!(kind.conflict, Some(("ListKindConflict", text.to_owned())));
        // What one has already stays one's own.
        let own = names("widgets", "Widget", &["wg"]);
        assert_eq!(used.decide(&own, &own).conflict, None);
    }
}
