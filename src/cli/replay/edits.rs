//! `replay --set`: values in place of recorded ones, such as those that a redacted recording lacks.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};

use crate::decode::json::{is_json, locate};
use crate::mcp::MessageNumber;
use crate::mcp::content::part;
use crate::replay::analyzed_recording::AnalyzedRecording;
use crate::replay::edit::replaced;
use crate::replay::plan::StepIndex;
use crate::store::StoreReader;

/// The changed `params` of each step that an option names.
pub(super) fn read(
    reader: &StoreReader,
    recording: &AnalyzedRecording,
    options: &[String],
) -> Result<HashMap<StepIndex, String>> {
    let mut edits: HashMap<StepIndex, String> = HashMap::new();
    for option in options {
        let Some((number, pointer, value)) = parse(option) else {
            bail!(
                "--set {option}: write the number of a message, a path in its params, and a value: 6/arguments/user=ann"
            );
        };
        let is_it = |number: u64| recording.plan.steps.iter().position(|step| step.number.0 == number);
        let step = is_it(number).with_context(|| format!("--set {option}: the client does not send #{number}"))?;
        let params = match edits.remove(&step) {
            Some(edited) => edited,
            None => {
                let message = reader.message_of(recording.session.number, MessageNumber(number))?;
                let params = message.as_ref().and_then(|message| part(message, "params"));
                params.with_context(|| format!("--set {option}: #{number} has no params"))?.to_owned()
            }
        };
        if locate(&params, pointer).is_none() {
            bail!("--set {option}: #{number} has no {pointer} in its params");
        }
        edits.insert(step, replaced(&params, pointer, &value));
    }
    Ok(edits)
}

/// The message, the JSON Pointer and the value of an option. A value that is no JSON is a string.
fn parse(option: &str) -> Option<(u64, &str, String)> {
    let (place, value) = option.split_once('=')?;
    let slash = place.find('/')?;
    let number = place[..slash].trim_start_matches('#').parse().ok()?;
    let value = if is_json(value) { value.to_owned() } else { serde_json::Value::from(value).to_string() };
    Some((number, &place[slash..], value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_names_a_message_a_path_and_a_value() {
        assert_eq!(parse("#6/arguments/a=ann=x"), Some((6, "/arguments/a", "\"ann=x\"".to_owned())));
        assert_eq!(parse("6/a/0={\"b\":1}"), Some((6, "/a/0", "{\"b\":1}".to_owned())));
        assert_eq!(parse("6/a=41").map(|set| set.2), Some("41".to_owned()));
        assert_eq!([parse("a=1"), parse("6=1"), parse("6/a"), parse("x/a=1")], [const { None }; 4]);
    }
}
