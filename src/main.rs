//! The entry of the program: parses the command line, runs the command, returns the exit code.

use std::process::ExitCode;

/// Most memory of a capture is freed by another thread than the one that allocated it. Then the
/// allocator of the C library is slow (`docs/decisions/0051-memory-passes-between-threads.md`).
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Memory that was freed and not used again goes back to the system after a tenth of a second. The
/// default is ten seconds: then an export with large texts takes a fifth more.
#[cfg(feature = "jemalloc")]
#[allow(unsafe_code, reason = "the allocator reads its options from this symbol before `main`")]
#[unsafe(export_name = "_rjem_malloc_conf")]
static OPTIONS: &[u8] = b"dirty_decay_ms:100\0";

fn main() -> ExitCode {
    mcptap::cli::main()
}
