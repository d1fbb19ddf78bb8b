//! SELinux labels. A file that is renamed into place has the label of its directory. Some files (/etc/hostname, keys) need
//! another one, which restorecon(8) sets by the policy.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::{Command, Effect, Result, System};

impl System {
    /// Restores the labels of all files written so far. Does nothing without SELinux.
    ///
    /// # Errors
    /// Fails if restorecon fails.
    pub fn restore_selinux_labels(&self) -> Result<()> {
        self.restore_selinux_labels_of(sort::collect(self.effects().into_iter().filter_map(labelled_path)))
    }

    /// Restores the labels of these files, with one restorecon(8) process. Does nothing without SELinux.
    ///
    /// # Errors
    /// Fails if restorecon fails.
    pub fn restore_selinux_labels_of(&self, written: BTreeSet<String>) -> Result<()> {
        if written.is_empty()
            || !self.may_set_kernel()
            || !self.exists("/sys/fs/selinux/enforce")
            || self.which("restorecon").is_none()
        {
            return Ok(());
        }
        let lines = written.into_iter().filter(|path| !path.contains('\n'));
        let list = lines.collect::<Vec<_>>().join("\n") + "\n";
        // -i: ignore missing files; -f -: read the names from standard input.
        // Wait: every stage | restorecon, at its end | -
        let command =
            Command::new(["restorecon", "-i", "-f", "-"]).stdin(list).timeout(Duration::from_secs(60));
        self.run(&command).map(drop)
    }
}

/// Returns the path of an effect whose label is restored: not below /run, /proc, /sys and /dev, which are created at each boot by
/// labelled processes, nor below /var/lib/cloud, whose files have its label and which policies may hide from restorecon(8).
fn labelled_path(effect: Effect) -> Option<String> {
    let path = match effect {
        Effect::Write { path, .. } | Effect::Directory { path, .. } | Effect::Link { path, .. } => path,
        Effect::Remove { .. } | Effect::Run { .. } | Effect::Other { .. } => return None,
    };
    let elsewhere =
        ["/run/", "/proc/", "/sys/", "/dev/", "/var/lib/cloud/"].iter().any(|top| path.starts_with(top));
    (!elsewhere).then_some(path)
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
        for path in ["/run/cloud-init/x", "/var/lib/cloud/data/instance-id"] {
            assert_eq!(labelled_path(write(path)), None, "{path}");
        }
        assert_eq!(labelled_path(Effect::Remove { path: "/etc/x".into() }), None);
    }
}
