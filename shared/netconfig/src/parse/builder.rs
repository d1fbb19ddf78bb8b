//! Builds the model: links by id, and findings with the path of the current key.

use std::collections::{HashMap, HashSet};

use config::{Finding, FindingKind, Findings, Node, Position};

use crate::model::{Link, LinkKind, Model};

/// A parsed configuration.
#[derive(Debug, Clone, Default)]
pub struct Parsed {
    /// The model of the configuration.
    pub model: Model,
    /// Invalid or unknown parts, with their positions.
    pub findings: Findings,
    /// The findings about parts that are invalid for every network service, without what becomes of them here.
    pub invalid: Findings,
    /// The findings about unknown keys of version 2.
    pub unknown: Findings,
    /// The keys of the findings about parts that are used nevertheless.
    pub accepted: HashSet<String>,
    /// The keys of the values that are ignored.
    pub discarded: HashSet<String>,
    /// Whether each value is safe in every renderer's files, netplan's included.
    pub is_safe: bool,
    /// The devices that others refer to and that the configuration does not describe.
    pub undefined: Vec<String>,
    /// The first part that is ignored because it is invalid; `None` if the configuration is used as a whole.
    pub first_discarded: Option<Finding>,
    /// The first ignored part that may have had an address.
    pub(super) first_lost: Option<Finding>,
}

impl Parsed {
    /// Returns the findings about invalid parts with what becomes of them in a file for netplan.
    pub fn invalid_for_netplan(&self) -> Findings {
        let mut findings = Findings::default();
        for mut finding in self.invalid.iter().cloned() {
            if self.discarded.contains(&finding.key) {
                finding.message += "; ignored";
            }
            findings.push(finding);
        }
        findings
    }
}

/// Where a device is described.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// Its position.
    pub at: Position,
    /// The path of its key.
    pub key: String,
}

#[derive(Default)]
pub struct Builder {
    pub parsed: Parsed,
    /// The places of the current device and of all devices.
    pub current: Place,
    pub(super) places: HashMap<String, Place>,
    /// The devices in sections that only netplan reads.
    pub(super) elsewhere: HashSet<String>,
    index: HashMap<String, usize>,
}

impl Builder {
    pub fn new(version: u8) -> Builder {
        let model = Model { version, ..Model::default() };
        Builder { parsed: Parsed { model, ..Parsed::default() }, ..Builder::default() }
    }

    /// Makes room for further devices.
    pub fn reserve(&mut self, devices: usize) {
        self.parsed.model.links.reserve(devices);
        self.places.reserve(devices);
        self.index.reserve(devices);
    }

    /// Reports an invalid part of the configuration, which is ignored and may have had an address.
    pub fn discard(&mut self, node: &Node, key: &str, message: impl std::fmt::Display) {
        self.discard_value(node, key, message);
        self.lose();
    }

    /// Notes that an address may have been in what was reported last.
    pub fn lose(&mut self) {
        let last = self.parsed.findings.iter().last();
        self.parsed.first_lost = self.parsed.first_lost.take().or_else(|| last.cloned());
    }

    /// Reports an invalid value without which the configuration is not complete.
    pub fn discard_value(&mut self, node: &Node, key: &str, message: impl std::fmt::Display) {
        self.parsed.discarded.insert(key.to_string());
        self.discard_at(&node.at, key, &message.to_string(), "ignored");
    }

    /// Reports an invalid part of the configuration, and what becomes of it.
    pub fn discard_at(&mut self, at: &Position, key: &str, problem: &str, outcome: &str) {
        self.parsed.invalid.invalid(at, key, problem);
        let message = format!("{problem}; {outcome}");
        let finding = Finding { kind: FindingKind::Invalid, at: at.clone(), key: key.to_string(), message };
        self.parsed.first_discarded.get_or_insert_with(|| finding.clone());
        self.parsed.findings.push(finding);
    }

