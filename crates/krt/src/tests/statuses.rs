//! Status collections: statuses and outputs of one transformation.

use super::*;
use crate::WithStatus;

type Statuses = Collection<WithStatus<Item, String>>;

fn status_line(event: &Event<WithStatus<Item, String>>) -> String {
    let status = |one: Option<&Arc<WithStatus<Item, String>>>| {
        one.map_or(String::new(), |one| format!("{}@{}", one.status(), one.object().value))
    };
    let key = event.latest().key();
    format!("{key}: {} > {}", status(event.old()), status(event.new()))
}

fn follow(log: &Log, statuses: &Statuses) -> crate::Registration {
    let log = log.clone();
    statuses.on_change(move |event| log.add(status_line(event)))
}

/// The status is the value's parity, none for 0; the output is the value without its last digit, none for negative ones.
fn parities(rig: &Rig, source: &Collection<Item>) -> (Statuses, Collection<Item>) {
    rig.krt.status_collection("tens", source, |_, item| {
        assert!(item.value != 13, "unlucky");
        let parity = if item.value % 2 == 0 { "even" } else { "odd" };
        let output = Item::new(&item.name, item.value / 10);
        (
            (item.value != 0).then(|| parity.to_owned()),
            (item.value >= 0).then_some(output),
        )
    })
}

// [K21] an event only when the status or the object changes; None deletes; the status goes with its input
#[test]
fn a_status_follows_its_object() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 20), ("b", 31), ("c", 0)]);
    let (statuses, tens) = parities(&rig, &source);
    let (log, outputs) = (Log::default(), Log::default());
    let (registration, _outputs) = (follow(&log, &statuses), outputs.follow(&tens));
    rig.settle();
    assert!(registration.has_synced() && statuses.has_synced() && tens.has_synced());
    assert_eq!((tens.name(), statuses.name()), ("tens", "tens (status)"));
    assert_eq!(log.take(), ["a:  > even@20", "b:  > odd@31"]);
    assert_eq!(outputs.take(), ["+a=2", "+b=3", "+c=0"]);
    // Set once more, nothing differs.
    source.update(Item::new("a", 20));
    rig.settle();
    assert_eq!((log.take(), outputs.take()), (vec![], vec![]));
    // The object changes, its status does not, nor does the output.
    source.update(Item::new("a", 22));
    rig.settle();
    assert_eq!(
        (log.take(), outputs.take()),
        (vec!["a: even@20 > even@22".to_owned()], vec![])
    );
    // Both change, in one epoch.
    source.update(Item::new("a", 33));
    assert!(rig.step());
    assert_eq!(
        (
            statuses.get("a").unwrap().status().as_str(),
            tens.get("a").unwrap().value
        ),
        ("odd", 3)
    );
    rig.settle();
    assert_eq!(log.take(), ["a: even@22 > odd@33"]);
    assert_eq!(outputs.take(), ["a=2>3"]);
    // No status, but an output; then the other way round.
    source.update(Item::new("a", 0));
    source.update(Item::new("b", -1));
    rig.settle();
    assert_eq!(log.take(), ["a: odd@33 > ", "b: odd@31 > odd@-1"]);
    assert_eq!(outputs.take(), ["-b=3", "a=3>0"]);
    source.delete("b");
    source.delete("c");
    rig.settle();
    assert_eq!(log.take(), ["b: odd@-1 > "]);
    assert_eq!(outputs.take(), ["-c=0"]);
}

// [K21] a status that depends on what is fetched changes with it, and with nothing else
#[test]
fn a_status_follows_what_it_fetched() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1), ("b", 2)]);
    let limits = items(&rig, "limits", &[("a", 5)]);
    let fetched = limits.clone();
    let (statuses, outputs) = rig.krt.status_many_collection("limited", &source, move |cx, item| {
        let limit = cx.fetch_one(fetched.query().key(&item.name)).map(|limit| limit.value);
        let outputs =
            (0..item.value.min(limit.unwrap_or(0))).map(|number| Item::new(&format!("{}{number}", item.name), 0));
        (limit.map(|limit| format!("limit {limit}")), outputs.collect::<Vec<_>>())
    });
    let log = Log::default();
    let _handler = follow(&log, &statuses);
    rig.settle();
    assert_eq!(log.take(), ["a:  > limit 5@1"]);
    assert_eq!(content(&outputs), ["a0=0"]);
    limits.update(Item::new("b", 9));
    rig.settle();
    assert_eq!(log.take(), ["b:  > limit 9@2"]);
    assert_eq!(content(&outputs), ["a0=0", "b0=0", "b1=0"]);
    limits.delete("a");
    rig.settle();
    assert_eq!(log.take(), ["a: limit 5@1 > "]);
    assert_eq!(content(&outputs), ["b0=0", "b1=0"]);
}

// A run that panics leaves both the status and the output as they are.
#[test]
fn a_status_survives_a_panic() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 20)]);
    let (statuses, tens) = parities(&rig, &source);
    rig.settle();
    source.update(Item::new("a", 13));
    rig.settle();
    assert_eq!(statuses.get("a").unwrap().object().value, 20);
    assert_eq!(content(&tens), ["a=2"]);
    source.delete("a");
    rig.settle();
    assert!(statuses.is_empty() && tens.is_empty());
    drop((source, statuses, tens));
    rig.settle();
    assert_eq!(rig.stepper.collections(), 0);
}
