//! `mcptap web`: the HTML page on a loopback address, following a recording.

use std::io::Write;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, thread};

use anyhow::Result;

use super::args::Web;
use super::{output, stop, target};
use crate::cli::output::note;
use crate::export::html::live::Followed;
use crate::http::token;
use crate::web;

pub fn run(arguments: Web, db: Option<PathBuf>) -> Result<()> {
    let follows_latest = arguments.sessions.target.as_deref().is_none_or(|target| target == "latest");
    if follows_latest {
        target::await_recording(db.clone())?;
    }
    let opened = target::open_or_latest(&arguments.sessions, db)?;
    let followed = match opened.session {
        Some(session) if follows_latest => Followed::From(session),
        Some(session) => Followed::One(session),
        None => Followed::All,
    };
    let (_stop, signal) = stop::with_descriptor()?;
    let web = web::Web::bind(&arguments.listen, token::random()?, opened.reader.place().clone(), followed)?;
    let mut out = output::stdout();
    writeln!(out, "{}", web.url())?;
    out.flush()?;
    if arguments.no_open || !open(&web.url()) {
        note!("open this URL in a browser; Ctrl-C ends it");
    } else {
        note!("the page opens in the browser; Ctrl-C ends it");
    }
    web.serve(signal.as_fd());
    Ok(())
}

/// Opens a URL in the user's browser, if there is a display. Returns whether that was tried.
fn open(url: &str) -> bool {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let program = match () {
        () if cfg!(target_os = "macos") => "open",
        () if is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") => "xdg-open",
        () => return false,
    };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    // The program may be the browser itself.
    thread::spawn(move || child.wait());
    true
}
