//! Determines the instance of this boot: from the cache if that can be trusted or confirmed, otherwise by a search.

use config::Node;
use datasource::{IdentityCheck, Outcome, Search, class_name, datasource, is_name, is_same_machine, search};
use netconfig::events::Event;
use state::{Cached, Instance, Previous, instancify, write_instance_data};
use system::{Step, StepResult, WriteOptions, debug, info, warning};

use crate::{Stage, StageName, platform};

/// The instance of this boot.
pub struct FoundInstance {
    /// The instance.
    pub instance: Instance,
    /// The machine was another instance before, or this is its first boot.
    pub is_new: bool,
    /// It comes from the cache; no metadata was fetched.
    pub is_cached: bool,
}

impl Stage {
    /// Finds the instance, in the local and the network stage. `None`: no datasource was found (so far).
    pub fn find_instance(&mut self) -> Option<FoundInstance> {
        let cached = Instance::load(&self.sys, &self.layout);
        let step = self.begin_cache_check(if self.name == StageName::Local { "check" } else { "trust" });
        let mut was_another = false;
        let candidate = match cached {
            Cached::Instance(instance) => {
                if let Some(e) = &instance.raw_data_error {
                    warning!(self.sys, "{e}; fetching the metadata of instance {} again", instance.id);
                }
                let is_whole = instance.raw_data_error.is_none();
                let is_fixed = is_whole && self.is_cleaned_by_hand();
                if is_whole && self.is_of_this_boot(&instance.id) || is_fixed && !self.must_refresh(&instance)
                {
                    return Some(self.found_in_cache(step, *instance, "restored from cache with run check"));
                }
                match if is_fixed { IdentityCheck::Same } else { self.check(&instance) } {
                    IdentityCheck::Same if !is_whole => {
                        Some(Candidate { is_confirmed: true, ..Candidate::unconfirmed(*instance) })
                    }
                    IdentityCheck::Same if self.must_refresh(&instance) => {
                        debug!(
                            self.sys,
                            "still instance {}; refreshing its network configuration (event `boot` is enabled)",
                            instance.id
                        );
                        Some(Candidate { instance: *instance, is_confirmed: true, is_fixed })
                    }
                    IdentityCheck::Same => {
                        return Some(self.found_in_cache(step, *instance, "restored from checked cache"));
                    }
                    IdentityCheck::Different(why) => {
                        info!(self.sys, "cache invalid in datasource: {}: {why}", instance.description);
                        was_another = true;
                        None
                    }
                    IdentityCheck::Unknown(why) => {
                        debug!(self.sys, "could not verify instance {} without a search: {why}", instance.id);
                        Some(Candidate::unconfirmed(*instance))
                    }
                }
            }
            Cached::Python { id } => {
                let id = id.unwrap_or_else(|| "with unknown ID".into());
                info!(
                    self.sys,
                    "instance {id} was set up by Python's cloud-init; using its ID and semaphores"
                );
                Instance::from_text_files(&self.sys, &self.layout).map(Candidate::unconfirmed)
            }
            Cached::Corrupt => Instance::from_text_files(&self.sys, &self.layout).map(Candidate::unconfirmed),
            Cached::Missing => None,
        };
        step.end(&self.sys, StepResult::Success, "no cache found");
        let found = self.search(candidate);
        if found.is_none() && was_another {
            // Later stages must not work for another instance. Its files stay.
            if let Err(e) = self.sys.remove(self.layout.instance("")) {
                warning!(self.sys, "{e}");
            }
        }
        found
    }

    /// Returns whether each boot refreshes the instance's network configuration.
    fn must_refresh(&self, instance: &Instance) -> bool {
        [Event::Boot, Event::BootLegacy].into_iter().any(|event| self.is_event_enabled(instance, event))
    }

    fn begin_cache_check(&self, trust: &str) -> Step {
        let event = format!("{}/check-cache", self.name.event_name());
        self.sys.begin_step(event, format!("attempting to read from cache [{trust}]"))
    }

    fn found_in_cache(&mut self, step: Step, instance: Instance, how: &str) -> FoundInstance {
        step.end(&self.sys, StepResult::Success, format!("{how}: {}", instance.description));
        FoundInstance { instance, is_new: false, is_cached: true }
    }

    /// Returns the ID of the instance that a stage of this boot found.
    fn id_of_this_boot(&self) -> Option<String> {
        self.sys.read_text(self.layout.boot_instance_id()).ok().map(|id| id.trim().to_string())
    }

    /// Returns whether this boot found another instance, which could not be recorded.
    fn is_of_other_instance(&self, cached: &Instance) -> bool {
        self.id_of_this_boot().is_some_and(|id| id != cached.id.trim())
    }

