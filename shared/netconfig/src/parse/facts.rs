//! What parsers need to know about the system, as values: `crate::facts` and `crate::nics` read it.

use std::collections::HashMap;

use config::Node;

/// What a parser is told about the machine: the names of its NICs by their addresses, and what single formats ask.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    pub nics: Vec<NicFacts>,
    /// The name of the NIC that a machine without any configuration uses.
    pub fallback: Option<String>,
    /// Netplan will write the files: it alone knows policy rules.
    pub netplan: bool,
    /// What the initramfs set up, as version 1.
    pub initramfs: Option<Node>,
    /// The root file system comes over iSCSI, from the firmware's own table.
    pub iscsi_root: bool,
    /// Where an interfaces file lies, if it is a file.
    pub interfaces_dir: Option<String>,
    /// Paths and texts of files that it names.
    pub includes: HashMap<Include, Vec<(String, String)>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NicFacts {
    pub name: String,
    /// Lower case.
    pub mac: String,
    pub infiniband: bool,
    pub driver: Option<String>,
    /// Stands for a pair of NICs that share its MAC.
    pub is_failover_master: bool,
}

impl Facts {
    /// From names and addresses, as `net-convert --mac NAME,MAC` gives them.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Facts {
        let nic = |(name, mac): (&str, &str)| NicFacts {
            name: name.to_string(),
            mac: mac.to_ascii_lowercase(),
            ..NicFacts::default()
        };
        Facts { nics: pairs.into_iter().map(nic).collect(), ..Facts::default() }
    }

    pub fn name_of(&self, mac: &str) -> Option<&str> {
        let same =
            |nic: &&NicFacts| nic.mac.eq_ignore_ascii_case(mac) || nic.short_mac().as_deref() == Some(mac);
        self.nics.iter().find(same).map(|nic| nic.name.as_str())
    }
}

impl NicFacts {
    /// The six bytes that clouds use for an InfiniBand NIC's twenty: 13 to 15 and 18 to 20.
    fn short_mac(&self) -> Option<String> {
        let bytes: Vec<&str> = self.mac.split(':').collect();
        (self.infiniband && bytes.len() == 20).then(|| [&bytes[12..15], &bytes[17..20]].concat().join(":"))
    }
}

/// `source` or `source-directory` with its pattern, made absolute.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Include {
    pub pattern: String,
    /// The pattern is of folders, whose files with plain names count.
    pub is_directory: bool,
}
