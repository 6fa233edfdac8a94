//! The few atomics of the return path, behind one name, so that the model in `tests/model_return_path.rs` can put
//! loom's in their place and check the very code that runs here.

pub(super) use std::sync::atomic::{AtomicU32, Ordering, fence};

/// `std::cell::UnsafeCell` with the two access functions of loom's, which let the model see each access.
pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// A cell that holds `value`.
    pub(super) fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Calls `f` with a pointer to read through.
    #[inline(always)]
    pub(super) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Calls `f` with a pointer to write through.
    #[inline(always)]
    pub(super) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
