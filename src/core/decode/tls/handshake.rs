//! Handshake messages (RFC 8446 section 4, RFC 5246 section 7.4), mainly the parameters in the two
//! hellos.

use nom::bytes::complete::take;
use nom::combinator::{all_consuming, opt};
use nom::multi::{fold_many0, length_data, many0};
use nom::number::complete::{be_u8, be_u16, be_u24};
use nom::{IResult, Parser};

use super::keylog::Random;

/// Bytes of one message that are buffered at most: 64 KiB. Longer messages are skipped. The
/// longest are chains of certificates: a few kilobytes, with post-quantum signatures some
/// tens of kilobytes.
const MAX_MESSAGE: usize = 64 << 10;

/// A protocol version as encoded in the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub u16);

impl Version {
    pub const TLS_1_2: Version = Version(0x0303);
    pub const TLS_1_3: Version = Version(0x0304);

    pub fn name(self) -> String {
        match self.0 {
            0x0300 => "SSL 3.0".to_owned(),
            0x0301 => "TLS 1.0".to_owned(),
            0x0302 => "TLS 1.1".to_owned(),
            0x0303 => "TLS 1.2".to_owned(),
            0x0304 => "TLS 1.3".to_owned(),
            other => format!("version {other:#06x}"),
        }
    }
}

/// The parameters that a client offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClientHello {
    pub random: Random,
    /// Whether data may follow at once, under a key of an earlier session (RFC 8446 section
    /// 4.2.10).
    pub early_data: bool,
    pub server_name: Option<String>,
    pub alpn: Vec<String>,
    /// Best first, as sent, without the reserved versions (RFC 8701).
    pub versions: Vec<Version>,
}

/// The parameters that a server chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerHello {
    pub random: Random,
    /// Whether the server requests another ClientHello (RFC 8446 section 4.1.4).
    pub retry: bool,
    pub version: Version,
    pub cipher_suite: u16,
    pub alpn: Option<String>,
    /// Whether an earlier session is resumed with one of its keys (RFC 8446 section 4.2.11).
    pub resumed: bool,
}

/// A handshake message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    ClientHello(Box<ClientHello>),
    ServerHello(ServerHello),
    /// TLS 1.3 only: the chosen protocol (ALPN), and whether early data is accepted.
    EncryptedExtensions(Option<String>, bool),
    /// The sender's last message of the handshake.
    Finished,
    /// The sender's next record uses the next key (RFC 8446 section 4.6.3).
    KeyUpdate,
    /// The client's early data is complete.
    EndOfEarlyData,
    NewSessionTicket,
    /// Another message, by its name.
    Other(&'static str),
}

/// Reassembles the messages of one direction. "Handshake messages MAY be coalesced into a single
/// TLSPlaintext record or fragmented across several records."
#[derive(Clone, Debug, Default)]
pub(super) struct Messages {
    /// At most one message, and the bytes of one record after it.
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were read.
    read: usize,
    /// Remaining bytes of a message that is too long to be buffered.
    skip: usize,
}

impl Messages {
    /// Adds the bytes of a record. The caller takes out all messages before it adds
    /// the next record.
    pub fn push(&mut self, bytes: &[u8]) {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        self.buffer.drain(..self.read);
        self.read = 0;
        self.buffer.extend_from_slice(&bytes[skipped..]);
    }

    /// Takes out the next complete message of a known type that is well-formed.
    pub fn next(&mut self) -> Option<Message> {
        loop {
            let rest = &self.buffer[self.read..];
            let (body, (kind, length)) = message_header(rest).ok()?;
            let length = length as usize;
            if length > MAX_MESSAGE {
                self.skip = length.saturating_sub(body.len());
                self.read += 4 + length.min(body.len());
                continue;
            }
            let message = read(kind, body.get(..length)?);
            self.read += 4 + length;
            if message.is_some() {
                return message;
            }
        }
    }

    /// Discards an incomplete message, since bytes were missed.
    pub fn lose(&mut self) {
        *self = Messages::default();
    }
}

fn message_header(input: &[u8]) -> IResult<&[u8], (u8, u32)> {
    (be_u8, be_u24).parse(input)
}

/// Parses one message; `None` for unknown types and malformed hellos.
fn read(kind: u8, body: &[u8]) -> Option<Message> {
    let name = match kind {
        0 => "HelloRequest",
        1 => return client_hello(body).ok().map(|(_, hello)| Message::ClientHello(Box::new(hello))),
        2 => return server_hello(body).ok().map(|(_, hello)| Message::ServerHello(hello)),
        4 => return Some(Message::NewSessionTicket),
        5 => return Some(Message::EndOfEarlyData),
        8 => {
            return encrypted_extensions(body).ok().map(|(_, (alpn, early))| Message::EncryptedExtensions(alpn, early));
        }
        11 => "Certificate",
        12 => "ServerKeyExchange",
        13 => "CertificateRequest",
        14 => "ServerHelloDone",
        15 => "CertificateVerify",
        16 => "ClientKeyExchange",
        20 => return Some(Message::Finished),
        22 => "CertificateStatus",
        24 => return Some(Message::KeyUpdate),
        25 => "CompressedCertificate",
        _ => return None,
    };
    Some(Message::Other(name))
}

const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const PRE_SHARED_KEY: u16 = 41;
const EARLY_DATA: u16 = 42;
const SUPPORTED_VERSIONS: u16 = 43;

