//! How a replay is run.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

use super::plan::StepIndex;
use super::safety::Policy;

/// How fast the client speaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As soon as it may.
    Fast,
    /// With the pauses of the recording, divided by this.
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
                _ => Err(format!("--pace {other}: fast, recorded, or xN for N times as fast")),
            },
        }
    }
}

/// How a replay is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The revision to speak, where it is not to be negotiated.
    pub revision: Option<String>,
    /// How fast.
    pub pace: Pace,
    /// How long an answer may take.
    pub timeout: Duration,
    /// What is not sent.
    pub policy: Policy,
    /// Whether a step is wanted (`--only`), by index; empty: all are.
    pub only: Vec<bool>,
    /// By step: `params` to be sent instead of the recorded ones, as JSON texts.
    pub edits: HashMap<StepIndex, String>,
}

impl Default for Settings {
    /// All of it, as fast as it may go.
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
