//! seed_random: adds entropy from the user and the cloud to the kernel's pool (or a file), and runs a command of the user
//! that may add more.

use config::ByteString;
use system::{Command, Error, OutputMode, Result, System, WriteOptions, debug};

use crate::values::encoded_content::{self, Encoding};
use crate::values::text_values::FilePath;
use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module::of::<Keys>("seed_random", Frequency::Instance, run).repeatable();

/// Limits the seed, in bytes: more does not improve the randomness.
const MAX_SEED_SIZE: usize = 1 << 20;

config::string_enum! {
    pub enum SeedEncoding { Raw = "raw", Base64 = "base64" | "b64", Gzip = "gzip" | "gz" }
}

config::keys! {
    pub struct RandomSeed {
        /// The file to append the seed to.
        file: FilePath = "/dev/urandom";
        /// The seed.
        data: Option<ByteString>;
        /// The encoding of `data`.
        encoding: SeedEncoding = "raw";
        /// A command with arguments that adds entropy; `RANDOM_SEED_FILE` is the path of `file`.
        command: Vec<String>;
        /// Fail if the command is missing.
        command_required: bool = false;
    }
    pub struct Keys {
        /// Seed the kernel's random number generator.
        random_seed: Option<RandomSeed>;
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    // The cloud's data is used even if the user's configuration is invalid.
    let (keys, invalid) = match context.fully_valid_key(|k: Keys| k.random_seed) {
        Ok(keys) => (keys, Ok(())),
        Err(e) => (None, Err(e)),
    };
    let file = keys.as_ref().map_or("/dev/urandom", |k| k.file.0.as_str());
    let from_user = match &keys {
        Some(RandomSeed { data: Some(ByteString(data)), encoding, .. }) => {
            let encoding = match encoding {
                SeedEncoding::Raw => Encoding::Plain,
                SeedEncoding::Base64 => Encoding::Base64,
                SeedEncoding::Gzip => Encoding::Gzip,
            };
            encoded_content::decode(data.clone(), encoding, MAX_SEED_SIZE)
                .map_err(|why| Error::new(format!("random_seed.data is {why}")))
        }
        _ => Ok(Vec::new()),
    };
    let mut seed = from_user.as_ref().cloned().unwrap_or_default();
    let from_cloud = context.instance.random_seed.as_deref().unwrap_or_default();
    // The cache stores the cloud's bytes in base64; invalid base64 is entropy too.
    seed.extend(
        encoding::base64::decode(from_cloud.as_bytes()).unwrap_or_else(|| from_cloud.as_bytes().to_vec()),
    );
    add_entropy(context.sys, file, &seed)?;
    if let Some(keys) = &keys {
        run_seed_command(context, keys)?;
    }
    invalid.and(from_user.map(drop))
}

fn add_entropy(sys: &System, file: &str, seed: &[u8]) -> Result<()> {
    if seed.is_empty() {
        return Ok(());
    }
    if !sys.is_live() && file.starts_with("/dev/") {
        debug!(sys, "not a running system; not seeding {file}");
        return Ok(());
    }
    debug!(sys, "adding {} bytes of entropy to {file}", seed.len());
    sys.append(file, seed, WriteOptions::secret())
}

/// Runs the user's command, if there is one.
fn run_seed_command(context: &Context<'_>, keys: &RandomSeed) -> Result<()> {
    let sys = context.sys;
    let Some(program) = keys.command.first() else {
        return if keys.command_required {
            Err(Error::new("random_seed.command_required is set, but random_seed.command is not set"))
        } else {
            Ok(())
        };
    };
    if sys.which(program).is_none() {
        const MISSING: &str = "random_seed.command: the program is not installed";
        if keys.command_required {
            return Err(Error::new(MISSING));
        }
        debug!(sys, "{MISSING}");
        return Ok(());
    }
    let command = Command::of_user(&keys.command)
        .env("RANDOM_SEED_FILE", &keys.file.0)
        .output(OutputMode::Inherit)
        .timeout(context.script_timeout);
    sys.run(&command).map(drop)
}

#[cfg(test)]
mod tests {
    use super::MODULE;
    use crate::tests::sandbox::{Sandbox, yaml};

    #[test]
    fn configured_seed_precedes_the_clouds() {
        for (keys, seed, fails) in [
            ("data: YWJj, encoding: b64", "abcdef", false),
            ("command: [nobody-has-this]", "def", false),
            ("data: abc, encoding: gzip", "def", true),
            ("command_required: true", "def", true),
        ] {
            let mut sandbox = Sandbox::new(&format!("random_seed: {{file: /seed, {keys}}}"));
            sandbox.instance.random_seed = Some("ZGVm".into());
            assert_eq!(sandbox.run(&MODULE).is_err(), fails, "{keys}");
            assert_eq!(sandbox.file("/seed"), (seed.into(), 0o600), "{keys}");
        }
    }

    #[test]
    fn the_command_gets_the_file_name() {
        let mut sandbox = Sandbox::live("");
        let file = sandbox.top.join("seed").to_string_lossy().into_owned();
        let config = format!(
            "random_seed: {{file: {file}, data: a, command: [sh, -c, 'echo b >> $RANDOM_SEED_FILE']}}"
        );
        sandbox.config = yaml(&config);
        sandbox.run(&MODULE).unwrap();
        assert_eq!(sandbox.file(&file).0, "ab\n");
    }

    #[test]
    fn errors_of_the_command_show_no_arguments() {
        for (command, message) in [
            ("[sh, -c, 'exit 3 # pw']", "running sh REDACTED REDACTED: exit code 3"),
            ("[sh -c pw]", "random_seed.command: the program is not installed"),
        ] {
            let config = format!("random_seed: {{command: {command}, command_required: true}}");
            let e = Sandbox::live(&config).run(&MODULE).unwrap_err();
            assert_eq!(e.to_string(), message);
        }
    }
}
