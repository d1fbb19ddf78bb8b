//! The keys of the boot itself, which no module reads.

use config::schema::DefaultValue::{Int, Text};
use config::schema::{
    ANY, ANY_MAP, Definition, Deprecation, Format, INT, LIST, NUMBER, STR, key, list, map, map_of, reference,
    word,
};

use crate::schema::Section;

pub static SECTIONS: &[Section] = &[Section::new(
    "base",
    "The configuration of the boot itself.",
    &[
        key("cloud_init_modules", &[list(&[reference(&MODULE)])]).doc("Modules of the network stage."),
        key("cloud_config_modules", &[list(&[reference(&MODULE)])]).doc("Modules of the config stage."),
        key("cloud_final_modules", &[list(&[reference(&MODULE)])]).doc("Modules of the final stage."),
        key("launch-index", &[INT])
            .doc("The part is for the machine of this number only, of several that were launched together."),
        key("merge_how", &[STR, list(&[reference(&MERGE)]).min(1)])
            .doc("How this document is merged with those before it."),
        key("merge_type", &[STR, list(&[reference(&MERGE)]).min(1)]).doc("The same as merge_how."),
        key("system_info", &[ANY_MAP])
            .deprecated(&Deprecation::new("24.2", "it belongs to the image, in /etc/cloud"))
            .doc("What the image says of its distribution."),
        key("version", &[ANY]).doc("Accepted, and without effect."),
        key("migrate", &[ANY]).doc("Accepted, and without effect."),
        key(
            "output",
            &[map(&[
                key("all", &[reference(&OUTPUT)]).doc("Of all stages."),
                key("init", &[reference(&OUTPUT)]).doc("Of the network stage."),
                key("config", &[reference(&OUTPUT)]).doc("Of the config stage."),
                key("final", &[reference(&OUTPUT)]).doc("Of the final stage."),
            ])],
        )
        .doc("Where the output of stages and their commands goes."),
        key(
            "reporting",
            &[map_of(&key(
                "<name>",
                &[reference(&LOG), reference(&PRINT), reference(&WEBHOOK), reference(&HYPERV)],
            ))],
        )
        .doc("Where events of the boot are reported, each under a name of its own."),
        key(
            "timeouts",
            &[map(&[
                key("script", &[INT.min(1)])
                    .default(&Int(3600))
                    .doc("Seconds that each script of a user has."),
                key("hotplug", &[INT.min(1)])
                    .default(&Int(120))
                    .doc("Seconds in which a NIC that was plugged in is configured."),
            ])],
        )
        .doc("How long things may take; a key of Firstlight's."),
    ],
)];

static MODULE: Definition = Definition { name: "module", types: &[STR.format(Format::Module), LIST.min(1)] };

static MERGE: Definition = Definition {
    name: "merge",
    types: &[map(&[
        key("name", &[word("list"), word("dict"), word("str")]).required().doc("The kind of value."),
        key(
            "settings",
            &[list(&[
                word("allow_delete"),
                word("no_replace"),
                word("replace"),
                word("append"),
                word("prepend"),
                word("recurse_dict"),
                word("recurse_list"),
                word("recurse_array"),
                word("recurse_str"),
            ])],
        )
        .required()
        .doc("How values of this kind are merged."),
    ])],
};

static OUTPUT: Definition = Definition {
    name: "output",
    types: &[
        STR,
        list(&[STR]).range(2, 2),
        map(&[
            key("output", &[STR]).doc("Where standard output goes."),
            key("error", &[STR]).doc("Where standard error goes."),
        ]),
    ],
};

static LOG: Definition = Definition {
    name: "log",
    types: &[map(&[
        key("type", &[word("log")]).required(),
        key("level", &[word("DEBUG"), word("INFO"), word("WARN"), word("ERROR"), word("FATAL")])
            .default(&Text("DEBUG")),
    ])],
};

static PRINT: Definition =
    Definition { name: "print", types: &[map(&[key("type", &[word("print")]).required()])] };

static WEBHOOK: Definition = Definition {
    name: "webhook",
    types: &[map(&[
        key("type", &[word("webhook")]).required(),
        key("endpoint", &[STR]).required().doc("The URL."),
        key("consumer_key", &[STR]),
        key("token_key", &[STR]),
        key("token_secret", &[STR]),
        key("consumer_secret", &[STR]),
        key("timeout", &[NUMBER.min(0)]),
        key("retries", &[INT.min(0)]),
    ])],
};

static HYPERV: Definition = Definition {
    name: "hyperv",
    types: &[map(&[
        key("type", &[word("hyperv")]).required(),
        key("kvp_file_path", &[STR]).default(&Text("/var/lib/hyperv/.kvp_pool_1")),
        key("event_types", &[list(&[STR])]),
    ])],
};
