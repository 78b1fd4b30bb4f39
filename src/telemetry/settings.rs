//! What telemetry is sent or served, and where: from options, and from the variables that programs
//! with OpenTelemetry read (OpenTelemetry, "Environment Variable Specification" and "OTLP
//! Exporter").

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::export::otlp::proto::{AnyValue, KeyValue, Value};
use crate::http::origin::Origin;

/// The collector if neither an option nor a variable names one.
const DEFAULT: &str = "http://localhost:4318";

/// The time limit of a request to the collector.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The longest time for what was not sent at the end. `wrap` gives its recorder five seconds.
const LONGEST_END: Duration = Duration::from_secs(4);

/// The time between two sendings of the metrics.
const INTERVAL: Duration = Duration::from_secs(60);

/// What is sent or served, and where.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The collector of traces and metrics.
    pub otlp: Option<Otlp>,
    /// The port or address at which metrics are served to Prometheus.
    pub metrics: Option<String>,
    /// Attributes of all resources: name and value.
    resource: Vec<(String, String)>,
}

/// A collector and how to reach it.
#[derive(Clone, Debug)]
pub struct Otlp {
    /// The URL for traces.
    pub traces: String,
    /// The URL for metrics.
    pub metrics: String,
    /// Header fields of each request.
    pub fields: Vec<(String, String)>,
    /// The file with the certificates to trust, instead of those of the system.
    pub certificates: Option<String>,
    /// The time limit of a request.
    pub timeout: Duration,
    /// The time for what was not sent at the end of a recording, if the user chose one.
    pub end: Option<Duration>,
    /// The time between two sendings of the metrics.
    pub interval: Duration,
    /// Whether arguments and results of tools are sent too.
    pub with_content: bool,
}

/// Reads a variable of the environment.
pub type Environment<'e> = &'e dyn Fn(&str) -> Option<String>;

impl Settings {
    /// The settings for these options and variables. An empty URL stands for that of a variable.
    pub fn new(
        otlp: Option<&str>,
        with_content: bool,
        metrics: Option<String>,
        environment: Environment<'_>,
    ) -> Result<Settings> {
        let variable = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
        let mut resource = pairs(&variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default());
        if let Some(name) = variable("OTEL_SERVICE_NAME") {
            resource.retain(|(key, _)| key != "service.name");
            resource.push(("service.name".to_owned(), name));
        }
        let otlp = otlp.map(|url| Otlp::new(url, with_content, &variable)).transpose()?;
        Ok(Settings { otlp, metrics, resource })
    }

    /// Whether any telemetry is wanted.
    pub fn is_wanted(&self) -> bool {
        self.otlp.is_some() || self.metrics.is_some()
    }

    /// The attributes of a resource, with those of the environment in place of captured ones. A
    /// captured version belongs to the captured name.
    pub(super) fn resource(&self, captured: Vec<KeyValue>) -> Vec<KeyValue> {
        let is_given = |name: &str| self.resource.iter().any(|(key, _)| key == name);
        let has_name = is_given("service.name");
        let is_kept = |attribute: &KeyValue| {
            !(is_given(&attribute.key) || has_name && attribute.key.as_str() == "service.version")
        };
        let given = self.resource.iter().map(|(key, value)| KeyValue {
            key: key.clone(),
            value: Some(AnyValue { value: Some(Value::Text(value.clone())) }),
        });
        captured.into_iter().filter(is_kept).chain(given).collect()
    }
}

