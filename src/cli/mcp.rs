//! `mcptap mcp`: an MCP server over the recordings, for agents.

use std::path::PathBuf;

use anyhow::Result;

use super::args::Mcp;

/// The variable with the token of `--listen`.
#[cfg(feature = "agents")]
const TOKEN: &str = "MCPTAP_TOKEN";

#[cfg(feature = "agents")]
pub fn run(arguments: Mcp, db: Option<PathBuf>) -> Result<()> {
    let database = super::target::database(db)?;
    match arguments.listen {
        None => crate::agents::serve_stdio(database)?,
        Some(address) => {
            let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
            crate::agents::serve_http(database, &address, token)?;
        }
    }
    Ok(())
}

#[cfg(not(feature = "agents"))]
pub fn run(_: Mcp, _: Option<PathBuf>) -> Result<()> {
    anyhow::bail!(super::lacking("the server for agents"))
}
