//! Options for running a replay.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

use super::plan::StepIndex;
use super::safety::Policy;

/// The speed of the client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as the server responds.
    Fast,
    /// With the recorded pauses, divided by this factor.
    Recorded(f64),
}

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Pace, String> {
        match text {
            "fast" => Ok(Pace::Fast),
            "recorded" => Ok(Pace::Recorded(1.0)),
            other => match other.strip_prefix('x').and_then(|times| times.parse::<f64>().ok()) {
                Some(times) if times.is_finite() && times > 0.001 => Ok(Pace::Recorded(times)),
                _ => Err(format!("--pace {other}: must be fast, recorded, or xN for N times as fast")),
            },
        }
    }
}

/// Options for running a replay.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The revision to use. `None` to negotiate it.
    pub revision: Option<String>,
    /// The speed of the client.
    pub pace: Pace,
    /// The longest time to wait for a response.
    pub timeout: Duration,
    /// Tools that must not be called without permission.
    pub policy: Policy,
    /// Whether each step is wanted (`--only`), by index. Empty means that all are.
    pub only: Vec<bool>,
    /// By step, `params` that replace the recorded ones, as JSON text.
    pub edits: HashMap<StepIndex, String>,
}

impl Default for Settings {
    /// All steps, at full speed.
    fn default() -> Settings {
        Settings {
            revision: None,
            pace: Pace::Fast,
            timeout: Duration::from_secs(30),
            policy: Policy::default(),
            only: Vec::new(),
            edits: HashMap::new(),
        }
    }
}
