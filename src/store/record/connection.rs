//! Connections: the properties that people search for as columns, the rest as one blob.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rusqlite::{Row, Statement, params};

use super::Columns;
use crate::capture::{PacketNumber, Time};
use crate::decode::tcp::{End, Facts, HandshakePacket, SynOptions};
use crate::decode::{ConnectionId, Endpoints, tls};
use crate::event::{Connection, ConnectionKind};
use crate::store::codec::{BlobReader, BlobWriter, Code, Damaged};
use crate::store::{CaptureId, RowKey};

/// Parameters as [`write()`] binds them.
pub(in crate::store) const REPLACE: &str = "
    INSERT OR REPLACE INTO connection
        (id, protocol, host, client, first_address, second_address, process, opened, details)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";

pub(in crate::store) fn write(
    statement: &mut Statement<'_>,
    capture: CaptureId,
    connection: &Connection,
) -> rusqlite::Result<()> {
    let mut details = BlobWriter::default();
    let (endpoints, process, opened) = match &connection.kind {
        ConnectionKind::Tcp(facts) => {
            put_facts(&mut details, facts);
            (Some(facts.endpoints), None, facts.opened)
        }
        ConnectionKind::Pipe { process, opened } => (None, Some(process), *opened),
    };
    details.u64(connection.tls.len() as u64);
    for step in &connection.tls {
        details.u64(step.kind.code() as u64);
        details.i64(step.time.0);
        details.packets(&step.packets);
        details.bytes(step.detail.as_bytes());
    }
    details.option(connection.agreed.as_ref(), put_agreed);
    statement.execute(params![
        RowKey::new(capture, connection.id.0.into()),
        connection.protocol,
        connection.host,
        connection.client.map(Code::code),
        endpoints.map(|[first, _]| first.to_string()),
        endpoints.map(|[_, second]| second.to_string()),
        process,
        opened.0,
        details.0,
    ])?;
    Ok(())
}

/// Columns as [`read`] takes them.
pub(in crate::store) const COLUMNS: &str = "id, protocol, host, client, process, opened, details";

pub(in crate::store) fn read(row: &Row<'_>) -> anyhow::Result<Connection> {
    let mut columns = Columns::new(row);
    let number = u32::try_from(columns.key()?.number()).map_err(|_| Damaged("the number of a connection"))?;
    let id = ConnectionId(number);
    let protocol = protocol(columns.bytes("a protocol")?);
    let (host, client) = (columns.get()?, columns.optional_code()?);
    let process: Option<u32> = columns.get()?;
    let opened = Time(columns.get()?);
    let mut details = BlobReader::new(columns.bytes("a connection")?, "a connection");
    let kind = match process {
        Some(process) => ConnectionKind::Pipe { process, opened },
        None => ConnectionKind::Tcp(facts(&mut details)?),
    };
    let tls = details.list(|details| {
        Ok(tls::RecordGroup {
            kind: tls::RecordGroupKind::from_code(details.u64()? as i64)?,
            time: Time(details.i64()?),
            packets: details.packets()?,
            detail: details.string()?,
        })
    })?;
    // Version 1 of the database has nothing here.
    let agreed = if details.is_empty() { None } else { details.option(agreed)? };
    Ok(Connection { id, kind, client, protocol, host, tls, agreed })
}

fn put_agreed(out: &mut BlobWriter, agreed: &tls::Agreed) {
    let tls::Agreed { version, cipher_suite, server_name, alpn, resumed } = agreed;
    // Earlier versions of this program wrote a fingerprint of the client in the fifth place.
    for text in [version, cipher_suite, server_name, alpn, &None] {
        out.option(text.as_ref(), |out, text| out.bytes(text.as_bytes()));
    }
    out.u64((*resumed).into());
}

