//! Options of the recording commands for live telemetry.

use clap::Args;

/// The heading of these options in the help.
#[cfg(feature = "http")]
const HEADING: &str = "Telemetry";

/// Options for live telemetry. A program without the feature `http` has none.
#[derive(Clone, Debug, Default, Args)]
pub struct Telemetry {
    /// Send traces and metrics of the traffic to this OpenTelemetry collector, by OTLP over HTTP
    /// [default without URL: $OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4318]
    #[cfg(feature = "http")]
    #[arg(long, help_heading = HEADING, value_name = "URL", num_args = 0..=1, default_missing_value = "")]
    pub otlp: Option<String>,
    /// With --otlp: send arguments and results of tools too. They may contain secrets
    #[cfg(feature = "http")]
    #[arg(long, help_heading = HEADING, requires = "otlp")]
    pub otlp_content: bool,
    /// Serve metrics to Prometheus at this port of the local machine, or at this address and port;
    /// the path is /metrics
    #[cfg(feature = "http")]
    #[arg(long, help_heading = HEADING, value_name = "ADDR")]
    pub metrics: Option<String>,
}
