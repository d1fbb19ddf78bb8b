//! The first steps of a stage, and its reports when there is no instance.

use system::{debug, error, info, warning};

use crate::{FoundInstance, Stage, StageName};

impl Stage {
    /// Creates the directories of the state, and restores the links that a killed stage left changed.
    pub fn prepare_directories(&mut self) {
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
        let paths = cloud
            .map(|name| self.layout.cloud(name))
            .into_iter()
            .chain([self.layout.run(""), self.layout.run("sem")]);
        let failed: Vec<String> = paths
            .filter_map(|path| self.sys.create_dir_all(path, 0o755).err())
            .map(|e| e.to_string())
            .collect();
        for message in failed {
            self.fail(message);
        }
        // A stage that is killed while it fetches metadata leaves its temporary network.
        ephemeral::roll_back_stale(&self.sys, &self.layout.run(ephemeral::JOURNAL_DIR));
    }

    /// Removes the previous boot's `boot-finished`, which programs wait for. Only the first stage of a boot does this.
    pub fn remove_boot_finished(&mut self) {
        if self.name == StageName::Network && !self.replaces_local() {
            return;
        }
        if let Err(e) = self.sys.remove(self.layout.boot_finished()) {
            error!(self.sys, "{e}");
        }
    }

    /// Logs a step of the stage.
    pub fn log_step(&self, text: &str) {
        debug!(self.sys, "{text}");
    }

    /// Returns whether the local stage completed the instance, because its datasource is in local mode. Logs it.
    pub fn is_completed_by_local(&mut self, found: &FoundInstance) -> bool {
        let description = &found.instance.description;
        let is_done = found.is_cached && found.instance.dsmode == "local" && !self.is_unconsumed();
        if !is_done || self.replaces_local() {
            return false;
        }
        self.set_datasource(description);
        self.log_step(&format!("[net] Exiting. datasource {description} in local mode"));
        true
    }

    /// Reports that no datasource was found. The words are upstream's, which people search for.
    pub fn report_no_instance(&mut self) {
        const PROBLEM: &str = "No instance datasource found! Likely bad things to come!";
        const RESULT: &str = "No instance datasource found.";
        if self.search_failures.is_empty() {
            warning!(self.sys, "{PROBLEM}");
            self.log_step("[net] Exiting without datasource");
            return self.report_no_datasource(RESULT);
        }
        // One line has the result and its cause.
        info!(self.sys, "{PROBLEM}");
        self.log_step("[net] Exiting without datasource");
        let failures = self.search_failures.join("; ");
        self.report_no_datasource(&format!("{RESULT} Failed: {failures}"));
    }

    /// Reports that there is no instance to configure: an error, with `--force` a warning.
    pub fn report_no_datasource(&mut self, message: &str) {
        self.sys.print(message);
        if self.args.force {
            warning!(self.sys, "{message} (continuing because of --force)");
        } else {
            self.fail(message);
        }
    }

    /// Sets the hostname before networking, so that DHCP requests contain it.
    pub fn set_hostname(&mut self, found: &FoundInstance) {
        // The user's name, as an earlier boot stored it, overrides the cloud's. Otherwise each boot would set the cloud's
        // name here, and the network stage would change it back.
        let stored = self.stored_settings(&found.instance, &["hostname", "fqdn"]);
        let context = self.context(&found.instance);
        let config = stored.as_ref().map_or(context.config, |stored| &stored.merged);
        let context = modules::Context { config, ..context };
        // The keys that are set are the cause; without any the name is the cloud's.
        let is_set = |key: &&str| context.config.get(key).is_some();
        let keys: Vec<&str> = ["hostname", "fqdn"].into_iter().filter(is_set).collect();
        self.sys.set_cause("hostname", keys.join(", "));
        if let Err(e) = modules::set_hostname_early(&context) {
            warning!(self.sys, "setting the hostname: {e}; the set_hostname module will retry");
        }
    }
}

/// Returns the error of a module stage without an instance. The words are upstream's, which people search for.
pub fn cannot_apply_message(mode: &str) -> String {
    format!("Can not apply stage {mode}, no datasource found! Likely bad things to come!")
}
