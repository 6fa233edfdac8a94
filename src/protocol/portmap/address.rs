//! Transport addresses as they lie in a netbuf (RFC 1833 s2.1): on Linux a `sockaddr_in` or `sockaddr_in6`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const AF_INET: u16 = libc::AF_INET as u16;
const AF_INET6: u16 = libc::AF_INET6 as u16;

/// 16 bytes for IPv4, 28 for IPv6.
pub(super) fn to_sockaddr(address: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(28);
    match address.ip() {
        IpAddr::V4(ip) => {
            bytes.extend(AF_INET.to_ne_bytes());
            bytes.extend(address.port().to_be_bytes());
            bytes.extend(ip.octets());
            bytes.extend([0; 8]);
        }
        IpAddr::V6(ip) => {
            bytes.extend(AF_INET6.to_ne_bytes());
            bytes.extend(address.port().to_be_bytes());
            bytes.extend([0; 4]);
            bytes.extend(ip.octets());
            bytes.extend([0; 4]);
        }
    }
    bytes
}

/// `None` for any other family and for what is too short.
pub(super) fn from_sockaddr(bytes: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let ip: IpAddr = match u16::from_ne_bytes(*family) {
        AF_INET => Ipv4Addr::from(*rest.first_chunk::<4>()?).into(),
        AF_INET6 => Ipv6Addr::from(*rest.get(4..)?.first_chunk::<16>()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(*port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_there_and_back() {
        for text in ["10.1.2.3:2049", "[fd00::1]:111"] {
            let address: SocketAddr = text.parse().unwrap();
            let bytes = to_sockaddr(address);
            assert_eq!(from_sockaddr(&bytes), Some(address));
            for len in 0..8 {
                assert_eq!(from_sockaddr(&bytes[..len]), None);
            }
        }
        assert_eq!(from_sockaddr(&[0; 28]), None);
    }
}
