//! One call, once, over all cores on which a copy of it may be read (RFC 1813 s4.5).
//!
//! A client that reconnects repeats its calls over the new connection, which may lie on another core, while the first copies are still being executed on
//! the old core, or lie unread in the old connection's socket. So a call over such a connection is claimed on its own core and on
//! the client's earlier ones ([`ConnInfo::prior_cores`]) before it is executed, and each of them remembers its results. Cores are claimed in rising order,
//! whoever claims: two copies of one call wait for one another in one direction only, and never for ever.
//!
//! That lasts for [`crate::limits::DRC_FLOOR`] after the connection was opened, by when everything that was under way has been repeated. Ordinary
//! connections ask nobody.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use crate::engine::{self, CoreId};
use crate::protocol::ConnInfo;
use crate::protocol::drc::{Begin, Claim, Drc, Key, Remember, Slot};

thread_local! {
    /// This core's cache, for other cores.
    static DRC: RefCell<Weak<Drc>> = const { RefCell::new(Weak::new()) };
}

/// Lets other cores reach this core's cache.
pub(super) fn publish(drc: &Rc<Drc>) {
    DRC.set(Rc::downgrade(drc));
}

/// A call in progress, on this core and on others. Dropped without [`Claims::complete`] it is forgotten everywhere.
pub(super) struct Claims<'d> {
    here: Option<Slot<'d>>,
    elsewhere: Vec<Elsewhere>,
}

impl Claims<'_> {
    /// Keeps the results on all of the cores.
    pub(super) fn complete(self, results: &[u8]) {
        for claim in self.elsewhere {
            claim.complete(results.into());
        }
        if let Some(slot) = self.here {
            slot.complete(results, engine::now());
        }
    }
}

/// Claims a call, or finds its results.
pub(super) async fn claim<'d>(
    drc: &'d Drc,
    conn: &ConnInfo,
    key: Key,
    remember: Remember,
) -> Result<Claims<'d>, Box<[u8]>> {
    let mut claims = Claims { here: None, elsewhere: Vec::new() };
    let here = engine::core_id();
    let others = conn.prior_cores_now();
    for core in others.iter().filter(|core| *core < here) {
        claims.ask(core, key, remember).await?;
    }
    match drc.begin(key, remember, engine::now()).await {
        Begin::Execute(slot) => claims.here = Some(slot),
        Begin::Replay(results) => return Err(claims.found(results)),
        Begin::Unremembered => {}
    }
    for core in others.iter().filter(|core| *core > here) {
        claims.ask(core, key, remember).await?;
    }
    Ok(claims)
}

impl Claims<'_> {
    async fn ask(&mut self, core: CoreId, key: Key, remember: Remember) -> Result<(), Box<[u8]>> {
        if usize::from(core.0) >= engine::core_count() {
            return Ok(());
        }
        let answer = engine::ask(core, move || async move {
            let Some(drc) = DRC.with_borrow(Weak::upgrade) else { return Answer::Unknown };
            match drc.claim(key, engine::now()).await {
                Claim::New => Answer::Claimed(Elsewhere { core, key, remember, open: true }),
                Claim::Known(results) => Answer::Known(results),
                Claim::Full => Answer::Unknown,
            }
        });
        match answer.await {
            Answer::Claimed(claim) => self.elsewhere.push(claim),
            Answer::Known(results) => return Err(self.found(results)),
            Answer::Unknown => {}
        }
        Ok(())
    }

    /// One core knew the results: the others are to know them too.
    fn found(&mut self, results: Box<[u8]>) -> Box<[u8]> {
        std::mem::replace(self, Claims { here: None, elsewhere: Vec::new() }).complete(&results);
        results
    }
}

enum Answer {
    /// In progress there from now on.
    Claimed(Elsewhere),
    /// Executed there.
    Known(Box<[u8]>),
    /// That core remembers nothing more.
    Unknown,
}

/// An entry in progress on another core. It may be dropped on either core, and frees the entry then.
struct Elsewhere {
    core: CoreId,
    key: Key,
    remember: Remember,
    open: bool,
}

impl Elsewhere {
    fn complete(mut self, results: Box<[u8]>) {
        self.open = false;
        self.settle(Some(results));
    }

    fn settle(&self, results: Option<Box<[u8]>>) {
        let (key, remember) = (self.key, self.remember);
        // A core that has stopped has forgotten everything.
        if engine::on_core() {
            engine::send(self.core, move || {
                if let Some(drc) = DRC.with_borrow(Weak::upgrade) {
                    drc.settle(key, results.as_deref(), remember, engine::now());
                }
            });
        }
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        if self.open {
            self.settle(None);
        }
    }
}
