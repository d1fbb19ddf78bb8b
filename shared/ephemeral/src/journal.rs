//! Changes to links and how to revert them. The journal is written below /run before each change, so that the next
//! process reverts the changes of a killed one. It is text, one step per line.

use std::net::IpAddr;

use system::{Level, Prefix, Result, Route, System, WriteOptions, debug, info, warning};

/// A change to revert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rollback {
    /// The link was down.
    Down,
    Mtu(u32),
    Address(Prefix),
    Route(Prefix, Option<IpAddr>),
    /// An IPv6 setting of the link (`conf/accept_ra`, `neigh/retrans_time_ms`) and its previous value.
    Sysctl(String, String),
}

/// The steps of one process on one link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// The name of the file.
    name: String,
    /// The process of the steps: its ID and start time.
    owner: (u32, u64),
    /// The link's index, which a rename does not change.
    pub link: u32,
    steps: Vec<Rollback>,
}

impl Journal {
    /// Returns an empty journal of this process, in the file with this name.
    pub fn new(sys: &System, link: u32, name: String) -> Journal {
        let pid = std::process::id();
        Journal { name, owner: (pid, start_time(sys, pid).unwrap_or(0)), link, steps: Vec::new() }
    }

    fn path(&self, dir: &str) -> String {
        format!("{dir}/{}", self.name)
    }

    /// Returns whether there is nothing to revert.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Adds steps and writes the journal. The changes may be made once this is done.
    pub fn push(&mut self, sys: &System, dir: &str, steps: impl IntoIterator<Item = Rollback>) {
        self.steps.extend(steps);
        self.write(sys, dir);
    }

    /// Removes the last step, because its change was not made.
    pub fn pop(&mut self, sys: &System, dir: &str) {
        self.steps.pop();
        self.write(sys, dir);
    }

    /// Without a journal the network is still configured: only a killed process would leave it changed.
    fn write(&self, sys: &System, dir: &str) {
        if let Err(e) = sys.write(self.path(dir), self.text(), WriteOptions::default()) {
            warning!(sys, "{e}; a killed process would leave the network of interface {} changed", self.link);
        }
    }

    /// Rolls back all steps, the last one first. A failure is logged; the other steps are still rolled back.
    pub fn roll_back(&mut self, sys: &System, dir: &str) {
        let name = link_name(sys, self.link).unwrap_or_else(|| {
            // The NIC was removed, and its configuration with it.
            self.steps.clear();
            String::new()
        });
        while let Some(step) = self.steps.pop() {
            let done = match &step {
                Rollback::Down => sys.set_link_up(&name, false),
                Rollback::Mtu(mtu) => sys.set_link_mtu(&name, *mtu),
                Rollback::Address(prefix) => sys.remove_address(self.link, *prefix).map(drop),
                Rollback::Route(to, via) => {
                    // The source and the next hop are not needed to find the route.
                    let route = Route { to: *to, via: *via, link: self.link, source: None, on_link: false };
                    sys.remove_route(&route).map(drop)
                }
                Rollback::Sysctl(key, value) if read_sysctl(sys, &name, key).as_ref() != Some(value) => {
                    write_sysctl(sys, &name, key, value)
                }
                Rollback::Sysctl(..) => Ok(()),
            };
            if let Err(e) = done {
                warning!(sys, "tearing down the ephemeral network: {e}");
            }
        }
        sys.log_error(Level::Warning, sys.remove(self.path(dir)));
    }

    fn text(&self) -> String {
        let mut text = format!("process {} {}\nlink {}\n", self.owner.0, self.owner.1, self.link);
        for step in &self.steps {
            text += &match step {
                Rollback::Down => "down".to_string(),
                Rollback::Mtu(mtu) => format!("mtu {mtu}"),
                Rollback::Address(prefix) => format!("address {prefix}"),
                Rollback::Route(to, None) => format!("route {to}"),
                Rollback::Route(to, Some(via)) => format!("route {to} {via}"),
                Rollback::Sysctl(key, value) => format!("setting {key} {value}"),
            };
            text.push('\n');
        }
        text
    }

