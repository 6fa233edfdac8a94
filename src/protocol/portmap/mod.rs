//! The embedded port mapper: versions 2 (RFC 1833 s3), 3 and 4 (RFC 1833 s2) on port 111, for machines without an rpcbind.
//!
//! It answers for the gateway's own programs and nothing else: what it knows is fixed at the start, so that SET and UNSET change
//! nothing. It never calls on behalf of others (CALLIT, BCAST, INDIRECT), and what it sends in datagrams to other machines is never
//! much longer than what it was asked: port mappers are otherwise a favourite of those who flood.

mod address;
pub mod register;

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::rc::Rc;

use headgate_proto::portmap::{
    self, IPPROTO_TCP, IPPROTO_UDP, Mapping, Netbuf, Procedure, RmtCallArgs, Rpcb, RpcbEntry, RpcbProcedure,
    STAT_PROCEDURES, UniversalAddr, encode_stat,
};
use headgate_proto::rpc::AuthStat;
use headgate_proto::xdr::{Encode, Full, Writer, encode_list};

use super::{Outcome, Program, ProgramSet, Request, TransportKind};
use crate::limits;

/// A program that can be reached somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Program number.
    pub program: u32,
    /// Version.
    pub version: u32,
    /// TCP or UDP.
    pub tcp: bool,
    /// Where it listens; the unspecified address stands for all of its family.
    pub address: SocketAddr,
}

impl Registration {
    /// The registrations of a listener that serves `programs`.
    pub fn of_listener(programs: ProgramSet, tcp: bool, address: SocketAddr) -> Vec<Registration> {
        use headgate_proto::{mount, nfs3, nlm, nsm};
        let all = [
            (ProgramSet::PORTMAP, portmap::PROGRAM, portmap::VERSION_2..=portmap::VERSION_4),
            (ProgramSet::NFS, nfs3::PROGRAM, nfs3::VERSION..=nfs3::VERSION),
            (ProgramSet::MOUNT, mount::PROGRAM, mount::VERSION..=mount::VERSION),
            (ProgramSet::NLM, nlm::PROGRAM, nlm::VERSION..=nlm::VERSION),
            (ProgramSet::NSM, nsm::PROGRAM, nsm::VERSION..=nsm::VERSION),
        ];
        let served = all.into_iter().filter(|(set, ..)| programs.contains(*set));
        served
            .flat_map(|(_, program, versions)| {
                versions.map(move |version| Registration { program, version, tcp, address })
            })
            .collect()
    }

    fn netid(&self) -> &'static str {
        UniversalAddr::netid(self.address.ip(), self.tcp)
    }
}

/// The port mapper on one core.
pub struct Portmap {
    registrations: Rc<[Registration]>,
    /// Calls by version (2, 3, 4) and procedure, on this core.
    calls: [[Cell<i32>; STAT_PROCEDURES]; 3],
}

impl Portmap {
    /// One that tells of these, of which at most [`limits::PORTMAP_ENTRIES`] are kept.
    pub fn new(registrations: impl IntoIterator<Item = Registration>) -> Self {
        let registrations = registrations.into_iter().take(limits::PORTMAP_ENTRIES).collect();
        Portmap { registrations, calls: Default::default() }
    }

    /// The best registration for a caller: on the address that it reached, or at least in its family; of the version asked for or,
    /// unless `exact`, of any other, whose PROG_MISMATCH will tell it more than no answer could.
    fn find(&self, wanted: &Wanted<'_>, exact: bool) -> Option<&Registration> {
        let reached = wanted.reached;
        let matching = |r: &&Registration| {
            r.program == wanted.program
                && r.netid() == wanted.netid
                && (!exact || r.version == wanted.version)
                && (r.address.ip() == reached || r.address.ip().is_unspecified() || reached.is_unspecified())
        };
        self.registrations
            .iter()
            .filter(matching)
            .max_by_key(|r| (r.version == wanted.version, r.address.ip() == reached, r.version))
    }

    async fn version_2(&self, request: &mut Request<'_>) -> Outcome {
        let Some(procedure) = Procedure::from_u32(request.procedure) else { return Outcome::ProcUnavail };
        match procedure {
            Procedure::Null => answer(request, |()| ()).await,
            Procedure::Set | Procedure::Unset => change::<Mapping>(request).await,
            Procedure::Getport => {
                let reached = request.conn.local.ip().to_canonical();
                let find = |mapping: Mapping| {
                    let netid = match mapping.prot {
                        IPPROTO_TCP => "tcp",
                        IPPROTO_UDP => "udp",
                        _ => "",
                    };
                    let wanted = Wanted { program: mapping.prog, version: mapping.vers, netid, reached };
                    self.find(&wanted, false).map_or(0, |r| u32::from(r.address.port()))
                };
                answer(request, find).await
            }
            Procedure::Dump => {
                // Version 2 has no way to say IPv6.
                let all = self.registrations.iter().filter(|r| r.address.is_ipv4()).map(|r| Mapping {
                    prog: r.program,
                    vers: r.version,
                    prot: if r.tcp { IPPROTO_TCP } else { IPPROTO_UDP },
                    port: u32::from(r.address.port()),
                });
                list(request, all).await
            }
            Procedure::Callit => Outcome::Drop,
        }
    }

