//! Mounted file systems (proc_pid_mountinfo(5)).

use crate::{Result, System};

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountInfo {
    /// The major number of the file system's device.
    pub major: u32,
    /// The minor number of the file system's device.
    pub minor: u32,
    /// The path that it is mounted at.
    pub mount_point: String,
    /// The options of the mount, not of the file system: `rw,relatime`.
    pub options: String,
    /// The type of the file system: `ext4`.
    pub fs_type: String,
    /// The device or another source.
    pub source: String,
}

/// Returns the mounts of all valid lines.
pub(crate) fn parse_mountinfo(text: &str) -> Vec<MountInfo> {
    text.lines()
        .filter_map(|line| {
            let (head, tail) = line.split_once(" - ")?;
            let mut head = head.split(' ').skip(2);
            let (major, minor) = head.next()?.split_once(':')?;
            let _root = head.next()?;
            let mount_point = unescape(head.next()?);
            let options = head.next()?.to_string();
            let mut tail = tail.split(' ');
            let (fs_type, source) = (tail.next()?.to_string(), unescape(tail.next()?));
            Some(MountInfo {
                major: major.parse().ok()?,
                minor: minor.parse().ok()?,
                mount_point,
                options,
                fs_type,
                source,
            })
        })
        .collect()
}

/// Decodes escapes such as `\040`.
pub fn unescape(field: &str) -> String {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = (*first == b'\\').then(|| tail.get(..3)).flatten();
        let code = code.and_then(|c| std::str::from_utf8(c).ok()).and_then(|c| u8::from_str_radix(c, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl System {
    /// Returns the mounts in the order of mounting: a later one covers an earlier one at the same point.
    ///
    /// # Errors
    /// Fails if procfs cannot be read.
    pub fn mounts(&self) -> Result<Vec<MountInfo>> {
        Ok(parse_mountinfo(&self.read_text("/proc/self/mountinfo")?))
    }
}

/// Returns the visible mount at a point.
pub fn mounted_at<'m>(mounts: &'m [MountInfo], point: &str) -> Option<&'m MountInfo> {
    let point = if point.len() > 1 { point.trim_end_matches('/') } else { point };
    mounts.iter().rev().find(|m| m.mount_point == point)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topmost_mount_of_a_path_is_found() {
        let text = "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
                    30 22 0:26 /@ /my\\040data ro - btrfs /dev/vdb\\134 rw,subvol=/@\n\
                    junk\n31 22 x:1 / /bad rw - ext4 a rw\n\
                    40 22 0:5 / / rw - overlay overlayroot rw\n";
        let mounts = parse_mountinfo(text);
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounted_at(&mounts, "/").unwrap().source, "overlayroot");
        let data = mounted_at(&mounts, "/my data/").unwrap();
        assert_eq!(
            (&*data.fs_type, &*data.source, data.minor, &*data.options),
            ("btrfs", "/dev/vdb\\", 26, "ro")
        );
        assert_eq!(mounted_at(&mounts, "/none"), None);
    }
}
