//! Determines the instance of this boot: from the cache if that can be trusted or confirmed, otherwise by a search.

use datasource::{IdentityCheck, Outcome, Search, class_name, datasource, is_name, is_same_machine, search};
use netconfig::events::Event;
use state::{Cached, Instance, Previous, instancify};
use system::{Level, Step, StepResult, WriteOptions, debug, info, warning};

use crate::events::Events;
use crate::found::{FoundInstance, NotFound};
use crate::status::Record;
use crate::{Boot, StageName, network, settings, without_search};

/// Finds the instance, in the local and the network stage.
///
/// # Errors
/// Fails if no datasource was found (so far).
pub fn find_instance(boot: &Boot, record: &mut Record) -> Result<FoundInstance, NotFound> {
    let cached = Instance::load(&boot.sys, &boot.layout);
    record.replaced_nics = match &cached {
        Cached::Missing => None,
        Cached::Instance(instance)
            if boot.stage == StageName::Network
                && !record.replaces_local
                && was_found_by_local_stage(instance) =>
        {
            None
        }
        Cached::Instance(instance) => network::replaced_nics(boot, Some(instance)),
        Cached::Python { .. } | Cached::Corrupt => network::replaced_nics(boot, None),
    };
    let is_replaced = record.replaced_nics.is_some();
    let is_local = boot.stage == StageName::Local;
    if is_local && let Some(how) = cleaned_by_hand(boot) {
        debug!(boot.sys, "manual cache clean {how}");
    }
    let is_checked = is_local && cleaned_by_hand(boot).is_none();
    let step = begin_cache_check(boot, if is_checked { "check" } else { "trust" });
    let mut was_another = false;
    let candidate = match cached {
        Cached::Instance(instance) => {
            if let Some(e) = &instance.raw_data_error {
                warning!(boot.sys, "{e}; fetching the metadata of instance {} again", instance.id);
            }
            let is_whole = instance.raw_data_error.is_none();
            let is_fixed = is_whole && cleaned_by_hand(boot).is_some();
            let must_refresh = is_replaced || must_refresh(boot, &instance);
            if is_whole && !is_replaced && is_of_this_boot(boot, &instance.id) {
                return Ok(found_in_cache(boot, step, *instance, "restored from cache with run check"));
            }
            if is_fixed && !must_refresh {
                return Ok(found_in_cache(boot, step, *instance, "restored from cache"));
            }
            match if is_fixed { IdentityCheck::Same } else { check(boot, &instance) } {
                IdentityCheck::Same if !is_whole => {
                    Some(Candidate { is_confirmed: true, ..Candidate::unconfirmed(*instance) })
                }
                IdentityCheck::Same if must_refresh => {
                    let why = if is_replaced { "its NICs have changed" } else { "event `boot` is enabled" };
                    let refresh = format!("refreshing its network configuration ({why})");
                    debug!(boot.sys, "still instance {}; {refresh}", instance.id);
                    Some(Candidate { instance: *instance, is_confirmed: true, is_fixed })
                }
                IdentityCheck::Same => {
                    return Ok(found_in_cache(boot, step, *instance, "restored from checked cache"));
                }
                IdentityCheck::Different(why) => {
                    info!(boot.sys, "cache invalid in datasource: {}: {why}", instance.description);
                    was_another = true;
                    None
                }
                IdentityCheck::Unknown(why) => {
                    debug!(boot.sys, "could not verify instance {} without a search: {why}", instance.id);
                    Some(Candidate::unconfirmed(*instance))
                }
            }
        }
        Cached::Python { id } => {
            let id = id.unwrap_or_else(|| "with unknown ID".into());
            info!(boot.sys, "instance {id} was set up by Python's cloud-init; using its ID and semaphores");
            Instance::from_text_files(&boot.sys, &boot.layout).map(Candidate::unconfirmed)
        }
        Cached::Corrupt => Instance::from_text_files(&boot.sys, &boot.layout).map(Candidate::unconfirmed),
        Cached::Missing => None,
    };
    step.end(&boot.sys, StepResult::Success, "no cache found");
    let found = search_datasources(boot, record, candidate);
    if found.is_err() && was_another {
        // Later stages must not use the other instance. Its files are kept.
        boot.sys.log_error(Level::Warning, boot.sys.remove(boot.layout.instance("")));
    }
    found
}

