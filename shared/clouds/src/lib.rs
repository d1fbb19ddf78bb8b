//! The rules that identify each cloud, as data: one row of [`CLOUDS`] per cloud. Everything that needs a list of clouds reads
//! this table: ds-identify, the datasources' check of the firmware, the default `datasource_list`, and the manual page.
//!
//! The crate reads firmware in one place, [`Cloud::firmware_matches`]. Seeds, file systems and the few checks that need
//! more than data belong to the crate `identify`.

#![warn(missing_docs)]

mod ec2;
mod firmware;
mod order;
mod rule;
mod table;

pub use ec2::{is_ec2_uuid, is_outscale};
pub use order::{IDENTIFY_ORDER, SEARCH_ORDER};
pub use rule::{DmiField, Match, Rule};
pub use table::{ALIAS, CLOUDS, cloud, is_name};

/// One cloud: a row of [`CLOUDS`].
#[derive(Debug)]
pub struct Cloud {
    /// The name, spelled as in `datasource_list`.
    pub name: &'static str,
    /// The boot stages in which its datasource can find an instance.
    pub stages: Stages,
    /// The position, from 1, in the list that ds-identify checks when the configuration has no `datasource_list`; 0 if
    /// the cloud is not in that list. It is not the order of the rows: upstream has two orders, and both are visible.
    pub identify_order: usize,
    /// The evidence for this cloud, the cheapest first.
    pub rules: &'static [Rule],
    /// A description of the evidence, for the manual page; empty if the rules suffice.
    pub note: &'static str,
}

/// The boot stages in which a datasource can find an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stages {
    /// The local stage, before networking.
    pub local: bool,
    /// The network stage.
    pub network: bool,
}

impl Stages {
    pub(crate) const LOCAL: Stages = Stages { local: true, network: false };
    pub(crate) const NETWORK: Stages = Stages { local: false, network: true };
    pub(crate) const BOTH: Stages = Stages { local: true, network: true };
}

impl Cloud {
    /// Returns whether a block device that appears later could change the result of a check.
    pub fn needs_devices(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule, Rule::Label(_)))
    }

    /// Returns the labels of the file systems that identify the cloud.
    pub fn labels(&self) -> &'static [&'static str] {
        let labels = self.rules.iter().find_map(|rule| match rule {
            Rule::Label(labels) => Some(*labels),
            _ => None,
        });
        labels.unwrap_or_default()
    }

    /// Returns what identifies the cloud, in a few words: for the manual page and `ds-identify --explain`.
    pub fn identified_by(&self) -> String {
        if !self.note.is_empty() {
            return self.note.to_string();
        }
        let words: Vec<String> = self.rules.iter().filter_map(Rule::describe).collect();
        match words.as_slice() {
            [] => String::new(),
            [only] => only.clone(),
            [first @ .., last] => format!("{}, or {last}", first.join(", ")),
        }
    }
}

/// Returns the paths at which VMware's tools may have the plugin that unpacks customization files.
pub fn vmware_plugin_paths() -> impl Iterator<Item = String> {
    let architectures = ["x86_64", "aarch64", "i386"].map(|name| format!("/usr/lib/{name}-linux-gnu"));
    let libraries = ["/usr/lib", "/usr/lib64"].map(String::from).into_iter().chain(architectures);
    libraries.flat_map(|library| {
        ["vmware-tools", "open-vm-tools"]
            .map(|tools| format!("{library}/{tools}/plugins/vmsvc/libdeployPkgPlugin.so"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANUAL_PAGE: &str = "packaging/man/ds-identify.8";

    /// The section DATASOURCES of the manual page is generated from the table, with one entry per row.
    #[test]
    fn generated_manual_page_lists_all_clouds() {
        let page = std::fs::read_to_string(scratch::source_path(MANUAL_PAGE)).unwrap();
        let section = page.find(".SH DATASOURCES").unwrap();
        let begin = section + page[section..].find("\n.TP\n").unwrap() + 1;
        let end = begin + page[begin..].find("\n.SH ").unwrap() + 1;
        let mut rows: Vec<&Cloud> = CLOUDS.iter().collect();
        rows.sort_by_key(|cloud| cloud.name.to_lowercase());
        let entry = |cloud: &&Cloud| {
            let words = cloud.identified_by().replace('-', "\\-");
            format!(".TP\n.B {}\n{words}\n", cloud.name)
        };
        let list: String = rows.iter().map(entry).collect();
        scratch::check_generated(&[(MANUAL_PAGE, format!("{}{list}{}", &page[..begin], &page[end..]))]);
    }

    #[test]
    fn names_of_images_mean_a_datasource() {
        for (entry, name, expected) in [
            ("Ec2Kubernetes", "Ec2", true),
            ("DataSourceEc2Kubernetes", "Ec2", true),
            ("Ec2Kubernetes", "NoCloud", false),
            ("nocloud-net", "NoCloud", true),
            ("Ec2Other", "Ec2", false),
        ] {
            assert_eq!(is_name(entry, name), expected, "{entry}");
        }
        assert_eq!(cloud("Ec2Kubernetes").map(|cloud| cloud.name), Some("Ec2"));
    }

    #[test]
    fn only_the_search_order_contains_none() {
        assert_eq!(SEARCH_ORDER[..2], ["NoCloud", "ConfigDrive"]);
        assert_eq!(SEARCH_ORDER.last(), Some(&"None"));
        assert_eq!(IDENTIFY_ORDER[..3], ["MAAS", "ConfigDrive", "NoCloud"]);
        assert_eq!(IDENTIFY_ORDER.len() + 1, SEARCH_ORDER.len(), "ds-identify never checks None");
    }
}
