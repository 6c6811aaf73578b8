//! Writes of several threads, and what everybody else sees of them.

use futures_util::StreamExt;

use super::*;

// [K26] [K32] [K36] whichever way the writes of several threads cross: none is lost, each handler and stream folds to the content, and
// what one thread writes to a key is told in its order
#[test]
fn model_writes_of_several_threads_reach_everybody() {
    model(SCHEDULES, writes_reach_everybody);
}

pub(super) fn writes_reach_everybody() {
    let krt = started();
    let source = krt.static_collection("source", [Item::new("a", 0)]);
    let odd = krt.collection("odd", &source, |_, item| {
        (item.value % 2 == 1).then(|| Item::new(&item.name, item.value * 10))
    });
    let (merged, all, derived) = (Fold::default(), Fold::default(), Fold::default());
    let registrations = [merged.follow(&source), all.follow_all(&source), derived.follow(&odd)];
    let (streamed, mut stream) = (Fold::default(), odd.subscribe());
    let fold = streamed.clone();
    let polled = thread::spawn(move || {
        block_on(async {
            while let Some(batch) = stream.next().await {
                fold.take(&batch);
            }
        });
    });
    let writers = [1, 2].map(|number| {
        let (krt, source) = (krt.clone(), source.clone());
        let body = move || {
            let [own, gone] = ["own", "gone"].map(|name| format!("{name}{number}"));
            source.update(Item::new(&own, 1));
            source.update(Item::new(&gone, 1));
            krt.transaction(|t| {
                t.update(&source, Item::new(&own, 2));
                t.update(&source, Item::new("both", number));
            });
            source.delete(gone.as_str());
            source.update(Item::new(&own, 3));
        };
        Box::new(body) as Box<dyn FnOnce() + Send>
    });
    at_once(writers);
    block_on(krt.settled());
    let lines = content(&source);
    let both = lines.iter().find(|line| line.starts_with("both=")).cloned().unwrap();
    assert!(["both=1", "both=2"].contains(&&*both));
    assert_eq!(lines, ["a=0", both.as_str(), "own1=3", "own2=3"]);
    merged.assert_is(&source);
    all.assert_is(&source);
    derived.assert_is(&odd);
    assert!(registrations.iter().all(Registration::has_synced));
    end(krt);
    polled.join().unwrap();
    streamed.assert_is(&odd);
}

// [K26] [K36] a transaction is seen whole or not at all: by snapshots, by what is computed, and by handlers of several collections; and
// nothing goes back
#[test]
fn model_transactions_amid_snapshots() {
    model(SCHEDULES, || {
        let krt = started();
        let [left, right] = ["left", "right"].map(|name| krt.static_collection(name, [Item::new("k", 0)]));
        let other = right.clone();
        let difference = krt.collection("difference", &left, move |cx, item| {
            let right = cx.fetch_one(other.query()).map_or(-1, |item| item.value);
            Some(Item::new("k", item.value - right))
        });
        // The two sources come in an epoch each, perhaps.
        block_on(krt.settled());
        let wrong: Arc<Mutex<Vec<String>>> = Arc::default();
        let (told, derived) = (Arc::clone(&wrong), difference.clone());
        let registration = krt.on_epoch((&left, &right), move |epoch| {
            let (left, right) = epoch.changes();
            let values =
                [left, right].map(|batch| batch.events().next().and_then(|event| event.new().map(|new| new.value)));
            let difference = epoch.snapshot().get(&derived, "k").map(|item| item.value);
            if values[0] != values[1] || difference != Some(0) {
                told.lock().push(format!("{values:?} {difference:?}"));
            }
        });
        let writer = {
            let (krt, left, right) = (krt.clone(), left.clone(), right.clone());
            move || {
                for value in 1..4 {
                    krt.transaction(|t| {
                        t.update(&left, Item::new("k", value));
                        t.update(&right, Item::new("k", value));
                    });
                }
            }
        };
        let readers = [(); 2].map(|()| {
            let (krt, left, right, difference) = (krt.clone(), left.clone(), right.clone(), difference.clone());
            move || {
                let mut last = (0, 0);
                for _ in 0..3 {
                    let snapshot = krt.snapshot();
                    let [left, right, difference] =
                        [&*left, &right, &difference].map(|one| snapshot.get(one, "k").unwrap().value);
                    assert_eq!((left, difference), (right, 0));
                    assert!(last <= (snapshot.epoch(), left), "nothing goes back");
                    last = (snapshot.epoch(), left);
                }
            }
        });
        let [first, second] = readers;
        at_once([Box::new(writer), Box::new(first), Box::new(second)]);
        block_on(krt.settled());
        assert_eq!([&*left, &right, &difference].map(content), [["k=3"], ["k=3"], ["k=0"]]);
        assert_eq!(*wrong.lock(), [""; 0]);
        registration.remove();
        // Old versions go with the last one who looks at them, be it a handler whose batch counts as handled already.
        eventually(|| [left.retained(), right.retained(), difference.retained()] == [0; 3]);
        end(krt);
    });
}

// [K26] what only some threads read by is kept: an index whose first lookup comes amid writes finds what is there
#[test]
fn model_lookups_amid_writes() {
    model(SCHEDULES, || {
        let krt = started();
        let source = krt.static_collection("source", [Item::new("a", 1), Item::new("b", 2)]);
        let by_value = source.index_by("value", |item| item.value % 2).unwrap();
        block_on(krt.settled());
        let writer = {
            let source = source.clone();
            move || {
                source.update(Item::new("c", 3));
                source.update(Item::new("a", 2));
            }
        };
        let reader = {
            let krt = krt.clone();
            move || {
                for _ in 0..3 {
                    let snapshot = krt.snapshot();
                    let odd = snapshot.lookup(&by_value, &1);
                    let odd: Vec<_> = odd.iter().map(|item| item.name.as_str()).collect();
                    assert!([&["a"][..], &["a", "c"], &["c"]].contains(&&odd[..]), "{odd:?}");
                }
                by_value
            }
        };
        let (writer, reader) = (thread::spawn(writer), thread::spawn(reader));
        writer.join().unwrap();
        let by_value = reader.join().unwrap();
        block_on(krt.settled());
        let odd: Vec<_> = by_value.lookup(&1).iter().map(|item| item.name.clone()).collect();
        assert_eq!(odd, ["c"]);
        end(krt);
    });
}
