//! Each way in which a server misbehaves, by name: the cache ends as what the server holds, the handler's events fold to it,
//! nothing is told twice, no delete is lost. [I16] [I18] [I19] [I21] [I22]
//!
//! The random counterpart is in `histories`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fake_apiserver::{Cut, Fault, Rule, StatusFault, Verb};
use kube::core::Selector;
use kube_client::{Event, HandlerOptions, Informer, InformerOptions, InitialList, ListMode, ObjectKey, on_event};
use serde_json::Value;

use super::histories::checker::{Time, fold};
use super::histories::note::Note;
use super::{Rig, create, delete, update};
use crate::harness::Namespace;

/// The forms of a list that a fault may meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Streaming,
    OnePage,
    Pages,
}

const EVERY_FORM: [Form; 3] = [Form::Streaming, Form::OnePage, Form::Pages];

impl Form {
    fn options(self) -> InformerOptions<Note> {
        let options = InformerOptions::default();
        match self {
            Form::Streaming => options,
            Form::OnePage => options.list_mode(ListMode::Paged),
            Form::Pages => {
                let options = options.list_mode(ListMode::Paged);
                options.initial_list(InitialList::Consistent).page_size(1)
            }
        }
    }
}

/// An informer with a handler that writes down what it is told, on a server with one fault.
struct Scene {
    name: String,
    rig: Rig,
    namespace: Namespace,
    informer: Informer<Note>,
    told: Arc<Mutex<Vec<Event<Note>>>>,
}

impl Scene {
    /// Objects a, b, c and one that does not decode, and the informer over them, not started.
    async fn new(name: &str, form: Form) -> Self {
        let rig = Rig::fake();
        let namespace = rig.server.namespace().await;
        for object in ["a", "b", "c"] {
            create(&namespace, object, "1").await;
        }
        create(&namespace, "x", "does not decode").await;
        let informer = rig.client.informers().typed(form.options()).unwrap();
        let told: Arc<Mutex<Vec<Event<Note>>>> = Arc::default();
        let sink = Arc::clone(&told);
        let write = on_event(move |event: &Event<Note>| sink.lock().unwrap().push(event.clone()));
        informer.add_handler(write, HandlerOptions::named("fold"));
        Self {
            name: format!("{name} ({form:?})"),
            rig,
            namespace,
            informer,
            told,
        }
    }

    /// Every kind of change, with time between them for what comes a moment later.
    async fn change(&self, round: u32) {
        let value = (10 + round).to_string();
        update(&self.rig.server, &self.namespace, "a", &value).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        delete(&self.rig.server, &self.namespace, "b").await;
        delete(&self.rig.server, &self.namespace, "c").await;
        create(&self.namespace, "c", &value).await;
        tokio::time::sleep(Duration::from_secs(40)).await;
        create(&self.namespace, "b", &value).await;
        create(&self.namespace, &format!("new-{round}"), &value).await;
    }

    /// Starts the informer under the fault, lets the watch break and everything change again and again, and compares when
    /// the fault has done its part.
    async fn play(self, rule: Rule, times: u64) {
        let fault = self.rig.memory().inject(rule.resource("configmaps").times(times));
        self.informer.start();
        for round in 0..3 {
            tokio::time::sleep(Duration::from_secs(3)).await;
            self.change(round).await;
            self.rig.memory().close_watches("configmaps");
        }
        let name = self.name.clone();
        let met = tokio::time::timeout(Duration::from_hours(1), fault.wait_fired(1)).await;
        assert!(met.is_ok(), "{name}: the fault was never met");
        self.settle(Time::Forward).await;
        self.rig.end().await;
    }