    async fn version_3_and_4(&self, request: &mut Request<'_>) -> Outcome {
        let procedure = match RpcbProcedure::from_u32(request.procedure) {
            Some(procedure)
                if request.version == portmap::VERSION_4 || request.procedure <= RpcbProcedure::HIGHEST_3 =>
            {
                procedure
            }
            _ => return Outcome::ProcUnavail,
        };
        match procedure {
            RpcbProcedure::Null => answer(request, |()| ()).await,
            RpcbProcedure::Set | RpcbProcedure::Unset => change::<Rpcb<'_>>(request).await,
            RpcbProcedure::Getaddr => self.address_of(request, false).await,
            RpcbProcedure::Getversaddr => self.address_of(request, true).await,
            RpcbProcedure::Dump => {
                let all = self.registrations.iter().map(Entry);
                list(request, all).await
            }
            RpcbProcedure::Callit | RpcbProcedure::Indirect => match request.decode::<RmtCallArgs<'_>>() {
                // Never answered, well formed or not: see above.
                Ok(_) | Err(_) => Outcome::Drop,
            },
            RpcbProcedure::Gettime => answer(request, |()| seconds_since_1970()).await,
            RpcbProcedure::Uaddr2taddr => {
                let Ok(text) = request.decode::<&[u8]>() else { return Outcome::GarbageArgs };
                let bytes = UniversalAddr::parse(text).map(address::to_sockaddr).unwrap_or_default();
                request.reply(&Netbuf { maxlen: bytes.len() as u32, buf: &bytes }).await
            }
            RpcbProcedure::Taddr2uaddr => {
                let Ok(netbuf) = request.decode::<Netbuf<'_>>() else { return Outcome::GarbageArgs };
                let address = address::from_sockaddr(netbuf.buf).map(UniversalAddr::from);
                request.reply(&address.as_ref().map_or(&b""[..], |address| address.as_bytes())).await
            }
            RpcbProcedure::Getaddrlist => self.addresses_of(request).await,
            RpcbProcedure::Getstat => self.statistics(request).await,
        }
    }

    /// GETADDR and GETVERSADDR (RFC 1833 s2.2.1): the network id is the one asked for, or that of the call itself.
    async fn address_of(&self, request: &mut Request<'_>, exact: bool) -> Outcome {
        let Ok(asked) = request.decode::<Rpcb<'_>>() else { return Outcome::GarbageArgs };
        let reached = reached(request, &asked);
        let own = UniversalAddr::netid(reached, request.conn.transport == TransportKind::Tcp);
        let netid = std::str::from_utf8(asked.netid).ok().filter(|id| !id.is_empty()).unwrap_or(own);
        let wanted = Wanted { program: asked.prog, version: asked.vers, netid, reached };
        let found = self.find(&wanted, exact).map(|r| UniversalAddr::from(as_reached(r, reached)));
        request.reply(&found.as_ref().map_or(&b""[..], |address| address.as_bytes())).await
    }

    /// GETADDRLIST (RFC 1833 s2.2.2): what the caller can reach by its own family.
    async fn addresses_of(&self, request: &mut Request<'_>) -> Outcome {
        let Ok(asked) = request.decode::<Rpcb<'_>>() else { return Outcome::GarbageArgs };
        let reached = reached(request, &asked);
        let family = if reached.is_ipv4() { "inet" } else { "inet6" };
        let mut entries = Vec::new();
        for tcp in [true, false] {
            let netid = UniversalAddr::netid(reached, tcp);
            let wanted = Wanted { program: asked.prog, version: asked.vers, netid, reached };
            if let Some(found) = self.find(&wanted, true) {
                entries.push((UniversalAddr::from(as_reached(found, reached)), netid, tcp));
            }
        }
        let entries = entries.iter().map(|(address, netid, tcp)| RpcbEntry {
            maddr: address.as_bytes(),
            netid: netid.as_bytes(),
            semantics: if *tcp { RpcbEntry::COTS_ORD } else { RpcbEntry::CLTS },
            protofmly: family.as_bytes(),
            proto: if *tcp { b"tcp" } else { b"udp" },
        });
        write_list(request, entries).await
    }

    /// GETSTAT (RFC 1833 s2.2.2), of this core. Not for datagrams of other machines: it is long.
    async fn statistics(&self, request: &mut Request<'_>) -> Outcome {
        if is_forgeable(request) {
            return Outcome::ProcUnavail;
        }
        if request.decode::<()>().is_err() {
            return Outcome::GarbageArgs;
        }
        let Some(mut head) = request.reply_head(limits::REPLY_HEAD_BYTES).await else {
            return Outcome::SystemErr;
        };
        let written = head.write(|w| {
            self.calls.iter().try_for_each(|calls| {
                let mut info = [0; STAT_PROCEDURES];
                info.iter_mut().zip(calls).for_each(|(count, cell)| *count = cell.get());
                encode_stat(w, &info, 0, 0)
            })
        });
        written.map_or(Outcome::SystemErr, |()| Outcome::Success(head.finish(None)))
    }
}

