//! List, then watch: the two together lose nothing, whoever writes meanwhile. [F7]

use std::collections::BTreeMap;

use fastrand::Rng;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Namespace, Server, cases, version};

const WRITERS: u64 = 16;

/// A few random writes to the four objects of a namespace; each may lose a race, none may fail otherwise.
async fn write(server: &Server, namespace: &Namespace, rng: &mut Rng) {
    for _ in 0..4 {
        let name = ["a", "b", "c", "d"][rng.usize(..4)];
        let path = namespace.at(&format!("configmaps/{name}"));
        let value = json!({"metadata": {"name": name}, "data": {"value": rng.u32(..).to_string()}});
        let answer = match rng.u8(..4) {
            0 => server.delete(&path).await,
            1 => server.merge(&path, &value).await,
            2 => server.put(&path, &value).await,
            _ => server.post(&namespace.at("configmaps"), &value).await,
        };
        assert!([200, 201, 404, 409].contains(&answer.code), "{answer}");
        tokio::task::yield_now().await;
    }
}

fn by_name(list: &Value) -> BTreeMap<String, Value> {
    let items = list["items"].as_array().expect("a list has items");
    items
        .iter()
        .map(|item| {
            (
                item["metadata"]["name"].as_str().expect("a name").to_owned(),
                item.clone(),
            )
        })
        .collect()
}

/// One history: returns what the list and the watch's events fold to, and the list at the end.
async fn fold(server: &Server, seed: u64) -> (BTreeMap<String, Value>, BTreeMap<String, Value>) {
    let namespace = server.namespace().await;
    let list_path = namespace.at("configmaps");
    let mut writers: Vec<_> = (0..WRITERS)
        .map(|writer| Rng::with_seed(seed.wrapping_mul(31).wrapping_add(writer)))
        .collect();
    let writing = async {
        join_all(writers.iter_mut().map(|rng| write(server, &namespace, rng))).await;
        namespace.config_map("the-end").await;
    };
    let watching = async {
        // Listed in the middle of the writes, and watched from there.
        for _ in 0..seed % 40 {
            tokio::task::yield_now().await;
        }
        let list = server.get(&list_path).await.ok();
        let mut state = by_name(&list);
        let mut newest = version(&list);
        let mut watch = server
            .watch(&format!("{list_path}?watch=1&resourceVersion={newest}"))
            .await;
        loop {
            let event = watch.next().await;
            assert!(
                event.version() > newest,
                "seed {seed}: {} after {newest}: {event:?}",
                event.version()
            );
            newest = event.version();
            let (name, mut object) = (event.name().to_owned(), event.object.clone());
            // A list of a built-in kind does not repeat the kind in each item, a watch event does.
            object
                .as_object_mut()
                .expect("an object")
                .retain(|key, _| key != "kind" && key != "apiVersion");
            let known = state.contains_key(&name);
            match event.kind.as_str() {
                "ADDED" => assert!(!known, "seed {seed}: {name} was there: {event:?}"),
                "MODIFIED" | "DELETED" => assert!(known, "seed {seed}: {name} was not there: {event:?}"),
                _ => panic!("seed {seed}: {event:?}"),
            }
            if event.kind == "DELETED" {
                state.remove(&name);
            } else {
                state.insert(name.clone(), object);
            }
            if name == "the-end" {
                return state;
            }
        }
    };
    let ((), state) = tokio::join!(writing, watching);
    (state, by_name(&server.get(&list_path).await.ok()))
}

// [F7] list at r, watch from r, under 16 writers: the events fold to the final list, and versions only grow
async fn a_watch_from_the_version_of_a_list_folds_to_the_final_list(server: Server) {
    let first = std::env::var("HISTORY_SEED").map_or_else(
        |_| fastrand::u64(..1 << 40),
        |text| text.parse().expect("HISTORY_SEED is a number"),
    );
    println!("HISTORY_SEED={first}");
    let histories = if server.in_memory().is_some() { 1_000 } else { 2 };
    for seed in first..first + histories {
        let (folded, listed) = fold(&server, seed).await;
        assert_eq!(folded, listed, "seed {seed}");
    }
}

cases![a_watch_from_the_version_of_a_list_folds_to_the_final_list];
