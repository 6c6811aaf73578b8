//! The addresses and ports that services are given.
//!
//! A real server remembers what it has given in objects of its own, and gives it back when a service goes. Here an address
//! belongs to the service that was given it for as long as that service holds it: who wants it asks the store. Only between
//! the choice and the commit it is held by whoever chose it ([`Held`]), so that two writers never choose the same.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};

use crate::defaults;
use crate::kinds::Resource;
use crate::object::Object;
use crate::server::Shared;
use crate::specs::{At, Findings, addresses_of_service, is_ipv6};
use crate::status::Status;
use crate::storage::{ResourceId, Versioned};
use crate::stored::{Stored, key_of};
use crate::validation::FieldError;

type Fields = Map<String, Value>;

/// `10.0.0.0/24`, which is what a real server gives from if it is not told otherwise.
const NETWORK: [u8; 3] = [10, 0, 0];
/// That of the server's own service.
const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The key of that service.
const OWN_SERVICE: &str = "default/kubernetes";
const PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// How often a random choice is tried before all are tried in turn.
const TRIES: usize = 64;

/// What a service has for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Claim {
    Address(Ipv4Addr),
    Port(i64),
}

#[derive(Debug)]
struct Owner {
    key: String,
    /// How many writers have chosen it and not yet committed.
    held: usize,
}

/// Who was given what.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    owners: Mutex<HashMap<Claim, Owner>>,
}

impl Addresses {
    /// Notes anew who has what, after the store has gone back to an older state: these services and no others.
    pub(crate) fn restored(&self, services: impl IntoIterator<Item = (Arc<str>, Versioned<Stored>)>) {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.retain(|_, owner| owner.held > 0);
        for (key, service) in services {
            let body = crate::specs::body(&service.object.object());
            let Some(spec) = body["spec"].as_object() else { continue };
            for claim in claims(spec) {
                let held = owners.get(&claim).map_or(0, |owner| owner.held);
                let key = key.to_string();
                owners.insert(claim, Owner { key, held });
            }
        }
    }
}

/// What a writer has chosen and not yet committed; released when it is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    addresses: &'a Addresses,
    claims: Vec<Claim>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut owners = self.addresses.owners.lock().unwrap_or_else(PoisonError::into_inner);
        for claim in &self.claims {
            if let Some(owner) = owners.get_mut(claim) {
                owner.held = owner.held.saturating_sub(1);
            }
        }
    }
}

/// One allocation.
struct Allocator<'a> {
    server: &'a Shared,
    id: ResourceId,
    key: String,
    held: Held<'a>,
    errors: Vec<FieldError>,
}

/// Gives a service what it asks for and what it needs, given the one that it replaces. What is returned is kept until the
/// service is committed.
///
/// # Errors
/// 422 for addresses and ports that it cannot have, 500 if there are none left.
pub(crate) fn allocate<'a>(
    server: &'a Shared,
    resource: &Resource,
    id: ResourceId,
    old: Option<&Object>,
    new: &mut Object,
) -> Result<Held<'a>, Status> {
    let mut allocator = Allocator {
        server,
        id,
        key: key_of(Some(&new.meta.namespace), &new.meta.name),
        held: Held {
            addresses: &server.addresses,
            claims: Vec::new(),
        },
        errors: Vec::new(),
    };
    let name = new.meta.name.clone();
    let old = old.map(|old| crate::specs::body(old)["spec"].take());
    let mut result = Ok(());
    defaults::change(resource, new, |fields| {
        if let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
            result = allocator.settle(spec, old.as_ref().and_then(Value::as_object), &name);
            if let Some(old) = old.as_ref().and_then(Value::as_object) {
                drop_unused(spec, old);
            }
        }
    });
    result?;
    let Allocator { held, errors, .. } = allocator;
    crate::verbs::check_findings(resource, &name, &errors)?;
    Ok(held)
}

fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(fields: &'a Fields, name: &str) -> &'a [Value] {
    fields.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn needs_address(spec: &Fields) -> bool {
    text(spec, "type") != "ExternalName"
}

fn needs_health_port(spec: &Fields) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

fn may_have_ports(spec: &Fields) -> bool {
    matches!(text(spec, "type"), "NodePort" | "LoadBalancer")
}

fn gives_ports(spec: &Fields) -> bool {
    text(spec, "type") == "NodePort"
        || text(spec, "type") == "LoadBalancer"
            && spec.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false))
}

/// Whether a service with this spec can be reached from outside of the cluster.
pub(crate) fn is_reachable(spec: &Fields) -> bool {
    match text(spec, "type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !list(spec, "externalIPs").is_empty(),
        _ => false,
    }
}

fn is_headless(spec: &Fields) -> bool {
    list(spec, "clusterIPs").first().is_some_and(|ip| ip == "None")
}

fn node_ports(spec: &Fields) -> Vec<i64> {
    let ports = list(spec, "ports").iter();
    ports
        .filter_map(|port| port["nodePort"].as_i64())
        .filter(|port| *port != 0)
        .collect()
}

/// What a stored service has for itself.
fn claims(spec: &Fields) -> impl Iterator<Item = Claim> {
    let addresses = list(spec, "clusterIPs").iter();
    let addresses = addresses.filter_map(|ip| ip.as_str()?.parse().ok().map(Claim::Address));
    let health = spec.get("healthCheckNodePort").and_then(Value::as_i64);
    let ports = node_ports(spec).into_iter().chain(health);
    addresses.chain(ports.map(Claim::Port))
}

/// What an update leaves out that was given before is taken over.
fn keep_given(spec: &mut Fields, old: &Fields) {
    let mut keep = |field: &str| {
        if spec.get(field).is_none_or(|value| value == "")
            && let Some(value) = old.get(field)
        {
            spec.insert(field.to_owned(), value.clone());
        }
    };
    if text(old, "type") != "ExternalName" {
        keep("clusterIP");
        keep("clusterIPs");
    }
    if needs_health_port(old) {
        keep("healthCheckNodePort");
    }
}

/// What an update leaves out of the ports that was given before is taken over.
fn keep_ports(spec: &mut Fields, old: &Fields) {
    let used: Vec<i64> = node_ports(spec)
        .into_iter()
        .filter(|port| node_ports(old).contains(port))
        .collect();
    let of_name: HashMap<String, i64> = list(old, "ports")
        .iter()
        .map(|port| {
            let name = port["name"].as_str().unwrap_or_default().to_owned();
            (name, port["nodePort"].as_i64().unwrap_or_default())
        })
        .collect();
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        let name = port["name"].as_str().unwrap_or_default();
        let kept = of_name
            .get(name)
            .copied()
            .filter(|port| *port != 0 && !used.contains(port));
        if port["nodePort"].as_i64().unwrap_or_default() == 0
            && let Some(kept) = kept
        {
            port["nodePort"] = kept.into();
        }
    }
}

/// One address and the list of all say the same, whichever the client has written.
fn agree(spec: &mut Fields, old: Option<&Fields>) {
    let single = text(spec, "clusterIP").to_owned();
    let Some(old) = old else {
        if !single.is_empty() && list(spec, "clusterIPs").is_empty() {
            spec.insert("clusterIPs".to_owned(), json!([single]));
        }
        return;
    };
    let before = text(old, "clusterIP");
    let same_list = spec.get("clusterIPs") == old.get("clusterIPs");
    if list(spec, "clusterIPs").is_empty() && before == single {
        if let Some(ips) = old.get("clusterIPs") {
            spec.insert("clusterIPs".to_owned(), ips.clone());
        }
    } else if before != single && same_list {
        if !before.is_empty() && single.is_empty() {
            spec.remove("clusterIPs");
        } else {
            spec.insert("clusterIPs".to_owned(), json!([single]));
        }
    }
}

