//! Clouds that their DMI fields give away, some with a seed, a marker file or a word of the command line
//! beside them. In a container the fields are the host's and prove nothing.

use crate::dmi::Dmi;
use crate::facts::Facts;
use crate::places::Place;
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

fn is(facts: &Facts<'_>, field: Field, values: &[&str]) -> Verdict {
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

fn starts(facts: &Facts<'_>, field: Field, start: &str) -> Verdict {
    if field.of(facts.dmi()).starts_with(start) {
        return found(format!("dmi {} starts with '{start}'", field.name()));
    }
    not_found(format!("dmi {} does not start with '{start}'", field.name()))
}

/// The first verdict that finds something, else the last one.
fn either(facts: &Facts<'_>, checks: &[&dyn Fn(&Facts<'_>) -> Verdict]) -> Verdict {
    let mut last = not_found("nothing was looked for");
    for check in checks {
        last = check(facts);
        if last.answer == crate::verdict::Answer::Found {
            break;
        }
    }
    last
}

fn seed(facts: &Facts<'_>, name: &str, files: &[&str]) -> Verdict {
    if facts.has_seed(name, files) {
        return found(format!("seed directory {name} has {}", files.join(" and ")));
    }
    not_found(format!("no seed directory {name}"))
}

fn word(facts: &Facts<'_>, word: &str) -> Verdict {
    if facts.has_word(word) {
        return found(format!("the kernel command line has the word {word}"));
    }
    not_found(format!("the kernel command line has no word {word}"))
}

fn file(facts: &Facts<'_>, path: &str) -> Verdict {
    if facts.doors.is_file(&Place::fixed(path)) {
        return found(format!("{path} is there"));
    }
    not_found(format!("{path} is not there"))
}

pub fn akamai(facts: &Facts<'_>) -> Verdict {
    is(facts, Field::SysVendor, &["Linode", "Akamai"])
}

pub fn aliyun(facts: &Facts<'_>) -> Verdict {
    either(
        facts,
        &[&|f| seed(f, "AliYun", &["meta-data", "user-data"]), &|f| {
            is(f, Field::ProductName, &["Alibaba Cloud ECS"])
        }],
    )
}

/// The asset tag that every Azure machine has.
pub const AZURE_ASSET_TAG: &str = "7783-7084-3265-9085-8269-3286-77";

pub fn azure(facts: &Facts<'_>) -> Verdict {
    either(
        facts,
        &[&|f| seed(f, "azure", &["ovf-env.xml"]), &|f| is(f, Field::ChassisAssetTag, &[AZURE_ASSET_TAG])],
    )
}

pub fn cloudcix(facts: &Facts<'_>) -> Verdict {
    is(facts, Field::ProductName, &["CloudCIX"])
}

pub fn cloudsigma(facts: &Facts<'_>) -> Verdict {
    is(facts, Field::ProductName, &["CloudSigma"])
}

pub fn cloudstack(facts: &Facts<'_>) -> Verdict {
    starts(facts, Field::ProductName, "CloudStack")
}

pub fn digitalocean(facts: &Facts<'_>) -> Verdict {
    is(facts, Field::SysVendor, &["DigitalOcean"])
}

pub fn exoscale(facts: &Facts<'_>) -> Verdict {
    starts(facts, Field::ProductName, "Exoscale")
}

pub fn gce(facts: &Facts<'_>) -> Verdict {
    either(
        facts,
        &[&|f| starts(f, Field::ProductSerial, "GoogleCloud-"), &|f| {
            is(f, Field::ProductName, &["Google Compute Engine"])
        }],
    )
}

pub fn hetzner(facts: &Facts<'_>) -> Verdict {
    is(facts, Field::SysVendor, &["Hetzner"])
}

pub fn nwcs(facts: &Facts<'_>) -> Verdict {
    is(facts, Field::SysVendor, &["NWCS"])
}

pub fn oracle(facts: &Facts<'_>) -> Verdict {
    is(facts, Field::ChassisAssetTag, &["OracleCloud.com"])
}

/// Its vendor counts in containers too, as upstream has it.
pub fn scaleway(facts: &Facts<'_>) -> Verdict {
    if facts.raw_dmi().sys_vendor == "Scaleway" {
        return found("dmi sys_vendor is 'Scaleway'");
    }
    either(
        facts,
        &[&|f| word(f, "scaleway"), &|f| file(f, "/var/run/scaleway"), &|f| {
            is(f, Field::SysVendor, &["Scaleway"])
        }],
    )
}

pub fn upcloud(facts: &Facts<'_>) -> Verdict {
    is(facts, Field::SysVendor, &["UpCloud"])
}

pub fn vultr(facts: &Facts<'_>) -> Verdict {
    either(
        facts,
        &[&|f| word(f, "vultr"), &|f| file(f, "/etc/vultr"), &|f| is(f, Field::SysVendor, &["Vultr"])],
    )
}
