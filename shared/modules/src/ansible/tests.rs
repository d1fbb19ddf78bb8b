//! Recorded calls of Ansible.

use super::MODULE;
use crate::tests::sandbox::Sandbox;

/// Creates a sandbox whose ansible-pull reports `version`.
fn machine(config: &str, version: &str) -> Sandbox {
    let sandbox = Sandbox::on("rocky", &format!("ansible: {config}"));
    for program in ["ansible", "ansible-galaxy", "ansible-playbook", "git", "dnf"] {
        sandbox.stub(program, "");
    }
    sandbox.stub("ansible-pull", &format!("[ \"$1\" != --version ] || echo 'ansible-pull {version}'"));
    sandbox.sys.create_dir_all("/srv/plays", 0o755).unwrap();
    sandbox
}

#[test]
fn old_versions_pull_one_playbook_at_a_time() {
    for (version, diff, calls) in [
        ("2.11.0", "true", Some("--url=u --diff a\nansible-pull --url=u --diff b\n")),
        ("2.12.0", "true", Some("--url=u --diff a b\n")),
        ("[core 2.12]", "false", Some("--url=u a b\n")),
        ("2.6.9", "false", Some("--url=u a\nansible-pull --url=u b\n")),
        ("2.6.9", "true", None),
        ("unknown", "true", Some("--url=u --diff a\nansible-pull --url=u --diff b\n")),
    ] {
        let config = format!("{{pull: [{{url: u, diff: {diff}, playbook_names: [a, b]}}]}}");
        let sandbox = machine(&config, version);
        assert_eq!(sandbox.run(&MODULE).is_ok(), calls.is_some(), "{version}");
        let pulled = calls.map_or(String::new(), |calls| format!("ansible-pull {calls}"));
        assert_eq!(sandbox.calls(), format!("ansible-pull --version\n{pulled}"), "{version}");
    }
}

/// Stand-in for python3; `pip list` shows ansible-core once /installed exists.
const PYTHON: &str = "case \"$*\" in\n*getuserbase*) echo /home/ann/.local ;;\n*stdlib*) echo /usr/lib/python3 ;;\n\
     *'pip list'*) ! [ -e /installed ] || echo ansible-core ;;\n*upgrade*) exit 1 ;;\n*'pip install'*) : > /installed ;;\nesac";

#[test]
fn installs_with_pip_for_a_user() {
    let sandbox = machine(
        "{install_method: pip, package_name: ansible-core, run_user: ann, ansible_config: '/a b', \
         galaxy: {actions: [[ansible-galaxy, x, \"it's\"]]}}",
        "2.16",
    );
    sandbox.stub("python3", PYTHON);
    sandbox.stub("su", "exec /bin/sh -c \"$4\"");
    sandbox.stub(
        "env",
        "while :; do case $1 in *=*) export \"$1\"; shift ;; *) break ;; esac; done\nexec \"$@\"",
    );
    sandbox.sys.write("/usr/lib/python3/EXTERNALLY-MANAGED", "", system::WriteOptions::default()).unwrap();
    sandbox.run(&MODULE).unwrap();
    let lines: Vec<String> = sandbox
        .calls()
        .lines()
        .filter(|line| !line.starts_with("su ") && !line.starts_with("env "))
        .map(Into::into)
        .collect();
    assert_eq!(
        lines,
        [
            "python3 -c import pip",
            "python3 -c import site; print(site.getuserbase())",
            "python3 -m pip list --user",
            "python3 -c import sysconfig; print(sysconfig.get_path('stdlib'))",
            "python3 -m pip install --break-system-packages --user --upgrade pip",
            "python3 -m pip install --break-system-packages --user ansible-core",
            "python3 -m pip list --user",
            "ansible-galaxy x it's",
        ]
    );
    let last = sandbox.calls().lines().rfind(|line| line.starts_with("su ")).unwrap().to_string();
    assert_eq!(
        last,
        "su - ann -c env PATH=\"$PATH\":/home/ann/.local/bin ANSIBLE_CONFIG='/a b' ansible-galaxy x 'it'\"'\"'s'"
    );
    assert_eq!(sandbox.logged_warnings().len(), 1, "{:?}", sandbox.logged_warnings());
}

#[test]
fn values_are_not_logged() {
    let sandbox = machine(
        "{galaxy: {actions: [[ansible-galaxy, x, --token, s3cret]]}, \
         pull: [{url: 'https://s3cret@git.example', vault_id: s3cret, playbook_names: [a]}], \
         setup_controller: {repositories: [{path: /srv/r, source: 'https://s3cret@git.example'}]}}",
        "2.16",
    );
    sandbox.run(&MODULE).unwrap();
    let commands = sandbox.commands().join("\n");
    assert!(!commands.contains("s3cret"), "{commands}");
    assert!(commands.contains("ansible-pull --url --vault-id a"), "{commands}");
}
