//! The table in `docs/filter.md` is generated from the table of fields.

use std::path::Path;

use super::fields::Shorthand;
use super::*;

const BEGIN: &str = "<!-- fields: generated, see src/filter/tests/manual.rs -->\n";
const END: &str = "<!-- end of fields -->";

fn table() -> String {
    let mut table = String::from("| field | type | what it is | example | known |\n|---|---|---|---|---|\n");
    for definition in FIELDS {
        let kind = match definition.kind {
            fields::Type::Word => {
                definition.values.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
            }
            kind => kind.name().to_owned(),
        };
        let known = known(definition.settled);
        table.push_str(&format!(
            "| `{}` | {kind} | {} | `{}` | {known} |\n",
            definition.name, definition.help, definition.example
        ));
    }
    for shorthand in fields::SHORTHANDS {
        // The table is Markdown, where a bar would end the cell.
        let Shorthand { name, filter, help } = shorthand;
        table.push_str(&format!(
            "| `{name}` | a filter | {help}: `{filter}` | `not {name}` | {} |\n",
            known(Filter::parse(filter).expect("a filter").settled())
        ));
    }
    let header = Field::Header(String::new()).settled();
    table.push_str(&format!(
        "| `http.header.NAME` | text | a header field of the exchange, of the request or the response | `http.header.mcp-session-id` | {} |\n\
         | `params…`, `result…`, `error…`, `json…` | JSON value | a value inside the message | `params.arguments.city = Quito` | with the message |\n",
        known(header)
    ));
    table
}

fn known(settled: Settled) -> &'static str {
    match settled {
        Settled::WithMessage => "with the message",
        Settled::WithExchange => "when its exchange is over",
        Settled::AtEnd => "at the end",
    }
}

/// Run `UPDATE_EXPECT=1 cargo test --lib filter` to write the table again.
#[test]
fn the_table_of_the_manual_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/filter.md");
    let page = std::fs::read_to_string(&path).expect("docs/filter.md");
    let (before, rest) = page.split_once(BEGIN).expect("the mark before the table");
    let (found, after) = rest.split_once(END).expect("the mark behind the table");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{}{END}{after}", table())).expect("docs/filter.md is written");
    } else if found != table() {
        let diff = similar::TextDiff::from_lines(found, table().as_str()).unified_diff().to_string();
        panic!("docs/filter.md is stale (UPDATE_EXPECT=1 writes it):\n{diff}");
    }
}

/// Every line of the manual's examples is a filter, up to an explanation behind several blanks.
#[test]
fn the_examples_of_the_manual_are_filters() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/filter.md")).expect("docs/filter.md");
    let blocks = page.split("```filter\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let lines: Vec<&str> =
        blocks.flat_map(str::lines).map(|line| line.split("   ").next().unwrap_or_default()).collect();
    assert!(lines.len() > 10);
    for line in lines {
        Filter::parse(line).unwrap_or_else(|error| panic!("{}", error.render(100)));
    }
}
