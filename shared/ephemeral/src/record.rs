//! What was changed, and how to change it back. It is written below /run before each change, so that what a killed
//! process left is undone by the next one. Text, one step a line, for people too.

use std::net::IpAddr;

use system::{Prefix, Result, Route, System, Write, debug, info, warning};

/// A step back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undo {
    /// The link was down.
    Down,
    Mtu(u32),
    Address(Prefix),
    Route(Prefix, Option<IpAddr>),
    /// A setting of the kernel for the link, below /proc/sys/net/ipv6/conf, and what it was.
    Setting(String, String),
}

/// The steps of one process on one link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Whose steps they are: number and start of the process.
    owner: (u32, u64),
    /// The link's number, which stays when it is renamed.
    pub link: u32,
    steps: Vec<Undo>,
}

impl Record {
    /// An empty one of this process.
    pub fn new(sys: &System, link: u32) -> Record {
        let pid = std::process::id();
        Record { owner: (pid, started(sys, pid).unwrap_or(0)), link, steps: Vec::new() }
    }

    fn path(dir: &str, link: u32) -> String {
        format!("{dir}/{link}")
    }

    /// Adds a step and writes the record. The change may be made once this is done.
    pub fn push(&mut self, sys: &System, dir: &str, step: Undo) -> Result<()> {
        self.steps.push(step);
        self.write(sys, dir)
    }

    /// Takes the last step back: its change was not made after all.
    pub fn pop(&mut self, sys: &System, dir: &str) -> Result<()> {
        self.steps.pop();
        self.write(sys, dir)
    }

    fn write(&self, sys: &System, dir: &str) -> Result<()> {
        sys.write(Record::path(dir, self.link), self.text(), Write::default()).map(drop)
    }

    /// Undoes all of it, the last step first. What fails is said and survived; trying again would not help it.
    pub fn undo(&mut self, sys: &System, dir: &str) {
        let name = match link_name(sys, self.link) {
            Some(name) => name,
            None => {
                // The NIC is gone, and with it everything that it had.
                self.steps.clear();
                String::new()
            }
        };
        while let Some(step) = self.steps.pop() {
            let done = match &step {
                Undo::Down => sys.set_link_up(&name, false),
                Undo::Mtu(mtu) => sys.set_link_mtu(&name, *mtu),
                Undo::Address(prefix) => sys.remove_address(self.link, *prefix).map(drop),
                Undo::Route(to, via) => {
                    // Source and next hop's place play no part in finding it.
                    let route = Route { to: *to, via: *via, link: self.link, source: None, on_link: false };
                    sys.remove_route(&route).map(drop)
                }
                Undo::Setting(key, value) => set(sys, &name, key, value),
            };
            if let Err(e) = done {
                warning!(sys, "undoing the network for metadata: {e}");
            }
        }
        if let Err(e) = sys.remove(Record::path(dir, self.link)) {
            warning!(sys, "{e}");
        }
    }

    fn text(&self) -> String {
        let mut text = format!("process {} {}\nlink {}\n", self.owner.0, self.owner.1, self.link);
        for step in &self.steps {
            text += &match step {
                Undo::Down => "down".to_string(),
                Undo::Mtu(mtu) => format!("mtu {mtu}"),
                Undo::Address(prefix) => format!("address {prefix}"),
                Undo::Route(to, None) => format!("route {to}"),
                Undo::Route(to, Some(via)) => format!("route {to} {via}"),
                Undo::Setting(key, value) => format!("setting {key} {value}"),
            };
            text.push('\n');
        }
        text
    }

    /// `None` for what is no record.
    fn parse(text: &str) -> Option<Record> {
        let mut lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let [_, pid, start] = lines.next().filter(|w| w[0] == "process")?[..] else { return None };
        let [_, link] = lines.next().filter(|w| w[0] == "link")?[..] else { return None };
        let steps = lines.map(|words| {
            Some(match words[..] {
                ["down"] => Undo::Down,
                ["mtu", mtu] => Undo::Mtu(mtu.parse().ok()?),
                ["address", prefix] => Undo::Address(prefix.parse().ok()?),
                ["route", to] => Undo::Route(to.parse().ok()?, None),
                ["route", to, via] => Undo::Route(to.parse().ok()?, Some(via.parse().ok()?)),
                ["setting", key, value] if is_setting(key) => Undo::Setting(key.into(), value.into()),
                _ => return None,
            })
        });
        Some(Record {
            owner: (pid.parse().ok()?, start.parse().ok()?),
            link: link.parse().ok()?,
            steps: steps.collect::<Option<_>>()?,
        })
    }
}

/// The settings that are ever changed: a record must not lead anywhere else.
fn is_setting(key: &str) -> bool {
    ["accept_ra", "autoconf"].contains(&key)
}

fn setting_path(name: &str, key: &str) -> String {
    format!("/proc/sys/net/ipv6/conf/{name}/{key}")
}

/// A setting of the kernel for a link; `None` where there is no IPv6.
pub fn setting(sys: &System, name: &str, key: &str) -> Option<String> {
    sys.read_text(setting_path(name, key)).ok().map(|t| t.trim().to_string())
}