    /// Waits until the last write is seen, and compares.
    async fn settle(&self, time: Time) {
        let name = &self.name;
        let path = self.namespace.at("configmaps/last");
        create(&self.namespace, "last", "1").await;
        let last: kube::core::DynamicObject = serde_json::from_value(self.rig.server.get(&path).await.ok()).unwrap();
        if let Err(error) = self.informer.caught_up(&last, Duration::from_hours(3)).await {
            panic!("{name}: {error}; {:?}", self.informer.stats());
        }
        let held: BTreeMap<ObjectKey, Value> = (self.rig.memory().objects("configmaps").into_iter())
            .map(|object| (key_of(&object), object))
            .collect();
        let cached: BTreeMap<ObjectKey, Arc<Note>> = (self.informer.list(None, &Selector::default()).into_iter())
            .map(|note| (kube_client::Object::metadata(&*note).key(), note))
            .collect();
        let good = held.iter().filter(|(key, _)| key.name() != "x");
        let expected: BTreeMap<ObjectKey, Note> = good
            .map(|(key, object)| (key.clone(), serde_json::from_value(object.clone()).unwrap()))
            .collect();
        let values: BTreeMap<ObjectKey, Note> = cached
            .iter()
            .map(|(key, note)| (key.clone(), Note::clone(note)))
            .collect();
        assert_eq!(values, expected, "{name}: the cache is what the server holds");
        let undecodable = self.informer.undecodable();
        assert_eq!(undecodable.len(), 1, "{name}: {undecodable:?}");
        assert_eq!(undecodable[0].0.name(), "x", "{name}");
        // the handler is prompt: what the cache has, it is told within a moment
        tokio::time::sleep(Duration::from_secs(1)).await;
        let told = self.told.lock().unwrap().clone();
        match fold(&told, time) {
            Ok(state) => assert_eq!(state, cached, "{name}: the events fold to the cache; {told:?}"),
            Err(wrong) => panic!("{name}: {wrong}; {told:?}"),
        }
    }
}

fn key_of(object: &Value) -> ObjectKey {
    let metadata = &object["metadata"];
    ObjectKey::new(
        metadata["namespace"].as_str(),
        metadata["name"].as_str().unwrap_or_default(),
    )
}

/// A fault that meets lists and watches alike, in every form.
async fn each_form(name: &str, times: u64, fault: impl Into<Fault>) {
    let fault = fault.into();
    for form in EVERY_FORM {
        let rule = Rule::new(fault.clone()).verb(Verb::List).verb(Verb::Watch);
        Scene::new(name, form).await.play(rule, times).await;
    }
}

/// A fault of watches, streaming lists among them.
async fn each_watch(name: &str, times: u64, fault: Fault) {
    for form in EVERY_FORM {
        let rule = Rule::new(fault.clone()).verb(Verb::Watch);
        Scene::new(name, form).await.play(rule, times).await;
        // not the first one, which may be a list
        let rule = Rule::new(fault.clone()).verb(Verb::Watch).skip(1);
        Scene::new(name, form).await.play(rule, times).await;
    }
}

fn too_large() -> StatusFault {
    StatusFault::new(504).message("Timeout: Too large resource version: 900, current: 1")
}

macro_rules! faults {
    ($($name:ident: $check:ident($times:literal, $fault:expr);)+) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                $check(stringify!($name), $times, $fault).await;
            }
        )+
    };
}

