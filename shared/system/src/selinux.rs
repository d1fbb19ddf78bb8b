//! SELinux labels. A file that is renamed into place has the label of its directory. Some files (/etc/hostname, keys) need
//! another one, which restorecon(8) sets by the policy.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::{Command, Effect, Result, System};

impl System {
    /// Restores the labels of all files written so far, with one restorecon(8) process. Does nothing without SELinux.
    ///
    /// # Errors
    /// Fails if restorecon fails.
    pub fn restore_selinux_labels(&self) -> Result<()> {
        if !self.may_set_kernel()
            || !self.exists("/sys/fs/selinux/enforce")
            || self.which("restorecon").is_none()
        {
            return Ok(());
        }
        let written: BTreeSet<String> = sort::collect(self.effects().into_iter().filter_map(labelled_path));
        if written.is_empty() {
            return Ok(());
        }
        let list = written.into_iter().collect::<Vec<_>>().join("\n") + "\n";
        // -i: ignore missing files; -f -: read the names from standard input.
        // Wait: every stage | restorecon, at its end | -
        let command =
            Command::new(["restorecon", "-i", "-f", "-"]).stdin(list).timeout(Duration::from_secs(60));
        self.run(&command).map(drop)
    }
}

/// Returns the path of an effect whose label is restored: not below /run, /proc, /sys and /dev, which are created at each boot by
/// labelled processes.
fn labelled_path(effect: Effect) -> Option<String> {
    let path = match effect {
        Effect::Write { path, .. } | Effect::Directory { path, .. } | Effect::Link { path, .. } => path,
        Effect::Remove { .. } | Effect::Run { .. } | Effect::Other { .. } => return None,
    };
    let elsewhere = ["/run/", "/proc/", "/sys/", "/dev/"].iter().any(|top| path.starts_with(top));
    (!elsewhere && !path.contains('\n')).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Change;

    #[test]
    fn only_persistent_files_get_a_label() {
        let write = |path: &str| Effect::Write {
            path: path.into(),
            mode: 0o644,
            owner: (None, None),
            change: Change::Created,
        };
        assert_eq!(labelled_path(write("/etc/hostname")).as_deref(), Some("/etc/hostname"));
        assert_eq!(labelled_path(write("/run/cloud-init/x")), None);
        assert_eq!(labelled_path(Effect::Remove { path: "/etc/x".into() }), None);
    }
}
