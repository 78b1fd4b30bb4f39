//! What tests of other modules need of a database: its rows, and a program that locks it.

use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, Row};

/// Another program that writes to a database.
pub struct Locker(Connection);

impl Locker {
    /// Opens the database.
    pub fn new(db: &Path) -> Locker {
        Locker(Connection::open(db).unwrap())
    }

    /// Begins a transaction, so that nobody else can write.
    pub fn lock(&self) {
        self.0.execute_batch("BEGIN IMMEDIATE").unwrap();
    }

    /// Ends the transaction.
    pub fn unlock(&self) {
        self.0.execute_batch("ROLLBACK").unwrap();
    }
}

/// Makes the sessions of a database those of version 4, which had no figures.
pub fn forget_figures(db: &Path) {
    let script = "UPDATE session SET latencies = NULL, slowest = NULL, slowest_request = NULL, tool_calls = NULL;
        UPDATE packet_chunk SET stderr = NULL;";
    Connection::open(db).unwrap().execute_batch(script).unwrap();
}

/// The rows of each table of a database, sorted, without the signs of life.
pub fn rows(db: &Path) -> Vec<(String, Vec<Vec<Value>>)> {
    let db = Connection::open(db).unwrap();
    let names = |sql: &str| -> Vec<String> {
        db.prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let tables =
        names("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name");
    let rows = |table: &String| {
        let columns = names(&format!("SELECT name FROM pragma_table_info('{table}') WHERE name <> 'last_alive'"));
        let (list, count) = (columns.join(", "), columns.len());
        let mut rows = db.prepare(&format!("SELECT {list} FROM {table} ORDER BY {list}")).unwrap();
        let row = |row: &Row<'_>| (0..count).map(|column| row.get(column)).collect::<Result<_, _>>();
        rows.query_map([], row).unwrap().map(Result::unwrap).collect()
    };
    tables.iter().map(|table| (table.clone(), rows(table))).collect()
}
