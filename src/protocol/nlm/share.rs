//! Share reservations (RFC 1813 s6, XNFS chapter 14): what a client's open denies to others. They bind only those who ask for them, as on
//! every NFSv3 server: READ and WRITE do not look at them.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use headgate_proto::nlm::{ShareAccess, ShareMode, Stats};

use super::shard::FileKey;

/// Reservations on one file.
const PER_FILE: usize = 1024;

/// A reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) client: IpAddr,
    pub(super) caller_name: Box<[u8]>,
    pub(super) oh: Box<[u8]>,
    /// What it denies to others.
    pub(super) mode: ShareMode,
    /// What it is for.
    pub(super) access: ShareAccess,
}

impl Share {
    fn is_of(&self, other: &Share) -> bool {
        self.client == other.client && self.oh == other.oh && self.caller_name == other.caller_name
    }

    /// The bits of mode and access mean the same: 1 reading, 2 writing.
    fn conflicts(&self, other: &Share) -> bool {
        self.access as u32 & other.mode as u32 != 0 || self.mode as u32 & other.access as u32 != 0
    }
}

/// The reservations of one core's files.
#[derive(Debug)]
pub(super) struct Shares {
    files: HashMap<FileKey, Vec<Share>>,
    count: usize,
    most: usize,
}

impl Shares {
    pub(super) fn new(most: usize) -> Shares {
        Shares { files: HashMap::new(), count: 0, most }
    }

    /// Takes a reservation, in exchange for the one that its owner has.
    pub(super) fn take(&mut self, file: FileKey, share: Share) -> Stats {
        let others = self.files.get(&file).map_or(&[][..], Vec::as_slice);
        let has = others.iter().any(|other| other.is_of(&share));
        if others.iter().any(|other| !other.is_of(&share) && other.conflicts(&share)) {
            return Stats::Denied;
        }
        if !has && (self.count >= self.most || others.len() >= PER_FILE) {
            return Stats::DeniedNolocks;
        }
        let all = self.files.entry(file).or_default();
        all.retain(|other| !other.is_of(&share));
        all.push(share);
        self.count += usize::from(!has);
        Stats::Granted
    }

    /// Gives back the owner's reservation, if it has one.
    pub(super) fn give_back(&mut self, file: &FileKey, share: &Share) {
        self.remove(|key, other| key == file && other.is_of(share));
    }

    pub(super) fn release_client(&mut self, client: IpAddr) {
        self.remove(|_, share| share.client == client);
    }

    pub(super) fn clients(&self) -> HashSet<IpAddr> {
        self.files.values().flatten().map(|share| share.client).collect()
    }

    fn remove(&mut self, which: impl Fn(&FileKey, &Share) -> bool) {
        self.files.retain(|key, shares| {
            let before = shares.len();
            shares.retain(|share| !which(key, share));
            self.count -= before - shares.len();
            !shares.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::ExportId;
    use crate::session::handle::StoreHandle;

    fn file(n: u8) -> FileKey {
        FileKey { export: ExportId(1), handle: StoreHandle::from_iter([n]) }
    }

    fn share(client: u8, oh: &[u8], mode: ShareMode, access: ShareAccess) -> Share {
        Share { client: [10, 0, 0, client].into(), caller_name: (*b"c").into(), oh: oh.into(), mode, access }
    }

    #[test]
    fn reservations_conflict_by_what_they_deny() {
        let mut shares = Shares::new(10);
        let reader = share(1, b"a", ShareMode::DenyWrite, ShareAccess::Read);
        assert_eq!(shares.take(file(1), reader.clone()), Stats::Granted);
        assert_eq!(
            shares.take(file(1), share(2, b"a", ShareMode::DenyNone, ShareAccess::Write)),
            Stats::Denied
        );
        assert_eq!(
            shares.take(file(1), share(2, b"a", ShareMode::DenyRead, ShareAccess::None)),
            Stats::Denied
        );
        assert_eq!(
            shares.take(file(1), share(2, b"a", ShareMode::DenyWrite, ShareAccess::Read)),
            Stats::Granted
        );
        assert_eq!(
            shares.take(file(2), share(2, b"a", ShareMode::DenyBoth, ShareAccess::Both)),
            Stats::Granted
        );
        // Its own reservation is no obstacle to changing it; another's is.
        assert_eq!(
            shares.take(file(1), share(1, b"a", ShareMode::DenyNone, ShareAccess::Read)),
            Stats::Granted
        );
        assert_eq!(
            shares.take(file(1), share(1, b"a", ShareMode::DenyNone, ShareAccess::Write)),
            Stats::Denied
        );
        assert_eq!(shares.count, 3);
        shares.give_back(&file(1), &share(2, b"other", ShareMode::DenyNone, ShareAccess::None));
        assert_eq!(shares.count, 3, "only its owner gives a reservation back");
        shares.release_client([10, 0, 0, 2].into());
        assert_eq!(
            shares.take(file(1), share(1, b"a", ShareMode::DenyNone, ShareAccess::Write)),
            Stats::Granted
        );
        shares.give_back(&file(1), &reader);
        assert!(shares.files.is_empty() && shares.count == 0);
    }

    #[test]
    fn reservations_are_bounded() {
        let mut shares = Shares::new(2);
        for n in 0..2 {
            assert_eq!(
                shares.take(file(n), share(n, b"a", ShareMode::DenyNone, ShareAccess::Read)),
                Stats::Granted
            );
        }
        let third = share(9, b"a", ShareMode::DenyNone, ShareAccess::Read);
        assert_eq!(shares.take(file(1), third), Stats::DeniedNolocks);
        assert_eq!(shares.clients().len(), 2);
    }
}