    /// Returns whether the administrator removes the cache when the machine becomes another instance.
    fn is_cleaned_by_hand(&self) -> bool {
        self.settings.get("manual_cache_clean").is_some_and(|n| !n.is_falsy())
            || self.sys.exists(self.layout.instance("manual-clean"))
    }

    /// Returns whether a stage of this boot found that instance: the later ones use the cache without a check.
    fn is_of_this_boot(&self, id: &str) -> bool {
        self.id_of_this_boot().as_deref() == Some(id.trim())
    }

    fn check(&self, instance: &Instance) -> IdentityCheck {
        match datasource(&instance.datasource) {
            Some(row) if self.datasource_list().iter().any(|entry| is_name(entry, row.name)) => {
                (row.check)(&self.search_context(), instance)
            }
            Some(row) => IdentityCheck::Different(format!("datasource_list no longer contains {}", row.name)),
            None => IdentityCheck::Unknown(format!("unknown datasource {}", instance.datasource)),
        }
    }

    fn search(&mut self, candidate: Option<Candidate>) -> Option<FoundInstance> {
        let list = self.datasource_list();
        let mut outcome = Outcome::default();
        let is_confirmed = candidate.as_ref().is_some_and(|candidate| candidate.is_confirmed);
        let is_known_machine = candidate
            .as_ref()
            .is_some_and(|candidate| is_same_machine(&self.search_context(), &candidate.instance));
        let ctx = Search { has_cached_instance: is_confirmed || is_known_machine, ..self.search_context() };
        if self.replaces_local() {
            // Otherwise datasources of the local stage would not be searched, and None would be used.
            outcome = search(&Search { stage: datasource::Stage::Local, ..ctx }, &list);
        }
        if outcome.found.is_none() {
            let errors = outcome.errors;
            outcome = search(&ctx, &list);
            outcome.errors.splice(0..0, errors);
        }
        self.report_search(&outcome);
        let failures = self.all_failures(&list, &outcome);
        if let Some(instance) = outcome.found {
            // The fallback None must not replace an instance that merely could not be confirmed.
            let is_worse = instance.datasource == "None"
                && candidate.as_ref().is_some_and(|k| k.instance.datasource != "None");
            let is_other = candidate.as_ref().is_some_and(|k| k.is_fixed && k.instance.id != instance.id);
            if is_other {
                info!(
                    self.sys,
                    "the metadata belongs to instance {}; ignored, as manual_cache_clean is set", instance.id
                );
            }
            if !is_worse && !is_other {
                if instance.datasource == "None" {
                    self.report_none(&failures);
                } else {
                    self.report_unread(&instance, &failures);
                }
                let previous = Previous::read(&self.sys, &self.layout);
                let is_new = previous.is_new(&self.layout, &instance);
                return Some(FoundInstance { instance, is_new, is_cached: false });
            }
        }
        let Some(Candidate { instance, is_confirmed, .. }) = candidate else {
            self.search_failures = failures;
            return None;
        };
        // One warning names the instance that is kept, and the failures.
        let why = Some(failures.join("; ")).filter(|why| !why.is_empty());
        if is_confirmed {
            if let Some(why) = why {
                warning!(self.sys, "using the cached instance {}: {why}", instance.id);
                self.set_extra(
                    "instance_check",
                    "confirmed; its metadata could not be fetched again; using the cached metadata",
                );
            }
            debug!(self.sys, "restored from checked cache: {}", instance.description);
            return Some(FoundInstance { instance, is_new: false, is_cached: true });
        }
        let can_come_later = outcome.deferred.iter().any(|n| n.eq_ignore_ascii_case(&instance.datasource));
        if self.name == StageName::Local && can_come_later && !was_found_by_local_stage(&instance) {
            debug!(self.sys, "{} may be found in the network stage", instance.datasource);
            self.expected = is_known_machine.then(|| Box::new(instance));
            return None;
        }
        let why = why.unwrap_or_else(|| "its datasource was not found".into());
        if is_known_machine {
            warning!(
                self.sys,
                "using the cached instance {} ({}), as the firmware's identity (DMI) has not changed: {why}",
                instance.id,
                instance.description
            );
            self.set_extra(
                "instance_check",
                "the firmware's identity has not changed; keeping the cached instance",
            );
            return Some(FoundInstance { instance, is_new: false, is_cached: true });
        }
        warning!(
            self.sys,
            "could not verify instance {} ({}): {why}; keeping the cached instance",
            instance.id,
            instance.description
        );
        self.set_extra("instance_check", "could not verify the instance; keeping the cached instance");
        Some(FoundInstance { instance, is_new: false, is_cached: true })
    }

