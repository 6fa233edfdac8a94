//! A store with seeded failures in front: errors, delays and short transfers, the same ones for the same seed.
//!
//! Which operations fail depends on the seed and on how many operations came before, and on nothing else: a run that calls the same operations in the
//! same order meets the same failures. Each core's instance has its own order, so give each its own seed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use super::any::{AnyNode, AnyOpen, AnyPage, Plain};
use super::{
    Access, Attributes, Caller, CreateMode, Created, Error, FileSystemInfo, FileSystemLimits, Grants, Moved,
    Name, Result, SeekTarget, SetAttributes, Special, Stability, Store, TimeSpec, XattrMode,
};
use crate::engine;
use crate::limits::STORE_HANDLE_BYTES;
use crate::memory::{Buf, BufSlice, Payload};

/// One in a million.
const MILLION: u64 = 1_000_000;

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// An operation of a store that can be made to fail.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Operation {
            $($(#[$doc])* $name,)*
        }

        impl Operation {
            /// All of them.
            pub const ALL: &[Operation] = &[$(Operation::$name,)*];
        }
    };
}

operations! {
    /// [`Store::resolve`].
    Resolve,
    /// [`Store::attributes`].
    Attributes,
    /// [`Store::access`].
    Access,
    /// [`Store::set_attributes`].
    SetAttributes,
    /// [`Store::lookup`].
    Lookup,
    /// [`Store::parent`].
    Parent,
    /// [`Store::read_link`].
    ReadLink,
    /// [`Store::open`].
    Open,
    /// [`Store::read`].
    Read,
    /// [`Store::write`].
    Write,
    /// [`Store::commit`].
    Commit,
    /// [`Store::create`].
    Create,
    /// [`Store::make_directory`].
    MakeDirectory,
    /// [`Store::make_symlink`].
    MakeSymlink,
    /// [`Store::make_special`].
    MakeSpecial,
    /// [`Store::remove`].
    Remove,
    /// [`Store::remove_directory`].
    RemoveDirectory,
    /// [`Store::rename`].
    Rename,
    /// [`Store::link`].
    Link,
    /// [`Store::read_directory`].
    ReadDirectory,
    /// [`Store::file_system_info`].
    FileSystemInfo,
    /// [`Store::allocate`].
    Allocate,
    /// [`Store::deallocate`].
    Deallocate,
    /// [`Store::seek`].
    Seek,
    /// [`Store::copy_range`].
    CopyRange,
    /// [`Store::get_xattr`].
    GetXattr,
    /// [`Store::set_xattr`].
    SetXattr,
    /// [`Store::list_xattrs`].
    ListXattrs,
    /// [`Store::remove_xattr`].
    RemoveXattr,
}

/// How often, and how, one operation fails. Rates are per million calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Calls that are refused without being carried out.
    pub errors_per_million: u32,
    /// Calls that are carried out and then reported as failed, as when an answer is lost.
    pub lost_per_million: u32,
    /// What is reported; one of them is drawn. Without any: [`Error::IO`].
    pub errors: Vec<Error>,
    /// Calls that are delayed.
    pub delays_per_million: u32,
    /// The longest delay; each is drawn between nothing and this.
    pub delay: Duration,
    /// Transfers that are cut short (READ and WRITE): by a drawn number of bytes, to one byte at least. A short READ is no end of file: callers
    /// must ask for the rest.
    pub short_per_million: u32,
}

/// What fails, and the seed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Where the sequence of draws begins.
    pub seed: u64,
    /// The rates of each operation that is to fail. The first entry for an operation counts.
    pub rates: Vec<(Operation, Rates)>,
}

impl Plan {
    /// The same rates for every operation.
    pub fn everywhere(seed: u64, rates: &Rates) -> Plan {
        Plan { seed, rates: Operation::ALL.iter().map(|&operation| (operation, rates.clone())).collect() }
    }
}

/// What a plan did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// Operations that passed through.
    pub operations: u64,
    /// Refused ones.
    pub errors: u64,
    /// Carried out and reported as failed.
    pub lost: u64,
    /// Delayed ones.
    pub delays: u64,
    /// Short transfers.
    pub short: u64,
}

struct Shared {
    store: Plain,
    rates: RefCell<Vec<Rates>>,
    state: Cell<u64>,
    injected: Cell<Injected>,
}

