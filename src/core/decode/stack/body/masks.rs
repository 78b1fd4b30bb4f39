//! What is masked in the packets of a body: secrets in bodies that are no messages, and, if values
//! are redacted, contents that no text was made of.

use super::{Body, BodyKind};
use crate::capture::Span;
use crate::decode::stack::context::StackContext;

impl Body {
    /// Adds bytes that were decoded from a coding to the search for secrets.
    pub(super) fn scan_decoded(&mut self, context: &mut StackContext<'_>, bytes: &[u8]) {
        if let Some(secret_scan) = &mut self.secret_scan {
            let before = secret_scan.memory_bytes();
            secret_scan.decoded(bytes);
            context.shared.scanned_bytes = context.shared.scanned_bytes + secret_scan.memory_bytes() - before;
        }
    }

    /// Ends the search for secrets and reports those that were found. Server-sent events have none:
    /// they carry messages.
    pub(super) fn finish_secret_scan(&mut self, context: &mut StackContext<'_>) {
        let Some(secret_scan) = self.secret_scan.take() else { return };
        context.shared.scanned_bytes -= secret_scan.memory_bytes();
        if let BodyKind::Events(..) = self.kind {
            return;
        }
        let side = context.connection.sender(self.direction);
        for (secret, mask) in secret_scan.secrets(context.shared.options.mask_key) {
            context.secret(side, secret, mask);
        }
    }

    /// If values are redacted: masks what was collected and gave no text.
    pub(super) fn mask_rest(&self, context: &mut StackContext<'_>) {
        let Some((_, decoded)) = self.streams else { return };
        let start = match &self.kind {
            BodyKind::Json(text) if !text.is_empty() => 0,
            BodyKind::Events(sse, _) => sse.low_water(),
            _ => return,
        };
        let end = context.shared.provenance.length(decoded);
        context.mask_redacted(self.direction, Span { stream: decoded, start, end });
    }
}
