//! The first steps of a stage, and its reports when there is no instance.

use system::{Level, info, warning};

use crate::consume::is_unconsumed;
use crate::module_list::context;
use crate::status::Record;
use crate::{Boot, FoundInstance, Mode, NotFound, StageName};

/// Creates the directories of the state, and restores the links that a killed stage left changed.
pub fn prepare_directories(boot: &Boot, record: &mut Record) {
    let cloud = [
        "",
        "scripts",
        "scripts/per-instance",
        "scripts/per-once",
        "scripts/per-boot",
        "scripts/vendor",
        "seed",
        "instances",
        "handlers",
        "sem",
        "data",
    ];
    let paths = boot.layout.run_directories().into_iter().chain(cloud.map(|name| boot.layout.cloud(name)));
    let create = |path: String| state::create_directory(&boot.sys, &boot.layout, &path).err();
    let failed: Vec<String> = paths.filter_map(create).map(|e| e.to_string()).collect();
    for message in failed {
        record.fail(boot, message);
    }
    // A stage that was killed while it fetched metadata has left its temporary network.
    ephemeral::roll_back_stale(&boot.sys, &boot.layout.run(ephemeral::JOURNAL_DIR));
}

/// Removes the previous boot's `boot-finished`, which programs wait for. Only the first stage of a boot does this.
pub fn remove_boot_finished(boot: &Boot, record: &Record) {
    if boot.stage == StageName::Network && !record.replaces_local {
        return;
    }
    boot.sys.log_error(Level::Error, state::remove_file(&boot.sys, &boot.layout.boot_finished()));
}

/// Returns whether the local stage completed the instance, because its datasource is in local mode. Logs it.
pub fn is_completed_by_local(boot: &Boot, record: &mut Record, found: &FoundInstance) -> bool {
    let description = &found.instance.description;
    let is_done = found.is_cached && found.is_local() && !is_unconsumed(boot, found);
    if !is_done || record.replaces_local {
        return false;
    }
    record.set_datasource(description);
    boot.log_step(&format!("[net] Exiting. datasource {description} in local mode"));
    true
}

/// Reports that no datasource was found. The words are upstream's, which people search for.
pub fn report_no_instance(boot: &Boot, record: &mut Record, not_found: &NotFound) {
    const PROBLEM: &str = "No instance datasource found! Likely bad things to come!";
    const RESULT: &str = "No instance datasource found.";
    let failures = &not_found.failures;
    if failures.is_empty() {
        warning!(boot.sys, "{PROBLEM}");
        boot.log_step("[net] Exiting without datasource");
        return report_no_datasource(boot, record, RESULT);
    }
    // One line has the result and its cause.
    info!(boot.sys, "{PROBLEM}");
    boot.log_step("[net] Exiting without datasource");
    report_no_datasource(boot, record, &format!("{RESULT} Failed: {}", failures.join("; ")));
}

/// Reports a missing instance as an error, or with `--force` as a warning.
pub fn report_no_datasource(boot: &Boot, record: &mut Record, message: &str) {
    boot.sys.print(message);
    if boot.args.force {
        warning!(boot.sys, "{message} (continuing because of --force)");
    } else {
        record.fail(boot, message);
    }
}

/// Sets the hostname before networking, so that DHCP requests contain it.
pub fn set_hostname(boot: &Boot, found: &FoundInstance) {
    // The user's name, as an earlier boot stored it, overrides the cloud's. Otherwise each boot would set the cloud's
    // name here, and the network stage would change it back.
    let stored = boot.stored_settings(&found.instance, &["hostname", "fqdn"]);
    let context = context(boot, &found.instance);
    let config = stored.as_ref().map_or(context.config, |stored| &stored.merged);
    let context = modules::Context { config, ..context };
    // The keys that are set are the cause. If no key is set, the name is from the metadata.
    let is_set = |key: &&str| context.config.get(key).is_some();
    let keys: Vec<&str> = ["hostname", "fqdn"].into_iter().filter(is_set).collect();
    boot.sys.set_cause("hostname", keys.join(", "));
    if let Err(e) = modules::set_hostname_early(&context) {
        warning!(boot.sys, "setting the hostname: {e}; the set_hostname module will retry");
    }
}

/// Returns the error of a module stage without an instance. The words are upstream's, which people search for.
pub fn cannot_apply_message(mode: Mode) -> String {
    format!("Can not apply stage {}, no datasource found! Likely bad things to come!", mode.as_str())
}
