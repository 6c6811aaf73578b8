//! Somebody else deletes, makes anew and changes an object just before each of our requests: what updates, `create_or_update` and
//! the finalizer helper make of it. [W3] [W4]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::future::{BoxFuture, FutureExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kclient::finalizer::{Event, finalizer};
use kclient::queue::Action;
use kclient::{
    Client, DeleteParams, Deleted, ObjectKey, Operation, Outcome, Patch, PatchParams, PostParams, Selection,
    Subresource, SubresourceCall, WriteError, Writer, WriterExt,
};
use serde_json::{Value, json};

use super::{key, map, maps, value};
use crate::harness::{Namespace, Server, cases};

const OURS: &str = "example.com/ours";

/// What somebody else does before one of our requests.
type Prank = Box<dyn FnOnce(Client<ConfigMap>) -> BoxFuture<'static, ()> + Send>;

/// A writer before whose requests somebody else is at work.
struct Meddled {
    client: Client<ConfigMap>,
    pranks: Mutex<VecDeque<(Operation, Prank)>>,
}

impl Meddled {
    fn new(client: &Client<ConfigMap>) -> Self {
        Self {
            client: client.clone(),
            pranks: Mutex::default(),
        }
    }

    /// Before the next request of this kind, after those that were asked for before.
    fn before<F>(self, operation: Operation, prank: impl FnOnce(Client<ConfigMap>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let prank: Prank = Box::new(move |client| prank(client).boxed());
        self.pranks.lock().unwrap().push_back((operation, prank));
        self
    }

    async fn meddle(&self, operation: Operation) {
        let prank = self
            .pranks
            .lock()
            .unwrap()
            .pop_front_if(|(before, _)| *before == operation);
        if let Some((_, prank)) = prank {
            prank(self.client.clone()).await;
        }
    }

    fn assert_done(&self) {
        assert!(self.pranks.lock().unwrap().is_empty(), "somebody else was not done");
    }
}

#[async_trait]
impl Writer<ConfigMap> for Meddled {
    async fn fetch(&self, key: &ObjectKey) -> Result<ConfigMap, WriteError> {
        self.meddle(Operation::Fetch).await;
        self.client.fetch(key).await
    }

    async fn create(&self, object: &ConfigMap, options: &PostParams) -> Result<ConfigMap, WriteError> {
        self.meddle(Operation::Create).await;
        self.client.create(object, options).await
    }

    async fn patch(
        &self,
        key: &ObjectKey,
        patch: &Patch,
        subresource: Subresource,
        options: &PatchParams,
    ) -> Result<ConfigMap, WriteError> {
        self.meddle(Operation::Patch).await;
        self.client.patch(key, patch, subresource, options).await
    }

    async fn update(&self, _: &ConfigMap, _: &PostParams) -> Result<ConfigMap, WriteError> {
        unreachable!("what is retried is patched")
    }

    async fn update_status(&self, _: &ConfigMap, _: &PostParams) -> Result<ConfigMap, WriteError> {
        unreachable!("what is retried is patched")
    }

    async fn delete(&self, _: &ObjectKey, _: &DeleteParams) -> Result<Deleted<ConfigMap>, WriteError> {
        unreachable!("nothing is deleted")
    }

    async fn delete_collection<'a>(
        &self,
        _: Option<&'a str>,
        _: &Selection,
        _: &DeleteParams,
    ) -> Result<Vec<ConfigMap>, WriteError> {
        unreachable!("nothing is deleted")
    }

    async fn subresource(&self, _: &ObjectKey, _: &str, _: &SubresourceCall) -> Result<Value, WriteError> {
        unreachable!("nobody asks for one")
    }
}

/// Deletes the object and makes another one of its name.
async fn replaced(client: Client<ConfigMap>, by: ConfigMap) {
    let metadata = &by.metadata;
    let key = ObjectKey::new(metadata.namespace.as_deref(), metadata.name.as_deref().unwrap());
    client.delete_object(&key).await.unwrap();
    client.create_object(&by).await.unwrap();
}

