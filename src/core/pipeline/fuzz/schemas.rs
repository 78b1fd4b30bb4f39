//! The body of the fuzz target for schemas that a server published: the checks of values, and the
//! rules that use them.

use super::{Capture, run, script};
use crate::decode::json::is_json;
use crate::event::Detail;
use crate::mcp::Revision;
use crate::mcp::contract::fuzz_contract;

/// The most values of an input.
const VALUES: usize = 4;

/// Checks values against a schema, alone and in a session. The first byte is the revision, the
/// first line the schema, and each other line a value.
///
/// # Panics
///
/// If a property of `fuzz_contract` or of the pipeline does not hold.
pub fn fuzz_schema(data: &[u8]) {
    let Some((revision, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let revision = Revision::ALL[usize::from(*revision) % Revision::ALL.len()];
    let name = revision.name();
    let (schema, values) = text.split_once('\n').unwrap_or((text, ""));
    let values: Vec<&str> = values.lines().take(VALUES).collect();
    fuzz_contract(revision, schema, &values);
    if !is_json(schema) {
        return;
    }
    let mut lines = Vec::new();
    lines.push((false, format!(r#""id":0,"method":"initialize","params":{{"protocolVersion":"{name}","capabilities":{{"elicitation":{{}}}},"clientInfo":{{"name":"a","version":"1"}}}}"#)));
    lines.push((true, format!(r#""id":0,"result":{{"protocolVersion":"{name}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"a","version":"1"}}}}"#)));
    lines.push((false, r#""id":1,"method":"tools/list""#.to_owned()));
    let tool = format!(r#"{{"name":"t","inputSchema":{schema},"outputSchema":{schema}}}"#);
    lines.push((true, format!(r#""id":1,"result":{{"tools":[{tool}]}}"#)));
    for (value, id) in values.iter().filter(|value| is_json(value)).zip(2..) {
        let call = format!(r#""id":{id},"method":"tools/call","params":{{"name":"t","arguments":{value}}}"#);
        let question = format!(r#"{{"message":"?","requestedSchema":{schema}}}"#);
        lines.push((false, call));
        lines.push((true, format!(r#""id":{id},"method":"elicitation/create","params":{question}"#)));
        lines.push((false, format!(r#""id":{id},"result":{{"action":"accept","content":{value}}}"#)));
        lines.push((true, format!(r#""id":{id},"result":{{"content":[],"structuredContent":{value}}}"#)));
    }
    let mut written = Vec::new();
    for (back, line) in lines {
        let line = format!("{{\"jsonrpc\":\"2.0\",{line}}}\n");
        for piece in line.as_bytes().chunks(255) {
            written.extend([&[3 | u8::from(back) << 2, piece.len() as u8][..], piece].concat());
        }
    }
    run(&Capture { packets: &script::packets(&written), secrets: &[] }, Detail::Messages, false);
}

#[cfg(test)]
mod tests {
    use super::fuzz_schema;

    #[test]
    fn seeds_hold() {
        let schema = r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/n"},"b":{"pattern":"^(x+)+$"}},"required":["a"],"$defs":{"n":{"maximum":9}}}"##;
        let values = r#"{"a":1}"#.to_owned() + "\n" + r#"{"a":10,"b":"a long secret"}"#;
        for revision in ["\0", "\u{1}", "\u{4}"] {
            let seed = format!("{revision}{schema}\n{values}");
            for end in (0..=seed.len()).step_by(7) {
                fuzz_schema(&seed.as_bytes()[..end]);
            }
        }
    }
}
