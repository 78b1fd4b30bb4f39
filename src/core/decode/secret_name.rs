//! Names of secrets: of header fields, parameters, members, options and variables.
//!
//! A name is split into words at each character that is no letter or digit, and where the case
//! changes: `tavilyApiKey` and `TAVILY_API_KEY` have the same words. A secret word makes the name
//! that of a secret, so `author` and `max_tokens` are none. Exceptions follow.

use std::ops::Range;

/// Words that mark a secret wherever they are in the name.
const ANYWHERE: &[&str] = &[
    "apikey",
    "assertion",
    "authentication",
    "authorization",
    "cookie",
    "credential",
    "credentials",
    "passphrase",
    "passwd",
    "password",
    "secret",
    "signature",
    "token",
];

/// Words that mark a secret as the last word of the name.
const LAST: &[&str] = &["auth", "bearer", "dpop", "jwt", "key", "pass", "pat", "pwd", "sig"];

/// Ends of a word that mark a secret, as in `x-authtoken`.
const ENDS: &[&str] = &[
    "accesskey",
    "apikey",
    "authkey",
    "authorization",
    "cookie",
    "password",
    "privatekey",
    "secret",
    "secretkey",
    "subscriptionkey",
    "token",
];

/// Names of secrets that no word of them shows, without what separates their words. They are those
/// of RFC 6749, 7591, 7636 and 8628.
const NAMES: &[&str] = &["code", "codeverifier", "devicecode", "softwarestatement"];

/// Parts of names that mark a secret before any other word, without what separates their words.
const PARTS: &[&str] = &["apikey", "privatekey"];

/// Last words of names that describe a secret and do not contain it: `token_type`.
const DESCRIPTIONS: &[&str] = &[
    "alg",
    "at",
    "count",
    "enc",
    "endpoint",
    "expires",
    "expiry",
    "in",
    "input",
    "length",
    "limit",
    "method",
    "supported",
    "type",
];

/// Ends of names that are no secrets, without what separates their words.
const EXCEPTIONS: &[&str] = &[
    "acceptsignature",
    "allowcredentials",
    "authenticationcontrol",
    "cachekey",
    "continuationtoken",
    "idempotencykey",
    "pagetoken",
    "partitionkey",
    "progresstoken",
    "publickey",
    "routingkey",
    "sortkey",
    "surrogatekey",
    "tokentypehint",
    "websocketkey",
];

/// Whether a value with this name is a secret. Unless the user asks otherwise, it is masked.
pub fn is_secret(name: &[u8]) -> bool {
    may_be_secret(name) && is_secret_by_words(name)
}

/// Whether a name contains the start of any word of the lists. Names of most header fields do not,
/// and this takes a tenth of the time of splitting them into words.
fn may_be_secret(name: &[u8]) -> bool {
    (3..=name.len()).any(|end| {
        // No other byte becomes a letter.
        let lower = |at: usize| name.get(at).map_or(0, |byte| byte | 0x20);
        match [lower(end - 3), lower(end - 2), lower(end - 1)] {
            [b'k', b'e', b'y'] | [b'j', b'w', b't'] | [b'p', b'a', b't'] | [b'p', b'w', b'd'] => true,
            [b's', b'i', b'g'] => true,
            [b'a', b'u', b't'] => lower(end) == b'h',
            [b'a', b's', b's'] | [b'c', b'o', b'd'] => lower(end) == b'e',
            [b'b', b'e', b'a'] | [b's', b'e', b'c'] => lower(end) == b'r',
            [b'c', b'o', b'o'] => lower(end) == b'k',
            [b'c', b'r', b'e'] => lower(end) == b'd',
            [b'd', b'p', b'o'] => lower(end) == b'p',
            [b'p', b'a', b's'] => lower(end) == b's',
            [b's', b't', b'a'] => lower(end) == b't',
            [b't', b'o', b'k'] => lower(end) == b'e',
            [b'v', b'e', b'r'] => lower(end) == b'i',
            _ => false,
        }
    })
}

