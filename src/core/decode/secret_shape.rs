//! Tokens that are known by their shape: a head that only one issuer uses, and random characters.
//!
//! Only shapes that are certain are listed, because they are masked wherever they are outside of
//! messages. A head begins a word, so `task-…` does not contain `sk-…`. The characters after it
//! must be many and look random, so `sk-learn` and `sk-proj-notes-of-my-first-project` are no
//! tokens.

use std::ops::Range;

use self::Alphabet::{Base64Url, Hex, Letters, UpperCase, Words};
use super::mask;

/// The characters of a token after its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alphabet {
    /// `0` to `9` and `a` to `f`.
    Hex,
    /// `A` to `Z` and `2` to `7`.
    UpperCase,
    /// ASCII letters and digits.
    Letters,
    /// The characters of `Letters` and `_`.
    Words,
    /// The characters of `Words` and `-`.
    Base64Url,
    /// The characters of `Base64Url` and `.`.
    Dotted,
}

/// The kinds of tokens: the head, the alphabet of the rest and the least length of the rest. The
/// lengths are those of real tokens, or somewhat less where issuers vary them.
const SHAPES: &[(&str, Alphabet, usize)] = &[
    // OpenAI and those who use its form, Anthropic, OpenRouter, Langfuse.
    ("sk-", Letters, 20),
    ("sk-admin-", Base64Url, 20),
    ("sk-ant-", Base64Url, 20),
    ("sk-lf-", Base64Url, 30),
    ("sk-or-v1-", Hex, 32),
    ("sk-proj-", Base64Url, 20),
    ("sk-svcacct-", Base64Url, 20),
    // GitHub.
    ("ghp_", Letters, 20),
    ("gho_", Letters, 20),
    ("ghu_", Letters, 20),
    ("ghs_", Letters, 20),
    ("ghr_", Letters, 20),
    ("github_pat_", Words, 22),
    // GitLab.
    ("glpat-", Alphabet::Dotted, 20),
    ("gldt-", Base64Url, 20),
    ("glrt-", Base64Url, 20),
    ("glptt-", Base64Url, 20),
    ("glcbt-", Base64Url, 20),
    ("gloas-", Base64Url, 20),
    // Slack.
    ("xoxa-", Base64Url, 16),
    ("xoxb-", Base64Url, 16),
    ("xoxc-", Base64Url, 16),
    ("xoxd-", Base64Url, 16),
    ("xoxe-", Base64Url, 16),
    ("xoxe.xox", Alphabet::Dotted, 16),
    ("xoxp-", Base64Url, 16),
    ("xoxr-", Base64Url, 16),
    ("xoxs-", Base64Url, 16),
    ("xapp-", Base64Url, 16),
    // Google.
    ("AIza", Base64Url, 35),
    ("GOCSPX-", Base64Url, 24),
    ("ya29.", Alphabet::Dotted, 20),
    // Stripe.
    ("sk_live_", Letters, 16),
    ("sk_test_", Letters, 16),
    ("rk_live_", Letters, 16),
    ("rk_test_", Letters, 16),
    ("whsec_", Letters, 24),
    // Package registries.
    ("npm_", Letters, 30),
    ("pypi-AgE", Base64Url, 50),
    ("rubygems_", Hex, 48),
    ("dckr_pat_", Base64Url, 20),
    // Models and search for agents.
    ("hf_", Letters, 30),
    ("gsk_", Letters, 40),
    ("nvapi-", Base64Url, 40),
    ("pplx-", Letters, 40),
    ("r8_", Letters, 30),
    ("tvly-", Base64Url, 24),
    ("xai-", Letters, 60),
    ("fc-", Hex, 32),
    ("lsv2_pt_", Words, 32),
    ("lsv2_sk_", Words, 32),
    // Clouds and hosts.
    ("dop_v1_", Hex, 64),
    ("doo_v1_", Hex, 64),
    ("dor_v1_", Hex, 64),
    ("hvs.", Base64Url, 24),
    ("sbp_", Hex, 40),
    ("sb_secret_", Base64Url, 20),
    ("glsa_", Words, 32),
    ("apify_api_", Letters, 30),
    // Services.
    ("ATATT3", Base64Url, 50),
    ("figd_", Base64Url, 30),
    ("lin_api_", Letters, 32),
    ("lin_oauth_", Letters, 32),
    ("ntn_", Letters, 40),
    ("secret_", Letters, 43),
    ("shpat_", Hex, 32),
    ("shpca_", Hex, 32),
    ("shppa_", Hex, 32),
    ("shpss_", Hex, 32),
    ("sntrys_", Base64Url, 40),
    ("sntryu_", Hex, 60),
];

