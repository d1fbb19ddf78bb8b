//! install_hotplug: writes the udev rule that reports NICs plugged in while the machine runs, or removes it if hotplug is
//! disabled. The network stage configures such NICs.

use std::path::Path;

use config::schema::Type;
use config::{FromNode, Node, Reader};
use state::Layout;
use system::{Change, Command, Result, System, WriteOptions, debug, libexec};

use crate::{Context, Frequency, Module};

/// The module, for the runner.
pub const MODULE: Module = Module::of::<Keys>("install_hotplug", Frequency::Instance, run).repeatable();

config::string_enum! {
    pub enum Event {
        NewInstance = "boot-new-instance",
        BootLegacy = "boot-legacy",
        Boot = "boot",
        Hotplug = "hotplug",
    }
}

config::keys! {
    pub struct NetworkUpdates {
        /// Events that update the network configuration from the metadata.
        when: Events;
    }
    pub struct Updates {
        /// Updates of the network configuration.
        network: Option<NetworkUpdates>;
    }
    pub struct Keys {
        /// When the configuration is updated from the metadata.
        updates: Option<Updates>;
    }
}

/// A list that must be set. Its words are checked when the configuration is merged with the datasource's.
#[derive(Debug, Clone)]
struct Events;

impl FromNode for Events {
    const SCHEMA: &'static [Type] = <Vec<Event>>::SCHEMA;
    fn read(node: &Node, reader: &mut Reader) -> Option<Events> {
        <Vec<Event>>::read(node, reader).map(|_| Events)
    }
}

/// Every event; a list with another word counts as empty.
const EVENTS: [&str; 4] = ["boot-new-instance", "boot", "boot-legacy", "hotplug"];

/// The path of the udev rule.
pub const HOTPLUG_RULE: &str = "/etc/udev/rules.d/90-cloud-init-hook-hotplug.rules";
/// The file of `devel hotplug-hook enable`.
const ENABLED_FILE: &str = "hotplug.enabled";
/// The program that udev runs, in the directory of the stages.
const HOOK: &str = "hook-hotplug";

fn run(context: &Context<'_>) -> Result<()> {
    context.read_keys::<Keys>();
    if context.hotplug.enabled || is_hotplug_enabled(context.sys, context.layout, context.config) {
        install_rule(context.sys, context.hotplug.udev_match)
    } else {
        debug!(context.sys, "hotplug is not enabled");
        remove_rule(context.sys)
    }
}

/// Returns whether hotplug is enabled: by `updates: {network: {when: [hotplug]}}` or by an operator.
pub fn is_hotplug_enabled(sys: &System, layout: &Layout, config: &Node) -> bool {
    let when = config.at_path(&["updates", "network", "when"]).and_then(Node::as_seq).unwrap_or_default();
    let words: Vec<&str> = when.iter().filter_map(Node::as_str).collect();
    let all_known = words.len() == when.len() && words.iter().all(|w| EVENTS.contains(w));
    (all_known && words.contains(&"hotplug")) || is_hotplug_enabled_by_operator(sys, layout)
}

/// Returns whether an operator has enabled hotplug.
pub fn is_hotplug_enabled_by_operator(sys: &System, layout: &Layout) -> bool {
    match state::read_json(sys, &layout.cloud(ENABLED_FILE)) {
        Ok(all) => {
            all["scopes"].as_array().is_some_and(|scopes| scopes.iter().any(|scope| scope == "network"))
        }
        Err(e) => {
            if !e.is_not_found() {
                debug!(sys, "{e}");
            }
            false
        }
    }
}

/// Enables hotplug permanently, regardless of the configuration, for the NICs that match the conditions `udev_match` of a udev
/// rule.
///
/// # Errors
/// Fails if a file cannot be written or udev does not reload its rules.
pub fn enable_hotplug(sys: &System, layout: &Layout, udev_match: &str) -> Result<()> {
    let text = serde_json::json!({"scopes": ["network"]}).to_string();
    sys.write(layout.cloud(ENABLED_FILE), text, WriteOptions::mode(0o640))?;
    install_rule(sys, udev_match)
}

/// Writes the rule, and makes udev read it if it is new.
fn install_rule(sys: &System, udev_match: &str) -> Result<()> {
    // Looked for in `sys`, not on the host: an image may have it elsewhere.
    let mut hooks = libexec::directories().map(|dir| dir.join(HOOK));
    let hook =
        hooks.find(|path| sys.is_file(path)).unwrap_or_else(|| Path::new(libexec::DIRECTORIES[0]).join(HOOK));
    if sys.write(HOTPLUG_RULE, rule_text(&hook, udev_match), WriteOptions::default())? == Change::Unchanged {
        return Ok(());
    }
    reload_rules(sys)
}