impl Otlp {
    fn new(url: &str, with_content: bool, variable: &dyn Fn(&str) -> Option<String>) -> Result<Otlp> {
        // "If the URL has no path … each signal's path is appended". A URL for one signal is used
        // as it is.
        let base = if url.is_empty() { variable("OTEL_EXPORTER_OTLP_ENDPOINT") } else { Some(url.to_owned()) };
        let base = base.unwrap_or_else(|| DEFAULT.to_owned());
        let of_signal = |name: &str, path: &str| {
            let own = variable(&format!("OTEL_EXPORTER_OTLP_{name}_ENDPOINT")).filter(|_| url.is_empty());
            own.unwrap_or_else(|| format!("{}/{path}", base.trim_end_matches('/')))
        };
        let milliseconds = |name: &str| {
            let time = Duration::from_millis(variable(name)?.trim().parse().ok()?);
            Some(time).filter(|time| !time.is_zero())
        };
        let timeout = milliseconds("OTEL_EXPORTER_OTLP_TIMEOUT");
        let [traces, metrics] = [of_signal("TRACES", "v1/traces"), of_signal("METRICS", "v1/metrics")];
        for url in [&traces, &metrics] {
            ensure!(
                Origin::of(url).is_some(),
                "--otlp {base}: not an HTTP URL such as {DEFAULT}; the command of a server is written behind --"
            );
        }
        let fields = pairs(&variable("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default());
        let is_plain = |text: &str| text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
        let is_name =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&byte));
        Ok(Otlp {
            traces,
            metrics,
            fields: fields.into_iter().filter(|(name, value)| is_name(name) && is_plain(value)).collect(),
            certificates: variable("OTEL_EXPORTER_OTLP_CERTIFICATE"),
            timeout: timeout.unwrap_or(TIMEOUT),
            end: timeout.map(|timeout| timeout.min(LONGEST_END)),
            interval: milliseconds("OTEL_METRIC_EXPORT_INTERVAL").unwrap_or(INTERVAL),
            with_content,
        })
    }
}

/// The pairs of `name=value,name=value`, with percent-encoded values (W3C Baggage without
/// properties). What is no pair is left out.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let name = name.trim();
        (!name.is_empty()).then(|| (name.to_owned(), decoded(value.trim())))
    };
    text.split(',').filter_map(pair).collect()
}

/// A text with its percent-encoded bytes decoded.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let coded = digits.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(coded.unwrap_or(*first));
        rest = if coded.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(otlp: &str, variables: &[(&str, &str)]) -> Result<Settings> {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Settings::new(Some(otlp), false, None, &variable)
    }

    #[test]
    fn variables_mean_what_other_programs_take_them_for() {
        let urls = |otlp: &str, variables: &[(&str, &str)]| {
            let otlp = settings(otlp, variables).unwrap().otlp.unwrap();
            (otlp.traces, otlp.metrics)
        };
        let both = |base: &str| (format!("{base}/v1/traces"), format!("{base}/v1/metrics"));
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c:1/x/");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t/in");
        assert_eq!(urls("", &[]), both(DEFAULT));
        assert_eq!(urls("", &[endpoint]), both("https://c:1/x"));
        assert_eq!(urls("http://o:2", &[endpoint, traces]), both("http://o:2"));
        assert_eq!(urls("", &[endpoint, traces]), ("http://t/in".into(), "https://c:1/x/v1/metrics".into()));
        assert!(settings("node", &[]).unwrap_err().to_string().contains("behind --"));

        let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b%3D, x = y ,nonsense,bad name=1,evil=a%0Ab");
        let otlp = settings("", &[headers]).unwrap().otlp.unwrap();
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(otlp.fields, [field("api-key", "a b="), field("x", "y")]);
    }

    #[test]
    fn names_of_the_environment_come_first() {
        let text = |key: &str, value: &str| KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue { value: Some(Value::Text(value.to_owned())) }),
        };
        let captured = || vec![text("service.name", "host"), text("service.version", "1")];
        let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=other");
        let own = settings("", &[attributes, ("OTEL_SERVICE_NAME", "mine")]).unwrap();
        let expected = [text("deployment.environment.name", "test"), text("service.name", "mine")];
        assert_eq!(own.resource(captured()), expected);
        assert_eq!(settings("", &[]).unwrap().resource(captured()), captured());
    }
}
