//! The arguments of each command, as the command reads them.

use super::parser::Matches;

pub enum Command {
    Init(Init),
    Modules(Modules),
    Single(Single),
    Status(Status),
    Query(Query),
    Analyze(Analyze),
    CollectLogs(CollectLogs),
    Clean(Clean),
    CloudId(CloudId),
    Plan(Plan),
    Apply(Apply),
    Doctor(Doctor),
    State(State),
    Devel(DevelCommand),
    Features,
    Schema(Schema),
    DhclientHook,
}

pub struct Init {
    pub local: bool,
    pub file: Vec<String>,
}

pub struct Modules {
    /// init, config or final.
    pub mode: String,
    pub file: Vec<String>,
}

pub struct Single {
    pub name: String,
    /// instance, always or once; without it the module's own.
    pub frequency: Option<String>,
    /// Send the events to the handlers of `reporting:`.
    pub report: bool,
    pub file: Vec<String>,
    pub argument: Vec<String>,
}

pub struct Status {
    /// json, tabular or yaml.
    pub format: String,
    pub long: bool,
    pub wait: bool,
}

pub struct Query {
    pub instance_data: Option<String>,
    pub user_data: Option<String>,
    pub vendor_data: Option<String>,
    pub format: Option<String>,
    pub all: bool,
    pub list_keys: bool,
    pub identify: bool,
    pub explain: Option<String>,
    /// The positional argument, or `--name`.
    pub varname: Option<String>,
}

pub struct Clean {
    pub logs: bool,
    pub seed: bool,
    pub machine_id: bool,
    pub configs: Vec<String>,
    pub reboot: bool,
    pub plan: bool,
}

pub struct Analyze {
    pub command: AnalyzeCommand,
    pub infile: String,
    pub outfile: String,
}

pub enum AnalyzeCommand {
    Blame,
    /// With the format of an event.
    Show(Option<String>),
    Dump,
    Boot,
    Plot,
}

#[cfg_attr(test, derive(Default))]
pub struct CollectLogs {
    pub tarfile: String,
    pub verbose: bool,
    pub include_userdata: bool,
    pub redact_sensitive: bool,
}

pub struct CloudId {
    pub json: bool,
    pub long: bool,
    pub instance_data: Option<String>,
}

pub struct Plan {
    pub user_data: Option<String>,
    pub datasource: Option<String>,
    pub fresh: bool,
    /// text or json.
    pub format: String,
    pub sensitive: bool,
}

pub struct Apply {
    pub user_data: Option<String>,
    pub datasource: Option<String>,
    pub diff: bool,
}

pub struct Doctor {
    /// text or json.
    pub format: String,
    pub no_plan: bool,
}

pub struct State {
    pub command: StateCommand,
}

pub enum StateCommand {
    /// With the output format, text or json.
    Check {
        format: String,
    },
    Repair {
        plan: bool,
    },
}

pub struct Schema {
    pub config_file: Option<String>,
    /// The type that was given; `--system` does not need one.
    pub schema_type: Option<String>,
    pub instance_data: Option<String>,
    pub system: bool,
    pub annotate: bool,
    /// text, json or sarif.
    pub format: String,
    /// A module, or `all`.
    pub docs: Option<String>,
    /// A key; empty for every key.
    pub explain: Option<String>,
}

pub enum DevelCommand {
    MakeMime(MakeMime),
    NetConvert(NetConvert),
    Render(Render),
    Hotplug(Hotplug),
}

pub struct MakeMime {
    pub attach: Vec<String>,
    pub list_types: bool,
    pub force: bool,
}

pub struct Render {
    pub instance_data: Option<String>,
    pub user_data: String,
}

pub struct NetConvert {
    pub network_data: String,
    pub kind: String,
    pub directory: String,
    pub distro: String,
    pub mac: Vec<String>,
    pub debug: bool,
    pub output_kind: String,
}

pub enum Hotplug {
    Query,
    Handle { devpath: String, udevaction: String },
    Enable,
}