/// Returns whether each boot refreshes the instance's network configuration.
fn must_refresh(boot: &Boot, instance: &Instance) -> bool {
    let events = Events::of(boot, Some(instance));
    [Event::Boot, Event::BootLegacy].into_iter().any(|event| events.is_enabled(event))
}

fn begin_cache_check(boot: &Boot, trust: &str) -> Step {
    let event = format!("{}/check-cache", boot.stage.event_name());
    boot.sys.begin_step(event, format!("attempting to read from cache [{trust}]"))
}

fn found_in_cache(boot: &Boot, step: Step, instance: Instance, how: &str) -> FoundInstance {
    step.end(&boot.sys, StepResult::Success, format!("{how}: {}", instance.description));
    FoundInstance::cached(instance)
}

/// Returns the ID of the instance that a stage of this boot found.
fn id_of_this_boot(boot: &Boot) -> Option<String> {
    boot.sys.read_text(boot.layout.boot_instance_id()).ok().map(|id| id.trim().to_string())
}

/// Returns what says that the administrator removes the cache when the machine becomes another instance, in upstream's words.
fn cleaned_by_hand(boot: &Boot) -> Option<String> {
    if boot.settings.get("manual_cache_clean").is_some_and(|n| !n.is_falsy()) {
        return Some("set from config".into());
    }
    let marker = boot.layout.manual_clean();
    boot.sys.exists(&marker).then(|| format!("found from marker: {marker}"))
}

/// Returns whether a stage of this boot found that instance: the later ones use the cache without a check.
fn is_of_this_boot(boot: &Boot, id: &str) -> bool {
    id_of_this_boot(boot).as_deref() == Some(id.trim())
}

/// Asks the cached instance's datasource whether the machine is still that instance, also if it is no longer in
/// `datasource_list`: an administrator who shortens the list afterwards does not want a new instance.
fn check(boot: &Boot, instance: &Instance) -> IdentityCheck {
    let Some(row) = datasource(&instance.datasource) else {
        return IdentityCheck::Unknown(format!("unknown datasource {}", instance.datasource));
    };
    let ctx = boot.search_context();
    match (row.check)(&ctx, instance) {
        IdentityCheck::Unknown(_) if !is_listed(boot, instance) && !is_same_machine(&ctx, instance) => {
            IdentityCheck::Different(format!("datasource_list no longer contains {}", row.name))
        }
        checked => checked,
    }
}

fn is_listed(boot: &Boot, instance: &Instance) -> bool {
    boot.datasource_list().iter().any(|entry| is_name(entry, &instance.datasource))
}

