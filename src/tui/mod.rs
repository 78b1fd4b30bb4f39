//! The terminal UI.
pub mod app;
pub mod canvas;
pub mod copy;
pub mod data;
pub mod json;
pub mod keys;
pub mod layout;
pub mod line;
pub mod pages;
pub mod pane;
pub mod theme;
