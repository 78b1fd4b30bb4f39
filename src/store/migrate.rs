//! Opening a database: recognising it, finding its version, and bringing it to the newest one.
//!
//! `application_id` marks a file of this program. `user_version` is the number of [`MIGRATIONS`]
//! that were applied to it. Each migration is one transaction, so a program that is killed during
//! one leaves the version before.

use std::ffi::OsStr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::database_file::DatabaseFile;
use super::filter::functions;
use super::text;

/// The steps from an empty file to the newest version. A released step is never changed. Each new
/// step adds a database to `tests/databases/`.
const MIGRATIONS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("schema-2.sql"),
    include_str!("schema-3.sql"),
    include_str!("schema-4.sql"),
    include_str!("schema-5.sql"),
    include_str!("schema-6.sql"),
    include_str!("schema-7.sql"),
];

/// `MCPT`, in the header of the file, where `file(1)` finds it.
const APPLICATION_ID: i32 = i32::from_be_bytes(*b"MCPT");

/// Measured with texts of 2 KB: twice the speed of 4,096, and files of 1.1 instead of 2
/// times the text.
const PAGE_SIZE: u32 = 16_384;

/// The value of `PRAGMA auto_vacuum` for a file that shrinks when it is told to.
pub(super) const INCREMENTAL: i64 = 2;

/// The pause before a locked database is tried again.
const PAUSE: Duration = Duration::from_millis(5);

/// The state of a file: empty, or a database of this program with its version.
enum Identity {
    Empty,
    Ours(usize),
}

/// Opens a database to write. Creates it or brings it to the newest version.
pub(super) fn open_writer(place: &DatabaseFile, busy_timeout: Duration) -> anyhow::Result<Connection> {
    open_to_write(place, busy_timeout, "NORMAL")
}

/// As [`open_writer`], and locks the database: nobody else can read or write it meanwhile.
pub(super) fn open_alone(place: &DatabaseFile, busy_timeout: Duration) -> anyhow::Result<Connection> {
    open_to_write(place, busy_timeout, "EXCLUSIVE")
}

fn open_to_write(place: &DatabaseFile, busy_timeout: Duration, locking: &str) -> anyhow::Result<Connection> {
    place.create()?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = connect(place.path().as_os_str(), place, flags, busy_timeout)?;
    // Of this database only, not of one that is attached later.
    connection.pragma_update(Some("main"), "locking_mode", locking)?;
    let identity = identify(&connection, place)?;
    prepare(&mut connection, identity, place.is_temporary(), busy_timeout)
        .with_context(|| format!("cannot prepare the database {}", place.path().display()))?;
    Ok(connection)
}

/// Opens a database to read, whether others write to it or not. An older version is first brought
/// to the newest one.
pub(super) fn open_reader(place: &DatabaseFile, busy_timeout: Duration) -> anyhow::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = connect(place.path().as_os_str(), place, flags, busy_timeout)?;
    if let Some(uri) = frozen(&connection, place) {
        connection = connect(uri.as_ref(), place, flags | OpenFlags::SQLITE_OPEN_URI, busy_timeout)?;
    }
    match identify(&connection, place)? {
        Identity::Empty => bail!("{} holds no captures yet: record one into it first", place.path().display()),
        Identity::Ours(version) if version < MIGRATIONS.len() => {
            open_writer(place, busy_timeout).with_context(|| {
                format!("{} is of the older version {version} and cannot be brought up to date", place.path().display())
            })?;
        }
        Identity::Ours(_) => {}
    }
    // A page of messages joins texts and findings: sixteen statements are used again and again.
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    text::register(&connection)?;
    functions::register(&connection)?;
    Ok(connection)
}

/// Whether opening may succeed soon: other programs have the database locked. No other failure ends
/// by itself within seconds: a file that is no database of this version, a damaged file, a folder,
/// a missing right or a full disk.
pub fn may_pass(error: &anyhow::Error) -> bool {
    use ErrorCode::{DatabaseBusy, DatabaseLocked, FileLockingProtocolFailed, SchemaChanged};
    let codes = [DatabaseBusy, DatabaseLocked, FileLockingProtocolFailed, SchemaChanged];
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref())
        .any(|cause| matches!(cause, rusqlite::Error::SqliteFailure(failure, _) if codes.contains(&failure.code)))
}

