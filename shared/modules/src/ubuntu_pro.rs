//! ubuntu_pro: attaches the machine to Ubuntu Pro through the program `pro`: automatically where the cloud's image
//! entitles to it, otherwise with the user's token.

use config::schema::DefaultValue::Bool;
use config::schema::{BOOL, Format, NULL, STR, Type, key, map};
use config::{FromNode, Node, Reader, join_key};
use serde_json::{Value, json};
use system::{Command, Error, Result, debug, error, warning};

use crate::packages::package_sources;
use crate::values::text_values::Hidden;
use crate::{Context, Frequency, Module, last_failure};

pub const MODULE: Module = Module {
    former_names: &[("ubuntu_advantage", "24.1")],
    ..Module::if_set::<Keys>("ubuntu_pro", Frequency::Instance, run).repeatable().on(&["ubuntu"])
};

/// The key and its former names.
const NAMES: [&str; 3] = ["ubuntu_pro", "ubuntu_advantage", "ubuntu-advantage"];
/// Attaching and enabling install packages.
// Wait: ubuntu_pro | each command of pro | -
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(3600);
const PROXIES: [&str; 6] = [
    "http_proxy",
    "https_proxy",
    "global_apt_http_proxy",
    "global_apt_https_proxy",
    "ua_apt_http_proxy",
    "ua_apt_https_proxy",
];

config::keys! {
    pub struct Pro as "pro" {
        /// Services to enable.
        enable: Vec<String>;
        /// Beta services to enable after automatic attachment.
        enable_beta: Vec<String>;
        /// The contract token.
        token: Token;
        /// Features of this module.
        features: Option<Features>;
        /// Settings of the client; null unsets one.
        config: Option<Settings>;
    }
    pub struct Keys {
        /// Attach to Ubuntu Pro.
        ubuntu_pro: Option<Pro>, also "ubuntu_advantage" since "24.1", also "ubuntu-advantage";
    }
}

/// `features`.
#[derive(Debug, Clone)]
struct Features {
    disable_auto_attach: bool,
}

impl FromNode for Features {
    const SCHEMA: &'static [Type] = &[map(&[key("disable_auto_attach", &[BOOL])
        .default(&Bool(false))
        .doc("Use the token even if automatic attachment is available.")])];
    fn read(node: &Node, reader: &mut Reader) -> Option<Features> {
        let Some(map) = node.as_map() else { return reader.type_error(node, "a map") };
        let Some(value) = map.get("disable_auto_attach") else {
            return Some(Features { disable_auto_attach: false });
        };
        let disable_auto_attach = reader.nested("disable_auto_attach", |r| bool::read(value, r))?;
        Some(Features { disable_auto_attach })
    }
}

/// The token, which is never shown.
type Token = Hidden<Option<String>>;

impl FromNode for Token {
    const SCHEMA: &'static [Type] = &[STR];
    const ABSENT: Option<fn() -> Self> = Some(|| Hidden(None));
    fn read(node: &Node, reader: &mut Reader) -> Option<Token> {
        let text = String::read(node, reader)?;
        if text.starts_with('-') || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return reader.type_error(node, "a token");
        }
        Some(Hidden(Some(text).filter(|t| !t.is_empty())))
    }
}

/// Returns the settings sorted by name. URLs may contain passwords.
type Settings = Hidden<Vec<(String, Option<String>)>>;

