//! Addresses, ports and the names of ports.

use std::net::IpAddr;

use super::{At, Findings};

/// Reads an address in any form that the server knows, with what is wrong with the form.
pub(super) fn parse_ip(text: &str) -> Result<IpAddr, &'static str> {
    const INVALID: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    if let Ok(ip) = text.parse::<IpAddr>() {
        if let IpAddr::V6(ip) = ip
            && ip.to_ipv4_mapped().is_some()
        {
            return Err("must not be an IPv4-mapped IPv6 address");
        }
        return Ok(ip);
    }
    let parts: Vec<&str> = text.split('.').collect();
    let sloppy = parts.len() == 4
        && parts.iter().all(|part| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_digit())
                && part.parse::<u64>().is_ok_and(|n| n < 256)
        });
    Err(if sloppy { "must not have leading 0s" } else { INVALID })
}

pub(crate) fn is_ipv6(text: &str) -> bool {
    text.parse::<IpAddr>()
        .is_ok_and(|ip| ip.is_ipv6() && !text.contains('.'))
}

/// Finds what is no address, unless it was there before.
pub(super) fn ip(found: &mut Findings, at: &At<'_>, existing: &At<'_>) {
    if existing.items().any(|old| old.text() == at.text()) {
        return;
    }
    if let Err(detail) = parse_ip(at.text()) {
        found.invalid_text(at, detail);
    }
}

/// Finds addresses that no endpoint can have.
pub(super) fn endpoint_ip(found: &mut Findings, at: &At<'_>) {
    let text = at.text();
    let Ok(ip) = parse_ip(text) else {
        found.invalid_text(at, "must be a valid IP address");
        return;
    };
    if ip.is_unspecified() {
        found.invalid_text(at, &format!("may not be unspecified ({text})"));
    }
    if ip.is_loopback() {
        found.invalid_text(at, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (link_local, multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xff0f == 0xff02),
    };
    if link_local {
        found.invalid_text(at, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if multicast {
        found.invalid_text(
            at,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        );
    }
}

/// Finds what is no range of addresses, unless it was there before.
pub(super) fn cidr(found: &mut Findings, at: &At<'_>, text: &str) {
    let shown = crate::gotext::go_quote(text);
    match parse_cidr(text) {
        Ok(()) => {}
        Err(detail) => found.invalid_as(at, &shown, &detail),
    }
}

fn parse_cidr(text: &str) -> Result<(), String> {
    let invalid = || "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned();
    let (address, bits) = text.split_once('/').ok_or_else(invalid)?;
    let ip = match parse_ip(address) {
        Ok(ip) => ip,
        Err(error) if error.contains("valid IP") => return Err(invalid()),
        Err(error) if error.contains("leading") => return Err("must not have leading 0s in IP".to_owned()),
        Err(_) => return Err("must not have an IPv4-mapped IPv6 address".to_owned()),
    };
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let length: u32 = bits.parse().map_err(|_| invalid())?;
    if length > most || !bits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid());
    }
    if bits.len() > 1 && bits.starts_with('0') {
        return Err("must not have leading 0s in prefix length".to_owned());
    }
    let network = match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            IpAddr::V4((u32::from(ip) & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            IpAddr::V6((u128::from(ip) & mask).into())
        }
    };
    if network != ip {
        return Err("must not have bits set beyond the prefix length".to_owned());
    }
    Ok(())
}

const PORT: &str = "must be between 1 and 65535, inclusive";

pub(super) fn port(found: &mut Findings, at: &At<'_>) {
    if !(1..=65_535).contains(&at.int()) {
        found.invalid_int(at, PORT);
    }
}

/// Finds what is neither the number nor the name of a port.
pub(super) fn port_or_name(found: &mut Findings, at: &At<'_>) {
    if at.value.is_string() {
        found.text_errors(at, port_name(at.text()));
    } else {
        port(found, at);
    }
}

pub(super) fn port_name(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let mut add = |text: &str| errors.push(text.to_owned());
    if name.len() > 15 {
        add("must be no more than 15 characters");
    }
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || !name.bytes().all(fits) {
        add("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        add("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        add("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        add("must not begin or end with a hyphen");
    }
    errors
}
