//! Answers that are not whole: a root that may not be read, or has vanished; groups that come and go with them.

use super::*;

/// Refuses a root.
fn forbid(script: &Script, path: &str) {
    let status = json!({"kind": "Status", "code": 403, "message": "no"});
    script.answer(path, 403, PLAIN, status);
}

fn forget(script: &Script, path: &str) {
    script.answers.lock().remove(path);
}

fn remembered(apis: &ServedApis) -> Vec<&str> {
    let remembered = apis.iter().filter(|found| found.remembered);
    remembered.map(|found| found.resource.plural.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn root_that_may_not_be_read_keeps_what_was_known_of_it() {
    for (answered, etag) in [("aggregated", true), ("aggregated", false), ("plain", false)] {
        let script = Script::new();
        let answer = || match answered {
            "plain" => script.plain(),
            _ => script.aggregated(&[widgets()]),
        };
        let tag = || {
            for (path, tag) in [("/api", "\"core\""), ("/apis", "\"named\"")] {
                script.answers.lock().get_mut(path).unwrap().2 = etag.then_some(tag);
            }
        };
        answer();
        tag();
        let client = script.client();
        let discovery = client.discovery();
        let whole = discovery.served().await.unwrap();
        assert!(remembered(&whole).is_empty() && whole.unavailable().is_empty());
        for (root, in_it, named, covers) in [
            ("/apis", "x.io", "every named group", ("*", "*")),
            ("/api", "", "v1", ("", "v1")),
        ] {
            forbid(&script, root);
            for _ in 0..2 {
                let apis = discovery.refresh().await.unwrap();
                let all = |apis: &ServedApis| apis.iter().map(|found| found.gvr()).collect::<Vec<_>>();
                assert_eq!(all(&apis), all(&whole), "{answered}: nothing is lost without {root}");
                let [silent] = apis.unavailable() else {
                    panic!("{apis:?}")
                };
                assert_eq!((silent.group.as_str(), silent.version.as_str()), covers);
                let text = format!("{named}: forbidden: cannot discover API groups: no");
                assert_eq!(silent.to_string(), text);
                let of_it = apis
                    .iter()
                    .all(|found| found.remembered == (found.resource.group.is_empty() == in_it.is_empty()));
                assert!(of_it && !remembered(&apis).is_empty());
                // Whether there is more than what is remembered cannot be told.
                let error = discovery.find(Lookup::kind("Gizmo").group(in_it)).await.unwrap_err();
                assert!(
                    matches!(&error, DiscoveryError::Unavailable { group_version, .. } if group_version == named),
                    "{error}"
                );
                let error = discovery.find(Lookup::kind("Gizmo")).await.unwrap_err();
                assert_eq!(not_served(&error).2, [named]);
                tokio::time::advance(Duration::from_secs(10)).await;
            }
            answer();
            tag();
            let again = discovery.refresh().await.unwrap();
            assert!(
                remembered(&again).is_empty() && again.unavailable().is_empty(),
                "{again:?}"
            );
        }
        client.end().await;
    }
}

// It says that it cannot tell, not that there is nothing.
#[tokio::test(start_paused = true)]
async fn root_that_was_never_read_hides_everything_in_it_and_says_so() {
    let script = Script::new();
    script.aggregated(&[widgets()]);
    forbid(&script, "/apis");
    let client = script.client();
    let discovery = client.discovery();
    assert!(discovery.find(Lookup::named("po")).await.is_ok());
    let error = discovery.find(Lookup::kind("Widget").group("x.io")).await.unwrap_err();
    assert!(matches!(error, DiscoveryError::Unavailable { .. }) && error.is_retryable());
    assert_eq!(
        error.to_string(),
        "cannot tell whether the server serves kind Widget in group x.io: every named group is unavailable: forbidden: \
         cannot discover API groups: no"
    );
    script.aggregated(&[widgets()]);
    discovery.refresh().await.unwrap();
    assert!(discovery.find(Lookup::kind("Widget").group("x.io")).await.is_ok());
    client.end().await;
}

// A root that was there does not vanish: somebody else answers. One that never was is no failure.
#[tokio::test(start_paused = true)]
async fn root_that_has_vanished_fails_the_attempt() {
    for root in ["/api", "/apis"] {
        let script = Script::new();
        script.aggregated(&[widgets()]);
        let client = script.client();
        let discovery = client.discovery();
        let whole = discovery.served().await.unwrap();
        forget(&script, root);
        for _ in 0..2 {
            let error = discovery.refresh().await.unwrap_err();
            assert!(
                matches!(&error, DiscoveryError::Request(error) if error.kind == WatchErrorKind::NotFound),
                "{error:?}"
            );
            assert!(error.is_retryable());
        }
        assert!(
            Arc::ptr_eq(&discovery.cached().unwrap(), &whole),
            "what was known stays"
        );
        assert!(discovery.find(Lookup::kind("Widget")).await.is_ok());
        script.aggregated(&[]);
        let apis = discovery.refresh().await.unwrap();
        assert!(apis.find(&Lookup::kind("Widget")).is_none() && apis.find(&Lookup::kind("Pod")).is_some());
        client.end().await;
    }
    let script = Script::new();
    script.aggregated(&[widgets()]);
    forget(&script, "/api");
    let client = script.client();
    let discovery = client.discovery();
    let apis = discovery.served().await.unwrap();
    assert!(apis.unavailable().is_empty() && apis.find(&Lookup::kind("Widget")).is_some());
    assert!(discovery.find(Lookup::kind("Pod")).await.unwrap_err().is_not_served());
    client.end().await;
}

// A group that fails while its root may not be read either: what was known of it before both stays.
#[tokio::test(start_paused = true)]
async fn failing_group_and_forbidden_root_together_lose_nothing() {
    let script = Script::new();
    script.plain();
    let client = script.client();
    let discovery = client.discovery();
    let metrics = Lookup::kind("PodMetrics");
    discovery.find(&metrics).await.unwrap();
    script.answer("/apis/metrics.k8s.io/v1beta1", 503, PLAIN, json!({}));
    assert_eq!(remembered(&discovery.refresh().await.unwrap()), ["pods"]);
    forbid(&script, "/apis");
    let apis = discovery.refresh().await.unwrap();
    assert!(apis.find(&metrics).unwrap().remembered);
    assert!(apis.find(&Lookup::named("hpa")).unwrap().remembered);
    assert_eq!(apis.unavailable().len(), 2);
    script.plain();
    assert!(remembered(&discovery.refresh().await.unwrap()).is_empty());
    // With the root, a group is told to be gone.
    let groups = json!({"kind": "APIGroupList", "groups": []});
    script.answer("/apis", 200, PLAIN, groups);
    assert!(discovery.refresh().await.unwrap().find(&metrics).is_none());
    client.end().await;
}
