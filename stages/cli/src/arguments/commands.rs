//! The option table: every command with its options, in upstream's order.
//!
//! A new option is a row here and a field in `args`. The parser, `--help`, the completions in packaging/completions and the
//! synopses of the manual pages come from the row; `make generated` writes the files.

use distro::Distro;
use netconfig::parse::INPUT_KINDS;
use netconfig::render::OUTPUT_KINDS;

use super::args::{CleanConfig, Format, Frequency, Mode, SchemaFormat, SchemaType, StatusFormat, UdevAction};
use super::spec::ValueKind::{Datasource, Directory, File, InstanceData, Key, Module, Text};
use super::spec::{CommandSpec, Count, OptionSpec, choice, command, file, flag, option, positional};

/// The output format of most commands.
const FORMAT: OptionSpec = choice("format", None, "FORMAT", Format::WORDS, "Output format.").default("text");

/// Systems that upstream knows besides the distributions of the table.
const BSDS: [&str; 4] = ["dragonfly", "freebsd", "netbsd", "openbsd"];
const DISTROS: &[&str] = &{
    let mut all = [""; Distro::NAMES.len() + BSDS.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = if i < Distro::NAMES.len() { Distro::NAMES[i] } else { BSDS[i - Distro::NAMES.len()] };
        i += 1;
    }
    all
};

const FILE: OptionSpec =
    file("file", Some('f'), "Additional configuration file; overrides all others.").repeatable();
const INSTANCE_DATA: OptionSpec =
    file("instance-data", Some('i'), "Instance data to read (default: the data of this instance).");
const DATASOURCE: OptionSpec =
    option("datasource", None, "NAME", Datasource, "Datasource to use (default: the detected one).");
/// Options of `query` that print something other than instance data.
const EXPLAINED: &[&str] = &["identify", "explain"];
const IGNORED_DEBUG: OptionSpec = flag("debug", Some('d'), "Ignored, for compatibility.").ignored();

