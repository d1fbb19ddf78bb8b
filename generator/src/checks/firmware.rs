//! Clouds that their DMI fields give away, some with a seed, a marker file or a word of the command line
//! beside them. In a container the fields are the host's and prove nothing.

use crate::dmi::Dmi;
use crate::facts::Facts;
use crate::paths::RootedPath;
use crate::verdict::{Verdict, found, not_found};

/// A field by its name in /sys/class/dmi/id.
#[derive(Clone, Copy)]
enum Field {
    SysVendor,
    ProductName,
    ProductSerial,
    ChassisAssetTag,
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Field::SysVendor => "sys_vendor",
            Field::ProductName => "product_name",
            Field::ProductSerial => "product_serial",
            Field::ChassisAssetTag => "chassis_asset_tag",
        }
    }

    fn of(self, dmi: &Dmi) -> &str {
        match self {
            Field::SysVendor => &dmi.sys_vendor,
            Field::ProductName => &dmi.product_name,
            Field::ProductSerial => &dmi.product_serial,
            Field::ChassisAssetTag => &dmi.chassis_asset_tag,
        }
    }
}

fn dmi_is(facts: &Facts<'_>, field: Field, values: &[&str]) -> Verdict {
    let dmi = facts.dmi();
    let value = field.of(dmi);
    if values.contains(&value) {
        return found(format!("dmi {} is '{value}'", field.name()));
    }
    let wanted = values.join("' or '");
    if facts.is_container() {
        return not_found(format!("dmi {} is the host's in a container", field.name()));
    }
    not_found(format!("dmi {} is not '{wanted}' (it is '{value}')", field.name()))
}

fn dmi_starts_with(facts: &Facts<'_>, field: Field, start: &str) -> Verdict {
    if field.of(facts.dmi()).starts_with(start) {
        return found(format!("dmi {} starts with '{start}'", field.name()));
    }
    not_found(format!("dmi {} does not start with '{start}'", field.name()))
}

/// The first verdict that finds something, else the last one.
fn first_found(facts: &Facts<'_>, checks: &[&dyn Fn(&Facts<'_>) -> Verdict]) -> Verdict {
    let mut last = not_found("nothing was looked for");
    for check in checks {
        last = check(facts);
        if last.answer == crate::verdict::Answer::Found {
            break;
        }
    }
    last
}

fn has_seed_files(facts: &Facts<'_>, name: &str, files: &[&str]) -> Verdict {
    if facts.has_seed(name, files) {
        return found(format!("seed directory {name} has {}", files.join(" and ")));
    }
    not_found(format!("no seed directory {name}"))
}

fn has_command_line_word(facts: &Facts<'_>, word: &str) -> Verdict {
    if facts.has_word(word) {
        return found(format!("the kernel command line has the word {word}"));
    }
    not_found(format!("the kernel command line has no word {word}"))
}

fn file_exists(facts: &Facts<'_>, path: &str) -> Verdict {
    if facts.roots.is_file(&RootedPath::in_root(path)) {
        return found(format!("{path} is there"));
    }
    not_found(format!("{path} is not there"))
}

pub fn akamai(facts: &Facts<'_>) -> Verdict {
    dmi_is(facts, Field::SysVendor, &["Linode", "Akamai"])
}

pub fn aliyun(facts: &Facts<'_>) -> Verdict {
    first_found(
        facts,
        &[&|f| has_seed_files(f, "AliYun", &["meta-data", "user-data"]), &|f| {
            dmi_is(f, Field::ProductName, &["Alibaba Cloud ECS"])
        }],
    )
}

/// The asset tag that every Azure machine has.
pub const AZURE_ASSET_TAG: &str = "7783-7084-3265-9085-8269-3286-77";

pub fn azure(facts: &Facts<'_>) -> Verdict {
    first_found(
        facts,
        &[&|f| has_seed_files(f, "azure", &["ovf-env.xml"]), &|f| {
            dmi_is(f, Field::ChassisAssetTag, &[AZURE_ASSET_TAG])
        }],
    )
}

pub fn cloudcix(facts: &Facts<'_>) -> Verdict {
    dmi_is(facts, Field::ProductName, &["CloudCIX"])
}

pub fn cloudsigma(facts: &Facts<'_>) -> Verdict {
    dmi_is(facts, Field::ProductName, &["CloudSigma"])
}

pub fn cloudstack(facts: &Facts<'_>) -> Verdict {
    dmi_starts_with(facts, Field::ProductName, "CloudStack")
}

pub fn digitalocean(facts: &Facts<'_>) -> Verdict {
    dmi_is(facts, Field::SysVendor, &["DigitalOcean"])
}

pub fn exoscale(facts: &Facts<'_>) -> Verdict {
    dmi_starts_with(facts, Field::ProductName, "Exoscale")
}

pub fn gce(facts: &Facts<'_>) -> Verdict {
    first_found(
        facts,
        &[&|f| dmi_starts_with(f, Field::ProductSerial, "GoogleCloud-"), &|f| {
            dmi_is(f, Field::ProductName, &["Google Compute Engine"])
        }],
    )
}

pub fn hetzner(facts: &Facts<'_>) -> Verdict {
    dmi_is(facts, Field::SysVendor, &["Hetzner"])
}

pub fn nwcs(facts: &Facts<'_>) -> Verdict {
    dmi_is(facts, Field::SysVendor, &["NWCS"])
}

pub fn oracle(facts: &Facts<'_>) -> Verdict {
    dmi_is(facts, Field::ChassisAssetTag, &["OracleCloud.com"])
}

/// Its vendor counts in containers too, as upstream has it.
pub fn scaleway(facts: &Facts<'_>) -> Verdict {
    if facts.raw_dmi().sys_vendor == "Scaleway" {
        return found("dmi sys_vendor is 'Scaleway'");
    }
    first_found(
        facts,
        &[&|f| has_command_line_word(f, "scaleway"), &|f| file_exists(f, "/var/run/scaleway"), &|f| {
            dmi_is(f, Field::SysVendor, &["Scaleway"])
        }],
    )
}

pub fn upcloud(facts: &Facts<'_>) -> Verdict {
    dmi_is(facts, Field::SysVendor, &["UpCloud"])
}

pub fn vultr(facts: &Facts<'_>) -> Verdict {
    first_found(
        facts,
        &[&|f| has_command_line_word(f, "vultr"), &|f| file_exists(f, "/etc/vultr"), &|f| {
            dmi_is(f, Field::SysVendor, &["Vultr"])
        }],
    )
}
