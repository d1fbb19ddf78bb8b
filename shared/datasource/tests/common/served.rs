//! Clouds with a metadata service, on loopback: a server with the answers of their fixtures (`tests/clouds`), which a test
//! can replace. Shared by `bad_fields.rs` and the fuzz target `metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use datasource::{Machine, Nic, Nics, Search, Stage, datasource};
use serde_json::Value;
use state::{Instance, Layout};
use system::{Result, System, WriteOptions};

/// A fixture, and the datasource setting that directs requests to the loopback server. `{}` is its address, `{port}` its port.
pub struct Case {
    pub name: String,
    pub directory: PathBuf,
    pub datasource: String,
    pub setting: String,
}

/// Returns the fixtures below `clouds` that can be served on loopback (`loopback` in the file `case`), by name.
pub fn cases(clouds: &str) -> Vec<Case> {
    let folders = std::fs::read_dir(clouds).expect("the directory exists").flatten();
    let mut cases: Vec<Case> = folders
        .filter_map(|folder| {
            let directory = folder.path();
            let text = std::fs::read_to_string(directory.join("case")).ok()?;
            let setting = text.lines().find_map(|line| line.strip_prefix("loopback: "))?.to_string();
            let datasource = std::fs::read_to_string(directory.join("datasource")).ok()?.trim().to_string();
            Some(Case {
                name: folder.file_name().to_string_lossy().into_owned(),
                directory,
                datasource,
                setting,
            })
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(cases.len() > 15, "{clouds} has only {} fixtures for loopback", cases.len());
    cases
}

/// The answers of a server by path: documents, or text.
pub type Answers = BTreeMap<String, Value>;

/// The path of Exoscale's password server.
pub const PASSWORD: &str = "/1.0/password";

/// A server on loopback. It ends with the process.
pub struct Server {
    base: String,
    answers: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    requested: Arc<Mutex<BTreeSet<String>>>,
}

impl Server {
    pub fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let base = format!("http://{}", listener.local_addr().expect("it is bound"));
        let answers: Arc<Mutex<BTreeMap<String, Vec<u8>>>> = Arc::default();
        let requested: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let (served, asked) = (answers.clone(), requested.clone());
        std::thread::spawn(move || {
            for peer in listener.incoming().flatten() {
                let (served, asked) = (served.clone(), asked.clone());
                std::thread::spawn(move || serve(&peer, &served, &asked));
            }
        });
        Server { base, answers, requested }
    }

    /// Replaces all answers.
    pub fn set(&self, answers: BTreeMap<String, Vec<u8>>) {
        *self.answers.lock().expect("no thread panics while it holds the lock") = answers;
    }

    /// Returns the paths of the answers that were served so far.
    #[allow(dead_code, reason = "not every includer calls it")]
    pub fn requested(&self) -> BTreeSet<String> {
        self.requested.lock().expect("no thread panics while it holds the lock").clone()
    }
}

/// Serves the requests of a connection until the client closes it.
fn serve(
    mut peer: &TcpStream,
    answers: &Mutex<BTreeMap<String, Vec<u8>>>,
    requested: &Mutex<BTreeSet<String>>,
) {
    let _ = (peer.set_read_timeout(Some(Duration::from_secs(5))), peer.set_nodelay(true));
    let mut reader = BufReader::new(peer);
    while let Some(head) = read_head(&mut reader) {
        let mut words = head.lines().next().unwrap_or_default().split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let for_password = head.to_lowercase().contains("\ndomu_request:");
        let path = if for_password { PASSWORD } else { target.split('?').next().unwrap_or_default() };
        let body = match method {
            "PUT" => Some(b"token".to_vec()),
            _ => {
                let answers = answers.lock().expect("no thread panics while it holds the lock");
                let found = answers.get_key_value(target).filter(|_| !for_password);
                let found = found.or_else(|| answers.get_key_value(path));
                if let Some((path, _)) = found {
                    requested.lock().expect("no thread panics while it holds the lock").insert(path.clone());
                }
                found.map(|(_, body)| body.clone())
            }
        };
        let status = if body.is_some() { 200 } else { 404 };
        let body = body.unwrap_or_default();
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n", body.len());
        if peer.write_all(&[head.as_bytes(), &body].concat()).is_err() {
            return;
        }
    }
}

/// Reads a request; returns its head, or `None` at the end of the connection.
fn read_head(reader: &mut BufReader<&TcpStream>) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let length = fields.rfind(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.map_or(0, |(_, number)| number.trim().parse().unwrap_or_default());
    reader.read_exact(&mut vec![0; length]).ok()?;
    Some(head)
}

/// Returns the bytes of answers.
pub fn bodies(answers: &Answers) -> BTreeMap<String, Vec<u8>> {
    answers.iter().map(|(path, value)| (path.clone(), body(value))).collect()
}

fn body(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.clone().into_bytes(),
        document => document.to_string().into_bytes(),
    }
}

