//! The keys of the boot itself, which no module reads.

use config::merge::OPTIONS;
use config::schema::DefaultValue::{Bool, Int, Str};
use config::schema::{
    ANY, ANY_MAP, BOOL, Definition, Deprecation, Format, INT, LIST, NULL, NUMBER, STR, Type, key, list, map,
    map_of, reference, word,
};

use crate::schema::Section;

/// The keys of an image's configuration that a cloud-config must not have.
pub const IMAGE: Type = map(&[
    key("allow_userdata", &[BOOL]),
    key("datasource", &[map_of(&key("<name>", &[DATASOURCE, NULL]))]),
    key("datasource_list", &[list(&[STR])]),
    key("def_log_file", &[STR]),
    key("disable_fallback_netcfg", &[BOOL]),
    key("disable_network_activation", &[BOOL]),
    key("disable_vmware_customization", &[BOOL]),
    key("log_cfgs", &[list(&[STR, list(&[STR])])]),
    key("manual_cache_clean", &[BOOL]),
    key("syslog_fix_perms", &[STR, list(&[STR]), NULL]),
    key("unverified_modules", &[list(&[STR])]),
])
.open();

/// What several datasources have. The names of all settings are in a list that the datasources' reference is made with.
const DATASOURCE: Type = map(&[
    key("max_wait", &SECONDS),
    key("max_wait_cached", &SECONDS),
    key("metadata_urls", &[list(&[STR])]),
    key("retries", &SECONDS),
    key("sec_between_retries", &SECONDS),
    key("sleep_time", &SECONDS),
    key("timeout", &SECONDS),
    key("wait", &SECONDS),
    key("wait_retry", &SECONDS),
])
.open();

/// Seconds, or attempts: `retry::number` of the datasources.
const SECONDS: [Type; 2] = [NUMBER.range(0, 3600), STR.format(Format::Digits)];

pub static SECTIONS: &[Section] = &[Section::new(
    "base",
    "Keys that cloud-init itself reads.",
    &[
        key("cloud_init_modules", &[list(&[reference(&MODULE)])]).doc("Modules of the network stage."),
        key("cloud_config_modules", &[list(&[reference(&MODULE)])]).doc("Modules of the config stage."),
        key("cloud_final_modules", &[list(&[reference(&MODULE)])]).doc("Modules of the final stage."),
        key("launch-index", &[INT]).doc("Use this part only in the instance with this launch index."),
        key("merge_how", &[STR, list(&[reference(&MERGE)]).min(1)])
            .doc("How to merge this part into those before it."),
        key("merge_type", &[STR, list(&[reference(&MERGE)]).min(1)]).doc("Alias of `merge_how`."),
        key("system_info", &[ANY_MAP])
            .deprecated(&Deprecation::new("24.2", "it belongs to the image, in /etc/cloud").message("Deprecated in version 24.2. System and/or distro specific settings. This is not intended to be overridden by user-data or vendor-data."))
            .doc("Settings of the image for its distribution."),
        key("version", &[ANY]).doc("Ignored."),
        key("migrate", &[ANY]).doc("Ignored."),
        key(
            "output",
            &[map(&[
                key("all", &[reference(&OUTPUT)]).doc("For all stages."),
                key("init", &[reference(&OUTPUT)]).doc("For the network stage."),
                key("config", &[reference(&OUTPUT)]).doc("For the config stage."),
                key("final", &[reference(&OUTPUT)]).doc("For the final stage."),
            ])],
        )
        .doc("Redirect the output of stages and their commands."),
        key(
            "reporting",
            &[map_of(
                &key(
                    "<name>",
                    &[reference(&LOG), reference(&PRINT), reference(&WEBHOOK), reference(&OTLP), reference(&HYPERV)],
                )
                .doc("A handler. `type` selects what it does with events."),
            )],
        )
        .doc("Handlers of boot events, under any names."),
        key(
            "timeouts",
            &[map(&[
                key("script", &[INT.min(1)]).default(&Int(3600)).doc("For each user script."),
                key("hotplug", &[INT.min(1)]).default(&Int(120)).doc("For configuring a hotplugged NIC."),
            ])],
        )
        .doc("Time limits in seconds (Firstlight only)."),
        key("error_on_user_data_failure", &[BOOL])
            .default(&Bool(true))
            .doc("Only in the image's configuration: whether user-data is not used at all if one of its includes cannot be fetched; otherwise that include is skipped with a warning (Firstlight only)."),
        key("tpm2_measure_pcr", &[BOOL, INT.range(0, 23)])
            .default(&Bool(false))
            .doc("Only in the image's configuration: extend this PCR of the TPM (true: 12) with the SHA-256 digests of network configuration, user-data and vendor-data before these are used (Firstlight only)."),
    ],
)];

