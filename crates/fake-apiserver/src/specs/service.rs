//! Services.

use std::collections::HashSet;

use super::values::labels;
use super::{At, Bodies, Findings, net};
use crate::services::is_reachable;
use crate::validation::{label_errors, label_key_errors, subdomain_errors};

const FAMILIES: &[&str] = &["IPv4", "IPv6"];
const POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

fn is_headless(spec: &At<'_>) -> bool {
    spec.field("clusterIPs").item(0).is("None") || spec.field("clusterIP").is("None")
}

/// Whether its health is asked for at a port of its own.
fn needs_health_check(spec: &At<'_>) -> bool {
    spec.field("type").is("LoadBalancer") && spec.field("externalTrafficPolicy").is("Local")
}

pub(super) fn validate(bodies: &Bodies<'_>, found: &mut Findings) {
    let (spec, old) = (bodies.at("spec"), bodies.old("spec"));
    if bodies.is_update() {
        addresses_update(&spec, &old, found);
        if needs_health_check(&spec) && needs_health_check(&old) {
            let port = spec.field("healthCheckNodePort");
            if port.value != old.field("healthCheckNodePort").value {
                found.forbidden(&port, "field is immutable");
            }
        }
    }
    ports_and_type(&spec, found);
    labels(found, &spec.field("selector"));
    affinity(&spec, found);
    addresses(&spec, &old, found);
    let external = spec.field("externalIPs");
    for ip in external.items() {
        let before = found.len();
        net::ip(found, &ip, &old.field("externalIPs"));
        if found.len() == before {
            net::endpoint_ip(found, &ip);
        }
    }
    found.one_of(
        &spec.field("type"),
        &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
    );
    repeated_ports(&spec, found);
    of_load_balancer(&spec, &old, found);
    traffic(&spec, found);
}

fn ports_and_type(spec: &At<'_>, found: &mut Findings) {
    let headless = is_headless(spec);
    let (kind, ports) = (spec.field("type"), spec.field("ports"));
    if ports.is_empty() && !headless && !kind.is("ExternalName") {
        found.required(&ports, "");
    }
    match kind.text() {
        "LoadBalancer" | "NodePort" if headless => {
            let text = format!("may not be set to 'None' for {} services", kind.text());
            found.invalid_as(&spec.field("clusterIPs").item(0), "\"None\"", &text);
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let at = spec.field(field);
                if !at.is_empty() {
                    found.forbidden(&at, "may not be set for ExternalName services");
                }
            }
            let name = spec.field("externalName");
            let text = name.text().strip_suffix('.').unwrap_or(name.text());
            if text.is_empty() {
                found.required(&name, "");
            } else {
                for error in subdomain_errors(text) {
                    found.invalid_as(&name, &crate::gotext::go_quote(text), &error);
                }
            }
        }
        _ => {}
    }
    let mut names = HashSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.is_empty() {
            found.text_errors(&name, label_errors(name.text()));
            if !names.insert(name.text()) {
                found.duplicate(&name);
            }
        } else if ports.len() > 1 {
            found.required(&name, "");
        }
        net::port(found, &port.field("port"));
        found.one_of(&port.field("protocol"), PROTOCOLS);
        net::port_or_name(found, &port.field("targetPort"));
        let protocol = port.field("appProtocol");
        if protocol.is_set() {
            found.text_errors(&protocol, label_key_errors(protocol.text()));
        }
    }
}

fn affinity(spec: &At<'_>, found: &mut Findings) {
    let (affinity, config) = (spec.field("sessionAffinity"), spec.field("sessionAffinityConfig"));
    found.one_of(&affinity, &["ClientIP", "None"]);
    let seconds = config.deep(&["clientIP", "timeoutSeconds"]);
    if affinity.is("ClientIP") && !(1..=86_400).contains(&seconds.int()) {
        found.invalid_int(&seconds, "must be greater than 0 and less than 86400");
    }
}

