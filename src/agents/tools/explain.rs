//! `explain_session`.

use anyhow::{Context, Result};
use rmcp::schemars::{self, JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::agents::answer::{MaxBytes, NOTICE, Room};
use crate::agents::recorded::{Recorded, time};
use crate::store::StoreReader;
use crate::view::explain::{self, Cause, Evidence, Symptom};

pub const DESCRIPTION: &str = "Names the causes of a problem in a recorded session, the most likely one first, each \
    with its evidence and what to do next. Use it when a tool is never called, a request hangs, the server crashes, \
    refuses requests, is slow, writes text between its messages, or calls fail. No cause means that no problem was \
    found.";

/// Bytes of one text of an explanation.
const TEXT: usize = 2_000;

/// The arguments of `explain_session`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainArguments {
    /// The number of the session. Without it, the latest recording is explained.
    #[serde(default)]
    session: Option<u32>,
    /// Only causes of this symptom.
    #[serde(default)]
    #[schemars(schema_with = "symptom_words")]
    symptom: Option<String>,
    #[serde(default)]
    max_bytes: MaxBytes,
}

/// The words of the symptoms as a schema.
fn symptom_words(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": Symptom::ALL.map(Symptom::name) })
}

/// The causes of a problem.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionExplanation {
    /// A reminder about recorded text.
    notice: &'static str,
    /// The number of the session.
    session: u32,
    /// The causes, the most likely one first. Empty: no problem was found.
    causes: Vec<CauseRow>,
    /// Other facts that are worth a look.
    also: Vec<Recorded>,
    /// What was looked at.
    checked: Vec<Recorded>,
    /// What to do next.
    hint: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct CauseRow {
    /// The symptom that it explains.
    symptom: &'static str,
    /// What happened. It contains recorded names and texts.
    cause: Recorded,
    /// Places in the recording that support it.
    evidence: Vec<EvidenceRow>,
    /// What to do. It may contain recorded names.
    advice: Recorded,
    /// The message to look at, for read_message.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct EvidenceRow {
    /// The kind of place and its number, such as "message 9" or "stderr 3".
    place: String,
    /// The capture time, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    /// What is there.
    text: Recorded,
}

/// Explains a session.
pub fn explain(reader: &StoreReader, arguments: ExplainArguments) -> Result<SessionExplanation> {
    let (session, _) = super::session(reader, arguments.session)?;
    let symptom = arguments.symptom.as_deref().map(|word| {
        let known = Symptom::named(word);
        known.with_context(|| format!("{word:?} is no symptom: {}", Symptom::ALL.map(Symptom::name).join(", ")))
    });
    let symptom = symptom.transpose()?;
    let explanation = explain::explain(reader, &session, symptom)?;
    let mut room = Room::of(arguments.max_bytes);
    let causes: Vec<CauseRow> = explanation.causes.iter().map(cause).take_while(|cause| room.takes(cause)).collect();
    let mut fit = |texts: &[String]| -> Vec<Recorded> {
        texts.iter().map(|text| Recorded::new(text, TEXT)).take_while(|text| room.takes(text)).collect()
    };
    let also = fit(&explanation.also);
    let checked = fit(&explanation.checked);
    let hint = match (causes.first(), causes.len() < explanation.causes.len()) {
        (_, true) => "there are more causes: pass symptom, or a larger max_bytes".to_owned(),
        (Some(CauseRow { message: Some(message), .. }), _) => {
            format!("read_message with session {} and message {message} shows the evidence", session.number.0)
        }
        (Some(_), _) => "search_messages shows the messages around the evidence".to_owned(),
        (None, _) => "check_session lists findings, and tool_statistics lists tools and latencies".to_owned(),
    };
    Ok(SessionExplanation { notice: NOTICE, session: session.number.0, causes, also, checked, hint })
}

fn cause(cause: &Cause) -> CauseRow {
    let evidence = |evidence: &Evidence| EvidenceRow {
        place: evidence.place.clone(),
        time: evidence.time.map(time),
        text: Recorded::new(&evidence.text, TEXT),
    };
    CauseRow {
        symptom: cause.symptom.name(),
        cause: Recorded::new(&cause.sentence, TEXT),
        evidence: cause.evidence.iter().map(evidence).collect(),
        advice: Recorded::new(&cause.advice, TEXT),
        message: cause.message.map(|message| message.0),
    }
}
