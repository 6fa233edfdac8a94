//! rpcbind, versions 3 and 4 (RFC 1833 s2).

use crate::xdr::{Decode, Encode, Full, List, Reader, Result, Writer, encode_list, xdr_enum, xdr_struct};

xdr_enum! {
    /// The procedures (RFC 1833 s2.2.1, s2.2.2); those from GETVERSADDR on are version 4's.
    pub enum RpcbProcedure {
        /// Do nothing.
        Null = 0,
        /// Register: [`Rpcb`] to bool.
        Set = 1,
        /// Withdraw: [`Rpcb`] to bool.
        Unset = 2,
        /// The address of a program, of any version if the one asked for is not there; empty if there is none:
        /// [`Rpcb`] to a string.
        Getaddr = 3,
        /// All registrations: void to [`RpcbList`].
        Dump = 4,
        /// CALLIT in version 3, BCAST in version 4: [`RmtCallArgs`] to [`RmtCallRes`].
        Callit = 5,
        /// Seconds since 1970: void to u32.
        Gettime = 6,
        /// A universal address to a transport address: a string to [`Netbuf`].
        Uaddr2taddr = 7,
        /// A transport address to a universal address: [`Netbuf`] to a string.
        Taddr2uaddr = 8,
        /// Like GETADDR, for this version only (version 4).
        Getversaddr = 9,
        /// Like CALLIT, with errors reported (version 4).
        Indirect = 10,
        /// All addresses of a program on the caller's protocol family (version 4): [`Rpcb`] to [`RpcbEntryList`].
        Getaddrlist = 11,
        /// Statistics (version 4): void to [`RpcbStatByVers`].
        Getstat = 12,
    }
}

impl RpcbProcedure {
    /// The highest procedure number of version 3: TADDR2UADDR.
    pub const HIGHEST_3: u32 = 8;
}

xdr_struct! {
    /// rpcb: a registration (RFC 1833 s2.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Rpcb<'a> {
        /// r_prog: program number.
        pub prog: u32,
        /// r_vers: program version.
        pub vers: u32,
        /// r_netid: `tcp`, `udp`, `tcp6`, `udp6` or another (RFC 5665 s5.1).
        pub netid: &'a [u8],
        /// r_addr: universal address.
        pub addr: &'a [u8],
        /// r_owner: who registered it.
        pub owner: &'a [u8],
    }
}

/// rpcblist_ptr: the result of DUMP (RFC 1833 s2.1). The server writes it with [`encode_list`].
pub type RpcbList<'a> = List<'a, Rpcb<'a>>;

xdr_struct! {
    /// rpcb_rmtcallargs (RFC 1833 s2.1)
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RmtCallArgs<'a> {
        /// Program number.
        pub prog: u32,
        /// Program version.
        pub vers: u32,
        /// Procedure number.
        pub proc: u32,
        /// Its encoded arguments.
        pub args: &'a [u8],
    }
}

xdr_struct! {
    /// rpcb_rmtcallres (RFC 1833 s2.1)
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RmtCallRes<'a> {
        /// The program's universal address.
        pub addr: &'a [u8],
        /// The encoded results.
        pub results: &'a [u8],
    }
}

xdr_struct! {
    /// rpcb_entry (RFC 1833 s2.1)
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RpcbEntry<'a> {
        /// r_maddr: the universal address, as the caller can reach it.
        pub maddr: &'a [u8],
        /// r_nc_netid: network id.
        pub netid: &'a [u8],
        /// r_nc_semantics: kind of transport; see the constants.
        pub semantics: u32,
        /// r_nc_protofmly: such as `inet`, `inet6`.
        pub protofmly: &'a [u8],
        /// r_nc_proto: such as `tcp`, `udp`.
        pub proto: &'a [u8],
    }
}

impl RpcbEntry<'_> {
    /// NC_TPI_CLTS: connectionless.
    pub const CLTS: u32 = 1;
    /// NC_TPI_COTS: connection-oriented.
    pub const COTS: u32 = 2;
    /// NC_TPI_COTS_ORD: connection-oriented with graceful close; TCP.
    pub const COTS_ORD: u32 = 3;
}

/// rpcb_entry_list_ptr: the result of GETADDRLIST (RFC 1833 s2.1). The server writes it with [`encode_list`].
pub type RpcbEntryList<'a> = List<'a, RpcbEntry<'a>>;