/// `cloud-init`.
pub static CLOUD_INIT: CommandSpec = command(
    "cloud-init",
    "Set up a cloud instance at boot, and inspect or repeat that work.",
    &[
        flag("version", Some('v'), "Print the version and exit."),
        flag("debug", Some('d'), "Write debug messages to standard error."),
        flag("force", None, "Continue if no datasource is found."),
        flag("all-stages", None, "Not supported: each stage is a separate unit.").ignored(),
        option(
            "root",
            None,
            "DIR",
            Directory,
            "Operate on the image in DIR instead of this machine; accepted at any position.",
        ),
    ],
)
.commands(&[
    command(
        "init",
        "Run the network stage, or with --local the local stage.",
        &[flag("local", Some('l'), "Run the local stage: datasources that need no network."), FILE],
    )
    .long_first(),
    command(
        "modules",
        "Run the modules of a stage.",
        &[choice("mode", Some('m'), "MODE", Mode::WORDS, "Modules to run.").default("config"), FILE],
    )
    .long_first(),
    command(
        "single",
        "Run one module.",
        &[
            option("name", Some('n'), "MODULE", Module, "Module to run, for example ssh or cc_ssh.")
                .required(),
            choice(
                "frequency",
                None,
                "FREQUENCY",
                Frequency::WORDS,
                "Frequency to use instead of the module's own.",
            ),
            flag("report", None, "Send the events to the handlers of 'reporting:', too."),
            FILE,
        ],
    )
    .positional(positional("argument", Text, "Arguments for the module.", Count::Rest))
    .long_first(),
    command(
        "query",
        "Print instance data, or explain detection and configuration.",
        &[
            IGNORED_DEBUG,
            INSTANCE_DATA.ignored_with(EXPLAINED),
            file("user-data", Some('u'), "User-data to read (default: that of this instance).")
                .ignored_with(EXPLAINED),
            file("vendor-data", Some('v'), "Vendor-data to read (default: that of this instance).")
                .ignored_with(EXPLAINED),
            flag("all", Some('a'), "Print all instance data.").ignored_with(EXPLAINED),
            flag("list-keys", Some('l'), "List the keys below VARNAME.")
                .ignored_with(&["identify", "explain", "format"]),
            option(
                "format",
                Some('f'),
                "TEMPLATE",
                Text,
                "Template to render, for example '{{ v1.region }}'; with --identify: text or json.",
            )
            .ignored_with(&["explain"]),
            flag(
                "identify",
                None,
                "Show why cloud-init runs or does not: each datasource with its evidence.",
            ),
            option(
                "explain",
                None,
                "KEY",
                Key,
                "Show which file or part set a configuration key, what it replaced and what was dropped.",
            )
            .ignored_with(&["identify"]),
            option("name", Some('n'), "VARNAME", InstanceData, "Older spelling of VARNAME.")
                .ignored_with(&["identify", "explain", "format"]),
        ],
    )
    .positional(
        positional(
            "varname",
            InstanceData,
            "Dotted path, for example v1.region or ds.meta_data.uuid.",
            Count::Optional,
        )
        .ignored_with(&["identify", "explain", "format"]),
    ),
    command("features", "List the supported configuration features.", &[]),
    command("analyze", "Show how long each part of a boot took.", &[]).commands(&[
        command("blame", "List the events of each boot, longest first.", &[INFILE, OUTFILE]),
        command(
            "show",
            "List the events of each boot in order.",
            &[
                option(
                    "format",
                    Some('f'),
                    "FORMAT",
                    Text,
                    "Format of an event, with codes such as %n (name) and %d (duration).",
                ),
                INFILE,
                OUTFILE,
            ],
        ),
        command("dump", "Print the events as JSON.", &[INFILE, OUTFILE]),
        command("boot", "Show when the kernel, systemd and cloud-init started.", &[INFILE, OUTFILE]),
        command(
            "plot",
            "Draw the last boot as SVG: stages, steps, commands, requests and waits.",
            &[INFILE, OUTFILE],
        ),
        command(
            "metrics",
            "Print the times, requests, errors and result of the last boot as Prometheus metrics.",
            &[INFILE, OUTFILE],
        ),
    ]),
    SCHEMA,
    command(
        "explain",
        "Show type, default, meaning and origin of a configuration key, or list all keys.",
        &[],
    )
    .positional(positional("key", Key, "Key, for example users.sudo.", Count::Optional)),
    command(
        "collect-logs",
        "Collect the files that a bug report needs in one archive.",
        &[
            flag("verbose", Some('v'), "List each file.").repeatable(),
            file("tarfile", Some('t'), "Archive to write.").default("cloud-init.tar.gz"),
            flag("include-userdata", Some('u'), "Ignored, for compatibility.").ignored(),
            flag(
                "redact-sensitive",
                Some('r'),
                "Omit user-data and other files that are not world-readable, except for logs.",
            ),
        ],
    ),
    command(
        "clean",
        "Remove the state of earlier boots, so that the next boot is a first boot.",
        &[
            flag("logs", Some('l'), "Also remove the logs."),
            flag("machine-id", None, "Also reset /etc/machine-id."),
            flag("reboot", Some('r'), "Reboot afterwards."),
            flag("plan", None, "Show what would be removed, without removing it."),
            flag("seed", Some('s'), "Also remove the seed directory."),
            choice(
                "configs",
                Some('c'),
                "KIND",
                CleanConfig::WORDS,
                "Also remove generated configuration of these kinds.",
            )
            .one_or_more(),
        ],
    ),
    command(
        "status",
        "Show what cloud-init is doing or how it ended.",
        &[
            choice("format", None, "FORMAT", StatusFormat::WORDS, "Output format.").default("tabular"),
            flag("long", Some('l'), "Show detailed status."),
            flag("wait", Some('w'), "Wait until cloud-init has finished."),
        ],
    ),
    CLOUD_ID,
    command(
        "plan",
        "Show what the next boot would do, without doing it.",
        &[
            file("user-data", Some('u'), "Plan the boot of a new instance with this user-data."),
            DATASOURCE,
            flag("fresh", None, "Plan the boot of a new instance."),
            FORMAT,
            flag("sensitive", None, "Show the contents of files that are not world-readable."),
        ],
    )
    .positional(
        positional("file", File, "The same as --user-data FILE; - is standard input.", Count::Optional)
            .ignored_with(&["user-data"]),
    ),
    command(
        "apply",
        "Run the stages on the image given with --root.",
        &[
            file("user-data", Some('u'), "User-data to apply (default: the image's seed)."),
            DATASOURCE,
            flag("diff", None, "Show the changes as a patch, without making them."),
        ],
    ),
    command(
        "try",
        "Boot a throwaway container on an isolated network for this user-data, and show what it did.",
        &[
            flag("shell", None, "Open a shell in the container before it is removed."),
            option("keep", None, "DIR", Directory, "Keep what the boot wrote in this new directory."),
        ],
    )
    .positional(positional(
        "file",
        File,
        "User-data, or a seed file: meta-data, network-config, vendor-data.",
        Count::Many,
    )),
    command(
        "doctor",
        "Show on one page why a machine did not come up as expected.",
        &[
            FORMAT,
            flag(
                "network",
                None,
                "Also ask the name servers, and the metadata service for the plan of the next boot.",
            )
            .ignored_with(&["switch"]),
            flag("no-plan", None, "Do not plan the next boot.").ignored_with(&["switch"]),
            flag("switch", None, "Show what would change if Firstlight replaced Python's cloud-init here."),
        ],
    ),
    command(
        "report",
        "Write one HTML page for a bug report: doctor, the picture of the boot, the origin of each key.",
        &[file("outfile", Some('o'), "File to write; - is standard output.")
            .default("cloud-init-report.html")],
    ),
    command("state", "Check and repair the state of earlier boots.", &[]).commands(&[
        command(
            "check",
            "Report damaged, incomplete and unreadable state, and state of another instance.",
            &[FORMAT],
        ),
        command(
            "repair",
            "Apply safe repairs, on a machine whose boot has ended.",
            &[flag("plan", None, "Show the repairs without applying them.")],
        ),
    ]),
    command("devel", "Tools for authors of user-data and images.", &[]).commands(&[
        HOTPLUG_HOOK,
        NET_CONVERT,
        RENDER,
        MAKE_MIME,
        SCHEMA.hidden(),
    ]),
    command("dhclient-hook", "Ignored, for compatibility with hooks of dhclient.", &[])
        .positional(positional("argument", Text, "Ignored.", Count::Rest))
        .hidden(),
    command("help", "Print the help of a command.", &[]).positional(positional(
        "command",
        Text,
        "Command, for example devel make-mime.",
        Count::Rest,
    )),
])
.long_first();

