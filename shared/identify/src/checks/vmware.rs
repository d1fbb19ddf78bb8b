//! VMware: data of the hypervisor for its guest, or allowed customization. VMware's own tools read the data: the
//! hypervisor's port needs privileges that a generator in a confined domain does not have.

use std::time::Duration;

use crate::command::{CommandOutput, has_content};
use crate::facts::Facts;
use crate::lookup;
use crate::verdict::{Verdict, found, not_found};

/// The tools, in the order in which they are tried.
const TOOLS: [&str; 2] = ["vmware-rpctool", "vmtoolsd"];
/// A tool that takes longer waits for a hypervisor that does not answer.
// Wait: the generator | VMware's tools to read guestinfo | -
const TIMEOUT: Duration = Duration::from_secs(1);
const FIELDS: [&str; 3] = ["metadata", "userdata", "vendordata"];

pub fn vmware(facts: &Facts<'_>) -> Verdict {
    let set = |name: &str| facts.env.get(name).is_some_and(|value| !value.is_empty());
    let given = ["VMX_GUESTINFO_METADATA", "VMX_GUESTINFO_USERDATA", "VMX_GUESTINFO_VENDORDATA"];
    if set("VMX_GUESTINFO")
        && let Some(name) = given.into_iter().find(|name| set(name))
    {
        return found(format!("the environment has VMX_GUESTINFO and {name}"));
    }
    if facts.virt() != "vmware" {
        return not_found(format!("virtualization is '{}', not 'vmware'", facts.virt()));
    }
    if !TOOLS.iter().any(|tool| facts.commands.find(tool).is_some()) {
        return not_found("neither vmware-rpctool nor vmtoolsd is installed");
    }
    for field in FIELDS {
        let output =
            query(facts, &format!("info-get guestinfo.{field}"), |output| has_content(&output.stdout));
        if output.is_some() {
            return found(format!("guestinfo.{field} is set"));
        }
    }
    customization(facts)
}

/// Returns the first output of a tool that is an answer. If one tool has none, the silence of the other does not count.
pub fn query(
    facts: &Facts<'_>,
    question: &str,
    is_answer: impl Fn(&CommandOutput) -> bool,
) -> Option<CommandOutput> {
    let mut has_run = false;
    let answer = TOOLS.iter().find_map(|tool| {
        let program = facts.commands.find(tool)?;
        let argv = match *tool {
            "vmtoolsd" => vec![program.as_str(), "--cmd", question],
            _ => vec![program.as_str(), question],
        };
        let output = facts.commands.run(&argv, TIMEOUT);
        has_run |= output.is_some();
        output.filter(&is_answer)
    });
    if has_run {
        facts.commands.take_failed();
    }
    answer
}

/// Checks for customization by the tools' plugin, which the configuration must allow.
fn customization(facts: &Facts<'_>) -> Verdict {
    const KEY: &str = "disable_vmware_customization";
    let is_installed = |path: &String| facts.roots.target.is_file(path);
    let Some(plugin) = clouds::vmware_plugin_paths().find(is_installed) else {
        return not_found("no guestinfo is set, and the customization plugin is not installed");
    };
    match lookup::last_value(facts.config(), KEY).as_deref() {
        Some("0" | "false" | "False") => found(format!("{plugin} exists, and {KEY} is false")),
        _ => not_found(format!("no guestinfo is set, and {KEY} is not false")),
    }
}
