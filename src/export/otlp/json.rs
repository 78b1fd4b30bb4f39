//! The encoding of spans as JSON (OTLP, "JSON Protobuf Encoding"): ids are hexadecimal, and 64-bit
//! numbers are strings.

use super::proto::{KeyValue, Span, SpanEvent, Value};
use crate::export::json::Object;

/// Writes the members of a span.
pub(super) fn write_span(object: &mut Object<'_>, span: &Span) {
    object.hexadecimal("spanId", &span.span_id);
    object.hexadecimal("traceId", &span.trace_id);
    if !span.parent_span_id.is_empty() {
        object.hexadecimal("parentSpanId", &span.parent_span_id);
    }
    if !span.trace_state.is_empty() {
        object.text("traceState", &span.trace_state);
    }
    object.maybe(&span.flags, |object, flags| object.number("flags", *flags));
    object.text("name", &span.name);
    // "Values of enum fields MUST be encoded as integer values"
    object.number("kind", span.kind);
    object.display("startTimeUnixNano", &span.start_time_unix_nano);
    object.display("endTimeUnixNano", &span.end_time_unix_nano);
    write_attributes(object, &span.attributes);
    if !span.events.is_empty() || span.dropped_events_count > 0 {
        object.objects("events", &span.events, |object, event| {
            write_event(object, event);
        });
        object.number("droppedEventsCount", span.dropped_events_count);
    }
    object.maybe(&span.status, |object, status| {
        object.object("status", |object| {
            object.number("code", status.code);
            if !status.message.is_empty() {
                object.text("message", &status.message);
            }
        });
    });
}

fn write_event(object: &mut Object<'_>, event: &SpanEvent) {
    object.display("timeUnixNano", &event.time_unix_nano);
    object.text("name", &event.name);
    write_attributes(object, &event.attributes);
}

/// Writes the member `attributes`.
pub(super) fn write_attributes(object: &mut Object<'_>, attributes: &[KeyValue]) {
    object.objects("attributes", attributes, |object, attribute| {
        object.text("key", &attribute.key);
        let value = attribute.value.as_ref().and_then(|value| value.value.as_ref());
        object.object("value", |object| value.into_iter().for_each(|value| write_value(object, value)));
    });
}

fn write_value(object: &mut Object<'_>, value: &Value) {
    match value {
        Value::Text(text) => object.text("stringValue", text),
        Value::Number(number) => object.display("intValue", number),
        Value::Fraction(number) => object.float("doubleValue", *number),
        Value::List(list) => object.object("arrayValue", |object| {
            object.objects("values", &list.values, |object, value| {
                value.value.iter().for_each(|value| write_value(object, value));
            });
        }),
    }
}