impl FromNode for Settings {
    const SCHEMA: &'static [Type] = &[map(&[
        key(PROXIES[0], &[STR.format(Format::Uri), NULL]).doc("The URL of the HTTP proxy."),
        key(PROXIES[1], &[STR.format(Format::Uri), NULL]).doc("The URL of the HTTPS proxy."),
        key(PROXIES[2], &[STR.format(Format::Uri), NULL]).doc("apt's HTTP proxy for all repositories."),
        key(PROXIES[3], &[STR.format(Format::Uri), NULL]).doc("apt's HTTPS proxy for all repositories."),
        key(PROXIES[4], &[STR.format(Format::Uri), NULL])
            .doc("apt's HTTP proxy for Ubuntu Pro repositories."),
        key(PROXIES[5], &[STR.format(Format::Uri), NULL])
            .doc("apt's HTTPS proxy for Ubuntu Pro repositories."),
    ])
    .open()];
    fn read(node: &Node, reader: &mut Reader) -> Option<Settings> {
        let map = reader.map(node, "a map of settings")?;
        let settings = reader.entries(map.iter(), |name, key, value, reader| {
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
                return reader.type_error(key, "the name of a setting");
            }
            let text = value.as_str().unwrap_or_default();
            let is_url = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme))
                && !text.contains(|c: char| c.is_whitespace() || c.is_control());
            let is_text = !PROXIES.contains(&name) && !text.is_empty() && !text.contains(char::is_control);
            if !(value.is_null() || is_url || is_text) {
                return reader.type_error(value, "a URL (http or https)");
            }
            Some((name.to_string(), value.as_str().map(String::from)))
        });
        let mut settings: Vec<_> = settings.into_iter().flatten().collect();
        sort::sort(&mut settings);
        Some(Hidden(settings))
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let names = NAMES;
    let is_set = |name: &str| context.config.get(name).is_some_and(|n| !n.is_null());
    if !is_set(names[0]) && is_set(names[1]) && is_set(names[2]) {
        let names = names[1..].join(" and ");
        return Err(Error::new(format!("{names} are both set; use ubuntu_pro; module skipped")));
    }
    let Some(pro) = context.fully_valid_key(|k: Keys| k.ubuntu_pro)? else { return Ok(()) };
    let settings = pro.config.clone().unwrap_or_default();
    for (name, _) in settings.0.iter().filter(|(name, _)| !PROXIES.contains(&name.as_str())) {
        warning!(
            sys,
            "{}: unknown setting; passed to the client as it is",
            join_key("ubuntu_pro.config", name)
        );
    }
    for name in names[1..].iter().filter(|name| is_set(names[0]) && is_set(name)) {
        warning!(sys, "Ignoring deprecated key {name} and preferring ubuntu_pro config");
    }
    if !pro.enable.iter().chain(&pro.enable_beta).all(|name| is_service(name)) {
        return Err(Error::new("ubuntu_pro.enable: expected names of services, found another string"));
    }
    if sys.which("pro").is_none() {
        package_sources::install_names(context, &["ubuntu-advantage-tools".into()])?;
    }
    apply_settings(context, &settings)?;
    let is_disabled = pro.features.as_ref().is_some_and(|f| f.disable_auto_attach);
    if !is_disabled && should_auto_attach(context) {
        return auto_attach(context, &pro);
    }
    let section = names.iter().filter_map(|name| context.config.get(name)?.as_map()).next();
    // `features` alone configures Ubuntu Pro's own service.
    let wants_attach = section
        .is_some_and(|map| map.iter().any(|(key, _)| key.as_str().is_some_and(|key| key != "features")));
    if wants_attach { attach(context, &pro) } else { Ok(()) }
}

