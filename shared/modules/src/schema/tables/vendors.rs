//! Keys of upstream modules for subscriptions, which this version does not have.

use config::schema::{BOOL, Deprecation, INT, STR, key, list, map};

use crate::schema::Section;

pub static SECTIONS: &[Section] = &[
    Section::new(
        "rh_subscription",
        "Registers with Red Hat's subscription manager.",
        &[key(
            "rh_subscription",
            &[map(&[
                key("username", &[STR]),
                key("password", &[STR]),
                key("activation_key", &[STR]),
                key("activation-key", &[STR]).deprecated(&Deprecation::new("25.3", "activation_key")),
                key("org", &[STR, INT.deprecated(&Deprecation::new("24.2", "text"))]),
                key("auto_attach", &[BOOL]),
                key("auto-attach", &[BOOL]).deprecated(&Deprecation::new("25.3", "auto_attach")),
                key("service_level", &[STR]),
                key("service-level", &[STR]).deprecated(&Deprecation::new("25.3", "service_level")),
                key("add_pool", &[list(&[STR])]),
                key("add-pool", &[list(&[STR])]).deprecated(&Deprecation::new("25.3", "add_pool")),
                key("enable_repo", &[list(&[STR])]),
                key("enable-repo", &[list(&[STR])]).deprecated(&Deprecation::new("25.3", "enable_repo")),
                key("disable_repo", &[list(&[STR])]),
                key("disable-repo", &[list(&[STR])]).deprecated(&Deprecation::new("25.3", "disable_repo")),
                key("release_version", &[STR]),
                key("rhsm_baseurl", &[STR]),
                key("rhsm-baseurl", &[STR]).deprecated(&Deprecation::new("25.3", "rhsm_baseurl")),
                key("server_hostname", &[STR]),
                key("server-hostname", &[STR]).deprecated(&Deprecation::new("25.3", "server_hostname")),
            ])
            .once()],
        )
        .doc("The subscription.")],
    ),
    Section::new(
        "spacewalk",
        "Registers with a Spacewalk server.",
        &[key(
            "spacewalk",
            &[map(&[key("server", &[STR]), key("proxy", &[STR]), key("activation_key", &[STR])])],
        )
        .doc("Spacewalk.")],
    ),
];
