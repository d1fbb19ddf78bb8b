//! The reference of the commands: pages of the book, made from the option table and the tables below. The manual page has the
//! same lists of exit codes and files.

use scratch::Document;
use state::Layout;

use super::super::help::{description, option_names, usage_words};
use super::super::spec::OptionSpec;
use super::table::{offered, paths, words};
use crate::arguments::USAGE;

const SOURCE: &str = "stages/cli/src/arguments";

/// Returns the exit codes of `cloud-init` with their meanings.
pub fn exit_codes() -> Vec<(String, &'static str)> {
    vec![
        (
            "0".into(),
            "Success. For `status`, also: cloud-init is running, not started, or disabled. For `doctor` and `state check`: no \
             error and no warning was found.",
        ),
        (
            "1".into(),
            "Failure. For `status`, cloud-init itself failed, or `--wait` was used by a script that the boot waits for. For \
             `schema`, the configuration is invalid. A stage exits with the number of its errors.",
        ),
        (
            USAGE.to_string(),
            "Invalid command line. For `status`, cloud-init finished with recoverable errors.",
        ),
        ("128 + N".into(), "A stage was stopped by the signal with the number N."),
    ]
}

/// Returns the files that cloud-init reads and writes with their contents. Names in capitals are placeholders.
pub fn files() -> Vec<(String, &'static str)> {
    let layout = Layout::default();
    let run = |name: &str| layout.run(name);
    let of_instance = |name: &str| layout.instance(name);
    vec![
        ("/etc/cloud/cloud.cfg".into(), "Configuration from the distribution."),
        (
            "/etc/cloud/cloud.cfg.d/*.cfg".into(),
            "Configuration from the administrator, in the order of the names; overrides the former.",
        ),
        ("/etc/cloud/ds-identify.cfg".into(), "The policy of ds-identify(8)."),
        ("/etc/cloud/cloud-init.disabled".into(), "Disables cloud-init."),
        ("/etc/cloud/clean.d/*".into(), "Programs that `clean` runs."),
        (layout.template("NAME"), "Templates of files that modules write."),
        (run(""), "The state of this boot."),
        (run("cloud.cfg"), "The datasources that the generator has found."),
        (
            run("enabled"),
            "The generator has enabled cloud-init; `disabled` and `undecided` are the other decisions.",
        ),
        (run("ds-identify.log"), "The log of ds-identify: facts, verdicts, decision."),
        (run("cloud-init-generator.log"), "The log of the generator."),
        (run("status.json"), "The status: stages with their times and errors. A link."),
        (run("result.json"), "The result, when the boot is complete. A link."),
        (run("activity"), "The current activities of a stage, for `status`."),
        (run("cloud-id"), "The name of the cloud."),
        (run("cloud-id-CLOUD"), "Exists on this cloud, for conditions of units."),
        (run("instance-data.json"), "The instance data without secrets."),
        (run("instance-data-sensitive.json"), "The instance data, for root."),
        (run("combined-cloud-config.json"), "The merged configuration, for root."),
        (run("cloud-config.origins"), "Where each value of the merged configuration comes from."),
        (run("lost-state"), "Exists if a directory of the state was lost: SSH host keys are kept."),
        (run("network-config.json"), "The network configuration that was written. A link."),
        (run("nics"), "The MAC addresses of the NICs that the network configuration was applied to."),
        (
            run("measured"),
            "The measurements of this boot in a PCR of the TPM (`tpm2_measure_pcr`), for root.",
        ),
        (run("sem/*"), "Semaphores of this boot."),
        (run("unconfirmed/*"), "Work of this boot that is not yet known to be on the disk."),
        (layout.runtime_cache(), "The instance of this boot, beside a cache of Python's cloud-init."),
        (layout.cloud(""), "The persistent state."),
        (layout.cloud("seed/NAME/*"), "Seeds of datasources."),
        (layout.cloud("scripts/per-boot/*"), "Scripts that run at every boot."),
        (layout.cloud("scripts/per-instance/*"), "Scripts that run once per instance."),
        (layout.cloud("scripts/per-once/*"), "Scripts that run once on this machine."),
        (layout.cloud("handlers/*"), "Part handlers."),
        (layout.cloud("sem/*"), "Semaphores of work that runs once on this machine."),
        (layout.cloud("data/*"), "Records of earlier boots: IDs, names, status."),
        (layout.data("network-files.json"), "The network files that were written, with their hashes."),
        (layout.instance_dir("ID"), "The state of an instance."),
        (of_instance(""), "A link to the directory of the current instance."),
        (layout.cache(), "The cached instance; without it the next boot searches again."),
        (of_instance("user-data.txt"), "User-data as it was received, for root."),
        (of_instance("user-data.txt.i"), "User-data split into parts, for root."),
        (of_instance("vendor-data.txt"), "Vendor-data as it was received, for root."),
        (of_instance("vendor-data.txt.i"), "Vendor-data split into parts, for root."),
        (of_instance("vendor-data2.txt"), "The second vendor-data as it was received, for root."),
        (of_instance("vendor-data2.txt.i"), "The second vendor-data split into parts, for root."),
        (of_instance("cloud-config.txt"), "The cloud-config of all parts, merged."),
        (of_instance("datasource"), "The datasource."),
        (of_instance("network-config.json"), "The network configuration."),
        (of_instance("scripts/*"), "User scripts."),
        (of_instance("handlers/*"), "Part handlers of user-data."),
        (of_instance("sem/*"), "Semaphores of work that runs once per instance."),
        (of_instance("new-users"), "The users that were created, to complete them after an interruption."),
        (
            of_instance("applied/*"),
            "Which services and tools modules have started with the current configuration.",
        ),
        (of_instance("boot-finished"), "The boot is complete."),
        (
            "/usr/share/cloud-init/schema".into(),
            "JSON schemas of cloud-config and network-config, for editors.",
        ),
        ("/var/log/cloud-init.log".into(), "The log."),
        ("/var/log/cloud-init-output.log".into(), "Output of scripts and programs."),
    ]
}

fn rows(pairs: Vec<(String, &'static str)>) -> Vec<Vec<String>> {
    pairs.into_iter().map(|(name, meaning)| vec![name, meaning.into()]).collect()
}

/// Returns the page of the commands.
pub fn commands() -> String {
    let mut page = Document::default();
    page.text(
        "`--help` after a command prints its options. cloud-init(1) describes the commands in more detail.",
    );
    for path in paths() {
        let Some(command) = path.last().copied() else { continue };
        let mut usage = vec![words(&path)];
        usage.extend(usage_words(command));
        page.section(&words(&path));
        page.text(command.about);
        page.code("text", &usage.join(" "));
        let row = |option: &OptionSpec| vec![option_names(option).trim().to_string(), description(option)];
        let mut options: Vec<Vec<String>> = offered(command).map(row).collect();
        if let Some(positional) = command.positional {
            options.insert(0, vec![positional.name.to_uppercase(), positional.help.into()]);
        }
        page.entries(&["option", "meaning"], options);
    }
    page.section("Exit status");
    page.entries(&["code", "meaning"], rows(exit_codes()));
    page.markdown("Commands", SOURCE)
}

/// Returns the page of the files.
pub fn files_page() -> String {
    let mut page = Document::default();
    page.text("`system_info: {paths: {cloud_dir: …, run_dir: …, templates_dir: …}}` in `/etc/cloud` sets other directories.");
    page.entries(&["file", "content"], rows(files()));
    page.markdown("Files", SOURCE)
}
