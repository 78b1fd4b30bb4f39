//! Addresses of connections that were recorded above TLS, inside a process that already ran.
//!
//! Only the text is known, not the sockets. So both ends get addresses that no packet of a network
//! has: those of the discard-only prefix 100::/64 (RFC 6666). They tell wherever the recording is
//! stored, exported and read again that these layers are made up (decision 38).
//!
//! ```text
//!   100::HHHH:LLLL         the process; its id in decimal digits: 100::4711, 100::419:4304
//!   100::1:0:NNNN:NNNN     the other end of connection N
//! ```

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The port of both ends, that of HTTPS.
const PORT: u16 = 443;

/// Decimal digits in a part of the address.
const DIGITS: u32 = 10_000;

/// The ends of a connection of a process: the process, and the other end.
pub fn ends(process: u32, connection: u32) -> [SocketAddr; 2] {
    let [high, low] = [process / DIGITS, process % DIGITS].map(digits);
    let other = [(connection >> 16) as u16, connection as u16];
    let address = |[a, b, c, d]: [u16; 4]| SocketAddr::new(Ipv6Addr::new(0x100, 0, 0, 0, a, b, c, d).into(), PORT);
    [address([0, 0, high, low]), address([1, 0, other[0], other[1]])]
}

/// The process whose text above TLS a connection between these addresses carries.
pub fn process(ends: &[SocketAddr; 2]) -> Option<u32> {
    ends.iter().find_map(|end| {
        let IpAddr::V6(ip) = end.ip() else { return None };
        let [0x100, 0, 0, 0, 0, 0, high, low] = ip.segments() else { return None };
        Some(number(high)? * DIGITS + number(low)?)
    })
}

/// The number whose hexadecimal digits are the decimal digits of `value`.
fn digits(value: u32) -> u16 {
    (0..4).map(|at| (value / 10u32.pow(at) % 10) << (4 * at)).sum::<u32>() as u16
}

fn number(digits: u16) -> Option<u32> {
    (0..4).rev().try_fold(0, |number, at| {
        let digit = u32::from(digits >> (4 * at) & 0xf);
        (digit < 10).then_some(number * 10 + digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_in_the_address_in_decimal_digits() {
        assert_eq!(ends(4711, 2).map(|end| end.to_string()), ["[100::4711]:443", "[100::1:0:0:2]:443"]);
        for id in [1, 9, 10_000, 99_999, 4_194_304] {
            assert_eq!(process(&ends(id, 1)), Some(id));
        }
        assert_eq!(ends(4_194_304, 70_000).map(|end| end.ip().to_string()), ["100::419:4304", "100::1:0:1:1170"]);
        for other in ["[100::1:0:0:2]:443", "[100::a]:443", "[::1]:443", "127.0.0.1:443", "[2001:db8::4711]:443"] {
            let other: SocketAddr = other.parse().unwrap();
            assert_eq!(process(&[other, other]), None, "{other}");
        }
    }
}
