//! The unwinder of programs that never unwind: see docs/small-binaries.md, "Build".
//!
//! Names and results are those of the Itanium C++ ABI, "Exception Handling", level I, as declared by the standard
//! library's crate `unwind`. All of them are defined: if one were missing, the linker would add the real library, and
//! the others would be duplicates. `packaging/build` tries to link with this file first, and without it if that fails.

#![allow(non_snake_case, unsafe_code)]

use std::ffi::{c_int, c_void};

/// "_URC_END_OF_STACK": no frame, or none left.
const END_OF_STACK: c_int = 5;

/// Called by a panic if RUST_BACKTRACE is set. `visit` would be called for each frame.
// SAFETY: these names are reserved for an unwinder; this is the only one that is linked.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Backtrace(_visit: *const c_void, _data: *mut c_void) -> c_int {
    END_OF_STACK
}

/// Called by a panic that unwinds: "no handler was found", after which the standard library aborts.
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

/// Called at the end of a clean-up to continue unwinding. It must not return.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume(_exception: *mut c_void) -> ! {
    std::process::abort()
}