const INFILE: OptionSpec =
    file("infile", Some('i'), "Log or `analyze dump` output to read; - is standard input.")
        .default(DEFAULT_LOG);
/// The log that `analyze` reads by default.
pub const DEFAULT_LOG: &str = "/var/log/cloud-init.log";
const OUTFILE: OptionSpec = file("outfile", Some('o'), "File to write; - is standard output.").default("-");

/// A command of `cloud-init`, and a program by its own name.
pub const CLOUD_ID: CommandSpec = command(
    "cloud-id",
    "Print the identifier of the cloud.",
    &[
        flag("json", Some('j'), "Print all of v1 as JSON."),
        flag("long", Some('l'), "Print the region as well.").ignored_with(&["json"]),
        INSTANCE_DATA,
    ],
);

/// Formerly `devel schema`; both are accepted.
const SCHEMA: CommandSpec = command(
    "schema",
    "Validate a configuration, or print the documentation of its keys.",
    &[
        file("config-file", Some('c'), "Configuration file to validate, as FILE.")
            .repeatable()
            .ignored_with(&["docs"]),
        choice("schema-type", Some('t'), "TYPE", SchemaType::WORDS, "Type of the file.")
            .default("cloud-config")
            .ignored_with(&["docs", "explain"]),
        file(
            "instance-data",
            Some('i'),
            "Instance data to render a template with (default: the data of this instance).",
        )
        .ignored_with(&["docs", "explain"]),
        flag("system", None, "Validate the configuration of this instance.").ignored_with(&["docs"]),
        flag("annotate", None, "Print the file with each problem marked.").ignored_with(&[
            "docs",
            "explain",
            "format=json",
            "format=sarif",
        ]),
        choice("format", None, "FORMAT", SchemaFormat::WORDS, "Output format.")
            .default("text")
            .ignored_with(&["docs", "explain"]),
        option(
            "docs",
            None,
            "NAME",
            Key,
            "Print the keys of a module, of all modules, or one key (users.sudo).",
        )
        .optional_value("all"),
        option("explain", None, "KEY", Key, "Show where the value of a key, or of every key, was set.")
            .optional_value("")
            .ignored_with(&["docs"]),
    ],
)
.positional(
    positional("file", File, "File or directory to validate; - is standard input.", Count::Many)
        .ignored_with(&["docs"]),
);

