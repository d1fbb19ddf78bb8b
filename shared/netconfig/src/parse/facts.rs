//! Facts about the system that parsers need, as values: `crate::facts` and `crate::nics` read them.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;

use config::Node;

/// Facts about the system that parsers need: its NICs, and facts for single formats.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The NICs that a configuration can describe.
    pub nics: Vec<NicFacts>,
    /// The name of the NIC that the fallback configuration uses.
    pub fallback: Option<String>,
    /// Whether netplan's renderer writes the files: EC2 NICs get policy routes only then.
    pub netplan: bool,
    /// The network that the initramfs set up, as version 1.
    pub initramfs: Option<Node>,
    /// Whether the firmware booted the system from an iSCSI target.
    pub iscsi_root: bool,
    /// The directory of an interfaces file, if the text is a file.
    pub interfaces_dir: Option<String>,
    /// Paths and strings of the files that an interfaces file includes.
    pub includes: HashMap<Include, Vec<(String, String)>>,
    /// Whether [`Facts::name_of_needed`] has not found a NIC, which may still appear.
    pub is_nic_missing: Cell<bool>,
    /// The NICs by MAC address and by name, built when one is first looked up.
    pub index: OnceCell<[Vec<(String, usize)>; 2]>,
}

/// Facts about a NIC.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NicFacts {
    /// The interface's name.
    pub name: String,
    /// The MAC address in lower case.
    pub mac: String,
    /// Whether it is an InfiniBand NIC.
    pub infiniband: bool,
    /// The name of its kernel driver.
    pub driver: Option<String>,
    /// Whether it is the master of a failover pair, whose parts share its MAC address.
    pub is_failover_master: bool,
    /// Whether the MAC address is not the permanent one of the device.
    pub temporary_mac: bool,
}

impl Facts {
    /// Returns facts made of names and MAC addresses, as `net-convert --mac NAME,MAC` takes them.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Facts {
        let nic = |(name, mac): (&str, &str)| NicFacts {
            name: name.to_string(),
            mac: mac.to_ascii_lowercase(),
            ..NicFacts::default()
        };
        Facts { nics: pairs.into_iter().map(nic).collect(), ..Facts::default() }
    }

    /// Returns the name of the NIC with this MAC address; of an InfiniBand NIC the short form counts too.
    pub fn name_of(&self, mac: &str) -> Option<&str> {
        self.with_mac(mac).next().map(|nic| nic.name.as_str())
    }

    /// Returns the NICs with this MAC address, in any case and with either separator, in their order.
    pub(crate) fn with_mac(&self, mac: &str) -> impl Iterator<Item = &NicFacts> + Clone {
        self.found(0, mac.replace('-', ":").to_ascii_lowercase())
    }

    /// Returns the NIC with this name.
    pub(crate) fn with_name(&self, name: &str) -> Option<&NicFacts> {
        self.found(1, name.to_string()).next()
    }

    fn found(&self, by: usize, key: String) -> impl Iterator<Item = &NicFacts> + Clone {
        let index = self.index.get_or_init(|| {
            let macs = self.nics.iter().enumerate().map(|(i, nic)| (nic.mac.to_ascii_lowercase(), i));
            let short = self.nics.iter().enumerate().filter_map(|(i, nic)| Some((nic.short_mac()?, i)));
            let names = self.nics.iter().enumerate().map(|(i, nic)| (nic.name.clone(), i));
            let mut index = [macs.chain(short).collect(), names.collect()];
            index.iter_mut().for_each(|pairs: &mut Vec<_>| sort::sort(pairs));
            index
        });
        let start = index[by].partition_point(|(known, _)| *known < key);
        index[by][start..].iter().take_while(move |(known, _)| *known == key).map(|(_, i)| &self.nics[*i])
    }

    /// Returns the MAC address of the NIC with this name, if it has one.
    pub fn mac_of(&self, name: &str) -> Option<&str> {
        self.with_name(name).map(|nic| nic.mac.as_str()).filter(|mac| !mac.is_empty())
    }

    /// As [`Facts::name_of`], for a NIC without which a part of the configuration is lost; notes that it is missing.
    pub fn name_of_needed(&self, mac: &str) -> Option<&str> {
        let name = self.name_of(mac);
        self.is_nic_missing.set(self.is_nic_missing.get() || name.is_none());
        name
    }
}

impl NicFacts {
    /// Returns the six bytes that clouds use for an InfiniBand NIC's twenty: 13 to 15 and 18 to 20.
    fn short_mac(&self) -> Option<String> {
        let bytes: Vec<&str> = self.mac.split(':').collect();
        (self.infiniband && bytes.len() == 20).then(|| [&bytes[12..15], &bytes[17..20]].concat().join(":"))
    }
}

/// A `source` or `source-directory` line of an interfaces file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Include {
    /// The shell pattern, as an absolute path.
    pub pattern: String,
    /// Whether the pattern matches directories, of which files with plain names are read.
    pub is_directory: bool,
}
