//! Lists whose pieces several threads decode.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Barrier, mpsc};

use futures_util::FutureExt;

use super::*;
use crate::informer::transform::Transform;

/// A list in which names come several times, and some objects do not decode; what each name comes to; and how many do not.
fn mixed(objects: u64) -> (Vec<String>, Vec<String>, usize) {
    let mut left = BTreeMap::new();
    let mut bad = 0;
    let items = (0..objects).map(|n| {
        let name = format!("i{}", n % (objects - objects / 10));
        if n % 50 == 7 {
            bad += 1;
            return format!(r#"{{"metadata":{{"name":"bad{n}","namespace":"n"}},"value":7}}"#);
        }
        left.insert(name.clone(), format!("{name}@{n}"));
        item_json(&name, "u", n)
    });
    let items = items.collect();
    let mut left: Vec<String> = left.into_values().collect();
    left.sort_unstable();
    (items, left, bad)
}

// [I14] [I21] whichever thread decodes which piece: the last of a name counts, and each bad object is told, in both forms
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_list_comes_to_what_its_order_says() {
    let (items, left, bad) = mixed(1_000);
    for streaming in [false, true] {
        let script = Script::new();
        let rig = if streaming {
            let stream = script.stream();
            for item in &items {
                stream.send(&event("ADDED", item));
            }
            stream.send(&end_bookmark("9000"));
            rig(&script, in_pieces(InformerOptions::default()))
        } else {
            script.json(&list("9000", &items));
            rig(&script, in_pieces(paged()))
        };
        rig.informer.synced().await.unwrap();
        assert_eq!(rig.values(), left);
        assert_eq!(rig.kinds(), vec![WatchErrorKind::Undecodable; bad]);
        rig.end().await;
    }
}

// [I14] what is no new object takes its turn among those that are: a deletion between two versions of one name
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_streaming_list_keeps_deletions_in_their_place() {
    let script = Script::new();
    let stream = script.stream();
    for n in 0..300 {
        let name = format!("i{n}");
        stream.send(&event("ADDED", &item_json(&name, "u", 1)));
        if n % 3 == 0 {
            stream.send(&event("DELETED", &item_json(&name, "u", 2)));
        }
        if n % 6 == 0 {
            stream.send(&event("ADDED", &item_json(&name, "v", 3)));
        }
    }
    stream.send(&end_bookmark("9"));
    let rig = rig(&script, in_pieces(InformerOptions::default()));
    rig.informer.synced().await.unwrap();
    let expected = (0..300).filter(|n| n % 3 != 0 || n % 6 == 0);
    let mut expected: Vec<String> = expected
        .map(|n| format!("i{n}@{}", if n % 6 == 0 { 3 } else { 1 }))
        .collect();
    expected.sort_unstable();
    assert_eq!(rig.values(), expected);
    assert_eq!(rig.kinds(), []);
    rig.end().await;
}

// Three pieces of two objects, and three threads, each of which waits for the other two.
#[tokio::test(flavor = "current_thread")]
async fn pieces_are_decoded_at_the_same_time() {
    let script = Script::new();
    let items: Vec<String> = (0..6).map(|n| item_json(&format!("i{n}"), "u", n)).collect();
    script.json(&list("9", &items));
    let (all, threads) = (Arc::new(Barrier::new(3)), Arc::new(Mutex::new(HashSet::new())));
    let meet = Transform::new("meet", {
        let threads = Arc::clone(&threads);
        move |_: &mut Item| {
            all.wait();
            threads.lock().insert(std::thread::current().id());
        }
    });
    let rig = rig(&script, in_pieces(paged()).transform(meet));
    rig.informer.synced().await.unwrap();
    assert_eq!((rig.values().len(), threads.lock().len()), (6, 3));
    rig.end().await;
}

// [I13] a stop waits for the piece that another thread is at, and for no other
#[tokio::test(flavor = "current_thread")]
async fn stop_waits_for_the_piece_under_way() {
    let script = Script::new();
    let stream = script.stream();
    let (begun, begins) = tokio::sync::oneshot::channel();
    let (go_on, waits) = mpsc::channel::<()>();
    let (begun, waits) = (Mutex::new(Some(begun)), Mutex::new(Some(waits)));
    let stuck = Transform::new("stuck", move |_: &mut Item| {
        let first = begun.lock().take();
        if let Some(begun) = first {
            let waits = waits.lock().take().unwrap();
            begun.send(()).unwrap();
            waits.recv().unwrap();
        }
    });
    let rig = rig(&script, in_pieces(paged()).transform(stuck));
    stream.send(r#"{"metadata":{"resourceVersion":"9"},"items":["#);
    stream.send(&format!("{},", item_json("a", "u", 1)));
    stream.send(&format!("{},", item_json("b", "u", 2)));
    begins.await.unwrap();
    let mut shutdown = Box::pin(rig.client.shutdown());
    for _ in 0..100 {
        assert!(
            shutdown.as_mut().now_or_never().is_none(),
            "code of the user's is running"
        );
        tokio::task::yield_now().await;
    }
    go_on.send(()).unwrap();
    shutdown.await;
    rig.end().await;
}
