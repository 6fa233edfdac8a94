//! Exports and the rules of who may use them.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use crate::limits;

/// One export: a name that clients mount, what is behind it, and who may use it.
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    /// What clients mount: absolute, without `.`, `..`, doubled or trailing `/`; no other export's name lies above or below it.
    pub name: String,
    /// The stable number of this export: part of every file handle and of the file system id that clients see.
    pub fsid: FsId,
    /// What is behind it.
    pub backend: Backend,
    /// Seeded failures between protocol and back end, for tests.
    pub fault: Option<Fault>,
    /// Who may use it: the first rule that matches a client's address decides. At least one; none is hidden by an earlier one.
    pub rules: Vec<Rule>,
}

impl Export {
    /// The rule for a client; without one it is refused.
    pub fn rule_for(&self, client: IpAddr) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.clients.contains(client))
    }

    /// The directory behind it, if there is one.
    pub fn directory(&self) -> Option<&Path> {
        match &self.backend {
            Backend::Posix { directory } => Some(directory),
            Backend::Null => None,
        }
    }

    /// Whether a mount of `name` would lead into this export: it is this export's name or lies below it.
    pub(super) fn leads_from(&self, name: &str) -> bool {
        let below = |rest: &str| rest.is_empty() || rest.starts_with('/');
        self.name == "/" || name.strip_prefix(self.name.as_str()).is_some_and(below)
    }
}

/// The stable number of an export, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FsId(NonZeroU32);

impl FsId {
    /// The number; 0 is none.
    pub fn new(number: u32) -> Option<FsId> {
        NonZeroU32::new(number).map(FsId)
    }

    /// The number that an export gets when its configuration names none: it depends on its name only (FNV-1a), so that it
    /// stays when others come and go.
    pub fn of_name(name: &str) -> FsId {
        let hash = name
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        FsId(NonZeroU32::new(hash).unwrap_or(NonZeroU32::MAX))
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for FsId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What is behind an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A directory of this machine.
    Posix {
        /// Absolute, free of symbolic links when it was read, a directory, neither above nor below another export's.
        directory: PathBuf,
    },
    /// Nothing: answers at once, to measure the protocol stack.
    Null,
}

/// Seeded failures: what the fault store in front of the back end does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where the pseudo-random decisions start: the same seed fails the same way.
    pub seed: u64,
    /// How many operations fail.
    pub errors: Rate,
    /// How many operations are delayed by [`Fault::delay`].
    pub delays: Rate,
    /// How long a delayed operation waits.
    pub delay: Duration,
    /// How many reads and writes move fewer bytes than asked.
    pub short_io: Rate,
}

/// A probability in parts per million, 0 to 1,000,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u32);

impl Rate {
    /// From parts per million; `None` above 1,000,000.
    pub fn from_ppm(ppm: u32) -> Option<Rate> {
        (ppm <= 1_000_000).then_some(Rate(ppm))
    }

    /// Parts per million.
    pub fn ppm(self) -> u32 {
        self.0
    }
}

impl FromStr for Rate {
    type Err = ();

    /// Reads `1%` or `0.01`.
    fn from_str(text: &str) -> Result<Rate, ()> {
        let (digits, scale) = match text.strip_suffix('%') {
            Some(percent) => (percent.trim_end(), 1e4),
            None => (text, 1e6),
        };
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let ppm = digits.parse::<f64>().ok().filter(|_| plain).ok_or(())? * scale;
        // Parts of a millionth are lost; the range check keeps the cast exact.
        if (0.0..=1e6).contains(&ppm) { Ok(Rate(ppm.round() as u32)) } else { Err(()) }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / 1e4)
    }
}

/// What clients of some addresses may do, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whom it is for.
    pub clients: ClientMatch,
    /// Whether they may change anything.
    pub access: ExportAccess,
    /// Which callers become [`Rule::anonymous`].
    pub squash: Squash,
    /// Whom squashed callers, and callers without a credential, become.
    pub anonymous: Anonymous,
    /// Whether calls must come from a port below 1024.
    pub secure_ports: bool,
}

/// The addresses that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientMatch {
    /// Every address.
    Any,
    /// One network; a single address is one with the full prefix.
    Network(Network),
}

impl ClientMatch {
    /// Whether it matches a client. An IPv4 address mapped into IPv6 counts as the IPv4 address.
    pub fn contains(&self, client: IpAddr) -> bool {
        match self {
            ClientMatch::Any => true,
            ClientMatch::Network(network) => network.contains(client),
        }
    }

    /// Whether every address that `other` matches is matched by this one too.
    pub fn covers(&self, other: &ClientMatch) -> bool {
        match (self, other) {
            (ClientMatch::Any, _) => true,
            (ClientMatch::Network(_), ClientMatch::Any) => false,
            (ClientMatch::Network(a), ClientMatch::Network(b)) => {
                a.prefix <= b.prefix && a.contains(b.address)
            }
        }
    }
}

