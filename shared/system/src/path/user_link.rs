//! The rule on users' symbolic links: its state while a path is walked, and its error.

use std::io;
use std::path::PathBuf;

/// Returns the error for a link that is not followed, or a file that is not changed. It has no code, unlike the kernel's errors.
pub(super) fn refuse(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Returns whether a path was not resolved because of the rule on users' links.
pub(crate) fn is_refused(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::PermissionDenied && e.raw_os_error().is_none()
}

/// A user's link that was followed; its target must be owned by the same user.
pub(super) struct UserLink {
    pub link: PathBuf,
    /// The user, or `None` for a link that any user may have created.
    pub user: Option<u32>,
}

impl UserLink {
    /// Returns the error for a target that the link must not lead to.
    pub fn refusal(&self) -> io::Error {
        let link = self.link.display();
        refuse(match self.user {
            Some(user) => {
                format!(
                    "refusing to follow symlink {link} (owner uid {user}): target not owned by uid {user}"
                )
            }
            None => format!("refusing to follow symlink {link}: its directory is world-writable"),
        })
    }
}
