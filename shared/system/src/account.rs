//! Users and groups from /etc/passwd and /etc/group of the machine. NSS is not available to a static binary.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

use crate::{Error, Result, System};

/// A line of passwd(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The login name.
    pub name: String,
    /// The user ID.
    pub uid: u32,
    /// The ID of the primary group.
    pub gid: u32,
    /// The comment field.
    pub gecos: String,
    /// The home directory.
    pub home: String,
    /// The login shell; empty for the default.
    pub shell: String,
}

/// A line of group(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The name.
    pub name: String,
    /// The group ID.
    pub gid: u32,
    /// The users of whom it is a supplementary group.
    pub members: Vec<String>,
}

/// Parses passwd(5). Invalid lines are skipped, as by the C library.
pub fn parse_passwd(text: &str) -> Vec<User> {
    text.lines()
        .filter_map(|line| {
            let field: Vec<&str> = line.split(':').collect();
            let [name, _, uid, gid, gecos, home, shell] = field[..] else { return None };
            Some(User {
                name: name.into(),
                uid: uid.parse().ok()?,
                gid: gid.parse().ok()?,
                gecos: gecos.into(),
                home: home.into(),
                shell: shell.into(),
            })
        })
        .collect()
}

/// Parses group(5). Invalid lines are skipped.
pub fn parse_group(text: &str) -> Vec<Group> {
    text.lines()
        .filter_map(|line| {
            let field: Vec<&str> = line.split(':').collect();
            let [name, _, gid, members] = field[..] else { return None };
            Some(Group {
                name: name.into(),
                gid: gid.parse().ok()?,
                members: members.split(',').filter(|m| !m.is_empty()).map(Into::into).collect(),
            })
        })
        .collect()
}

/// The files of accounts by path: they are kept, because there may be thousands of users.
pub(crate) type AccountFiles = Vec<(String, AccountFile)>;

#[derive(Debug, Default)]
pub(crate) struct AccountFile {
    /// The metadata by which a changed file is recognized.
    stamp: Option<[i128; 5]>,
    /// The content: the lines that a program appends to it are added to those that are known.
    text: String,
    /// The first line of each name.
    pub(crate) lines: BTreeMap<String, String>,
    /// The first name of each number in the third field.
    names: BTreeMap<String, String>,
}

impl AccountFile {
    pub(crate) fn add(&mut self, line: &str) {
        let mut fields = line.split(':');
        let (Some(name), Some(_)) = (fields.next(), fields.next()) else { return };
        if let Some(id) = fields.next().and_then(|id| id.parse::<u32>().ok()) {
            self.names.entry(id.to_string()).or_insert_with(|| name.into());
        }
        self.lines.entry(name.into()).or_insert_with(|| line.into());
    }
}

/// The numbers of a user and a group, each unless it is not to be changed.
type Ids = (Option<u32>, Option<u32>);

impl System {
    /// Returns whether this process runs as root.
    pub fn is_privileged(&self) -> bool {
        nix::unistd::geteuid().is_root()
    }

    /// Returns the users of /etc/passwd; none if it cannot be read.
    pub fn users(&self) -> Vec<User> {
        self.read_text("/etc/passwd").map(|t| parse_passwd(&t)).unwrap_or_default()
    }

    /// Returns the first user of that name in /etc/passwd.
    pub fn user(&self, name: &str) -> Option<User> {
        parse_passwd(&self.account_line("/etc/passwd", name)?).pop()
    }

    /// Returns the groups of /etc/group; none if it cannot be read.
    pub fn groups(&self) -> Vec<Group> {
        self.read_text("/etc/group").map(|t| parse_group(&t)).unwrap_or_default()
    }

    /// Returns the first group of that name in /etc/group.
    pub fn group(&self, name: &str) -> Option<Group> {
        parse_group(&self.account_line("/etc/group", name)?).pop()
    }

    /// Returns the first line whose field before the first colon is `name`, of a file such as passwd(5) or shadow(5);
    /// `None` also if the file cannot be read. The file is read again only if it has changed.
    pub fn account_line(&self, path: &str, name: &str) -> Option<String> {
        self.account_file(path, |file| file.lines.get(name).cloned())?
    }

    /// Returns the name of the first line with a number in its third field, of passwd(5) or group(5).
    pub fn account_name(&self, path: &str, id: u32) -> Option<String> {
        self.account_file(path, |file| file.names.get(&id.to_string()).cloned())?
    }

