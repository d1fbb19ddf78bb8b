//! Every command and its options, as `--help` tells them.

use argh::FromArgs;

/// Sets up a cloud machine at boot.
#[derive(FromArgs)]
pub struct CloudInit {
    /// print the version and exit
    #[argh(switch, short = 'v')]
    pub version: bool,
    /// more logging, on standard error
    #[argh(switch, short = 'd')]
    pub debug: bool,
    /// go on without a datasource
    #[argh(switch)]
    pub force: bool,
    /// refused: each stage has a unit of its own
    #[argh(switch)]
    pub all_stages: bool,
    /// an image in a directory instead of this machine; with every command, anywhere on its line
    // Only for the help: `extract_root` has taken it out.
    #[argh(option, arg_name = "DIR")]
    #[allow(dead_code)]
    pub root: Option<String>,
    #[argh(subcommand)]
    pub command: Option<Command>,
}

#[derive(FromArgs)]
#[argh(subcommand)]
#[allow(dead_code)]
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
    Devel(Devel),
    Features(Features),
    Schema(Schema),
    DhclientHook(DhclientHook),
}

/// Run the local or the network stage.
#[derive(FromArgs)]
#[argh(subcommand, name = "init")]
pub struct Init {
    /// the local stage: datasources that need no network
    #[argh(switch, short = 'l')]
    pub local: bool,
    /// further configuration, of the highest precedence
    #[argh(option, short = 'f')]
    pub file: Vec<String>,
}

/// Run the modules of a stage.
#[derive(FromArgs)]
#[argh(subcommand, name = "modules")]
pub struct Modules {
    /// init, config or final
    #[argh(option, short = 'm', default = "\"config\".to_string()")]
    pub mode: String,
    /// further configuration, of the highest precedence
    #[argh(option, short = 'f')]
    pub file: Vec<String>,
}

/// Run one module.
#[derive(FromArgs)]
#[argh(subcommand, name = "single")]
pub struct Single {
    /// the module: ssh, cc_ssh
    #[argh(option, short = 'n')]
    pub name: String,
    /// instance, always or once; the module's own when left out
    #[argh(option)]
    pub frequency: Option<String>,
    /// accepted as ever; events are in the log with and without it
    #[argh(switch)]
    #[allow(dead_code)]
    report: bool,
    /// further configuration, of the highest precedence
    #[argh(option, short = 'f')]
    pub file: Vec<String>,
    /// arguments for the module
    #[argh(positional, greedy)]
    pub argument: Vec<String>,
}

/// Report what cloud-init is doing, or how it went.
#[derive(FromArgs)]
#[argh(subcommand, name = "status")]
pub struct Status {
    /// json, tabular or yaml
    #[argh(option, default = "\"tabular\".to_string()")]
    pub format: String,
    /// more than one line
    #[argh(switch, short = 'l')]
    pub long: bool,
    /// wait until cloud-init has finished
    #[argh(switch, short = 'w')]
    pub wait: bool,
}

/// Show what is known of the instance.
#[derive(FromArgs)]
#[argh(subcommand, name = "query")]
pub struct Query {
    /// instance data to read instead of this machine's
    #[argh(option, short = 'i')]
    pub instance_data: Option<String>,
    /// user-data to read instead of this machine's
    #[argh(option, short = 'u')]
    pub user_data: Option<String>,
    /// vendor-data to read instead of this machine's
    #[argh(option, short = 'v')]
    pub vendor_data: Option<String>,
    /// a template to render, such as '{{ v1.region }}'
    #[argh(option, short = 'f')]
    pub format: Option<String>,
    /// accepted as ever; what a template lacks is always said
    #[argh(switch, short = 'd')]
    #[allow(dead_code)]
    debug: bool,
    /// everything
    #[argh(switch, short = 'a')]
    pub all: bool,
    /// the keys below VARNAME
    #[argh(switch, short = 'l')]
    pub list_keys: bool,
    /// why cloud-init runs here, or does not: each datasource with the evidence for or against it, looked for
    /// anew (--format text or json)
    #[argh(switch)]
    pub identify: bool,
    /// print where a configuration key's value comes from, what it replaced and what was dropped
    #[argh(option)]
    pub explain: Option<String>,
    /// the old way to give VARNAME
    #[argh(option, short = 'n')]
    pub name: Option<String>,
    /// a dotted path: v1.region, ds.meta_data.uuid
    #[argh(positional)]
    pub varname: Option<String>,
}

