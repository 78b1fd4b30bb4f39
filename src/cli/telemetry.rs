//! Live telemetry of the recording commands.

#[cfg(feature = "http")]
pub use with_http::{Wanted, finish, start, start_if_possible, wanted};
#[cfg(all(not(feature = "http"), feature = "live"))]
pub use without_http::start;
#[cfg(not(feature = "http"))]
pub use without_http::{Wanted, finish, start_if_possible, wanted};

#[cfg(feature = "http")]
mod with_http {
    use std::env;
    use std::time::Duration;

    use anyhow::Result;

    use crate::cli::args;
    use crate::telemetry::{Settings, Telemetry};

    /// The telemetry that is asked for.
    pub type Wanted = Settings;

    /// The telemetry that options and environment ask for.
    pub fn wanted(arguments: &args::Telemetry) -> Result<Wanted> {
        let variable = |name: &str| env::var(name).ok();
        Settings::new(arguments.otlp.as_deref(), arguments.otlp_content, arguments.metrics.clone(), &variable)
    }

    /// Starts the telemetry that is asked for. `say` prints where it is served.
    pub fn start(wanted: Wanted, say: impl Fn(&str)) -> Result<Option<Telemetry>> {
        if !wanted.is_wanted() {
            return Ok(None);
        }
        let (telemetry, address) = Telemetry::start(wanted)?;
        address?.iter().for_each(|address| say(&format!("metrics for Prometheus: {address}")));
        Ok(Some(telemetry))
    }

    /// The same for a recording that goes on whatever happens: `say` prints what cannot be used.
    pub fn start_if_possible(wanted: Wanted, say: impl Fn(&str)) -> Option<Telemetry> {
        if !wanted.is_wanted() {
            return None;
        }
        match Telemetry::start(wanted) {
            Ok((telemetry, address)) => {
                match address {
                    Ok(address) => {
                        address.iter().for_each(|address| say(&format!("metrics for Prometheus: {address}")))
                    }
                    Err(error) => {
                        say(&format!("telemetry: {error:#}; the recording goes on without metrics for Prometheus"))
                    }
                }
                Some(telemetry)
            }
            Err(error) => {
                say(&format!("telemetry: {error:#}; the recording goes on without it"));
                None
            }
        }
    }

    /// Ends the telemetry. The collector has `limit` for what was not sent yet. Returns a line
    /// about what was sent, and whether a part of it was not delivered.
    pub fn finish(telemetry: Option<Telemetry>, limit: Duration) -> Option<(String, bool)> {
        telemetry?.finish(limit)
    }
}

/// A program without an HTTP client has no telemetry.
#[cfg(not(feature = "http"))]
mod without_http {
    use std::time::Duration;

    use anyhow::Result;

    use crate::cli::args;
    use crate::engine::Listener;
    use crate::event::Event;

    pub type Wanted = ();

    /// There is none.
    pub enum Telemetry {}

    impl Listener for Telemetry {
        fn event(&mut self, _: Event) -> Result<()> {
            match *self {}
        }
    }

    pub fn wanted(_: &args::Telemetry) -> Result<Wanted> {
        Ok(())
    }

    #[cfg(feature = "live")]
    pub fn start((): Wanted, _: impl Fn(&str)) -> Result<Option<Telemetry>> {
        Ok(None)
    }

    pub fn start_if_possible((): Wanted, _: impl Fn(&str)) -> Option<Telemetry> {
        None
    }

    pub fn finish(_: Option<Telemetry>, _: Duration) -> Option<(String, bool)> {
        None
    }
}

/// The time that a collector has at the end of a recording that nobody waits for.
#[cfg(any(feature = "http", feature = "live"))]
pub const END: std::time::Duration = std::time::Duration::from_secs(3);