    /// Passes the current content of a file of accounts to a function; `None` if the file cannot be read.
    pub(crate) fn account_file<T>(&self, path: &str, work: impl FnOnce(&AccountFile) -> T) -> Option<T> {
        let stamp = self.account_stamp(path);
        let mut files = self.account_files.borrow_mut();
        let at = files.iter().position(|(known, _)| known == path).unwrap_or_else(|| {
            files.push((path.to_string(), AccountFile::default()));
            files.len() - 1
        });
        let file = &mut files[at].1;
        if stamp.is_none() || file.stamp != stamp {
            file.stamp = None;
            let text = self.read_text(path).ok()?;
            if !(file.text.ends_with('\n') && text.starts_with(&file.text)) {
                *file = AccountFile::default();
            }
            text[file.text.len()..].lines().for_each(|line| file.add(line));
            (file.stamp, file.text) = (stamp, text);
        }
        Some(work(file))
    }

    /// Adds a line that this process appended to a file of accounts after it was read.
    pub(crate) fn add_account_line(&self, path: &str, line: &str) {
        let stamp = self.account_stamp(path);
        let mut files = self.account_files.borrow_mut();
        if let Some((_, file)) = files.iter_mut().find(|(known, _)| known == path) {
            file.add(line);
            file.text.extend([line, "\n"]);
            file.stamp = stamp;
        }
    }

    fn account_stamp(&self, path: &str) -> Option<[i128; 5]> {
        let meta = self.metadata(path).ok()?;
        let (changed, nanoseconds) = (meta.ctime().into(), meta.ctime_nsec().into());
        Some([meta.dev().into(), meta.ino().into(), meta.size().into(), changed, nanoseconds])
    }

    /// Returns the numbers of `user:group` in the syntax of chown(1). Empty, `-1` and `none` stand for an unchanged half.
    ///
    /// # Errors
    /// Fails if a name is neither a number nor a user or group of the machine.
    pub fn owner(&self, text: &str) -> Result<Ids> {
        self.find_owner(text).map_err(|(kind, name)| Error::new(format!("no {kind} named '{name}'")))
    }

    /// As [`System::owner`].
    ///
    /// # Errors
    /// Fails with `user` or `group` and a name that the machine does not have.
    pub fn find_owner<'t>(&self, text: &'t str) -> std::result::Result<Ids, (&'static str, &'t str)> {
        let (user, group) = text.split_once(':').unwrap_or((text, ""));
        let id = |kind, name: &'t str, find: &dyn Fn(&str) -> Option<u32>| match name.trim() {
            "" | "-1" | "none" | "None" => Ok(None),
            name => match name.parse().ok().or_else(|| find(name)) {
                None => Err((kind, name)),
                id => Ok(id),
            },
        };
        let uid = id("user", user, &|name| Some(self.user(name)?.uid))?;
        Ok((uid, id("group", group, &|name| Some(self.group(name)?.gid))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_passwd_lines_are_skipped() {
        let users =
            parse_passwd("root:x:0:0:root:/root:/bin/sh\nbad\n+nis\na:x:x:1:::\nb:x:7:8:B,1:/home/b:\n");
        assert_eq!(users.iter().map(|u| (&*u.name, u.uid)).collect::<Vec<_>>(), [("root", 0), ("b", 7)]);
    }

    #[test]
    fn a_changed_file_is_read_again() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        let uid = |text: &str, name: &str| {
            top.put("/etc/passwd", text);
            sys.user(name).map(|user| user.uid)
        };
        assert_eq!(uid("a:x:1:1::/:", "a"), Some(1));
        // The line is longer, lines are appended, the first one of a name counts, lines are changed and removed.
        assert_eq!(uid("a:x:1:1::/:/bin/sh\n", "a"), Some(1));
        assert_eq!(uid("a:x:1:1::/:/bin/sh\nb:x:2:2::/:\n", "b"), Some(2));
        assert_eq!(uid("a:x:1:1::/:/bin/sh\nb:x:2:2::/:\na:x:30:3::/:\n", "a"), Some(1));
        assert_eq!(uid("a:x:4:1::/:/bin/sh\nb:x:2:2::/:\n", "a"), Some(4));
        assert_eq!(uid("b:x:2:2::/:\n", "a"), None);
        assert_eq!(sys.account_name("/etc/passwd", 2).as_deref(), Some("b"));
        assert_eq!(sys.account_name("/etc/passwd", 4), None);
    }

    #[test]
    fn invalid_group_lines_are_skipped() {
        let groups = parse_group("adm:x:4:syslog,a\nempty:x:9:\nx\n");
        assert_eq!(groups[0].members, ["syslog", "a"]);
        assert!(groups[1].members.is_empty());
        assert_eq!(groups.len(), 2);
    }
}
