//! The Network Lock Manager, version 4 (RFC 1813 s6, which describes it as changes to version 3 in The Open Group C702:
//! XNFS version 3W, chapters 10 and 14).
//!
//! Every request exists as a procedure that is answered by its reply, and as a message (`*_MSG`) whose answer is a call
//! of its own in the other direction (`*_RES`); the `cookie` joins the two. Both forms have the same arguments and
//! results, so they have the same types here.
//!
//! ```text
//! procedure                     arguments        results
//! TEST    TEST_MSG    TEST_RES  [TestArgs]       [TestRes]
//! LOCK    LOCK_MSG    LOCK_RES  [LockArgs]       [Res]
//! CANCEL  CANCEL_MSG  ..        [CancelArgs]     [Res]
//! UNLOCK  UNLOCK_MSG  ..        [UnlockArgs]     [Res]
//! GRANTED GRANTED_MSG ..        [TestArgs]       [Res]
//! SHARE UNSHARE                 [ShareArgs]      [ShareRes]
//! NM_LOCK                       [LockArgs]       [Res]
//! FREE_ALL                      [Notify]         void
//! ```

#[cfg(test)]
mod tests;

use crate::xdr::{Bounded, Decode, Encode, Full, Reader, Result, Writer, xdr_enum, xdr_struct};

/// The RPC program number (RFC 1813 s6.1.2).
pub const PROGRAM: u32 = 100_021;
/// The version of this module (RFC 1813 s6.1.2).
pub const VERSION: u32 = 4;

/// netobj: an opaque of at most MAXNETOBJ_SZ bytes (XNFS chapter 10).
pub type Netobj<'a> = Bounded<'a, 1024>;
/// A string of at most LM_MAXSTRLEN bytes: the caller's host name (XNFS chapter 10).
pub type CallerName<'a> = Bounded<'a, 1024>;
/// A string of at most LM_MAXNAMELEN bytes: the host name in FREE_ALL (XNFS chapter 10).
pub type NotifyName<'a> = Bounded<'a, 1025>;

xdr_enum! {
    /// The procedures (RFC 1813 s6.2). Numbers 16 to 19 are not used; Linux has its own status monitor call 16 on itself.
    pub enum Procedure {
        /// Do nothing.
        Null = 0,
        /// Would a lock be granted?
        Test = 1,
        /// Take a lock.
        Lock = 2,
        /// Withdraw a lock request that is blocked.
        Cancel = 3,
        /// Give a lock back.
        Unlock = 4,
        /// Server to client: a blocked request is granted.
        Granted = 5,
        /// Asynchronous TEST.
        TestMsg = 6,
        /// Asynchronous LOCK.
        LockMsg = 7,
        /// Asynchronous CANCEL.
        CancelMsg = 8,
        /// Asynchronous UNLOCK.
        UnlockMsg = 9,
        /// Asynchronous GRANTED.
        GrantedMsg = 10,
        /// Answer to TEST_MSG.
        TestRes = 11,
        /// Answer to LOCK_MSG.
        LockRes = 12,
        /// Answer to CANCEL_MSG.
        CancelRes = 13,
        /// Answer to UNLOCK_MSG.
        UnlockRes = 14,
        /// Answer to GRANTED_MSG.
        GrantedRes = 15,
        /// Take a share reservation.
        Share = 20,
        /// Give a share reservation back.
        Unshare = 21,
        /// Take a lock that is not monitored: it does not survive the client's restart, nor do notices free it.
        NmLock = 22,
        /// A client restarted: free all its locks.
        FreeAll = 23,
    }
}

xdr_enum! {
    /// nlm4_stats (RFC 1813 s6.1.4)
    pub enum Stats {
        /// NLM4_GRANTED
        Granted = 0,
        /// NLM4_DENIED: a conflicting lock is held (or, for UNLOCK and CANCEL, there was nothing to do).
        Denied = 1,
        /// NLM4_DENIED_NOLOCKS: the server cannot take more locks.
        DeniedNolocks = 2,
        /// NLM4_BLOCKED: GRANTED will be called later.
        Blocked = 3,
        /// NLM4_DENIED_GRACE_PERIOD: only reclaims are accepted now.
        DeniedGracePeriod = 4,
        /// NLM4_DEADLCK: waiting would be a deadlock.
        Deadlck = 5,
        /// NLM4_ROFS: the file system is read-only.
        Rofs = 6,
        /// NLM4_STALE_FH: the file handle is stale.
        StaleFh = 7,
        /// NLM4_FBIG: the range is beyond what the server can lock.
        Fbig = 8,
        /// NLM4_FAILED: any other failure; not to be tried again.
        Failed = 9,
    }
}

