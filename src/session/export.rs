//! Exports: who may use them, from where, and as whom.
//!
//! [`Export::decide`] is asked about every single call, never once per mount: a rule that changes holds for handles that were given
//! out before (N-05), and a handle alone never lets anybody in.
//!
//! Callers without an identity pass the same rules and become the anonymous user; no rule makes them root (CB-043).

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::OnceLock;

use headgate_proto::rpc::{AuthFlavor, Credential};

use super::ExportId;
use crate::config::{self, ClientMatch, ExportAccess, Rule, RunAs, Squash};
use crate::limits::ANONYMOUS_ID;
use crate::store::Caller;

/// The lowest port that any process may use: below it are those that need privilege.
const FIRST_FREE_PORT: u16 = 1024;

/// Who a caller says to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim<'a> {
    /// Nobody (AUTH_NONE, RFC 5531 s10.1).
    Nobody,
    /// A Unix user (AUTH_SYS, RFC 5531 appendix A).
    Unix {
        /// Effective user.
        uid: u32,
        /// Effective group.
        gid: u32,
        /// Supplementary groups, at most [`crate::limits::AUTH_SYS_GIDS`]; more are ignored.
        groups: &'a [u32],
    },
    /// Something that cannot be verified here, such as RPCSEC_GSS (CB-044) or a flavor that nobody knows.
    Unverified,
}

impl<'a> From<&'a Credential<'_>> for Claim<'a> {
    fn from(credential: &'a Credential<'_>) -> Claim<'a> {
        match credential {
            Credential::None => Claim::Nobody,
            Credential::Sys(sys) => Claim::Unix { uid: sys.uid, gid: sys.gid, groups: &sys.gids },
            Credential::Other(_) => Claim::Unverified,
        }
    }
}

/// How a call may go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// As whom.
    pub caller: Caller,
    /// Whether it must not change anything (`NFS3ERR_ROFS`).
    pub read_only: bool,
}

/// Why a call may not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// No rule is for the client's address (RFC 1813: `NFS3ERR_ACCES`, `MNT3ERR_ACCES`).
    Address,
    /// The rule wants a port below 1024, which only privileged processes of the client have.
    Port,
    /// The credential cannot be verified (RFC 5531 s9: an authentication error).
    Flavor,
}

/// An export on one core. Every core has its own copy.
#[derive(Debug)]
pub struct Export {
    /// The number in handles.
    pub id: ExportId,
    /// What clients mount.
    pub name: String,
    rules: Vec<Rule>,
    /// The user who runs the gateway, when operations run as nobody else.
    run_as: Option<Caller>,
    /// Whether everybody is held to reading, whatever the rules say.
    frozen: Cell<bool>,
}

impl Export {
    /// From the configuration, for a gateway that runs operations as its callers.
    pub fn new(config: &config::Export) -> Export {
        Export {
            id: ExportId(config.fsid.get()),
            name: config.name.clone(),
            rules: config.rules.clone(),
            run_as: None,
            frozen: Cell::new(false),
        }
    }

    /// The same, with every operation run as one user, whoever calls.
    pub fn run_as(mut self, caller: Caller) -> Export {
        self.run_as = Some(caller);
        self
    }

    /// Judges a call. The first rule for the client's address decides.
    ///
    /// # Errors
    /// [`Denied`]: the call must not touch anything of the export.
    pub fn decide<'a>(&self, peer: SocketAddr, claim: impl Into<Claim<'a>>) -> Result<Decision, Denied> {
        let rule = self.rule_for(peer).ok_or(Denied::Address)?;
        if rule.secure_ports && peer.port() >= FIRST_FREE_PORT {
            return Err(Denied::Port);
        }
        let caller = identity(rule, claim.into())?;
        Ok(Decision {
            caller: self.run_as.clone().unwrap_or(caller),
            read_only: self.frozen.get() || rule.access == ExportAccess::ReadOnly,
        })
    }

    /// Whether a client at this address may mount, and from this port.
    ///
    /// # Errors
    /// [`Denied::Address`] and [`Denied::Port`].
    pub fn admits(&self, peer: SocketAddr) -> Result<(), Denied> {
        self.decide(peer, Claim::Nobody).map(|_| ())
    }

    /// Holds everybody to reading (or ends that), from the next call on, whatever handles clients have.
    pub fn set_read_only(&self, read_only: bool) {
        self.frozen.set(read_only);
    }

    /// The flavors that MNT advertises (RFC 1813 s5.2.1), best first. AUTH_NONE works too, as anonymous, but a client that is told
    /// so might prefer it.
    pub fn flavors(&self) -> &'static [AuthFlavor] {
        &[AuthFlavor::SYS]
    }

    /// The addresses of the rules, in their order.
    pub fn clients(&self) -> impl Iterator<Item = &ClientMatch> {
        self.rules.iter().map(|rule| &rule.clients)
    }

    /// What of `path` lies below this export: empty for the export itself, `None` if it is not below.
    fn rest_of<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let rest = match self.name.as_str() {
            "/" => path,
            name => path.strip_prefix(name.as_bytes())?,
        };
        match rest.first() {
            None | Some(b'/') => Some(rest),
            Some(_) => None,
        }
    }

    fn rule_for(&self, peer: SocketAddr) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.clients.contains(peer.ip()))
    }
}

