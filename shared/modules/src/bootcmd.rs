//! bootcmd: commands at every boot, early in the network stage.

use config::schema::{STR, list};
use system::{Command, OutputMode, Result, WriteOptions};

use crate::user_scripts::shell::Commands;
use crate::{Context, Frequency, Module, or_debug};

pub const MODULE: Module = Module::if_set::<Keys>("bootcmd", Frequency::Always, run);

config::keys! {
    pub struct Keys {
        /// Commands to run early in every boot: strings for the shell, or lists of a program and its arguments.
        bootcmd: Option<Commands>, types [list(&[list(&[STR]), STR]).min(1)];
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let Some(commands) = context.valid_key(|k: Keys| k.bootcmd)? else { return Ok(()) };
    let sys = context.sys;
    // Root runs the script, so it is stored where other users cannot write; /run may be full.
    let name = format!("bootcmd-{}.sh", std::process::id());
    let store = |path: String| sys.write(&path, commands.script(), WriteOptions::mode(0o700)).map(|_| path);
    let path = store(context.layout.run(&name)).or_else(|_| store(context.layout.instance(&name)))?;
    let command = Command::new(["/bin/sh", &path])
        .env("INSTANCE_ID", &context.instance.id)
        .output(OutputMode::Inherit)
        .timeout(context.script_timeout);
    let result = sys.run(&command);
    or_debug!(sys, sys.remove(&path));
    result.map(drop)
}

#[cfg(test)]
mod tests {
    use super::MODULE;
    use crate::tests::sandbox::Sandbox;

    #[test]
    fn a_failing_last_command_fails_the_module() {
        let sandbox = Sandbox::live("bootcmd: ['false', 'exit 3']");
        let message = sandbox.run(&MODULE).unwrap_err().to_string();
        assert!(message.ends_with(".sh: exit code 3"), "{message}");
        assert!(sandbox.sys.list(sandbox.layout.run("")).unwrap().is_empty());
    }

    #[test]
    fn commands_run_without_space_in_run() {
        let sandbox = Sandbox::live("bootcmd: ['echo ran']");
        sandbox.sys.write(sandbox.layout.run(""), "", system::WriteOptions::default()).unwrap();
        sandbox.run(&MODULE).unwrap();
        assert!(sandbox.sys.list(sandbox.layout.instance("")).unwrap().iter().all(|n| !n.ends_with(".sh")));
    }

    #[test]
    fn a_command_over_its_deadline_is_killed() {
        let mut sandbox = Sandbox::live("bootcmd: ['sleep 60']");
        sandbox.script_timeout = std::time::Duration::from_millis(300);
        let message = sandbox.run(&MODULE).unwrap_err().to_string();
        assert!(message.ends_with("timed out after 0.3 s"), "{message}");
    }
}
