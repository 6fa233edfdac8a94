//! The Network Status Monitor, version 1 (The Open Group C702: XNFS version 3W, chapter 11).
//!
//! Headgate answers SM_NOTIFY (a client restarted: its locks go), sends SM_NOTIFY (Headgate restarted: clients are to
//! reclaim theirs), and answers the other procedures as a status monitor without clients of its own may.

#[cfg(test)]
mod tests;

use crate::xdr::{Bounded, xdr_enum, xdr_struct};

/// SM_PROG: the RPC program number (XNFS chapter 11).
pub const PROGRAM: u32 = 100_024;
/// SM_VERS: the only version.
pub const VERSION: u32 = 1;

/// A host name of at most SM_MAXSTRLEN bytes.
pub type Name<'a> = Bounded<'a, 1024>;

xdr_enum! {
    /// The procedures (XNFS chapter 11).
    pub enum Procedure {
        /// SM_NULL: do nothing.
        Null = 0,
        /// SM_STAT: would the monitor watch this host? [`SmName`] to [`SmStatRes`].
        Stat = 1,
        /// SM_MON: watch a host. [`Mon`] to [`SmStatRes`].
        Mon = 2,
        /// SM_UNMON: stop watching a host. [`MonId`] to [`SmStat`].
        Unmon = 3,
        /// SM_UNMON_ALL: stop watching all hosts of a caller. [`MyId`] to [`SmStat`].
        UnmonAll = 4,
        /// SM_SIMU_CRASH: behave as after a restart. void to void.
        SimuCrash = 5,
        /// SM_NOTIFY: a host restarted. [`StatChge`] to void.
        Notify = 6,
    }
}

xdr_enum! {
    /// res: whether the monitor agrees to watch.
    pub enum Res {
        /// STAT_SUCC
        Succ = 0,
        /// STAT_FAIL
        Fail = 1,
    }
}

xdr_struct! {
    /// sm_name
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SmName<'a> {
        /// The host to watch.
        pub mon_name: Name<'a>,
    }
}

xdr_struct! {
    /// my_id: whom to call back.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MyId<'a> {
        /// The caller's host.
        pub my_name: Name<'a>,
        /// Program to call.
        pub my_prog: i32,
        /// Its version.
        pub my_vers: i32,
        /// Its procedure, with [`Status`] as arguments.
        pub my_proc: i32,
    }
}

xdr_struct! {
    /// mon_id
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MonId<'a> {
        /// The host to watch.
        pub mon_name: Name<'a>,
        /// Whom to call back.
        pub my_id: MyId<'a>,
    }
}

xdr_struct! {
    /// mon
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Mon<'a> {
        /// Whom to watch, and for whom.
        pub mon_id: MonId<'a>,
        /// Returned with the call back.
        pub private: [u8; 16],
    }
}

xdr_struct! {
    /// sm_stat_res
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SmStatRes {
        /// Whether the host is watched.
        pub res: Res,
        /// The monitor's own state number.
        pub state: i32,
    }
}

xdr_struct! {
    /// sm_stat
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SmStat {
        /// The monitor's own state number.
        pub state: i32,
    }
}

xdr_struct! {
    /// stat_chge: the arguments of SM_NOTIFY.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct StatChge<'a> {
        /// The host that restarted. It is a claim of the sender's.
        pub mon_name: Name<'a>,
        /// Its new state number: odd while it is up, and greater after every restart.
        pub state: i32,
    }
}

xdr_struct! {
    /// status: the arguments of the call back that SM_MON asked for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Status<'a> {
        /// The host that restarted.
        pub mon_name: Name<'a>,
        /// Its new state number.
        pub state: i32,
        /// As given to SM_MON.
        pub private: [u8; 16],
    }
}
