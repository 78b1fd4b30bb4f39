//! Heads of HTTP responses.

/// The head of a response. Without a length, the caller adds `Transfer-Encoding: chunked` or the
/// body ends with the connection.
pub fn head(status: u16, fields: &[(&str, &str)], length: Option<usize>) -> String {
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = length.map(|length| format!("Content-Length: {length}\r\n")).unwrap_or_default();
    format!("HTTP/1.1 {status} {}\r\n{fields}{length}\r\n", reason(status))
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        202 => "Accepted",
        204 => "No Content",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}
