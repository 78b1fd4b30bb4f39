//! Derives the keys of records from the secrets of a session (RFC 8446 section 7, RFC 5246 sections
//! 5 and 6.3).

use ring::hmac;

use super::keylog::Secret;
use super::suite::Suite;

/// The keys of one direction.
#[derive(Clone, Copy)]
pub(super) struct RecordKeys {
    /// The key. Its length depends on the cipher, 32 bytes at most.
    pub key: [u8; 32],
    /// The IV. TLS 1.3, and ChaCha20 in TLS 1.2: twelve bytes. The other AEADs of TLS 1.2: the four
    /// bytes that do not change.
    pub iv: [u8; 12],
}

/// RFC 8446 section 7.3: the keys of records under a traffic secret.
pub(super) fn traffic_keys(suite: Suite, secret: &Secret) -> RecordKeys {
    let mut keys = RecordKeys { key: [0; 32], iv: [0; 12] };
    expand_label(suite, secret, "key", &mut keys.key[..suite.cipher.key_len()]);
    expand_label(suite, secret, "iv", &mut keys.iv);
    keys
}

/// RFC 8446 section 7.2: `application_traffic_secret_N+1 =
/// HKDF-Expand-Label(application_traffic_secret_N, "traffic upd", "", Hash.length)`.
pub(super) fn updated(suite: Suite, secret: &Secret) -> Secret {
    let mut next = [0; 48];
    let length = suite.hash_length();
    expand_label(suite, secret, "traffic upd", &mut next[..length]);
    // A secret is as long as the hash.
    Secret::new(&next[..length]).unwrap_or(*secret)
}

/// HKDF-Expand-Label of RFC 8446 section 7.1, with an empty context. No caller needs more than one
/// block of the hash. HKDF-Expand (RFC 5869 section 2.3) is then its first: `T(1) = HMAC-Hash(PRK,
/// info | 0x01)`.
fn expand_label(suite: Suite, secret: &Secret, label: &str, out: &mut [u8]) {
    let mut context = hmac::Context::with_key(&hmac::Key::new(*suite.hash, secret.as_bytes()));
    let length = out.len();
    context.update(&(length as u16).to_be_bytes());
    context.update(&[6 + label.len() as u8]);
    context.update(b"tls13 ");
    context.update(label.as_bytes());
    context.update(&[0, 1]);
    out.copy_from_slice(&context.sign().as_ref()[..length]);
}

/// RFC 5246 section 6.3: the key block, split into the keys of client and server. The last argument
/// has the lengths of a key and an IV of the suite.
pub(super) fn key_block(
    suite: Suite,
    master: &Secret,
    client_random: &[u8; 32],
    server_random: &[u8; 32],
    [key, iv]: [usize; 2],
) -> [RecordKeys; 2] {
    let seed = [server_random.as_slice(), client_random].concat();
    // Two keys and two IVs of the greatest length.
    let mut block = [0; 2 * (32 + 12)];
    prf(suite, master, "key expansion", &seed, &mut block[..2 * (key + iv)]);
    let mut keys = [RecordKeys { key: [0; 32], iv: [0; 12] }; 2];
    let mut rest = block.as_slice();
    let mut take = |out: &mut [u8]| {
        let (taken, behind) = rest.split_at(out.len());
        out.copy_from_slice(taken);
        rest = behind;
    };
    // "client_write_key, server_write_key, client_write_IV, server_write_IV": AEADs have no MAC
    // keys.
    keys.iter_mut().for_each(|side| take(&mut side.key[..key]));
    keys.iter_mut().for_each(|side| take(&mut side.iv[..iv]));
    keys
}

/// The PRF of RFC 5246 section 5: `P_hash(secret, seed) = HMAC_hash(secret, A(1) + seed) +
/// HMAC_hash(secret, A(2) + seed) + ...` with `A(0) = seed, A(i) = HMAC_hash(secret, A(i-1))`.
fn prf(suite: Suite, secret: &Secret, label: &str, seed: &[u8], out: &mut [u8]) {
    let key = hmac::Key::new(*suite.hash, secret.as_bytes());
    let seed = [label.as_bytes(), seed].concat();
    let mut a = hmac::sign(&key, &seed);
    for block in out.chunks_mut(suite.hash_length()) {
        let mut context = hmac::Context::with_key(&key);
        context.update(a.as_ref());
        context.update(&seed);
        block.copy_from_slice(&context.sign().as_ref()[..block.len()]);
        a = hmac::sign(&key, a.as_ref());
    }
}
