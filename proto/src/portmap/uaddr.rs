//! Universal addresses (RFC 5665 s5.2.3.3, s5.2.3.4; RFC 1833 s2.1).

use core::fmt::{self, Write};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An address and port in the form that rpcbind uses: `h1.h2.h3.h4.p1.p2`, or for IPv6 the address's own text form
/// followed by `.p1.p2`; p1 and p2 are the high and low byte of the port.
///
/// ```
/// use headgate_proto::portmap::UniversalAddr;
/// let addr = "10.1.3.7:2049".parse().unwrap();
/// assert_eq!(UniversalAddr::from(addr).as_bytes(), b"10.1.3.7.8.1");
/// assert_eq!(UniversalAddr::parse(b"10.1.3.7.8.1"), Some(addr));
/// assert_eq!(UniversalAddr::parse(b"::1.0.111"), "[::1]:111".parse().ok());
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UniversalAddr {
    len: u8,
    text: [u8; UniversalAddr::MAX_LEN],
}

impl UniversalAddr {
    /// The longest text: an IPv6 address of 45 bytes and `.255.255`.
    pub const MAX_LEN: usize = 53;

    /// The text form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..self.len as usize]
    }

    /// The network id of a transport at this address: `tcp`, `udp`, `tcp6` or `udp6` (RFC 5665 s5.1).
    pub fn netid(addr: IpAddr, tcp: bool) -> &'static str {
        match (addr, tcp) {
            (IpAddr::V4(_), true) => "tcp",
            (IpAddr::V4(_), false) => "udp",
            (IpAddr::V6(_), true) => "tcp6",
            (IpAddr::V6(_), false) => "udp6",
        }
    }

    /// Reads the text form; None if it is neither an IPv4 nor an IPv6 address with a port.
    pub fn parse(text: &[u8]) -> Option<SocketAddr> {
        if text.len() > Self::MAX_LEN {
            return None;
        }
        let text = core::str::from_utf8(text).ok()?;
        let (rest, low) = text.rsplit_once('.')?;
        let (host, high) = rest.rsplit_once('.')?;
        let port = u16::from_be_bytes([octet(high)?, octet(low)?]);
        let ip = match host.parse::<Ipv4Addr>() {
            Ok(v4) => IpAddr::V4(v4),
            Err(_) => IpAddr::V6(host.parse::<Ipv6Addr>().ok()?),
        };
        Some(SocketAddr::new(ip, port))
    }
}

/// A byte in decimal digits, without a sign.
fn octet(text: &str) -> Option<u8> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

impl From<SocketAddr> for UniversalAddr {
    fn from(addr: SocketAddr) -> Self {
        let mut out = UniversalAddr { len: 0, text: [0; Self::MAX_LEN] };
        let [high, low] = addr.port().to_be_bytes();
        let written = write!(out, "{}.{high}.{low}", addr.ip());
        debug_assert!(written.is_ok(), "MAX_LEN holds every address");
        out
    }
}

impl Write for UniversalAddr {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let start = self.len as usize;
        let place = self.text.get_mut(start..start + s.len()).ok_or(fmt::Error)?;
        place.copy_from_slice(s.as_bytes());
        self.len += s.len() as u8;
        Ok(())
    }
}

impl fmt::Display for UniversalAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(core::str::from_utf8(self.as_bytes()).unwrap_or_default())
    }
}

impl fmt::Debug for UniversalAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
