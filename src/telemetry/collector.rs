//! Sends spans and metrics to a collector, on a thread of its own.
//!
//! The queue before it is bounded in number and in bytes. A span that does not fit is dropped and
//! counted, so the recording never waits. A batch that the collector could not take is sent again,
//! later each time, while the queue fills.

use std::convert::Infallible;
use std::mem;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use prost::Message;

use super::meter::Meter;
use super::settings::Otlp;
use crate::export::otlp::calls::size;
use crate::export::otlp::proto::{
    ExportResponse, KeyValue, Resource, ResourceSpans, Scope, ScopeSpans, Span, TracesData,
};
use crate::http::connect::{ConnectOptions, certificates};
use crate::http::post::Poster;
use crate::source::lower_priority;
use crate::view::command_line;

/// Spans that wait, and their bytes. The number is the default of OpenTelemetry's programs
/// (OTEL_BSP_MAX_QUEUE_SIZE).
const QUEUE: usize = 2_048;
const QUEUE_BYTES: usize = 16 << 20;

/// Spans of a request (OTEL_BSP_MAX_EXPORT_BATCH_SIZE).
const BATCH: usize = 512;

/// The longest time that a span waits for others.
const GATHER: Duration = Duration::from_secs(1);

/// The pause after a failure, and the longest one. It doubles each time.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// A span with the resource that it belongs to.
pub(super) struct Outgoing {
    pub(super) resource: Arc<Vec<KeyValue>>,
    pub(super) span: Span,
}

/// Counters and facts that both threads share.
#[derive(Debug, Default)]
struct Delivery {
    /// Spans that the collector took, and metrics that it took last.
    delivered: AtomicU64,
    metrics: AtomicUsize,
    /// Bytes of the spans that wait.
    bytes: AtomicUsize,
    /// The reason of the last failure.
    failure: Mutex<Option<String>>,
}

impl Delivery {
    fn failed(&self, why: String) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }
}

/// The recording's end of the queue.
pub(super) struct Collector {
    url: String,
    spans: Sender<Outgoing>,
    /// Dropped to make the thread end.
    ending: Sender<Infallible>,
    /// Disconnected when the thread has ended.
    ended: Receiver<Infallible>,
    offered: u64,
    shared: Arc<Delivery>,
}

impl Collector {
    /// Starts the thread.
    pub(super) fn start(otlp: &Otlp, meter: Arc<Mutex<Meter>>) -> Result<Collector> {
        let mut fields = otlp.fields.clone();
        fields.push(("Content-Type".to_owned(), "application/x-protobuf".to_owned()));
        let options = ConnectOptions {
            fields,
            certificates: certificates(otlp.certificates.as_ref().map(|path| path.as_ref()))?,
            timeout: otlp.timeout,
            ..ConnectOptions::default()
        };
        let (spans, queue) = bounded(QUEUE);
        let (ending, end) = bounded(0);
        let (alive, ended) = bounded(0);
        let shared = Arc::<Delivery>::default();
        let sending = Sending {
            traces: Poster::new(&otlp.traces, &options)?,
            metrics: Poster::new(&otlp.metrics, &options)?,
            queue,
            end,
            meter,
            shared: Arc::clone(&shared),
            batch: Vec::new(),
        };
        let interval = otlp.interval;
        let run = move || {
            lower_priority();
            sending.run(interval);
            drop::<Sender<Infallible>>(alive);
        };
        thread::Builder::new().name("telemetry".to_owned()).spawn(run).context("cannot start a thread")?;
        let url = command_line::masked(&[&otlp.traces]).concat();
        Ok(Collector { url, spans, ending, ended, offered: 0, shared })
    }

