//! docs/how-to/launch.md: the page's commands, run to the letter by the programs of the platforms as Debian packages them.

use serde_json::Value as Json;
use tests::{Machine, Page, fail, script_with, tests_dir};

/// Returns the page's commands for a test: those of the blocks with `launch=NAME`.
fn commands(name: &str) -> String {
    let blocks = Page::read("docs/how-to/launch.md").blocks();
    let text: String = blocks.iter().filter(|b| b.value("launch") == Some(name)).map(|b| &*b.text).collect();
    assert!(!text.is_empty(), "docs/how-to/launch.md: no block with launch={name}");
    text
}

/// Returns a file that the page shows.
fn file(name: &str) -> String {
    let blocks = Page::read("docs/how-to/launch.md").blocks();
    let block = blocks.into_iter().find(|block| block.file() == Some(name));
    block.unwrap_or_else(|| fail(&format!("docs/how-to/launch.md: no file {name}"))).text
}

/// Creates a machine of Debian sid with these packages, and the page's files in /srv/page.
fn machine(name: &str, packages: &str) -> Machine {
    let machine = Machine::from_root(name, &script_with(&[("ROOT_BASE", packages)], "root", &["sid"]));
    for name in ["user-data", "meta-data"] {
        machine.write(&format!("/srv/page/{name}"), &file(name));
    }
    machine.write("/srv/page/image.raw", &"image".repeat(1000));
    machine
}

fn base64(text: &str) -> String {
    let bytes = encoding::base64::decode(text.trim().as_bytes());
    String::from_utf8_lossy(&bytes.unwrap_or_else(|| fail(&format!("expected base64: {text}")))).into_owned()
}

/// Packages with the clients of clouds, and with a counterpart of EC2's API.
const CLIENTS: &str = "awscli hcloud-cli python3-flask-cors python3-moto python3-openstackclient";

/// The accounts of the clients; `lib/cloud-apis` serves all but EC2.
const ACCOUNTS: &str = r#"
export AWS_ENDPOINT_URL=http://127.0.0.1:5000 AWS_DEFAULT_REGION=us-east-1 AWS_ACCESS_KEY_ID=k AWS_SECRET_ACCESS_KEY=s
export OS_AUTH_URL=http://127.0.0.1/identity/v3 OS_USERNAME=olga OS_PASSWORD=p OS_PROJECT_NAME=web
export OS_USER_DOMAIN_ID=default OS_PROJECT_DOMAIN_ID=default
export HCLOUD_ENDPOINT=http://127.0.0.1/hetzner HCLOUD_TOKEN=t
export HOME=/root LC_ALL=C.UTF-8
cd /srv/page
moto_server --port 5000 >/srv/moto 2>&1 &
trap 'kill $!' EXIT
for port in 80 5000; do
  for _ in $(seq 600); do (: </dev/tcp/127.0.0.1/$port) 2>/dev/null && break; sleep 0.1; done
done
aws ec2 create-key-pair --key-name olga
"#;
/// What EC2's counterpart has after the page's commands.
const INSTANCE: &str = r#"
instance=$(aws ec2 describe-instances --query 'Reservations[0].Instances[0].InstanceId' --output text)
aws ec2 describe-instance-attribute --instance-id "$instance" --attribute userData --query UserData.Value --output text >/srv/ec2
"#;

#[test]
#[ignore = "a root with the clients of clouds: make slow"]
fn clients_of_clouds_send_the_pages_user_data() {
    let machine = machine("clients-of-clouds", CLIENTS);
    let server = tests_dir().join("lib/cloud-apis");
    machine.serve_beside(&format!("exec \"{}\" \"$1/srv\"", server.display()));
    let script = [ACCOUNTS, &commands("clients"), INSTANCE].concat();
    let output = machine.run(&["bash", "-exc", &script]);
    let read = |name: &str| std::fs::read_to_string(machine.scratch("upper/srv").join(name)).unwrap_or_default();
    let requests: Vec<Json> =
        read("requests").lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let body = |path: &str| {
        let found = requests.iter().find(|r| r["method"] == "POST" && r["path"] == path);
        let text = found.and_then(|request| request["body"].as_str()).unwrap_or_default();
        serde_json::from_str::<Json>(text).unwrap_or_else(|e| fail(&format!("{path}: {e}: {text}\n{output}")))
    };
    let user_data = file("user-data");
    assert_eq!(base64(&read("ec2")), user_data);
    let server = body("/compute/v2.1/servers");
    assert_eq!(base64(server["server"]["user_data"].as_str().unwrap_or_default()), user_data, "{server}");
    assert_eq!(body("/hetzner/servers")["user_data"], user_data.as_str());
}
