//! Keys of upstream modules for configuration management, which this version does not have.

use config::schema::DefaultValue::{Bool, Int, Text};
use config::schema::{
    ANY_MAP, BOOL, Definition, Deprecation, INT, NUMBER, Needs, STR, key, list, map, reference, word,
};

use crate::schema::Section;

pub static SECTIONS: &[Section] = &[
    Section::new(
        "ansible",
        "Installs Ansible, and lets it pull and run playbooks.",
        &[key(
            "ansible",
            &[map(&[
                key("install_method", &[word("distro"), word("pip")])
                    .default(&Text("distro"))
                    .doc("Where Ansible is taken from."),
                key("run_user", &[STR]).doc("The user whom commands run as."),
                key("ansible_config", &[STR]).doc("The path of Ansible's configuration."),
                key(
                    "setup_controller",
                    &[map(&[
                        key(
                            "repositories",
                            &[list(&[map(&[
                                key("path", &[STR]).required().doc("Where to."),
                                key("source", &[STR]).required().doc("Where from."),
                            ])])],
                        )
                        .doc("Repositories to clone."),
                        key(
                            "run_ansible",
                            &[list(&[map(&[
                                key("playbook_name", &[STR]),
                                key("playbook_dir", &[STR]),
                                key("become_password_file", &[STR]),
                                key("connection_password_file", &[STR]),
                                key("list_hosts", &[BOOL]).default(&Bool(false)),
                                key("syntax_check", &[BOOL]).default(&Bool(false)),
                                key("timeout", &[NUMBER.min(0)]),
                                key("vault_id", &[STR]),
                                key("vault_password_file", &[STR]),
                                key("background", &[NUMBER.min(0)]),
                                key("check", &[BOOL]).default(&Bool(false)),
                                key("diff", &[BOOL]).default(&Bool(false)),
                                key("module_path", &[STR]),
                                key("poll", &[NUMBER.min(0)]),
                                key("args", &[STR]),
                                key("extra_vars", &[STR]),
                                key("forks", &[NUMBER.min(0)]),
                                key("inventory", &[STR]),
                                key("scp_extra_args", &[STR]),
                                key("sftp_extra_args", &[STR]),
                                key("private_key", &[STR]),
                                key("connection", &[STR]),
                                key("module_name", &[STR]),
                                key("sleep", &[STR]),
                                key("tags", &[STR]),
                                key("skip_tags", &[STR]),
                            ])
                            .open()])],
                        )
                        .doc("Playbooks to run; other keys become options."),
                    ])],
                )
                .doc("Makes this machine one that controls others."),
                key(
                    "galaxy",
                    &[map(&[key("actions", &[list(&[list(&[STR])])])
                        .required()
                        .doc("Arguments of each call.")])],
                )
                .doc("What ansible-galaxy does."),
                key("package_name", &[STR]).default(&Text("ansible")).doc("The package's name."),
                key(
                    "pull",
                    &[
                        list(&[reference(&PULL)]),
                        reference(&PULL).deprecated(&Deprecation::new("25.2", "a list")),
                    ],
                )
                .doc("What ansible-pull runs."),
            ])],
        )
        .doc("Ansible, and what it does here.")],
    ),
    Section::new(
        "chef",
        "Installs and configures Chef's client.",
        &[key(
            "chef",
            &[map(&[
                key("directories", &[list(&[STR]).min(1).unique()]).doc("Directories to make."),
                key("config_path", &[STR]).default(&Text("/etc/chef/client.rb")),
                key("validation_cert", &[STR])
                    .doc("The certificate, or system to leave the one that is there."),
                key("validation_key", &[STR]).default(&Text("/etc/chef/validation.pem")),
                key("firstboot_path", &[STR]).default(&Text("/etc/chef/firstboot.json")),
                key("exec", &[BOOL]).default(&Bool(false)).doc("Run the client at once."),
                key("client_key", &[STR]).default(&Text("/etc/chef/client.pem")),
                key("encrypted_data_bag_secret", &[STR]),
                key("environment", &[STR]).default(&Text("_default")),
                key("file_backup_path", &[STR]).default(&Text("/var/chef/backup")),
                key("file_cache_path", &[STR]).default(&Text("/var/chef/cache")),
                key("json_attribs", &[STR]).default(&Text("/etc/chef/firstboot.json")),
                key("log_level", &[STR]).default(&Text(":info")),
                key("log_location", &[STR]).default(&Text("/var/log/chef/client.log")),
                key("node_name", &[STR]).doc("The instance-id when left out."),
                key("omnibus_url", &[STR]).default(&Text("https://www.chef.io/chef/install.sh")),
                key("omnibus_url_retries", &[INT]).default(&Int(5)),
                key("omnibus_version", &[STR]),
                key("pid_file", &[STR]).default(&Text("/var/run/chef/client.pid")),
                key("server_url", &[STR]),
                key("show_time", &[BOOL]).default(&Bool(true)),
                key("ssl_verify_mode", &[STR]).default(&Text(":verify_none")),
                key("validation_name", &[STR]),
                key("force_install", &[BOOL]).default(&Bool(false)),
                key("initial_attributes", &[ANY_MAP]).doc("Attributes of the first run."),
                key("install_type", &[word("packages"), word("gems"), word("omnibus")])
                    .default(&Text("packages")),
                key("run_list", &[list(&[STR])]),
                key("chef_license", &[word("accept"), word("accept-silent"), word("accept-no-persist")]),
            ])
            .min(1)],
        )
        .doc("Chef's client.")],
    ),
];

static PULL: Definition = Definition {
    name: "pull",
    types: &[map(&[
        key("accept_host_key", &[BOOL]).default(&Bool(false)),
        key("clean", &[BOOL]).default(&Bool(false)),
        key("full", &[BOOL]).default(&Bool(false)),
        key("diff", &[BOOL]).default(&Bool(false)),
        key("ssh_common_args", &[STR]),
        key("scp_extra_args", &[STR]),
        key("sftp_extra_args", &[STR]),
        key("private_key", &[STR]),
        key("checkout", &[STR]),
        key("module_path", &[STR]),
        key("timeout", &[STR]),
        key("url", &[STR]).required().doc("The repository."),
        key("connection", &[STR]),
        key("vault_id", &[STR]),
        key("vault_password_file", &[STR]),
        key("verify_commit", &[BOOL]).default(&Bool(false)),
        key("inventory", &[STR]),
        key("module_name", &[STR]),
        key("sleep", &[STR]),
        key("tags", &[STR]),
        key("skip_tags", &[STR]),
        key("playbook_name", &[STR])
            .deprecated(&Deprecation::new("25.2", "playbook_names"))
            .doc("One playbook."),
        key("playbook_names", &[list(&[STR])]).doc("The playbooks."),
    ])
    .needs(&Needs { keys: &["playbook_names", "playbook_name"], only_one: false })],
};
