//! `--filter`: the display filter. Errors have a caret under the column.

use anyhow::{Result, anyhow};

use super::output;
use crate::filter::Filter;

/// Parses a filter if there is one.
pub fn parse(text: Option<&str>) -> Result<Option<Filter>> {
    let Some(text) = text else { return Ok(None) };
    let filter = Filter::parse(text);
    filter.map(Some).map_err(|error| anyhow!("cannot read the filter\n{}", error.render(output::width())))
}
