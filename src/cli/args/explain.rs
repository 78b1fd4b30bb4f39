//! The command line of `mcptap explain`.

use clap::Args;

use super::{TargetOptions, one_of};
use crate::view::explain::Symptom;

/// Arguments of `mcptap explain`.
#[derive(Debug, Args)]
#[command(mut_arg("target", |target| {
    target.help("The sessions: of several, the one with the most causes is explained [default: latest]")
}))]
pub struct Explain {
    /// Only causes of this symptom
    #[arg(long, value_name = "SYMPTOM", value_parser = one_of(Symptom::ALL, Symptom::name))]
    pub symptom: Option<Symptom>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// The sessions, and how captures are decoded.
    #[command(flatten)]
    pub sessions: TargetOptions,
}