async fn changed(client: Client<ConfigMap>, key: ObjectKey, to: &'static str) {
    let patch = Patch::Merge(json!({"data": {"v": to}}));
    let (part, options) = (Subresource::Main, PatchParams::default());
    client.patch(&key, &patch, part, &options).await.unwrap();
}

/// Appends to what is there, and notes the uid of what it was shown.
fn appending(uids: &mut Vec<String>) -> impl FnMut(&mut ConfigMap) {
    |map| {
        uids.push(map.metadata.uid.clone().unwrap_or_default());
        let data = map.data.get_or_insert_default();
        data.entry("v".to_owned()).or_default().push_str("+ours");
    }
}

// [W3] an object that is replaced between read and write is another one: the edit begins anew, on that one alone
async fn update_of_an_object_that_is_replaced(server: Server) {
    let namespace = server.namespace().await;
    let (maps, of) = (maps(&server), key(&namespace, "a"));
    let first = maps.create_object(&map(&namespace, "a", "first")).await.unwrap();
    let (other, late) = (map(&namespace, "a", "other"), of.clone());
    let meddled = Meddled::new(&maps)
        .before(Operation::Patch, move |client| replaced(client, other))
        .before(Operation::Patch, move |client| changed(client, late, "later"));
    let mut uids = Vec::new();
    let updated = meddled.update_with_retry(&of, appending(&mut uids)).await.unwrap();
    meddled.assert_done();
    assert_eq!(
        value(&updated),
        "later+ours",
        "nothing of the first one, nothing lost of the other"
    );
    assert_eq!((uids.len(), &uids[1]), (3, &uids[2]));
    assert_eq!(
        (Some(&uids[0]), Some(&uids[2])),
        (first.metadata.uid.as_ref(), updated.metadata.uid.as_ref())
    );
    assert_ne!(uids[0], uids[2]);
}

// [W3] one that is deleted in between is not found; `create_or_update` makes it again, and meets who makes it, too
async fn update_of_an_object_that_goes(server: Server) {
    let namespace = server.namespace().await;
    let (maps, of) = (maps(&server), key(&namespace, "a"));
    let gone = |of: ObjectKey| {
        move |client: Client<ConfigMap>| async move {
            client.delete_object(&of).await.unwrap();
        }
    };
    let made = |object: ConfigMap| {
        move |client: Client<ConfigMap>| async move {
            client.create_object(&object).await.unwrap();
        }
    };
    maps.create_object(&map(&namespace, "a", "first")).await.unwrap();
    let meddled = Meddled::new(&maps).before(Operation::Patch, gone(of.clone()));
    let error = meddled
        .update_with_retry(&of, appending(&mut Vec::new()))
        .await
        .unwrap_err();
    assert!(error.is_not_found(), "{error}");

    maps.create_object(&map(&namespace, "a", "first")).await.unwrap();
    let meddled = Meddled::new(&maps)
        .before(Operation::Patch, gone(of.clone())) // found, and gone
        .before(Operation::Create, made(map(&namespace, "a", "theirs"))) // not found, and there
        .before(Operation::Patch, gone(of.clone()));
    let (mut uids, initial) = (Vec::new(), || map(&namespace, "a", "initial"));
    let outcome = meddled
        .create_or_update(&of, initial, appending(&mut uids))
        .await
        .unwrap();
    meddled.assert_done();
    assert!(
        matches!(&outcome, Outcome::Created(made) if value(made) == "initial+ours"),
        "{outcome:?}"
    );
    let shown: Vec<bool> = uids.iter().map(String::is_empty).collect();
    assert_eq!(shown, [false, true, false, true], "read, made, read, made");
    assert_eq!(value(&maps.fetch(&of).await.unwrap()), "initial+ours");
}

/// The finalizer helper on an object as a cache holds it; what it asked for.
async fn reconciled(meddled: &Meddled, seen: &ConfigMap) -> Vec<String> {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&asked);
    let action = finalizer(meddled, OURS, Arc::new(seen.clone()), |event| async move {
        let (what, map) = match event {
            Event::Apply(map) => ("apply", map),
            Event::Cleanup(map) => ("cleanup", map),
        };
        note.lock().unwrap().push(format!("{what} {}", value(&map)));
        Ok(Action::Done)
    });
    assert_eq!(action.await.unwrap(), Action::Done);
    meddled.assert_done();
    let asked = asked.lock().unwrap();
    asked.clone()
}