/// A store behind seeded failures. Clones share the sequence of draws.
#[derive(Clone)]
pub struct Fault(Rc<Shared>);

/// What was drawn for one call.
struct Draw {
    refuse: Option<Error>,
    lose: Option<Error>,
    delay: Duration,
    /// Out of 2^32: the part of a transfer that remains.
    short: Option<u64>,
}

impl Fault {
    /// Puts `plan` in front of `store`.
    pub fn new(store: Plain, plan: &Plan) -> Fault {
        let rates_of = |operation: &Operation| {
            plan.rates
                .iter()
                .find(|(of, _)| of == operation)
                .map(|(_, rates)| rates.clone())
                .unwrap_or_default()
        };
        Fault(Rc::new(Shared {
            store,
            rates: RefCell::new(Operation::ALL.iter().map(rates_of).collect()),
            state: Cell::new(plan.seed),
            injected: Cell::new(Injected::default()),
        }))
    }

    /// What was injected so far.
    pub fn injected(&self) -> Injected {
        self.0.injected.get()
    }

    /// The store behind.
    pub fn inner(&self) -> &Plain {
        &self.0.store
    }

    /// The next number of the sequence (splitmix64).
    fn next(&self) -> u64 {
        let state = self.0.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.state.set(state);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Draws what becomes of a call. Always the same number of draws, so that one operation's rates do not shift another's fate.
    fn draw(&self, operation: Operation) -> Draw {
        let draws: [u64; 6] = std::array::from_fn(|_| self.next());
        let rates = &self.0.rates.borrow()[operation as usize];
        let hits = |draw: u64, rate: u32| draw % MILLION < u64::from(rate);
        let error = || match rates.errors.len() {
            0 => Error::IO,
            count => rates.errors[(draws[3] % count as u64) as usize],
        };
        let refuse = hits(draws[0], rates.errors_per_million).then(error);
        let lose = (refuse.is_none() && hits(draws[1], rates.lost_per_million)).then(error);
        let is_transfer = matches!(operation, Operation::Read | Operation::Write);
        let short = (is_transfer && refuse.is_none() && hits(draws[2] >> 20, rates.short_per_million))
            .then_some(draws[5] & 0xffff_ffff);
        let delay = if hits(draws[4], rates.delays_per_million) {
            rates.delay.mul_f64((draws[4] >> 32) as f64 / f64::from(u32::MAX))
        } else {
            Duration::ZERO
        };
        let mut injected = self.0.injected.get();
        injected.operations += 1;
        injected.errors += u64::from(refuse.is_some());
        injected.lost += u64::from(lose.is_some());
        injected.delays += u64::from(!delay.is_zero());
        injected.short += u64::from(short.is_some());
        self.0.injected.set(injected);
        Draw { refuse, lose, delay, short }
    }

    async fn fate(&self, operation: Operation) -> Result<Draw> {
        let draw = self.draw(operation);
        if !draw.delay.is_zero() {
            engine::sleep(draw.delay).await;
        }
        match draw.refuse {
            Some(error) => Err(error),
            None => Ok(draw),
        }
    }
}

impl Draw {
    fn after<T>(&self, result: Result<T>) -> Result<T> {
        match self.lose {
            Some(error) => result.and(Err(error)),
            None => result,
        }
    }

    fn shorten(&self, len_bytes: usize) -> usize {
        match self.short {
            Some(part) if len_bytes > 1 => ((len_bytes as u128 * u128::from(part)) >> 32).max(1) as usize,
            _ => len_bytes,
        }
    }
}

impl Store for Fault {
    type Node = AnyNode;
    type Open = AnyOpen;
    type Page = AnyPage;

    fn root(&self) -> AnyNode {
        self.0.store.root()
    }

    fn handle(&self, node: &AnyNode) -> arrayvec::ArrayVec<u8, STORE_HANDLE_BYTES> {
        self.0.store.handle(node)
    }

    fn file_id(&self, node: &AnyNode) -> u64 {
        self.0.store.file_id(node)
    }

    fn limits(&self) -> FileSystemLimits {
        self.0.store.limits()
    }

    /// Nothing: reads go the way on which they can fail.
    fn resident(&self, _open: &AnyOpen, _offset: u64, _len_bytes: usize) -> Option<(BufSlice, Moved)> {
        None
    }