    /// Gives a span to the thread if there is room, and never waits.
    pub(super) fn offer(&mut self, outgoing: Outgoing) {
        self.offered += 1;
        let bytes = bytes(&outgoing.span);
        if self.shared.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > QUEUE_BYTES
            || self.spans.try_send(outgoing).is_err()
        {
            self.shared.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Lets the thread send the rest within `limit`. Returns a line about what was delivered, and
    /// whether something was not.
    pub(super) fn finish(self, limit: Duration) -> (String, bool) {
        let Collector { url, spans, ending, ended, offered, shared } = self;
        drop((spans, ending));
        let is_slow = ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
        let delivered = shared.delivered.load(Ordering::Relaxed);
        let metrics = shared.metrics.load(Ordering::Relaxed);
        let failure = shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        let lost = offered.saturating_sub(delivered);
        let mut line = format!("telemetry: {delivered} spans and {metrics} metrics were sent to {url}");
        if lost == 0 && metrics > 0 {
            return (line, false);
        }
        let why = match failure {
            Some(why) => why,
            None if is_slow => "the collector is too slow".to_owned(),
            None => "the queue was full".to_owned(),
        };
        line += &format!("; {lost} spans were not delivered: {why}");
        (line, true)
    }
}

/// The memory of a span, about.
fn bytes(span: &Span) -> usize {
    size(&span.name, &span.attributes)
        + span.events.iter().map(|event| size(&event.name, &event.attributes)).sum::<usize>()
}

/// The thread's end of the queue.
struct Sending {
    traces: Poster,
    metrics: Poster,
    queue: Receiver<Outgoing>,
    /// Disconnected when the recording is over.
    end: Receiver<Infallible>,
    meter: Arc<Mutex<Meter>>,
    shared: Arc<Delivery>,
    batch: Vec<Outgoing>,
}

impl Sending {
    fn run(mut self, interval: Duration) {
        let mut metrics_due = Instant::now() + interval;
        let mut batch_due: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if batch_due.is_some_and(|due| due <= now) || self.batch.len() >= BATCH {
                batch_due = None;
                self.send_spans();
            }
            if metrics_due <= now {
                metrics_due = now + interval;
                self.send_metrics();
            }
            let due = batch_due.map_or(metrics_due, |due| due.min(metrics_due));
            match self.queue.recv_deadline(due) {
                Ok(outgoing) => {
                    self.batch.push(outgoing);
                    batch_due.get_or_insert_with(|| Instant::now() + GATHER);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.send_spans();
        self.send_metrics();
    }

    /// Sends the batch, again and again if the collector may take it later. After the end of the
    /// recording there is one more attempt.
    fn send_spans(&mut self) {
        let batch = mem::take(&mut self.batch);
        if batch.is_empty() {
            return;
        }
        let count = batch.len() as u64;
        let size: usize = batch.iter().map(|outgoing| bytes(&outgoing.span)).sum();
        let body = traces(batch).encode_to_vec();
        let (mut pause, mut is_last) = (RETRY, false);
        loop {
            match post(&mut self.traces, &body) {
                Posted::Taken(rejected) => {
                    let rejected = rejected.map_or(0, |PartialRejection { count, why }| {
                        self.shared.failed(why);
                        count
                    });
                    self.shared.delivered.fetch_add(count.saturating_sub(rejected), Ordering::Relaxed);
                    break;
                }
                Posted::Later(why) => {
                    self.shared.failed(why);
                    if is_last {
                        break;
                    }
                    is_last = self.end.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected);
                    pause = (2 * pause).min(LONGEST_RETRY);
                }
                Posted::Refused(why) => {
                    self.shared.failed(why);
                    break;
                }
            }
        }
        self.shared.bytes.fetch_sub(size, Ordering::Relaxed);
    }

    /// Sends the numbers as they are now. What fails is part of the next sending.
    fn send_metrics(&mut self) {
        let (metrics, count) = self.meter.lock().unwrap_or_else(PoisonError::into_inner).metrics();
        if count == 0 {
            return;
        }
        match post(&mut self.metrics, &metrics.encode_to_vec()) {
            Posted::Taken(None) => self.shared.metrics.store(count, Ordering::Relaxed),
            Posted::Taken(Some(PartialRejection { why, .. })) | Posted::Later(why) | Posted::Refused(why) => {
                self.shared.failed(why);
            }
        }
    }
}

/// The request for spans, by resource.
fn traces(batch: Vec<Outgoing>) -> TracesData {
    let mut resources: Vec<(Arc<Vec<KeyValue>>, Vec<Span>)> = Vec::new();
    for Outgoing { resource, span } in batch {
        match resources.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &resource)) {
            Some((_, spans)) => spans.push(span),
            None => resources.push((resource, vec![span])),
        }
    }
    let resource_spans = resources.into_iter().map(|(attributes, spans)| ResourceSpans {
        resource: Some(Resource { attributes: attributes.to_vec() }),
        scope_spans: vec![ScopeSpans { scope: Some(Scope::mcptap()), spans }],
    });
    TracesData { resource_spans: resource_spans.collect() }
}

/// What became of a request.
enum Posted {
    /// The collector took it, except for a part.
    Taken(Option<PartialRejection>),
    /// It may take it later.
    Later(String),
    /// It will never take it.
    Refused(String),
}

struct PartialRejection {
    count: u64,
    why: String,
}

fn post(poster: &mut Poster, body: &[u8]) -> Posted {
    let answer = match poster.post(body) {
        Ok(answer) => answer,
        Err(why) => return Posted::Later(why.replace("use --cacert FILE", "set OTEL_EXPORTER_OTLP_CERTIFICATE=FILE")),
    };
    match answer.status {
        200..=299 => {
            let response = ExportResponse::decode(answer.body.as_slice()).unwrap_or_default();
            let rejected = response.partial_success.filter(|partial| partial.rejected > 0);
            Posted::Taken(rejected.map(|partial| PartialRejection {
                count: partial.rejected.unsigned_abs(),
                why: format!("the collector rejected a part: {}", partial.error_message),
            }))
        }
        // "Retryable Response Codes" (OTLP)
        status @ (429 | 502 | 503 | 504) => Posted::Later(format!("the collector answered HTTP {status}")),
        status => Posted::Refused(format!("the collector answered HTTP {status}")),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A collector that accepts connections and never answers.
    #[test]
    fn what_does_not_fit_into_the_queue_is_dropped_and_counted() {
        let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", hanging.local_addr().unwrap());
        let settings = super::super::Settings::new(Some(&url), false, None, &|_| None).unwrap();
        let meter = Arc::new(Mutex::new(Meter::new()));
        let mut collector = Collector::start(&settings.otlp.unwrap(), meter).unwrap();
        let resource = Arc::new(Vec::new());
        let offered = 2 * (QUEUE + BATCH);
        let offer = |collector: &mut Collector, name: String| {
            let span = Span { name, ..Span::default() };
            collector.offer(Outgoing { resource: Arc::clone(&resource), span });
        };
        (0..offered).for_each(|_| offer(&mut collector, "short".to_owned()));
        assert!(collector.spans.len() <= QUEUE && collector.shared.bytes.load(Ordering::Relaxed) <= QUEUE_BYTES);
        let (line, has_lost) = collector.finish(Duration::from_millis(1));
        assert!(has_lost && line.contains(&format!("; {offered} spans were not delivered: ")), "{line}");
    }

    #[test]
    fn long_spans_are_bounded_by_their_bytes() {
        let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", hanging.local_addr().unwrap());
        let settings = super::super::Settings::new(Some(&url), false, None, &|_| None).unwrap();
        let meter = Arc::new(Mutex::new(Meter::new()));
        let mut collector = Collector::start(&settings.otlp.unwrap(), meter).unwrap();
        for _ in 0..40 {
            let span = Span { name: "x".repeat(1 << 20), ..Span::default() };
            collector.offer(Outgoing { resource: Arc::default(), span });
            assert!(collector.shared.bytes.load(Ordering::Relaxed) <= QUEUE_BYTES);
        }
        assert!(collector.spans.len() <= 16);
    }
}
