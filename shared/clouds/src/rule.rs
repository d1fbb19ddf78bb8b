//! The kinds of detection rules that the table can have.

/// A detection rule: evidence that a machine runs on a cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A DMI field of the firmware. It does not count in a container, where it is the host's.
    Dmi(DmiField, Match),
    /// Like [`Rule::Dmi`], but ds-identify accepts it in a container too, as upstream does.
    HostDmi(DmiField, Match),
    /// The variable `product_name` in the environment of PID 1 has this value.
    Pid1ProductName(&'static str),
    /// The kernel command line has this parameter.
    KernelParameter(&'static str),
    /// This file exists.
    File(&'static str),
    /// This file below `/var/lib/cloud` exists.
    CloudFile(&'static str),
    /// The directory of this name below `/var/lib/cloud/seed` has all of these files.
    Seed(&'static str, &'static [&'static str]),
    /// systemd has one of these credentials for the machine (systemd.system-credentials(7)).
    Credential(&'static [&'static str]),
    /// A file system has one of these labels.
    Label(&'static [&'static str]),
    /// Counts in ds-identify only. Upstream's ds-identify and its datasource differ in what they accept.
    IdentifyOnly(&'static Rule),
    /// Counts in the stages only, for the same reason.
    StageOnly(&'static Rule),
}

/// A DMI (SMBIOS) field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DmiField {
    /// The manufacturer of the system.
    SysVendor,
    /// The name of the product.
    ProductName,
    /// The serial number of the system.
    ProductSerial,
    /// The asset tag of the chassis.
    ChassisAssetTag,
}

impl DmiField {
    /// Returns the kernel's name for the field: a file in `/sys/class/dmi/id`.
    pub fn name(self) -> &'static str {
        match self {
            DmiField::SysVendor => "sys_vendor",
            DmiField::ProductName => "product_name",
            DmiField::ProductSerial => "product_serial",
            DmiField::ChassisAssetTag => "chassis_asset_tag",
        }
    }

    /// Returns dmidecode's keyword for the field.
    pub fn keyword(self) -> &'static str {
        match self {
            DmiField::SysVendor => "system-manufacturer",
            DmiField::ProductName => "system-product-name",
            DmiField::ProductSerial => "system-serial-number",
            DmiField::ChassisAssetTag => "chassis-asset-tag",
        }
    }
}

/// A condition for the value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// One of these strings.
    Is(&'static [&'static str]),
    /// A string that starts with this one.
    StartsWith(&'static str),
    /// A string that ends with this one.
    EndsWith(&'static str),
}

impl Match {
    /// Returns whether `value` matches.
    pub fn accepts(self, value: &str) -> bool {
        match self {
            Match::Is(values) => values.contains(&value),
            Match::StartsWith(start) => value.starts_with(start),
            Match::EndsWith(end) => value.ends_with(end),
        }
    }
}

impl Rule {
    /// Returns the rule in a few words; `None` for one that ds-identify ignores.
    pub(crate) fn describe(&self) -> Option<String> {
        Some(match self {
            Rule::Dmi(field, wanted) | Rule::HostDmi(field, wanted) => {
                let name = field.name();
                match wanted {
                    Match::Is(values) => format!("DMI {name} {}", values.join(" or ")),
                    Match::StartsWith(start) => format!("DMI {name} that starts with {start}"),
                    Match::EndsWith(end) => format!("DMI {name} that ends with {end}"),
                }
            }
            Rule::Pid1ProductName(value) => format!("product_name {value} in the environment of PID 1"),
            Rule::KernelParameter(word) => format!("the kernel command line parameter {word}"),
            Rule::File(path) => format!("the file {path}"),
            Rule::CloudFile(path) => format!("the file /var/lib/cloud/{path}"),
            Rule::Seed(directory, _) => format!("seed {directory}"),
            Rule::Credential(names) => format!("a credential {}", names.join(" or ")),
            Rule::Label(labels) => format!("a file system labelled {}", spellings(labels).join(" or ")),
            Rule::IdentifyOnly(rule) => return rule.describe(),
            Rule::StageOnly(_) => return None,
        })
    }
}

/// Returns the labels, each in its first spelling only.
fn spellings(labels: &[&'static str]) -> Vec<&'static str> {
    let mut distinct: Vec<&str> = Vec::new();
    for label in labels {
        if !distinct.iter().any(|known| known.eq_ignore_ascii_case(label)) {
            distinct.push(label);
        }
    }
    distinct
}