    async fn read(&self, open: &AnyOpen, offset: u64, len_bytes: usize, into: Buf) -> (Buf, Result<Moved>) {
        let draw = match self.fate(Operation::Read).await {
            Ok(draw) => draw,
            Err(error) => return (into, Err(error)),
        };
        let (mut buf, result) = self.0.store.read(open, offset, draw.shorten(len_bytes), into).await;
        let result = draw.after(result);
        if result.is_err() {
            buf.clear();
        }
        (buf, result)
    }

    async fn write(
        &self,
        open: &AnyOpen,
        offset: u64,
        data: Payload,
        stability: Stability,
    ) -> Result<(Moved, Stability)> {
        let draw = self.fate(Operation::Write).await?;
        let mut data = data;
        data.truncate(draw.shorten(data.total_len()));
        draw.after(self.0.store.write(open, offset, data, stability).await)
    }

    async fn resolve(&self, handle: &[u8]) -> Result<AnyNode> {
        let draw = self.fate(Operation::Resolve).await?;
        draw.after(self.0.store.resolve(handle).await)
    }

    async fn attributes(&self, node: &AnyNode) -> Result<Attributes> {
        let draw = self.fate(Operation::Attributes).await?;
        draw.after(self.0.store.attributes(node).await)
    }

    async fn access(&self, caller: &Caller, node: &AnyNode, wanted: Grants) -> Result<Grants> {
        let draw = self.fate(Operation::Access).await?;
        draw.after(self.0.store.access(caller, node, wanted).await)
    }

    async fn set_attributes(
        &self,
        caller: &Caller,
        node: &AnyNode,
        change: &SetAttributes,
        guard: Option<TimeSpec>,
    ) -> Result<(Attributes, Attributes)> {
        let draw = self.fate(Operation::SetAttributes).await?;
        draw.after(self.0.store.set_attributes(caller, node, change, guard).await)
    }

    async fn lookup(&self, caller: &Caller, dir: &AnyNode, name: &Name<'_>) -> Result<(AnyNode, Attributes)> {
        let draw = self.fate(Operation::Lookup).await?;
        draw.after(self.0.store.lookup(caller, dir, name).await)
    }

    async fn parent(&self, caller: &Caller, dir: &AnyNode) -> Result<(AnyNode, Attributes)> {
        let draw = self.fate(Operation::Parent).await?;
        draw.after(self.0.store.parent(caller, dir).await)
    }

    async fn read_link(&self, caller: &Caller, node: &AnyNode, into: &mut Vec<u8>) -> Result<()> {
        let draw = self.fate(Operation::ReadLink).await?;
        draw.after(self.0.store.read_link(caller, node, into).await)
    }

    async fn open(&self, caller: &Caller, node: &AnyNode, access: Access) -> Result<AnyOpen> {
        let draw = self.fate(Operation::Open).await?;
        draw.after(self.0.store.open(caller, node, access).await)
    }

    async fn commit(&self, open: &AnyOpen, offset: u64, len_bytes: u64) -> Result<()> {
        let draw = self.fate(Operation::Commit).await?;
        draw.after(self.0.store.commit(open, offset, len_bytes).await)
    }

    async fn create(
        &self,
        caller: &Caller,
        dir: &AnyNode,
        name: &Name<'_>,
        mode: CreateMode,
        attributes: &SetAttributes,
    ) -> Result<Created<AnyNode>> {
        let draw = self.fate(Operation::Create).await?;
        draw.after(self.0.store.create(caller, dir, name, mode, attributes).await)
    }

    async fn make_directory(
        &self,
        caller: &Caller,
        dir: &AnyNode,
        name: &Name<'_>,
        attributes: &SetAttributes,
    ) -> Result<Created<AnyNode>> {
        let draw = self.fate(Operation::MakeDirectory).await?;
        draw.after(self.0.store.make_directory(caller, dir, name, attributes).await)
    }