/// Remove what earlier boots left, so that the next one is a first one.
#[derive(FromArgs)]
#[argh(subcommand, name = "clean")]
pub struct Clean {
    /// also the logs
    #[argh(switch, short = 'l')]
    pub logs: bool,
    /// also the seed directory
    #[argh(switch, short = 's')]
    pub seed: bool,
    /// also /etc/machine-id
    #[argh(switch)]
    pub machine_id: bool,
    /// also configuration that was generated: all, ssh_config, network, datasource, fstab
    #[argh(option, short = 'c')]
    pub configs: Vec<String>,
    /// then reboot
    #[argh(switch, short = 'r')]
    pub reboot: bool,
}

/// Where a boot's time went, from its log.
#[derive(FromArgs)]
#[argh(subcommand, name = "analyze")]
pub struct Analyze {
    #[argh(subcommand)]
    pub command: AnalyzeCommand,
}

#[derive(FromArgs)]
#[argh(subcommand)]
pub enum AnalyzeCommand {
    Blame(Blame),
    Show(Show),
    Dump(Dump),
    Boot(Boot),
}

/// What took longest, first.
#[derive(FromArgs)]
#[argh(subcommand, name = "blame")]
pub struct Blame {
    /// the log, or a dump of one; - is standard input
    #[argh(option, short = 'i')]
    pub infile: Option<String>,
    /// where to write
    #[argh(option, short = 'o')]
    pub outfile: Option<String>,
}

/// What happened, in its order.
#[derive(FromArgs)]
#[argh(subcommand, name = "show")]
pub struct Show {
    /// what to print of each part; cloud-init(1) has the codes
    #[argh(option, short = 'f')]
    pub format: Option<String>,
    /// the log, or a dump of one; - is standard input
    #[argh(option, short = 'i')]
    pub infile: Option<String>,
    /// where to write
    #[argh(option, short = 'o')]
    pub outfile: Option<String>,
}

/// The events as JSON.
#[derive(FromArgs)]
#[argh(subcommand, name = "dump")]
pub struct Dump {
    /// the log, or a dump of one; - is standard input
    #[argh(option, short = 'i')]
    pub infile: Option<String>,
    /// where to write
    #[argh(option, short = 'o')]
    pub outfile: Option<String>,
}

/// When the kernel, systemd and cloud-init began.
#[derive(FromArgs)]
#[argh(subcommand, name = "boot")]
pub struct Boot {
    /// the log, or a dump of one; - is standard input
    #[argh(option, short = 'i')]
    pub infile: Option<String>,
    /// where to write
    #[argh(option, short = 'o')]
    pub outfile: Option<String>,
}

/// Put what a bug report needs into one archive.
#[derive(FromArgs)]
#[argh(subcommand, name = "collect-logs")]
pub struct CollectLogs {
    /// the archive to write: cloud-init.tar.gz
    #[argh(option, short = 't')]
    pub tarfile: Option<String>,
    /// name each file
    #[argh(switch, short = 'v')]
    pub verbose: u8,
    /// does nothing any more
    #[argh(switch, short = 'u')]
    pub include_userdata: bool,
    /// leave out what not everybody may read
    #[argh(switch, short = 'r')]
    pub redact_sensitive: bool,
}

/// Print the id of the cloud.
#[derive(FromArgs)]
#[argh(subcommand, name = "cloud-id")]
pub struct CloudId {
    /// all of v1 as JSON
    #[argh(switch, short = 'j')]
    pub json: bool,
    /// the region too
    #[argh(switch, short = 'l')]
    pub long: bool,
    /// instance data to read instead of this machine's
    #[argh(option, short = 'i')]
    pub instance_data: Option<String>,
}

/// Show what the next boot would do, and do nothing.
#[derive(FromArgs)]
#[argh(subcommand, name = "plan")]
pub struct Plan {
    /// the boot of a new instance with this user-data
    #[argh(option, short = 'u')]
    pub user_data: Option<String>,
    /// the datasource to find, instead of what the machine shows
    #[argh(option)]
    pub datasource: Option<String>,
    /// the boot of a new instance
    #[argh(switch)]
    pub fresh: bool,
    /// text or json
    #[argh(option, default = "\"text\".to_string()")]
    pub format: String,
    /// show what is in files that not everybody may read
    #[argh(switch)]
    pub sensitive: bool,
}

/// Do a boot's work on an image's tree, which --root names.
#[derive(FromArgs)]
#[argh(subcommand, name = "apply")]
pub struct Apply {
    /// user-data to apply, instead of what the tree's seed has
    #[argh(option, short = 'u')]
    pub user_data: Option<String>,
    /// the datasource to find
    #[argh(option)]
    pub datasource: Option<String>,
}

