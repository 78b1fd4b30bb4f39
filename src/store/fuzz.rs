//! Damage to databases, for the fuzz target that reads them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::Value;

/// Numbers at which arithmetic may overflow, and others.
const NUMBERS: [i64; 8] = [0, 1, -1, 255, 1 << 32, 1 << 40, i64::MAX, i64::MIN];

/// Damages a database as `data` describes. SQLite may refuse a part of it.
///
/// ```text
///   0, offset (3 bytes), length, bytes            bytes of the file
///   1, offset (3 bytes)                           the file ends there
///   2, table, column, row, kind, length, bytes    a value of a row
/// ```
///
/// The kinds of values: a number, a blob, a text, bytes of the old value, NULL, a zstd frame.
///
/// # Panics
///
/// If the file cannot be written.
pub fn damage(path: &Path, mut data: &[u8]) {
    while let [kind, rest @ ..] = data {
        data = match (kind % 3, rest) {
            (0, [high, middle, low, length, rest @ ..]) => {
                let (bytes, rest) = rest.split_at(usize::from(*length).min(rest.len()));
                let file = File::options().write(true).open(path).expect("the file is there");
                let size = file.metadata().expect("its size").len().max(1);
                let written = file.write_all_at(bytes, offset(*high, *middle, *low) % size);
                written.expect("the file can be written");
                rest
            }
            (1, [high, middle, low, rest @ ..]) => {
                let file = File::options().write(true).open(path).expect("the file is there");
                let size = file.metadata().expect("its size").len().max(1);
                file.set_len(offset(*high, *middle, *low) % size).expect("the file can be cut");
                rest
            }
            (2, [table, column, row, kind, length, rest @ ..]) => {
                let (bytes, rest) = rest.split_at(usize::from(*length).min(rest.len()));
                // SQLite refuses what a strict table cannot hold.
                let _ = replace(path, [*table, *column, *row, *kind], bytes);
                rest
            }
            _ => return,
        };
    }
}

fn offset(high: u8, middle: u8, low: u8) -> u64 {
    u64::from(u32::from_be_bytes([0, high, middle, low]))
}

/// Replaces the value of a column in a row.
fn replace(path: &Path, [table, column, row, kind]: [u8; 4], bytes: &[u8]) -> anyhow::Result<()> {
    let db = Connection::open(path)?;
    db.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF;")?;
    let names = |sql: &str, of: &[&str]| -> rusqlite::Result<Vec<String>> {
        db.prepare(sql)?.query_map(rusqlite::params_from_iter(of), |row| row.get(0))?.collect()
    };
    let pick = |names: &[String], at: u8| names.get(usize::from(at) % names.len().max(1)).cloned();
    let tables = names("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name", &[])?;
    let Some(table) = pick(&tables, table) else { return Ok(()) };
    let columns = names("SELECT name FROM pragma_table_info(?)", &[&table])?;
    let Some(column) = pick(&columns, column) else { return Ok(()) };
    let key = names("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", &[&table])?.join(", ");
    let rows: u32 = db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
    let place = format!("({key}) = (SELECT {key} FROM {table} LIMIT 1 OFFSET {})", u32::from(row) % rows.max(1));
    let first = bytes.first().copied().unwrap_or_default();
    let value = match kind % 6 {
        0 => Value::Integer(NUMBERS[usize::from(first) % NUMBERS.len()].wrapping_add(bytes.len() as i64 / 2)),
        1 => Value::Blob(bytes.to_vec()),
        2 => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        3 => {
            let sql = format!("SELECT {column} FROM {table} WHERE {place}");
            match db.query_row(&sql, [], |row| row.get::<_, Value>(0))? {
                Value::Blob(mut old) => {
                    let at = usize::from(first).min(old.len());
                    let end = (at + bytes.len().saturating_sub(1)).min(old.len());
                    old.splice(at..end, bytes.iter().skip(1).copied());
                    Value::Blob(old)
                }
                Value::Integer(old) => Value::Integer(old ^ i64::from(first)),
                other => other,
            }
        }
        4 => Value::Null,
        _ => Value::Blob(zstd::encode_all(bytes, 1)?),
    };
    db.execute(&format!("UPDATE {table} SET {column} = ? WHERE {place}"), [value])?;
    Ok(())
}
