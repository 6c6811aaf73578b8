//! Results and refusals as a kube-apiserver 1.37.2 answered them; more of them are in the behaviour tests, on both servers.

use super::*;
use crate::codec::tests::resource;
use crate::json::canonical;
use crate::kinds::Schema;

const ACCOUNT: &str = r#"{"metadata":{"name":"a","finalizers":["x.io/a","x.io/b"]},"secrets":[{"name":"a"},{"name":"b","kind":"k"},{"name":"c"}]}"#;

fn account() -> GoType {
    let Schema::Typed(id) = resource("", "v1", "serviceaccounts").schema else {
        panic!("a built-in kind");
    };
    GoType::of_object(id)
}

fn patched(patch: &str) -> Result<String, PatchError> {
    let current = Tape::parse(ACCOUNT.as_bytes()).unwrap();
    let text = apply(&current, patch.as_bytes(), account())?;
    let tape = Tape::parse(&text).unwrap();
    let mut out = Vec::new();
    canonical::write(&mut out, tape.root()).unwrap();
    Ok(String::from_utf8(out).unwrap())
}

fn with_secrets(secrets: &str) -> String {
    let (head, _) = ACCOUNT.split_once(r#","secrets""#).unwrap();
    format!(r#"{head},"secrets":{secrets}}}"#)
}

fn canonical_text(text: &str) -> String {
    let tape = Tape::parse(text.as_bytes()).unwrap();
    let mut out = Vec::new();
    canonical::write(&mut out, tape.root()).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn lists_are_merged_by_their_key_and_ordered() {
    // [F10]
    for (patch, secrets) in [
        (
            r#"{"secrets":[{"name":"d"},{"name":"b","kind":null}]}"#,
            r#"[{"name":"d"},{"name":"a"},{"name":"b"},{"name":"c"}]"#,
        ),
        (
            r#"{"secrets":[{"name":"b","$patch":"delete"}]}"#,
            r#"[{"name":"a"},{"name":"c"}]"#,
        ),
        (
            r#"{"secrets":[{"$patch":"replace"},{"name":"z"}]}"#,
            r#"[{"name":"z"}]"#,
        ),
        (
            r#"{"$setElementOrder/secrets":[{"name":"c"},{"name":"a"}]}"#,
            r#"[{"name":"b","kind":"k"},{"name":"c"},{"name":"a"}]"#,
        ),
        // What is added in the place of what was deleted counts as the object's own, and comes after the rest of it.
        (
            r#"{"$setElementOrder/secrets":[{"name":"z"}],"secrets":[{"name":"a","$patch":"delete"},{"name":"z"}]}"#,
            r#"[{"name":"b","kind":"k"},{"name":"c"},{"name":"z"}]"#,
        ),
        (
            r#"{"$setElementOrder/secrets":[{"name":"z"}],"secrets":[{"name":"z"}]}"#,
            r#"[{"name":"z"},{"name":"a"},{"name":"b","kind":"k"},{"name":"c"}]"#,
        ),
    ] {
        assert_eq!(patched(patch), Ok(canonical_text(&with_secrets(secrets))), "{patch}");
    }
}

#[test]
fn what_is_left_of_a_patch_is_shown_as_go_shows_it() {
    // [F10]
    let current = Tape::parse(ACCOUNT.as_bytes()).unwrap();
    for (patch, left) in [
        (
            r#"{"nope":{"a":null,"b":[1,1.5,true,{"c":null}]},"metadata":{"labels":{"x":null}}}"#,
            "map[metadata:map[labels:map[]] nope:map[b:[1 1.5 true map[]]]]",
        ),
        (
            r#"{"$setElementOrder/secrets":[{"name":"a"}],"secrets":[{"name":"a"}],"$retainKeys":["secrets"]}"#,
            "map[]",
        ),
        (
            r#"{"metadata":{"$patch":"replace","name":"a"}}"#,
            "map[metadata:map[name:a]]",
        ),
    ] {
        assert_eq!(
            left_over(&current, patch.as_bytes(), account()),
            Ok(left.to_owned()),
            "{patch}"
        );
    }
}

#[test]
fn patches_that_make_the_real_server_panic_are_refused() {
    // [F10]
    for patch in [
        r#"{"metadata":{"$retainKeys":[{}]}}"#,
        r#"{"secrets":[{"name":{}}]}"#,
        r#"{"$setElementOrder/secrets":[{"name":[]}],"secrets":[{"name":[]}]}"#,
        r#"{"metadata":{"$setElementOrder/finalizers":[{}]}}"#,
    ] {
        assert_eq!(patched(patch), Err(panics()), "{patch}");
    }
}

#[test]
fn large_lists_are_merged_in_time() {
    // [F25] would take hours if each item were compared with all others
    let items: Vec<String> = (0..30_000).map(|at| format!(r#"{{"name":"n{at}"}}"#)).collect();
    let order = items.iter().rev().cloned().collect::<Vec<_>>().join(",");
    let mut reversed = items;
    reversed.reverse();
    let list = reversed.join(",");
    let result = patched(&format!(
        r#"{{"$setElementOrder/secrets":[{order}],"secrets":[{list}]}}"#
    ))
    .unwrap();
    assert!(result.contains(r#"{"name":"n29999"},{"name":"n29998"}"#));
    assert_eq!(result.matches("\"name\":\"n").count(), 30_000);
}

#[test]
fn hostile_patches_never_panic() {
    // [F25]
    let seed = 0x5eed_0004;
    println!("seed {seed:#x}");
    let mut random = fastrand::Rng::with_seed(seed);
    let current = Tape::parse(ACCOUNT.as_bytes()).unwrap();
    let good = r#"{"$retainKeys":["secrets","metadata"],"metadata":{"$setElementOrder/finalizers":["x.io/b","x.io/c"],"finalizers":["x.io/c"],"$deleteFromPrimitiveList/finalizers":["x.io/a"]},"$setElementOrder/secrets":[{"name":"c"},{"name":"a"}],"secrets":[{"name":"c","kind":null},{"name":"b","$patch":"delete"},{"name":"a","$patch":"replace"}]}"#;
    for _ in 0..20_000 {
        let mut patch = good.as_bytes().to_vec();
        for _ in 0..random.usize(1..5) {
            let at = random.usize(..patch.len());
            patch[at] = *random.choice(b"{}[]\",:/-0$\\null\xff").unwrap();
        }
        if let Ok(text) = apply(&current, &patch, account()) {
            Tape::parse(&text).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&patch)));
            left_over(&current, &patch, account()).unwrap();
        }
    }
    let deep = format!("{}1{}", r#"{"a":"#.repeat(9_000), "}".repeat(9_000));
    assert_eq!(patched(&deep), Err(PatchError::too_deep()));
}