/// Returns whether a string can be the name of a service, and cannot be an option.
fn is_service(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('-')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

fn apply_settings(context: &Context<'_>, settings: &Settings) -> Result<()> {
    let sys = context.sys;
    let mut failed = Vec::new();
    for (name, value) in &settings.0 {
        let command = match value {
            Some(value) => Command::new(["pro", "config", "set"]).secret(&format!("{name}="), value),
            None => Command::new(["pro", "config", "unset", name]),
        };
        failed.extend(sys.run(&command).err().inspect(|e| warning!(sys, "ubuntu_pro.config.{name}: {e}")));
    }
    last_failure(failed)
}

/// Calls a function of the client's API and returns its answer.
fn call(context: &Context<'_>, function: &str, data: Option<Value>) -> Result<Value> {
    let name = format!("u.pro.attach.auto.{function}.v1");
    let mut command = Command::new(["pro", "api", &name]).timeout(TIMEOUT).accept_all();
    if let Some(data) = data {
        command = command.arg("--data").arg(data.to_string());
    }
    let output = context.sys.run(&command)?;
    config::json::value(&output.stdout)
        .map_err(|e| Error::new(format!("pro api {name}: exit code {}, invalid answer: {e}", output.code)))
}

/// Returns the title and the code of the first error of an answer.
fn first_error(answer: &Value) -> (String, String) {
    let text = |name: &str| answer["errors"][0][name].as_str().unwrap_or_default().to_string();
    (text("title"), text("code"))
}

/// Returns whether the client reports that this machine can be attached without a token.
fn should_auto_attach(context: &Context<'_>) -> bool {
    let sys = context.sys;
    if sys.is_dry_run() {
        return false;
    }
    let failure = match call(context, "should_auto_attach", None) {
        Ok(answer) => match answer["data"]["attributes"]["should_auto_attach"].as_bool() {
            Some(answer) => return answer,
            None => first_error(&answer).0,
        },
        Err(e) => e.to_string(),
    };
    debug!(sys, "should_auto_attach: {failure}");
    warning!(sys, "Unable to determine if this is an Ubuntu Pro instance. Fallback to normal Pro attach.");
    false
}

fn auto_attach(context: &Context<'_>, pro: &Pro) -> Result<()> {
    let list = |services: &[String]| if services.is_empty() { Value::Null } else { json!(services) };
    let mut data = json!({"enable": list(&pro.enable), "enable_beta": list(&pro.enable_beta)});
    if let Some(map) = data.as_object_mut() {
        map.retain(|_, services| !services.is_null());
    }
    let answer = call(context, "full_auto_attach", Some(data))?;
    if answer["result"] == "success" {
        return Ok(());
    }
    match first_error(&answer) {
        (_, code) if code == "already-attached" => {
            if !pro.enable.is_empty() || !pro.enable_beta.is_empty() {
                warning!(
                    context.sys,
                    "The instance is already attached to Pro; ubuntu_pro.enable and ubuntu_pro.enable_beta are ignored"
                );
            }
            Ok(())
        }
        (title, _) => Err(Error::new(format!("full_auto_attach of Ubuntu Pro failed: {title}"))),
    }
}

fn attach(context: &Context<'_>, pro: &Pro) -> Result<()> {
    let sys = context.sys;
    let Some(token) = &pro.token.0 else {
        error!(sys, "`ubuntu_pro.token` required in non-Pro Ubuntu instances.");
        return Err(Error::new("ubuntu_pro.token is required on this machine"));
    };
    if !pro.enable_beta.is_empty() {
        debug!(sys, "ubuntu_pro.enable_beta is ignored: {}", pro.enable_beta.join(", "));
    }
    let options: &[&str] = if pro.enable.is_empty() { &[] } else { &["--no-auto-enable"] };
    // Not an argument, which all users can read.
    let words = [&["pro", "attach"], options, &["--attach-config", "/dev/stdin"]].concat();
    // 2: already attached.
    let command = Command::new(words).stdin_file(format!("{}\n", json!({"token": token})));
    sys.run(&command.timeout(TIMEOUT).accept(&[0, 2]))?;
    if pro.enable.is_empty() { Ok(()) } else { enable(context, &pro.enable) }
}

fn enable(context: &Context<'_>, services: &[String]) -> Result<()> {
    let sys = context.sys;
    let words = ["pro", "enable", "--assume-yes", "--format", "json"];
    let command = Command::new(words.into_iter().chain(services.iter().map(String::as_str)));
    let output = sys.run(&command.timeout(TIMEOUT).accept(&[0, 1]))?;
    if sys.is_dry_run() {
        return Ok(());
    }
    let answer = config::json::value(&output.stdout)
        .map_err(|e| Error::new(format!("pro enable: invalid answer: {e}")))?;
    let mut failed = Vec::new();
    for problem in answer["errors"].as_array().into_iter().flatten() {
        let text = |name: &str| problem[name].as_str().unwrap_or_default().to_string();
        if text("message_code") == "service-already-enabled" {
            debug!(sys, "service {} is already enabled", text("service"));
            continue;
        }
        let what = if problem["service"].is_null() { text("type") } else { text("service") };
        warning!(sys, "enabling {what} failed: {}", text("message"));
        failed.push(what);
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Error::new(format!("Failure enabling Ubuntu Pro service(s): {}", failed.join(", "))))
}