/// Access keys of AWS, which have exactly this many characters after their head.
const AWS: (&[&str], usize) = (&["AKIA", "ASIA", "ABIA", "ACCA"], 16);

/// The least length of a token: that of an access key of AWS.
const LEAST: usize = 20;

/// Characters after a head that show whether they are random: as many as the longest shape needs.
const EXAMINED: usize = 64;

/// The characters of which all tokens consist.
const IS_OF_TOKEN: [bool; 256] = {
    let (mut table, mut byte) = ([false; 256], 0u8);
    loop {
        table[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if byte == u8::MAX {
            break table;
        }
        byte += 1;
    }
};

/// The characters with which tokens begin.
const BEGINS: [bool; 256] = {
    let (mut table, mut at) = ([false; 256], 0);
    while at < SHAPES.len() {
        table[SHAPES[at].0.as_bytes()[0] as usize] = true;
        at += 1;
    }
    // Access keys of AWS, JSON Web Tokens and keys of SendGrid.
    table[b'A' as usize] = true;
    table[b'e' as usize] = true;
    table[b'S' as usize] = true;
    table
};

/// The ranges of tokens in a text, and of values that were masked with a tag. Disjoint, in order.
pub(super) fn in_text(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = mask::tagged(text);
    let mut at = 0;
    // A run of at least this many characters contains the last of them. So most runs are skipped
    // at their end.
    while let Some(window) = text.get(at..at + LEAST) {
        if let Some(other) = window.iter().rposition(|byte| !IS_OF_TOKEN[usize::from(*byte)]) {
            at += other + 1;
            continue;
        }
        let more = text[at + LEAST..].iter().take_while(|byte| IS_OF_TOKEN[usize::from(**byte)]).count();
        let end = at + LEAST + more;
        in_run(text, at..end, &mut found);
        at = end;
    }
    found.sort_by_key(|range| range.start);
    found
}

/// Finds the tokens in a run of characters of tokens.
fn in_run(text: &[u8], run: Range<usize>, found: &mut Vec<Range<usize>>) {
    // Behind an escape (`%3D`, `\n`) a word begins too.
    let before = run.start.checked_sub(1).map(|at| text[at]);
    let escape = match before {
        Some(b'%') => run.start + 2,
        Some(b'\\') => run.start + 1,
        _ => run.start,
    };
    // The dot after an encoded object that begins no JSON Web Token. Whatever begins before it
    // begins none either, so each part is examined a few times only.
    let (mut at, mut no_jwt_to) = (run.start, run.start);
    while at + LEAST <= run.end {
        let rest = &text[at..run.end];
        let is_start = at == run.start || at == escape || !text[at - 1].is_ascii_alphanumeric();
        let begins = is_start && BEGINS[usize::from(rest[0])];
        let mut length = begins.then(|| token_length(rest)).flatten();
        if length.is_none() && begins && at >= no_jwt_to && rest.starts_with(b"eyJ") {
            length = jwt_length(rest);
            no_jwt_to = memchr::memchr(b'.', rest).map_or(run.end, |dot| at + dot);
        }
        found.extend(length.map(|length| at..at + length));
        at += length.unwrap_or(1);
    }
}

/// The length of the token at the start of a text, if it is no JSON Web Token.
fn token_length(text: &[u8]) -> Option<usize> {
    let shaped = |(head, alphabet, least): &(&str, Alphabet, usize)| {
        let rest = text.strip_prefix(head.as_bytes())?;
        let length = |text: &[u8]| text.iter().take_while(|byte| alphabet.contains(**byte)).count();
        // What is no token is examined only this far.
        let start = &rest[..length(&rest[..rest.len().min(EXAMINED)])];
        (start.len() >= *least && is_random(start)).then(|| head.len() + length(rest))
    };
    // The longest, because one head begins another.
    let longest = SHAPES.iter().filter_map(shaped).max();
    longest.or_else(|| aws_length(text)).or_else(|| sendgrid_length(text))
}

/// The length of an access key of AWS at the start of a text.
fn aws_length(text: &[u8]) -> Option<usize> {
    let (heads, length) = AWS;
    let rest = heads.iter().find_map(|head| text.strip_prefix(head.as_bytes()))?;
    let is_key = rest.iter().take_while(|byte| UpperCase.contains(**byte)).count() == length;
    let ends = rest.get(length).is_none_or(|byte| !byte.is_ascii_alphanumeric());
    (is_key && ends).then(|| text.len() - rest.len() + length)
}

/// A JSON Web Token (RFC 7515 section 3.1, RFC 7516 section 3.1): two objects in JSON and a
/// signature, or one object and four more parts. `eyJ` is the start of an object, encoded.
fn jwt_length(text: &[u8]) -> Option<usize> {
    let parts: Vec<&[u8]> = text.splitn(6, |byte| *byte == b'.').collect();
    let is_part = |part: &[u8], least| part.len() >= least && part.iter().all(|byte| Base64Url.contains(*byte));
    let is_object = |part: &[u8]| part.starts_with(b"eyJ") && is_part(part, 10);
    match parts.as_slice() {
        [header, claims, ..] if is_object(header) && is_object(claims) => Some(text.len()),
        [header, key, vector, content, tag]
            if is_object(header)
                && is_part(key, 0)
                && is_part(vector, 8)
                && is_part(content, 1)
                && is_part(tag, 16) =>
        {
            Some(text.len())
        }
        _ => None,
    }
}

/// A key of SendGrid: `SG.`, 22 characters, a dot, 43 characters.
fn sendgrid_length(text: &[u8]) -> Option<usize> {
    let mut parts = text.strip_prefix(b"SG.")?.splitn(2, |byte| *byte == b'.');
    let (id, rest) = (parts.next()?, parts.next()?);
    let length = rest.iter().take_while(|byte| Base64Url.contains(**byte)).count();
    (id.len() >= 16 && length >= 16 && is_random(&rest[..length])).then(|| 3 + id.len() + 1 + length)
}

/// Whether characters look random: with digits, or with letters of both cases. Words of a path or
/// a name have neither.
fn is_random(text: &[u8]) -> bool {
    let has = |which: fn(&u8) -> bool| text.iter().any(which);
    has(u8::is_ascii_digit) || has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase)
}

