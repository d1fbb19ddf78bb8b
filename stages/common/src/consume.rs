//! User-data and vendor-data: stored as they came, taken apart, handled; then the configuration is read again.

use config::settings::{Layer, Origin};
use config::{Findings, Kind, Node, Origins};
use state::Raw as Blobs;
use state::{Frequency, acquire, has_run};
use system::{Write, debug, warning};
use userdata::{Data, Dirs, Options, Raw, consume, store};

use crate::stage::{MOST_FINDINGS, ORIGINS};
use crate::{Found, Stage, logging};

impl Stage {
    /// Consumes what the instance was given, and reads the settings that come of it. Raw data may be large: they
    /// are gone afterwards.
    pub fn consume(&mut self, found: &mut Found) {
        let given = &mut found.instance;
        let blobs =
            [&mut given.user_data, &mut given.vendor_data, &mut given.vendor_data2].map(std::mem::take);
        let instance = &found.instance;
        let event = self.name.event();
        self.sys.because("user-data", "");
        debug!(self.sys, "start: {event}/consume-user-data: reading and applying user-data");
        let dirs = Dirs { cloud: self.layout.cloud(""), instance: self.layout.instance("") };
        let [user, vendor, vendor2] = blobs.each_ref().map(data);
        let raw = Raw { user, vendor, vendor2, are_kept: found.is_cached };
        let result = (|| {
            let stored = store(&self.sys, &dirs, &raw);
            let first = !has_run(&self.sys, &self.layout, "consume_data", Frequency::Instance);
            if first {
                acquire(&self.sys, &self.layout, "consume_data", Frequency::Instance)?;
            }
            // The user may not switch a vendor on or off through the vendor's own data.
            let options = Options {
                config: &self.settings.system,
                instance_id: &instance.id,
                launch_index: instance.launch_index,
                first,
                instance_data: &self.layout.run("instance-data-sensitive.json"),
            };
            consume(&self.sys, &dirs, &stored, &options)
        })();
        drop(blobs);
        let (mut configs, mut known, mut told) = (Vec::new(), Vec::new(), Findings::default());
        match result {
            Ok(consumed) => {
                let check = |config| modules::schema::cloud_config(config, &modules::belongs);
                let checked: Vec<_> = consumed.configs.iter().filter(|c| !c.is_null()).map(check).collect();
                let mut findings = consumed.findings;
                self.report(&findings);
                let mut found = Findings::default();
                checked.into_iter().for_each(|of_one| found.extend(of_one));
                self.report_schema(&found);
                findings.extend(found);
                (configs, known, told) = (consumed.configs, consumed.known, findings);
                debug!(
                    self.sys,
                    "finish: {event}/consume-user-data: SUCCESS: reading and applying user-data"
                );
            }
            Err(e) => {
                debug!(self.sys, "finish: {event}/consume-user-data: FAIL: reading and applying user-data");
                self.fail(format!("user-data and vendor-data: {e}"));
            }
        }
        let before = std::mem::replace(&mut self.settings.merged, Node::null());
        self.reload_settings(instance, known);
        if self.args.plan.is_none() {
            logging::redirect_output_again(&self.sys, &before, &self.settings.merged, self.name.mode());
        }
        self.keep_origins(&configs, &told);
        self.write_combined();
    }

    /// For this stage and the later ones, which read the merged configurations from their files: what is wrong in
    /// one of these is reported where the user wrote it, and not again where the check has told it.
    fn keep_origins(&mut self, configs: &[Node], told: &Findings) {
        let is_merged =
            |layer: &&Layer| matches!(layer.origin, Origin::User | Origin::Vendor | Origin::Vendor2);
        let layers = self.settings.layers.iter().filter(is_merged);
        let merged: Vec<(&str, &Node, &Node)> = layers
            .filter_map(|layer| {
                let config = configs.iter().find(|config| **config == layer.config)?;
                Some((layer.name.as_str(), &layer.config, config))
            })
            .collect();
        let file = self.layout.run(ORIGINS);
        let told = told.iter().take(MOST_FINDINGS).filter(|f| f.kind == Kind::Wrong).map(|f| &f.at);
        if let Err(e) = Origins::keep(&self.sys, &file, &merged, told) {
            warning!(self.sys, "{e}");
        }
        self.origins = Origins::at(file);
    }

    /// The whole effective configuration, for root.
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
        if let Err(e) = state::complete_instance_data(&self.sys, &self.layout, &system_info) {
            warning!(self.sys, "{e}");
        }
        let path = self.layout.run("combined-cloud-config.json");
        if let Err(e) = self.sys.write(&path, config::json::to_text(&all, 1), Write::secret()) {
            warning!(self.sys, "{e}");
        }
    }
}

fn data(blobs: &Blobs) -> Data<'_> {
    match &blobs.0[..] {
        [] => Data::Nothing,
        [one] => Data::Bytes(one),
        many => Data::List(many),
    }
}
