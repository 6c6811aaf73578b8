//! Definitions with mistakes, on which a comparison by hand (`differential::written`) found differences, each kind of them
//! once.

use serde_json::{Value, json};

use super::texts::{LABEL_1035, SUBDOMAIN};
use crate::harness::{CustomKind, Server, cases, unique};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";

/// A definition with these changes, which are told from the spec on.
async fn define(server: &Server, group: &str, change: impl FnOnce(&mut Value)) -> crate::harness::Answer {
    let mut definition = CustomKind::definition(group);
    change(&mut definition["spec"]);
    server.post(&format!("{DEFINITIONS}?dryRun=All"), &definition).await
}

// [F17] [F18] what versions of a definition may have is told beside them where all have the same
async fn parts_of_definitions_are_validated(server: Server) {
    let group = format!("{}.example.com", unique());
    let name = format!("widgets.{group}");
    let invalid = |value: &str, why: &str| format!("Invalid value: {value:?}: {why}");
    let version = json!({
        "subresources": {"scale": {"specReplicasPath": "x", "labelSelectorPath": ".x"}},
        "additionalPrinterColumns": [{"type": "int", "format": "x", "jsonPath": "x"}],
        "deprecationWarning": "w",
    });
    let add = |version: &mut Value, more: &Value| {
        version
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
    };
    let simple = invalid("x", "must be a simple json path starting with .");
    let below = invalid(".x", "should be a json path under either .spec or .status");
    let kinds = invalid("int", "must be one of boolean,date,integer,number,string");
    let formats = invalid(
        "x",
        "must be one of byte,date,date-time,double,float,int32,int64,password",
    );
    let deprecated = invalid("w", "can only be set for deprecated versions");
    let one = define(&server, &group, |spec| add(&mut spec["versions"][0], &version)).await;
    let two = define(&server, &group, |spec| {
        let mut other = spec["versions"][0].clone();
        other["name"] = "v2".into();
        other["storage"] = false.into();
        add(&mut other, &version);
        spec["versions"].as_array_mut().unwrap().push(other);
    })
    .await;
    for (answer, warned, at) in [(one, 0, "spec"), (two, 1, "spec.versions[1]")] {
        let warning = format!("spec.versions[{warned}].deprecationWarning");
        let field = |field: &str| format!("{at}.{field}");
        let fields = [
            field("subresources.scale.specReplicasPath"),
            field("subresources.scale.statusReplicasPath"),
            field("subresources.scale.labelSelectorPath"),
            field("additionalPrinterColumns[0].name"),
            field("additionalPrinterColumns[0].type"),
            field("additionalPrinterColumns[0].format"),
            field("additionalPrinterColumns[0].JSONPath"),
        ];
        answer.invalid(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            &name,
            &[
                (INVALID, &*warning, &*deprecated),
                (INVALID, &fields[0], &simple),
                (REQUIRED, &fields[1], "Required value"),
                (INVALID, &fields[2], &below),
                (REQUIRED, &fields[3], "Required value"),
                (INVALID, &fields[4], &kinds),
                (INVALID, &fields[5], &formats),
                (INVALID, &fields[6], &simple),
            ],
        );
    }
}

// [F17] [F18] groups, names and conversions of definitions
async fn definitions_are_validated(server: Server) {
    let group = format!("{}.example.com", unique());
    let name = format!("widgets.{group}");
    let invalid = |value: &str, why: &str| format!("Invalid value: {value:?}: {why}");
    let check = |answer: crate::harness::Answer, causes: &[(&str, &str, &str)]| {
        answer.invalid("apiextensions.k8s.io", "CustomResourceDefinition", &name, causes);
    };
    let same = invalid("Widget", "kind and listKind may not be the same");
    let answer = define(&server, &group, |spec| spec["names"]["listKind"] = "Widget".into()).await;
    check(answer, &[(INVALID, "spec.names.listKind", &same)]);
    let named = invalid(&name, "must be spec.names.plural+\".\"+spec.group");
    for (other, why) in [
        ("nodots", "should be a domain with at least one dot"),
        ("Bad_.x", SUBDOMAIN),
    ] {
        let answer = define(&server, &group, |spec| spec["group"] = other.into()).await;
        let why = invalid(other, why);
        check(
            answer,
            &[(INVALID, "metadata.name", &named), (INVALID, "spec.group", &why)],
        );
    }
    let long = "a".repeat(64);
    let answer = define(&server, &group, |spec| {
        spec["versions"][0]["name"] = long.clone().into();
    })
    .await;
    let why = invalid(&long, "must be no more than 63 characters");
    check(
        answer,
        &[
            (INVALID, "spec.versions[0].name", &why),
            (INVALID, "spec.version", &why),
        ],
    );
    let preserve = "Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                    spec.versions[*].schema instead";
    let answer = define(&server, &group, |spec| spec["preserveUnknownFields"] = true.into()).await;
    check(answer, &[(INVALID, "spec.preserveUnknownFields", preserve)]);
    let conversion = json!({
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"url": "http://u@/?a=b#c"}, "conversionReviewVersions": ["v2", "A"]},
    });
    let answer = define(&server, &group, |spec| spec["conversion"] = conversion).await;
    let url = "spec.conversion.webhookClientConfig.url";
    let form = "; desired format: https://host[/path]";
    let texts = [
        invalid("http", &format!("'https' is the only allowed URL scheme{form}")),
        invalid("", &format!("host must be specified{form}")),
        invalid("u", "user information is not permitted in the URL"),
        invalid("c", "fragments are not permitted in the URL"),
        invalid("a=b", "query parameters are not permitted in the URL"),
        invalid("A", LABEL_1035),
    ];
    let reviews = r#"Invalid value: ["v2","A"]: must include at least one of v1, v1beta1"#;
    check(
        answer,
        &[
            (INVALID, url, &texts[0]),
            (INVALID, url, &texts[1]),
            (INVALID, url, &texts[2]),
            (INVALID, url, &texts[3]),
            (INVALID, url, &texts[4]),
            (INVALID, "spec.conversion.conversionReviewVersions[1]", &texts[5]),
            (INVALID, "spec.conversion.conversionReviewVersions", reviews),
        ],
    );
}

