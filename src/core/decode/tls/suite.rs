//! Cipher suites: their names in the IANA registry, and the algorithms that open their records.

use ring::aead::{self, AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305};
use ring::hmac::{self, HMAC_SHA256, HMAC_SHA384};

/// A cipher suite whose records can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suite {
    pub number: u16,
    /// The hash of the key derivation.
    pub hash: &'static hmac::Algorithm,
    pub cipher: &'static aead::Algorithm,
}

/// The suites that are opened: number, name, hash of the key derivation, cipher. RFC 5246 section
/// 5: the hash is SHA-256 unless the suite names another.
static SUITES: &[(u16, &str, &hmac::Algorithm, &aead::Algorithm)] = &[
    (0x1301, "TLS_AES_128_GCM_SHA256", &HMAC_SHA256, &AES_128_GCM),
    (0x1302, "TLS_AES_256_GCM_SHA384", &HMAC_SHA384, &AES_256_GCM),
    (0x1303, "TLS_CHACHA20_POLY1305_SHA256", &HMAC_SHA256, &CHACHA20_POLY1305),
    (0xc02b, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", &HMAC_SHA256, &AES_128_GCM),
    (0xc02c, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", &HMAC_SHA384, &AES_256_GCM),
    (0xc02f, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", &HMAC_SHA256, &AES_128_GCM),
    (0xc030, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", &HMAC_SHA384, &AES_256_GCM),
    (0xcca8, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", &HMAC_SHA256, &CHACHA20_POLY1305),
    (0xcca9, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", &HMAC_SHA256, &CHACHA20_POLY1305),
    (0xccaa, "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256", &HMAC_SHA256, &CHACHA20_POLY1305),
    (0xccab, "TLS_PSK_WITH_CHACHA20_POLY1305_SHA256", &HMAC_SHA256, &CHACHA20_POLY1305),
    (0xccac, "TLS_ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256", &HMAC_SHA256, &CHACHA20_POLY1305),
    (0x009c, "TLS_RSA_WITH_AES_128_GCM_SHA256", &HMAC_SHA256, &AES_128_GCM),
    (0x009d, "TLS_RSA_WITH_AES_256_GCM_SHA384", &HMAC_SHA384, &AES_256_GCM),
    (0x009e, "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", &HMAC_SHA256, &AES_128_GCM),
    (0x009f, "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", &HMAC_SHA384, &AES_256_GCM),
    (0x00a8, "TLS_PSK_WITH_AES_128_GCM_SHA256", &HMAC_SHA256, &AES_128_GCM),
    (0x00a9, "TLS_PSK_WITH_AES_256_GCM_SHA384", &HMAC_SHA384, &AES_256_GCM),
];

/// Suites that are not opened (`docs/decisions/0030-tls-is-opened-by-three-ciphers.md`):
/// number, name.
const NOT_OPENED: &[(u16, &str)] = &[
    (0x1304, "TLS_AES_128_CCM_SHA256"),
    (0x1305, "TLS_AES_128_CCM_8_SHA256"),
    (0xc009, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"),
    (0xc00a, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA"),
    (0xc013, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
    (0xc014, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"),
    (0xc023, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"),
    (0xc024, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384"),
    (0xc027, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
    (0xc028, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384"),
    (0xc09c, "TLS_RSA_WITH_AES_128_CCM"),
    (0xc09d, "TLS_RSA_WITH_AES_256_CCM"),
    (0xc09e, "TLS_DHE_RSA_WITH_AES_128_CCM"),
    (0xc09f, "TLS_DHE_RSA_WITH_AES_256_CCM"),
    (0xc0a0, "TLS_RSA_WITH_AES_128_CCM_8"),
    (0xc0a1, "TLS_RSA_WITH_AES_256_CCM_8"),
    (0xc0a2, "TLS_DHE_RSA_WITH_AES_128_CCM_8"),
    (0xc0a3, "TLS_DHE_RSA_WITH_AES_256_CCM_8"),
    (0xc0a4, "TLS_PSK_WITH_AES_128_CCM"),
    (0xc0a5, "TLS_PSK_WITH_AES_256_CCM"),
    (0xc0a8, "TLS_PSK_WITH_AES_128_CCM_8"),
    (0xc0a9, "TLS_PSK_WITH_AES_256_CCM_8"),
    (0xc0ac, "TLS_ECDHE_ECDSA_WITH_AES_128_CCM"),
    (0xc0ad, "TLS_ECDHE_ECDSA_WITH_AES_256_CCM"),
    (0xc0ae, "TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8"),
    (0xc0af, "TLS_ECDHE_ECDSA_WITH_AES_256_CCM_8"),
    (0x002f, "TLS_RSA_WITH_AES_128_CBC_SHA"),
    (0x0033, "TLS_DHE_RSA_WITH_AES_128_CBC_SHA"),
    (0x0035, "TLS_RSA_WITH_AES_256_CBC_SHA"),
    (0x0039, "TLS_DHE_RSA_WITH_AES_256_CBC_SHA"),
    (0x003c, "TLS_RSA_WITH_AES_128_CBC_SHA256"),
    (0x003d, "TLS_RSA_WITH_AES_256_CBC_SHA256"),
    (0x0067, "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256"),
    (0x006b, "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256"),
];

impl Suite {
    /// The suite with this number; `None` if its records cannot be opened.
    pub fn of(number: u16) -> Option<Suite> {
        let (number, _, hash, cipher) = *SUITES.iter().find(|(known, ..)| *known == number)?;
        Some(Suite { number, hash, cipher })
    }

    /// Bytes of the output of the hash.
    pub fn hash_length(self) -> usize {
        self.hash.digest_algorithm().output_len()
    }

    /// The suites of TLS 1.3 that are opened (RFC 8446 appendix B.4).
    pub fn tls13() -> impl Iterator<Item = Suite> {
        (0x1301..=0x1303).filter_map(Suite::of)
    }
}

/// The name of a cipher suite in the IANA registry. Suites that nobody uses any more are
/// shown by number.
pub(super) fn name(number: u16) -> String {
    let opened = SUITES.iter().map(|(known, name, ..)| (*known, *name));
    let mut known = opened.chain(NOT_OPENED.iter().copied());
    match known.find(|(known, _)| *known == number) {
        Some((_, name)) => name.to_owned(),
        None => format!("cipher suite {number:#06x}"),
    }
}
