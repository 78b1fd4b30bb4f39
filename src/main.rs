//! The entry of the program: parses the command line, runs the command, returns the exit code.

use std::process::ExitCode;

/// Most memory of a capture is freed by another thread than the one that allocated it, which is slow
/// in the C library (`docs/decisions/0051-memory-passes-between-threads.md`).
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    mcptap::cli::main()
}