    /// Reports an invalid value that is ignored; without it the configuration still counts as complete.
    pub fn ignore(&mut self, node: &Node, key: &str, problem: &str) {
        self.parsed.discarded.insert(key.to_string());
        self.parsed.invalid.invalid(&node.at, key, problem);
        self.parsed.findings.invalid(&node.at, key, format!("{problem}; ignored"));
    }

    /// Reports an invalid part that is used nevertheless.
    pub fn report_invalid(&mut self, at: &Position, key: &str, problem: String) {
        self.parsed.accepted.insert(key.to_string());
        self.parsed.invalid.invalid(at, key, problem.clone());
        self.parsed.findings.invalid(at, key, problem);
    }

    pub fn report(&mut self, node: &Node, key: &str, message: impl Into<String>) {
        self.parsed.findings.invalid(&node.at, key, message);
    }

    /// Returns the device with this ID.
    pub fn link(&self, id: &str) -> Option<&Link> {
        self.index.get(id).map(|i| &self.parsed.model.links[*i])
    }

    pub fn link_mut(&mut self, id: &str) -> Option<&mut Link> {
        self.index.get(id).map(|i| &mut self.parsed.model.links[*i])
    }

    /// Removes devices by their IDs, also from those that they are members of.
    pub fn remove(&mut self, is_removed: &dyn Fn(&str) -> bool) {
        self.parsed.model.links.retain(|link| !is_removed(&link.id));
        for link in &mut self.parsed.model.links {
            link.ports.retain(|port| !is_removed(port));
        }
        self.index = self.parsed.model.links.iter().map(|l| l.id.clone()).zip(0..).collect();
    }

    /// Adds a link. If its *name* is known already (a bond's member that was named before its description), the existing
    /// link's membership is kept, and its options that the new one lacks.
    pub fn insert(&mut self, mut link: Link) {
        if let Some(old) = self.index.get(&link.name).map(|i| &self.parsed.model.links[*i]) {
            link.bond = link.bond.or_else(|| old.bond.clone());
            link.vlan_id = link.vlan_id.or_else(|| old.vlan_id.clone());
            link.vlan_link = link.vlan_link.or_else(|| old.vlan_link.clone());
            if link.ports.is_empty() {
                link.ports = old.ports.clone();
            }
            link.dns = link.dns.or_else(|| old.dns.clone());
            let new = std::mem::replace(&mut link.params, old.params.clone());
            for (key, value) in new {
                link.params.insert(key, value);
            }
        }
        if self.places.contains_key(&link.id) {
            let Place { at, key } = self.current.clone();
            self.report_invalid(&at, &key, "described twice; using the last one".into());
        }
        self.places.insert(link.id.clone(), self.current.clone());
        match self.index.get(&link.id) {
            Some(i) => self.parsed.model.links[*i] = link,
            None => {
                self.index.insert(link.id.clone(), self.parsed.model.links.len());
                self.parsed.model.links.push(link);
            }
        }
    }

    /// Returns the link with this id; adds it if it is not described (yet).
    pub fn placeholder(&mut self, id: &str, kind: LinkKind) -> &mut Link {
        if !self.index.contains_key(id) {
            self.insert(Link { id: id.to_string(), name: id.to_string(), kind, ..Link::default() });
            self.places.remove(id);
        }
        let i = self.index[id];
        &mut self.parsed.model.links[i]
    }

    /// Records the members of a bond; each gets the bond's options as well.
    pub fn join_bond(&mut self, bond: &Link, members: &[String]) {
        for member in members {
            let link = self.placeholder(member, LinkKind::Bond);
            link.bond = Some(bond.id.clone());
            for (key, value) in bond.params.iter() {
                link.params.insert(key.clone(), value.clone());
            }
        }
    }

    /// Records the ports of a bridge.
    pub fn join_bridge(&mut self, ports: &[String]) {
        for port in ports {
            self.placeholder(port, LinkKind::Unknown);
        }
    }
}
