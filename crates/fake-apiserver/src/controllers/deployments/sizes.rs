//! How many pods a deployment may have while it changes.

use serde_json::Value;

use super::sets::Set;
use crate::controllers::owned::number;
use crate::controllers::world::text;

pub(super) fn replicas(deployment: &Value) -> i64 {
    number(deployment, "/spec/replicas")
}

fn is_rolling(deployment: &Value) -> bool {
    text(deployment, "/spec/strategy/type") == "RollingUpdate"
}

#[derive(Clone, Copy)]
enum Round {
    Up,
    Down,
}

/// A number, or a share of `total`.
fn scaled(value: &Value, total: i64, round: Round) -> i64 {
    if let Some(number) = value.as_i64() {
        return number;
    }
    let percent = value.as_str().and_then(|text| text.strip_suffix('%'));
    let percent: i64 = percent.and_then(|text| text.parse().ok()).unwrap_or_default();
    match round {
        Round::Up => (total * percent + 99).div_euclid(100),
        Round::Down => (total * percent).div_euclid(100),
    }
}

/// How many pods there may be beyond those that are wanted.
pub(super) fn surge(deployment: &Value) -> i64 {
    if !is_rolling(deployment) {
        return 0;
    }
    let rolling = &deployment["spec"]["strategy"]["rollingUpdate"];
    scaled(&rolling["maxSurge"], replicas(deployment), Round::Up)
}

/// How many of the pods that are wanted may be missing.
pub(super) fn unavailable(deployment: &Value) -> i64 {
    let wanted = replicas(deployment);
    if !is_rolling(deployment) || wanted == 0 {
        return 0;
    }
    let rolling = &deployment["spec"]["strategy"]["rollingUpdate"];
    let unavailable = scaled(&rolling["maxUnavailable"], wanted, Round::Down);
    // With neither, nothing could ever change.
    let at_least = i64::from(surge(deployment) == 0);
    unavailable.max(at_least).min(wanted)
}

/// The size that the newest replica set should have now, given all of them.
pub(super) fn of_newest(deployment: &Value, total: i64, newest: i64) -> i64 {
    let wanted = replicas(deployment);
    if !is_rolling(deployment) {
        return wanted;
    }
    let room = wanted + surge(deployment) - total;
    if room <= 0 {
        return newest;
    }
    newest + room.min(wanted - newest)
}

/// How much of a change in size falls to a replica set.
pub(super) fn proportion(deployment: &Value, set: &Set, to_add: i64, added: i64) -> i64 {
    let size = set.replicas();
    if size == 0 || to_add == 0 || to_add == added {
        return 0;
    }
    let fraction = fraction(deployment, set);
    let allowed = to_add - added;
    if to_add > 0 {
        fraction.min(allowed)
    } else {
        fraction.max(allowed)
    }
}

fn fraction(deployment: &Value, set: &Set) -> i64 {
    let size = set.replicas();
    if replicas(deployment) == 0 {
        return -size;
    }
    let before = set.most().filter(|most| *most != 0);
    let before = before.unwrap_or_else(|| number(deployment, "/status/replicas"));
    if before == 0 {
        return 0;
    }
    let most = replicas(deployment) + surge(deployment);
    // Half of one counts as one.
    let new = (2 * size * most + before).div_euclid(2 * before);
    new - size
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_are_rounded_so_that_something_can_change() {
        let deployment = |replicas: i64, surge: Value, unavailable: Value| {
            json!({"spec": {"replicas": replicas, "strategy": {
                "type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
            }}})
        };
        for (replicas, surges, unavailables, expected) in [
            (10, json!("25%"), json!("25%"), (3, 2)),
            (1, json!("25%"), json!("25%"), (1, 0)),
            (3, json!(0), json!("10%"), (0, 1)),
            (2, json!(1), json!(5), (1, 2)),
            (0, json!("25%"), json!(1), (0, 0)),
        ] {
            let deployment = deployment(replicas, surges, unavailables);
            assert_eq!((surge(&deployment), unavailable(&deployment)), expected, "{deployment}");
        }
        let recreate = json!({"spec": {"replicas": 3, "strategy": {"type": "Recreate"}}});
        assert_eq!((surge(&recreate), unavailable(&recreate)), (0, 0));
        let rolling = deployment(4, json!(1), json!(1));
        assert_eq!(of_newest(&rolling, 4, 0), 1);
        assert_eq!(of_newest(&rolling, 5, 1), 1);
        assert_eq!(of_newest(&rolling, 1, 1), 4);
    }
}