impl Allocator<'_> {
    fn settle(&mut self, spec: &mut Fields, old: Option<&Fields>, name: &str) -> Result<(), Status> {
        if let Some(old) = old {
            if needs_address(old) && needs_address(spec) {
                keep_given(spec, old);
            }
            if may_have_ports(old) && may_have_ports(spec) && gives_ports(old) && gives_ports(spec) {
                keep_ports(spec, old);
            }
        }
        agree(spec, old);
        self.families(spec, old);
        if !self.errors.is_empty() {
            return Ok(());
        }
        let gets_address = match old {
            None => true,
            Some(old) => text(old, "type") == "ExternalName",
        };
        if gets_address && needs_address(spec) && !is_headless(spec) {
            self.address(spec, name)?;
        }
        if self.errors.is_empty() && may_have_ports(spec) {
            self.ports(spec, old)?;
        }
        if self.errors.is_empty() && needs_health_port(spec) && !old.is_some_and(needs_health_port) {
            let asked = spec
                .get("healthCheckNodePort")
                .and_then(Value::as_i64)
                .unwrap_or_default();
            let port = if asked == 0 {
                self.next_port()?
            } else {
                self.claim_port(asked).map_err(|why| {
                    internal(&format!(
                        "failed to allocate requested HealthCheck NodePort {asked}: {why}"
                    ))
                })?;
                asked
            };
            spec.insert("healthCheckNodePort".to_owned(), port.into());
        }
        Ok(())
    }

    fn refuse(&mut self, field: &str, value: &Value, detail: &str) {
        let mut found = Findings::default();
        found.invalid(&At::new(field, value), detail);
        self.errors.extend(found.into_errors());
    }

    /// Settles of which families the addresses are: a service has those of version 4 alone.
    fn families(&mut self, spec: &mut Fields, old: Option<&Fields>) {
        const OTHER: &str = "not configured on this cluster";
        if !needs_address(spec) {
            return;
        }
        let selects = spec
            .get("selector")
            .and_then(Value::as_object)
            .is_some_and(|selector| !selector.is_empty());
        if !spec.contains_key("ipFamilyPolicy") {
            let policy = match old.and_then(|old| old.get("ipFamilyPolicy")) {
                Some(policy) => policy.clone(),
                None if is_headless(spec) && !selects => "RequireDualStack".into(),
                None => "SingleStack".into(),
            };
            spec.insert("ipFamilyPolicy".to_owned(), policy);
        }
        let mut found = Findings::default();
        let (new, before) = (
            Value::Object(spec.clone()),
            old.cloned().map_or(Value::Null, Value::Object),
        );
        addresses_of_service(&At::new("spec", &new), &At::new("spec", &before), &mut found);
        if !found.is_empty() {
            self.errors = found.into_errors();
            return;
        }
        let policy = spec.get("ipFamilyPolicy").cloned().unwrap_or_default();
        let ips = spec.get("clusterIPs").cloned().unwrap_or_default();
        let mut families: Vec<Value> = list(spec, "ipFamilies").to_vec();
        if policy == "SingleStack" {
            for (count, what) in [
                (list(spec, "clusterIPs").len(), "cluster IPs"),
                (families.len(), "IP families"),
            ] {
                if count == 2 {
                    let text =
                        format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
                    self.refuse("spec.ipFamilyPolicy", &policy, &text);
                }
            }
        }
        if !is_headless(spec) {
            for (index, ip) in list(spec, "clusterIPs")
                .to_vec()
                .iter()
                .enumerate()
                .skip(families.len())
            {
                if is_ipv6(ip.as_str().unwrap_or_default()) {
                    let text = format!("IPv6 is {OTHER}");
                    self.refuse(&format!("spec.clusterIPs[{index}]"), &ips, &text);
                } else {
                    families.push("IPv4".into());
                }
            }
        }
        if !self.errors.is_empty() {
            return;
        }
        if families.is_empty() && is_headless(spec) && !selects {
            families.push("IPv4".into());
        }
        if is_headless(spec) && !selects {
            if families.len() < 2 && policy != "SingleStack" {
                let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
                families.push(other.into());
            }
        } else {
            if policy == "RequireDualStack" {
                let text = "this cluster is not configured for dual-stack services";
                self.refuse("spec.ipFamilyPolicy", &policy, text);
            }
            for (index, family) in families.clone().iter().enumerate() {
                if family != "IPv4" {
                    self.refuse(&format!("spec.ipFamilies[{index}]"), family, OTHER);
                }
            }
            if families.is_empty() {
                families.push("IPv4".into());
            }
        }
        spec.insert("ipFamilies".to_owned(), families.into());
    }

    /// Gives the first address, or the one that is asked for.
    fn address(&mut self, spec: &mut Fields, name: &str) -> Result<(), Status> {
        let ips = spec.get("clusterIPs").cloned().unwrap_or_default();
        let asked = list(spec, "clusterIPs")
            .first()
            .and_then(Value::as_str)
            .unwrap_or_default();
        let given = if asked.is_empty() {
            let ip = self.next_address(name)?;
            if name.is_empty() {
                let text = format!("failed to allocate IP: {}", nobody_has(ip));
                self.refuse("spec.clusterIPs", &json!([""]), &text);
                return Ok(());
            }
            ip
        } else {
            // What is no address of version 4 has been refused before.
            let ip: Ipv4Addr = asked.parse().unwrap_or(Ipv4Addr::UNSPECIFIED);
            let [a, b, c, last] = ip.octets();
            let fits = [a, b, c] == NETWORK && (1..=254).contains(&last);
            let why = if !fits {
                Some("the provided network does not match the current range".to_owned())
            } else if name.is_empty() {
                Some(nobody_has(ip))
            } else if self.claim(Claim::Address(ip)) {
                None
            } else {
                Some("provided IP is already allocated".to_owned())
            };
            if let Some(why) = why {
                let text = format!("failed to allocate IP {asked}: {why}");
                self.refuse("spec.clusterIPs", &ips, &text);
                return Ok(());
            }
            ip
        };
        let given = given.to_string();
        spec.insert("clusterIPs".to_owned(), json!([given]));
        spec.insert("clusterIP".to_owned(), given.into());
        Ok(())
    }

    fn next_address(&mut self, name: &str) -> Result<Ipv4Addr, Status> {
        let [a, b, c] = NETWORK;
        // The first ones are for those who ask for them.
        let random =
            |names: &crate::clock::Names| Ipv4Addr::new(a, b, c, 17 + u8::try_from(names.below(238)).unwrap_or(0));
        for _ in 0..TRIES {
            let ip = random(&self.server.names);
            if self.claim(Claim::Address(ip)) {
                return Ok(ip);
            }
        }
        // When the range is full, tests go on in the network around it.
        let all = (0..=u8::MAX).flat_map(|third| (1..=254).map(move |last| Ipv4Addr::new(a, b, third, last)));
        for ip in all {
            if self.claim(Claim::Address(ip)) {
                return Ok(ip);
            }
        }
        Err(internal(&format!(
            "failed to allocate a serviceIP for Service \"{name}\": range is full"
        )))
    }

    fn ports(&mut self, spec: &mut Fields, old: Option<&Fields>) -> Result<(), Status> {
        let gives = gives_ports(spec);
        let before: HashSet<i64> = old.map(node_ports).unwrap_or_default().into_iter().collect();
        let mut ports: Vec<Value> = list(spec, "ports").to_vec();
        // Of a new service, one port has one port of the node, whatever protocols there are.
        let mut same: HashMap<i64, i64> = HashMap::new();
        for index in 0..ports.len() {
            let number = |port: &Value, field: &str| port[field].as_i64().unwrap_or_default();
            let (port, asked) = (number(&ports[index], "port"), number(&ports[index], "nodePort"));
            if asked == 0 && !gives {
                continue;
            }
            let known = same.get(&port).copied().filter(|_| old.is_none());
            let twin = || {
                let mut others = ports.iter();
                others.find(|other| number(other, "port") == port && number(other, "nodePort") != 0)
            };
            let wanted = match (known, asked) {
                (Some(known), 0) => {
                    ports[index]["nodePort"] = known.into();
                    continue;
                }
                (Some(known), asked) if asked == known => continue,
                (None, 0) if old.is_none() => twin().map_or(0, |twin| number(twin, "nodePort")),
                (_, asked) => asked,
            };
            let given = if wanted == 0 {
                self.next_port()?
            } else {
                let has = before.contains(&wanted) || old.is_some() && same.values().any(|port| *port == wanted);
                if !has && let Err(why) = self.claim_port(wanted) {
                    self.refuse(&format!("spec.ports[{index}].nodePort"), &wanted.into(), why);
                    return Ok(());
                }
                wanted
            };
            if known.is_none() {
                same.insert(if old.is_none() { port } else { given }, given);
            }
            ports[index]["nodePort"] = given.into();
        }
        if !ports.is_empty() {
            spec.insert("ports".to_owned(), ports.into());
        }
        Ok(())
    }

    fn claim_port(&mut self, port: i64) -> Result<(), &'static str> {
        if !PORTS.contains(&port) {
            return Err("provided port is not in the valid range. The range of valid ports is 30000-32767");
        }
        if self.claim(Claim::Port(port)) {
            Ok(())
        } else {
            Err("provided port is already allocated")
        }
    }

    fn next_port(&mut self) -> Result<i64, Status> {
        for _ in 0..TRIES {
            // Less than three thousand.
            let port = PORTS.start() + i64::from(self.server.names.below(2_768));
            if self.claim(Claim::Port(port)) {
                return Ok(port);
            }
        }
        let mut all = PORTS;
        all.find(|port| self.claim(Claim::Port(*port)))
            .ok_or_else(|| internal("failed to allocate a nodePort: range is full"))
    }

    /// Takes something, unless somebody else has it.
    fn claim(&mut self, claim: Claim) -> bool {
        if claim == Claim::Address(OWN) && self.key != OWN_SERVICE {
            return false;
        }
        let mut owners = self
            .held
            .addresses
            .owners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = owners.get_mut(&claim) {
            if owner.held > 0 || self.holds(&owner.key, claim) {
                return false;
            }
            owner.key.clone_from(&self.key);
            owner.held = 1;
        } else {
            let key = self.key.clone();
            owners.insert(claim, Owner { key, held: 1 });
        }
        self.held.claims.push(claim);
        true
    }

    /// Whether a stored service has it.
    fn holds(&self, key: &str, claim: Claim) -> bool {
        let Some(stored) = self.server.storage.get(self.id, key) else {
            return false;
        };
        let body = crate::specs::body(&stored.object.object());
        body["spec"]
            .as_object()
            .is_some_and(|spec| claims(spec).any(|held| held == claim))
    }
}

