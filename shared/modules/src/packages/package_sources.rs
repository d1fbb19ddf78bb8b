//! Package installation for modules: the index is updated once per instance, then the package manager installs.

use config::Node;
use distro::{AptOptions, Package, PackageRequest, Wrapper};
use state::{Frequency, Progress, acquire, progress, release};
use system::{Result, info};

use crate::Context;

/// The semaphore of an update. It belongs to no module, so that all of them share it.
const SEMAPHORE: &str = "update_sources";

/// Returns the settings in `system_info` for apt's command lines.
pub fn apt_options(system_info: &Node) -> AptOptions {
    let wrapper = system_info.get("apt_get_wrapper");
    let words =
        wrapper.and_then(|w| w.get("command")).map_or_else(|| vec!["eatmydata".to_string()], command_words);
    let enabled = wrapper.and_then(|w| w.get("enabled")).and_then(Node::scalar_text);
    let enabled = enabled.map(|e| e.trim().to_ascii_lowercase());
    AptOptions {
        command: system_info.get("apt_get_command").map(command_words).filter(|w| !w.is_empty()),
        wrapper: match enabled.as_deref() {
            _ if wrapper.is_none_or(Node::is_null) => Wrapper::Auto,
            _ if words.is_empty() => Wrapper::Never,
            None | Some("auto") => Wrapper::Command(words, false),
            Some("true" | "1" | "on" | "yes") => Wrapper::Command(words, true),
            Some(_) => Wrapper::Never,
        },
        upgrade: system_info
            .get("apt_get_upgrade_subcommand")
            .and_then(Node::as_str)
            .filter(|w| !w.is_empty())
            .map(Into::into),
    }
}

/// Returns a command, written as a list of words or as a single word.
fn command_words(node: &Node) -> Vec<String> {
    match node.as_seq() {
        Some(items) => items.iter().filter_map(Node::scalar_text).collect(),
        None => node.as_str().filter(|t| !t.is_empty()).map(Into::into).into_iter().collect(),
    }
}

/// Updates the index; `again`: even if this instance did so already. If that fails, the next use of packages updates it
/// again.
pub fn update(context: &Context<'_>, again: bool) -> Result<()> {
    let (sys, layout) = (context.sys, context.layout);
    if !again && progress(sys, layout, SEMAPHORE, Frequency::Instance) == Progress::Finished {
        return Ok(());
    }
    acquire(sys, layout, SEMAPHORE, Frequency::Instance)?;
    let done = context.distro.update_packages(sys, &apt_options(context.system_info));
    if done.is_err() && again {
        release(sys, layout, SEMAPHORE, Frequency::Instance)?;
    }
    done
}

/// Installs requested packages, with an updated index.
pub fn install(context: &Context<'_>, wanted: &PackageRequest) -> Result<()> {
    if context.distro.package_manager.needs_refresh() {
        update(context, false)?;
    }
    context.distro.install_requested(context.sys, wanted, &apt_options(context.system_info))
}

/// Installs requested packages although the index could not be updated: one failing repository must not prevent the
/// installation of packages from the others. The update is tried once more.
pub fn install_with_old_index(context: &Context<'_>, wanted: &PackageRequest) -> Result<()> {
    if context.distro.package_manager.needs_refresh()
        && let Err(e) = update(context, false)
    {
        info!(context.sys, "installing packages with the old index: {e}");
    }
    context.distro.install_requested(context.sys, wanted, &apt_options(context.system_info))
}

/// Installs packages that a module needs.
pub fn install_names(context: &Context<'_>, names: &[String]) -> Result<()> {
    let any = names.iter().map(|name| Package::new(name)).collect();
    install(context, &PackageRequest { any, ..PackageRequest::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::yaml;

    #[test]
    fn wrapper_and_command_of_apt_are_read() {
        let these =
            |words: &[&str], must| Wrapper::Command(words.iter().map(|w| w.to_string()).collect(), must);
        for (text, wrapper) in [
            ("{}", Wrapper::Auto),
            ("{apt_get_wrapper: null}", Wrapper::Auto),
            ("{apt_get_wrapper: {enabled: false}}", Wrapper::Never),
            ("{apt_get_wrapper: {enabled: auto}}", these(&["eatmydata"], false)),
            ("{apt_get_wrapper: {enabled: true, command: [nice, 5]}}", these(&["nice", "5"], true)),
            ("{apt_get_wrapper: {command: ionice}}", these(&["ionice"], false)),
            ("{apt_get_wrapper: {command: [], enabled: true}}", Wrapper::Never),
            ("{apt_get_wrapper: {enabled: [x]}}", these(&["eatmydata"], false)),
        ] {
            assert_eq!(apt_options(&yaml(text)).wrapper, wrapper, "{text}");
        }
        let options = apt_options(&yaml("{apt_get_command: [a, b], apt_get_upgrade_subcommand: upgrade}"));
        assert_eq!(options.command.as_deref(), Some(&["a".to_string(), "b".to_string()][..]));
        assert_eq!(options.upgrade.as_deref(), Some("upgrade"));
        let none = apt_options(&yaml("{apt_get_command: [], apt_get_upgrade_subcommand: ''}"));
        assert_eq!((none.command, none.upgrade), (None, None));
    }
}
