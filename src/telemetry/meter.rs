//! The numbers: histograms of durations, and counts. OTLP and Prometheus read the same ones.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use crate::capture::Time;
use crate::export::otlp::proto::{
    AnyValue, CUMULATIVE, Histogram, HistogramPoint, KeyValue, Metric, MetricsData, NumberPoint, Points, Resource,
    ResourceMetrics, Scope, ScopeMetrics, Sum, Value,
};
use crate::source::now;

/// Maximum number of series of an instrument: the default of OpenTelemetry's programs. Peers choose
/// the names of methods and tools. Further series are counted together.
const SERIES: usize = 2_000;

/// Maximum bytes of the text of a label. Prometheus gets it again for each bucket. Names of tools
/// "SHOULD be between 1 and 128 characters in length" (server/tools).
const LABEL: usize = 256;

/// The attribute of the series that counts what is beyond the limit (OpenTelemetry, Metrics SDK,
/// "Overflow attribute").
const OVERFLOW: &str = "otel.metric.overflow";

/// Bounds of the buckets of all durations, in seconds, from the conventions for MCP.
pub(super) const BOUNDS: [f64; 14] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// Something that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Instrument {
    ClientOperation,
    ServerOperation,
    ClientSession,
    ServerSession,
    Requests,
    Findings,
    OpenSessions,
}

/// The kind of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Durations in seconds.
    Histogram,
    /// A number that only grows.
    Counter,
    /// A number that also falls.
    Gauge,
}

impl Instrument {
    /// The name, the kind and the description.
    pub(super) fn facts(self) -> (&'static str, Kind, &'static str) {
        match self {
            Instrument::ClientOperation => (
                "mcp.client.operation.duration",
                Kind::Histogram,
                "Time from a request to its response, for its sender.",
            ),
            Instrument::ServerOperation => (
                "mcp.server.operation.duration",
                Kind::Histogram,
                "Time from a request to its response, for its receiver.",
            ),
            Instrument::ClientSession => {
                ("mcp.client.session.duration", Kind::Histogram, "Duration of a session, for the client.")
            }
            Instrument::ServerSession => {
                ("mcp.server.session.duration", Kind::Histogram, "Duration of a session, for the server.")
            }
            Instrument::Requests => ("mcptap.requests", Kind::Counter, "Requests that are over, by outcome."),
            Instrument::Findings => ("mcptap.findings", Kind::Counter, "Places where traffic breaks a rule."),
            Instrument::OpenSessions => ("mcptap.sessions.open", Kind::Gauge, "Sessions whose end was not seen."),
        }
    }

    /// The unit, in the notation of UCUM.
    fn unit(self) -> &'static str {
        match self {
            Instrument::Requests => "{request}",
            Instrument::Findings => "{finding}",
            Instrument::OpenSessions => "{session}",
            _ => "s",
        }
    }
}

/// The value of a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Label {
    Text(String),
    Number(i64),
}

impl From<&str> for Label {
    fn from(text: &str) -> Label {
        Label::Text(text.to_owned())
    }
}

/// Names with values, sorted by name.
pub(super) type Labels = Vec<(String, Label)>;

/// These attributes as labels, with texts cut to [`LABEL`]. Attributes of other types are left out.
pub(super) fn labels(attributes: &[KeyValue]) -> Labels {
    let label = |attribute: &KeyValue| match attribute.value.as_ref()?.value.as_ref()? {
        Value::Text(text) => Some((attribute.key.clone(), Label::from(&text[..text.floor_char_boundary(LABEL)]))),
        Value::Number(number) => Some((attribute.key.clone(), Label::Number(*number))),
        Value::Fraction(_) | Value::List(_) => None,
    };
    let mut labels: Labels = attributes.iter().filter_map(label).collect();
    labels.sort();
    labels.dedup_by(|one, other| one.0 == other.0);
    labels
}

/// Those attributes that `names` lists, as labels.
pub(super) fn labels_of(attributes: &[KeyValue], names: &[&str]) -> Labels {
    let listed = attributes.iter().filter(|attribute| names.contains(&attribute.key.as_str()));
    labels(&listed.cloned().collect::<Vec<_>>())
}

/// The identity of a series.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) instrument: Instrument,
    /// Who it is about.
    pub(super) resource: Arc<Labels>,
    pub(super) labels: Labels,
}

/// The value of a series.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number {
    /// Observations in each bucket, and their sum.
    Durations {
        buckets: [u64; BOUNDS.len() + 1],
        sum: f64,
    },
    Count(u64),
}

/// The series of all instruments.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    started: Time,
    pub(super) series: BTreeMap<Key, Number>,
    /// The number of series of each instrument.
    sizes: BTreeMap<Instrument, usize>,
}

impl Meter {
    /// A meter without numbers. They count from now on.
    pub(super) fn new() -> Meter {
        Meter { started: now(), series: BTreeMap::new(), sizes: BTreeMap::new() }
    }

