//! The parsers, values and destructors below us recurse on their input, and a stack overflow is not a panic: it ends
//! the process. Such work runs on a stack so large that what our limits (source size, fuel) let through fits.
use crate::border::{catch, Failure, Outcome};

/// Address space only: pages are committed when touched.
const STACK_BYTES: usize = 1 << 30;

/// Runs `body` on a thread of its own with a very large stack (some 30 µs more than a plain call).
pub fn with_deep_stack<T: Send>(body: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || catch(body))
            .map_err(|e| Failure::Panic(format!("cannot start a thread with a stack of {STACK_BYTES} bytes: {e}")))?
            .join()
            .unwrap_or_else(|_| Err(Failure::Panic("a thread died".into())))
    })
}