/// Returns the answers of a fixture. Text that is a YAML or JSON document is parsed.
pub fn answers(case: &Case) -> Answers {
    let text = std::fs::read(case.directory.join("server.json")).expect("the fixture has a server");
    let server: Value = serde_json::from_slice(&text).expect("the server is JSON");
    let mut answers = Answers::new();
    for (path, value) in server["paths"].as_object().into_iter().flatten() {
        let document = value.as_str().filter(|text| !text.starts_with('#')).and_then(|text| {
            let parsed = config::yaml::parse("fixture", text).ok()?.root.to_json();
            Some(parsed).filter(|parsed| parsed.is_object() || parsed.is_array())
        });
        answers.insert(path.clone(), document.unwrap_or_else(|| value.clone()));
    }
    if let Some(version) = server["versions"].get(0).and_then(Value::as_str) {
        add_tree(&mut answers, &format!("/{version}"), &server["tree"]);
    }
    answers
}

/// Adds a tree as `tests/lib/imds` serves it.
fn add_tree(answers: &mut Answers, path: &str, value: &Value) {
    let Value::Object(entries) = value else {
        answers.insert(path.into(), value.clone());
        return;
    };
    if let Some(document) = entries.get("json") {
        answers.insert(path.into(), document.clone());
        return;
    }
    let mut listing = Vec::new();
    for (name, value) in entries {
        let is_directory = value.is_object() && value.get("json").is_none();
        listing.push(if is_directory { format!("{name}/") } else { name.clone() });
        match name.split_once('=') {
            Some((number, _)) => add_tree(answers, &format!("{path}/{number}/openssh-key"), value),
            None => add_tree(answers, &format!("{path}/{}", name.replace(' ', "%20")), value),
        }
    }
    answers.insert(format!("{path}/"), listing.join("\n").into());
}

/// A machine with one NIC, which the fixtures describe.
pub struct OneNic;

impl Machine for OneNic {
    fn nics(&self) -> Nics {
        let nic = Nic { name: "eth0".into(), mac: "02:00:00:00:0a:01".into(), driver: None };
        Nics { candidates: vec![nic.clone()], configurable: vec![nic], ..Nics::default() }
    }

    fn wait_for_devices(&self) {}
}

/// Creates the fixture's machine below `top`, and searches for the instance there. Messages go to the machine's log.
pub fn find(top: &Path, case: &Case, server: &Server) -> (System, Result<Option<Instance>>) {
    let sys = System::new(top);
    let files = std::fs::read_dir(case.directory.join("dmi")).expect("the fixture has firmware").flatten();
    for file in files {
        let text = std::fs::read(file.path()).expect("it is readable");
        let path = format!("/sys/class/dmi/id/{}", file.file_name().to_string_lossy());
        sys.write(&path, text, WriteOptions::default()).expect("the directory is writable");
    }
    copy_files(&sys, &case.directory.join("files"), "", server);
    let port = server.base.rsplit(':').next().unwrap_or_default();
    let name = case.datasource.as_str();
    let setting = case.setting.replace("{}", &server.base).replace("{port}", port);
    let text = format!(
        "datasource_list: [{name}]\ndatasource: {{{name}: {{{setting}, max_wait: 2, timeout: 2, retries: 0}}}}\n"
    );
    let config = config::yaml::parse("test.cfg", &text).expect("the settings are YAML").root;
    let search = Search {
        sys: &sys,
        layout: &Layout::default(),
        config: &config,
        command_line: "",
        stage: Stage::Network,
        machine: &OneNic,
        has_cached_instance: false,
    };
    let row = datasource(name).expect("the table has it");
    let found = (row.find)(&search);
    (sys, found)
}

/// Copies the fixture's files to the machine, with the server's address in the place of the cloud's.
fn copy_files(sys: &System, from: &Path, to: &str, server: &Server) {
    for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
        let path = format!("{to}/{}", entry.file_name().to_string_lossy());
        match std::fs::read_to_string(entry.path()) {
            Ok(text) => {
                let text = text.replace("http://10.0.0.1", &server.base);
                sys.write(&path, text, WriteOptions::default()).expect("the directory is writable");
            }
            Err(_) => copy_files(sys, &entry.path(), &path, server),
        }
    }
}
