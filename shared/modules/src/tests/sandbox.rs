//! Helpers of the modules' tests: a machine in a temporary directory and a context on it.

use std::time::Duration;

use config::settings::Layer;
use config::{Node, SourceMap};
use distro::Distro;
use scratch::TempDir;
use state::{Instance, Layout};
use system::{Result, System};

use crate::{Context, Module};

/// A machine for one test; its directory is removed at the end.
pub struct Sandbox {
    pub sys: System,
    pub layout: Layout,
    pub instance: Instance,
    pub distro: &'static Distro,
    pub config: Node,
    pub system_info: Node,
    pub layers: Vec<Layer>,
    pub args: Vec<Node>,
    pub script_timeout: Duration,
    pub is_repeat: bool,
    pub hotplug: crate::HotplugPolicy<'static>,
    pub top: TempDir,
}

/// Returns the value of a YAML text, with positions in `test.yaml`.
pub fn yaml(text: &str) -> Node {
    config::yaml::parse("test.yaml", text).unwrap().root
}

impl Sandbox {
    fn with(top: TempDir, sys: System, layout: Layout, config: &str) -> Sandbox {
        let instance = Instance {
            id: "i-test".into(),
            datasource: "NoCloud".into(),
            description: "DataSourceNoCloud [seed=/dev/vdb]".into(),
            ..Instance::default()
        };
        Sandbox {
            sys,
            layout,
            instance,
            distro: Distro::named("debian").unwrap(),
            config: yaml(config),
            system_info: Node::null(),
            layers: Vec::new(),
            args: Vec::new(),
            script_timeout: Duration::from_secs(20),
            is_repeat: false,
            hotplug: crate::HotplugPolicy::default(),
            top,
        }
    }

    /// Returns a machine with an empty root: programs would run chrooted in it, but it has none.
    pub fn new(config: &str) -> Sandbox {
        Sandbox::in_dir(TempDir::new(), config)
    }

    /// Returns the same kind of machine with this distribution.
    pub fn on(distro: &str, config: &str) -> Sandbox {
        Sandbox { distro: Distro::named(distro).unwrap(), ..Sandbox::new(config) }
    }

    /// Returns the same kind of machine with this directory as its root.
    pub fn in_dir(top: TempDir, config: &str) -> Sandbox {
        let sys = System::new(&top);
        Sandbox::with(top, sys, Layout::default(), config)
    }

    /// Returns the running machine with the state and runtime directories in a temporary directory: for scripts, which
    /// need a shell.
    pub fn live(config: &str) -> Sandbox {
        let top = TempDir::new();
        let at = |name: &str| top.join(name).to_string_lossy().into_owned();
        let layout = Layout::with_paths(Some(&at("cloud")), Some(&at("run")), Some(&at("templates")));
        Sandbox::with(top, System::new("/"), layout, config)
    }

    /// Adds a program to the machine: a shell script that first records its arguments and its standard input (which is
    /// `$all`) in /calls. The shell and its libraries are the host's.
    pub fn stub(&self, name: &str, body: &str) {
        let shell = self.top.join("bin/sh");
        if !shell.exists() {
            let copy = |path: &str| {
                let to = self.top.join(path.trim_start_matches('/'));
                std::fs::create_dir_all(to.parent().unwrap()).unwrap();
                std::fs::copy(path, to).unwrap();
            };
            copy("/bin/sh");
            let libraries = std::process::Command::new("ldd").arg("/bin/sh").output().unwrap();
            let libraries = String::from_utf8(libraries.stdout).unwrap();
            libraries.split_whitespace().filter(|word| word.starts_with('/')).for_each(copy);
        }
        let script = format!(
            "#!/bin/sh\necho \"${{0##*/}}${{*:+ $*}}\" >> /calls\nall=\nwhile IFS= read -r line; do\n\
             printf '< %s\\n' \"$line\" >> /calls; all=\"$all $line\"\ndone\n{body}\n"
        );
        self.sys.write(format!("/usr/sbin/{name}"), script, system::WriteOptions::mode(0o755)).unwrap();
    }

    /// Returns the recorded calls of the stubs.
    pub fn calls(&self) -> String {
        self.sys.read_text_if_exists("/calls").unwrap().unwrap_or_default()
    }

    pub fn run(&self, module: &Module) -> Result<()> {
        self.with_context(module.run)
    }

    pub fn with_context<T>(&self, work: impl FnOnce(&Context<'_>) -> T) -> T {
        work(&Context {
            sys: &self.sys,
            layout: &self.layout,
            instance: &self.instance,
            distro: self.distro,
            config: &self.config,
            source_map: &SourceMap::default(),
            system_info: &self.system_info,
            layers: &self.layers,
            args: &self.args,
            script_timeout: self.script_timeout,
            is_repeat: self.is_repeat,
            hotplug: self.hotplug,
        })
    }

    /// Returns the messages of level WARNING and above.
    pub fn logged_warnings(&self) -> Vec<String> {
        self.sys.log().logged_warnings().into_iter().map(|(_, text)| text).collect()
    }

    /// Returns a file of the machine as text and mode.
    pub fn file(&self, path: &str) -> (String, u32) {
        use std::os::unix::fs::PermissionsExt;
        let text = self.sys.read_text(path).unwrap();
        (text, self.sys.metadata(path).unwrap().permissions().mode() & 0o7777)
    }

    /// Returns the programs that were run, as they would be typed.
    pub fn commands(&self) -> Vec<String> {
        let effects = self.sys.effects().into_iter();
        effects
            .filter_map(|e| if let system::Effect::Run { command, .. } = e { Some(command) } else { None })
            .collect()
    }
}
