//! A machine in a directory, and what one boot does with its user-data and vendor-data.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use config::Node;
use config::yaml::Style;
use system::{Effect, System};
use userdata::{Consumed, Data, Dirs, Options, RawData, consume, store};

/// A machine's /var/lib/cloud in a temporary directory. The root is the real one, for the interpreters.
pub struct Machine {
    pub top: PathBuf,
    pub config: Node,
    pub launch_index: Option<i64>,
    pub first_boot: bool,
}

impl Machine {
    pub fn new(name: &str) -> Machine {
        let top = std::env::temp_dir().join(format!("userdata-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&top);
        let config =
            yaml("vendor_data: {enabled: true, prefix: []}\nvendor_data2: {enabled: true, prefix: []}");
        Machine { top, config, launch_index: None, first_boot: true }
    }

    pub fn path(&self, name: &str) -> String {
        self.top.join(name).display().to_string()
    }

    pub fn dirs(&self) -> Dirs {
        let top = self.top.display();
        Dirs { cloud: format!("{top}"), instance: format!("{top}/instance"), ..Dirs::default() }
    }

    pub fn boot(&self, user: &str, vendor: &str, vendor2: &str) -> Boot {
        fn data(text: &str) -> Data<'_> {
            if text.is_empty() { Data::Nothing } else { Data::Bytes(text.as_bytes()) }
        }
        let sys = System::new("/");
        let (user, vendor, vendor2) = (data(user), data(vendor), data(vendor2));
        let raw = RawData { user, vendor, vendor2, ..RawData::default() };
        let stored = store(&sys, &self.dirs(), &raw);
        let options = Options {
            config: &self.config,
            instance_id: "i-42",
            launch_index: self.launch_index,
            first_boot: self.first_boot,
            event: "init-network",
            instance_data: &self.path("instance-data.json"),
        };
        let consumed = consume(&sys, &self.dirs(), &stored, &options);
        let failed = consumed.failed.join("; ");
        let result = if failed.is_empty() { Ok(consumed) } else { Err(failed) };
        // The known content of a file equals the result of reading it.
        for known in result.iter().flat_map(|consumed| &consumed.parsed_files) {
            let again = config::yaml::parse(&known.path, &known.text).unwrap().root;
            let told = |node: &Node| {
                let unsorted = Style { sorted: false, ..Style::DOCUMENT };
                (config::source_map::positions(node), config::yaml::emit(node, unsorted), node.at.clone())
            };
            assert_eq!(told(&known.parsed.root), told(&again), "{}", known.path);
        }
        let written = sys.effects().into_iter().filter_map(|effect| match effect {
            Effect::Write { path, .. } => {
                Some(path.rsplit_once("/instance/").map_or(path.clone(), |(_, p)| p.into()))
            }
            _ => None,
        });
        let place = format!("{}/", self.top.display());
        let warnings =
            sys.log().logged_warnings().into_iter().map(|(_, text)| text.replace(&place, "")).collect();
        Boot { result, warnings, written: written.collect() }
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.top.join(path)).unwrap_or_else(|_| "(none)".to_string())
    }

    pub fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.top.join(path)).map_or(0, |m| m.mode() & 0o7777)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.top);
    }
}

pub struct Boot {
    pub result: Result<Consumed, String>,
    /// Returns the log's warnings and errors without the name of the temporary directory.
    pub warnings: Vec<String>,
    /// Returns the new or changed files below the instance.
    pub written: Vec<String>,
}

pub fn yaml(text: &str) -> Node {
    config::yaml::parse("test", text).unwrap().root
}

pub fn multipart(parts: &[(&str, &str)]) -> String {
    let parts: String = parts.iter().map(|(headers, body)| format!("--B\n{headers}\n\n{body}\n")).collect();
    format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n{parts}--B--\n")
}

pub const INSTANCE_DATA: &str =
    r#"{"v1": {"region": "eu-1", "local-hostname": "web"}, "ds": {"meta_data": {"n-a": 3}}}"#;
