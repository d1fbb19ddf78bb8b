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
fn method_and_name_of_the_package_have_defaults() {
    let sandbox = machine("{galaxy: {actions: [[ansible-galaxy, x]]}}", "2.16");
    sandbox.sys.remove("/usr/sbin/ansible").unwrap();
    let _ = sandbox.run(&MODULE);
    assert!(sandbox.calls().contains("dnf -y install ansible\n"), "{}", sandbox.calls());
}

#[test]
fn pip_is_the_package_of_the_distribution() {
    for (distro, manager, package) in
        [("arch", "pacman", "python-pip"), ("alpine", "apk", "py3-pip"), ("fedora", "dnf", "python3-pip")]
    {
        let sandbox = Sandbox::on(distro, "ansible: {install_method: pip, package_name: ansible}");
        sandbox.stub(manager, "");
        let _ = sandbox.run(&MODULE);
        let calls = sandbox.calls();
        assert!(calls.lines().any(|call| call.ends_with(&format!(" {package}"))), "{distro}: {calls}");
    }
}

#[test]
fn values_are_not_logged() {
    let sandbox = machine(
        "{galaxy: {actions: [[ansible-galaxy, x, --token, s3cret], [ansible-galaxy, --token=s3cret]]}, \
         pull: [{url: 'https://s3cret@git.example', vault_id: s3cret, playbook_names: [a]}], \
         setup_controller: {repositories: [{path: /srv/r, source: 'https://s3cret@git.example'}]}}",
        "2.16",
    );
    sandbox.run(&MODULE).unwrap();
    let commands = sandbox.commands().join("\n");
    assert!(!commands.contains("s3cret"), "{commands}");
    assert!(commands.contains("ansible-pull --url --vault-id a"), "{commands}");

    let package = "package_name: 'git+https://u:s3cret@git.example/x.git'";
    for user in ["", ", run_user: mia"] {
        let sandbox = machine(&format!("{{install_method: pip, {package}{user}}}"), "2.16");
        sandbox.stub("python3", "[ $3 != install ]");
        sandbox.stub("su", "case \"$4\" in *git+*) exit 1; esac");
        let error = sandbox.run(&MODULE).unwrap_err().to_string();
        let shown = error.clone() + &sandbox.commands().join("\n") + &sandbox.logged_warnings().join("\n");
        assert!(!shown.contains("s3cret") && error.contains("git+https://git.example/"), "{shown}");
        assert!(sandbox.calls().contains("u:s3cret@"), "{}", sandbox.calls());
    }
}