/// What is wrong with addresses and their families, before and after some are given to a service.
pub(crate) fn addresses(spec: &At<'_>, old: &At<'_>, found: &mut Findings) {
    if spec.field("type").is("ExternalName") {
        return;
    }
    let (ip, ips) = (spec.field("clusterIP"), spec.field("clusterIPs"));
    if ip.is_empty() {
        if !ips.is_empty() {
            found.invalid(&ips, "must be empty when `clusterIP` is not specified");
        }
    } else if ips.is_empty() {
        found.required(&ips, "");
    } else if ips.item(0).text() != ip.text() {
        found.invalid(&ips, "first value must match `clusterIP`");
    }
    let families = spec.field("ipFamilies");
    let mut seen = HashSet::new();
    for family in families.items() {
        if !FAMILIES.contains(&family.text()) {
            found.not_supported(&family, FAMILIES);
        }
        if !seen.insert(family.text()) {
            found.duplicate(&family);
        }
    }
    let policy = spec.field("ipFamilyPolicy");
    if policy.is_set() && !POLICIES.contains(&policy.text()) {
        found.not_supported(&policy, POLICIES);
    }
    let before = found.len();
    for (index, ip) in ips.items().enumerate() {
        if index == 0 && ip.is("None") {
            if ips.len() > 1 {
                found.invalid(&ips, "'None' must be the first and only value");
            }
        } else {
            net::ip(found, &ip, &old.field("clusterIPs"));
        }
    }
    let sound = found.len() == before;
    if ips.len() > 2 {
        found.invalid(&ips, "may only hold up to 2 values");
    }
    if !sound {
        return;
    }
    let of_six = ips.items().filter(|ip| net::is_ipv6(ip.text())).count();
    if ips.len() > 1 && (of_six == 0 || of_six == ips.len()) {
        found.invalid(&ips, "may specify no more than one IP for each IP family");
    }
    if is_headless(spec) {
        return;
    }
    for (index, (ip, family)) in ips.items().zip(families.items()).enumerate() {
        let wrong = match family.text() {
            "IPv4" => net::is_ipv6(ip.text()),
            "IPv6" => !net::is_ipv6(ip.text()),
            _ => false,
        };
        if wrong {
            let text = format!(
                "expected an {} value as indicated by `ipFamilies[{index}]`",
                family.text()
            );
            found.invalid_text(&ip, &text);
        }
    }
}

fn addresses_update(spec: &At<'_>, old: &At<'_>, found: &mut Findings) {
    const CHANGED: &str = "may not change once set";
    if spec.field("type").is("ExternalName") || old.field("type").is("ExternalName") {
        return;
    }
    let (ips, before) = (spec.field("clusterIPs"), old.field("clusterIPs"));
    let (headless, was_headless) = (is_headless(spec), is_headless(old));
    let policy = spec.field("ipFamilyPolicy");
    let list = |at: &At<'_>| match at.value {
        serde_json::Value::Null => "null".to_owned(),
        value => value.to_string(),
    };
    let both: [(&At<'_>, &At<'_>, &str, &str); 2] = [
        (
            &ips,
            &before,
            "primary clusterIP can not be unset",
            "must be set to 'SingleStack' when releasing the secondary clusterIP",
        ),
        (
            &spec.field("ipFamilies"),
            &old.field("ipFamilies"),
            "primary ipFamily can not be unset",
            "must be set to 'SingleStack' when releasing the secondary ipFamily",
        ),
    ];
    for (at, (now, was, unset, released)) in both.into_iter().enumerate() {
        let skipped = if at == 0 {
            headless && was_headless
        } else {
            headless || was_headless
        };
        if skipped {
            continue;
        }
        let first = now.item(0);
        let changed_first = !was.is_empty() && !now.is_empty() && first.value != was.item(0).value;
        if was.len() == now.len() {
            for (index, (a, b)) in was.items().zip(now.items()).enumerate() {
                if a.value != b.value {
                    let place = now.item(if at == 0 { index } else { 0 });
                    found.invalid_as(&place, &list(now), CHANGED);
                }
            }
            continue;
        }
        if ips.is_empty() && was.len() > now.len() {
            found.invalid_as(&first, &list(now), unset);
        }
        if changed_first {
            found.invalid_as(&first, &list(&ips), CHANGED);
        }
        if was.len() > now.len() && now.len() == 1 && !policy.is("SingleStack") {
            found.invalid(&policy, released);
        }
    }
}

fn repeated_ports(spec: &At<'_>, found: &mut Findings) {
    let ports = spec.field("ports");
    if spec.field("type").is("ClusterIP") {
        for port in ports.items() {
            let node = port.field("nodePort");
            if node.int() != 0 {
                found.forbidden(&node, "may not be used when `type` is 'ClusterIP'");
            }
        }
    }
    let mut nodes = HashSet::new();
    for port in ports.items() {
        let node = port.field("nodePort");
        if node.int() != 0 && !nodes.insert((port.field("protocol").text(), node.int())) {
            found.duplicate(&node);
        }
    }
    let mut seen = HashSet::new();
    for port in ports.items() {
        let key = (port.field("protocol").text(), port.field("port").int());
        if !seen.insert(key) {
            // The server shows a port of its own making, in the words of Go.
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":\"{}\",\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                key.0, key.1
            );
            found.duplicate_as(&port, &shown);
        }
    }
}

