//! A database with any damage, read by every command.

#![no_main]

/// A database of every version.
const DATABASES: [&[u8]; 3] = [
    include_bytes!("../../databases/version-1.db"),
    include_bytes!("../../databases/version-2.db"),
    include_bytes!("../../databases/version-3.db"),
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap::cli::fuzz_database(&DATABASES, data));
