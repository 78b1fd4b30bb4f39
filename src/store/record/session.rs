//! Sessions as rows.

use std::net::SocketAddr;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Columns;
use crate::capture::Time;
use crate::capture::pipe::Exit;
use crate::decode::ConnectionId;
use crate::mcp::{Outcomes, Party, Peers, Session, SessionNumber};
use crate::store::codec::{Code, Damaged};
use crate::store::{CaptureId, RowKey};

const DAMAGED: Damaged = Damaged("a session");

/// The number in the database of session `number` of a capture, which is the id of its row. Inserts
/// the row if there is none. [`update`] writes its other columns.
pub(in crate::store) fn ensure(db: &Connection, capture: CaptureId, number: SessionNumber) -> rusqlite::Result<i64> {
    let found = db
        .prepare_cached("SELECT id FROM session WHERE capture = ? AND number = ?")?
        .query_row(params![capture.0, number.0], |row| row.get(0))
        .optional()?;
    match found {
        Some(id) => Ok(id),
        None => db
            .prepare_cached("INSERT INTO session (capture, number) VALUES (?, ?)")?
            .insert(params![capture.0, number.0]),
    }
}

const UPDATE: &str = "
    UPDATE session SET transport = ?, protocol_version = ?, session_id = ?, client_name = ?, client_version = ?,
        server_name = ?, server_version = ?, client_address = ?, server_address = ?, host = ?, process = ?, command = ?,
        process_name = ?, started = ?, ended = ?, messages = ?, requests = ?, ok = ?, tool_errors = ?,
        errors = ?, cancelled = ?, unanswered = ?, server_requests = ?, responses = ?, notifications = ?, invalid = ?, bytes_seen = ?, bytes_sent = ?, exit_code = ?, exit_signal = ?
    WHERE id = ?";

pub(in crate::store) fn update(db: &Connection, id: i64, session: &Session) -> anyhow::Result<()> {
    let (client, server) = (session.client.as_ref(), session.server.as_ref());
    let (network, process) = match &session.peers {
        Peers::Network { client, server, host } => (Some((client.to_string(), server.to_string(), host)), None),
        Peers::Process { process, command } => (None, Some((process, serde_json::to_string(command)?))),
    };
    let (network, process) = (network.as_ref(), process.as_ref());
    db.prepare_cached(UPDATE)?.execute(params![
        session.transport.code(),
        session.protocol_version,
        session.session_id,
        client.map(|party| &party.name),
        client.map(|party| &party.version),
        server.map(|party| &party.name),
        server.map(|party| &party.version),
        network.map(|(client, ..)| client),
        network.map(|(_, server, _)| server),
        network.and_then(|(.., host)| host.as_ref()),
        process.map(|(process, _)| process),
        process.map(|(_, command)| command),
        session.name,
        session.started.0,
        session.ended.0,
        session.messages as i64,
        session.outcomes.requests() as i64,
        session.outcomes.ok as i64,
        session.outcomes.tool_errors as i64,
        session.outcomes.errors as i64,
        session.outcomes.cancelled as i64,
        session.outcomes.unanswered as i64,
        session.server_requests as i64,
        session.responses as i64,
        session.notifications as i64,
        session.invalid as i64,
        session.bytes.0 as i64,
        session.bytes.1 as i64,
        session.exit.and_then(|exit| exit.code),
        session.exit.and_then(|exit| exit.signal),
        id,
    ])?;
    Ok(())
}

/// Adds numbers of findings to those of a session: info, warning, error.
pub(in crate::store) fn count_findings(db: &Connection, id: i64, added: [u64; 3]) -> rusqlite::Result<()> {
    let [infos, warnings, severe] = added.map(|count| i64::try_from(count).unwrap_or(i64::MAX));
    db.prepare_cached(
        "UPDATE session SET infos = infos + ?, warnings = warnings + ?, severe = severe + ? WHERE id = ?",
    )?
    .execute([infos, warnings, severe, id])?;
    Ok(())
}