    async fn make_symlink(
        &self,
        caller: &Caller,
        dir: &AnyNode,
        name: &Name<'_>,
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created<AnyNode>> {
        let draw = self.fate(Operation::MakeSymlink).await?;
        draw.after(self.0.store.make_symlink(caller, dir, name, target, attributes).await)
    }

    async fn make_special(
        &self,
        caller: &Caller,
        dir: &AnyNode,
        name: &Name<'_>,
        special: Special,
        attributes: &SetAttributes,
    ) -> Result<Created<AnyNode>> {
        let draw = self.fate(Operation::MakeSpecial).await?;
        draw.after(self.0.store.make_special(caller, dir, name, special, attributes).await)
    }

    async fn remove(&self, caller: &Caller, dir: &AnyNode, name: &Name<'_>) -> Result<()> {
        let draw = self.fate(Operation::Remove).await?;
        draw.after(self.0.store.remove(caller, dir, name).await)
    }

    async fn remove_directory(&self, caller: &Caller, dir: &AnyNode, name: &Name<'_>) -> Result<()> {
        let draw = self.fate(Operation::RemoveDirectory).await?;
        draw.after(self.0.store.remove_directory(caller, dir, name).await)
    }

    async fn rename(
        &self,
        caller: &Caller,
        from_dir: &AnyNode,
        from: &Name<'_>,
        to_dir: &AnyNode,
        to: &Name<'_>,
    ) -> Result<()> {
        let draw = self.fate(Operation::Rename).await?;
        draw.after(self.0.store.rename(caller, from_dir, from, to_dir, to).await)
    }

    async fn link(&self, caller: &Caller, node: &AnyNode, dir: &AnyNode, name: &Name<'_>) -> Result<()> {
        let draw = self.fate(Operation::Link).await?;
        draw.after(self.0.store.link(caller, node, dir, name).await)
    }

    async fn read_directory(
        &self,
        caller: &Caller,
        dir: &AnyNode,
        cookie: u64,
        budget_bytes: usize,
    ) -> Result<AnyPage> {
        let draw = self.fate(Operation::ReadDirectory).await?;
        draw.after(self.0.store.read_directory(caller, dir, cookie, budget_bytes).await)
    }

    async fn file_system_info(&self, node: &AnyNode) -> Result<FileSystemInfo> {
        let draw = self.fate(Operation::FileSystemInfo).await?;
        draw.after(self.0.store.file_system_info(node).await)
    }

    async fn allocate(&self, open: &AnyOpen, offset: u64, len_bytes: u64, keep_size: bool) -> Result<()> {
        let draw = self.fate(Operation::Allocate).await?;
        draw.after(self.0.store.allocate(open, offset, len_bytes, keep_size).await)
    }

    async fn deallocate(&self, open: &AnyOpen, offset: u64, len_bytes: u64) -> Result<()> {
        let draw = self.fate(Operation::Deallocate).await?;
        draw.after(self.0.store.deallocate(open, offset, len_bytes).await)
    }

    async fn seek(&self, open: &AnyOpen, offset: u64, target: SeekTarget) -> Result<u64> {
        let draw = self.fate(Operation::Seek).await?;
        draw.after(self.0.store.seek(open, offset, target).await)
    }

    async fn copy_range(
        &self,
        from: &AnyOpen,
        from_offset: u64,
        to: &AnyOpen,
        to_offset: u64,
        len_bytes: u64,
    ) -> Result<u64> {
        let draw = self.fate(Operation::CopyRange).await?;
        draw.after(self.0.store.copy_range(from, from_offset, to, to_offset, len_bytes).await)
    }

    async fn get_xattr(&self, caller: &Caller, node: &AnyNode, name: &[u8]) -> Result<Vec<u8>> {
        let draw = self.fate(Operation::GetXattr).await?;
        draw.after(self.0.store.get_xattr(caller, node, name).await)
    }

    async fn set_xattr(
        &self,
        caller: &Caller,
        node: &AnyNode,
        name: &[u8],
        value: &[u8],
        how: XattrMode,
    ) -> Result<()> {
        let draw = self.fate(Operation::SetXattr).await?;
        draw.after(self.0.store.set_xattr(caller, node, name, value, how).await)
    }

    async fn list_xattrs(&self, caller: &Caller, node: &AnyNode) -> Result<Vec<u8>> {
        let draw = self.fate(Operation::ListXattrs).await?;
        draw.after(self.0.store.list_xattrs(caller, node).await)
    }

    async fn remove_xattr(&self, caller: &Caller, node: &AnyNode, name: &[u8]) -> Result<()> {
        let draw = self.fate(Operation::RemoveXattr).await?;
        draw.after(self.0.store.remove_xattr(caller, node, name).await)
    }
}
