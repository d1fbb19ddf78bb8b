//! runcmd: writes the user's commands as a script, which scripts_user runs at the end of the boot.

use state::Layout;
use system::{Result, WriteOptions};

use crate::user_scripts::WrittenScript;
use crate::user_scripts::shell::Commands;
use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module {
    written_script: Some(WrittenScript { path: Layout::runcmd_script, run_by: "scripts_user" }),
    ..Module::if_set::<Keys>("runcmd", Frequency::Instance, run).repeatable()
};

config::keys! {
    pub struct Keys {
        /// Commands to run once, late in the first boot: strings for the shell, or lists of a program and its
        /// arguments.
        runcmd: Option<Commands>;
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let Some(commands) = context.valid_key(|k: Keys| k.runcmd)? else { return Ok(()) };
    // Commands often contain secrets.
    context.sys.write(context.layout.runcmd_script(), commands.script(), WriteOptions::mode(0o700))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::MODULE;
    use crate::tests::sandbox::Sandbox;

    #[test]
    fn writes_a_private_script() {
        let sandbox = Sandbox::new("runcmd: [[ls, -l, /], 'echo hi']");
        sandbox.run(&MODULE).unwrap();
        assert_eq!(
            sandbox.file("/var/lib/cloud/instance/scripts/runcmd"),
            ("#!/bin/sh\n'ls' '-l' '/'\necho hi\n".into(), 0o700)
        );
    }
}