const HOTPLUG_HOOK: CommandSpec = command(
    "hotplug-hook",
    "Manage network device hotplug.",
    &[choice("subsystem", Some('s'), "SUBSYSTEM", &["net"], "Subsystem of the device.").required()],
)
.commands(&[
    command("query", "Print whether hotplug is enabled.", &[]),
    command(
        "handle",
        "Handle a hotplug event.",
        &[
            option("devpath", Some('d'), "PATH", Text, "Device path below /sys.").required(),
            choice("udevaction", Some('u'), "ACTION", UdevAction::WORDS, "Action of the event.").required(),
        ],
    ),
    command("enable", "Enable hotplug.", &[]),
])
.commands_name("hotplug_action");

const NET_CONVERT: CommandSpec = command(
    "net-convert",
    "Convert a network configuration to the files of a renderer.",
    &[
        file("network-data", Some('p'), "Network configuration to read.").required(),
        choice("kind", Some('k'), "KIND", INPUT_KINDS, "Format of the network configuration.").required(),
        option("directory", Some('d'), "DIR", Directory, "Directory to write to; created if missing.")
            .required(),
        choice("distro", Some('D'), "DISTRO", DISTROS, "Distribution whose paths and headers to use.")
            .required(),
        option("mac", Some('m'), "NAME,MAC", Text, "Name of the NIC with this MAC address.")
            .repeatable()
            .ignored_with(&["kind=azure-imds", "kind=vmware-imc"]),
        flag("debug", None, "Print the parsed configuration to standard error."),
        choice("output-kind", Some('O'), "KIND", OUTPUT_KINDS, "Renderer to use.").required(),
    ],
);

const RENDER: CommandSpec =
    command("render", "Render user-data that is a template.", &[INSTANCE_DATA, IGNORED_DEBUG])
        .positional(positional("user_data", File, "User-data file to render.", Count::One));

const MAKE_MIME: CommandSpec = command(
    "make-mime",
    "Combine files into one MIME message for user-data.",
    &[
        option(
            "attach",
            Some('a'),
            "FILE:TYPE",
            File,
            "File with its content type, for example config.yaml:cloud-config.",
        )
        .repeatable()
        .ignored_with(&["list-types"]),
        flag("list-types", Some('l'), "List the known content types."),
        flag("force", Some('f'), "Accept unknown content types.").ignored_with(&["list-types"]),
    ],
);