/// `legacy_version random legacy_session_id cipher_suites legacy_compression_methods extensions`
fn client_hello(input: &[u8]) -> IResult<&[u8], ClientHello> {
    let (input, (legacy, random, _session, _suites, _compression)) =
        (be_u16, take(32usize), length_data(be_u8), length_data(be_u16), length_data(be_u8)).parse(input)?;
    let mut hello = ClientHello { random: fixed(random), versions: vec![Version(legacy)], ..ClientHello::default() };
    let (input, extensions) = extensions(input)?;
    for (kind, data) in extensions {
        match kind {
            EARLY_DATA => hello.early_data = true,
            SERVER_NAME => hello.server_name = server_name(data).ok().and_then(|(_, name)| name),
            ALPN => hello.alpn = alpn(data).map_or_else(|_| Vec::new(), |(_, names)| names),
            SUPPORTED_VERSIONS => {
                if let Ok((_, versions)) = supported_versions(data) {
                    hello.versions = versions;
                }
            }
            _ => {}
        }
    }
    Ok((input, hello))
}

/// `legacy_version random legacy_session_id_echo cipher_suite legacy_compression_method extensions`
fn server_hello(input: &[u8]) -> IResult<&[u8], ServerHello> {
    /// "For reasons of backward compatibility ..., the HelloRetryRequest message uses the same
    /// structure as the ServerHello, but with Random set to the special value of the SHA-256 of
    /// "HelloRetryRequest"".
    const RETRY: [u8; 32] = [
        0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2,
        0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
    ];
    let (input, (legacy, random, _session, cipher_suite, _compression)) =
        (be_u16, take(32usize), length_data(be_u8), be_u16, be_u8).parse(input)?;
    let mut hello = ServerHello {
        random: fixed(random),
        retry: random == RETRY,
        version: Version(legacy),
        cipher_suite,
        alpn: None,
        resumed: false,
    };
    let (input, extensions) = extensions(input)?;
    for (kind, data) in extensions {
        match kind {
            PRE_SHARED_KEY => hello.resumed = true,
            ALPN => hello.alpn = alpn(data).ok().and_then(|(_, names)| names.into_iter().next()),
            SUPPORTED_VERSIONS => {
                if let Ok((_, version)) = all_consuming(be_u16::<_, nom::error::Error<_>>).parse(data) {
                    hello.version = Version(version);
                }
            }
            _ => {}
        }
    }
    Ok((input, hello))
}

/// `extensions` (RFC 8446 section 4.3.1)
fn encrypted_extensions(input: &[u8]) -> IResult<&[u8], (Option<String>, bool)> {
    let (input, extensions) = extensions(input)?;
    let early = extensions.iter().any(|(kind, _)| *kind == EARLY_DATA);
    let alpn = extensions.into_iter().find(|(kind, _)| *kind == ALPN).and_then(|(_, data)| alpn(data).ok());
    Ok((input, (alpn.and_then(|(_, names)| names.into_iter().next()), early)))
}

/// The array for 32 bytes that the grammar took.
fn fixed(random: &[u8]) -> Random {
    random.try_into().unwrap_or_default()
}

type Extensions<'a> = Vec<(u16, &'a [u8])>;

/// The extensions of a message. Before TLS 1.3 the whole block may be missing.
fn extensions(input: &[u8]) -> IResult<&[u8], Extensions<'_>> {
    let (input, block) = opt(length_data(be_u16)).parse(input)?;
    let (_, extensions) = many0((be_u16, length_data(be_u16))).parse(block.unwrap_or_default())?;
    Ok((input, extensions))
}

/// A list of names. `host_name` (0) is the only type ever defined (RFC 6066 section 3). Such a name
/// is "ASCII ... without a trailing dot"; anything else is not shown.
fn server_name(input: &[u8]) -> IResult<&[u8], Option<String>> {
    let (input, list) = length_data(be_u16).parse(input)?;
    let (_, (kind, name)) = (be_u8, length_data(be_u16)).parse(list)?;
    let printable = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    let valid = kind == 0 && (1..=255).contains(&name.len()) && name.iter().all(printable);
    Ok((input, valid.then(|| name.to_ascii_lowercase().iter().map(|byte| char::from(*byte)).collect())))
}

/// A list of protocol names (RFC 7301 section 3.1): the printable ones, at most eight.
fn alpn(input: &[u8]) -> IResult<&[u8], Vec<String>> {
    let (input, list) = length_data(be_u16).parse(input)?;
    let (_, names) = fold_many0(length_data(be_u8), Vec::new, |mut names: Vec<String>, name: &[u8]| {
        if names.len() < 8 && name.len() <= 32 && !name.is_empty() && name.iter().all(u8::is_ascii_graphic) {
            names.push(name.iter().map(|byte| char::from(*byte)).collect());
        }
        names
    })
    .parse(list)?;
    Ok((input, names))
}

fn supported_versions(input: &[u8]) -> IResult<&[u8], Vec<Version>> {
    let (input, list) = length_data(be_u8).parse(input)?;
    let (_, versions) = many0(be_u16).parse(list)?;
    let reserved = |version: u16| version & 0x0f0f == 0x0a0a;
    Ok((input, versions.into_iter().filter(|version| !reserved(*version)).map(Version).collect()))
}

/// Bytes that a cipher suite of TLS 1.3 adds to a message: the hidden content type and the
/// AEAD's tag.
fn expansion(cipher_suite: u16) -> u16 {
    // AES-CCM-8 has a short tag (RFC 6655).
    if cipher_suite == 0x1305 { 1 + 8 } else { 1 + 16 }
}

/// Length of a TLS 1.3 record with nothing but Finished: four bytes of header and a hash (RFC 8446
/// section 4.4.4).
pub(super) fn finished_length(cipher_suite: u16) -> u16 {
    let hash = if cipher_suite == 0x1302 { 48 } else { 32 };
    4 + hash + expansion(cipher_suite)
}

/// Length of a TLS 1.3 record with an alert, which has two bytes (RFC 8446 section 6).
pub(super) fn alert_length(cipher_suite: u16) -> u16 {
    2 + expansion(cipher_suite)
}