    /// Parses a journal; returns `None` for invalid text.
    fn parse(name: &str, text: &str) -> Option<Journal> {
        let mut lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let [_, pid, start] = lines.next().filter(|w| w[0] == "process")?[..] else { return None };
        let [_, link] = lines.next().filter(|w| w[0] == "link")?[..] else { return None };
        let steps = lines.map(|words| {
            Some(match words[..] {
                ["down"] => Rollback::Down,
                ["mtu", mtu] => Rollback::Mtu(mtu.parse().ok()?),
                ["address", prefix] => Rollback::Address(prefix.parse().ok()?),
                ["route", to] => Rollback::Route(to.parse().ok()?, None),
                ["route", to, via] => Rollback::Route(to.parse().ok()?, Some(via.parse().ok()?)),
                ["setting", key, value] if is_known_sysctl(key) => Rollback::Sysctl(key.into(), value.into()),
                _ => return None,
            })
        });
        Some(Journal {
            name: name.into(),
            owner: (pid.parse().ok()?, start.parse().ok()?),
            link: link.parse().ok()?,
            steps: steps.collect::<Option<_>>()?,
        })
    }
}

/// The kernel's directories of the settings that a router advertisement changes.
const SYSCTL_DIRS: [&str; 2] = ["conf", "neigh"];

/// Returns whether this is a setting of a link: a journal must not lead to any other file.
fn is_known_sysctl(key: &str) -> bool {
    key.split_once('/').is_some_and(|(dir, name)| {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        SYSCTL_DIRS.contains(&dir) && name.bytes().all(is_plain)
    })
}

fn sysctl_path(name: &str, key: &str) -> String {
    let (dir, key) = key.split_once('/').unwrap_or_default();
    format!("/proc/sys/net/ipv6/{dir}/{name}/{key}")
}

/// Returns all IPv6 settings of a link as they are now, except those that cannot be read or set.
pub fn sysctls(sys: &System, name: &str) -> Vec<Rollback> {
    let is_word = |value: &String| !value.is_empty() && !value.contains(char::is_whitespace);
    let mut found = Vec::new();
    for dir in SYSCTL_DIRS {
        for file in sys.list(format!("/proc/sys/net/ipv6/{dir}/{name}")).unwrap_or_default() {
            let key = format!("{dir}/{file}");
            let is_settable = sys.mode(sysctl_path(name, &key)).is_some_and(|mode| mode & 0o200 != 0);
            let value = read_sysctl(sys, name, &key).filter(is_word);
            found.extend(value.filter(|_| is_settable).map(|value| Rollback::Sysctl(key, value)));
        }
    }
    found
}

/// Returns an IPv6 setting of a link; `None` without IPv6.
pub fn read_sysctl(sys: &System, name: &str, key: &str) -> Option<String> {
    sys.read_text(sysctl_path(name, key)).ok().map(|t| t.trim().to_string())
}

pub fn write_sysctl(sys: &System, name: &str, key: &str, value: &str) -> Result<()> {
    sys.write(sysctl_path(name, key), format!("{value}\n"), WriteOptions::default()).map(drop)
}

fn link_name(sys: &System, index: u32) -> Option<String> {
    sys.links().ok()?.into_iter().find(|l| l.index == index).map(|l| l.name)
}

