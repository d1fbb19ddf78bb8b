//! User-data and vendor-data: stores the raw data, splits it into parts, handles these, and reads the settings again.
//!
//! Until that has succeeded for an instance (the server of an `#include` is down, the disk is full), no once-per-instance
//! module may run: it would run without the owner's configuration, and never again. The semaphore `consume_data` is written
//! when everything that later stages need is on disk, and each stage checks it.

use std::time::Duration;

use config::{Findings, Node};
use modules::{KEEP_HOST_KEYS, RunMode};
use state::{Blobs, Cached, Frequency, Instance, acquire, has_run};
use system::{Command, OutputMode, System, WriteOptions, debug, info, warning};
use userdata::{Consumed, Data, Dirs, Options, RawData, Source, consume, forget_includes, store};

use crate::{FoundInstance, Stage, StageName, error_prefix, logging};

const SEMAPHORE: &str = "consume_data";
/// The time limit of the network stage's own unit.
// Wait: config and final stage | the network stage's program, if user-data is incomplete | -
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(1800);

impl Stage {
    /// Consumes the instance's user-data and vendor-data, and reads the resulting settings. The raw data, which may be large,
    /// is freed.
    pub(crate) fn consume(&mut self, found: &mut FoundInstance) {
        let given = &mut found.instance;
        let blobs =
            [&mut given.user_data, &mut given.vendor_data, &mut given.vendor_data2].map(std::mem::take);
        let instance = &found.instance;
        self.sys.set_cause("user-data", "");
        let consumed = match self.consume_obstacle(instance) {
            Some(why) => Consumed { failed: vec![why], ..Consumed::default() },
            None => self.consume_blobs(instance, &blobs, found.is_cached),
        };
        drop(blobs);
        let check = |config| modules::schema::check_cloud_config(config, &modules::where_key_belongs);
        let checked: Vec<_> = consumed.configs.iter().filter(|c| !c.is_null()).map(check).collect();
        let mut reported = consumed.findings;
        self.report(&reported);
        let mut found = Findings::default();
        checked.into_iter().for_each(|of_one| found.extend(of_one));
        self.report_schema(&found);
        reported.extend(found);
        if !consumed.failed.is_empty() {
            let then = match self.is_unconsumed() {
                true => {
                    "; once-per-instance modules are deferred until this succeeds; later stages and the next boot will retry. \
                     To use changed user-data: cloud-init clean --reboot"
                }
                false => "; using the configuration of an earlier boot",
            };
            let prefix = error_prefix::UNCONSUMED;
            self.fail(format!("{prefix}{}{then}", consumed.failed.join("; ")));
        }
        let before = std::mem::replace(&mut self.settings.merged, Node::null());
        self.reload_settings(instance, consumed.parsed_files);
        if self.args.plan.is_none() {
            logging::update_output(&self.sys, &before, &self.settings.merged, self.name.mode());
        }
        self.store_source_map(&consumed.configs, &reported);
        self.write_combined();
    }

    /// Returns why consuming cannot begin, if so.
    fn consume_obstacle(&self, instance: &Instance) -> Option<String> {
        if self.activation_failed {
            return Some("the instance could not be recorded".into());
        }
        instance.raw_data_error.clone()
    }

    fn consume_blobs(&self, instance: &Instance, blobs: &[Blobs; 3], already_stored: bool) -> Consumed {
        let dirs = self.user_data_dirs();
        let [user, vendor, vendor2] = blobs.each_ref().map(to_data);
        let raw = RawData { user, vendor, vendor2, already_stored };
        // Includes are fetched while it is stored.
        self.measure(|| Source::ALL.map(|source| (source.name(), raw.of(source).raw())).into());
        let stored = store(&self.sys, &dirs, &raw);
        let first = !has_run(&self.sys, &self.layout, SEMAPHORE, Frequency::Instance);
        // Without the vendor's own data, which must not decide whether the vendor's data is used.
        let options = Options {
            config: &self.settings.system,
            instance_id: &instance.id,
            launch_index: instance.launch_index,
            first_boot: first,
            event: self.name.event_name(),
            instance_data: &self.layout.sensitive_instance_data(),
        };
        let mut consumed = consume(&self.sys, &dirs, &stored, &options);
        if first && consumed.failed.is_empty() {
            if let Err(e) = acquire(&self.sys, &self.layout, SEMAPHORE, Frequency::Instance) {
                consumed.failed.push(e.to_string());
            } else if let Err(e) = self.sys.remove(self.layout.instance(KEEP_HOST_KEYS)) {
                debug!(self.sys, "{e}");
            }
        } else if first && let Err(e) = forget_includes(&self.sys, &dirs) {
            // The owner may have to change one of them.
            warning!(self.sys, "{e}");
        }
        consumed
    }

    pub(crate) fn user_data_dirs(&self) -> Dirs {
        Dirs { cloud: self.layout.cloud(""), instance: self.layout.instance("") }
    }

