//! Exports of sessions in formats that other programs read: one file per format.

pub mod har;
pub mod html;
mod json;
pub mod jsonl;
pub mod junit;
pub mod mermaid;
pub mod otlp;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
pub mod pcapng;
pub mod sarif;
#[cfg(test)]
mod testing;
