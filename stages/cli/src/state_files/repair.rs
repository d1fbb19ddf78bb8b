//! Repairs of the state.

use system::{Result, WriteOptions};

use crate::machine::Machine;

/// A repair, at the place of its finding, that loses nothing.
pub enum Repair {
    LinkTo(String),
    Write(String),
    Remove,
}

impl Repair {
    pub fn describe(&self, path: &str) -> String {
        match self {
            Repair::LinkTo(target) => format!("link {path} to {target}"),
            Repair::Write(_) => format!("write {path}"),
            Repair::Remove => format!("remove {path}"),
        }
    }

    pub fn apply(&self, machine: &Machine, path: &str) -> Result<()> {
        let sys = &machine.sys;
        match self {
            Repair::LinkTo(target) => sys.link(target, path).map(drop),
            Repair::Write(text) => sys.write(path, text, WriteOptions::default().durable()).map(drop),
            Repair::Remove => sys.remove(path).map(drop),
        }
    }
}
