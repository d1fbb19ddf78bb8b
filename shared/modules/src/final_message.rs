//! final_message: logs the end of the boot, and writes `boot-finished`, which other programs wait for.

use config::{Map, Node};
use state::Frequency;
use system::{Result, WriteOptions, debug, rfc2822, warning};

use crate::schema::Section;
use crate::{Context, Module};

pub const MODULE: Module =
    Module { keys: &[Keys::KEYS], ..Module::new("final_message", Frequency::Always, run) };

/// The module in the schema and the documentation.
pub const DOCS: Section = Section::of::<Keys>(MODULE.name);

const VERSION: &str = env!("CARGO_PKG_VERSION");
const DEFAULT_MESSAGE: &str = "## template: jinja\n\
    Cloud-init v. {{version}} finished at {{timestamp}}. Datasource {{datasource}}.  Up {{uptime}} seconds\n";

config::keys! {
    struct Keys {
        /// The message at the end of a boot. Variables are `$version`, `$timestamp`, `$datasource` and `$uptime`
        /// (`{{version}}` and so on after `## template: jinja`).
        final_message: Option<String>;
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let own = context.first_arg().or_else(|| context.read_keys(Keys::read_known)?.final_message);
    let own = own.map(|text| text.trim().to_string()).filter(|text| !text.is_empty());
    let time = rfc2822(sys.clock().wall());
    let uptime = format!("{:.2}", sys.clock().uptime());
    let values = [
        ("version", VERSION),
        ("timestamp", &time),
        ("datasource", &context.instance.description),
        ("uptime", &uptime),
    ];
    let text = render_message(context, own.as_deref().unwrap_or(DEFAULT_MESSAGE), &values);
    let text = text.trim_end();
    sys.print(text);
    debug!(sys, "{text}");

    let finished = format!("{uptime} - {time} - v. {VERSION}\n");
    sys.write(context.layout.boot_finished(), finished, WriteOptions::default())?;
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
    fn placeholders_of_both_template_types_are_filled() {
        for (text, filled, warnings) in [
            ("plain", "plain", 0),
            ("up $uptime, $UPTIME, ${uptime}s", "up 2.50, 2.50, 2.50s", 0),
            ("{{uptime}}", "{{uptime}}", 0),
            ("## template: jinja\n{{ version }}/{{uptime}}", "1/2.50", 0),
            ("## template:jinja\n{% if uptime %}{{UPTIME}}{% endif %} $uptime", "2.50 $uptime", 0),
            ("costs 5$, ${ }, $other$", "costs 5$, ${ }, $other$", 1),
            ("## template: jinja\n{{x}}", "CI_MISSING_JINJA_VAR/x", 1),
            (
                "## template: jinja\n{% if %}",
                "Cloud-init v. 1 finished at . Datasource .  Up 2.50 seconds\n",
                1,
            ),
        ] {
            let sandbox = Sandbox::new("{}");
            let values = [("version", "1"), ("uptime", "2.50"), ("timestamp", ""), ("datasource", "")];
            let out = sandbox.with_context(|context| render_message(context, text, &values));
            assert_eq!(out, filled, "{text}");
            assert_eq!(sandbox.logged_warnings().len(), warnings, "{text}: {:?}", sandbox.logged_warnings());
        }
    }

    #[test]
    fn boot_finished_is_written_and_the_fallback_is_logged() {
        let fallback = Some("Used fallback datasource");
        for (datasource, config, expected) in [
            ("NoCloud", "{}", None),
            ("None", "{}", fallback),
            ("None", "datasource_list: [None]", None),
            ("None", "datasource_list: [NoCloud, None]", fallback),
            ("None", "datasource_list: []", fallback),
            (
                "NoCloud",
                "final_message: $nothing",
                Some("final_message: undefined variable: 'nothing' (line 1)"),
            ),
            (
                "NoCloud",
                "final_message: [a]",
                Some("test.yaml:1:16: final_message: expected a string, found a list"),
            ),
        ] {
            let mut sandbox = Sandbox::new(config);
            sandbox.instance.datasource = datasource.into();
            sandbox.run(&MODULE).unwrap();
            let expected: Vec<&str> = expected.into_iter().collect();
            assert_eq!(sandbox.logged_warnings(), expected, "{datasource} {config}");
            let (text, mode) = sandbox.file("/var/lib/cloud/instance/boot-finished");
            let parts: Vec<&str> = text.trim_end().split(" - ").collect();
            assert!(parts[0].parse::<f64>().unwrap() > 0.0);
            assert!(parts[1].ends_with(" +0000"));
            assert_eq!((parts[2], mode), (concat!("v. ", env!("CARGO_PKG_VERSION")), 0o644));
        }
    }
}
