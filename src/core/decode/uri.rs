//! Request targets, URIs and URI references, parsed as far as mcptap compares them (RFC 3986, RFC
//! 9112 section 3.2).

/// The host without its port: `example.org` of `example.org:80`, `::1` of `[::1]:80`.
pub fn host_name(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or(bracketed),
        None => host.split(':').next().unwrap_or(host),
    }
}

/// The path and query of a request target or URI (RFC 9112 section 3.2): `/a?b` of
/// `http://host/a?b`.
pub fn origin_form(target: &str) -> &str {
    split_scheme(target).map_or(target, |(_, rest)| path(rest))
}

/// The scheme (RFC 3986 section 3.1) of a URI that names a host, and the rest after `://`. `None`
/// for a reference without a scheme, even if its query contains a URI.
pub fn split_scheme(uri: &str) -> Option<(&str, &str)> {
    // Most targets are paths, in which nothing has to be looked for.
    if !uri.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return None;
    }
    let (scheme, rest) = uri.split_once("://")?;
    let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    is_scheme.then_some((scheme, rest))
}

/// The path and query after the host; `/` if there is no path.
fn path(rest: &str) -> &str {
    rest.find(['/', '?']).map(|at| &rest[at..]).filter(|path| path.starts_with('/')).unwrap_or("/")
}

/// Resolves a URI reference that was received in a response for the target `base` (RFC 3986 section
/// 5.2): `messages?a` for `/sse` is `/messages?a`.
pub fn resolved(base: &str, reference: &str) -> String {
    let reference = reference.split('#').next().unwrap_or_default();
    let base_path = base.split(['?', '#']).next().unwrap_or_default();
    match reference.chars().next() {
        None => base.to_owned(),
        _ if split_scheme(reference).is_some() => origin_form(reference).to_owned(),
        // Section 4.2: a reference that begins with two slashes contains a host.
        Some('/') => reference.strip_prefix("//").map_or(reference, path).to_owned(),
        Some('?') => format!("{base_path}{reference}"),
        Some(_) => {
            let (relative, query) = reference.split_at(reference.find('?').unwrap_or(reference.len()));
            let mut segments: Vec<&str> = base_path.split('/').skip(1).collect();
            segments.pop();
            let mut last = "";
            for segment in relative.split('/') {
                // Section 5.2.4: "." is dropped, ".." also drops the segment before it.
                match segment {
                    "." => {}
                    ".." => {
                        segments.pop();
                    }
                    other => segments.push(other),
                }
                last = segment;
            }
            let open = if matches!(last, "." | "..") && !segments.is_empty() { "/" } else { "" };
            format!("/{}{open}{query}", segments.join("/"))
        }
    }
}

/// The scheme and the authority of a URI, without user information.
pub fn authority(uri: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = split_scheme(uri)?;
    let authority = rest.split(['/', '?', '#']).next()?;
    Some((scheme, authority.rsplit('@').next()?))
}

/// The host of a URI, without port.
pub fn host(uri: &str) -> Option<&str> {
    authority(uri).map(|(_, authority)| host_name(authority))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_and_uris_are_taken_apart() {
        assert_eq!(origin_form("/mcp?x=1"), "/mcp?x=1");
        assert_eq!(origin_form("http://h:80/mcp?x=1"), "/mcp?x=1");
        assert_eq!(origin_form("http://h"), "/");
        assert_eq!(origin_form("http://h?a=/b"), "/");
        assert_eq!(origin_form("/go?to=http://h/x"), "/go?to=http://h/x");
        for (reference, target) in [
            ("/messages?a", "/messages?a"),
            ("http://h:1/messages?a", "/messages?a"),
            ("messages?a=b/c", "/api/messages?a=b/c"),
            ("./messages/", "/api/messages/"),
            ("../messages#x", "/messages"),
            ("../../../m", "/m"),
            ("..", "/"),
            ("?a", "/api/sse?a"),
            ("", "/api/sse?key=1"),
            ("//h:1/messages", "/messages"),
            ("/go?to=http://h/x", "/go?to=http://h/x"),
            ("go?to=http://h/x", "/api/go?to=http://h/x"),
        ] {
            assert_eq!(resolved("/api/sse?key=1", reference), target, "{reference}");
        }
        assert_eq!(host("https://u@a.example:1/x"), Some("a.example"));
        assert_eq!(host("https://[::1]:1/x"), Some("::1"));
        assert_eq!(host("/x"), None);
    }
}