static MODULE: Definition = Definition { name: "module", types: &[STR.format(Format::Module), LIST.min(1)] };

static MERGE: Definition = Definition {
    name: "merge",
    types: &[map(&[
        key("name", &[word("list"), word("dict"), word("str")]).required().doc("The type of values."),
        key("settings", &[list(&MERGE_OPTIONS)]).required().doc("How to merge values of this type."),
    ])],
};

const MERGE_OPTIONS: [Type; OPTIONS.len()] = {
    let (mut words, mut i) = ([word(""); OPTIONS.len()], 0);
    while i < words.len() {
        words[i] = word(OPTIONS[i]);
        i += 1;
    }
    words
};

static OUTPUT: Definition = Definition {
    name: "output",
    types: &[
        STR,
        list(&[STR]).range(2, 2),
        map(&[
            key("output", &[STR]).doc("Standard output: `> FILE`, `>> FILE` or `| COMMAND`."),
            key("error", &[STR]).doc("Standard error, likewise, or `&1`."),
        ]),
    ],
};

static LOG: Definition = Definition {
    name: "log",
    types: &[map(&[
        key("type", &[word("log")]).required().doc("Write events to the log."),
        key("level", &[word("DEBUG"), word("INFO"), word("WARN"), word("ERROR"), word("FATAL")])
            .default(&Str("DEBUG"))
            .doc("The log level of events."),
    ])],
};

static PRINT: Definition = Definition {
    name: "print",
    types: &[map(&[key("type", &[word("print")]).required().doc("Print events to the console.")])],
};

static WEBHOOK: Definition = Definition {
    name: "webhook",
    types: &[map(&[
        key("type", &[word("webhook")]).required().doc("Send events to a server as JSON."),
        key("endpoint", &[STR]).required().doc("The URL to POST events to."),
        key("consumer_key", &[STR])
            .doc("The OAuth 1.0 consumer key. With any of these four keys, requests are signed (PLAINTEXT)."),
        key("token_key", &[STR]).doc("The OAuth 1.0 token."),
        key("token_secret", &[STR]).doc("The secret of the OAuth 1.0 token."),
        key("consumer_secret", &[STR]).doc("The secret of the OAuth 1.0 consumer key. The default is empty."),
        key("timeout", &[NUMBER.min(0)])
            .doc("The time limit of a request in seconds. The default is 5, the maximum 60."),
        key("retries", &[INT.min(0)])
            .doc("How often a failed request is repeated. The default is 0, the maximum 20."),
    ])],
};

static OTLP: Definition = Definition {
    name: "otlp",
    types: &[map(&[
        key("type", &[word("otlp")])
            .required()
            .doc("Send the boot as a trace to an OpenTelemetry collector (Firstlight only)."),
        key("endpoint", &[STR])
            .required()
            .doc("The URL of the collector, for example `http://HOST:4318`; OTLP over HTTP."),
        key("headers", &[map_of(&key("<name>", &[STR]).doc("The value, for example of a key."))])
            .doc("Further headers of each request."),
        key("timeout", &[NUMBER.min(0)])
            .doc("The time limit of a request in seconds. The default is 5, the maximum 60."),
        key("retries", &[INT.min(0)])
            .doc("How often a failed request is repeated. The default is 0, the maximum 20."),
    ])],
};

static HYPERV: Definition = Definition {
    name: "hyperv",
    types: &[map(&[
        key("type", &[word("hyperv")]).required().doc("Report events to a Hyper-V host."),
        key("kvp_file_path", &[STR])
            .default(&Str("/var/lib/hyperv/.kvp_pool_1"))
            .doc("The key-value pool that the host reads."),
        key("event_types", &[list(&[STR])])
            .doc("The types of events to report: `start`, `finish`. The default is all."),
    ])],
};