/// Returns the start time of a process in the kernel's ticks; `None` if there is no such process.
fn start_time(sys: &System, pid: u32) -> Option<u64> {
    let stat = sys.read_text(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything; the start time is the 20th field after it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Reverts the changes of processes that have ended. A link that the network service manages by now is not changed.
pub fn roll_back_stale(sys: &System, dir: &str) {
    let names = match sys.list(dir) {
        Ok(names) => names,
        Err(e) => return warning!(sys, "{e}"),
    };
    for name in names {
        let path = format!("{dir}/{name}");
        let text = match sys.read_text(&path) {
            Ok(text) => text,
            Err(e) => {
                warning!(sys, "{e}; changes recorded in it are not rolled back");
                continue;
            }
        };
        let Some(mut journal) = Journal::parse(&name, &text) else {
            warning!(sys, "invalid journal {path}; removed");
            drop(sys.remove(&path));
            continue;
        };
        let (pid, start) = journal.owner;
        // A journal of this process is one of an interrupted stage, which continues as the same process.
        if pid != std::process::id() && start_time(sys, pid) == Some(start) {
            debug!(sys, "{path}: process {pid} is still running");
        } else if crate::existing_lease::is_managed(sys, journal.link) {
            info!(
                sys,
                "interface {} is managed by the network service; keeping the network changes of process {pid}",
                journal.link
            );
            drop(sys.remove(&path));
        } else {
            info!(sys, "rolling back the network changes of process {pid} on interface {}", journal.link);
            journal.roll_back(sys, dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_text_is_parsed_to_itself() {
        let steps = vec![
            Rollback::Down,
            Rollback::Mtu(1500),
            Rollback::Address("192.0.2.7/32".parse().unwrap()),
            Rollback::Route("10.0.0.1/32".parse().unwrap(), None),
            Rollback::Route("0.0.0.0/0".parse().unwrap(), Some("10.0.0.1".parse().unwrap())),
            Rollback::Sysctl("conf/accept_ra".into(), "0".into()),
        ];
        let journal = Journal { name: "3".into(), owner: (12, 345), link: 3, steps };
        assert_eq!(Journal::parse("3", &journal.text()), Some(journal));
    }

    #[test]
    fn invalid_journals_are_rejected() {
        for text in [
            "",
            "process\n",
            "process 1 2\n",
            "process 1 2\nlink x\n",
            "process 1 2\nlink 1\nroute\n",
            "process 1 2\nlink 1\nsetting conf/../../../kernel/core_pattern x\n",
            "process 1 2\nlink 1\nsetting kernel/core_pattern x\n",
        ] {
            assert_eq!(Journal::parse("1", text), None, "{text}");
        }
    }

    #[test]
    fn a_journal_is_written_first_and_removed_last() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        let mut journal = Journal::new(&sys, 7, "7".into());
        journal.push(&sys, "/run/e", [Rollback::Down]);
        journal.push(&sys, "/run/e", [Rollback::Mtu(9000)]);
        assert!(sys.read_text("/run/e/7").unwrap().ends_with("link 7\ndown\nmtu 9000\n"));
        journal.pop(&sys, "/run/e");
        assert!(sys.read_text("/run/e/7").unwrap().ends_with("link 7\ndown\n"));
        journal.roll_back(&sys, "/run/e");
        assert!(!sys.exists("/run/e/7"));
        sys.write("/run/e/9", "nonsense", WriteOptions::default()).unwrap();
        roll_back_stale(&sys, "/run/e");
        assert!(!sys.exists("/run/e/9"));
        roll_back_stale(&sys, "/run/none");
        // A full /run must not prevent the temporary network.
        sys.write("/run/file", "", WriteOptions::default()).unwrap();
        journal.push(&sys, "/run/file/e", [Rollback::Down]);
        assert_eq!(journal.steps, [Rollback::Down]);
    }

    #[test]
    fn settings_are_recorded_unless_they_are_write_only_or_read_only() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        for (name, value, mode) in [
            ("conf/e0/hop_limit", "64\n", 0o644),
            ("conf/e0/mtu", "1500\n", 0o444),
            ("conf/e0/stable_secret", "", 0o600),
            ("conf/e1/mtu", "1400\n", 0o644),
            ("neigh/e0/retrans_time_ms", "1000\n", 0o644),
        ] {
            sys.write(format!("/proc/sys/net/ipv6/{name}"), value, WriteOptions::mode(mode)).unwrap();
        }
        let wanted = [("conf/hop_limit", "64"), ("neigh/retrans_time_ms", "1000")]
            .map(|(key, value)| Rollback::Sysctl(key.into(), value.into()));
        assert_eq!(sysctls(&sys, "e0"), wanted);
    }

    #[test]
    fn changes_of_running_processes_are_not_rolled_back() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        top.put("proc/9/stat", "9 (a) b) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0");
        assert_eq!((start_time(&sys, 9), start_time(&sys, 10)), (Some(777), None));
        for (text, stays) in [("process 9 777\nlink 1\n", true), ("process 9 778\nlink 1\n", false)] {
            sys.write("/run/e/1", text, WriteOptions::default()).unwrap();
            roll_back_stale(&sys, "/run/e");
            assert_eq!(sys.exists("/run/e/1"), stays, "{text}");
        }
        // A stage that was interrupted reverts its changes as the same process.
        let own = std::process::id();
        top.put(&format!("proc/{own}/stat"), "1 (a) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 7 0");
        sys.write("/run/e/1", format!("process {own} 7\nlink 1\n"), WriteOptions::default()).unwrap();
        roll_back_stale(&sys, "/run/e");
        assert!(!sys.exists("/run/e/1"));
    }
}