impl Program for Portmap {
    const NUMBER: u32 = portmap::PROGRAM;
    const SET: ProgramSet = ProgramSet::PORTMAP;
    const VERSIONS: RangeInclusive<u32> = portmap::VERSION_2..=portmap::VERSION_4;

    fn outcome_class(_: u32) -> crate::observe::Outcome {
        crate::observe::Outcome::Ok
    }

    async fn serve(&self, request: &mut Request<'_>) -> Outcome {
        let calls = &self.calls[(request.version - portmap::VERSION_2) as usize % 3];
        if let Some(count) = calls.get(request.procedure as usize) {
            count.set(count.get().wrapping_add(1));
        }
        match request.version {
            portmap::VERSION_2 => self.version_2(request).await,
            _ => self.version_3_and_4(request).await,
        }
    }
}

/// What a caller looks for.
struct Wanted<'a> {
    program: u32,
    version: u32,
    netid: &'a str,
    /// Our own address, as the caller knows it.
    reached: IpAddr,
}

/// A registration as versions 3 and 4 list it.
struct Entry<'a>(&'a Registration);

impl Entry<'_> {
    fn with<T>(&self, each: impl FnOnce(&Rpcb<'_>) -> T) -> T {
        let address = UniversalAddr::from(self.0.address);
        each(&Rpcb {
            prog: self.0.program,
            vers: self.0.version,
            netid: self.0.netid().as_bytes(),
            addr: address.as_bytes(),
            owner: b"headgate",
        })
    }
}

impl Encode for Entry<'_> {
    fn encode(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        self.with(|rpcb| rpcb.encode(w))
    }
    fn encoded_len(&self) -> usize {
        self.with(|rpcb| rpcb.encoded_len())
    }
}

/// SET and UNSET: nothing can be changed, and whoever is not on this machine need not even ask.
async fn change<'a, T: headgate_proto::xdr::Decode<'a>>(request: &mut Request<'a>) -> Outcome {
    if !request.conn.peer.ip().to_canonical().is_loopback() {
        return Outcome::AuthError(AuthStat::TooWeak);
    }
    answer(request, |_: T| false).await
}

async fn answer<'a, T, R>(request: &mut Request<'a>, results: impl FnOnce(T) -> R) -> Outcome
where
    T: headgate_proto::xdr::Decode<'a>,
    R: Encode,
{
    match request.decode::<T>() {
        Ok(arguments) => request.reply(&results(arguments)).await,
        Err(_) => Outcome::GarbageArgs,
    }
}

/// DUMP: void to a list, which is empty for datagrams of other machines.
async fn list<T: Encode>(request: &mut Request<'_>, entries: impl Iterator<Item = T> + Clone) -> Outcome {
    if request.decode::<()>().is_err() {
        return Outcome::GarbageArgs;
    }
    let most = if is_forgeable(request) { 0 } else { usize::MAX };
    write_list(request, entries.take(most)).await
}

async fn write_list<T: Encode>(request: &Request<'_>, entries: impl Iterator<Item = T> + Clone) -> Outcome {
    let len_bytes = 4 + entries.clone().map(|entry| 4 + entry.encoded_len()).sum::<usize>();
    let Some(mut head) = request.reply_head(len_bytes).await else { return Outcome::SystemErr };
    match head.write(|w| encode_list(w, entries)) {
        Ok(()) => Outcome::Success(head.finish(None)),
        Err(_) => Outcome::SystemErr,
    }
}

/// Whether the caller's address may be another's.
fn is_forgeable(request: &Request<'_>) -> bool {
    request.conn.transport == TransportKind::Udp && !request.conn.peer.ip().to_canonical().is_loopback()
}

/// Our address as the caller knows it: the one that the call came to, or, of a socket that is bound to all of them, the one that the
/// caller says it asked.
fn reached(request: &Request<'_>, asked: &Rpcb<'_>) -> IpAddr {
    let local = request.conn.local.ip().to_canonical();
    if !local.is_unspecified() {
        return local;
    }
    match UniversalAddr::parse(asked.addr) {
        Some(address) if address.is_ipv4() == local.is_ipv4() => address.ip(),
        _ => local,
    }
}

/// A registration's address, made one that the caller can use.
fn as_reached(registration: &Registration, reached: IpAddr) -> SocketAddr {
    let mut address = registration.address;
    if address.ip().is_unspecified() && address.is_ipv4() == reached.is_ipv4() {
        address.set_ip(reached);
    }
    address
}

fn seconds_since_1970() -> u32 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    // The protocol's 32 bits end in 2106.
    now.as_secs() as u32
}
