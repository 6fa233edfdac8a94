//! Closing descriptors where it harms nobody.
//!
//! An operation that was queued in this turn names its descriptor (or registered place) by number, so neither may be given to another
//! file before the queue has gone to the kernel; and the last close of an unlinked file frees its blocks, which can take
//! long. So what a core no longer needs is collected, kept over one full turn, and closed on a helper thread.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::engine::{self, ring::FixedFile};

thread_local! {
    static UNUSED: RefCell<Vec<(Arc<OwnedFd>, Option<FixedFile>)>> = const { RefCell::new(Vec::new()) };
}

/// Closes a descriptor (and frees its registered place) soon.
pub(super) fn close_soon(fd: Arc<OwnedFd>, fixed: Option<FixedFile>) {
    if !engine::on_core() {
        return;
    }
    let is_first = UNUSED.with_borrow_mut(|unused| {
        unused.push((fd, fixed));
        unused.len() == 1
    });
    if is_first {
        engine::spawn(async {
            // The first yield may end within this turn; a sleep ends in a later one, after the queue was handed over.
            engine::sleep(std::time::Duration::from_micros(1)).await;
            engine::yield_now().await;
            let unused = UNUSED.take();
            let fds: Vec<Arc<OwnedFd>> = unused
                .into_iter()
                .map(|(fd, fixed)| {
                    drop(fixed);
                    fd
                })
                .collect();
            engine::blocking::run(move || drop(fds)).await;
        });
    }
}
