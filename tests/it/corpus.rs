//! Real captures with ground truth, where they are at hand.

use std::process::Command;

use crate::program::shared;

/// Every message once, byte for byte, in its direction, with its partner, session and packets.
fn whole(tier: &str) {
    let Some(script) = shared("captures/score.py") else { return };
    let done = Command::new("python3")
        .arg(script)
        .args(["--bin", env!("CARGO_BIN_EXE_mcptap"), "--tier", tier])
        .env_remove("MCPTAP_DB")
        .output()
        .expect("python3 runs");
    assert!(
        done.status.success(),
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn the_spine_is_whole() {
    whole("spine");
}
