//! The command line of `mcptap explain`.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::Decoding;
use crate::view::explain::Symptom;

/// Arguments of `mcptap explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// The sessions to explain: of several, the one with the most causes [default: latest]
    pub target: Option<String>,
    /// Only causes of this symptom
    #[arg(long, value_name = "SYMPTOM", value_parser = symptom())]
    pub symptom: Option<Symptom>,
    /// The session to explain, if the capture has several
    #[arg(long, value_name = "N", value_parser = super::session_number)]
    pub session: Option<u32>,
    /// Options for decoding captures.
    #[command(flatten)]
    pub decoding: Decoding,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

fn symptom() -> impl TypedValueParser<Value = Symptom> {
    let named = |name: String| Symptom::ALL.into_iter().find(|symptom| symptom.name() == name);
    PossibleValuesParser::new(Symptom::ALL.map(Symptom::name)).try_map(move |name| named(name).ok_or("no such symptom"))
}