/// The identity after squashing (RFC 1813 s4.4).
fn identity(rule: &Rule, claim: Claim<'_>) -> Result<Caller, Denied> {
    let (anonymous_uid, anonymous_gid) = (rule.anonymous.uid, rule.anonymous.gid);
    let anonymous = Caller { uid: anonymous_uid, gid: anonymous_gid, groups: Default::default() };
    let (uid, gid, groups) = match claim {
        Claim::Unverified => return Err(Denied::Flavor),
        // An administrator may squash known users to root, but a caller without any identity is never root.
        Claim::Nobody => {
            return Ok(Caller {
                uid: if anonymous_uid == 0 { ANONYMOUS_ID } else { anonymous_uid },
                gid: if anonymous_gid == 0 { ANONYMOUS_ID } else { anonymous_gid },
                groups: Default::default(),
            });
        }
        Claim::Unix { uid, gid, groups } => (uid, gid, groups),
    };
    let squash_gid = |gid: u32| if gid == 0 { anonymous_gid } else { gid };
    let groups = groups.iter().copied().take(crate::limits::AUTH_SYS_GIDS);
    Ok(match rule.squash {
        Squash::All => anonymous,
        Squash::None => Caller { uid, gid, groups: groups.collect() },
        // Each id for itself, as knfsd does (`nfsd_setuser`): root may have come with other groups, which anybody may claim.
        Squash::Root => Caller {
            uid: if uid == 0 { anonymous_uid } else { uid },
            gid: squash_gid(gid),
            groups: groups.map(squash_gid).collect(),
        },
    })
}

/// All exports, on one core.
#[derive(Debug)]
pub struct Exports {
    exports: Vec<Rc<Export>>,
}

impl Exports {
    /// From the configuration.
    pub fn new(config: &config::Config) -> Exports {
        let process = (config.identity.run_as == RunAs::Process).then(process_identity);
        let exports = config.exports.iter().map(|export| match &process {
            Some(caller) => Rc::new(Export::new(export).run_as(caller.clone())),
            None => Rc::new(Export::new(export)),
        });
        Exports { exports: exports.collect() }
    }

    /// All of them, in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = &Rc<Export>> {
        self.exports.iter()
    }

    /// The export of a handle.
    pub fn by_id(&self, id: ExportId) -> Option<&Rc<Export>> {
        self.exports.iter().find(|export| export.id == id)
    }
}

/// The export, by its position, that a MOUNT path leads to, and what of the path lies below it. With several that match, the longest
/// name wins.
pub fn find_by_path<'e, 'p>(
    exports: impl IntoIterator<Item = &'e Export>,
    path: &'p [u8],
) -> Option<(usize, &'p [u8])> {
    let absolute = path.first() == Some(&b'/');
    exports
        .into_iter()
        .enumerate()
        .filter(|_| absolute)
        .filter_map(|(index, export)| Some((index, export.rest_of(path)?)))
        .min_by_key(|(_, rest)| rest.len())
}

/// The user and groups that run this process.
fn process_identity() -> Caller {
    let groups = rustix::process::getgroups().unwrap_or_default();
    Caller {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: groups.iter().map(|gid| gid.as_raw()).take(crate::limits::AUTH_SYS_GIDS).collect(),
    }
}

