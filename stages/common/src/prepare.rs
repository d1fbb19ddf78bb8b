//! Directories that must be there, and what an earlier boot left.

use std::process::ExitCode;

use system::{debug, error, warning};

use crate::{FoundInstance, Stage};

impl Stage {
    /// The state's directories; and what a killed stage left on links is undone.
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
        // A stage that was killed while it read metadata has left a link as it had it then.
        ephemeral::roll_back_stale(&self.sys, &self.layout.run(ephemeral::JOURNAL_DIR));
    }

    /// Whoever waits for the end of this boot must not see the last one's.
    pub fn remove_boot_finished(&mut self) {
        if let Err(e) = self.sys.remove(self.layout.instance("boot-finished")) {
            error!(self.sys, "{e}");
        }
    }

    /// Logs how the stage goes on.
    pub fn log_step(&self, text: &str) {
        debug!(self.sys, "{text}");
    }

    /// No datasource has an instance for this machine. In upstream's words: people look for them.
    pub fn report_no_instance(&mut self) {
        warning!(self.sys, "No instance datasource found! Likely bad things to come!");
        self.log_step("[net] Exiting without datasource");
        self.report_no_datasource("No instance datasource found.");
    }

    /// There is no instance to work for.
    pub fn report_no_datasource(&mut self, message: &str) {
        self.sys.print(message);
        if self.args.force {
            warning!(self.sys, "{message} (continuing, as --force asks)");
        } else {
            self.fail(message);
        }
    }

    /// Gives the machine its name before networking, so that DHCP requests carry it.
    pub fn set_hostname(&mut self, found: &FoundInstance) {
        // What the user said of the name at an earlier boot counts before the cloud's word: without it each boot would
        // give the machine the cloud's name, and the network stage take it back.
        let stored = self.stored_settings(&found.instance, &["hostname", "fqdn"]);
        let context = self.context(&found.instance);
        let config = stored.as_ref().map_or(context.config, |stored| &stored.merged);
        let context = modules::Context { config, ..context };
        // Without them the name is the cloud's.
        let is_set = |key: &&str| context.config.get(key).is_some();
        let keys: Vec<&str> = ["hostname", "fqdn"].into_iter().filter(is_set).collect();
        self.sys.set_cause("hostname", keys.join(", "));
        if let Err(e) = modules::set_hostname::run_early(&context) {
            warning!(self.sys, "setting the hostname: {e}; the set_hostname module tries again");
        }
    }
}

/// What a stage of modules says without an instance, in upstream's words: people look for them.
pub fn cannot_apply_message(mode: &str) -> String {
    format!("Can not apply stage {mode}, no datasource found! Likely bad things to come!")
}

/// So many errors as an exit code; never 0 for some.
pub(crate) fn exit_code(errors: usize) -> ExitCode {
    ExitCode::from(u8::try_from(errors).unwrap_or(u8::MAX))
}
