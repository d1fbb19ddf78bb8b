//! User-data and vendor-data: stores the raw data, splits it into parts, handles these, and reads the settings again.
//!
//! It can fail: the server of an `#include` is down, or the disk is full. Until it has succeeded for an instance, no
//! once-per-instance module may run, because the module would run without the user's configuration and never again. The
//! semaphore `consume_data` is written when everything that later stages need is on disk; each stage checks it.

use config::{Findings, Node};
use modules::{KEEP_HOST_KEYS, RunMode};
use state::{Blobs, Frequency, Progress, acquire, progress};
use system::{Level, WriteOptions, warning};
use userdata::{Consumed, Data, Options, RawData, Source, forget_includes, store};

use crate::findings::store_source_map;
use crate::measure::measure;
use crate::status::Record;
use crate::{Boot, FoundInstance, error_prefix, logging, settings};

const SEMAPHORE: &str = "consume_data";

/// Consumes the instance's user-data and vendor-data, and reads the resulting settings. The raw data, which may be large,
/// is freed.
pub(crate) fn consume(boot: &mut Boot, record: &mut Record, found: &mut FoundInstance) {
    boot.layout.note_link(&boot.sys);
    let given = &mut found.instance;
    let blobs = [&mut given.user_data, &mut given.vendor_data, &mut given.vendor_data2].map(std::mem::take);
    boot.sys.set_cause("user-data", "");
    let consumed = match found.instance.raw_data_error.clone() {
        Some(why) => Consumed { failed: vec![why], ..Consumed::default() },
        None => consume_blobs(boot, found, &blobs),
    };
    drop(blobs);
    let check = |config| modules::schema::check_cloud_config(config, &modules::where_key_belongs);
    let checked: Vec<_> = consumed.configs.iter().filter(|c| !c.is_null()).map(check).collect();
    let mut reported = consumed.findings;
    record.report(boot, &reported);
    let mut invalid = Findings::default();
    checked.into_iter().for_each(|of_one| invalid.extend(of_one));
    record.report_schema(boot, &invalid);
    reported.extend(invalid);
    if !consumed.failed.is_empty() {
        let then = match is_unconsumed(boot, found) {
            true => {
                "; once-per-instance modules are deferred until this succeeds; later stages and the next boot will retry. \
                 To use changed user-data: cloud-init clean --reboot"
            }
            false => "; using the configuration of an earlier boot",
        };
        let prefix = error_prefix::UNCONSUMED;
        record.fail(boot, format!("{prefix}{}{then}", consumed.failed.join("; ")));
    }
    let before = std::mem::replace(&mut boot.settings.merged, Node::null());
    settings::reload(boot, record, found, consumed.parsed_files);
    if !boot.is_plan() {
        logging::update_output(&boot.sys, &before, &boot.settings.merged, boot.stage.mode().as_str());
    }
    store_source_map(boot, &consumed.configs, &reported);
    write_combined(boot);
}

/// Without its record the instance's users and keys are known in this boot only.
fn consume_blobs(boot: &Boot, found: &FoundInstance, blobs: &[Blobs; 3]) -> Consumed {
    let (instance, already_stored) = (&found.instance, found.is_cached);
    let dirs = userdata::Dirs { instance: found.directory(boot), ..boot.user_data_dirs() };
    let [user, vendor, vendor2] = blobs.each_ref().map(to_data);
    let error_on_failure = error_on_failure(boot);
    let raw = RawData { user, vendor, vendor2, already_stored, error_on_failure };
    // Includes are fetched while it is stored.
    measure(boot, || Source::ALL.map(|source| (source.name(), raw.of(source).raw())).into());
    let stored = store(&boot.sys, &dirs, &raw);
    let first = !has_consumed(boot);
    // The settings without vendor-data, which must not decide whether vendor-data is used.
    let options = Options {
        config: &boot.settings.system,
        instance_id: &instance.id,
        launch_index: instance.launch_index,
        first_boot: first,
        event: boot.stage.event_name(),
        instance_data: &boot.layout.sensitive_instance_data(),
    };
    let mut consumed = userdata::consume(&boot.sys, &dirs, &stored, &options);
    if found.is_unrecorded {
        consumed.failed.push("the instance could not be recorded".into());
    } else if first && consumed.failed.is_empty() {
        if let Err(e) = acquire(&boot.sys, &boot.layout, SEMAPHORE, Frequency::Instance) {
            consumed.failed.push(e.to_string());
        } else {
            boot.sys.log_error(Level::Debug, boot.sys.remove(boot.layout.instance(KEEP_HOST_KEYS)));
        }
    } else if first && let Err(e) = forget_includes(&boot.sys, &dirs) {
        // The content behind one of their URLs may have to be corrected.
        warning!(boot.sys, "{e}");
    }
    consumed
}

