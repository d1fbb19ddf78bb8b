//! The unwinder of programs that never unwind: see docs/small-binaries.md, "Build".
//!
//! Names and results are those of the Itanium C++ ABI, "Exception Handling", level I, as far as the standard
//! library's crate `unwind` declares them: all of them, as for one that lacks the linker would take the real library,
//! and have the others twice. `packaging/build` tries that first, and leaves this file out where it fails.

#![allow(non_snake_case, unsafe_code)]

use std::ffi::{c_int, c_void};

/// "_URC_END_OF_STACK": no frame, or none left.
const END_OF_STACK: c_int = 5;

/// The one that is called: by a panic if RUST_BACKTRACE is set. `visit` would be called for each frame.
// SAFETY: the names here are reserved for an unwinder, which is what this is, the only one that is linked.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Backtrace(_visit: *const c_void, _data: *mut c_void) -> c_int {
    END_OF_STACK
}

/// What a panic that unwinds calls: "no handler was found", for which the standard library aborts.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_RaiseException(_exception: *mut c_void) -> c_int {
    END_OF_STACK
}

/// The remaining functions take a frame or an exception. None exists, so they are never called.
macro_rules! none {
    ($($name:ident)*) => { $(
        // SAFETY: as above; no argument is looked at.
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> usize {
            0
        }
    )* };
}

none! {
    _Unwind_DeleteException _Unwind_FindEnclosingFunction _Unwind_GetCFA _Unwind_GetDataRelBase
    _Unwind_GetGR _Unwind_GetIP _Unwind_GetIPInfo _Unwind_GetLanguageSpecificData _Unwind_GetRegionStart
    _Unwind_GetTextRelBase _Unwind_SetGR _Unwind_SetIP
}

/// What the end of a clean-up calls, to go on unwinding. It must not return.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume(_exception: *mut c_void) -> ! {
    std::process::abort()
}