pub fn set(sys: &System, name: &str, key: &str, value: &str) -> Result<()> {
    sys.write(setting_path(name, key), format!("{value}\n"), Write::default()).map(drop)
}

fn link_name(sys: &System, index: u32) -> Option<String> {
    sys.links().ok()?.into_iter().find(|l| l.index == index).map(|l| l.name)
}

/// When a process began, in the kernel's ticks; `None` when there is no such process.
fn started(sys: &System, pid: u32) -> Option<u64> {
    let stat = sys.read_text(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; the start is the 20th field behind it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Undoes what processes that are no more left on links. A link that the network service has taken over by now is
/// left to it.
pub fn clear(sys: &System, dir: &str) {
    let names = match sys.list(dir) {
        Ok(names) => names,
        Err(e) => return warning!(sys, "{e}"),
    };
    for name in names {
        let path = format!("{dir}/{name}");
        let text = match sys.read_text(&path) {
            Ok(text) => text,
            Err(e) => {
                warning!(sys, "{e}; what it says of a network for metadata is not undone");
                continue;
            }
        };
        let Some(mut record) = Record::parse(&text) else {
            warning!(sys, "{path} is no record of a network for metadata; removed");
            drop(sys.remove(&path));
            continue;
        };
        let (pid, start) = record.owner;
        // This process itself has begun nothing yet, or has been stopped while it was at it.
        if pid != std::process::id() && started(sys, pid) == Some(start) {
            debug!(sys, "{path}: process {pid} is still at work");
        } else if crate::held::is_managed(sys, record.link) {
            info!(
                sys,
                "network link {} is the network service's by now; what process {pid} left stays", record.link
            );
            drop(sys.remove(&path));
        } else {
            info!(sys, "undoing what process {pid} left on network link {}", record.link);
            record.undo(sys, dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sandbox(name: &str) -> (System, std::path::PathBuf) {
        let top = std::env::temp_dir().join(format!("ephemeral-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&top);
        (System::new(&top), top)
    }

    #[test]
    fn there_and_back() {
        let steps = vec![
            Undo::Down,
            Undo::Mtu(1500),
            Undo::Address("192.0.2.7/32".parse().unwrap()),
            Undo::Route("10.0.0.1/32".parse().unwrap(), None),
            Undo::Route("0.0.0.0/0".parse().unwrap(), Some("10.0.0.1".parse().unwrap())),
            Undo::Setting("accept_ra".into(), "0".into()),
        ];
        let record = Record { owner: (12, 345), link: 3, steps };
        assert_eq!(Record::parse(&record.text()), Some(record));
    }

    #[test]
    fn what_is_no_record() {
        for text in [
            "",
            "process\n",
            "process 1 2\n",
            "process 1 2\nlink x\n",
            "process 1 2\nlink 1\nroute\n",
            "process 1 2\nlink 1\nsetting ../../../kernel/core_pattern x\n",
        ] {
            assert_eq!(Record::parse(text), None, "{text}");
        }
    }

    #[test]
    fn written_before_and_gone_after() {
        let (sys, top) = sandbox("record");
        let mut record = Record::new(&sys, 7);
        record.push(&sys, "/run/e", Undo::Down).unwrap();
        record.push(&sys, "/run/e", Undo::Mtu(9000)).unwrap();
        assert!(sys.read_text("/run/e/7").unwrap().ends_with("link 7\ndown\nmtu 9000\n"));
        record.pop(&sys, "/run/e").unwrap();
        assert!(sys.read_text("/run/e/7").unwrap().ends_with("link 7\ndown\n"));
        record.undo(&sys, "/run/e");
        assert!(!sys.exists("/run/e/7"));
        sys.write("/run/e/9", "nonsense", Write::default()).unwrap();
        clear(&sys, "/run/e");
        assert!(!sys.exists("/run/e/9"));
        clear(&sys, "/run/none");
        std::fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn the_living_are_left_alone() {
        let (sys, top) = sandbox("living");
        sys.write("/proc/9/stat", "9 (a) b) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0", Write::default())
            .unwrap();
        assert_eq!((started(&sys, 9), started(&sys, 10)), (Some(777), None));
        for (text, stays) in [("process 9 777\nlink 1\n", true), ("process 9 778\nlink 1\n", false)] {
            sys.write("/run/e/1", text, Write::default()).unwrap();
            clear(&sys, "/run/e");
            assert_eq!(sys.exists("/run/e/1"), stays, "{text}");
        }
        // A stage that was stopped, and undoes as the same process what it had begun.
        let own = std::process::id();
        sys.write(
            format!("/proc/{own}/stat"),
            "1 (a) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 7 0",
            Write::default(),
        )
        .unwrap();
        sys.write("/run/e/1", format!("process {own} 7\nlink 1\n"), Write::default()).unwrap();
        clear(&sys, "/run/e");
        assert!(!sys.exists("/run/e/1"));
        std::fs::remove_dir_all(top).unwrap();
    }
}