fn connect(name: &OsStr, place: &DatabaseFile, flags: OpenFlags, busy_timeout: Duration) -> anyhow::Result<Connection> {
    if place.path().is_dir() {
        bail!("cannot open the database {}: it is a folder: name a file in it", place.path().display());
    }
    let connection = Connection::open_with_flags(name, flags)
        .with_context(|| format!("cannot open the database {}", place.path().display()))?;
    connection.busy_timeout(busy_timeout)?;
    // Otherwise SQLite prepares a statement anew whenever a bound number changes that might favour
    // another index. That takes longer than most statements.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // The file may come from anybody. So nothing in its schema runs with the user's rights, and
    // damaged cells are errors.
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    Ok(connection)
}

/// The URI that opens a database on a read-only medium, where SQLite cannot create the `-shm` file.
/// If nobody can write, the file can be read as it is, unless a `-wal` file holds a part of it.
fn frozen(connection: &Connection, place: &DatabaseFile) -> Option<String> {
    let first = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
    let Err(rusqlite::Error::SqliteFailure(error, _)) = first else { return None };
    let mut wal = place.path().as_os_str().to_owned();
    wal.push("-wal");
    if !matches!(error.code, ErrorCode::CannotOpen | ErrorCode::ReadOnly) || Path::new(&wal).exists() {
        return None;
    }
    let path = place.path().to_str()?.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    Some(format!("file:{path}?immutable=1"))
}

/// Examines the file without changing it.
fn identify(connection: &Connection, place: &DatabaseFile) -> anyhow::Result<Identity> {
    let path = place.path().display();
    // In one transaction, because another program may be creating the file.
    let connection = connection.unchecked_transaction().with_context(|| format!("cannot read the database {path}"))?;
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    let application = match number("application_id") {
        Err(rusqlite::Error::SqliteFailure(error, _)) if error.code == ErrorCode::NotADatabase => {
            bail!("{path} is not a database: name another file with --db")
        }
        other => other.with_context(|| format!("cannot read the database {path}"))?,
    };
    let version = number("user_version")?;
    let tables = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
    let tables = tables.with_context(|| format!("cannot read the database {path}"))?;
    match (application, usize::try_from(version)) {
        (0, Ok(0)) if tables == 0 => Ok(Identity::Empty),
        (APPLICATION_ID, Ok(version)) if version > MIGRATIONS.len() => bail!(
            "the database {path} was written by a newer mcptap (version {version}, this one knows {}): update mcptap or name \
             another file with --db",
            MIGRATIONS.len()
        ),
        (APPLICATION_ID, Ok(version)) => Ok(Identity::Ours(version)),
        _ => bail!("{path} is the database of another program: name another file with --db"),
    }
}

fn prepare(
    connection: &mut Connection,
    identity: Identity,
    temporary: bool,
    busy_timeout: Duration,
) -> rusqlite::Result<()> {
    if let Identity::Empty = identity {
        // Possible only before the first page is written, and before WAL.
        connection.pragma_update(None, "page_size", PAGE_SIZE)?;
        if !temporary {
            // The space of deleted sessions can be given back in small steps.
            connection.pragma_update(None, "auto_vacuum", INCREMENTAL)?;
        }
    }
    // A power cut may lose the last commits, but never damages the file. A temporary file need not
    // survive a power cut.
    connection.pragma_update(None, "synchronous", if temporary { "OFF" } else { "NORMAL" })?;
    use_wal(connection, busy_timeout)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.set_prepared_statement_cache_capacity(64);
    migrate(connection)
}

/// Chooses the journal mode. With WAL, readers never wait for the writer, nor it for them.
/// Committed data survives the death of the process.
pub(super) fn use_wal(connection: &Connection, busy_timeout: Duration) -> rusqlite::Result<()> {
    patiently(busy_timeout, || connection.pragma_update(None, "journal_mode", "WAL"))
}

/// Tries again while the database is locked. When two programs change its mode at once SQLite
/// itself does not wait, because each would wait for the other.
fn patiently(busy_timeout: Duration, attempt: impl Fn() -> rusqlite::Result<()>) -> rusqlite::Result<()> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(rusqlite::Error::SqliteFailure(error, _))
                if error.code == ErrorCode::DatabaseBusy && begun.elapsed() < busy_timeout =>
            {
                thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    // A file of the newest version need not be locked. That matters to many programs that start
    // at once.
    let newest = |version: i64| usize::try_from(version).is_ok_and(|version| version >= MIGRATIONS.len());
    if newest(connection.pragma_query_value(None, "user_version", |row| row.get(0))?) {
        return Ok(());
    }
    loop {
        // Read inside the transaction, because two programs may create the file at once.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let Some(step) = usize::try_from(version).ok().and_then(|version| MIGRATIONS.get(version)) else {
            return transaction.commit();
        };
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", version + 1)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.commit()?;
    }
}
