//! Keys of upstream modules for repositories and package managers, which this version does not have.

use config::schema::DefaultValue::{Bool, Text};
use config::schema::{BOOL, Format, INT, NULL, Needs, STR, key, list, map, map_of, reference};

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
