//! How an operation ended, in the few classes that an operator tells apart.

macro_rules! outcomes {
    ($( $(#[$doc:meta])* $variant:ident $label:literal, )*) => {
        /// How an operation ended. Every protocol's statuses fall into these classes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Outcome {
            $( $(#[$doc])* $variant, )*
        }

        impl Outcome {
            /// Every class, in the order of the enum; [`Outcome::Ok`] is the first.
            pub const ALL: &'static [Outcome] = &[$(Outcome::$variant,)*];
            /// How many classes there are.
            pub const COUNT: usize = Outcome::ALL.len();

            /// The value of the `class` label.
            pub fn label(self) -> &'static str {
                match self {
                    $(Outcome::$variant => $label,)*
                }
            }
        }
    };
}

outcomes! {
    /// Answered with success.
    Ok "ok",
    /// No such object by that name.
    NotFound "not_found",
    /// The name is taken, or a directory is not empty.
    Exists "exists",
    /// The caller may not, or the export is read-only.
    Denied "denied",
    /// The file handle is stale, or is none of ours.
    Stale "stale",
    /// The arguments make no sense for the object.
    Invalid "invalid",
    /// Out of space, quota, links or file size.
    NoSpace "no_space",
    /// The client is to try again: a lock conflict, a grace period, a busy server.
    Retry "retry",
    /// The storage or the gateway failed.
    Io "io",
    /// The procedure, program, version or feature is not served.
    Unsupported "unsupported",
    /// The call could not be decoded.
    Garbage "garbage",
    /// The credentials were refused.
    Auth "auth",
    /// Not answered: dropped on purpose, or the connection went away.
    Dropped "dropped",
}

impl Outcome {
    /// The class of an NFSv3 status (RFC 1813 s2.6); also of a MOUNT status (s5.1.5), which numbers alike.
    pub fn from_nfs3_status(status: u32) -> Outcome {
        match status {
            0 => Outcome::Ok,
            2 => Outcome::NotFound,
            17 | 66 => Outcome::Exists,
            1 | 13 | 30 => Outcome::Denied,
            70 | 10001 => Outcome::Stale,
            5 | 6 | 19 | 10006 => Outcome::Io,
            27 | 28 | 31 | 69 => Outcome::NoSpace,
            10008 => Outcome::Retry,
            10004 => Outcome::Unsupported,
            // XDEV, NOTDIR, ISDIR, INVAL, NAMETOOLONG, REMOTE, NOT_SYNC, BAD_COOKIE, TOOSMALL, BADTYPE
            _ => Outcome::Invalid,
        }
    }

    /// The class of an NLM version 4 status (X/Open XNFS s14.1; RFC 1813 s6.1.1).
    pub fn from_nlm4_status(status: u32) -> Outcome {
        match status {
            0 => Outcome::Ok,
            // DENIED, BLOCKED, DENIED_GRACE_PERIOD: conflicts, which are a lock manager's daily bread
            1 | 3 | 4 => Outcome::Retry,
            2 => Outcome::NoSpace,
            5 => Outcome::Invalid,
            6 => Outcome::Denied,
            7 => Outcome::Stale,
            8 => Outcome::NoSpace,
            _ => Outcome::Io,
        }
    }

    /// The class of an RPC accept status (RFC 5531 s9); `accept_stat` 0 is success of the envelope only.
    pub fn from_rpc_accept_status(accept_stat: u32) -> Outcome {
        match accept_stat {
            0 => Outcome::Ok,
            1..=3 => Outcome::Unsupported,
            4 => Outcome::Garbage,
            _ => Outcome::Io,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_fall_into_their_classes() {
        assert_eq!(Outcome::from_nfs3_status(0), Outcome::Ok);
        assert_eq!(Outcome::from_nfs3_status(2), Outcome::NotFound);
        assert_eq!(Outcome::from_nfs3_status(70), Outcome::Stale);
        assert_eq!(Outcome::from_nfs3_status(10003), Outcome::Invalid);
        assert_eq!(Outcome::from_nlm4_status(3), Outcome::Retry);
        assert_eq!(Outcome::from_rpc_accept_status(4), Outcome::Garbage);
        // Only success is counted as success, whatever number comes.
        for status in 1..20_000 {
            assert_ne!(Outcome::from_nfs3_status(status), Outcome::Ok);
            assert_ne!(Outcome::from_nlm4_status(status), Outcome::Ok);
            assert_ne!(Outcome::from_rpc_accept_status(status), Outcome::Ok);
        }
    }

    #[test]
    fn labels_are_unique() {
        let labels: std::collections::HashSet<_> = Outcome::ALL.iter().map(|o| o.label()).collect();
        assert_eq!(labels.len(), Outcome::COUNT);
        assert_eq!(Outcome::ALL[0], Outcome::Ok);
    }
}
