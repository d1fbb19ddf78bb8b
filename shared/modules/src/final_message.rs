//! final_message: says that the boot is done, and writes `boot-finished`, which others wait for.

use config::Node;
use state::Frequency;
use system::{Result, Write, debug, rfc2822, warning};

use crate::{Context, Module};

pub const MODULE: Module = Module {
    name: "final_message",
    frequency: Frequency::Always,
    distros: &[],
    activation: &[],
    keys: &[Keys::KEYS],
    run,
};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const USUAL: &str = "## template: jinja\n\
    Cloud-init v. {{version}} finished at {{timestamp}}. Datasource {{datasource}}.  Up {{uptime}} seconds\n";

config::keys! {
    struct Keys {
        /// The text; `$version`, `$timestamp`, `$datasource` and `$uptime` are replaced, or the same names in
        /// braces when it begins with the header of a Jinja template.
        final_message: Option<String>;
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let own = context.first_arg().or_else(|| context.read_known(Keys::read_known)?.final_message);
    let own = own.map(|text| text.trim().to_string()).filter(|text| !text.is_empty());
    let time = rfc2822(sys.clock().wall());
    let uptime = format!("{:.2}", sys.clock().uptime());
    let variables = [
        ("version", VERSION),
        ("timestamp", &time),
        ("datasource", &context.instance.description),
        ("uptime", &uptime),
    ];
    let (text, unknown) = fill(own.as_deref().unwrap_or(USUAL), &variables);
    if !unknown.is_empty() {
        warning!(sys, "final_message: nothing is known as {}", unknown.join(", "));
    }
    let text = text.trim_end();
    sys.print(text);
    debug!(sys, "{text}");

    let finished = format!("{uptime} - {time} - v. {VERSION}\n");
    sys.write(context.layout.instance("boot-finished"), finished, Write::default().durable())?;
    if context.instance.datasource == "None" && !only_none(context.config) {
        warning!(sys, "Used fallback datasource");
    }
    Ok(())
}

/// Whether the configuration wants no datasource but None.
fn only_none(config: &Node) -> bool {
    let list = config.get("datasource_list").and_then(Node::as_seq);
    list.is_some_and(|l| l.iter().all(|n| n.as_str() == Some("None")) && !l.is_empty())
}

/// The text with its variables filled in, and the names that are none; those stay as they are written.
fn fill(text: &str, variables: &[(&str, &str)]) -> (String, Vec<String>) {
    let known = |name: &str| variables.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| *v);
    match without_jinja_header(text) {
        Some(body) => fill_braces(body, known),
        None => fill_dollars(text, known),
    }
}

/// What follows a first line `## template: jinja`.
fn without_jinja_header(text: &str) -> Option<&str> {
    let (first, body) = text.split_once('\n').unwrap_or((text, ""));
    let kind = first.trim_start_matches('#').trim_start().strip_prefix("template:")?;
    (first.starts_with("##") && kind.trim().eq_ignore_ascii_case("jinja")).then_some(body)
}

fn fill_braces<'v>(text: &str, known: impl Fn(&str) -> Option<&'v str>) -> (String, Vec<String>) {
    let (mut out, mut unknown, mut rest) = (String::new(), Vec::new(), text);
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((inside, next)) = after.split_once("}}") else { break };
        out.push_str(before);
        match known(inside.trim()) {
            Some(value) => out.push_str(value),
            None => {
                unknown.push(inside.trim().to_string());
                out.push_str(&rest[before.len()..rest.len() - next.len()]);
            }
        }
        rest = next;
    }
    out.push_str(rest);
    (out, unknown)
}

/// `$name` and `${name}`.
fn fill_dollars<'v>(text: &str, known: impl Fn(&str) -> Option<&'v str>) -> (String, Vec<String>) {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let (mut out, mut unknown, mut rest) = (String::new(), Vec::new(), text);
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let in_braces = after.strip_prefix('{').and_then(|a| a.split_once('}'));
        let (name, next) = match in_braces {
            Some(found) => found,
            None => after.split_at(after.find(|c| !is_name(c)).unwrap_or(after.len())),
        };
        if name.is_empty() || !name.chars().all(is_name) {
            out.push('$');
            rest = after;
            continue;
        }
        match known(name) {
            Some(value) => out.push_str(value),
            None => {
                unknown.push(name.to_string());
                out.push_str(&rest[before.len()..rest.len() - next.len()]);
            }
        }
        rest = next;
    }
    out.push_str(rest);
    (out, unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Sandbox;

    #[test]
    fn texts() {
        let variables = [("version", "1"), ("uptime", "2.50")];
        for (text, filled, unknown) in [
            ("plain", "plain", ""),
            ("up $uptime, $UPTIME, ${uptime}s", "up 2.50, 2.50, 2.50s", ""),
            ("{{uptime}}", "{{uptime}}", ""),
            ("## template: jinja\n{{ version }}/{{uptime}}", "1/2.50", ""),
            ("## template:jinja\n{{UPTIME}} $uptime {{x}} {{", "2.50 $uptime {{x}} {{", "x"),
            ("costs 5$, ${ }, $other$", "costs 5$, ${ }, $other$", "other"),
            ("${uptime", "${uptime", ""),
        ] {
            let (out, missing) = fill(text, &variables);
            assert_eq!((out.as_str(), missing.join(",").as_str()), (filled, unknown), "{text}");
        }
    }

    #[test]
    fn boot_finished_is_written_and_the_fallback_is_said() {
        for (datasource, config, warnings) in [
            ("NoCloud", "{}", 0),
            ("None", "{}", 1),
            ("None", "datasource_list: [None]", 0),
            ("None", "datasource_list: [NoCloud, None]", 1),
            ("NoCloud", "final_message: $nothing", 1),
            ("NoCloud", "final_message: [a]", 1),
        ] {
            let mut sandbox = Sandbox::new(config);
            sandbox.instance.datasource = datasource.into();
            sandbox.run(&MODULE).unwrap();
            assert_eq!(sandbox.noticed().len(), warnings, "{config} {:?}", sandbox.noticed());
            let (text, mode) = sandbox.file("/var/lib/cloud/instance/boot-finished");
            let parts: Vec<&str> = text.trim_end().split(" - ").collect();
            assert!(parts[0].parse::<f64>().unwrap() > 0.0);
            assert!(parts[1].ends_with(" +0000"));
            assert_eq!((parts[2], mode), (concat!("v. ", env!("CARGO_PKG_VERSION")), 0o644));
        }
    }
}
