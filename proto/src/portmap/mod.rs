//! The port mapper, version 2, and its successor rpcbind, versions 3 and 4 (RFC 1833). All are the same program on
//! port 111.
//!
//! [`Mapping`] and its list serve version 2 (s3), [`Rpcb`] and its relatives versions 3 and 4 (s2). Addresses in the
//! latter are universal addresses ([`UniversalAddr`]).

mod rpcbind;
#[cfg(test)]
mod tests;
mod uaddr;

pub use rpcbind::{
    Netbuf, RmtCallArgs, RmtCallRes, Rpcb, RpcbAddr, RpcbAddrList, RpcbEntry, RpcbEntryList, RpcbList,
    RpcbProcedure, RpcbRmtCall, RpcbStat, RpcbStatByVers, STAT_PROCEDURES, encode_stat,
};
pub use uaddr::UniversalAddr;

use crate::xdr::{List, xdr_enum, xdr_struct};

/// PMAP_PROG, RPCBPROG: the RPC program number (RFC 1833 s2.1, s3.1).
pub const PROGRAM: u32 = 100_000;
/// PMAP_VERS: the port mapper (RFC 1833 s3.1).
pub const VERSION_2: u32 = 2;
/// RPCBVERS (RFC 1833 s2.1)
pub const VERSION_3: u32 = 3;
/// RPCBVERS4 (RFC 1833 s2.1)
pub const VERSION_4: u32 = 4;
/// PMAP_PORT: on TCP and UDP (RFC 1833 s3.1).
pub const PORT: u16 = 111;

/// TCP in [`Mapping::prot`] (RFC 1833 s3.1).
pub const IPPROTO_TCP: u32 = 6;
/// UDP in [`Mapping::prot`] (RFC 1833 s3.1).
pub const IPPROTO_UDP: u32 = 17;

xdr_enum! {
    /// The procedures of version 2 (RFC 1833 s3.2).
    pub enum Procedure {
        /// Do nothing.
        Null = 0,
        /// Register: [`Mapping`] to bool.
        Set = 1,
        /// Withdraw program and version, whatever `prot` and `port`: [`Mapping`] to bool.
        Unset = 2,
        /// The port of a program, 0 if there is none: [`Mapping`] (whose `port` is ignored) to u32.
        Getport = 3,
        /// All mappings: void to [`Mappings`].
        Dump = 4,
        /// Call another program through the port mapper: [`CallArgs`] to [`CallResult`].
        Callit = 5,
    }
}

xdr_struct! {
    /// mapping (RFC 1833 s3.1)
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Mapping {
        /// Program number.
        pub prog: u32,
        /// Program version.
        pub vers: u32,
        /// [`IPPROTO_TCP`] or [`IPPROTO_UDP`].
        pub prot: u32,
        /// The port.
        pub port: u32,
    }
}

impl Mapping {
    /// What a mapping takes in the result of DUMP, in bytes.
    pub const SPACE: usize = 4 + 16;
}

/// pmaplist: the result of DUMP (RFC 1833 s3.1). The server writes it with
/// [`encode_list`](crate::xdr::encode_list).
pub type Mappings<'a> = List<'a, Mapping>;

xdr_struct! {
    /// call_args (RFC 1833 s3.1)
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CallArgs<'a> {
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
    /// call_result (RFC 1833 s3.1)
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CallResult<'a> {
        /// The program's port.
        pub port: u32,
        /// The encoded results.
        pub res: &'a [u8],
    }
}