impl fmt::Display for ClientMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientMatch::Any => f.write_str("*"),
            ClientMatch::Network(network) => network.fmt(f),
        }
    }
}

/// An address with a prefix length: `10.0.0.0/8`, `fd00::/8`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The first address: all bits behind the prefix are 0.
    address: IpAddr,
    /// 0 to 32 or 128.
    prefix: u8,
}

impl Network {
    /// From an address and a prefix; `None` when the prefix is too long or bits behind it are set.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Network> {
        let network = Network { address, prefix };
        (prefix <= bits_of(address).1
            && network.contains(address)
            && masked(address, prefix) == bits_of(address).0)
            .then_some(network)
    }

    /// Whether the address lies in it.
    pub fn contains(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        client.is_ipv4() == self.address.is_ipv4()
            && masked(client, self.prefix) == masked(self.address, self.prefix)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix == bits_of(self.address).1 {
            self.address.fmt(f)
        } else {
            write!(f, "{}/{}", self.address, self.prefix)
        }
    }
}

/// The address as a number, and how many bits it has.
fn bits_of(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)), 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    }
}

/// The first `prefix` bits of the address, the others 0.
fn masked(address: IpAddr, prefix: u8) -> u128 {
    let (bits, width) = bits_of(address);
    let behind = u32::from(width.saturating_sub(prefix));
    bits.checked_shr(behind).unwrap_or(0).checked_shl(behind).unwrap_or(0)
}

/// Whether clients may change anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportAccess {
    /// They may read.
    ReadOnly,
    /// They may read and write.
    ReadWrite,
}

/// Which callers become the anonymous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Squash {
    /// Root (uid 0, and gid 0 wherever it occurs).
    Root,
    /// Everybody.
    All,
    /// Nobody but callers without a credential.
    None,
}

/// Whom squashed callers become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anonymous {
    /// User.
    pub uid: u32,
    /// Group; there are no supplementary ones.
    pub gid: u32,
}

impl Default for Anonymous {
    fn default() -> Anonymous {
        Anonymous { uid: limits::ANONYMOUS_ID, gid: limits::ANONYMOUS_ID }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        let (address, prefix) = text.split_once('/').unwrap();
        Network::new(address.parse().unwrap(), prefix.parse().unwrap()).unwrap()
    }

    #[test]
    fn networks_contain_their_addresses_in_both_families() {
        let contains = |net: &str, ip: &str| network(net).contains(ip.parse().unwrap());
        assert!(contains("10.0.0.0/8", "10.255.0.1"));
        assert!(!contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(!contains("0.0.0.0/0", "fd00::1"));
        assert!(contains("0.0.0.0/0", "255.255.255.255"));
        assert!(contains("::/0", "fd00::1"));
        assert!(contains("fd00::/9", "fd7f::1"));
        assert!(!contains("fd00::/9", "fd80::1"));
        assert!(contains("fd00::7/128", "fd00::7"));
        assert_eq!(Network::new("10.0.0.1".parse().unwrap(), 8), None);
        assert_eq!(Network::new("10.0.0.0".parse().unwrap(), 33), None);
    }

    #[test]
    fn covering_is_containing_all() {
        let any = ClientMatch::Any;
        let net = |text| ClientMatch::Network(network(text));
        assert!(any.covers(&net("10.0.0.0/8")) && any.covers(&any));
        assert!(net("10.0.0.0/8").covers(&net("10.1.0.0/16")));
        assert!(!net("10.1.0.0/16").covers(&net("10.0.0.0/8")));
        assert!(!net("0.0.0.0/0").covers(&any));
    }

    #[test]
    fn rates_are_fractions_or_percent() {
        assert_eq!("1%".parse(), Ok(Rate(10_000)));
        assert_eq!("0.01".parse(), Ok(Rate(10_000)));
        assert_eq!("1".parse(), Ok(Rate(1_000_000)));
        for wrong in ["", "%", "1.1", "101%", "-0.1", "nan", "1e-3", "inf"] {
            assert_eq!(wrong.parse::<Rate>(), Err(()), "{wrong}");
        }
        assert_eq!(Rate(2_500).to_string(), "0.25%");
    }

    #[test]
    fn an_exports_id_depends_on_its_name_only() {
        assert_eq!(FsId::of_name("/data"), FsId::of_name("/data"));
        assert_ne!(FsId::of_name("/data"), FsId::of_name("/date"));
        // Part of file handles: a change would make every client's handles stale.
        assert_eq!(FsId::of_name("/data").get(), 0x49f6_53fe);
    }
}