// [F17] [F18] groups of Kubernetes itself need to be approved
async fn groups_of_kubernetes_need_approval(server: Server) {
    let field = "metadata.annotations[api-approved.kubernetes.io]";
    let must = "protected groups must have approval annotation \"api-approved.kubernetes.io\"";
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    for (annotation, cause) in [
        (None, Some((REQUIRED, format!("Required value: {must}, {see}")))),
        (
            Some("yes"),
            Some((
                INVALID,
                format!(
                    "Invalid value: \"yes\": {must} with either a URL or a reason starting with \"unapproved\", {see}"
                ),
            )),
        ),
        (Some("https://example.com/pull/1"), None),
        (Some("unapproved, a test"), None),
    ] {
        let mut definition = CustomKind::definition("case.k8s.io");
        if let Some(text) = annotation {
            definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": text});
        }
        let answer = server.post(&format!("{DEFINITIONS}?dryRun=All"), &definition).await;
        match cause {
            Some((reason, text)) => answer.invalid(
                "apiextensions.k8s.io",
                "CustomResourceDefinition",
                "widgets.case.k8s.io",
                &[(reason, field, &text)],
            ),
            None => assert_eq!(answer.code, 201, "{answer}"),
        }
    }
}

// [F17] [F18] what may not change in a definition, and what is filled in anew
async fn definitions_keep_their_names(server: Server) {
    let kind = CustomKind::register(&server, |_| {}).await;
    let path = format!("{DEFINITIONS}/widgets.{}", kind.group);
    let stored = server.get(&path).await.ok();
    let put = async |change: fn(&mut Value)| {
        let mut definition = stored.clone();
        change(&mut definition["spec"]);
        server.put(&format!("{path}?dryRun=All"), &definition).await
    };
    let named = |field: &str, value: &str| {
        (
            format!("spec.{field}"),
            format!("Invalid value: {value:?}: field is immutable"),
        )
    };
    let answer = put(|spec| {
        spec["scope"] = "Cluster".into();
        spec["names"]["kind"] = "Gadget".into();
        spec["names"]["plural"] = "gadgets".into();
    })
    .await;
    let wrong = [
        named("scope", "Cluster"),
        named("names.kind", "Gadget"),
        named("names.plural", "gadgets"),
    ];
    let causes: Vec<_> = wrong.iter().map(|(field, text)| (INVALID, &**field, &**text)).collect();
    let name = format!("widgets.{}", kind.group);
    answer.invalid("apiextensions.k8s.io", "CustomResourceDefinition", &name, &causes);
    let answer = put(|spec| spec["versions"][0]["name"] = "v2".into()).await;
    let text = "Invalid value: \"v1\": missing from spec.versions; v1 was previously a storage version, and must remain in \
                spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from \
                status.storedVersions";
    let causes = [(INVALID, "status.storedVersions[0]", text)];
    answer.invalid("apiextensions.k8s.io", "CustomResourceDefinition", &name, &causes);
    let answer = put(|spec| {
        let names = spec["names"].as_object_mut().unwrap();
        names.remove("singular");
        names.remove("listKind");
    })
    .await;
    let names = &answer.ok()["spec"]["names"];
    assert_eq!(
        (&names["singular"], &names["listKind"]),
        (&json!("widget"), &json!("WidgetList"))
    );
}

cases![
    parts_of_definitions_are_validated,
    definitions_are_validated,
    groups_of_kubernetes_need_approval,
    definitions_keep_their_names,
];
