//! The finalizer helper: put on before the first apply, taken away after the clean-up, others' left alone. [W4]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kclient::finalizer::{Event, finalizer};
use kclient::queue::{Action, ReconcileError};
use kclient::{Client, Filter, ObjectKey, Patch, PatchParams, Subresource, Writer, WriterExt};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use serde_json::json;

use super::{cluster, key, map, maps};
use crate::harness::{Namespace, Server, cases};

const OURS: &str = "example.com/ours";
const THEIRS: &str = "example.com/theirs";

/// What the helper asked for, with the finalizers that the object had.
type Asked = Arc<Mutex<Vec<(&'static str, Vec<String>)>>>;

/// One round of a reconciler, whose part ends as `outcome` says.
async fn round(
    maps: &Client<ConfigMap>,
    object: &ConfigMap,
    asked: &Asked,
    outcome: Result<Action, ReconcileError>,
) -> Result<Action, ReconcileError> {
    finalizer(maps, OURS, Arc::new(object.clone()), |event| async move {
        let (what, object) = match event {
            Event::Apply(object) => ("apply", object),
            Event::Cleanup(object) => ("cleanup", object),
        };
        let finalizers = object.metadata.finalizers.clone().unwrap_or_default();
        asked.lock().unwrap().push((what, finalizers));
        outcome
    })
    .await
}

fn taken(asked: &Asked) -> Vec<(&'static str, Vec<String>)> {
    std::mem::take(&mut *asked.lock().unwrap())
}

fn names(finalizers: &[&str]) -> Vec<String> {
    finalizers.iter().map(|name| (*name).to_owned()).collect()
}

/// Lets somebody else change the finalizers.
async fn set_finalizers(maps: &Client<ConfigMap>, key: &ObjectKey, finalizers: &[&str]) -> ConfigMap {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    maps.patch(key, &patch, Subresource::Main, &PatchParams::default())
        .await
        .unwrap()
}

async fn created(maps: &Client<ConfigMap>, namespace: &Namespace, finalizers: &[&str]) -> ConfigMap {
    let mut object = map(namespace, "a", "1");
    object.metadata.finalizers = Some(names(finalizers)).filter(|finalizers| !finalizers.is_empty());
    maps.create_object(&object).await.unwrap()
}

// [W4] the whole life: put on, applied, applied again, cleaned up, gone
async fn an_object_lives_until_it_is_cleaned_up(server: Server) {
    let namespace = server.namespace().await;
    let (maps, of, asked) = (maps(&server), key(&namespace, "a"), Asked::default());
    let bare = created(&maps, &namespace, &[]).await;
    let later = Action::RequeueAfter(Duration::from_mins(1));
    assert_eq!(round(&maps, &bare, &asked, Ok(later)).await.unwrap(), later);
    assert_eq!(
        taken(&asked),
        [("apply", names(&[OURS]))],
        "at once, and with the finalizer"
    );
    let ours = maps.fetch(&of).await.unwrap();
    assert_eq!(ours.metadata.finalizers, Some(names(&[OURS])));

    round(&maps, &ours, &asked, Ok(Action::Done)).await.unwrap();
    let failed = round(&maps, &ours, &asked, Err(ReconcileError::msg("not now").terminal())).await;
    let error = failed.unwrap_err();
    assert!(
        error.is_terminal() && error.to_string() == "not now",
        "the reconciler's own error"
    );
    assert_eq!(taken(&asked).len(), 2);
    assert_eq!(maps.fetch(&of).await.unwrap(), ours, "nothing was written");

    maps.delete_object(&of).await.unwrap();
    let dying = maps.fetch(&of).await.unwrap();
    round(&maps, &dying, &asked, Err(ReconcileError::msg("not yet")))
        .await
        .unwrap_err();
    assert_eq!(
        round(&maps, &dying, &asked, Ok(later)).await.unwrap(),
        later,
        "not done yet"
    );
    assert_eq!(
        maps.fetch(&of).await.unwrap(),
        dying,
        "it stays while the clean-up has not succeeded"
    );
    round(&maps, &dying, &asked, Ok(Action::Done)).await.unwrap();
    assert_eq!(taken(&asked), [0; 3].map(|_| ("cleanup", names(&[OURS]))));
    assert!(maps.fetch(&of).await.unwrap_err().is_not_found());

    // What the cache still shows is cleaned up once more, and that is all.
    assert_eq!(
        round(&maps, &dying, &asked, Ok(Action::Done)).await.unwrap(),
        Action::Done
    );
    assert_eq!(taken(&asked).len(), 1);
    assert_eq!(
        round(&maps, &bare, &asked, Ok(Action::Done)).await.unwrap(),
        Action::Done
    );
    assert_eq!(taken(&asked), [], "an object that is gone is not applied");
}

// [W4] an object that is going already gets no finalizer
async fn a_dying_object_gets_no_finalizer(server: Server) {
    let namespace = server.namespace().await;
    let (maps, of, asked) = (maps(&server), key(&namespace, "a"), Asked::default());
    let before = created(&maps, &namespace, &[THEIRS]).await;
    maps.delete_object(&of).await.unwrap();
    let dying = maps.fetch(&of).await.unwrap();
    // What the cache shows now, and what it may have shown a moment ago.
    for seen in [&dying, &before] {
        assert_eq!(
            round(&maps, seen, &asked, Ok(Action::Done)).await.unwrap(),
            Action::Done
        );
    }
    assert_eq!(taken(&asked), []);
    assert_eq!(maps.fetch(&of).await.unwrap(), dying);
    set_finalizers(&maps, &of, &[]).await;
}

// [W4] the finalizers of others stay as they are, also if they came and went since the object was read
async fn finalizers_of_others_are_left_alone(server: Server) {
    let namespace = server.namespace().await;
    let (maps, of, asked) = (maps(&server), key(&namespace, "a"), Asked::default());
    let bare = created(&maps, &namespace, &[]).await;
    set_finalizers(&maps, &of, &[THEIRS]).await;
    round(&maps, &bare, &asked, Ok(Action::Done)).await.unwrap();
    let both = maps.fetch(&of).await.unwrap();
    assert_eq!(both.metadata.finalizers, Some(names(&[THEIRS, OURS])));
    assert_eq!(taken(&asked), [("apply", names(&[THEIRS, OURS]))]);

    // One is there already, though the cache does not show it yet: no second one.
    round(&maps, &bare, &asked, Ok(Action::Done)).await.unwrap();
    assert_eq!(taken(&asked), [("apply", names(&[THEIRS, OURS]))]);
    assert_eq!(maps.fetch(&of).await.unwrap(), both, "nothing was written");

    // The other one goes first, so that ours has moved.
    maps.delete_object(&of).await.unwrap();
    let dying = maps.fetch(&of).await.unwrap();
    set_finalizers(&maps, &of, &[OURS]).await;
    round(&maps, &dying, &asked, Ok(Action::Done)).await.unwrap();
    assert!(maps.fetch(&of).await.unwrap_err().is_not_found());

    // Ours went, by somebody's hand: the other's is not taken in its place.
    let object = created(&maps, &namespace, &[OURS, THEIRS]).await;
    maps.delete_object(&of).await.unwrap();
    let dying = maps.fetch(&of).await.unwrap();
    assert_eq!(dying.metadata.uid, object.metadata.uid);
    set_finalizers(&maps, &of, &[THEIRS]).await;
    round(&maps, &dying, &asked, Ok(Action::Done)).await.unwrap();
    assert_eq!(
        maps.fetch(&of).await.unwrap().metadata.finalizers,
        Some(names(&[THEIRS]))
    );
    set_finalizers(&maps, &of, &[]).await;
}

// [W4] another object of the same name is not taken for the one that was cleaned up after
async fn the_next_object_of_the_name_keeps_its_finalizer(server: Server) {
    let namespace = server.namespace().await;
    let (maps, of, asked) = (maps(&server), key(&namespace, "a"), Asked::default());
    created(&maps, &namespace, &[OURS]).await;
    maps.delete_object(&of).await.unwrap();
    let dying = maps.fetch(&of).await.unwrap();
    set_finalizers(&maps, &of, &[]).await;
    let next = created(&maps, &namespace, &[OURS]).await;
    maps.delete_object(&of).await.unwrap();
    let next = maps.fetch(&of).await.map(|dying| (dying, next.metadata.uid)).unwrap();
    round(&maps, &dying, &asked, Ok(Action::Done)).await.unwrap();
    let kept = maps.fetch(&of).await.unwrap();
    assert_eq!((&kept, &kept.metadata.uid), (&next.0, &next.1));
    set_finalizers(&maps, &of, &[]).await;
}

// [W4] a name that cannot be one: the server's answer, and no endless asking; an empty one is refused before
async fn names_of_finalizers_are_checked(server: Server) {
    let namespace = server.namespace().await;
    let maps = maps(&server);
    let bare = Arc::new(created(&maps, &namespace, &[]).await);
    let never = |_: Event<ConfigMap>| async { unreachable!("it has no finalizer") };
    let error = finalizer(&maps, "", Arc::clone(&bare), never).await.unwrap_err();
    assert!(error.is_terminal(), "{error}");
    let error = finalizer(&maps, "no name!", bare, never).await.unwrap_err();
    assert!(error.to_string().contains("no name!"), "{error}");
}

// [W4] a client of the metadata alone is enough
async fn metadata_is_enough(server: Server) {
    let namespace = server.namespace().await;
    let (maps, of) = (maps(&server), key(&namespace, "a"));
    created(&maps, &namespace, &[]).await;
    let resource = ApiResource::erase::<ConfigMap>(&());
    let partial = Client::metadata(&cluster(&server), &resource, Filter::default()).unwrap();
    let step = async |expected: fn(Event<PartialObjectMeta<DynamicObject>>) -> bool| {
        let object = Arc::new(partial.fetch(&of).await.unwrap());
        let reconcile = |event| async move {
            assert!(expected(event));
            Ok(Action::Done)
        };
        finalizer(&partial, OURS, object, reconcile).await.unwrap();
    };
    step(|event| matches!(event, Event::Apply(_))).await;
    assert_eq!(
        super::value(&maps.fetch(&of).await.unwrap()),
        "1",
        "the data is still there"
    );
    maps.delete_object(&of).await.unwrap();
    step(|event| matches!(event, Event::Cleanup(_))).await;
    assert!(maps.fetch(&of).await.unwrap_err().is_not_found());
}

cases!(
    an_object_lives_until_it_is_cleaned_up,
    a_dying_object_gets_no_finalizer,
    finalizers_of_others_are_left_alone,
    the_next_object_of_the_name_keeps_its_finalizer,
    names_of_finalizers_are_checked,
    metadata_is_enough,
);

// [W4] trouble on the way is an error, to be tried again; nothing is applied without the finalizer, nor cleaned up twice for it
#[tokio::test(start_paused = true)]
async fn trouble_is_returned() {
    let server = Server::fake();
    let namespace = server.namespace().await;
    let (maps, of, asked) = (maps(&server), key(&namespace, "a"), Asked::default());
    let bare = created(&maps, &namespace, &[]).await;
    let memory = server.in_memory().unwrap();
    let refuse = |code| {
        let fault = fake_apiserver::StatusFault::new(code).reason("Conflict");
        memory.inject(fake_apiserver::Rule::new(fault).verb(fake_apiserver::Verb::Patch))
    };
    for code in [503, 409] {
        let trouble = refuse(code);
        let error = round(&maps, &bare, &asked, Ok(Action::Done)).await.unwrap_err();
        assert!(!error.is_terminal());
        assert_eq!(
            trouble.fired(),
            1,
            "the object did not change, so asking again cannot help"
        );
        trouble.remove();
    }
    assert_eq!(taken(&asked), []);
    round(&maps, &bare, &asked, Ok(Action::Done)).await.unwrap();
    maps.delete_object(&of).await.unwrap();
    let dying = maps.fetch(&of).await.unwrap();
    let trouble = refuse(503);
    round(&maps, &dying, &asked, Ok(Action::Done)).await.unwrap_err();
    trouble.remove();
    assert_eq!(taken(&asked).len(), 2);
    round(&maps, &dying, &asked, Ok(Action::Done)).await.unwrap();
    assert!(maps.fetch(&of).await.unwrap_err().is_not_found());
}
