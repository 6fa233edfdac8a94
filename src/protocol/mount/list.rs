//! Who said to have mounted what (RFC 1813 s5.2.2): on core 0, the oldest entry first.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::IpAddr;

use crate::engine::{self, CoreId};
use crate::limits;

/// The core that keeps the list. Mounts are rare.
const CORE: CoreId = CoreId(0);

thread_local! {
    static MOUNTS: RefCell<VecDeque<Mounted>> = const { RefCell::new(VecDeque::new()) };
}

/// One mount of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mounted {
    pub(super) client: IpAddr,
    pub(super) path: Box<[u8]>,
}

/// Notes a mount; the same one again makes it the newest.
pub(super) async fn add(client: IpAddr, path: &[u8]) {
    let entry = Mounted { client: client.to_canonical(), path: path.into() };
    engine::ask(CORE, move || async move {
        MOUNTS.with_borrow_mut(|mounts| {
            mounts.retain(|other| *other != entry);
            if mounts.len() >= limits::MOUNT_ENTRIES {
                mounts.pop_front();
            }
            mounts.push_back(entry);
        });
    })
    .await;
}

/// Forgets one mount of a client, or all of them.
pub(super) async fn remove(client: IpAddr, path: Option<&[u8]>) {
    let client = client.to_canonical();
    let path: Option<Box<[u8]>> = path.map(Into::into);
    engine::ask(CORE, move || async move {
        MOUNTS.with_borrow_mut(|mounts| {
            mounts.retain(|other| {
                other.client != client || path.as_ref().is_some_and(|path| *path != other.path)
            });
        });
    })
    .await;
}

/// All of them.
pub(super) async fn all() -> Vec<Mounted> {
    engine::ask(CORE, || async { MOUNTS.with_borrow(|mounts| mounts.iter().cloned().collect()) }).await
}
