//! Users and groups, read from the machine's own files: a static binary has no NSS.

use crate::{Error, Result, System};

/// A line of passwd(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    pub gecos: String,
    pub home: String,
    pub shell: String,
}

/// A line of group(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub name: String,
    pub gid: u32,
    pub members: Vec<String>,
}

/// The lines of passwd(5) that make sense; others are passed over, as the C library does.
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

/// The lines of group(5) that make sense.
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

/// The lines whose first field is that name: one is looked for for each user who is made, so the others are not read.
fn named<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter(move |line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))
}

impl System {
    /// Whether this process may give files to others.
    pub fn is_privileged(&self) -> bool {
        nix::unistd::geteuid().is_root()
    }

    /// Everybody in /etc/passwd; nobody when it cannot be read.
    pub fn users(&self) -> Vec<User> {
        self.read_text("/etc/passwd").map(|t| parse_passwd(&t)).unwrap_or_default()
    }

    /// The first of that name in /etc/passwd.
    pub fn user(&self, name: &str) -> Option<User> {
        named(&self.read_text("/etc/passwd").ok()?, name).find_map(|line| parse_passwd(line).pop())
    }

    /// All of /etc/group; none when it cannot be read.
    pub fn groups(&self) -> Vec<Group> {
        self.read_text("/etc/group").map(|t| parse_group(&t)).unwrap_or_default()
    }

    /// The first of that name in /etc/group.
    pub fn group(&self, name: &str) -> Option<Group> {
        named(&self.read_text("/etc/group").ok()?, name).find_map(|line| parse_group(line).pop())
    }

    /// `user:group` as chown(1) takes it (names or numbers; empty, `-1` and `none` leave that half alone)
    /// as numbers.
    pub fn owner(&self, text: &str) -> Result<(Option<u32>, Option<u32>)> {
        let (user, group) = text.split_once(':').unwrap_or((text, ""));
        let leave = |s: &str| matches!(s, "" | "-1" | "none" | "None");
        let uid = match user.trim() {
            name if leave(name) => None,
            name => Some(match name.parse() {
                Ok(id) => id,
                Err(_) => self.user(name).ok_or_else(|| Error::new(format!("no user named '{name}'")))?.uid,
            }),
        };
        let gid = match group.trim() {
            name if leave(name) => None,
            name => Some(match name.parse() {
                Ok(id) => id,
                Err(_) => self.group(name).ok_or_else(|| Error::new(format!("no group named '{name}'")))?.gid,
            }),
        };
        Ok((uid, gid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwd_lines() {
        let users =
            parse_passwd("root:x:0:0:root:/root:/bin/sh\nbad\n+nis\na:x:x:1:::\nb:x:7:8:B,1:/home/b:\n");
        assert_eq!(users.iter().map(|u| (&*u.name, u.uid)).collect::<Vec<_>>(), [("root", 0), ("b", 7)]);
    }

    #[test]
    fn group_lines() {
        let groups = parse_group("adm:x:4:syslog,a\nempty:x:9:\nx\n");
        assert_eq!(groups[0].members, ["syslog", "a"]);
        assert!(groups[1].members.is_empty());
        assert_eq!(groups.len(), 2);
    }
}
