//! Runs the scripts of a directory for the scripts_* modules: all of them, sorted by name, one after the other.

use system::{Command, Error, OutputMode, Result, System, debug, info, warning};

use crate::user_scripts::exit_codes;
use crate::{Context, MODULES, Module, or_warn};

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileKind {
    Script,
    /// A file without execute permission, probably by mistake.
    NotExecutable,
    NotAFile,
}

fn classify(sys: &System, path: &str) -> FileKind {
    use std::os::unix::fs::PermissionsExt;
    match sys.metadata(path) {
        Ok(meta) if meta.is_file() && meta.permissions().mode() & 0o111 != 0 => FileKind::Script,
        Ok(meta) if meta.is_file() => FileKind::NotExecutable,
        _ => FileKind::NotAFile,
    }
}

/// Runs every executable file of a module's directory. A script that fails or exceeds its deadline does not stop the
/// others; the error at the end names all of them. Background processes of a script continue.
pub fn run_parts(context: &Context<'_>, module: &Module) -> Result<()> {
    let Some(scripts) = module.scripts else { return Ok(()) };
    let prefix = (scripts.prefix)(context)?;
    run_scripts(context, module, context.sys.list((scripts.path)(context.layout))?, &prefix)
}

/// Runs one script of a module's directory in the same way, with `prefix` before its path.
pub fn run_script(context: &Context<'_>, module: &Module, name: &str, prefix: &[String]) -> Result<()> {
    run_scripts(context, module, vec![name.to_string()], prefix)
}

fn run_scripts(context: &Context<'_>, module: &Module, names: Vec<String>, prefix: &[String]) -> Result<()> {
    let Some(scripts) = module.scripts else { return Ok(()) };
    let (sys, directory) = (context.sys, (scripts.path)(context.layout));
    let (mut attempted, mut failed) = (0, Vec::new());
    let obeys_codes = exit_codes::are_enabled(context, module);
    for name in names {
        let path = format!("{directory}/{name}");
        match classify(sys, &path) {
            FileKind::Script => {}
            FileKind::NotExecutable => {
                warning!(sys, "{path} is not executable; skipped");
                continue;
            }
            FileKind::NotAFile => {
                debug!(sys, "{path} is not a file; skipped");
                continue;
            }
        }
        attempted += 1;
        if directory == context.layout.user_scripts() {
            sys.set_cause_key(script_source(context, &path, &name));
        }
        let command =
            Command::of_user(prefix).arg(&path).output(OutputMode::Inherit).timeout(context.script_timeout);
        let ran = match obeys_codes {
            true => sys
                .run(&command.accept_all())
                .and_then(|ran| exit_codes::apply(context, module, &name, ran.code)),
            false => sys.run(&command).map(drop),
        };
        if or_warn!(sys, ran).is_none() {
            failed.push(name);
        }
    }
    result_of(attempted, &failed)
}

/// Runs the scripts of a module again that requested it by their exit code at an earlier boot.
///
/// # Errors
/// Fails if a script fails, or if it cannot be recorded that it runs: it does not run then.
pub fn run_again(context: &Context<'_>, module: &Module, names: &[String]) -> Result<()> {
    let Some(scripts) = module.scripts else { return Ok(()) };
    let (path, prefix) = ((scripts.path)(context.layout), (scripts.prefix)(context)?);
    let mut failed = Vec::new();
    for name in names {
        info!(context.sys, "running {path}/{name} again");
        // First: a script that is interrupted must not run twice.
        let semaphore = exit_codes::semaphore(module, name);
        let ran = state::release(context.sys, context.layout, &semaphore, module.frequency)
            .and_then(|()| state::confirm(context.sys, context.layout))
            .and_then(|()| run_script(context, module, name, &prefix));
        if or_warn!(context.sys, ran).is_none() {
            failed.push(name.clone());
        }
    }
    result_of(names.len(), &failed)
}

fn result_of(attempted: usize, failed: &[String]) -> Result<()> {
    if failed.is_empty() {
        return Ok(());
    }
    let names = failed.join(", ");
    Err(Error::new(format!("{} of {attempted} scripts failed: {names}", failed.len())))
}

/// Returns the source of a user's script: the key of the module that writes it, or the part of that name.
fn script_source(context: &Context<'_>, path: &str, name: &str) -> String {
    let is_writer = |m: &&&Module| m.written_script.is_some_and(|s| (s.path)(context.layout) == path);
    let keys = MODULES.iter().find(is_writer).map(|writer| writer.configured_keys(context.config));
    keys.filter(|keys| !keys.is_empty()).unwrap_or_else(|| format!("user-data {name}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use system::WriteOptions;

    use crate::find_module;
    use crate::tests::sandbox::Sandbox;

    fn put(sandbox: &Sandbox, path: &str, text: &str, mode: u32) {
        let text = text.replace("OUT", &sandbox.top.join("out").to_string_lossy());
        sandbox.sys.write(path, text, WriteOptions::mode(mode)).unwrap();
    }

    fn out(sandbox: &Sandbox) -> String {
        std::fs::read_to_string(sandbox.top.join("out")).unwrap_or_default()
    }

    #[test]
    fn a_script_over_its_deadline_and_a_background_child() {
        let mut sandbox = Sandbox::live("{}");
        sandbox.script_timeout = Duration::from_millis(400);
        let at = |name: &str| sandbox.layout.cloud(&format!("scripts/per-boot/{name}"));
        put(&sandbox, &at("a"), "#!/bin/sh\nsleep 30\n", 0o755);
        let child = "while [ ! -e OUT.go ]; do sleep 0.1; done; echo later >> OUT";
        put(&sandbox, &at("b"), &format!("#!/bin/sh\n({child}) &\n"), 0o755);
        assert!(sandbox.run(find_module("scripts_per_boot").unwrap()).is_err());
        assert_eq!(sandbox.logged_warnings().len(), 1);
        assert!(sandbox.logged_warnings()[0].ends_with("/a: timed out after 0.4 s"));
        // The child is still running, and is not stopped.
        assert_eq!(out(&sandbox), "");
        std::fs::write(sandbox.top.join("out.go"), "").unwrap();
        scratch::wait_until(|| !out(&sandbox).is_empty());
        assert_eq!(out(&sandbox), "later\n");
    }

    #[test]
    fn arguments_of_the_prefix_are_not_shown() {
        let sandbox = Sandbox::live("vendor_data: {prefix: [sh, -c, 'exit 3 # pw']}");
        put(&sandbox, &format!("{}/a", sandbox.layout.vendor_scripts()), "", 0o755);
        sandbox.run(crate::find_module("scripts_vendor").unwrap()).unwrap_err();
        let warnings = sandbox.logged_warnings().join("\n");
        assert!(warnings.starts_with("running sh REDACTED REDACTED /"), "{warnings}");
    }
}