/// Returns the image's setting for includes that cannot be fetched.
fn error_on_failure(boot: &Boot) -> Option<bool> {
    let setting = boot.settings.system.get("error_on_user_data_failure")?;
    if setting.as_bool().is_none() {
        warning!(boot.sys, "{}: error_on_user_data_failure: expected true or false; ignored", setting.at);
    }
    setting.as_bool()
}

fn has_consumed(boot: &Boot) -> bool {
    progress(&boot.sys, &boot.layout, SEMAPHORE, Frequency::Instance) == Progress::Finished
}

/// Returns whether the instance's user-data is not consumed yet.
pub(crate) fn is_unconsumed(boot: &Boot, found: &FoundInstance) -> bool {
    if boot.layout.is_unlinked() {
        // The datasource None without a boot has no user-data to wait for.
        return false;
    }
    if boot.layout.is_cleaned(&boot.sys) {
        // By a boothook: the stage goes on with what it has read.
        return false;
    }
    found.is_unrecorded || !has_consumed(boot)
}

/// Returns which modules of the lists run.
pub(crate) fn run_mode(boot: &Boot, found: &FoundInstance) -> RunMode {
    if is_unconsumed(boot, found) { RunMode::WithoutUserData } else { RunMode::Full }
}

/// Keeps the host keys that an earlier boot of this instance generated: one without user-data, or before the state was lost.
pub(crate) fn preserve_own_host_keys(boot: &mut Boot, mode: RunMode) {
    let without_user_data =
        mode == RunMode::WithoutUserData && boot.sys.exists(boot.layout.instance(KEEP_HOST_KEYS));
    if (without_user_data || boot.sys.exists(boot.layout.lost_state()))
        && let Some(map) = boot.settings.merged.as_map_mut()
    {
        map.insert("ssh_deletekeys", Node::from(false));
    }
}

/// Records that this boot, without user-data, generated the host keys.
pub(crate) fn mark_own_host_keys(boot: &Boot, found: &FoundInstance) {
    if found.is_unrecorded {
        return;
    }
    boot.sys.log_error(
        Level::Debug,
        boot.sys.write(boot.layout.instance(KEEP_HOST_KEYS), "", WriteOptions::default()),
    );
}

/// Writes the whole effective configuration, readable by root only.
fn write_combined(boot: &Boot) {
    let mut all = boot.settings.merged.clone();
    if let Some(map) = all.as_map_mut() {
        map.insert(
            "_doc",
            "The effective configuration, merged from that of the machine, the vendor and the user.",
        );
        map.insert("features", Node::from_json(&state::features()));
    }
    let system_info = all.get("system_info").map(Node::to_json).unwrap_or_default();
    boot.sys.log_error(Level::Warning, state::update_instance_data(&boot.sys, &boot.layout, &system_info));
    let path = boot.layout.combined_config();
    boot.sys.log_error(
        Level::Warning,
        boot.sys.write(&path, config::json::to_text(&all, 1), WriteOptions::secret()),
    );
}

fn to_data(blobs: &Blobs) -> Data<'_> {
    match &blobs.0[..] {
        [] => Data::Nothing,
        [one] => Data::Bytes(one),
        many => Data::List(many),
    }
}
