//! `mcptap web`: serves the page of `export --format html` on a loopback address. It follows a
//! recording.
//!
//! | path | content |
//! |---|---|
//! | `/TOKEN/` | the page, without data |
//! | `/TOKEN/events` | its data: all blocks, then new ones for as long as the page is open |
//!
//! Any program of this machine, and any page in a browser, can reach a loopback address. So each
//! request needs the token in its path, and its `Host` and `Origin` have to be of this server.

use std::io::{self, BufWriter, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::decode::uri;
use crate::export::html::live::{Followed, PageData, page_policy, write_page};
use crate::http::connection::{self, Reply, Response};
use crate::http::listen;
use crate::http::requests::Request;
use crate::http::slots::Slot;
use crate::http::token::Token;
use crate::source::now;
use crate::store::{DatabaseFile, StoreReader};

/// The most connections at once. Each open page has one or two.
const CONNECTIONS: usize = 32;

/// Time between two looks at the database. A person sees a message within a tenth of a second.
const LOOK: Duration = Duration::from_millis(50);

/// The shortest time between two readings of what has to be read as a whole, and its share of the
/// time: one in so many.
const THOROUGH: Duration = Duration::from_millis(500);
const THOROUGH_SHARE: u32 = 10;

/// Looks after which the database is read although nobody wrote. A writer that was killed makes no
/// further change to it.
const ASSURE: u32 = 40;

/// The time without data after which a line shows that the server is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A server of one page.
pub struct Web {
    listener: TcpListener,
    address: SocketAddr,
    secret: String,
    pages: Arc<PageServer>,
}

/// What the threads of all connections use.
struct PageServer {
    token: Token,
    place: DatabaseFile,
    followed: Followed,
}

impl Web {
    /// Listens at a port of 127.0.0.1, or at a loopback address and port. Requests need the token
    /// `secret`.
    ///
    /// # Errors
    /// The address cannot be used, or is none of this machine alone.
    pub fn bind(address: &str, secret: String, place: DatabaseFile, followed: Followed) -> Result<Web> {
        let listener = listen::bind(address)?;
        let address = listener.local_addr().context("cannot listen")?;
        ensure!(
            address.ip().is_loopback(),
            "{address} is not a loopback address: recordings are served to this machine only"
        );
        let pages = Arc::new(PageServer { token: Token::new(&secret)?, place, followed });
        Ok(Web { listener, address, secret, pages })
    }

    /// The URL of the page.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.secret)
    }

    /// Serves until `stop` becomes readable.
    pub fn serve(&self, stop: BorrowedFd<'_>) {
        let pages = Arc::clone(&self.pages);
        listen::serve(&self.listener, CONNECTIONS, Some(stop), move |slot| {
            connection::answer(&slot, |request| pages.respond(request));
        });
    }
}

impl PageServer {
    fn respond(self: &Arc<PageServer>, request: &Request) -> Reply {
        let host = request.field("host").unwrap_or_default();
        // A page must not reach this server under a name of its own (DNS rebinding).
        if !listen::is_own_name(host, &[]) {
            return refused(403, "the Host field does not name this machine");
        }
        if request.field("origin").is_some_and(|origin| origin != format!("http://{host}")) {
            return refused(403, "pages of other origins may not read recordings");
        }
        let path = uri::origin_form(request.target()).split('?').next().unwrap_or_default();
        let (token, name) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
        // The same words for every path, so that a wrong token learns nothing.
        if !self.token.is(token.as_bytes()) || !["", "events"].contains(&name) {
            return refused(404, "there is nothing here: use the URL that mcptap printed, as a whole");
        }
        match (request.method(), name) {
            ("GET" | "HEAD", "") => {
                let mut page = Vec::new();
                match write_page(&mut page) {
                    Ok(()) => Reply::Whole(with_fields(Response::ok("text/html; charset=utf-8", page))),
                    Err(_) => refused(500, "the page cannot be made"),
                }
            }
            ("GET", _) => {
                let pages = Arc::clone(self);
                let head = with_fields(Response::ok("text/plain; charset=utf-8", Vec::new()));
                Reply::Stream(head, Box::new(move |slot, out| pages.stream(slot, out)))
            }
            _ => refused(405, "only GET is supported"),
        }
    }

    /// Writes the data of a page for as long as the page is open.
    fn stream(&self, slot: &Slot, out: &mut dyn Write) -> io::Result<()> {
        let reader = StoreReader::open(&self.place).map_err(io::Error::other)?;
        let mut data = PageData::new(self.followed);
        let mut out = BufWriter::new(out);
        let mut version = None;
        let (mut thorough, mut written) = (Instant::now(), None::<Instant>);
        // A change whose whole was not read yet.
        let mut is_pending = false;
        for look in 0u32.. {
            if slot.has_left() || slot.is_revoked() {
                return Ok(());
            }
            let started = Instant::now();
            let read = reader.data_version().map_err(io::Error::other)?;
            let is_changed = version != Some(read) || look.is_multiple_of(ASSURE);
            let is_thorough = started >= thorough && (is_changed || is_pending);
            if is_changed || is_thorough {
                version = Some(read);
                is_pending = !is_thorough;
                let is_new = data.write_new(&reader, now(), is_thorough, &mut out).map_err(io::Error::other)?;
                let now = Instant::now();
                if is_thorough {
                    thorough = now + THOROUGH.max(started.elapsed() * THOROUGH_SHARE);
                }
                if written.is_none() || is_new {
                    let word = if written.is_none() { "ready" } else { "more" };
                    writeln!(out, "{word}")?;
                    written = Some(now);
                }
            }
            if written.is_some_and(|written| written.elapsed() > KEEP_ALIVE) {
                writeln!(out)?;
                written = Some(Instant::now());
            }
            out.flush()?;
            // With very many sessions a look takes long. Then it has half of the time.
            thread::sleep(started.elapsed().clamp(LOOK, THOROUGH));
        }
        Ok(())
    }
}

fn refused(status: u16, why: &str) -> Reply {
    Reply::Whole(with_fields(Response::refused(status, why)))
}

/// The response with the fields that keep it private.
fn with_fields(mut response: Response) -> Response {
    let policy = format!("{}; frame-ancestors 'none'", page_policy());
    let fields = [
        ("Cache-Control", "no-store"),
        ("Content-Security-Policy", &policy),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Referrer-Policy", "no-referrer"),
        ("X-Content-Type-Options", "nosniff"),
    ];
    response.fields.extend(fields.map(|(name, value)| (name, value.to_owned())));
    response
}
