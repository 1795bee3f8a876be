//! The state of a server, as JSON and for Prometheus.

use super::shared::ServerShared;
use serde_json::{json, Value};
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

/// The state of a server, as JSON.
pub(super) fn status(shared: &ServerShared) -> Value {
    let (connections, clients) = shared.clients.list();
    let counts = &shared.counts;
    let seconds = counts.begin.elapsed().as_secs_f64();
    let clients: Vec<Value> = clients
        .iter()
        .map(|client| {
            json!({
                "name": client.name,
                "connections": client.connections.load(Relaxed),
                "requests": client.requests.load(Relaxed),
                "bytes": client.bytes.load(Relaxed),
                "bytes_per_second": client.rate.of(client.bytes.load(Relaxed)),
                "under_way": client.under_way.load(Relaxed),
            })
        })
        .collect();
    let mut out = json!({
        "seconds": seconds,
        "names": shared.served,
        "tls": shared.tls.is_some(),
        "connections": connections,
        "clients": clients,
        "requests": counts.of_ops().collect::<std::collections::BTreeMap<_, _>>(),
        "memory_limit": shared.memory_limit,
        "credits": credits(shared),
        "congestion_control": counts.congestion(),
    });
    if let Some(fields) = out.as_object_mut() {
        if let Some(staging) = &shared.staging {
            let room = staging.room();
            let told = json!({ "names": staging.names(), "limit": room.limit, "used": room.used, "free": room.free });
            fields.insert("staging".to_owned(), told);
        }
        if !shared.files.origins().is_empty() {
            let (cache, origins) = shared.files.origins().usage();
            let of_cache = json!({
                "limit": cache.limit, "allowed": cache.allowed, "used": cache.used,
                "given_back": cache.given_back, "damaged": cache.damaged,
            });
            fields.insert("cache".to_owned(), of_cache);
            for (name, _, value) in origins.named() {
                fields.insert(name.to_owned(), value.into());
            }
        }
        for (name, _, value) in counts.named() {
            fields.insert(name.to_owned(), value.into());
        }
        fields.insert("bytes_per_second".to_owned(), json!(counts.rate()));
    }
    out
}

/// The fewest requests that a connection may have under way on any event loop.
fn credits(shared: &ServerShared) -> u32 {
    shared.grants.iter().map(|grant| grant.load(Relaxed)).min().unwrap_or(0)
}

/// The same in the text format of Prometheus.
pub(super) fn prometheus(shared: &ServerShared) -> String {
    let mut out = String::new();
    let (connections, clients) = shared.clients.list();
    let counts = &shared.counts;
    let mut gauge = |name: &str, help: &str, kind: &str, lines: Vec<(String, u64)>| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "# HELP farfield_{name} {help}\n# TYPE farfield_{name} {kind}");
        for (labels, value) in lines {
            let _ = writeln!(out, "farfield_{name}{labels} {value}");
        }
    };
    gauge("connections", "Connections now", "gauge", vec![(String::new(), connections as u64)]);
    gauge("memory_limit_bytes", "Most bytes of buffers", "gauge", vec![(String::new(), shared.memory_limit as u64)]);
    for (name, help, value) in counts.named() {
        let kind = if name == "held" { "gauge" } else { "counter" };
        let name = if kind == "gauge" { format!("{name}_bytes") } else { format!("{name}_total") };
        gauge(&name, help, kind, vec![(String::new(), value)]);
    }
    let (cache, origins) = shared.files.origins().usage();
    if !shared.files.origins().is_empty() {
        let one = |value| vec![(String::new(), value)];
        gauge("cache_limit_bytes", "Most bytes of the memory cache", "gauge", one(cache.limit));
        gauge("cache_allowed_bytes", "Most of them that the host leaves now", "gauge", one(cache.allowed));
        gauge("cache_used_bytes", "Bytes of the memory cache", "gauge", one(cache.used));
        gauge("cache_given_back_bytes_total", "Bytes given back to the host", "counter", one(cache.given_back));
        gauge("cache_damaged_total", "Blocks whose checksum did not hold", "counter", one(cache.damaged));
        for (name, help, value) in origins.named() {
            gauge(&format!("{name}_total"), help, "counter", one(value));
        }
    }
    let ops = counts.of_ops().map(|(op, n)| (format!("{{op=\"{op}\"}}"), n)).collect();
    gauge("requests_total", "Requests by operation", "counter", ops);
    let label = |name: &str| name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let bytes = clients.iter().map(|c| (format!("{{client=\"{}\"}}", label(&c.name)), c.bytes.load(Relaxed))).collect();
    gauge("client_bytes_total", "Bytes of replies by client", "counter", bytes);
    let of_client = |c: &super::clients::Client| format!("{{client=\"{}\"}}", label(&c.name));
    let under_way = clients.iter().map(|c| (of_client(c), c.under_way.load(Relaxed))).collect();
    gauge("client_requests_under_way", "Requests of a client that wait or are being answered", "gauge", under_way);
    let answered = clients.iter().map(|c| (of_client(c), c.requests.load(Relaxed))).collect();
    gauge("client_requests_total", "Answered requests by client", "counter", answered);
    let granted = vec![(String::new(), u64::from(credits(shared)))];
    gauge("credits", "Requests that a connection may have under way", "gauge", granted);
    out
}
