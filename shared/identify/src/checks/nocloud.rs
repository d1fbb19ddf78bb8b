//! NoCloud: a seed in a directory, on a file system, in systemd's credentials, in the configuration or in the firmware.

use clouds::Rule;

use crate::checks::rules::labels;
use crate::facts::Facts;
use crate::lookup;
use crate::paths::RootedPath;
use crate::verdict::{Verdict, found, not_found};

/// The keys of a seed in the configuration.
const KEYS: [&str; 2] = ["meta-data", "user-data"];

pub fn nocloud(facts: &Facts<'_>) -> Verdict {
    // The serial counts in containers too, as upstream has it.
    if facts.raw_dmi().product_serial.split(' ').any(|word| word.starts_with("ds=nocloud")) {
        return found("dmi product_serial has ds=nocloud");
    }
    for rule in clouds::cloud("NoCloud").map_or(&[][..], |cloud| cloud.rules) {
        if let Rule::Credential(names) = rule
            && let Some(path) = facts.find_credential(names)
        {
            return found(format!("credential {path}"));
        }
        let Rule::Seed(name, files) = rule else { continue };
        let content = files.join(" and ");
        if facts.has_seed(name, files) {
            return found(format!("seed directory {name} has {content}"));
        }
        // The writable data of Ubuntu Core.
        let core = RootedPath::in_root(&format!("/writable/system-data{}/seed/{name}", facts.paths.cloud));
        if files.iter().all(|file| facts.roots.is_file(&core.join(file))) {
            return found(format!("{core} has {content}"));
        }
    }
    let config = facts.config();
    let has = |key: &str| lookup::has_key(config, key);
    if has("NoCloud") && (has("seedfrom") || KEYS.iter().all(|key| has(key))) {
        return found("the configuration has a seed for NoCloud");
    }
    // Devices are last: everything else takes microseconds.
    match facts.find_label(labels("NoCloud")) {
        Some((device, label)) => found(format!("file system on {device} is labelled {label}")),
        None => not_found(format!(
            "no seed directory, no credential, no seed in the configuration, {}",
            facts.missing_label("cidata")
        )),
    }
}
