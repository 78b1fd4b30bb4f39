//! Streamable HTTP on a loopback address, for clients that have the token.
//!
//! Any program of this machine, and any page in a browser, can reach a loopback address. So each
//! request needs the token, and its `Host` and `Origin` have to be of this machine.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::server::AgentServer;
use crate::http::listen;
use crate::http::token::{self, Token};

/// The path of the server.
const PATH: &str = "/mcp";

/// The origins whose pages may send requests. They need the token too.
const ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// The most connections at once. An agent has two or three.
const CONNECTIONS: usize = 64;

/// The longest time for the head of a request to arrive.
const HEAD: Duration = Duration::from_secs(30);

/// The pause after a failed accept. Usually file descriptors have run out.
const RETRY: Duration = Duration::from_millis(100);

/// The most bytes of a request. Arguments of the tools are short.
const BODY: usize = 1 << 20;

/// Whether a request has the token.
fn has_token(fields: &HeaderMap, token: &Token) -> bool {
    let given = fields.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    match given.split_at_checked(7) {
        Some((scheme, given)) if scheme.eq_ignore_ascii_case(b"bearer ") => token.is(given),
        _ => false,
    }
}

type ResponseBody = BoxBody<Bytes, Infallible>;

/// Serves clients until the process is ended.
pub(super) async fn serve(server: AgentServer, address: &str, token: Option<String>) -> Result<()> {
    let listener = listen::bind(address).with_context(|| format!("cannot listen at {address}"))?;
    let bound = listener.local_addr().context("cannot listen")?;
    ensure!(bound.ip().is_loopback(), "{bound} is not a loopback address: recordings are served to this machine only");
    let (token, source) = match token {
        Some(token) => (token, "the one of $MCPTAP_TOKEN".to_owned()),
        None => {
            let token = token::random()?;
            (token.clone(), token)
        }
    };
    let expected = Arc::new(Token::new(&token)?);
    eprintln!("mcptap: listening at http://{bound}{PATH}; the bearer token is {source}; Ctrl-C ends it");
    listener.set_nonblocking(true).context("cannot listen")?;
    let listener = TcpListener::from_std(listener).context("cannot listen")?;
    let config = StreamableHttpServerConfig::default().with_allowed_origins(ORIGINS).with_max_request_body_bytes(BODY);
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(RETRY).await;
            continue;
        };
        // Beyond the limit a connection is closed at once.
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else { continue };
        let (service, expected) = (service.clone(), Arc::clone(&expected));
        let answer = service_fn(move |request: Request<Incoming>| {
            let (service, expected) = (service.clone(), Arc::clone(&expected));
            async move {
                Ok::<Response<ResponseBody>, Infallible>(if !has_token(request.headers(), &expected) {
                    refusal(StatusCode::UNAUTHORIZED, "the request needs the bearer token that mcptap printed")
                } else if request.uri().path() != PATH {
                    refusal(StatusCode::NOT_FOUND, "the server is at /mcp")
                } else {
                    service.handle(request).await
                })
            }
        });
        tokio::spawn(async move {
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
            // A client that breaks the connection is no error of the server.
            let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
            drop(slot);
        });
    }
}

fn refusal(status: StatusCode, why: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(Bytes::from_static(why.as_bytes())).boxed());
    *response.status_mut() = status;
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