xdr_struct! {
    /// nlm4_holder: who holds a conflicting lock (RFC 1813 s6.1.4).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Holder<'a> {
        /// Whether it is exclusive.
        pub exclusive: bool,
        /// The holder's process, as its client names it.
        pub svid: i32,
        /// The holder, as its client names it.
        pub oh: Netobj<'a>,
        /// Where the lock starts, in bytes.
        pub l_offset: u64,
        /// How many bytes; 0: to the end, wherever that is.
        pub l_len: u64,
    }
}

/// nlm4_testrply (XNFS chapter 14): a denial tells the holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestReply<'a> {
    /// NLM4_DENIED
    Denied(Holder<'a>),
    /// Any other status.
    Other(NotDenied),
}

/// A status other than NLM4_DENIED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotDenied(Stats);

impl NotDenied {
    /// None for [`Stats::Denied`].
    pub const fn new(stats: Stats) -> Option<Self> {
        match stats {
            Stats::Denied => None,
            stats => Some(NotDenied(stats)),
        }
    }
}

impl TestReply<'_> {
    /// The range is free.
    pub const GRANTED: TestReply<'static> = TestReply::Other(NotDenied(Stats::Granted));

    /// The status.
    pub fn stats(&self) -> Stats {
        match self {
            TestReply::Denied(_) => Stats::Denied,
            TestReply::Other(NotDenied(stats)) => *stats,
        }
    }
}

impl<'a> Decode<'a> for TestReply<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self> {
        match NotDenied::new(Stats::decode(r)?) {
            None => Holder::decode(r).map(TestReply::Denied),
            Some(stats) => Ok(TestReply::Other(stats)),
        }
    }
}

impl Encode for TestReply<'_> {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        self.stats().encode(w)?;
        match self {
            TestReply::Denied(holder) => holder.encode(w),
            TestReply::Other(_) => Ok(()),
        }
    }
    fn encoded_len(&self) -> usize {
        match self {
            TestReply::Denied(holder) => 4 + holder.encoded_len(),
            TestReply::Other(_) => 4,
        }
    }
}

xdr_struct! {
    /// nlm4_testres (XNFS chapter 14)
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TestRes<'a> {
        /// As in the request.
        pub cookie: Netobj<'a>,
        /// The answer.
        pub reply: TestReply<'a>,
    }
}

xdr_struct! {
    /// nlm4_res (XNFS chapter 14)
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Res<'a> {
        /// As in the request.
        pub cookie: Netobj<'a>,
        /// The answer.
        pub stat: Stats,
    }
}

xdr_struct! {
    /// nlm4_lock: a file, an owner and a range (RFC 1813 s6.1.4).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Lock<'a> {
        /// The client's host name.
        pub caller_name: CallerName<'a>,
        /// The file: an nfs_fh3.
        pub fh: Netobj<'a>,
        /// The owner, as its client names it.
        pub oh: Netobj<'a>,
        /// The process, as its client names it.
        pub svid: i32,
        /// Where the range starts, in bytes.
        pub l_offset: u64,
        /// How many bytes; 0: to the end, wherever that is. The sum may exceed 2^64: the server answers
        /// [`Stats::Fbig`].
        pub l_len: u64,
    }
}

xdr_struct! {
    /// nlm4_lockargs (XNFS chapter 14)
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LockArgs<'a> {
        /// Returned with the answer.
        pub cookie: Netobj<'a>,
        /// Wait if the lock is held by another.
        pub block: bool,
        /// Exclusive rather than shared.
        pub exclusive: bool,
        /// What to lock.
        pub alock: Lock<'a>,
        /// The lock was held before the server restarted.
        pub reclaim: bool,
        /// The state number of the client's status monitor.
        pub state: i32,
    }
}

xdr_struct! {
    /// nlm4_cancargs (XNFS chapter 14): fields as in the LOCK that is withdrawn.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CancelArgs<'a> {
        /// Returned with the answer.
        pub cookie: Netobj<'a>,
        /// As in the LOCK.
        pub block: bool,
        /// As in the LOCK.
        pub exclusive: bool,
        /// As in the LOCK.
        pub alock: Lock<'a>,
    }
}

xdr_struct! {
    /// nlm4_testargs (XNFS chapter 14): the arguments of TEST and of GRANTED.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TestArgs<'a> {
        /// Returned with the answer.
        pub cookie: Netobj<'a>,
        /// Exclusive rather than shared.
        pub exclusive: bool,
        /// The lock in question, or that is granted.
        pub alock: Lock<'a>,
    }
}