faults! {
    http_410: each_form(3, Fault::status(410));
    http_429_with_retry_after: each_form(3, StatusFault::new(429).retry_after(20));
    http_429_without_retry_after: each_form(3, Fault::status(429));
    http_401: each_form(3, Fault::status(401));
    http_403: each_form(3, Fault::status(403));
    http_404: each_form(3, Fault::status(404));
    http_409: each_form(3, Fault::status(409));
    http_500: each_form(3, Fault::status(500));
    http_503: each_form(3, Fault::status(503));
    http_504: each_form(3, Fault::status(504));
    version_in_the_future: each_form(3, too_large());
    connection_refused: each_form(3, Fault::Refuse);
    answer_lost: each_form(3, Fault::LoseResponse);
    slow_answers: each_form(5, Fault::Latency(Duration::from_secs(25)));
    web_page_with_404: each_form(3, Fault::Page { code: 404, body: "<html></html>".to_owned() });
    web_page_with_200: each_form(3, Fault::Page { code: 200, body: "<html></html>".to_owned() });
    web_page_with_503: each_form(3, Fault::Page { code: 503, body: "<html></html>".to_owned() });
    reset_between_lines: each_form(4, Fault::Reset { after: 1, cut: Cut::Between });
    reset_inside_a_line: each_form(4, Fault::Reset { after: 2, cut: Cut::MidLine });
    history_forgotten_at_each_request: each_form(5, Fault::Compact);
    chunks_of_one_byte: each_form(1_000, Fault::Chunks { size: 1 });
    chunks_of_seven_bytes: each_form(1_000, Fault::Chunks { size: 7 });
    packed_answers: each_form(1_000, Fault::Packed);
    streaming_refused: each_watch(1, Fault::status(422));
    error_event_410: each_watch(3, Fault::WatchError { after: 1, status: StatusFault::new(410) });
    error_event_410_at_once: each_watch(3, Fault::WatchError { after: 0, status: StatusFault::new(410) });
    error_event_429: each_watch(3, Fault::WatchError { after: 1, status: StatusFault::new(429).retry_after(7) });
    error_event_500: each_watch(5, Fault::WatchError { after: 1, status: StatusFault::new(500) });
    error_event_version_in_the_future: each_watch(3, Fault::WatchError { after: 0, status: too_large() });
    clean_end_at_once: each_watch(10, Fault::EndWatch { after: 0 });
    clean_end_after_an_event: each_watch(10, Fault::EndWatch { after: 1 });
    bookmarks_withheld: each_watch(1_000, Fault::WithholdBookmarks);
    end_bookmark_withheld: each_form(4, Fault::WithholdInitialEventsEnd);
    silence_at_once: each_watch(3, Fault::Silence { after: 0 });
    silence_after_an_event: each_watch(3, Fault::Silence { after: 1 });
}

// [I22] any page of a list may fail, or find its token expired
#[tokio::test(start_paused = true)]
async fn page_that_fails() {
    for (name, fault) in [
        ("page fails with 500", Fault::status(500)),
        ("page is throttled", StatusFault::new(429).retry_after(3).into()),
        (
            "page breaks",
            Fault::Reset {
                after: 1,
                cut: Cut::MidLine,
            },
        ),
        ("page is refused", Fault::Refuse),
        ("page expires", Fault::Compact),
        ("page expires as a status", Fault::status(410)),
    ] {
        for page in 1..=4 {
            let rule = Rule::new(fault.clone()).verb(Verb::List).page(page);
            let scene = Scene::new(&format!("{name}: {page}"), Form::Pages).await;
            // history is forgotten only if there is some between the pages
            if fault == Fault::Compact {
                let slow = Rule::new(Fault::Latency(Duration::from_secs(1))).verb(Verb::List);
                scene.rig.memory().inject(slow.resource("configmaps"));
            }
            scene.play(rule, 2).await;
        }
    }
}

