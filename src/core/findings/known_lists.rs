//! Lists of tools that were judged before. Thousands of sessions of one server list the same text,
//! and most of the work for a list depends on its text alone.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::history::ListedTool;
use super::message_facts::MessageFacts;
use super::{Finding, tools};

/// Limit of remembered lists. Beyond it all are forgotten, and those in use are judged again.
const LISTS: usize = 256;

/// The rules whose judgement of a list depends on its text and on the revision in force alone.
const ABOUT_TEXT: [&str; 5] = [
    tools::SCHEMA.id,
    tools::NAME.id,
    tools::hidden::HIDDEN.id,
    tools::headers::ANNOTATION.id,
    tools::unchecked::UNCHECKED.id,
];

/// Whether a rule judges the text of a list alone.
pub(super) fn is_about_text(rule: &str) -> bool {
    ABOUT_TEXT.contains(&rule)
}

/// A list that was judged before.
#[derive(Clone, Debug)]
pub(super) struct KnownList {
    /// Its tools. `None` if they cannot be compared with those of another list.
    pub(super) tools: Option<Arc<[ListedTool]>>,
    /// Whether it matches its definition and breaks none of the rules about its text.
    pub(super) is_clean: bool,
}

impl KnownList {
    /// The result of a list for which `found` are the findings.
    pub(super) fn of(facts: &MessageFacts<'_>, found: &[Finding]) -> KnownList {
        let is_clean = facts.mismatches().is_empty() && !found.iter().any(|finding| is_about_text(finding.rule.id));
        KnownList { tools: facts.listed_tools().cloned(), is_clean }
    }
}

/// The lists that were judged before.
#[derive(Debug, Default)]
pub(super) struct KnownLists {
    /// The keys of the hash function are random. Nobody can make a text with the hash of another.
    hashes: RandomState,
    lists: FxHashMap<u64, KnownList>,
}

impl KnownLists {
    /// The key of a list: a hash of its text without the id, of the revision in force, and of
    /// whether its request is known.
    pub(super) fn key(&self, facts: &MessageFacts<'_>) -> u64 {
        let message = facts.message;
        let mut hasher = self.hashes.build_hasher();
        let id = message.envelope.id.clone().unwrap_or_default();
        for part in [message.raw.get(..id.start), message.raw.get(id.end..)] {
            hasher.write(part.unwrap_or_default());
            hasher.write_u8(0xff);
        }
        std::hash::Hash::hash(&(facts.in_force, message.answers.is_some()), &mut hasher);
        hasher.finish()
    }

    pub(super) fn get(&self, key: u64) -> Option<&KnownList> {
        self.lists.get(&key)
    }

    pub(super) fn insert(&mut self, key: u64, list: KnownList) {
        if self.lists.len() >= LISTS {
            self.lists.clear();
        }
        self.lists.insert(key, list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::testing::{findings, modern, session};

    /// Tools with faults that the rules about the text find, and without.
    const TOOLS: [&str; 8] = [
        r#"{"name":"add","inputSchema":{"type":"object"}}"#,
        r#"{"name":"a b","inputSchema":{"type":"object"}}"#,
        r#"{"name":"a","inputSchema":{"type":"text"}}"#,
        r#"{"name":"a","inputSchema":{"type":"object","pattern":"^(?!a)b"}}"#,
        r#"{"name":"a","inputSchema":{"type":"object","properties":7}}"#,
        r#"{"name":"a","description":"x\u202ey","inputSchema":{"type":"object"}}"#,
        r#"{"name":"a","inputSchema":{"type":"object","properties":{"q":{"type":"array","x-mcp-header":"q"}}}}"#,
        r#"{"title":7,"inputSchema":null}"#,
    ];

    /// The rules and texts of the findings about the result of one of these requests.
    fn found(steps: &[String], list: usize) -> Vec<(&'static str, String)> {
        let mine = findings(steps).into_iter().filter(|finding| {
            let is_result = |rule: &str| is_about_text(rule) || rule.starts_with("schema-");
            is_result(finding.rule.id) && finding.messages.iter().any(|number| number.0 as usize == list)
        });
        mine.map(|finding| (finding.rule.id, finding.text)).collect()
    }

    #[test]
    fn a_list_is_judged_the_same_every_time() {
        let ask = |id: u32, params: &str| {
            format!(r#"> {{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{params}}}"#)
        };
        let answer = |id: u32, tools: &str| {
            let more = r#""resultType":"complete","ttlMs":0,"cacheScope":"private""#;
            format!(r#"< {{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{tools}],{more}}}}}"#)
        };
        let mut faults = 0;
        for tools in TOOLS.iter().flat_map(|tool| [(*tool).to_owned(), format!("{},{tool}", TOOLS[0])]) {
            for params in ["{}".to_owned(), modern("")] {
                let steps = [ask(1, &params), answer(1, &tools), ask(2, &params), answer(2, &tools)];
                let steps = if params == "{}" {
                    session("2025-11-25", &steps.each_ref().map(String::as_str))
                } else {
                    steps.to_vec()
                };
                let (first, second) = (found(&steps, steps.len() - 2), found(&steps, steps.len()));
                assert_eq!(first, second, "{tools}");
                faults += first.len();
            }
        }
        assert!(faults >= 16, "{faults} faults");
    }
}