fn of_load_balancer(spec: &At<'_>, old: &At<'_>, found: &mut Findings) {
    const ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
    let of_balancer = spec.field("type").is("LoadBalancer");
    let ranges = At::new(
        "spec.LoadBalancerSourceRanges",
        spec.field("loadBalancerSourceRanges").value,
    );
    if !ranges.is_empty() {
        if !of_balancer {
            found.forbidden(&ranges, ONLY);
        }
        let before = old.field("loadBalancerSourceRanges");
        for range in ranges.items() {
            let text = range.text().trim();
            if !before.items().any(|old| old.text().trim() == text) {
                net::cidr(found, &range, text);
            }
        }
    }
    let allocates = spec.field("allocateLoadBalancerNodePorts");
    if allocates.is_set() && !of_balancer {
        found.forbidden(&allocates, ONLY);
    }
    let class = spec.field("loadBalancerClass");
    if of_balancer && old.field("type").is("LoadBalancer") && class.value != old.field("loadBalancerClass").value {
        found.invalid(&class, "may not change once set");
    }
    if class.is_set() {
        if of_balancer {
            found.text_errors(&class, label_key_errors(class.text()));
        } else {
            found.forbidden(&class, ONLY);
        }
    }
}

fn traffic(spec: &At<'_>, found: &mut Findings) {
    let policy = spec.field("externalTrafficPolicy");
    if spec.value.as_object().is_some_and(is_reachable) {
        found.one_of(&policy, &["Cluster", "Local"]);
    } else if !policy.is_empty() {
        found.invalid(&policy, "may only be set for externally-accessible services");
    }
    let port = spec.field("healthCheckNodePort");
    if !needs_health_check(spec) {
        if port.int() != 0 {
            let text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            found.invalid_int(&port, text);
        }
    } else if port.int() == 0 {
        found.required(&port, "");
    } else {
        net::port(found, &port);
    }
    let internal = spec.field("internalTrafficPolicy");
    if internal.is_set() && !["Cluster", "Local"].contains(&internal.text()) {
        found.not_supported(&internal, &["Cluster", "Local"]);
    }
    let distribution = spec.field("trafficDistribution");
    let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if distribution.is_set() && !known.contains(&distribution.text()) {
        found.not_supported(&distribution, &known);
    }
}

pub(super) fn validate_status(bodies: &Bodies<'_>, found: &mut Findings) {
    let (status, old) = (bodies.at("status"), bodies.old("status"));
    let ingress = status.deep(&["loadBalancer", "ingress"]);
    if !bodies.at("spec").field("type").is("LoadBalancer") {
        if !ingress.is_empty() {
            found.forbidden(&ingress, "may only be used when `spec.type` is 'LoadBalancer'");
        }
        return;
    }
    balancer_ingress(&ingress, &old.deep(&["loadBalancer", "ingress"]), true, found);
}

/// What is wrong with the addresses that a load balancer has.
pub(super) fn balancer_ingress(ingress: &At<'_>, old: &At<'_>, has_mode: bool, found: &mut Findings) {
    for at in ingress.items() {
        let (ip, mode, host) = (at.field("ip"), at.field("ipMode"), at.field("hostname"));
        let known = old.items().any(|old| old.field("ip").value == ip.value);
        if !ip.is_empty()
            && !known
            && let Err(detail) = net::parse_ip(ip.text())
        {
            found.invalid_text(&ip, detail);
        }
        if has_mode && !mode.is_set() {
            if !ip.is_empty() {
                found.required(&mode, "must be specified when `ip` is set");
            }
        } else if has_mode && ip.is_empty() {
            found.forbidden(&mode, "may not be specified when `ip` is not set");
        } else if has_mode && !["Proxy", "VIP"].contains(&mode.text()) {
            found.not_supported(&mode, &["Proxy", "VIP"]);
        }
        if !host.is_empty() {
            found.text_errors(&host, subdomain_errors(host.text()));
            if net::parse_ip(host.text()).is_ok() {
                found.invalid_text(&host, "must be a DNS name, not an IP address");
            }
        }
    }
}
