//! Resolution of paths that are about to be changed. Everything that creates, replaces, removes or gives away a file
//! resolves its path here, to an open directory and a name in it, and then works relative to that descriptor. A
//! directory or symbolic link that is swapped in the meantime therefore has no effect.
//!
//! Symbolic links are followed as the kernel follows them, with one exception. A link that is owned by a user other than
//! root (or the caller), or that is in such a user's directory, is followed only to a target that the same user owns.
//! Otherwise a user could make root write to, or give away, any file of the machine. In a directory that is
//! world-writable and not sticky, no link is trusted.
//!
//! A path without links, which is the common case, costs one openat2(2). Paths with links, and all paths on older kernels
//! and in containers that forbid the call, are walked component by component.

mod new_directory;
mod ownership;
mod resolve;
mod resolved;
mod temporary;
mod user_link;

pub(crate) use new_directory::{DEFAULT_PARENTS, NewDirectory};
pub(crate) use ownership::{Caller, is_directory, is_link, is_regular, may_ignore_chown_error};
pub(crate) use resolve::TrailingLink;
pub(crate) use resolved::ResolvedPath;
pub(crate) use temporary::is_temporary_name;
pub(crate) use user_link::is_refused;

#[cfg(test)]
mod tests;
