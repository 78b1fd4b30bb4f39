//! The database of MCPHawk, another recorder, as a capture.
//!
//! Version 1.0 has tables of sessions and messages. Earlier versions have one table. There the
//! messages of one process are a session, and over HTTP those with one port of a server.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde::Deserialize;

use crate::capture::Time;
use crate::capture::pipe::Pipe;
use crate::source::file::Files;
use crate::source::imports::{Import, ImportBuilder, time_of_text};

/// The messages of each version: time, session, direction, text, name of the server, command line,
/// and facts as JSON.
const QUERIES: [&str; 2] = [
    "SELECT m.ts, m.session_id, m.direction, m.body, coalesce(s.name, s.server_name), s.target, NULL
     FROM messages AS m LEFT JOIN sessions AS s ON s.id = m.session_id ORDER BY m.ts, m.id",
    "SELECT timestamp, coalesce('process ' || pid, 'port ' || min(src_port, dst_port), ''),
            CASE direction WHEN 'outgoing' THEN 'c2s' WHEN 'incoming' THEN 's2c'
                           ELSE iif(src_port < dst_port, 's2c', 'c2s') END,
            message, NULL, NULL, metadata
     FROM logs ORDER BY timestamp, rowid",
];

/// What an earlier version knows about the server.
#[derive(Default, Deserialize)]
struct ServerFacts {
    #[serde(default)]
    command: Vec<String>,
    server_name: Option<String>,
}

/// Opens capture files, and recordings of other programs.
pub fn open_files(paths: &[PathBuf], follow: bool) -> anyhow::Result<Files> {
    Files::converting(paths, follow, read_mcphawk)
}

/// Whether a file is a database of MCPHawk.
pub fn is_mcphawk(path: &Path) -> bool {
    open(path).is_some()
}

/// The database, and the query of its version.
fn open(path: &Path) -> Option<(Connection, &'static str)> {
    let mut magic = [0; 16];
    File::open(path).ok()?.read_exact(&mut magic).ok()?;
    if &magic != b"SQLite format 3\0" {
        return None;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).ok()?;
    let query = QUERIES.into_iter().find(|query| db.prepare(query).is_ok())?;
    Some((db, query))
}

/// Reads the messages. `None` if the file is no such database.
pub fn read_mcphawk(path: &Path) -> anyhow::Result<Option<Import>> {
    let Some((db, query)) = open(path) else { return Ok(None) };
    let mut builder = ImportBuilder::default();
    let mut statement = db.prepare(query)?;
    let mut rows = statement.query([])?;
    let mut number = 0;
    while let Some(row) = rows.next()? {
        number += 1;
        if builder.is_full(0, number) {
            break;
        }
        let text = |column| row.get::<_, Option<String>>(column).ok().flatten();
        let Some(message) = text(3) else {
            builder.damaged(0, number, "the row has no message");
            continue;
        };
        let time = match row.get_ref(0)? {
            ValueRef::Real(seconds) => Some(Time((seconds * 1e9) as i64)),
            ValueRef::Text(text) => std::str::from_utf8(text).ok().and_then(time_of_text),
            _ => None,
        };
        let pipe = if text(2).as_deref() == Some("s2c") { Pipe::Stdout } else { Pipe::Stdin };
        let about: ServerFacts = text(6).and_then(|about| serde_json::from_str(&about).ok()).unwrap_or_default();
        let command = text(5).map_or(about.command, |line| line.split(' ').map(str::to_owned).collect());
        let name = text(4).or(about.server_name);
        builder.line(&text(1).unwrap_or_default(), (name.as_deref(), &command), time, pipe, &message);
    }
    Ok(Some(builder.finish()))
}
