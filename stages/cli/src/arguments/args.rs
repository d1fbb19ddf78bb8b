//! The arguments of each command, as the command reads them: a field has the name of its option.

use netconfig::parse;
use netconfig::render::Renderer;

use super::parser::Matches;

/// Declares enums of the words that an option accepts.
macro_rules! choices {
    ($($(#[$meta:meta])* $name:ident { $($variant:ident = $word:literal,)+ })+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($variant,)+ }

        impl $name {
            pub const WORDS: &'static [&'static str] = &[$($word,)+];

            pub fn word(self) -> &'static str {
                Self::WORDS[self as usize]
            }
        }

        impl Choice for $name {
            fn from_word(word: &str) -> Option<$name> {
                [$($name::$variant,)+].into_iter().find(|choice| choice.word() == word)
            }
        }
    )+};
}

choices! {
    Mode { Init = "init", Config = "config", Final = "final", }
    Frequency { Instance = "instance", Always = "always", Once = "once", }
    StatusFormat { Json = "json", Tabular = "tabular", Yaml = "yaml", }
    /// The output format of most commands.
    Format { Text = "text", Json = "json", }
    SchemaFormat { Text = "text", Json = "json", Sarif = "sarif", }
    SchemaType { CloudConfig = "cloud-config", NetworkConfig = "network-config", }
    CleanConfig { All = "all", Ssh = "ssh_config", Network = "network", Datasource = "datasource", Fstab = "fstab", }
    UdevAction { Add = "add", Remove = "remove", }
    /// The subcommands of `analyze`.
    Analysis { Blame = "blame", Show = "show", Dump = "dump", Boot = "boot", Plot = "plot", Metrics = "metrics", }
}

/// A type whose values are words that the parser has checked, or any words.
pub trait Choice: Sized {
    fn from_word(word: &str) -> Option<Self>;
}

impl Choice for String {
    fn from_word(word: &str) -> Option<Self> {
        Some(word.to_string())
    }
}

impl Choice for &'static Renderer {
    fn from_word(word: &str) -> Option<Self> {
        netconfig::render::by_name(word)
    }
}

impl Choice for &'static parse::Format {
    fn from_word(word: &str) -> Option<Self> {
        parse::Format::from_name(word)
    }
}

/// Reads a field. `None` if a required option has no value; the parser prevents this.
pub trait Argument: Sized {
    fn read(m: &Matches, name: &str) -> Option<Self>;
}

impl Argument for bool {
    fn read(m: &Matches, name: &str) -> Option<bool> {
        Some(m.flag(name))
    }
}

impl<T: Choice> Argument for T {
    fn read(m: &Matches, name: &str) -> Option<T> {
        T::from_word(&m.value(name)?)
    }
}

impl<T: Choice> Argument for Option<T> {
    fn read(m: &Matches, name: &str) -> Option<Option<T>> {
        Some(m.values(name).pop().and_then(|word| T::from_word(&word)))
    }
}

impl<T: Choice> Argument for Vec<T> {
    fn read(m: &Matches, name: &str) -> Option<Vec<T>> {
        Some(m.values(name).iter().filter_map(|word| T::from_word(word)).collect())
    }
}

/// The arguments of a command. `None` as for [`Argument::read`].
pub trait Arguments: Sized {
    fn read(m: &Matches) -> Option<Self>;
}

/// Declares structs of arguments, and how they are read.
macro_rules! arguments {
    ($($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty,)* })+) => {$(
        $(#[$meta])*
        pub struct $name { $($(#[$doc])* pub $field: $type,)* }

        impl Arguments for $name {
            fn read(m: &Matches) -> Option<$name> {
                Some($name { $($field: Argument::read(m, &stringify!($field).replace('_', "-"))?,)* })
            }
        }
    )+};
}

arguments! {
    Init {
        local: bool,
        file: Vec<String>,
    }
    Modules {
        mode: Mode,
        file: Vec<String>,
    }
    Single {
        name: String,
        /// Overrides the module's own frequency.
        frequency: Option<Frequency>,
        /// Sends the events to the handlers of `reporting:`.
        report: bool,
        file: Vec<String>,
        argument: Vec<String>,
    }
    Status {
        format: StatusFormat,
        long: bool,
        wait: bool,
    }
    Query {
        instance_data: Option<String>,
        user_data: Option<String>,
        vendor_data: Option<String>,
        /// A template.
        format: Option<String>,
        all: bool,
        list_keys: bool,
        varname: Option<String>,
        /// The older spelling of `varname`.
        name: Option<String>,
    }
    Clean {
        logs: bool,
        seed: bool,
        machine_id: bool,
        configs: Vec<CleanConfig>,
        reboot: bool,
        plan: bool,
    }
    AnalyzeFiles {
        infile: String,
        outfile: String,
    }
    #[cfg_attr(test, derive(Default))]
    CollectLogs {
        tarfile: String,
        verbose: bool,
        include_userdata: bool,
        redact_sensitive: bool,
    }
    CloudId {
        json: bool,
        long: bool,
        instance_data: Option<String>,
    }
    Plan {
        /// The same as `user_data`.
        file: Option<String>,
        user_data: Option<String>,
        datasource: Option<String>,
        fresh: bool,
        format: Format,
        sensitive: bool,
    }
    Apply {
        user_data: Option<String>,
        datasource: Option<String>,
        diff: bool,
    }
    Doctor {
        format: Format,
        network: bool,
        no_plan: bool,
        /// Examines a machine of Python's cloud-init.
        switch: bool,
    }
    Report {
        outfile: String,
    }
    Explain {
        key: Option<String>,
    }
    Try {
        file: Vec<String>,
        shell: bool,
        keep: Option<String>,
    }
    Schema {
        config_file: Vec<String>,
        file: Vec<String>,
        /// Not needed with `--system`.
        schema_type: Option<SchemaType>,
        instance_data: Option<String>,
        system: bool,
        annotate: bool,
        format: SchemaFormat,
        /// A module, `all`, or a key.
        docs: Option<String>,
        /// A key; empty for every key.
        explain: Option<String>,
    }
    MakeMime {
        attach: Vec<String>,
        list_types: bool,
        force: bool,
    }
    Render {
        instance_data: Option<String>,
        user_data: String,
    }
    NetConvert {
        network_data: String,
        kind: &'static parse::Format,
        directory: String,
        /// The name of a [`distro::Distro`], or a BSD.
        distro: String,
        mac: Vec<String>,
        debug: bool,
        output_kind: &'static Renderer,
    }
    HotplugEvent {
        devpath: String,
        udevaction: UdevAction,
    }
}
