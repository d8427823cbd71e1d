//! What crosses the border to C++: views that come in, arrays that go out, failures, and the fence that turns a panic
//! into one. Nothing here prints.
use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

const OK: i32 = 0;
const INVALID: i32 = 1;
const PANIC: i32 = 2;

/// Why a call failed.
#[derive(Debug)]
pub enum Failure {
    /// What was handed in is wrong.
    Invalid(String),
    /// A mistake in this library or below it.
    Panic(String),
}

pub type Outcome<T> = Result<T, Failure>;

/// Any error of a library below us says that our input was wrong.
pub fn invalid(error: impl std::fmt::Display) -> Failure {
    Failure::Invalid(error.to_string())
}

/// Bytes borrowed from C++ for the time of a call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct View {
    data: *const u8,
    size: usize,
}

impl View {
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.size == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(self.data, self.size)
        }
    }

    pub unsafe fn text<'a>(self) -> Outcome<&'a str> {
        std::str::from_utf8(self.bytes())
            .map_err(|e| Failure::Invalid(format!("not UTF-8: a wrong byte at {}", e.valid_up_to())))
    }
}

/// An array given to C++, which hands it back to the matching free function.
#[repr(C)]
pub struct Array<T> {
    data: *mut T,
    size: usize,
    capacity: usize,
}

impl<T> From<Vec<T>> for Array<T> {
    fn from(items: Vec<T>) -> Self {
        let mut items = ManuallyDrop::new(items);
        Array { data: items.as_mut_ptr(), size: items.len(), capacity: items.capacity() }
    }
}

impl<T> Array<T> {
    unsafe fn free(&mut self) {
        if !self.data.is_null() {
            drop(Vec::from_raw_parts(self.data, self.size, self.capacity));
        }
        *self = Array { data: std::ptr::null_mut(), size: 0, capacity: 0 };
    }
}

#[no_mangle]
pub unsafe extern "C" fn trireme_text_bytes_free(bytes: *mut Array<u8>) {
    (*bytes).free()
}

#[no_mangle]
pub unsafe extern "C" fn trireme_text_words_free(words: *mut Array<u32>) {
    (*words).free()
}

/// Runs `body`; a failure or a panic becomes a code and a text in `error`.
pub unsafe fn fence(error: *mut Array<u8>, body: impl FnOnce() -> Outcome<()>) -> i32 {
    let (code, text) = match catch(body) {
        Ok(()) => return OK,
        Err(Failure::Invalid(text)) => (INVALID, text),
        Err(Failure::Panic(text)) => (PANIC, text),
    };
    *error = text.into_bytes().into();
    code
}

/// Runs `body` and turns a panic into a failure.
pub fn catch<T>(body: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    // The default hook writes to stderr; a caught panic is reported by its caller instead.
    static SILENCE: Once = Once::new();
    SILENCE.call_once(|| std::panic::set_hook(Box::new(|_| ())));
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(Failure::Panic(panic_text(&*payload))))
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let literal = payload.downcast_ref::<&str>().map(|s| s.to_string());
    literal.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".into())
}

/// Gives an object to C++, which hands it back to its free function.
pub unsafe fn give<T>(out: *mut *mut T, object: T) {
    *out = Box::into_raw(Box::new(object));
}

/// Frees what `give` gave. A panic in a destructor cannot be reported; it must not cross either.
pub unsafe fn take_back<T>(object: *mut T) {
    if !object.is_null() {
        let _ = catch(|| {
            drop(Box::from_raw(object));
            Ok(())
        });
    }
}
