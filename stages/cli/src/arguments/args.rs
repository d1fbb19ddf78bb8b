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
}

/// A type whose values are words that the parser has checked.
trait Choice: Sized {
    fn from_word(word: &str) -> Option<Self>;
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
trait Argument: Sized {
    fn read(m: &Matches, name: &str) -> Option<Self>;
}

impl Argument for bool {
    fn read(m: &Matches, name: &str) -> Option<bool> {
        Some(m.flag(name))
    }
}

impl Argument for String {
    fn read(m: &Matches, name: &str) -> Option<String> {
        m.value(name)
    }
}

impl Argument for Option<String> {
    fn read(m: &Matches, name: &str) -> Option<Option<String>> {
        Some(m.value(name))
    }
}

impl Argument for Vec<String> {
    fn read(m: &Matches, name: &str) -> Option<Vec<String>> {
        Some(m.values(name))
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

/// Declares structs of arguments, and how they are read.
macro_rules! arguments {
    ($($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty,)* })+) => {$(
        $(#[$meta])*
        pub struct $name { $($(#[$doc])* pub $field: $type,)* }

        impl $name {
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
        /// A template; with `--identify`, the output format.
        format: Option<String>,
        all: bool,
        list_keys: bool,
        identify: bool,
        explain: Option<String>,
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
        no_plan: bool,
    }
    Schema {
        config_file: Option<String>,
        /// Not needed with `--system`.
        schema_type: Option<SchemaType>,
        instance_data: Option<String>,
        system: bool,
        annotate: bool,
        format: SchemaFormat,
        /// A module, or `all`.
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

pub enum Command {
    Init(Init),
    Modules(Modules),
    Single(Single),
    Status(Status),
    Query(Query),
    Analyze(AnalyzeCommand, AnalyzeFiles),
    CollectLogs(CollectLogs),
    Clean(Clean),
    CloudId(CloudId),
    Plan(Plan),
    Apply(Apply),
    Doctor(Doctor),
    StateCheck(Format),
    /// With `--plan` the repairs are only shown.
    StateRepair {
        plan: bool,
    },
    MakeMime(MakeMime),
    NetConvert(NetConvert),
    Render(Render),
    Hotplug(Hotplug),
    Features,
    Schema(Schema),
    DhclientHook,
}

pub enum AnalyzeCommand {
    Blame,
    /// The argument is the format of an event.
    Show(Option<String>),
    Dump,
    Boot,
    Plot,
}

pub enum Hotplug {
    Query,
    Handle(HotplugEvent),
    Enable,
}

impl Command {
    /// Returns the arguments of the command that was parsed, or `None` for one that this function does not know.
    pub fn from_matches(m: &Matches) -> Option<Command> {
        if let Some(subcommand) = m.command.as_deref() {
            return Command::from_subcommand(m.name(), subcommand);
        }
        Some(match m.name() {
            "init" => Command::Init(Init::read(m)?),
            "modules" => Command::Modules(Modules::read(m)?),
            "single" => Command::Single(Single::read(m)?),
            "status" => Command::Status(Status::read(m)?),
            "query" => Command::Query(Query::read(m)?),
            "collect-logs" => Command::CollectLogs(CollectLogs::read(m)?),
            "clean" => Command::Clean(Clean::read(m)?),
            "cloud-id" => Command::CloudId(CloudId::read(m)?),
            "plan" => Command::Plan(Plan::read(m)?),
            "apply" => Command::Apply(Apply::read(m)?),
            "doctor" => Command::Doctor(Doctor::read(m)?),
            "features" => Command::Features,
            "schema" => Command::Schema(Schema::read(m)?),
            "make-mime" => Command::MakeMime(MakeMime::read(m)?),
            "net-convert" => Command::NetConvert(NetConvert::read(m)?),
            "render" => Command::Render(Render::read(m)?),
            "dhclient-hook" => Command::DhclientHook,
            _ => return None,
        })
    }

    fn from_subcommand(command: &str, m: &Matches) -> Option<Command> {
        let hotplug = |task| Some(Command::Hotplug(task));
        let analyze = |command| Some(Command::Analyze(command, AnalyzeFiles::read(m)?));
        match (command, m.name()) {
            ("analyze", "blame") => analyze(AnalyzeCommand::Blame),
            ("analyze", "show") => analyze(AnalyzeCommand::Show(m.value("format"))),
            ("analyze", "dump") => analyze(AnalyzeCommand::Dump),
            ("analyze", "boot") => analyze(AnalyzeCommand::Boot),
            ("analyze", "plot") => analyze(AnalyzeCommand::Plot),
            ("state", "check") => Some(Command::StateCheck(Argument::read(m, "format")?)),
            ("state", "repair") => Some(Command::StateRepair { plan: m.flag("plan") }),
            ("hotplug-hook", "query") => hotplug(Hotplug::Query),
            ("hotplug-hook", "handle") => hotplug(Hotplug::Handle(HotplugEvent::read(m)?)),
            ("hotplug-hook", "enable") => hotplug(Hotplug::Enable),
            ("devel", _) => Command::from_matches(m),
            _ => None,
        }
    }
}
