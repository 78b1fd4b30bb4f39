//! Addresses of connections that were recorded above TLS, inside a process that already ran.
//!
//! Only the text is known, not the sockets. So both ends get addresses that no packet of a network
//! has: those of the discard-only prefix 100::/64 (RFC 6666). They tell wherever the recording is
//! stored, exported and read again that these layers are made up (decision 38).
//!
//! ```text
//!   100::PPPP:PPPP         the process, by its id
//!   100::1:0:NNNN:NNNN     the other end of connection N
//! ```

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The port of both ends, that of HTTPS.
const PORT: u16 = 443;

/// The ends of a connection of a process: the process, and the other end.
pub fn ends(process: u32, connection: u32) -> [SocketAddr; 2] {
    [(0, process), (1, connection)].map(|(kind, number)| {
        let (high, low) = ((number >> 16) as u16, number as u16);
        SocketAddr::new(Ipv6Addr::new(0x100, 0, 0, 0, kind, 0, high, low).into(), PORT)
    })
}

/// The process whose text above TLS a connection between these addresses carries.
pub fn process(ends: &[SocketAddr; 2]) -> Option<u32> {
    ends.iter().find_map(|end| {
        let IpAddr::V6(ip) = end.ip() else { return None };
        let [0x100, 0, 0, 0, 0, 0, high, low] = ip.segments() else { return None };
        Some(u32::from(high) << 16 | u32::from(low))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_found_in_the_addresses() {
        assert_eq!(ends(4711, 2).map(|end| end.to_string()), ["[100::1267]:443", "[100::1:0:0:2]:443"]);
        for id in [1, 70_000, 4_194_304] {
            let [process_end, other] = ends(id, 1);
            assert_eq!([process(&[process_end, other]), process(&[other, process_end])], [Some(id); 2]);
        }
        for other in ["[100::1:0:0:2]:443", "[::1]:443", "127.0.0.1:443", "[2001:db8::1267]:443"] {
            let other: SocketAddr = other.parse().unwrap();
            assert_eq!(process(&[other, other]), None, "{other}");
        }
    }
}
