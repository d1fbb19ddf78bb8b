//! The problems of the state and their repairs.

use serde_json::{Value, json};
use system::{Result, WriteOptions};

use crate::finding::Finding;
use crate::machine::Machine;

/// The version of the JSON output.
const VERSION: u64 = 1;

/// A repair that loses nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    Link { path: String, target: String },
    Write { path: String, text: String },
    Remove { path: String },
}

impl Repair {
    pub fn describe(&self) -> String {
        match self {
            Repair::Link { path, target } => format!("link {path} to {target}"),
            Repair::Write { path, .. } => format!("write {path}"),
            Repair::Remove { path } => format!("remove {path}"),
        }
    }

    pub fn apply(&self, machine: &Machine) -> Result<()> {
        let sys = &machine.sys;
        match self {
            Repair::Link { path, target } => sys.link(target, path).map(drop),
            Repair::Write { path, text } => {
                sys.write(path, text, WriteOptions::default().durable()).map(drop)
            }
            Repair::Remove { path } => sys.remove(path).map(drop),
        }
    }
}

/// The problems of the state.
#[derive(Debug, Default)]
pub struct Checked {
    pub findings: Vec<(Finding, Option<Repair>)>,
    /// Files that could not be read, with the reason.
    pub unread: Vec<String>,
}

impl Checked {
    pub fn add(&mut self, finding: Finding) {
        self.findings.push((finding, None));
    }

    pub fn add_certain(&mut self, finding: Finding, repair: Repair) {
        self.findings.push((finding, Some(repair)));
    }

    /// Returns the value of a result, or `None` after recording its error.
    pub fn read<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|e| self.unread.push(e.to_string())).ok()
    }

    pub fn json(&self) -> Value {
        let of = |(finding, repair): &(Finding, Option<Repair>)| {
            let mut value = finding.json();
            value["repair"] = repair.as_ref().map(Repair::describe).into();
            value
        };
        let findings: Vec<Value> = self.findings.iter().map(of).collect();
        json!({ "version": VERSION, "findings": findings, "unread": self.unread })
    }
}
