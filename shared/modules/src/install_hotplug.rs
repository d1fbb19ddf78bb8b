//! install_hotplug: the udev rule that tells of NICs which are plugged in while the machine runs, where that is
//! wanted; where it no longer is, the rule goes. What is done about such a NIC is the network stage's business.

use config::{FromNode, Node, Reader, Schema};
use state::{Frequency, Layout};
use system::{Change, Command, Result, System, WriteOptions, debug};

use crate::{Context, Declares, Distros, Module};

pub const MODULE: Module = Module {
    name: "install_hotplug",
    frequency: Frequency::Instance,
    distros: Distros::All,
    activation: &[],
    keys: &[Keys::KEYS],
    declares: Declares::Keys(Keys::TABLE),
    run,
};

config::string_enum! {
    enum Event {
        NewInstance = "boot-new-instance",
        BootLegacy = "boot-legacy",
        Boot = "boot",
        Hotplug = "hotplug",
    }
}

config::keys! {
    struct NetworkUpdates {
        /// Events at which the network configuration is read and applied again.
        when: Events;
    }
    struct Updates {
        /// Of the network.
        network: Option<NetworkUpdates>;
    }
    struct Keys {
        /// When what the cloud says is read again: at a boot, or as devices are plugged in.
        updates: Option<Updates>;
    }
}

/// A list that has to be there. Its words are looked at where the configuration is merged with the datasource's.
#[derive(Debug, Clone)]
struct Events;

impl FromNode for Events {
    const SCHEMA: Schema = <Vec<Event>>::SCHEMA;
    fn read(node: &Node, reader: &mut Reader) -> Option<Events> {
        <Vec<Event>>::read(node, reader).map(|_| Events)
    }
}

/// Every event that there is; a list with another word counts as empty.
const EVENTS: [&str; 4] = ["boot-new-instance", "boot", "boot-legacy", "hotplug"];

pub const RULE: &str = "/etc/udev/rules.d/90-cloud-init-hook-hotplug.rules";
/// What an operator switched on with `devel hotplug-hook enable`.
const SWITCH: &str = "hotplug.enabled";
/// Where the packages of the distributions have their helpers, the first that is there.
const PLACES: [&str; 2] = ["/usr/libexec/cloud-init", "/usr/lib/cloud-init"];

fn run(context: &Context<'_>) -> Result<()> {
    context.read_known(Keys::read_known);
    if context.hotplug.wanted || is_on(context.sys, context.layout, context.config) {
        install(context.sys, context.hotplug.only)
    } else {
        debug!(context.sys, "NICs that are plugged in later are not wanted");
        remove(context.sys)
    }
}

/// Whether NICs that are plugged in while the machine runs are wanted: by `updates: {network: {when: [hotplug]}}` or by
/// an operator.
pub fn is_on(sys: &System, layout: &Layout, config: &Node) -> bool {
    let when = config.at_path(&["updates", "network", "when"]).and_then(Node::as_seq).unwrap_or_default();
    let words: Vec<&str> = when.iter().filter_map(Node::as_str).collect();
    let all_known = words.len() == when.len() && words.iter().all(|w| EVENTS.contains(w));
    (all_known && words.contains(&"hotplug")) || is_switched_on(sys, layout)
}

/// Whether an operator has switched it on.
pub fn is_switched_on(sys: &System, layout: &Layout) -> bool {
    let text = sys.read_text(layout.cloud(SWITCH)).unwrap_or_default();
    serde_json::from_str::<serde_json::Value>(&text)
        .is_ok_and(|all| all["scopes"].as_array().is_some_and(|scopes| scopes.iter().any(|s| s == "network")))
}

/// Switches it on for good, whatever the configuration says; for the NICs that the conditions `only` of a udev rule let
/// through.
pub fn switch_on(sys: &System, layout: &Layout, only: &str) -> Result<()> {
    let text = serde_json::json!({"scopes": ["network"]}).to_string();
    sys.write(layout.cloud(SWITCH), text, WriteOptions::mode(0o640))?;
    install(sys, only)
}

/// Writes the rule, and has udev read it if it is new.
fn install(sys: &System, only: &str) -> Result<()> {
    let libexec = PLACES.iter().find(|dir| sys.is_dir(dir)).unwrap_or(&PLACES[1]);
    if sys.write(RULE, rule(libexec, only), WriteOptions::default())? == Change::Unchanged {
        return Ok(());
    }
    reload(sys)
}

fn remove(sys: &System) -> Result<()> {
    if !sys.exists(RULE) {
        return Ok(());
    }
    sys.remove(RULE)?;
    reload(sys)
}

fn reload(sys: &System) -> Result<()> {
    if sys.which("udevadm").is_none() {
        debug!(sys, "no udevadm: udev reads its rules when it starts");
        return Ok(());
    }
    sys.run(&Command::new(["udevadm", "control", "--reload-rules"])).map(drop)
}

fn rule(libexec: &str, only: &str) -> String {
    let only = if only.is_empty() { String::new() } else { format!("{only}, ") };
    format!(
        "# From cloud-init, which configures NICs that are plugged in while the machine runs. It is written and removed\n\
         # as the datasource and the setting updates: {{network: {{when: [hotplug]}}}} says.\n\
         ACTION!=\"add\", GOTO=\"cloud_init_hotplug_end\"\n\
         SUBSYSTEM==\"net\", {only}RUN+=\"{libexec}/hook-hotplug\"\n\
         LABEL=\"cloud_init_hotplug_end\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Sandbox, yaml};

    #[test]
    fn who_wants_it() {
        let sandbox = Sandbox::new("{}");
        let on = |text: &str| is_on(&sandbox.sys, &sandbox.layout, &yaml(text));
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
        let switch = sandbox.layout.cloud(SWITCH);
        for (text, expected) in
            [("junk", false), ("{\"scopes\": []}", false), ("{\"scopes\": [\"network\"]}", true)]
        {
            sandbox.sys.write(&switch, text, WriteOptions::default()).unwrap();
            assert_eq!(on("{}"), expected, "{text}");
        }
    }

    #[test]
    fn the_rule_comes_and_goes() {
        let mut sandbox = Sandbox::new("updates: {network: {when: [hotplug]}}");
        sandbox.run(&MODULE).unwrap();
        let text = sandbox.sys.read_text(RULE).unwrap();
        assert!(text.contains("RUN+=\"/usr/lib/cloud-init/hook-hotplug\"\n"), "{text}");
        sandbox.config = yaml("{}");
        sandbox.run(&MODULE).unwrap();
        assert!(!sandbox.sys.exists(RULE));
        sandbox.run(&MODULE).unwrap();
        sandbox.sys.create_dir_all(PLACES[0], 0o755).unwrap();
        switch_on(&sandbox.sys, &sandbox.layout, "").unwrap();
        assert!(sandbox.sys.read_text(RULE).unwrap().contains("/usr/libexec/cloud-init/hook-hotplug"));
        assert!(is_on(&sandbox.sys, &sandbox.layout, &sandbox.config));
    }

    #[test]
    fn as_the_datasource_has_it() {
        let mut sandbox = Sandbox::new("{}");
        sandbox.hotplug = crate::Hotplug { wanted: true, only: "ATTR{address}==\"86:*\"" };
        sandbox.run(&MODULE).unwrap();
        let text = sandbox.sys.read_text(RULE).unwrap();
        assert!(text.contains("\nSUBSYSTEM==\"net\", ATTR{address}==\"86:*\", RUN+=\""), "{text}");
        sandbox.hotplug.wanted = false;
        sandbox.run(&MODULE).unwrap();
        assert!(!sandbox.sys.exists(RULE));
    }
}