xdr_struct! {
    /// nlm4_unlockargs (XNFS chapter 14)
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct UnlockArgs<'a> {
        /// Returned with the answer.
        pub cookie: Netobj<'a>,
        /// What to unlock.
        pub alock: Lock<'a>,
    }
}

xdr_enum! {
    /// fsh4_mode: what a share reservation denies to others (RFC 1813 s6.1.4).
    pub enum ShareMode {
        /// fsm_DN: nothing.
        DenyNone = 0,
        /// fsm_DR: reading.
        DenyRead = 1,
        /// fsm_DW: writing.
        DenyWrite = 2,
        /// fsm_DRW: both.
        DenyBoth = 3,
    }
}

xdr_enum! {
    /// fsh4_access: what a share reservation is for (RFC 1813 s6.1.4).
    pub enum ShareAccess {
        /// fsa_NONE: nothing.
        None = 0,
        /// fsa_R: reading.
        Read = 1,
        /// fsa_W: writing.
        Write = 2,
        /// fsa_RW: both.
        Both = 3,
    }
}

xdr_struct! {
    /// nlm4_share (RFC 1813 s6.1.4)
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Share<'a> {
        /// The client's host name.
        pub caller_name: CallerName<'a>,
        /// The file: an nfs_fh3.
        pub fh: Netobj<'a>,
        /// The owner, as its client names it.
        pub oh: Netobj<'a>,
        /// What it denies to others.
        pub mode: ShareMode,
        /// What it is for.
        pub access: ShareAccess,
    }
}

xdr_struct! {
    /// nlm4_shareargs (XNFS chapter 14)
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ShareArgs<'a> {
        /// Returned with the answer.
        pub cookie: Netobj<'a>,
        /// The reservation.
        pub share: Share<'a>,
        /// It was held before the server restarted.
        pub reclaim: bool,
    }
}

xdr_struct! {
    /// nlm4_shareres (XNFS chapter 14)
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ShareRes<'a> {
        /// As in the request.
        pub cookie: Netobj<'a>,
        /// The answer.
        pub stat: Stats,
        /// Means nothing; 0.
        pub sequence: i32,
    }
}

xdr_struct! {
    /// nlm4_notify: the arguments of FREE_ALL (XNFS chapter 14).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Notify<'a> {
        /// The host that restarted. It is a claim of the sender's.
        pub name: NotifyName<'a>,
        /// Its new state number.
        pub state: i32,
    }
}

macro_rules! call_args {
    ($($proc:ident($args:ty),)*) => {
        /// The arguments of a call, by procedure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the variants are the procedures")]
        pub enum CallArgs<'a> {
            Null,
            $($proc($args),)*
        }

        impl<'a> CallArgs<'a> {
            /// Decodes the arguments of `procedure`, which must fill the record ([`Reader::finish`]).
            pub fn decode(procedure: Procedure, r: &mut Reader<'a>) -> Result<Self> {
                let args = match procedure {
                    Procedure::Null => CallArgs::Null,
                    $(Procedure::$proc => CallArgs::$proc(<$args>::decode(r)?),)*
                };
                r.finish()?;
                Ok(args)
            }

            /// The procedure that they belong to.
            pub fn procedure(&self) -> Procedure {
                match self {
                    CallArgs::Null => Procedure::Null,
                    $(CallArgs::$proc(_) => Procedure::$proc,)*
                }
            }
        }

        impl Encode for CallArgs<'_> {
            fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
                match self {
                    CallArgs::Null => Ok(()),
                    $(CallArgs::$proc(args) => args.encode(w),)*
                }
            }
            fn encoded_len(&self) -> usize {
                match self {
                    CallArgs::Null => 0,
                    $(CallArgs::$proc(args) => args.encoded_len(),)*
                }
            }
        }
    };
}

call_args! {
    Test(TestArgs<'a>),
    Lock(LockArgs<'a>),
    Cancel(CancelArgs<'a>),
    Unlock(UnlockArgs<'a>),
    Granted(TestArgs<'a>),
    TestMsg(TestArgs<'a>),
    LockMsg(LockArgs<'a>),
    CancelMsg(CancelArgs<'a>),
    UnlockMsg(UnlockArgs<'a>),
    GrantedMsg(TestArgs<'a>),
    TestRes(TestRes<'a>),
    LockRes(Res<'a>),
    CancelRes(Res<'a>),
    UnlockRes(Res<'a>),
    GrantedRes(Res<'a>),
    Share(ShareArgs<'a>),
    Unshare(ShareArgs<'a>),
    NmLock(LockArgs<'a>),
    FreeAll(Notify<'a>),
}
