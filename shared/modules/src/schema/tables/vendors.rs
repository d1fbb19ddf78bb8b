//! Keys of upstream modules for subscriptions and for Ubuntu, which this version does not have.

use config::schema::DefaultValue::{Bool, Text};
use config::schema::{
    BOOL, Definition, Deprecation, Format, INT, NULL, STR, key, list, map, reference, word,
};

use crate::schema::Section;

pub static SECTIONS: &[Section] = &[
    Section::new(
        "landscape",
        "Registers with Landscape.",
        &[key(
            "landscape",
            &[map(&[key(
                "client",
                &[map(&[
                    key("url", &[STR]).default(&Text("https://landscape.canonical.com/message-system")),
                    key("ping_url", &[STR]).default(&Text("https://landscape.canonical.com/ping")),
                    key("data_path", &[STR]).default(&Text("/var/lib/landscape/client")),
                    key(
                        "log_level",
                        &[word("debug"), word("info"), word("warning"), word("error"), word("critical")],
                    )
                    .default(&Text("info")),
                    key("computer_title", &[STR]).required(),
                    key("account_name", &[STR]).required(),
                    key("registration_key", &[STR]),
                    key("tags", &[STR.format(Format::Tags)]),
                    key("http_proxy", &[STR]),
                    key("https_proxy", &[STR]),
                ])
                .open()],
            )
            .required()
            .doc("Its client; other keys become options.")])],
        )
        .doc("Landscape.")],
    ),
    Section::new(
        "ubuntu_autoinstall",
        "Looks whether Ubuntu's installer is there.",
        &[key("autoinstall", &[map(&[key("version", &[INT]).required()]).open()]).doc("For the installer.")],
    ),
    Section::new(
        "ubuntu_drivers",
        "Installs third-party drivers.",
        &[key(
            "drivers",
            &[map(&[key(
                "nvidia",
                &[map(&[key("license-accepted", &[BOOL]).required(), key("version", &[STR])])],
            )])],
        )
        .doc("The drivers.")],
    ),
    Section::new(
        "ubuntu_pro",
        "Attaches the machine to Ubuntu Pro.",
        &[
            key("ubuntu_pro", &[reference(&PRO)]).doc("Ubuntu Pro."),
            key("ubuntu_advantage", &[reference(&PRO)]).deprecated(&Deprecation::new("24.1", "ubuntu_pro")),
        ],
    ),
];

static PRO: Definition = Definition {
    name: "pro",
    types: &[map(&[
        key("enable", &[list(&[STR])]).doc("Services to enable."),
        key("enable_beta", &[list(&[STR])]),
        key("token", &[STR]).doc("The contract's token."),
        key("features", &[map(&[key("disable_auto_attach", &[BOOL]).default(&Bool(false))])]),
        key(
            "config",
            &[map(&[
                key("http_proxy", &[STR.format(Format::Uri), NULL]),
                key("https_proxy", &[STR.format(Format::Uri), NULL]),
                key("global_apt_http_proxy", &[STR.format(Format::Uri), NULL]),
                key("global_apt_https_proxy", &[STR.format(Format::Uri), NULL]),
                key("ua_apt_http_proxy", &[STR.format(Format::Uri), NULL]),
                key("ua_apt_https_proxy", &[STR.format(Format::Uri), NULL]),
            ])
            .open()],
        ),
    ])],
};