fn remove_rule(sys: &System) -> Result<()> {
    if !sys.exists(HOTPLUG_RULE) {
        return Ok(());
    }
    sys.remove(HOTPLUG_RULE)?;
    reload_rules(sys)
}

fn reload_rules(sys: &System) -> Result<()> {
    if sys.which("udevadm").is_none() {
        debug!(sys, "udevadm not found; udev reads the rule when it starts");
        return Ok(());
    }
    let reloaded = sys.run(&Command::new(["udevadm", "control", "--reload-rules"]));
    match reloaded {
        Err(e) if !sys.exists("/run/udev/control") => {
            debug!(sys, "{e}; udev does not run, and reads the rule when it starts");
            Ok(())
        }
        reloaded => reloaded.map(drop),
    }
}

fn rule_text(hook: &Path, udev_match: &str) -> String {
    let hook = hook.display();
    let udev_match = if udev_match.is_empty() { String::new() } else { format!("{udev_match}, ") };
    format!(
        "# Written by cloud-init: configures hotplugged NICs. Created or removed according to\n\
         # `updates: {{network: {{when: [hotplug]}}}}`.\n\
         ACTION!=\"add\", GOTO=\"cloud_init_hotplug_end\"\n\
         SUBSYSTEM==\"net\", {udev_match}RUN+=\"{hook}\"\n\
         LABEL=\"cloud_init_hotplug_end\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::{Sandbox, yaml};

    #[test]
    fn hotplug_is_enabled_by_updates_or_an_operator() {
        let sandbox = Sandbox::new("{}");
        let on = |text: &str| is_hotplug_enabled(&sandbox.sys, &sandbox.layout, &yaml(text));
        for (text, expected) in [
            ("{}", false),
            ("updates: {network: {when: [boot, hotplug]}}", true),
            ("updates: {network: {when: [boot]}}", false),
            ("updates: {network: {when: [hotplug, boots]}}", false),
            ("updates: {network: {when: hotplug}}", false),
            ("updates: {disks: {when: [hotplug]}}", false),
            ("updates: []", false),
        ] {
            assert_eq!(on(text), expected, "{text}");
        }
        let switch = sandbox.layout.cloud(ENABLED_FILE);
        for (text, expected) in
            [("junk", false), ("{\"scopes\": []}", false), ("{\"scopes\": [\"network\"]}", true)]
        {
            sandbox.sys.write(&switch, text, WriteOptions::default()).unwrap();
            assert_eq!(on("{}"), expected, "{text}");
        }
        // Not parsed beyond the limit of values, which is logged.
        let long = format!(r#"{{"scopes": ["network"], "x": [{}0]}}"#, "0,".repeat(config::yaml::MAX_NODES));
        sandbox.sys.write(&switch, long, WriteOptions::default()).unwrap();
        assert!(!on("{}"));
    }

    #[test]
    fn operators_rule_names_the_helper_of_the_machine() {
        let sandbox = Sandbox::new("{}");
        let beside = std::env::current_exe().unwrap().with_file_name(HOOK).display().to_string();
        for hook in ["/usr/libexec/cloud-init/hook-hotplug", "/usr/lib/cloud-init/hook-hotplug", &beside] {
            sandbox.sys.write(hook, "#!/bin/sh\n", WriteOptions::mode(0o755)).unwrap();
            enable_hotplug(&sandbox.sys, &sandbox.layout, "").unwrap();
            let rule = sandbox.sys.read_text(HOTPLUG_RULE).unwrap();
            assert!(rule.contains(&format!("RUN+=\"{hook}\"\n")), "{hook}: {rule}");
        }
        assert!(is_hotplug_enabled(&sandbox.sys, &sandbox.layout, &sandbox.config));
    }

    #[test]
    fn the_datasources_policy_is_followed() {
        let mut sandbox = Sandbox::new("{}");
        sandbox.hotplug = crate::HotplugPolicy { enabled: true, udev_match: "ATTR{address}==\"86:*\"" };
        sandbox.run(&MODULE).unwrap();
        let text = sandbox.sys.read_text(HOTPLUG_RULE).unwrap();
        assert!(text.contains("\nSUBSYSTEM==\"net\", ATTR{address}==\"86:*\", RUN+=\""), "{text}");
        sandbox.hotplug.enabled = false;
        sandbox.run(&MODULE).unwrap();
        assert!(!sandbox.sys.exists(HOTPLUG_RULE));
    }
}