    pub(crate) fn search_context(&self) -> Search<'_> {
        Search {
            sys: &self.sys,
            layout: &self.layout,
            config: &self.settings.system,
            command_line: &self.command_line,
            stage: if self.name == StageName::Local {
                datasource::Stage::Local
            } else {
                datasource::Stage::Network
            },
            machine: self,
            has_cached_instance: false,
        }
    }

    /// Returns the names of `datasource_list`, in order.
    pub fn datasource_list(&self) -> Vec<String> {
        let items = self.settings.system.get("datasource_list").and_then(Node::as_seq).unwrap_or_default();
        items.iter().filter_map(|n| n.as_str().map(Into::into)).collect()
    }

    /// Returns the instance that an earlier stage found, without its raw data, for the config and final stages.
    /// If no stage of this boot has searched, that is None, provided that it is listed.
    pub fn cached_instance(&mut self) -> Option<FoundInstance> {
        let step = self.begin_cache_check("trust");
        match Instance::load_without_raw_data(&self.sys, &self.layout) {
            Cached::Instance(instance) if self.is_of_other_instance(&instance) => {
                warning!(
                    self.sys,
                    "the cache belongs to instance {}, not to the current instance",
                    instance.id
                );
                step.end(&self.sys, StepResult::Success, "no cache found");
                None
            }
            Cached::Instance(instance) => {
                if instance.config.as_object().is_some_and(|c| !c.is_empty()) {
                    self.reload_settings(&instance, Vec::new());
                }
                Some(self.found_in_cache(step, *instance, "restored from cache with run check"))
            }
            Cached::Python { id } if id.as_deref().is_some_and(|id| self.is_of_this_boot(id)) => {
                // Python's cloud-init was replaced after it had run in this boot: a manual task is for its instance.
                let instance = Instance::from_text_files(&self.sys, &self.layout)?;
                Some(self.found_in_cache(step, instance, "restored from the files of Python's cloud-init"))
            }
            Cached::Missing => {
                step.end(&self.sys, StepResult::Success, "no cache found");
                self.instance_without_search()
            }
            Cached::Python { .. } | Cached::Corrupt => {
                step.end(&self.sys, StepResult::Success, "no cache found");
                None
            }
        }
    }

    /// Makes the instance the current one on disk: link, cache and the files in /run.
    pub fn activate(&mut self, found: &FoundInstance) {
        let instance = &found.instance;
        self.set_datasource(&instance.description);
        self.sys.set_cause("instance", "");
        debug!(
            self.sys,
            "[{}] init will now be targeting instance id: {}. new={}",
            self.mode_name(),
            instance.id,
            if found.is_new { "True" } else { "False" }
        );
        if found.is_cached && self.is_activated(instance) {
            return self.configure_stored_reporting(instance);
        }
        let result = (|| {
            if found.is_new {
                // Before the instance is recorded: after a power cut the next boot must still apply the network.
                self.sys.write(self.network_due_marker(instance), "", WriteOptions::default().durable())?;
            }
            let mut files = self.sys.write_group();
            let recorded = instancify(&mut files, &self.layout, instance)
                .and_then(|_| instance.store_in(&mut files, &self.layout));
            // What could be written is kept, also after an error.
            files.finish().and(recorded)?;
            if !found.is_cached {
                userdata::forget_includes(&self.sys, &self.user_data_dirs())?;
            }
            let config = self.settings.system.to_json();
            write_instance_data(&self.sys, &self.layout, instance, &platform::platform(&self.sys), &config)?;
            if self.settings.get("manual_cache_clean").is_some_and(|n| !n.is_falsy()) {
                self.sys.write(self.layout.instance("manual-clean"), "", WriteOptions::default())?;
            }
            Ok::<_, system::Error>(())
        })();
        if let Err(e) = result {
            self.fail(format!("recording instance {}: {e}", instance.id));
            let link = self.layout.instance("");
            self.activation_failed =
                self.sys.read_link(&link).ok() != Some(self.layout.instance_dir(&instance.id));
            if self.activation_failed
                && let Err(e) = self.sys.remove(&link)
            {
                // Later stages compare the cache's ID with that in /run.
                warning!(self.sys, "{e}");
            }
        }
        self.render_settings();
        self.configure_stored_reporting(instance);
    }

    /// Returns upstream's word for the stage in messages.
    pub fn mode_name(&self) -> &'static str {
        if self.name == StageName::Local { "local" } else { "net" }
    }

    /// Returns whether the local stage recorded the instance in this boot.
    fn is_activated(&self, instance: &Instance) -> bool {
        self.name != StageName::Local
            && !self.replaces_local()
            && self.id_of_this_boot().as_deref() == Some(instance.id.trim())
            && self.sys.exists(self.layout.instance_data())
    }
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
        let has = |stage| row.stages.contains(&stage);
        has(datasource::Stage::Local)
            && (!has(datasource::Stage::Network) || class == class_name(row, datasource::Stage::Local))
    })
}