fn agreed(blob: &mut BlobReader<'_>) -> Result<tls::Agreed, Damaged> {
    let mut text = || blob.option(BlobReader::string);
    let [version, cipher_suite, server_name, alpn, _] = [text()?, text()?, text()?, text()?, text()?];
    Ok(tls::Agreed { version, cipher_suite, server_name, alpn, resumed: blob.u64()? != 0 })
}

/// The program's constant for a protocol's name; `unknown` for a name that only
/// another version uses.
fn protocol(name: &[u8]) -> &'static str {
    const NAMES: [&str; 8] = ["http/1.1", "http/1.0", "http/2", "h2", "h2c", "http", "tls", "pipe"];
    NAMES.into_iter().find(|known| known.as_bytes() == name).unwrap_or("unknown")
}

fn put_facts(out: &mut BlobWriter, facts: &Facts) {
    for address in facts.endpoints {
        put_address(out, address);
    }
    out.i64(facts.opened.0);
    out.i64(facts.last.0);
    for step in facts.handshake {
        out.option(step, |out, step| {
            out.u64(step.packet.0);
            out.i64(step.time.0);
        });
    }
    for end in &facts.ends {
        out.u64(end.packets);
        out.u64(end.bytes);
        out.u64(end.lost);
        out.option(end.options.mss, |out, mss| out.u64(mss.into()));
        out.option(end.options.window_scale, |out, shift| out.u64(shift.into()));
        out.u64(end.options.sack_permitted.into());
        out.u64(end.options.timestamps.into());
        for count in [end.retransmissions, end.duplicate_acks, end.keep_alives, end.zero_windows] {
            out.u64(count.into());
        }
        for packet in [end.fin, end.rst] {
            out.option(packet, |out, packet| out.u64(packet.0));
        }
    }
}

fn facts(blob: &mut BlobReader<'_>) -> Result<Facts, Damaged> {
    let endpoints: Endpoints = [address(blob)?, address(blob)?];
    let (opened, last) = (Time(blob.i64()?), Time(blob.i64()?));
    let mut step =
        || blob.option(|blob| Ok(HandshakePacket { packet: PacketNumber(blob.u64()?), time: Time(blob.i64()?) }));
    let handshake = [step()?, step()?, step()?];
    let ends = [end(blob)?, end(blob)?];
    Ok(Facts { endpoints, opened, last, handshake, ends })
}

fn end(blob: &mut BlobReader<'_>) -> Result<End, Damaged> {
    let narrow = |blob: &mut BlobReader<'_>| u16::try_from(blob.u64()?).map_err(|_| blob.damaged());
    let packet = |blob: &mut BlobReader<'_>| Ok(PacketNumber(blob.u64()?));
    Ok(End {
        packets: blob.u64()?,
        bytes: blob.u64()?,
        lost: blob.u64()?,
        options: SynOptions {
            mss: blob.option(narrow)?,
            window_scale: blob.option(|blob| u8::try_from(blob.u64()?).map_err(|_| blob.damaged()))?,
            sack_permitted: blob.u64()? != 0,
            timestamps: blob.u64()? != 0,
        },
        retransmissions: blob.u32()?,
        duplicate_acks: blob.u32()?,
        keep_alives: blob.u32()?,
        zero_windows: blob.u32()?,
        fin: blob.option(packet)?,
        rst: blob.option(packet)?,
    })
}

fn put_address(out: &mut BlobWriter, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => out.bytes(&ip.octets()),
        IpAddr::V6(ip) => out.bytes(&ip.octets()),
    }
    out.u64(address.port().into());
}

fn address(blob: &mut BlobReader<'_>) -> Result<SocketAddr, Damaged> {
    let octets = blob.bytes()?;
    let ip = if let Ok(octets) = <[u8; 4]>::try_from(octets) {
        IpAddr::V4(Ipv4Addr::from(octets))
    } else {
        IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(octets).map_err(|_| blob.damaged())?))
    };
    Ok(SocketAddr::new(ip, u16::try_from(blob.u64()?).map_err(|_| blob.damaged())?))
}