async fn held(maps: &Client<ConfigMap>, namespace: &Namespace, text: &str, by: &[&str]) -> ConfigMap {
    let mut object = map(namespace, "a", text);
    object.metadata.finalizers = Some(by.iter().map(|name| (*name).to_owned()).collect());
    maps.create_object(&object).await.unwrap()
}

async fn release(client: Client<ConfigMap>, key: ObjectKey) {
    let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let (part, options) = (Subresource::Main, PatchParams::default());
    client.patch(&key, &none, part, &options).await.unwrap();
}

// [W4] the object is replaced, or goes, just before the finalizer is put on: what is applied is what has it
async fn finalizer_of_an_object_that_is_replaced(server: Server) {
    let namespace = server.namespace().await;
    let (maps, of) = (maps(&server), key(&namespace, "a"));
    let seen = maps.create_object(&map(&namespace, "a", "first")).await.unwrap();
    let other = map(&namespace, "a", "other");
    let meddled = Meddled::new(&maps).before(Operation::Patch, move |client| replaced(client, other));
    assert_eq!(reconciled(&meddled, &seen).await, ["apply other"]);
    let now = maps.fetch(&of).await.unwrap();
    assert_eq!(now.metadata.finalizers, Some(vec![OURS.to_owned()]));
    release(maps.clone(), of.clone()).await;

    // Replaced, and gone before it was looked at.
    let (other, late) = (map(&namespace, "a", "third"), of.clone());
    let meddled = Meddled::new(&maps)
        .before(Operation::Patch, move |client| replaced(client, other))
        .before(Operation::Fetch, move |client| async move {
            client.delete_object(&late).await.unwrap();
        });
    assert_eq!(
        reconciled(&meddled, &now_without(&now)).await,
        [""; 0],
        "nothing is applied to what is gone"
    );
    assert!(maps.fetch(&of).await.unwrap_err().is_not_found());
}

/// As an old cache holds it.
fn now_without(object: &ConfigMap) -> ConfigMap {
    let mut object = object.clone();
    object.metadata.finalizers = None;
    object
}

// [W4] while it is cleaned up, somebody else takes the finalizer away, or away and the object is made anew with it
async fn finalizer_that_somebody_else_takes(server: Server) {
    let namespace = server.namespace().await;
    let (maps, of) = (maps(&server), key(&namespace, "a"));
    held(&maps, &namespace, "first", &[OURS]).await;
    maps.delete_object(&of).await.unwrap();
    let dying = maps.fetch(&of).await.unwrap();
    let taken = of.clone();
    let meddled = Meddled::new(&maps).before(Operation::Patch, move |client| release(client, taken));
    assert_eq!(reconciled(&meddled, &dying).await, ["cleanup first"]);
    assert!(maps.fetch(&of).await.unwrap_err().is_not_found());

    held(&maps, &namespace, "second", &[OURS]).await;
    maps.delete_object(&of).await.unwrap();
    let dying = maps.fetch(&of).await.unwrap();
    let (taken, anew) = (of.clone(), namespace.clone());
    let meddled = Meddled::new(&maps).before(Operation::Patch, move |client| async move {
        release(client.clone(), taken).await;
        held(&client, &anew, "third", &[OURS]).await;
    });
    assert_eq!(reconciled(&meddled, &dying).await, ["cleanup second"]);
    let next = maps.fetch(&of).await.unwrap();
    assert_eq!(
        next.metadata.finalizers,
        Some(vec![OURS.to_owned()]),
        "the third one's stays"
    );
    release(maps.clone(), of).await;
}

cases!(
    update_of_an_object_that_is_replaced,
    update_of_an_object_that_goes,
    finalizer_of_an_object_that_is_replaced,
    finalizer_that_somebody_else_takes,
);