xdr_struct! {
    /// netbuf: a transport address (RFC 1833 s2.1). On Linux it holds a `sockaddr`; Headgate does not interpret it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Netbuf<'a> {
        /// The room that the buffer has.
        pub maxlen: u32,
        /// The address.
        pub buf: &'a [u8],
    }
}

/// RPCBSTAT_HIGHPROC: the procedures that are counted (RFC 1833 s2.1).
pub const STAT_PROCEDURES: usize = 13;

xdr_struct! {
    /// rpcbs_addrlist without its link: how often an address was asked for (RFC 1833 s2.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RpcbAddr<'a> {
        /// Program number.
        pub prog: u32,
        /// Program version.
        pub vers: u32,
        /// Requests that were answered with an address.
        pub success: i32,
        /// Requests that were not.
        pub failure: i32,
        /// Network id.
        pub netid: &'a [u8],
    }
}

/// rpcbs_addrlist_ptr (RFC 1833 s2.1)
pub type RpcbAddrList<'a> = List<'a, RpcbAddr<'a>>;

xdr_struct! {
    /// rpcbs_rmtcalllist without its link: how often a program was called through rpcbind (RFC 1833 s2.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RpcbRmtCall<'a> {
        /// Program number.
        pub prog: u32,
        /// Program version.
        pub vers: u32,
        /// Procedure number.
        pub proc: u32,
        /// Calls that succeeded.
        pub success: i32,
        /// Calls that failed.
        pub failure: i32,
        /// Whether by INDIRECT rather than CALLIT.
        pub indirect: i32,
        /// Network id.
        pub netid: &'a [u8],
    }
}

/// rpcb_stat: the statistics of one version, as received (RFC 1833 s2.1).
#[derive(Clone, Debug, PartialEq)]
pub struct RpcbStat<'a> {
    /// Calls by procedure number.
    pub info: [i32; STAT_PROCEDURES],
    /// Successful SETs.
    pub setinfo: i32,
    /// Successful UNSETs.
    pub unsetinfo: i32,
    /// GETADDR by program.
    pub addrinfo: RpcbAddrList<'a>,
    /// CALLIT by program.
    pub rmtinfo: List<'a, RpcbRmtCall<'a>>,
}

impl<'a> Decode<'a> for RpcbStat<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self> {
        let mut info = [0; STAT_PROCEDURES];
        for count in &mut info {
            *count = r.i32()?;
        }
        Ok(RpcbStat {
            info,
            setinfo: r.i32()?,
            unsetinfo: r.i32()?,
            addrinfo: List::decode(r)?,
            rmtinfo: List::decode(r)?,
        })
    }
}

impl Encode for RpcbStat<'_> {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        self.info.iter().try_for_each(|&count| w.i32(count))?;
        w.i32(self.setinfo)?;
        w.i32(self.unsetinfo)?;
        self.addrinfo.encode(w)?;
        self.rmtinfo.encode(w)
    }
    fn encoded_len(&self) -> usize {
        4 * (STAT_PROCEDURES + 2) + self.addrinfo.encoded_len() + self.rmtinfo.encoded_len()
    }
}

xdr_struct! {
    /// rpcb_stat_byvers: the result of GETSTAT, for versions 2, 3 and 4 (RFC 1833 s2.1).
    #[derive(Clone, Debug, PartialEq)]
    pub struct RpcbStatByVers<'a> {
        /// Version 2.
        pub v2: RpcbStat<'a>,
        /// Version 3.
        pub v3: RpcbStat<'a>,
        /// Version 4.
        pub v4: RpcbStat<'a>,
    }
}

/// Writes one rpcb_stat without lists by program; three of them are the result of GETSTAT.
pub fn encode_stat(
    w: &mut Writer<'_>,
    info: &[i32; STAT_PROCEDURES],
    setinfo: i32,
    unsetinfo: i32,
) -> core::result::Result<(), Full> {
    info.iter().try_for_each(|&count| w.i32(count))?;
    w.i32(setinfo)?;
    w.i32(unsetinfo)?;
    encode_list(w, core::iter::empty::<RpcbAddr<'_>>())?;
    encode_list(w, core::iter::empty::<RpcbRmtCall<'_>>())
}