impl Command {
    /// Returns the arguments of the command that was parsed, or `None` for one that this function does not know.
    pub fn from_matches(m: &Matches) -> Option<Command> {
        Some(match m.name() {
            "init" => Command::Init(Init { local: m.flag("local"), file: m.values("file") }),
            "modules" => Command::Modules(Modules { mode: m.text("mode"), file: m.values("file") }),
            "single" => Command::Single(Single {
                name: m.text("name"),
                frequency: m.value("frequency"),
                report: m.flag("report"),
                file: m.values("file"),
                argument: m.positionals.clone(),
            }),
            "status" => Command::Status(Status {
                format: m.text("format"),
                long: m.flag("long"),
                wait: m.flag("wait"),
            }),
            "query" => Command::Query(Query {
                instance_data: m.value("instance-data"),
                user_data: m.value("user-data"),
                vendor_data: m.value("vendor-data"),
                format: m.value("format"),
                all: m.flag("all"),
                list_keys: m.flag("list-keys"),
                identify: m.flag("identify"),
                explain: m.value("explain"),
                varname: m.positionals.first().cloned().or_else(|| m.value("name")),
            }),
            "analyze" => Command::Analyze(Analyze::from_matches(m.command.as_ref()?)?),
            "collect-logs" => Command::CollectLogs(CollectLogs {
                tarfile: m.text("tarfile"),
                verbose: m.flag("verbose"),
                include_userdata: m.flag("include-userdata"),
                redact_sensitive: m.flag("redact-sensitive"),
            }),
            "clean" => Command::Clean(Clean {
                logs: m.flag("logs"),
                seed: m.flag("seed"),
                machine_id: m.flag("machine-id"),
                configs: m.values("configs"),
                reboot: m.flag("reboot"),
                plan: m.flag("plan"),
            }),
            "cloud-id" => Command::CloudId(CloudId {
                json: m.flag("json"),
                long: m.flag("long"),
                instance_data: m.value("instance-data"),
            }),
            "plan" => Command::Plan(Plan {
                user_data: m.value("user-data"),
                datasource: m.value("datasource"),
                fresh: m.flag("fresh"),
                format: m.text("format"),
                sensitive: m.flag("sensitive"),
            }),
            "apply" => Command::Apply(Apply {
                user_data: m.value("user-data"),
                datasource: m.value("datasource"),
                diff: m.flag("diff"),
            }),
            "doctor" => Command::Doctor(Doctor { format: m.text("format"), no_plan: m.flag("no-plan") }),
            "state" => Command::State(State::from_matches(m.command.as_ref()?)?),
            "devel" => return devel(m.command.as_ref()?),
            "features" => Command::Features,
            "schema" => Command::Schema(Schema::from_matches(m)),
            "dhclient-hook" => Command::DhclientHook,
            _ => return None,
        })
    }
}

fn devel(m: &Matches) -> Option<Command> {
    Some(Command::Devel(match m.name() {
        "make-mime" => DevelCommand::MakeMime(MakeMime {
            attach: m.values("attach"),
            list_types: m.flag("list-types"),
            force: m.flag("force"),
        }),
        "net-convert" => DevelCommand::NetConvert(NetConvert {
            network_data: m.text("network-data"),
            kind: m.text("kind"),
            directory: m.text("directory"),
            distro: m.text("distro"),
            mac: m.values("mac"),
            debug: m.flag("debug"),
            output_kind: m.text("output-kind"),
        }),
        "render" => DevelCommand::Render(Render {
            instance_data: m.value("instance-data"),
            user_data: m.positionals.first()?.clone(),
        }),
        "hotplug-hook" => DevelCommand::Hotplug(Hotplug::from_matches(m.command.as_ref()?)?),
        "schema" => return Some(Command::Schema(Schema::from_matches(m))),
        _ => return None,
    }))
}

impl Analyze {
    fn from_matches(m: &Matches) -> Option<Analyze> {
        let command = match m.name() {
            "blame" => AnalyzeCommand::Blame,
            "show" => AnalyzeCommand::Show(m.value("format")),
            "dump" => AnalyzeCommand::Dump,
            "boot" => AnalyzeCommand::Boot,
            "plot" => AnalyzeCommand::Plot,
            _ => return None,
        };
        Some(Analyze { command, infile: m.text("infile"), outfile: m.text("outfile") })
    }
}

impl State {
    fn from_matches(m: &Matches) -> Option<State> {
        let command = match m.name() {
            "check" => StateCommand::Check { format: m.text("format") },
            "repair" => StateCommand::Repair { plan: m.flag("plan") },
            _ => return None,
        };
        Some(State { command })
    }
}

impl Schema {
    fn from_matches(m: &Matches) -> Schema {
        Schema {
            config_file: m.value("config-file"),
            schema_type: m.values("schema-type").pop(),
            instance_data: m.value("instance-data"),
            system: m.flag("system"),
            annotate: m.flag("annotate"),
            format: m.text("format"),
            docs: m.value("docs"),
            explain: m.value("explain"),
        }
    }
}

impl Hotplug {
    fn from_matches(m: &Matches) -> Option<Hotplug> {
        Some(match m.name() {
            "query" => Hotplug::Query,
            "handle" => Hotplug::Handle { devpath: m.text("devpath"), udevaction: m.text("udevaction") },
            "enable" => Hotplug::Enable,
            _ => return None,
        })
    }
}
