//! Keys of upstream modules for repositories and package managers, which this version does not have.

use config::schema::DefaultValue::{Bool, Text};
use config::schema::{
    BOOL, Definition, Deprecation, Format, INT, STR, key, list, map, map_of, reference, word,
};

use crate::schema::Section;

pub static SECTIONS: &[Section] = &[
    Section::new(
        "apt_configure",
        "Sets up apt: sources, keys, proxies, debconf.",
        &[key(
            "apt",
            &[map(&[
                key("preserve_sources_list", &[BOOL])
                    .default(&Bool(false))
                    .doc("Leave the list of sources as it is."),
                key("generate_mirrorlists", &[BOOL])
                    .default(&Bool(false))
                    .doc("Write the mirrors to lists below /etc/apt/mirrors (Debian)."),
                key("disable_suites", &[list(&[STR]).min(1).unique()]).doc("Suites that are commented out."),
                key("primary", &[list(&[reference(&MIRROR)]).min(1)]).doc("The mirror, by architecture."),
                key("security", &[list(&[reference(&MIRROR)]).min(1)])
                    .doc("The mirror of security updates, by architecture."),
                key("add_apt_repo_match", &[STR])
                    .default(&Text("^[\\w-]+:\\w"))
                    .doc("Sources that match go to add-apt-repository."),
                key("debconf_selections", &[map_of(&key("<name>", &[STR])).min(1)])
                    .doc("Answers for debconf, in any number of named texts."),
                key("sources_list", &[STR]).doc("A template for the whole list of sources."),
                key("conf", &[STR]).doc("Text of a part of apt.conf."),
                key("https_proxy", &[STR]).doc("The proxy for https."),
                key("http_proxy", &[STR]).doc("The proxy for http."),
                key("proxy", &[STR]).doc("The same as http_proxy."),
                key("ftp_proxy", &[STR]).doc("The proxy for ftp."),
                key(
                    "sources",
                    &[map_of(&key(
                        "<name>",
                        &[map(&[
                            key("source", &[STR]).doc("The line, or stanza."),
                            key("keyid", &[STR]).doc("The key's id or fingerprint."),
                            key("key", &[STR]).doc("The key itself."),
                            key("keyserver", &[STR]).doc("Where the key is fetched from."),
                            key("filename", &[STR]).doc("The file below sources.list.d."),
                            key("append", &[BOOL])
                                .default(&Bool(true))
                                .doc("Add to that file instead of replacing it."),
                        ])
                        .min(1)],
                    ))],
                )
                .doc("Further sources, each with a name of its own."),
            ])
            .min(1)],
        )
        .doc("The settings of apt.")],
    ),
    Section::new(
        "apt_pipelining",
        "Says how many requests apt sends at once.",
        &[key(
            "apt_pipelining",
            &[
                INT,
                BOOL,
                word("os"),
                word("none").deprecated(&Deprecation::new("22.4", "os")),
                word("unchanged").deprecated(&Deprecation::new("22.4", "os")),
            ],
        )
        .doc("A number, false for none, os for what apt does by itself.")],
    ),
];

static MIRROR: Definition = Definition {
    name: "mirror",
    types: &[map(&[
        key("arches", &[list(&[STR]).min(1)]).required().doc("Architectures it is for, or default."),
        key("uri", &[STR.format(Format::Uri)]).doc("The mirror."),
        key("search", &[list(&[STR.format(Format::Uri)]).min(1)])
            .doc("The first of these that can be resolved."),
        key("search_dns", &[BOOL]).doc("Look for a mirror in the machine's own domain."),
        key("keyid", &[STR]).doc("The key's id or fingerprint."),
        key("key", &[STR]).doc("The key itself."),
        key("keyserver", &[STR]).doc("Where the key is fetched from."),
    ])],
};
