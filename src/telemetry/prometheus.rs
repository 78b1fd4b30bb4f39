//! `/metrics`: the numbers as text for Prometheus (exposition format 0.0.4). Names are those that
//! OpenTelemetry prescribes for its own names ("Prometheus and OpenMetrics Compatibility").

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};

use super::meter::{BOUNDS, Instrument, Key, Kind, Label, Meter, Number};
use crate::decode::uri;
use crate::http::connection::{self, Response};
use crate::http::listen;
use crate::http::requests::Request;

/// The most connections at once. A Prometheus has one.
const CONNECTIONS: usize = 16;

/// The type of the text.
const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Serves the numbers for as long as the program runs. Returns their URL.
pub(super) fn serve(listener: TcpListener, meter: Arc<Mutex<Meter>>) -> Result<String> {
    let address = listener.local_addr().context("cannot listen")?;
    let is_local = address.ip().is_loopback();
    let serve = move || {
        listen::serve(&listener, CONNECTIONS, None, move |slot| {
            connection::answer(&slot, |request| respond(request, is_local, &meter));
        });
    };
    thread::Builder::new().name("metrics".to_owned()).spawn(serve).context("cannot start a thread")?;
    Ok(format!("http://{address}/metrics"))
}

fn respond(request: &Request, is_local: bool, meter: &Mutex<Meter>) -> Response {
    // A page in a browser must not read them through a name of its own (DNS rebinding). Other
    // machines may know this one by any name.
    if is_local && !request.field("host").is_none_or(|host| listen::is_own_name(host, &[])) {
        return Response::refused(421, "the Host field does not name this machine");
    }
    let target = uri::origin_form(request.target());
    match (request.method(), target.split('?').next().unwrap_or_default()) {
        ("GET" | "HEAD", "/metrics") => {
            // The text is made of a copy: the recording needs the meter meanwhile.
            let meter = meter.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Response::ok(TYPE, text(&meter).into_bytes())
        }
        ("GET" | "HEAD", _) => Response::refused(404, "the metrics are at /metrics"),
        _ => Response::refused(405, "only GET is supported"),
    }
}

/// The numbers as text.
fn text(meter: &Meter) -> String {
    let mut out = String::new();
    let mut last = None;
    for (key, number) in &meter.series {
        let name = name(key.instrument);
        if last != Some(key.instrument) {
            last = Some(key.instrument);
            let (_, kind, description) = key.instrument.facts();
            let kind = match kind {
                Kind::Histogram => "histogram",
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
            };
            // Writing to a string cannot fail.
            let _ = write!(out, "# HELP {name} {description}\n# TYPE {name} {kind}\n");
        }
        let labels = labels(key);
        match number {
            Number::Count(count) => sample(&mut out, &name, &labels, "", count),
            Number::Durations { buckets, sum } => {
                let (bucket, mut count) = (format!("{name}_bucket"), 0);
                for (at, observed) in buckets.iter().enumerate() {
                    count += observed;
                    let bound = BOUNDS.get(at).map_or_else(|| "+Inf".to_owned(), f64::to_string);
                    sample(&mut out, &bucket, &labels, &format!("le=\"{bound}\""), &count);
                }
                sample(&mut out, &format!("{name}_sum"), &labels, "", sum);
                sample(&mut out, &format!("{name}_count"), &labels, "", &count);
            }
        }
    }
    out
}

/// Writes one sample.
fn sample(out: &mut String, name: &str, labels: &str, more: &str, value: &dyn std::fmt::Display) {
    let comma = if labels.is_empty() || more.is_empty() { "" } else { "," };
    let _ = match labels.is_empty() && more.is_empty() {
        true => writeln!(out, "{name} {value}"),
        false => writeln!(out, "{name}{{{labels}{comma}{more}}} {value}"),
    };
}

/// The name of an instrument: with its unit, and `_total` if it only grows.
fn name(instrument: Instrument) -> String {
    let (name, kind, _) = instrument.facts();
    let end = match kind {
        Kind::Histogram => "_seconds",
        Kind::Counter => "_total",
        Kind::Gauge => "",
    };
    plain(name) + end
}

/// The labels of a series, those of its resource included. Each name stands once.
fn labels(key: &Key) -> String {
    let mut known = BTreeSet::new();
    let mut written = Vec::new();
    for (name, label) in key.labels.iter().chain(&*key.resource) {
        let name = plain(name);
        if !known.contains(&name) {
            written.push(match label {
                Label::Text(text) => format!("{name}=\"{}\"", escaped(text)),
                Label::Number(number) => format!("{name}=\"{number}\""),
            });
            known.insert(name);
        }
    }
    written.join(",")
}

/// A name with an underscore in place of each character that Prometheus does not allow.
fn plain(name: &str) -> String {
    let start = if name.starts_with(|c: char| c.is_ascii_digit()) { "_" } else { "" };
    let plain = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    start.chars().chain(plain).collect()
}

/// The value of a label: "backslash, double-quote, and line feed … escaped". Other control
/// characters would act on a terminal.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::meter::Labels;

    #[test]
    fn numbers_are_written_as_prometheus_reads_them() {
        let mut meter = Meter::new();
        let resource: Arc<Labels> = Arc::new(vec![("service.name".to_owned(), "a \"b\"\\\n\u{1b}".into())]);
        let labels = vec![("gen_ai.tool.name".to_owned(), "add".into())];
        meter.add(Instrument::Requests, &resource, labels.clone());
        meter.record(Instrument::ClientOperation, &Arc::default(), Labels::new(), 0.3);
        let text = text(&meter);
        let requests = r#"mcptap_requests_total{gen_ai_tool_name="add",service_name="a \"b\"\\\n�"} 1"#;
        assert!(text.contains(&format!("# TYPE mcptap_requests_total counter\n{requests}\n")), "{text}");
        assert!(text.contains("mcp_client_operation_duration_seconds_bucket{le=\"0.2\"} 0\n"), "{text}");
        assert!(text.contains("mcp_client_operation_duration_seconds_bucket{le=\"0.5\"} 1\n"), "{text}");
        let end = "_sum 0.3\nmcp_client_operation_duration_seconds_count 1\n";
        assert!(text.contains(end), "{text}");
    }
}
