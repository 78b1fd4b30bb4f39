//! The command line of `mcptap explain`.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::TargetOptions;
use crate::view::explain::Symptom;

/// Arguments of `mcptap explain`.
#[derive(Debug, Args)]
#[command(mut_arg("target", |target| {
    target.help("The sessions: of several, the one with the most causes is explained [default: latest]")
}))]
pub struct Explain {
    /// Only causes of this symptom
    #[arg(long, value_name = "SYMPTOM", value_parser = symptom())]
    pub symptom: Option<Symptom>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// The sessions, and how captures are decoded.
    #[command(flatten)]
    pub sessions: TargetOptions,
}

fn symptom() -> impl TypedValueParser<Value = Symptom> {
    let named = |name: String| Symptom::ALL.into_iter().find(|symptom| symptom.name() == name);
    PossibleValuesParser::new(Symptom::ALL.map(Symptom::name)).try_map(move |name| named(name).ok_or("no such symptom"))
}