fn is_secret_by_words(name: &[u8]) -> bool {
    let (mut is_marked, mut last) = (false, &name[..0]);
    for part in name.split(|byte| !byte.is_ascii_alphanumeric()).filter(|part| !part.is_empty()) {
        is_marked |= ends_in(ENDS, without_number(part));
        last = part;
        for word in words(part) {
            last = without_number(&part[word]);
            is_marked |= is_one_of(ANYWHERE, last);
        }
        // `DPoP` is one word.
        if is_one_of(LAST, part) {
            last = part;
        }
    }
    // Most names end here, without a copy.
    let is_code = is_one_of(&["code", "verifier", "statement"], last);
    if !(is_marked || is_code || is_one_of(LAST, last) || is_about_key(name)) {
        return false;
    }
    let mut whole = name.to_ascii_lowercase();
    whole.retain(u8::is_ascii_alphanumeric);
    let whole = without_number(&whole);
    if is_one_of(NAMES, whole) {
        return true;
    }
    if ends_in(EXCEPTIONS, whole) || is_one_of(DESCRIPTIONS, last) {
        return false;
    }
    is_marked
        || is_one_of(LAST, last)
        || PARTS.iter().any(|part| memchr::memmem::find(whole, part.as_bytes()).is_some())
}

/// Whether `key` is a word before the last: `X-Api-Key-Value`.
fn is_about_key(name: &[u8]) -> bool {
    name.windows(4).any(|four| four[..3].eq_ignore_ascii_case(b"key"))
}

