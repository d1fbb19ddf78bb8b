//! Keys of upstream modules for repositories and package managers, which this version does not have.

use config::schema::DefaultValue::{Bool, Text};
use config::schema::{
    BOOL, Definition, Deprecation, Format, INT, NULL, Needs, STR, key, list, map, map_of, reference, word,
};

use super::ANY_KEYS;
use crate::schema::Section;

pub static SECTIONS: &[Section] = &[
    Section::new(
        "apk_configure",
        "Writes the repositories of Alpine's apk.",
        &[key(
            "apk_repos",
            &[map(&[
                key("preserve_repositories", &[BOOL])
                    .default(&Bool(false))
                    .doc("Leave /etc/apk/repositories as it is."),
                key(
                    "alpine_repo",
                    &[
                        NULL,
                        map(&[
                            key("base_url", &[STR])
                                .default(&Text("https://dl-cdn.alpinelinux.org/alpine"))
                                .doc("The mirror."),
                            key("community_enabled", &[BOOL])
                                .default(&Bool(false))
                                .doc("Add the community repository."),
                            key("testing_enabled", &[BOOL])
                                .default(&Bool(false))
                                .doc("Add the testing repository."),
                            key("version", &[STR]).required().doc("The release, such as v3.20 or edge."),
                        ])
                        .min(1),
                    ],
                )
                .doc("Alpine's own."),
                key("local_repo_base_url", &[STR]).doc("One more repository."),
            ])
            .min(1)],
        )
        .doc("The repositories.")],
    ),
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
    Section::new(
        "snap",
        "Installs snaps.",
        &[key(
            "snap",
            &[map(&[
                key("assertions", &[map_of(&key("<name>", &[STR])).min(1), list(&[STR]).min(1).unique()])
                    .doc("Texts for snap ack."),
                key(
                    "commands",
                    &[list(&[STR, list(&[STR])]).min(1), map_of(&key("<name>", &[STR, list(&[STR])])).min(1)],
                )
                .doc("Commands of snap."),
            ])
            .min(1)],
        )
        .doc("Snaps.")],
    ),
    Section::new(
        "yum_add_repo",
        "Adds repositories of yum and dnf.",
        &[
            key("yum_repo_dir", &[STR]).default(&Text("/etc/yum.repos.d")).doc("Where they are written."),
            key(
                "yum_repos",
                &[map_of(&key(
                    "<id>",
                    &[map(&[
                        key("baseurl", &[STR.format(Format::Uri)]),
                        key("metalink", &[STR.format(Format::Uri)]),
                        key("mirrorlist", &[STR.format(Format::Uri)]),
                        key("name", &[STR]),
                        key("enabled", &[BOOL]).default(&Bool(true)),
                    ])
                    .and_any(&key("<option>", &[INT, BOOL, STR]))
                    .needs(&Needs { keys: &["baseurl", "metalink", "mirrorlist"], only_one: false })],
                ))
                .min(1)],
            )
            .doc("Repositories by their ids."),
        ],
    ),
    Section::new(
        "zypper_add_repo",
        "Adds repositories of zypper.",
        &[key(
            "zypper",
            &[map(&[
                key(
                    "repos",
                    &[list(&[map(&[
                        key("id", &[STR]).required(),
                        key("baseurl", &[STR.format(Format::Uri)]).required(),
                    ])
                    .open()])
                    .min(1)],
                )
                .doc("Repositories; other keys are written as they are."),
                key("config", &[reference(&ANY_KEYS)]).doc("Settings of zypp.conf."),
            ])
            .open()
            .min(1)],
        )
        .doc("zypper.")],
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
