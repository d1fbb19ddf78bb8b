//! NoCloud: somebody put a seed where the machine can see it.

use crate::facts::Facts;
use crate::lookup;
use crate::paths::RootedPath;
use crate::verdict::{Verdict, found, not_found};

const LABELS: [&str; 2] = ["cidata", "CIDATA"];
const FILES: [&str; 2] = ["meta-data", "user-data"];

pub fn nocloud(facts: &Facts<'_>) -> Verdict {
    // The serial counts in containers too, as upstream has it.
    if facts.raw_dmi().product_serial.split(' ').any(|word| word.starts_with("ds=nocloud")) {
        return found("dmi product_serial has ds=nocloud");
    }
    for name in ["nocloud", "nocloud-net"] {
        if facts.has_seed(name, &FILES) {
            return found(format!("seed directory {name} has meta-data and user-data"));
        }
        // Ubuntu Core keeps its writable data below here.
        let core = format!("/writable/system-data{}/seed/{name}", facts.paths.cloud.path);
        if FILES.iter().all(|file| facts.roots.is_file(&RootedPath::in_root(&format!("{core}/{file}")))) {
            return found(format!("{core} has meta-data and user-data"));
        }
    }
    let config = facts.config();
    let has = |key: &str| lookup::has_key(config, key);
    if has("NoCloud") && (has("seedfrom") || FILES.iter().all(|key| has(key))) {
        return found("the configuration has a seed for NoCloud");
    }
    // Devices last: everything before costs microseconds.
    match facts.find_label(&LABELS) {
        Some((device, label)) => found(format!("file system on {device} is labelled {label}")),
        None => not_found(format!(
            "no seed directory, no seed in the configuration, {}",
            facts.missing_label("cidata")
        )),
    }
}
