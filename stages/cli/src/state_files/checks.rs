//! The instance: its link, its ID, its cache and the data beside it; and the markers in /run.

use std::io::ErrorKind;

use state::{Layout, layout::RAW_DATA};
use system::{Result, System};

use super::checked::{Checked, Repair};
use crate::finding::Finding;
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

pub fn instance(machine: &Machine, checked: &mut Checked) {
    let (sys, layout) = (&machine.sys, &machine.layout);
    let link = layout.instance("");
    let id_file = layout.instance_id();
    let id = checked.read(sys.read_text_if_exists(&id_file)).flatten().map(|text| text.trim().to_string());
    let recorded = id.as_deref().filter(|id| !id.is_empty());
    let target = sys.read_link(&link).ok();
    match &target {
        None if sys.is_dir(&link) => checked.add(
            Finding::warning(&link, "a directory; expected the link to the current instance")
                .remedy("the next boot makes it the directory of its instance, or moves it aside"),
        ),
        None => {
            let has_instances = sys.list(layout.instances()).is_ok_and(|all| !all.is_empty());
            if has_instances {
                checked.add(
                    Finding::warning(&link, "missing, although there is state of an instance")
                        .remedy(SEARCHES_AGAIN),
                );
            }
            return;
        }
        Some(target) if !sys.is_dir(&link) => return dangling_link(machine, checked, target, recorded),
        Some(target) if !is_below(target, &layout.instances()) => checked.add(
            Finding::warning(&link, format!("points to {target}, outside of {}", layout.instances()))
                .remedy(SEARCHES_AGAIN),
        ),
        Some(_) => {}
    }
    let cache = match read_cache(sys, &layout.cache()) {
        Ok(cache) => cache,
        Err(e) => return checked.unread.push(e.to_string()),
    };
    let cached = cached_instance(layout, checked, &cache, target.as_deref());
    match (&id, recorded) {
        // The next boot then uses the name of the link's target as the ID.
        (Some(_), None) => {
            let torn = Finding::error(&id_file, "empty: the ID of the current instance is not known")
                .remedy("the next boot compares its instance with the link instead");
            match cached {
                Some(id) => {
                    checked.add_certain(torn, Repair::Write { path: id_file, text: format!("{id}\n") });
                }
                None => checked.add(torn),
            }
        }
        (None, _) => checked.add(
            Finding::note(&id_file, "missing: the next boot is the first one of a new instance")
                .remedy("this is intended if the machine is to become an image"),
        ),
        (_, Some(id)) => {
            if let Some(target) =
                target.as_deref().filter(|target| name_of(&layout.instance_dir(id)) != name_of(target))
            {
                checked.add(
                    Finding::error(
                        &link,
                        format!("points to {target}, but {id_file} has the ID of another instance"),
                    )
                    .remedy(SEARCHES_AGAIN),
                );
            }
        }
    }
    raw_data(machine, checked, &cache);
}

/// The link points nowhere. Certain only if the recorded instance has a directory whose cache has the same ID.
fn dangling_link(machine: &Machine, checked: &mut Checked, target: &str, recorded: Option<&str>) {
    let (sys, layout) = (&machine.sys, &machine.layout);
    let path = layout.instance("");
    let finding = Finding::error(&path, format!("points to {target}, which does not exist"));
    let right =
        recorded.map(|id| (id, layout.instance_dir(id))).filter(|(_, directory)| sys.is_dir(directory));
    match right.map(|(id, directory)| (id, read_cache(sys, &layout.cache_of(id)), directory)) {
        Some((id, Ok(Cache::Json { id: cached, .. }), directory)) if id == cached => {
            checked.add_certain(finding, Repair::Link { path, target: directory });
        }
        _ => checked.add(finding.remedy(
            "the next boot searches for the datasource and makes a new link; once-per-instance work runs again",
        )),
    }
}

/// Reports problems of the cache. Returns its ID if it belongs to the current instance.
fn cached_instance<'a>(
    layout: &Layout,
    checked: &mut Checked,
    cache: &'a Cache,
    target: Option<&str>,
) -> Option<&'a str> {
    let path = layout.cache();
    match cache {
        Cache::Missing => {
            checked.add(Finding::note(&path, "missing").remedy(SEARCHES_AGAIN));
            None
        }
        Cache::Python => {
            checked.add(Finding::note(&path, "written by Python's cloud-init; kept for a downgrade"));
            None
        }
        Cache::Torn => {
            checked.add(Finding::error(&path, "damaged: not a valid instance cache").remedy(SEARCHES_AGAIN));
            None
        }
        Cache::Json { id, version } => {
            if *version > CACHE_VERSION {
                checked
                    .add(Finding::note(&path, "written by a later version; its additional fields are kept"));
            }
            let is_current =
                target.is_some_and(|target| name_of(&layout.instance_dir(id)) == name_of(target));
            if !is_current {
                checked.add(
                    Finding::error(&path, "belongs to an instance other than that of the link")
                        .remedy(SEARCHES_AGAIN),
                );
            }
            is_current.then_some(id.as_str())
        }
    }
}

/// Reports data that is written before the cache and is missing beside it.
fn raw_data(machine: &Machine, checked: &mut Checked, cache: &Cache) {
    let (sys, layout) = (&machine.sys, &machine.layout);
    if !matches!(cache, Cache::Json { .. }) {
        return;
    }
    for name in RAW_DATA {
        let path = layout.instance(name);
        if !sys.exists(&path) {
            checked.add(
                Finding::warning(&path, "missing: the instance is incomplete")
                    .remedy("the next boot fetches the metadata again"),
            );
        }
    }
    let merged = layout.merged_cloud_config();
    if sys.exists(layout.instance("sem/consume_data")) && !sys.exists(&merged) {
        checked.add(
            Finding::warning(&merged, "missing, although user-data is recorded as processed")
                .remedy("the next boot processes user-data again"),
        );
    }
}

/// Checks the markers of the generator and of this boot's stages in /run.
pub fn markers(machine: &Machine, checked: &mut Checked) {
    let (sys, layout) = (&machine.sys, &machine.layout);
    let (enabled, disabled) = (layout.enabled(), layout.disabled());
    if sys.exists(&enabled) && sys.exists(&disabled) {
        checked.add(
            Finding::warning(
                &disabled,
                format!("exists together with {enabled}: cloud-init counts as disabled"),
            )
            .remedy("reboot; the generator writes one of the two"),
        );
    }
    let of_boot = sys.read_text(layout.boot_instance_id()).unwrap_or_default();
    let recorded = sys.read_text(layout.instance_id()).unwrap_or_default();
    let differs = |a: &str, b: &str| !a.is_empty() && !b.is_empty() && a != b;
    if differs(of_boot.trim(), recorded.trim()) {
        checked.add(
            Finding::error(
                layout.boot_instance_id(),
                "this boot found another instance than the recorded one",
            )
            .remedy("the instance could not be recorded: look for errors of the disk, then reboot"),
        );
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