fn is_one_of(known: &[&str], word: &[u8]) -> bool {
    known.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

fn ends_in(ends: &[&str], word: &[u8]) -> bool {
    ends.iter().any(|end| {
        let start = word.len().checked_sub(end.len());
        start.is_some_and(|start| word[start..].eq_ignore_ascii_case(end.as_bytes()))
    })
}

/// A word without the digits at its end: `Cookie2`.
fn without_number(word: &[u8]) -> &[u8] {
    let digits = word.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    &word[..word.len() - digits]
}

/// The ranges of the words of a part of a name: `tavilyApiKey`, `DBPass`.
fn words(part: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let begins = |at: &usize| {
        let lower = |at: usize| part.get(at).is_some_and(u8::is_ascii_lowercase);
        part[*at].is_ascii_uppercase() && (!part[at - 1].is_ascii_uppercase() || lower(at + 1))
    };
    let mut start = 0;
    (1..part.len()).filter(begins).chain([part.len()]).map(move |end| std::mem::replace(&mut start, end)..end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn secrets_are_known_by_the_words_of_their_names() {
        for name in [
            // Parameters.
            "tavilyApiKey",
            "exaApiKey",
            "key",
            "sig",
            "auth",
            "secret",
            "software_statement",
            "access_token",
            "code",
            "code_verifier",
            "device_code",
            "id_token_hint",
            "client_assertion",
            "api_key",
            "X-Amz-Signature",
            "client_secret",
            "Refresh_Token",
            "apikey",
            "registration_access_token",
            "APIKey",
            // Header fields.
            "Authorization",
            "Proxy-Authorization",
            "Cookie",
            "Set-Cookie",
            "Cookie2",
            "X-Csrf-Token",
            "X-Api-Key",
            "Ocp-Apim-Subscription-Key",
            "Notion-Key",
            "Custom-Credential",
            "X-Signature",
            "X-Hub-Signature-256",
            "DPoP",
            "dpop",
            "Authentication-Info",
            "Proxy-Authentication-Info",
            "x-authtoken",
            "X-Auth",
            "xapikey",
            // Options and variables.
            "-github-pat",
            "-auth",
            "-bearer",
            "-db-pass",
            "-key",
            "-password",
            "OPENAI_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "GITHUB_PERSONAL_ACCESS_TOKEN",
            "dbPass",
            "DBPass",
            "PGPASSWORD",
            "api.key",
            "private_key_pem",
        ] {
            assert!(is_secret(name.as_bytes()), "{name}");
            let (upper, lower) = (name.to_ascii_uppercase(), name.to_ascii_lowercase());
            if name.contains(['-', '_']) || !name.contains(char::is_uppercase) {
                assert!(is_secret(upper.as_bytes()) && is_secret(lower.as_bytes()), "{name} in one case");
            }
        }
    }

    #[test]
    fn names_of_real_fields_and_options_that_are_no_secrets_stay() {
        for name in [
            ":authority",
            ":method",
            ":path",
            ":scheme",
            ":status",
            "Accept",
            "Accept-Encoding",
            "Accept-Language",
            "Accept-Signature",
            "Access-Control-Allow-Credentials",
            "Access-Control-Allow-Headers",
            "Access-Control-Expose-Headers",
            "Age",
            "Allow",
            "Alt-Svc",
            "Author",
            "Cache-Control",
            "Connection",
            "Content-Encoding",
            "Content-Length",
            "Content-Location",
            "Content-Security-Policy",
            "Content-Type",
            "Date",
            "DPoP-Nonce",
            "ETag",
            "Expires",
            "Host",
            "Idempotency-Key",
            "Keep-Alive",
            "Last-Event-ID",
            "Link",
            "Location",
            "Mcp-Method",
            "Mcp-Name",
            "Mcp-Protocol-Version",
            "Mcp-Session-Id",
            "Origin",
            "Proxy-Authenticate",
            "Referer",
            "Retry-After",
            "Sec-CH-UA-Platform",
            "Sec-Fetch-Mode",
            "Sec-WebSocket-Accept",
            "Sec-WebSocket-Extensions",
            "Sec-WebSocket-Key",
            "Sec-WebSocket-Protocol",
            "Sec-WebSocket-Version",
            "Server",
            "Signature-Input",
            "Strict-Transport-Security",
            "Surrogate-Key",
            "Traceparent",
            "Transfer-Encoding",
            "User-Agent",
            "Vary",
            "Via",
            "WWW-Authenticate",
            "X-Cache-Key",
            "X-Content-Type-Options",
            "X-Correlation-Id",
            "X-Forwarded-For",
            "X-OAuth-Scopes",
            "X-Powered-By",
            "X-RateLimit-Remaining-Tokens",
            "X-Request-Id",
            // Parameters and members.
            "token_type",
            "token_type_hint",
            "token_endpoint",
            "token_endpoint_auth_method",
            "authorization_endpoint",
            "client_id",
            "client_assertion_type",
            "code_challenge",
            "code_challenge_method",
            "codes",
            "grant_type",
            "issued_token_type",
            "max_tokens",
            "maxTokens",
            "nonce",
            "pageToken",
            "progressToken",
            "redirect_uri",
            "scope",
            "state",
            "session_id",
            "id_token_signed_response_alg",
            "keys",
            "monkey",
            "keyboard",
            "passage",
            "signal",
            // Options.
            "p",
            "-p",
            "-path",
            "-port",
            "-auth-type",
            "-author",
            "-bearer-env",
            "-pass-through",
            "-pattern",
            "-tokenizer",
            "-key-file",
            "",
            "-",
            "k",
            "toke",
            "cook-ie",
        ] {
            assert!(!is_secret(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn each_listed_word_passes_the_first_look() {
        for word in [ANYWHERE, LAST, ENDS, NAMES, PARTS, &["code", "verifier", "statement"]].concat() {
            assert!(may_be_secret(word.as_bytes()), "{word}");
            assert!(may_be_secret(word.to_ascii_uppercase().as_bytes()), "{word}");
        }
    }

    proptest! {
        /// The first look rejects no name that the words make a secret.
        #[test]
        fn no_secret_is_rejected_early(
            name in "(api|key|access|token|code|verifier|c|o|DPoP|au|th|pass|word|sign|ature|_|-|[a-zA-Z0-9]){0,6}",
        ) {
            prop_assert!(may_be_secret(name.as_bytes()) || !is_secret_by_words(name.as_bytes()), "{name}");
        }

        /// The words of a part are all of it, in order.
        #[test]
        fn any_bytes_are_judged(name: Vec<u8>, part in "[a-zA-Z0-9]{1,12}") {
            is_secret(&name);
            let found: Vec<u8> = words(part.as_bytes()).flat_map(|word| part.as_bytes()[word].to_vec()).collect();
            prop_assert_eq!(found, part.into_bytes());
        }
    }
}