/// Check a configuration's keys and values, or explain what may stand in one.
#[derive(FromArgs)]
#[argh(subcommand, name = "schema")]
pub struct Schema {
    /// a cloud-config or network-config file to check
    #[argh(option, short = 'c')]
    pub config_file: Option<String>,
    /// what the file is: cloud-config (the default) or network-config
    #[argh(option, short = 't')]
    pub schema_type: Option<String>,
    /// instance data for a file that is a template, instead of this machine's
    #[argh(option, short = 'i')]
    pub instance_data: Option<String>,
    /// check what this instance was given
    #[argh(switch)]
    pub system: bool,
    /// print the file with marks at what is wrong or deprecated
    #[argh(switch)]
    pub annotate: bool,
    /// print the keys of a module, or of all
    #[argh(option)]
    pub docs: Option<String>,
    /// print where a key's value comes from, or every key's
    #[argh(option)]
    pub explain: Option<String>,
}

/// Tools for authors of user-data and of images.
#[derive(FromArgs)]
#[argh(subcommand, name = "devel")]
pub struct Devel {
    #[argh(subcommand)]
    pub command: DevelCommand,
}

#[derive(FromArgs)]
#[argh(subcommand)]
pub enum DevelCommand {
    MakeMime(MakeMime),
    NetConvert(NetConvert),
    Render(Render),
    HotplugHook(HotplugHook),
}

/// Print several files as one MIME message, for user-data.
#[derive(FromArgs)]
#[argh(subcommand, name = "make-mime")]
pub struct MakeMime {
    /// a file and its type: config.yaml:cloud-config
    #[argh(option, short = 'a')]
    pub attach: Vec<String>,
    /// the types that are known
    #[argh(switch, short = 'l')]
    pub list_types: bool,
    /// accept other types
    #[argh(switch, short = 'f')]
    pub force: bool,
}

/// Print user-data that are a template, filled in.
#[derive(FromArgs)]
#[argh(subcommand, name = "render")]
pub struct Render {
    /// instance data to read instead of this machine's
    #[argh(option, short = 'i')]
    pub instance_data: Option<String>,
    /// accepted as ever; what a template lacks is always said
    #[argh(switch, short = 'd')]
    #[allow(dead_code)]
    debug: bool,
    /// the user-data
    #[argh(positional)]
    pub user_data: String,
}

/// List what configuration formats are understood.
#[derive(FromArgs)]
#[argh(subcommand, name = "features")]
pub struct Features {}

/// Convert a network configuration into the files of a network service.
#[derive(FromArgs)]
#[argh(subcommand, name = "net-convert")]
pub struct NetConvert {
    /// the configuration to read
    #[argh(option, short = 'p')]
    pub network_data: String,
    /// its format: eni, yaml, azure-imds, network_data.json, vmware-imc
    #[argh(option, short = 'k')]
    pub kind: String,
    /// where to write; made if it isn't there
    #[argh(option, short = 'd')]
    pub directory: String,
    /// the distribution whose paths and headers to use
    #[argh(option, short = 'D')]
    pub distro: String,
    /// NAME,MAC: a NIC's name by its address; may be repeated
    #[argh(option, short = 'm')]
    pub mac: Vec<String>,
    /// more on standard error: the configuration that was read
    #[argh(switch)]
    pub debug: bool,
    /// the files to write: eni, netplan, networkd, sysconfig, network-manager
    #[argh(option, short = 'O')]
    pub output_kind: String,
}

/// See to network devices that come while the machine runs.
#[derive(FromArgs)]
#[argh(subcommand, name = "hotplug-hook")]
pub struct HotplugHook {
    /// the kind of device: net
    #[argh(option, short = 's')]
    pub subsystem: String,
    #[argh(subcommand)]
    pub action: HotplugAction,
}

#[derive(FromArgs)]
#[argh(subcommand)]
pub enum HotplugAction {
    Query(HotplugQuery),
    Handle(HotplugHandle),
    Enable(HotplugEnable),
}

/// Print whether they are configured.
#[derive(FromArgs)]
#[argh(subcommand, name = "query")]
pub struct HotplugQuery {}

/// Configure one that came.
#[derive(FromArgs)]
#[argh(subcommand, name = "handle")]
pub struct HotplugHandle {
    /// its path below /sys
    #[argh(option, short = 'd')]
    pub devpath: String,
    /// what happened to it: add
    #[argh(option, short = 'u')]
    pub udevaction: String,
}

/// From now on configure them.
#[derive(FromArgs)]
#[argh(subcommand, name = "enable")]
pub struct HotplugEnable {}

/// Does nothing (removed upstream; old hooks call it).
#[derive(FromArgs)]
#[argh(subcommand, name = "dhclient-hook")]
pub struct DhclientHook {
    #[argh(positional, greedy)]
    #[allow(dead_code)]
    rest: Vec<String>,
}
