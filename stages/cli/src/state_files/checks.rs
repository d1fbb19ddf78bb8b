//! The instance: its link, its ID, its cache and the data beside it; and the markers in /run.

use std::io::ErrorKind;

use config::Node;
use state::{Layout, layout::RAW_DATA};
use system::{Result, System};

use super::Repair;
use crate::finding::{Findings, Severity};
use crate::machine::Machine;

/// The version of the cache that this program writes.
const CACHE_VERSION: u64 = 1;
const SEARCHES_AGAIN: &str =
    "the next boot searches for the datasource again; if it finds the same instance, nothing runs again";

/// The content of obj.pkl.
enum Cache {
    Missing,
    /// A pickle of Python's cloud-init.
    Python,
    Torn,
    Json {
        id: String,
        version: u64,
    },
}

pub fn instance(machine: &Machine, checked: &mut Findings) {
    let (sys, layout) = (&machine.sys, &machine.layout);
    let link = layout.instance("");
    let id_file = layout.instance_id();
    let id = checked.read(sys.read_text_if_exists(&id_file)).flatten().map(|text| text.trim().to_string());
    let recorded = id.as_deref().filter(|id| !id.is_empty());
    let target = sys.read_link(&link).ok();
    match &target {
        None if sys.is_dir(&link) => {
            let remedy = "the next boot makes it the directory of its instance, or moves it aside";
            checked.warning(&link, "a directory; expected the link to the current instance", remedy);
        }
        None => {
            if sys.list(layout.instances()).is_ok_and(|all| !all.is_empty()) {
                checked.warning(&link, "missing, although there is state of an instance", SEARCHES_AGAIN);
            }
            return;
        }
        Some(target) if !sys.is_dir(&link) => return dangling_link(machine, checked, target, recorded),
        Some(target) if !is_below(target, &layout.instances()) => {
            let problem = format!("points to {target}, outside of {}", layout.instances());
            checked.warning(&link, problem, SEARCHES_AGAIN);
        }
        Some(_) => {}
    }
    let Some(cache) = checked.read(read_cache(sys, &layout.cache())) else { return };
    let cached = cached_instance(layout, checked, &cache, target.as_deref());
    match (&id, recorded) {
        // The next boot then uses the name of the link's target as the ID.
        (Some(_), None) => {
            let remedy = "the next boot compares its instance with the link instead";
            let problem = "empty: the ID of the current instance is not known";
            checked.error(&id_file, problem, remedy).repair =
                cached.map(|id| Repair::Write(format!("{id}\n")));
        }
        (None, _) => {
            let problem = "missing: the next boot is the first one of a new instance";
            let remedy = "this is intended if the machine is to become an image";
            checked.add(Severity::Note, &id_file, problem, remedy);
        }
        (_, Some(id)) => {
            if let Some(target) =
                target.as_deref().filter(|target| name_of(&layout.instance_dir(id)) != name_of(target))
            {
                let problem = format!("points to {target}, but {id_file} has the ID of another instance");
                checked.error(&link, problem, SEARCHES_AGAIN);
            }
        }
    }
    raw_data(machine, checked, &cache);
}

/// The link points nowhere. Certain only if the recorded instance has a directory whose cache has the same ID.
fn dangling_link(machine: &Machine, checked: &mut Findings, target: &str, recorded: Option<&str>) {
    let (sys, layout) = (&machine.sys, &machine.layout);
    let path = layout.instance("");
    let problem = format!("points to {target}, which does not exist");
    let right =
        recorded.map(|id| (id, layout.instance_dir(id))).filter(|(_, directory)| sys.is_dir(directory));
    match right.map(|(id, directory)| (id, read_cache(sys, &layout.cache_of(id)), directory)) {
        Some((id, Ok(Cache::Json { id: cached, .. }), directory)) if id == cached => {
            checked.error(&path, problem, "").repair = Some(Repair::LinkTo(directory));
        }
        _ => {
            let remedy = "the next boot searches for the datasource and makes a new link; once-per-instance work runs again";
            checked.error(&path, problem, remedy);
        }
    }
}