// [I19] the store goes back to an older state: what was lost is told, what comes again comes
#[tokio::test(start_paused = true)]
async fn storage_restored() {
    for form in EVERY_FORM {
        for versions_jump in [false, true] {
            let scene = Scene::new("restored", form).await;
            let memory = scene.rig.memory().clone();
            let past = memory.resource_version();
            scene.informer.start();
            scene.informer.synced().await.unwrap();
            scene.change(0).await;
            // long enough for a bookmark: then silence is a sign
            tokio::time::sleep(Duration::from_secs(90)).await;
            assert!(memory.restore(past));
            if versions_jump {
                memory.skip_versions(1_000);
            } else {
                // The next write may not be made before the informer has noticed, or it could be the lost one.
                let noticed = async {
                    while scene.informer.last_version() != Some(past.to_string()) {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                };
                let noticed = tokio::time::timeout(Duration::from_mins(10), noticed).await;
                assert!(noticed.is_ok(), "{}: {:?}", scene.name, scene.informer.stats());
            }
            scene.settle(Time::WentBack).await;
            scene.rig.end().await;
        }
    }
}

// [I19] a 410 whose list gives the same version again does not loop: the pace is that of the back-off
#[tokio::test(start_paused = true)]
async fn version_that_is_listed_and_expired_at_once_is_paced() {
    for form in EVERY_FORM {
        let scene = Scene::new("410 for ever", form).await;
        let memory = scene.rig.memory().clone();
        let expired = Fault::WatchError {
            after: 5,
            status: StatusFault::new(410),
        };
        let after_the_list = Rule::new(expired).verb(Verb::Watch).resource("configmaps");
        let expired_at_once = Fault::WatchError {
            after: 0,
            status: StatusFault::new(410),
        };
        let watch = Rule::new(expired_at_once).verb(Verb::Watch).resource("configmaps");
        let rule = memory.inject(if form == Form::Streaming { after_the_list } else { watch });
        scene.informer.start();
        if form == Form::Streaming {
            // four objects and the fifth event, at which the watch ends
            let touching = async {
                for n in 0_u32.. {
                    update(&scene.rig.server, &scene.namespace, "a", &n.to_string()).await;
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            tokio::select! {
                () = tokio::time::sleep(Duration::from_mins(10)) => {}
                () = touching => {}
            }
        } else {
            tokio::time::sleep(Duration::from_mins(10)).await;
        }
        // 0.8 + 1.6 + … + 25.6 s, then 30 s each: 6 and 18 rounds; with jitter fewer
        let lists = scene.informer.stats().lists;
        assert!(
            (15..=26).contains(&lists),
            "{}: {lists} lists in ten minutes",
            scene.name
        );
        rule.remove();
        scene.settle(Time::Forward).await;
        scene.rig.end().await;
    }
}

// [I33] a connection that is silent without closing: resumed within 3 min, what was missed comes, handlers notice nothing
#[tokio::test(start_paused = true)]
async fn silent_connection_is_resumed_without_an_event() {
    for form in EVERY_FORM {
        let scene = Scene::new("silent", form).await;
        let memory = scene.rig.memory().clone();
        scene.informer.start();
        scene.informer.synced().await.unwrap();
        // the watch ends in good order; the next one brings its bookmarks, then the connection is forgotten
        tokio::time::sleep(Duration::from_secs(130)).await;
        memory.inject(
            Rule::new(Fault::Silence { after: 1 })
                .verb(Verb::Watch)
                .resource("configmaps")
                .times(1),
        );
        memory.close_watches("configmaps");
        memory.wait_for_watches("configmaps", 1).await;
        update(&scene.rig.server, &scene.namespace, "a", "2").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let told = scene.told.lock().unwrap().len();
        let (lists, watches) = (scene.informer.stats().lists, scene.informer.stats().watches);
        let start = tokio::time::Instant::now();
        update(&scene.rig.server, &scene.namespace, "a", "3").await;
        while scene.told.lock().unwrap().len() == told {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!(
            start.elapsed() <= Duration::from_mins(3),
            "{}: {:?}",
            scene.name,
            start.elapsed()
        );
        let stats = scene.informer.stats();
        assert_eq!(
            (stats.lists, stats.watches),
            (lists, watches + 1),
            "{}: the same version, no list",
            scene.name
        );
        tokio::time::sleep(Duration::from_mins(1)).await;
        let events: Vec<String> = scene.told.lock().unwrap()[told..]
            .iter()
            .map(|event| format!("{event:?}"))
            .collect();
        assert_eq!(
            events,
            [format!("Updated({}/a)", scene.namespace.name())],
            "{}",
            scene.name
        );
        scene.settle(Time::Forward).await;
        scene.rig.end().await;
    }
}