fn search_datasources(
    boot: &Boot,
    record: &mut Record,
    candidate: Option<Candidate>,
) -> Result<FoundInstance, NotFound> {
    let list = boot.datasource_list();
    let mut outcome = Outcome::default();
    let is_confirmed = candidate.as_ref().is_some_and(|candidate| candidate.is_confirmed);
    let is_known_machine = candidate
        .as_ref()
        .is_some_and(|candidate| is_same_machine(&boot.search_context(), &candidate.instance));
    let ctx = Search { has_cached_instance: is_confirmed || is_known_machine, ..boot.search_context() };
    if record.replaces_local {
        // Otherwise datasources of the local stage would not be searched, and None would be used.
        outcome = search(&Search { stage: datasource::Stage::Local, ..ctx }, &list);
    }
    if outcome.found.is_none() {
        let errors = outcome.errors;
        outcome = search(&ctx, &list);
        outcome.errors.splice(0..0, errors);
    }
    record.report_search(boot, &outcome);
    let failures = record.all_failures(&list, &outcome);
    if let Some(instance) = outcome.found {
        // The fallback None must not replace an instance that merely could not be confirmed.
        let is_worse = instance.datasource == "None"
            && candidate.as_ref().is_some_and(|k| k.instance.datasource != "None");
        let is_other = candidate.as_ref().is_some_and(|k| k.is_fixed && k.instance.id != instance.id);
        if is_other {
            let ignored = "ignored, as manual_cache_clean is set";
            info!(boot.sys, "the metadata belongs to instance {}; {ignored}", instance.id);
        }
        if !is_worse && !is_other {
            if instance.datasource == "None" {
                record.report_none(boot, &failures);
            } else {
                record.report_unread(boot, &instance, &failures);
            }
            let previous = Previous::read(&boot.sys, &boot.layout);
            let is_new = previous.is_new(&boot.layout, &instance);
            return Ok(FoundInstance { instance, is_new, is_cached: false, is_unrecorded: false });
        }
    }
    let Some(Candidate { instance, is_confirmed, .. }) = candidate else {
        return Err(NotFound { expected: None, failures });
    };
    // One warning names the instance that is kept, and the failures.
    let why = Some(failures.join("; ")).filter(|why| !why.is_empty());
    if is_confirmed {
        if let Some(why) = why {
            warning!(boot.sys, "using the cached instance {}: {why}", instance.id);
            record.set_extra(
                "instance_check",
                "confirmed; its metadata could not be fetched again; using the cached metadata",
            );
        }
        debug!(boot.sys, "restored from checked cache: {}", instance.description);
        return Ok(FoundInstance::cached(instance));
    }
    let can_come_later = outcome.deferred.iter().any(|entry| is_name(entry, &instance.datasource));
    if boot.stage == StageName::Local && can_come_later && !was_found_by_local_stage(&instance) {
        debug!(boot.sys, "{} may be found in the network stage", instance.datasource);
        let expected = is_known_machine.then(|| Box::new(instance));
        return Err(NotFound { expected, failures: Vec::new() });
    }
    let why = why.unwrap_or_else(|| "its datasource was not found".into());
    let (id, description) = (&instance.id, &instance.description);
    let check = if is_known_machine {
        let reason = "as the firmware's identity (DMI) has not changed";
        // A datasource that was taken off the list is not expected.
        let level = if is_listed(boot, &instance) { Level::Warning } else { Level::Info };
        boot.sys.log().record(
            level,
            file!(),
            format_args!("using the cached instance {id} ({description}), {reason}: {why}"),
        );
        "the firmware's identity has not changed; keeping the cached instance"
    } else {
        warning!(
            boot.sys,
            "could not verify instance {id} ({description}): {why}; keeping the cached instance"
        );
        "could not verify the instance; keeping the cached instance"
    };
    record.set_extra("instance_check", check);
    Ok(FoundInstance::cached(instance))
}

/// Returns the instance that an earlier stage found, without its raw data, for the config and final stages.
/// If no stage of this boot has searched, that is None, provided that it is listed.
pub fn cached_instance(boot: &mut Boot, record: &mut Record) -> Option<FoundInstance> {
    let step = begin_cache_check(boot, "trust");
    let is_missing = match Instance::load_without_raw_data(&boot.sys, &boot.layout) {
        // This boot found another instance, which could not be recorded.
        Cached::Instance(instance) if id_of_this_boot(boot).is_some_and(|id| id != instance.id.trim()) => {
            warning!(boot.sys, "the cache belongs to instance {}, not to the current instance", instance.id);
            false
        }
        Cached::Instance(instance) => {
            let found = FoundInstance::cached(*instance);
            if found.instance.config.as_object().is_some_and(|c| !c.is_empty()) {
                settings::reload(boot, record, &found, Vec::new());
            }
            if !boot.sys.exists(boot.layout.instance_data()) {
                boot.sys.log_error(Level::Warning, boot.write_instance_data(&found.instance));
            }
            return Some(found_in_cache(boot, step, found.instance, "restored from cache with run check"));
        }
        Cached::Python { id } if id.as_deref().is_some_and(|id| is_of_this_boot(boot, id)) => {
            // Python's cloud-init was replaced after it had run in this boot: a command that is run by hand continues its instance.
            let instance = Instance::from_text_files(&boot.sys, &boot.layout)?;
            return Some(found_in_cache(
                boot,
                step,
                instance,
                "restored from the files of Python's cloud-init",
            ));
        }
        cached => matches!(cached, Cached::Missing),
    };
    step.end(&boot.sys, StepResult::Success, "no cache found");
    if is_missing { without_search::find(boot) } else { None }
}

