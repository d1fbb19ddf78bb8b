//! mcollective: installs mcollective, writes certificates and settings of its server, and restarts it.

use config::schema::{BOOL, INT, STR, Type, key, map};
use config::{FromNode, Node, Reader, Value, entry_name};
use system::{Command, OutputMode, Result, WriteOptions};

use crate::packages::package_sources;
use crate::services::activation::{Activation, is_changed};
use crate::values::config_obj;
use crate::values::text_values::Line;
use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module::if_set::<Keys>("mcollective", Frequency::Instance, run).repeatable();

const SERVER: &str = "/etc/mcollective/server.cfg";
const PUBLIC: &str = "/etc/mcollective/ssl/server-public.pem";
const PRIVATE: &str = "/etc/mcollective/ssl/server-private.pem";

config::keys! {
    pub struct Mcollective {
        /// Settings of server.cfg (a map is a section), and the server's certificate.
        conf: Option<Conf>;
    }
    pub struct Keys {
        /// Install and configure mcollective.
        mcollective: Option<Mcollective>;
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Conf {
    public: Option<String>,
    private: Option<String>,
    settings: Vec<config_obj::Setting>,
}

impl FromNode for Conf {
    const SCHEMA: &'static [Type] = &[map(&[
        key("public-cert", &[STR]).doc("The server's certificate (PEM)."),
        key("private-cert", &[STR]).doc("The server's private key (PEM)."),
    ])
    .additional(&key("<name>", &[BOOL, INT, STR]).doc("Any other setting of server.cfg."))];

    fn read(node: &Node, reader: &mut Reader) -> Option<Conf> {
        let map = reader.map(node, "a map of settings")?;
        let mut conf = Conf::default();
        reader.entries(map.iter(), |name, key, value, reader| match name {
            "public-cert" => {
                conf.public = String::read(value, reader);
                conf.use_certificate("public", PUBLIC, conf.public.is_some());
            }
            "private-cert" => {
                conf.private = String::read(value, reader);
                conf.use_certificate("private", PRIVATE, conf.private.is_some());
            }
            _ => conf.read_setting(key, value, reader),
        });
        Some(conf)
    }
}

impl Conf {
    /// Adds the settings for a certificate that is set.
    fn use_certificate(&mut self, kind: &str, path: &str, is_set: bool) {
        if is_set {
            self.settings.push((None, format!("plugin.ssl_server_{kind}"), path.into()));
            self.settings.push((None, "securityprovider".into(), "ssl".into()));
        }
    }

    fn read_setting(&mut self, key: &Node, value: &Node, reader: &mut Reader) {
        let Some(name) = read_name(key, reader) else { return };
        let Value::Map(section) = &value.value else {
            self.settings.extend(Line::read(value, reader).map(|text| (None, name, text.0)));
            return;
        };
        for (key, value) in section.iter() {
            reader.nested(&entry_name(key, value), |reader| {
                let Some(below) = read_name(key, reader) else { return };
                let text = Line::read(value, reader);
                self.settings.extend(text.map(|text| (Some(name.clone()), below, text.0)));
            });
        }
    }
}

fn read_name(node: &Node, reader: &mut Reader) -> Option<String> {
    let name = Line::read(node, reader)?.0;
    if name.is_empty() || name.contains(['=', '[', ']', '#', '\'', '"']) {
        return reader.type_error(node, "the name of a setting");
    }
    Some(name)
}

fn run(context: &Context<'_>) -> Result<()> {
    let Some(wanted) = context.valid_key(|k: Keys| k.mcollective)? else { return Ok(()) };
    let sys = context.sys;
    package_sources::install_names(context, &["mcollective".into()])?;
    let activation = Activation::begin(context, "mcollective", &[]);
    let mut changed = false;
    if let Some(conf) = wanted.conf {
        let before = sys.read_text_if_exists(SERVER)?;
        for (text, path, mode) in [(&conf.public, PUBLIC, 0o644), (&conf.private, PRIVATE, 0o600)] {
            if let Some(text) = text {
                changed |= is_changed(sys.write(path, text, WriteOptions::mode(mode))?);
            }
        }
        let text = config_obj::set(before.as_deref().unwrap_or_default(), &conf.settings);
        // An unchanged file must not replace the copy of the original one.
        if before.as_ref() != Some(&text) {
            if let Some(before) = before {
                let mode = sys.mode(SERVER).unwrap_or(0o644);
                sys.write(format!("{SERVER}.old"), before, WriteOptions::mode(mode))?;
            }
            sys.write(SERVER, text, WriteOptions::default())?;
            changed = true;
        }
    }
    activation.finish(changed, || {
        let restart = Command::new(["service", "mcollective", "restart"]);
        sys.run(&restart.output(OutputMode::Inherit)).map(|_| true)
    })
}