    /// The value of a series. Beyond the limit it is that of all further ones.
    fn number(&mut self, instrument: Instrument, resource: &Arc<Labels>, labels: Labels) -> &mut Number {
        let mut key = Key { instrument, resource: Arc::clone(resource), labels };
        let size = self.sizes.entry(instrument).or_default();
        if *size >= SERIES && !self.series.contains_key(&key) {
            key.labels = vec![(OVERFLOW.to_owned(), "true".into())];
            key.resource = Arc::default();
        }
        match self.series.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                *size += 1;
                new.insert(match instrument.facts().1 {
                    Kind::Histogram => Number::Durations { buckets: [0; BOUNDS.len() + 1], sum: 0.0 },
                    Kind::Counter | Kind::Gauge => Number::Count(0),
                })
            }
        }
    }

    /// Records a duration.
    pub(super) fn record(&mut self, instrument: Instrument, resource: &Arc<Labels>, labels: Labels, seconds: f64) {
        if let Number::Durations { buckets, sum } = self.number(instrument, resource, labels) {
            buckets[BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len())] += 1;
            *sum += seconds;
        }
    }

    /// Counts one more.
    pub(super) fn add(&mut self, instrument: Instrument, resource: &Arc<Labels>, labels: Labels) {
        if let Number::Count(count) = self.number(instrument, resource, labels) {
            *count += 1;
        }
    }

    /// Sets the values of a gauge for each resource. That of all others is zero.
    pub(super) fn set(&mut self, instrument: Instrument, mut counts: BTreeMap<Arc<Labels>, u64>) {
        for (key, number) in &mut self.series {
            if key.instrument == instrument {
                *number = Number::Count(counts.remove(&key.resource).unwrap_or(0));
            }
        }
        for (resource, count) in counts {
            // The series beyond the limit has the sum of several resources.
            if let Number::Count(sum) = self.number(instrument, &resource, Labels::new()) {
                *sum += count;
            }
        }
    }

    /// The numbers as metrics of OTLP, and how many metrics there are.
    pub(super) fn metrics(&self) -> (MetricsData, usize) {
        let (start, time) = (self.started.0.max(0) as u64, now().0.max(0) as u64);
        let mut resources: BTreeMap<&Arc<Labels>, BTreeMap<Instrument, Metric>> = BTreeMap::new();
        for (Key { instrument, resource, labels }, number) in &self.series {
            let metrics = resources.entry(resource).or_default();
            let metric = metrics.entry(*instrument).or_insert_with(|| empty(*instrument));
            let attributes = attributes(labels);
            match (number, &mut metric.points) {
                (Number::Durations { buckets, sum }, Some(Points::Histogram(histogram))) => {
                    histogram.data_points.push(HistogramPoint {
                        start_time_unix_nano: start,
                        time_unix_nano: time,
                        count: buckets.iter().sum(),
                        sum: Some(*sum),
                        bucket_counts: buckets.to_vec(),
                        explicit_bounds: BOUNDS.to_vec(),
                        attributes,
                    });
                }
                (Number::Count(count), Some(Points::Sum(sum))) => sum.data_points.push(NumberPoint {
                    start_time_unix_nano: start,
                    time_unix_nano: time,
                    as_int: Some(i64::try_from(*count).unwrap_or(i64::MAX)),
                    attributes,
                }),
                _ => {}
            }
        }
        let count = resources.values().map(BTreeMap::len).sum();
        let resource_metrics = resources.into_iter().map(|(resource, metrics)| ResourceMetrics {
            resource: Some(Resource { attributes: attributes(resource) }),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(Scope::mcptap()),
                metrics: metrics.into_values().collect(),
            }],
        });
        (MetricsData { resource_metrics: resource_metrics.collect() }, count)
    }
}

/// A metric without points.
fn empty(instrument: Instrument) -> Metric {
    let (name, kind, description) = instrument.facts();
    let points = match kind {
        Kind::Histogram => {
            Points::Histogram(Histogram { data_points: Vec::new(), aggregation_temporality: CUMULATIVE })
        }
        Kind::Counter | Kind::Gauge => Points::Sum(Sum {
            data_points: Vec::new(),
            aggregation_temporality: CUMULATIVE,
            is_monotonic: kind == Kind::Counter,
        }),
    };
    let unit = instrument.unit().to_owned();
    Metric { name: name.to_owned(), description: description.to_owned(), unit, points: Some(points) }
}

fn attributes(labels: &Labels) -> Vec<KeyValue> {
    let value = |label: &Label| match label {
        Label::Text(text) => Value::Text(text.clone()),
        Label::Number(number) => Value::Number(*number),
    };
    let attribute = |(name, label): &(String, Label)| KeyValue {
        key: name.clone(),
        value: Some(AnyValue { value: Some(value(label)) }),
    };
    labels.iter().map(attribute).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_peers_make_up_take_bounded_memory() {
        let mut meter = Meter::new();
        for call in 0..3 * SERIES {
            let labels = vec![("gen_ai.tool.name".to_owned(), Label::Text(format!("tool {call}")))];
            meter.record(Instrument::ClientOperation, &Arc::default(), labels.clone(), 0.25);
            meter.add(Instrument::Requests, &Arc::default(), labels);
        }
        assert_eq!(meter.series.len(), 2 * (SERIES + 1));
        let overflow = Key {
            instrument: Instrument::Requests,
            resource: Arc::default(),
            labels: vec![(OVERFLOW.to_owned(), "true".into())],
        };
        assert_eq!(meter.series[&overflow], Number::Count(2 * SERIES as u64));

        let resource = |server: usize| Arc::new(vec![("service.name".to_owned(), Label::Text(server.to_string()))]);
        for _ in 0..2 {
            meter.set(Instrument::OpenSessions, (0..SERIES + 3).map(|server| (resource(server), 1)).collect());
        }
        let overflow = Key { instrument: Instrument::OpenSessions, ..overflow };
        assert_eq!(meter.series[&overflow], Number::Count(3));
    }

    #[test]
    fn a_duration_is_in_the_first_bucket_that_holds_it() {
        let mut meter = Meter::new();
        for seconds in [0.0, 0.01, 0.011, 300.0, 301.0] {
            meter.record(Instrument::ClientSession, &Arc::default(), Labels::new(), seconds);
        }
        let Some(Number::Durations { buckets, sum }) = meter.series.values().next() else { panic!("a histogram") };
        assert_eq!(buckets, &[2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(*sum, 601.021);
    }
}
