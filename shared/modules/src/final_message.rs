//! final_message: logs the end of the boot, and writes `boot-finished`, which other programs wait for.

use config::{Map, Node};
use system::{CLOUD_INIT_VERSION, Level, Result, WriteOptions, debug, info, rfc2822, warning};

use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module::of::<Keys>("final_message", Frequency::Always, run);

const DEFAULT_MESSAGE: &str = "## template: jinja\n\
    Cloud-init v. {{version}} finished at {{timestamp}}. Datasource {{datasource}}.  Up {{uptime}} seconds\n";

config::keys! {
    pub struct Keys {
        /// The message at the end of a boot. Variables are `$version`, `$timestamp`, `$datasource` and `$uptime`
        /// (`{{version}}` and so on after `## template: jinja`).
        final_message: Option<String>;
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let own = context.first_arg().or_else(|| context.read_keys::<Keys>()?.final_message);
    let own = own.map(|text| text.trim().to_string()).filter(|text| !text.is_empty());
    let time = rfc2822(sys.clock().wall());
    let uptime = format!("{:.2}", sys.clock().uptime());
    let values = [
        ("version", CLOUD_INIT_VERSION),
        ("timestamp", &time),
        ("datasource", &context.instance.description),
        ("uptime", &uptime),
    ];
    let text = render_message(context, own.as_deref().unwrap_or(DEFAULT_MESSAGE), &values);
    let text = text.trim_end();
    sys.print(text);
    debug!(sys, "{text}");

    // Programs wait for the file, and may then switch the machine off.
    sys.log_error(Level::Warning, state::confirm_ended(sys, context.layout, true));
    let finished = format!("{uptime} - {time} - v. {CLOUD_INIT_VERSION}\n");
    match context.layout.is_cleaned(sys) {
        true => info!(sys, "the state was removed during the boot; boot-finished is not written"),
        false => drop(sys.write(context.layout.boot_finished(), finished, WriteOptions::default())?),
    }
    if context.instance.datasource == "None" && !is_none_the_only_datasource(context.config) {
        warning!(sys, "Used fallback datasource");
    }
    Ok(())
}

/// Renders the text, whose variables may be in lower or upper case. Falls back to the default message if the text is not
/// a valid template.
fn render_message(context: &Context<'_>, text: &str, values: &[(&str, &str)]) -> String {
    let mut variables = Map::new();
    for (name, value) in values {
        variables.insert(*name, *value);
        variables.insert(name.to_ascii_uppercase(), *value);
    }
    match template::render(text, &variables) {
        Ok(rendered) => {
            if let Some(undefined) = rendered.undefined_names() {
                warning!(context.sys, "final_message: undefined variable: {undefined}");
            }
            rendered.text
        }
        Err(e) => {
            warning!(context.sys, "final_message: {e}");
            template::render(DEFAULT_MESSAGE, &variables).unwrap_or_default().text
        }
    }
}

/// Returns whether None is the only datasource in the configuration.
fn is_none_the_only_datasource(config: &Node) -> bool {
    let list = config.get("datasource_list").and_then(Node::as_seq);
    list.is_some_and(|l| l.iter().all(|n| n.as_str() == Some("None")) && !l.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;

    #[test]
    fn unexpected_fallback_datasource_is_reported() {
        for (datasource, config, is_reported) in [
            ("NoCloud", "{}", false),
            ("None", "{}", true),
            ("None", "datasource_list: [None]", false),
            ("None", "datasource_list: [NoCloud, None]", true),
            ("None", "datasource_list: []", true),
        ] {
            let mut sandbox = Sandbox::new(config);
            sandbox.instance.datasource = datasource.into();
            sandbox.run(&MODULE).unwrap();
            let warnings = sandbox.logged_warnings();
            assert_eq!(warnings == ["Used fallback datasource"], is_reported, "{datasource} {config}");
            let (text, mode) = sandbox.file("/var/lib/cloud/instance/boot-finished");
            let parts: Vec<&str> = text.trim_end().split(" - ").collect();
            assert!(parts[0].parse::<f64>().unwrap() > 0.0 && parts[1].ends_with(" +0000"), "{text}");
            assert_eq!((parts[2], mode), ("v. 26.2", 0o644));
        }
    }
}