impl Alphabet {
    fn contains(self, byte: u8) -> bool {
        match self {
            Hex => byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'),
            UpperCase => byte.is_ascii_uppercase() || matches!(byte, b'2'..=b'7'),
            Letters => byte.is_ascii_alphanumeric(),
            Words => byte.is_ascii_alphanumeric() || byte == b'_',
            Base64Url => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Alphabet::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 64 characters that occur in every alphabet, as a prefix of any length.
    const HEX: &str = "3f9c1ad07be2458c6d10f3a9b47e25c8903ad6f1e7b25c4803f9c1ad07be2458";

    fn found(text: &str) -> Vec<&str> {
        in_text(text.as_bytes()).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn each_shape_is_found_wherever_it_is() {
        let mut tokens: Vec<String> =
            SHAPES.iter().map(|(head, _, least)| format!("{head}{}", &HEX[..*least])).collect();
        tokens.extend(AWS.0.iter().map(|head| format!("{head}IOSFODNN7EXAMPLE")));
        tokens.extend([
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U".to_owned(),
            "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxMjM0NTY3ODkwIn0.".to_owned(),
            format!("eyJhbGciOiJkaXIifQ..{}.{}.{}", &HEX[..16], &HEX[..40], &HEX[..22]),
            format!("SG.{}.{}", &HEX[..22], &HEX[..43]),
            "sk-ABCDEFghijKLMNopqrST".to_owned(),
            "hf_abcdefghijKLMNOPqrstuvWXYZabcdefgh".to_owned(),
        ]);
        for token in &tokens {
            for text in [
                token.clone(),
                format!("Bearer {token}"),
                format!("/mcp/{token}/x?a=1"),
                format!("redirect=http%3A%2F%2Fh%2F%3Ft%3D{token}&x=1"),
                format!(r#"{{"a":"b\n{token}","c":1}}"#),
                format!("key={token};"),
                format!("prod_{token},"),
                format!("\u{1}{token}\u{1}"),
            ] {
                assert_eq!(found(&text), [token.as_str()], "{text}");
            }
        }
        let [one, two] = [&tokens[0], &tokens[10]];
        assert_eq!(found(&format!("{one} and {two}")), [one, two]);
    }

    /// Texts in which nearly every character begins a candidate. Looking at each candidate to the
    /// end of the text would take minutes.
    #[test]
    fn the_work_grows_with_the_text_only() {
        for part in ["sk-ant-", "eyJ-", "eyJhbGciOiJI.x.", "SG.", "-", "AKIA-", "*", "*****012aceix"] {
            assert_eq!(found(&part.repeat((256 << 10) / part.len())), Vec::<&str>::new(), "{part}");
        }
    }

    #[test]
    fn near_misses_stay() {
        for text in [
            "sk-learn",
            "sk-learn-tutorial-2024-introduction-to-machine-learning",
            "task-3f9c1ad07be2458c6d10f3a9b47e25c8",
            "/home/me/risk-3f9c1ad07be2458c6d10f3a9b47e25c8/disk-0123456789abcdef0123456789",
            "sk-proj-notes-of-my-first-project-with-words",
            "sk-proj-2024",
            "ghp_short",
            "ghp_abcdefghijklmnopqrstuvwxyz",
            "xghp_3f9c1ad07be2458c6d10f3a9b47e25c8",
            "github_pat_of_somebody_without_digits",
            "npm_config_registry_url_of_the_company",
            "npm_package_dependencies_modelcontextprotocol",
            "glpat-describes-a-kind-of-token",
            "AKIAIOSFODNN7EXAMPLEX",
            "AKIAIOSFODNN7EXAMPL",
            "AKIAiosfodnn7example",
            "AIzaSyShort-key_0123456789",
            "eyJjdXJzb3IiOiIxMjM0NTY3ODkwMTIzNDU2Nzg5MCJ9",
            "eyJjdXJzb3IiOjF9.page2.of.a-cursor-with-dots",
            "https://example.com/docs/SG.html/SG.version.1",
            "SG.Singapore.office-of-the-company",
            "hf_transfer_of_models_from_the_hub_to_here",
            "secret_santa_list_of_the_whole_company_in_2024",
            "xoxo-with-love-from-your-friends-in-2024",
            "fc-bayern-muenchen-2024-spielplan-und-tabelle",
            "b0a7e4d2-3c1f-4b5a-8d9e-0f1a2b3c4d5e",
            "application/vnd.github.v3+json; charset=utf-8",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
            "*****not-a-tag",
        ] {
            assert_eq!(found(text), Vec::<&str>::new(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_searched(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let found = in_text(&text);
            prop_assert!(found.iter().all(|range| range.start < range.end && range.end <= text.len()));
            prop_assert!(found.windows(2).all(|two| two[0].end <= two[1].start));
        }

        /// A token is found in any surroundings that end words, and only once.
        #[test]
        fn surroundings_do_not_hide_a_token(before in "[a-z0-9 /=:\"]{0,40}", after in "[ /&\"][ -~]{0,20}") {
            let token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
            let text = format!("{before} {token}{after}");
            let start = before.len() + 1;
            prop_assert!(in_text(text.as_bytes()).contains(&(start..start + token.len())));
        }
    }
}