/// Makes the instance the current one on disk: link, cache and the files in /run.
pub fn activate(boot: &mut Boot, record: &mut Record, found: &mut FoundInstance) {
    let instance = &found.instance;
    record.set_datasource(&instance.description);
    boot.sys.set_cause("instance", "");
    let mode = if boot.stage == StageName::Local { "local" } else { "net" };
    let is_new = if found.is_new { "True" } else { "False" };
    debug!(boot.sys, "[{mode}] init will now be targeting instance id: {}. new={is_new}", instance.id);
    if found.is_cached && is_activated(boot, record, instance) {
        return record.configure_stored_reporting(boot, instance);
    }
    let result = (|| {
        let mut files = boot.sys.write_group();
        if found.is_new {
            // Before the instance is recorded: after a power cut the next boot must still apply the network.
            state::mark_network_due(&mut files, &boot.layout, &instance.id)?;
        }
        let recorded = instancify(&mut files, &boot.layout, instance)
            .and_then(|_| instance.store_in(&mut files, &boot.layout));
        // Files that were written are kept, also after an error.
        let recorded = files.finish().and(recorded);
        let written = boot.write_instance_data(instance);
        recorded?;
        let forgotten = match found.is_cached {
            true => Ok(()),
            false => userdata::forget_includes(&boot.sys, &boot.user_data_dirs()),
        };
        let manual_clean = boot.layout.manual_clean();
        if boot.settings.get("manual_cache_clean").is_some_and(|n| !n.is_falsy())
            && !boot.sys.exists(&manual_clean)
        {
            boot.sys.write(manual_clean, "", WriteOptions::default())?;
        }
        forgotten.and(written)
    })();
    if let Err(e) = result {
        record.fail(boot, format!("recording instance {}: {e}", instance.id));
        let link = boot.layout.instance("");
        found.is_unrecorded = boot.sys.read_link(&link).ok() != Some(boot.layout.instance_dir(&instance.id));
        if found.is_unrecorded {
            // Later stages compare the cache's ID with that in /run.
            boot.sys.log_error(Level::Warning, boot.sys.remove(&link));
        }
    }
    // Some files of the configuration are templates, which use the instance data that now exists.
    if boot.settings.has_templates {
        boot.load_initial_settings();
    }
    record.configure_stored_reporting(boot, instance);
}

/// Returns whether the local stage recorded the instance in this boot.
fn is_activated(boot: &Boot, record: &Record, instance: &Instance) -> bool {
    boot.stage != StageName::Local
        && !record.replaces_local
        && id_of_this_boot(boot).as_deref() == Some(instance.id.trim())
        && boot.sys.exists(boot.layout.instance_data())
}

/// The cached instance while the search is under way.
struct Candidate {
    instance: Instance,
    /// The instance is confirmed, and only its metadata is fetched again.
    is_confirmed: bool,
    /// `manual_cache_clean` is set: the instance is kept whatever the metadata says.
    is_fixed: bool,
}

impl Candidate {
    fn unconfirmed(instance: Instance) -> Candidate {
        Candidate { instance, is_confirmed: false, is_fixed: false }
    }
}

/// Returns whether the local stage would have found this instance again, by the class in its description, which the text
/// files of Python's cloud-init have too: `DataSourceNoCloudNet [seed=…]` and `DataSourceEc2` belong to the network stage,
/// `DataSourceNoCloud` and `DataSourceEc2Local` to the local one.
fn was_found_by_local_stage(instance: &Instance) -> bool {
    let class = instance.description.split([' ', '[']).next().unwrap_or_default();
    datasource(&instance.datasource).is_some_and(|row| {
        let has = |stage| row.stages().contains(&stage);
        has(datasource::Stage::Local)
            && (!has(datasource::Stage::Network) || class == class_name(row, datasource::Stage::Local))
    })
}