/// The write verifier of this instance of the process (RFC 1813 s3.3.7): the same for all cores, and never that of an earlier
/// instance, so that clients learn of every restart.
///
/// Seconds of the clock tell instances apart even if the random source were poor; random bits do if the clock stands still or goes back.
pub fn write_verifier() -> [u8; 8] {
    static VERIFIER: OnceLock<[u8; 8]> = OnceLock::new();
    *VERIFIER.get_or_init(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let mut random = [0; 4];
        if super::random_bytes(&mut random).is_err() {
            random = (now.subsec_nanos() ^ std::process::id()).to_be_bytes();
        }
        let mut verifier = [0; 8];
        verifier[..4].copy_from_slice(&(now.as_secs() as u32).to_be_bytes());
        verifier[4..].copy_from_slice(&random);
        verifier
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Anonymous, Backend, FsId, Network};
    use proptest::prelude::*;

    fn export(rules: Vec<Rule>) -> Export {
        Export::new(&config::Export {
            name: "/data".into(),
            fsid: FsId::new(7).unwrap(),
            backend: Backend::Null,
            fault: None,
            rules,
        })
    }

    fn any(squash: Squash) -> Rule {
        Rule {
            clients: ClientMatch::Any,
            access: ExportAccess::ReadWrite,
            squash,
            anonymous: Anonymous { uid: 1001, gid: 1002 },
            secure_ports: false,
        }
    }

    fn network(text: &str) -> ClientMatch {
        let (address, prefix) = text.split_once('/').unwrap();
        ClientMatch::Network(Network::new(address.parse().unwrap(), prefix.parse().unwrap()).unwrap())
    }

    fn peer(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn caller(uid: u32, gid: u32, groups: &[u32]) -> Caller {
        Caller { uid, gid, groups: groups.iter().copied().collect() }
    }

    fn unix(uid: u32, gid: u32, groups: &[u32]) -> Claim<'_> {
        Claim::Unix { uid, gid, groups }
    }

    const ANYWHERE: &str = "10.0.0.1:700";

    /// CB-043: squash holds for the user and for every group.
    #[test]
    fn root_squash_leaves_nothing_of_root() {
        let export = export(vec![any(Squash::Root)]);
        let as_whom = |claim| export.decide(peer(ANYWHERE), claim).unwrap().caller;
        assert_eq!(as_whom(unix(0, 0, &[0, 5])), caller(1001, 1002, &[1002, 5]));
        assert_eq!(as_whom(unix(0, 100, &[])), caller(1001, 100, &[]));
        assert_eq!(as_whom(unix(500, 0, &[])), caller(500, 1002, &[]));
        assert_eq!(as_whom(unix(500, 100, &[7, 0, 8])), caller(500, 100, &[7, 1002, 8]));
        assert_eq!(as_whom(unix(500, 100, &[7, 8])), caller(500, 100, &[7, 8]));
    }

    /// CB-043: all_squash, and no squash at all.
    #[test]
    fn all_squash_and_no_squash() {
        let all = export(vec![any(Squash::All)]);
        assert_eq!(all.decide(peer(ANYWHERE), unix(500, 100, &[7])).unwrap().caller, caller(1001, 1002, &[]));
        let none = export(vec![any(Squash::None)]);
        assert_eq!(none.decide(peer(ANYWHERE), unix(0, 0, &[0, 7])).unwrap().caller, caller(0, 0, &[0, 7]));
    }

    /// CB-043: AUTH_NONE passes the same rules as everybody, as the anonymous user, and is never root.
    #[test]
    fn no_identity_is_anonymous_and_never_root() {
        for squash in [Squash::Root, Squash::All, Squash::None] {
            let mut rule = any(squash);
            rule.access = ExportAccess::ReadOnly;
            rule.clients = network("10.0.0.0/8");
            let made = export(vec![rule.clone()]);
            let decision = made.decide(peer(ANYWHERE), Claim::Nobody).unwrap();
            assert_eq!(decision.caller, caller(1001, 1002, &[]));
            assert!(decision.read_only);
            assert_eq!(made.decide(peer("11.0.0.1:700"), Claim::Nobody), Err(Denied::Address));

            rule.anonymous = Anonymous { uid: 0, gid: 0 };
            let rooted = export(vec![rule]);
            let decision = rooted.decide(peer(ANYWHERE), Claim::Nobody).unwrap();
            assert_eq!(decision.caller, caller(ANONYMOUS_ID, ANONYMOUS_ID, &[]));
        }
    }

    /// CB-043 (flavor 99, 300000) and CB-044: what cannot be verified is refused before anything is touched, also RPCSEC_GSS.
    #[test]
    fn unverified_flavors_are_refused() {
        use headgate_proto::rpc::OpaqueAuth;
        let export = export(vec![any(Squash::None)]);
        for flavor in
            [AuthFlavor::SHORT, AuthFlavor::RPCSEC_GSS, AuthFlavor::TLS, AuthFlavor(99), AuthFlavor(300_000)]
        {
            let credential = Credential::Other(OpaqueAuth { flavor, body: &[0; 24] });
            assert_eq!(export.decide(peer(ANYWHERE), &credential), Err(Denied::Flavor));
        }
        assert!(export.decide(peer(ANYWHERE), &Credential::None).is_ok());
    }

    #[test]
    fn the_first_rule_for_the_address_decides() {
        let mut own = any(Squash::None);
        own.clients = network("10.0.0.7/32");
        let mut net = any(Squash::Root);
        net.clients = network("10.0.0.0/8");
        net.access = ExportAccess::ReadOnly;
        let mut six = any(Squash::All);
        six.clients = network("fd00::/8");
        let export = export(vec![own, net, six]);
        let decide = |from| export.decide(peer(from), unix(0, 0, &[]));
        assert_eq!(decide("10.0.0.7:700"), Ok(Decision { caller: caller(0, 0, &[]), read_only: false }));
        assert_eq!(decide("10.0.0.8:700"), Ok(Decision { caller: caller(1001, 1002, &[]), read_only: true }));
        assert_eq!(decide("[::ffff:10.0.0.7]:700").map(|d| d.read_only), Ok(false));
        assert_eq!(decide("[fd00::1]:700").map(|d| d.caller.uid), Ok(1001));
        assert_eq!(decide("192.168.0.1:700"), Err(Denied::Address));
        assert_eq!(decide("[fe80::1]:700"), Err(Denied::Address));
    }

    #[test]
    fn secure_ports_are_those_below_1024() {
        let mut rule = any(Squash::None);
        rule.secure_ports = true;
        let export = export(vec![rule]);
        assert!(export.decide(peer("10.0.0.1:1023"), Claim::Nobody).is_ok());
        assert_eq!(export.decide(peer("10.0.0.1:1024"), Claim::Nobody), Err(Denied::Port));
        assert_eq!(export.admits(peer("10.0.0.1:65535")), Err(Denied::Port));
    }

    /// N-05: an export that becomes read-only is so from the next call on.
    #[test]
    fn the_write_policy_changes_live() {
        let export = export(vec![any(Squash::None)]);
        let read_only = || export.decide(peer(ANYWHERE), Claim::Nobody).unwrap().read_only;
        assert!(!read_only());
        export.set_read_only(true);
        assert!(read_only());
        export.set_read_only(false);
        assert!(!read_only());
    }

    #[test]
    fn an_unprivileged_gateway_acts_as_itself_whoever_calls() {
        let export = export(vec![any(Squash::Root)]).run_as(caller(42, 43, &[44]));
        assert_eq!(export.decide(peer(ANYWHERE), unix(0, 0, &[])).unwrap().caller, caller(42, 43, &[44]));
        assert_eq!(export.decide(peer(ANYWHERE), Claim::Unverified), Err(Denied::Flavor));
    }

    #[test]
    fn a_path_finds_the_longest_export_above_it() {
        let named = |name: &str| Export { name: name.into(), ..export(vec![any(Squash::None)]) };
        let exports = [named("/data"), named("/data/deep"), named("/other")];
        let find = |path: &'static str| {
            let found = find_by_path(&exports, path.as_bytes());
            found.map(|(index, rest)| (index, std::str::from_utf8(rest).unwrap()))
        };
        assert_eq!(find("/data"), Some((0, "")));
        assert_eq!(find("/data/"), Some((0, "/")));
        assert_eq!(find("/data/a/b"), Some((0, "/a/b")));
        assert_eq!(find("/data/deep/x"), Some((1, "/x")));
        assert_eq!(find("/data/deeper"), Some((0, "/deeper")));
        assert_eq!(find("/database"), None);
        assert_eq!(find("data"), None);
        assert_eq!(find(""), None);
        let root = [named("/"), named("/other")];
        assert_eq!(find_by_path(&root, b"/"), Some((0, &b"/"[..])));
        assert_eq!(find_by_path(&root, b"/x"), Some((0, &b"/x"[..])));
        assert_eq!(find_by_path(&root, b"/other/y"), Some((1, &b"/y"[..])));
    }

    #[test]
    fn the_write_verifier_is_one_per_instance() {
        assert_eq!(write_verifier(), write_verifier());
        assert_ne!(write_verifier(), [0; 8]);
    }

    proptest! {
        /// CB-043: whatever is claimed, under root_squash nobody ends up with user or group 0.
        #[test]
        fn nobody_is_root_under_root_squash(uid in 0u32..3, gid in 0u32..3, groups in prop::collection::vec(0u32..3, 0..16)) {
            let export = export(vec![any(Squash::Root)]);
            let caller = export.decide(peer(ANYWHERE), unix(uid, gid, &groups)).unwrap().caller;
            prop_assert!(caller.uid != 0 && caller.gid != 0 && !caller.groups.contains(&0));
        }
    }
}
