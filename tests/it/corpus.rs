//! Real captures with ground truth: every message is found.

use std::process::Command;

use crate::program::{NO_STATE, data};
use crate::support::needs::{self, have_program, report};
use crate::support::waits::Finishes;

/// Checks that every message appears once, with its bytes, direction, partner, session and packets.
/// `tier` selects captures in `score.py`; `captures` is their number.
fn whole(tier: &str, captures: usize) {
    if !have_program(&needs::PYTHON) {
        return;
    }
    let mut score = Command::new("python3");
    score.arg(data("captures/score.py")).args(["--bin", env!("CARGO_BIN_EXE_mcptap"), "--tier", tier]);
    score.env(NO_STATE.0, NO_STATE.1);
    let done = score.env_remove("MCPTAP_DB").env_remove("SSLKEYLOGFILE").finished();
    let said = String::from_utf8_lossy(&done.stdout);
    let total = said.lines().last().unwrap_or_default();
    let whole = format!("{captures} of {captures} captures whole, ");
    assert!(total.starts_with(&whole), "{said}{}", String::from_utf8_lossy(&done.stderr));
    report(&format!("ground truth, {tier}: {total}"));
}

#[test]
fn http_in_clear_is_whole() {
    whole("spine", 39);
}

#[test]
fn tls_http2_and_brotli_are_whole() {
    whole("tls", 6);
}

#[test]
fn stdio_is_whole() {
    whole("stdio", 3);
}