    /// Returns whether the instance's user-data is not consumed yet.
    pub fn is_unconsumed(&self) -> bool {
        if self.layout.is_unlinked() {
            // The datasource None without a boot has no user-data to wait for.
            return false;
        }
        self.activation_failed || !has_run(&self.sys, &self.layout, SEMAPHORE, Frequency::Instance)
    }

    /// Returns which modules of the lists run.
    pub(crate) fn run_mode(&self) -> RunMode {
        if self.is_unconsumed() { RunMode::WithoutUserData } else { RunMode::Full }
    }

    /// Keeps the host keys that an earlier boot without user-data generated: they belong to this instance.
    pub(crate) fn preserve_own_host_keys(&mut self) {
        if self.sys.exists(self.layout.instance(KEEP_HOST_KEYS))
            && let Some(map) = self.settings.merged.as_map_mut()
        {
            map.insert("ssh_deletekeys", Node::from(false));
        }
    }

    /// Notes that this boot, without user-data, generated the host keys.
    pub(crate) fn mark_own_host_keys(&self) {
        if self.activation_failed {
            return;
        }
        if let Err(e) = self.sys.write(self.layout.instance(KEEP_HOST_KEYS), "", WriteOptions::default()) {
            debug!(self.sys, "{e}");
        }
    }

    /// Starts, before a later stage's modules and if user-data is not consumed yet, the network stage's program to retry.
    /// On success it also runs the deferred modules of the stages before this one.
    pub fn catch_up(&mut self, found: &mut FoundInstance) {
        let is_boot = !self.args.task.is_manual() && self.args.plan.is_none();
        if !is_boot || self.activation_failed || !self.is_unconsumed() {
            return;
        }
        let Some(program) = system::libexec::find("cloud-init-network") else { return };
        info!(self.sys, "user-data of this instance is not consumed yet; retrying");
        let program = program.to_string_lossy().into_owned();
        let files = self.args.files.iter().flat_map(|file| ["--file", file]);
        let words = [program.as_str(), "--catch-up", self.name.mode(), "--root", &self.args.root];
        let words = words.into_iter().chain(files);
        let words = words.chain(self.args.debug.then_some("--debug"));
        // The program is the host's; it works on the root that it gets.
        let command = Command::new(words).output(OutputMode::Inherit).accept_all().timeout(CATCH_UP_TIMEOUT);
        let ended = System::new("/").run(&command);
        if self.is_unconsumed() {
            if let Err(e) = ended {
                warning!(self.sys, "{e}");
            }
            return;
        }
        match ended.map(|ended| ended.code) {
            Ok(0) => {}
            Ok(code) => self.fail(format!("{code} deferred modules of earlier stages failed; see the log")),
            Err(e) => self.fail(e.to_string()),
        }
        self.clear_errors(StageName::Network, error_prefix::UNCONSUMED);
        self.clear_errors(StageName::Config, error_prefix::UNCONSUMED);
        if let Some(again) = self.cached_instance() {
            *found = again;
        }
        self.reload_settings(&found.instance, Vec::new());
    }

    /// Runs what [`Stage::catch_up`] starts before the modules of the mode `before`.
    pub fn run_catch_up(&mut self, before: &str) {
        let Cached::Instance(instance) = Instance::load(&self.sys, &self.layout) else {
            return self
                .report_no_datasource("user-data cannot be consumed: no instance was found in this boot");
        };
        let mut found = FoundInstance { instance: *instance, is_new: false, is_cached: true };
        self.reload_settings(&found.instance, Vec::new());
        self.consume(&mut found);
        self.activate_datasource(&mut found, true);
        if !self.is_unconsumed() {
            let modes = ["init", "config"].into_iter().take_while(|mode| *mode != before);
            modes.for_each(|mode| self.run_modules(&found.instance, mode));
        }
    }

    /// Writes the whole effective configuration, readable by root only.
    fn write_combined(&mut self) {
        let mut all = self.settings.merged.clone();
        if let Some(map) = all.as_map_mut() {
            map.insert(
                "_doc",
                "The effective configuration, merged from that of the machine, the vendor and the user.",
            );
            map.insert("features", Node::from_json(&state::features()));
        }
        let system_info = all.get("system_info").map(Node::to_json).unwrap_or_default();
        if let Err(e) = state::update_instance_data(&self.sys, &self.layout, &system_info) {
            warning!(self.sys, "{e}");
        }
        let path = self.layout.combined_config();
        if let Err(e) = self.sys.write(&path, config::json::to_text(&all, 1), WriteOptions::secret()) {
            warning!(self.sys, "{e}");
        }
    }
}

fn to_data(blobs: &Blobs) -> Data<'_> {
    match &blobs.0[..] {
        [] => Data::Nothing,
        [one] => Data::Bytes(one),
        many => Data::List(many),
    }
}