/// Why a service without a name gets no address: the object that stands for the address names it.
fn nobody_has(ip: Ipv4Addr) -> String {
    format!("IPAddress.networking.k8s.io \"{ip}\" is invalid: spec.parentRef.name: Required value")
}

fn internal(why: &str) -> Status {
    Status::new(500, "InternalError", format!("Internal error occurred: {why}"))
        .cause(crate::status::Cause::new("", why, ""))
}

/// What depends on the type of a service goes when the type does, unless the client has written it anew.
fn drop_unused(spec: &mut Fields, old: &Fields) {
    let same = |spec: &Fields, field: &str| spec.get(field) == old.get(field);
    if needs_address(old) && !needs_address(spec) {
        if same(spec, "clusterIP") && same(spec, "clusterIPs") {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        for field in ["ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            if same(spec, field) {
                spec.remove(field);
            }
        }
    }
    let before: HashSet<i64> = node_ports(old).into_iter().collect();
    if may_have_ports(old) && !may_have_ports(spec) && node_ports(spec).iter().all(|port| before.contains(port)) {
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }
    if needs_health_port(old) && !needs_health_port(spec) && same(spec, "healthCheckNodePort") {
        spec.remove("healthCheckNodePort");
    }
    if text(old, "type") == "LoadBalancer" && text(spec, "type") != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(spec, field) {
                spec.remove(field);
            }
        }
    }
    if is_reachable(old) && !is_reachable(spec) && same(spec, "externalTrafficPolicy") {
        spec.remove("externalTrafficPolicy");
    }
}