/// Reports problems of the cache. Returns its ID if it belongs to the current instance.
fn cached_instance<'a>(
    layout: &Layout,
    checked: &mut Findings,
    cache: &'a Cache,
    target: Option<&str>,
) -> Option<&'a str> {
    let path = layout.cache();
    match cache {
        Cache::Missing => checked.add(Severity::Note, &path, "missing", SEARCHES_AGAIN),
        Cache::Python => checked.note(&path, "written by Python's cloud-init; kept for a downgrade"),
        Cache::Torn => checked.error(&path, "damaged: not a valid instance cache", SEARCHES_AGAIN),
        Cache::Json { id, version } => {
            if *version > CACHE_VERSION {
                checked.note(&path, "written by a later version; its additional fields are kept");
            }
            if target.is_some_and(|target| name_of(&layout.instance_dir(id)) == name_of(target)) {
                return Some(id);
            }
            checked.error(&path, "belongs to an instance other than that of the link", SEARCHES_AGAIN)
        }
    };
    None
}

/// Reports data that is written before the cache and is missing beside it.
fn raw_data(machine: &Machine, checked: &mut Findings, cache: &Cache) {
    let (sys, layout) = (&machine.sys, &machine.layout);
    if !matches!(cache, Cache::Json { .. }) {
        return;
    }
    for name in RAW_DATA {
        let path = layout.instance(name);
        if !sys.exists(&path) {
            let remedy = "the next boot fetches the metadata again";
            checked.warning(&path, "missing: the instance is incomplete", remedy);
        }
    }
    let merged = layout.merged_cloud_config();
    let setting = machine.settings.merged.get("allow_userdata").and_then(Node::as_bool);
    if setting != Some(false) && sys.exists(layout.instance("sem/consume_data")) && !sys.exists(&merged) {
        let problem = "missing, although user-data is recorded as processed";
        checked.warning(&merged, problem, "the next boot processes user-data again");
    }
}

/// Checks the markers of the generator and of this boot's stages in /run.
pub fn markers(machine: &Machine, checked: &mut Findings) {
    let (sys, layout) = (&machine.sys, &machine.layout);
    let (enabled, disabled) = (layout.enabled(), layout.disabled());
    if sys.exists(&enabled) && sys.exists(&disabled) {
        let problem = format!("exists together with {enabled}: cloud-init counts as disabled");
        checked.warning(&disabled, problem, "reboot; the generator writes one of the two");
    }
    let of_boot = sys.read_text(layout.boot_instance_id()).unwrap_or_default();
    let recorded = sys.read_text(layout.instance_id()).unwrap_or_default();
    let differs = |a: &str, b: &str| !a.is_empty() && !b.is_empty() && a != b;
    if differs(of_boot.trim(), recorded.trim()) {
        let problem = "this boot found another instance than the recorded one";
        let remedy = "the instance could not be recorded: look for errors of the disk, then reboot";
        checked.error(layout.boot_instance_id(), problem, remedy);
    }
}

/// Reads the kind of a cache. Fails if the file cannot be read.
fn read_cache(sys: &System, path: &str) -> Result<Cache> {
    let bytes = match sys.read(path) {
        Err(e) if e.is_not_found() => return Ok(Cache::Missing),
        bytes => bytes?,
    };
    // The first bytes of pickle's protocols, by which `state::Instance` distinguishes them from JSON.
    if bytes.first().is_some_and(|byte| [0x80, b'c', b'('].contains(byte)) {
        return Ok(Cache::Python);
    }
    let value = match state::parse_json(path, &bytes) {
        Err(e) if e.kind() == Some(ErrorKind::InvalidData) => return Ok(Cache::Torn),
        value => value?,
    };
    let id = value["instance-id"].as_str().filter(|id| !id.is_empty());
    Ok(match (id, value["datasource"].as_str()) {
        (Some(id), Some(_)) => {
            Cache::Json { id: id.into(), version: value["version"].as_u64().unwrap_or_default() }
        }
        _ => Cache::Torn,
    })
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Returns whether an absolute path, or a link's target relative to its directory, is below a directory.
fn is_below(target: &str, directory: &str) -> bool {
    let relative = directory.rsplit('/').next().unwrap_or_default();
    [directory, relative, &format!("./{relative}")].iter().any(|top| {
        target.strip_prefix(*top).is_some_and(|rest| rest.starts_with('/') && !rest.contains("/../"))
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_targets_below_the_directory_are_valid() {
        for (target, expected) in [
            ("/c/instances/i-1", true),
            ("instances/i-1", true),
            ("./instances/i-1", true),
            ("/c/instances", false),
            ("/c/instances/../x", false),
            ("/mnt/instances/i-1", false),
        ] {
            assert_eq!(super::is_below(target, "/c/instances"), expected, "{target}");
        }
    }
}