/// Writes the connections that carried a session. The list grows only at its end.
pub(in crate::store) fn write_connections(
    db: &Connection,
    capture: CaptureId,
    id: i64,
    connections: &[ConnectionId],
) -> rusqlite::Result<()> {
    let known: usize = db
        .prepare_cached("SELECT count(*) FROM session_connection WHERE session = ?")?
        .query_row([id], |row| row.get::<_, i64>(0))
        .map(|count| usize::try_from(count).unwrap_or(0))?;
    let mut insert =
        db.prepare_cached("INSERT INTO session_connection (session, position, connection) VALUES (?, ?, ?)")?;
    for (position, connection) in connections.iter().enumerate().skip(known) {
        insert.execute(params![id, position as i64, RowKey::new(capture, connection.0.into())])?;
    }
    Ok(())
}

/// Columns in the order of [`read`].
pub(in crate::store) const COLUMNS: &str = "
    id, capture, transport, protocol_version, session_id, client_name, client_version, server_name, server_version,
    client_address, server_address, host, process, command, process_name, started, ended, messages, ok, tool_errors, errors,
    cancelled, unanswered, server_requests, responses, notifications, invalid, bytes_seen, bytes_sent, exit_code, exit_signal";

/// A session without its connections, and its capture.
pub(in crate::store) fn read(row: &Row<'_>) -> anyhow::Result<(CaptureId, Session)> {
    read_from(&mut Columns::new(row))
}

/// The same, behind other columns of the row.
pub(in crate::store) fn read_from(columns: &mut Columns<'_>) -> anyhow::Result<(CaptureId, Session)> {
    let number = SessionNumber(columns.get()?);
    let capture = columns.capture()?;
    let transport = columns.code()?;
    let (protocol_version, session_id) = (columns.get()?, columns.get()?);
    let mut party = || -> rusqlite::Result<Option<Party>> {
        let (name, version): (Option<String>, Option<String>) = (columns.get()?, columns.get()?);
        Ok(name.zip(version).map(|(name, version)| Party { name, version }))
    };
    let (client, server) = (party()?, party()?);
    let (peers, name) = (read_peers(columns)?, columns.get()?);
    Ok((
        capture,
        Session {
            number,
            transport,
            protocol_version,
            session_id,
            client,
            server,
            peers,
            name,
            connections: Vec::new(),
            started: Time(columns.get()?),
            ended: Time(columns.get()?),
            messages: columns.u64()?,
            outcomes: Outcomes {
                ok: columns.u64()?,
                tool_errors: columns.u64()?,
                errors: columns.u64()?,
                cancelled: columns.u64()?,
                unanswered: columns.u64()?,
            },
            server_requests: columns.u64()?,
            responses: columns.u64()?,
            notifications: columns.u64()?,
            invalid: columns.u64()?,
            bytes: (columns.u64()?, columns.u64()?),
            exit: match (columns.get()?, columns.get()?) {
                (None, None) => None,
                (code, signal) => Some(Exit { code, signal }),
            },
        },
    ))
}

fn read_peers(columns: &mut Columns<'_>) -> anyhow::Result<Peers> {
    let address = |text: Option<String>| -> Result<SocketAddr, Damaged> {
        // A row whose first record was lost has no addresses.
        text.map_or(Ok(SocketAddr::from(([0, 0, 0, 0], 0))), |text| text.parse().map_err(|_| DAMAGED))
    };
    let (client, server) = (address(columns.get()?)?, address(columns.get()?)?);
    let host = columns.get()?;
    let (process, command): (Option<u32>, Option<String>) = (columns.get()?, columns.get()?);
    Ok(match process {
        None => Peers::Network { client, server, host },
        Some(process) => {
            let command = serde_json::from_str(command.as_deref().unwrap_or("[]")).map_err(|_| DAMAGED)?;
            Peers::Process { process, command }
        }
    })
}

/// The connections that carried a session, in order.
pub(in crate::store) fn read_connections(db: &Connection, session: SessionNumber) -> rusqlite::Result<Vec<RowKey>> {
    db.prepare_cached("SELECT connection FROM session_connection WHERE session = ? ORDER BY position")?
        .query_map([session.0], |row| row.get(0).map(RowKey))?
        .collect()
}
