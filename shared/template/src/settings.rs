//! Jinja templates among the files of the system configuration (/etc/cloud/cloud.cfg and cloud.cfg.d): they are rendered with
//! the instance data, once that exists.

use system::{Level, System, debug};

use crate::{Kind, kind, render, variables};

/// Renders a file with the instance data in `data`, for [`config::settings::Sources::render`]. Returns `None` if the file is to
/// be read unrendered: there is no instance data, this user may not read it, or rendering failed, which is logged.
pub fn render_settings(sys: &System, data: &str, path: &str, text: &str) -> Option<String> {
    if kind(text) != Some(Kind::Jinja) {
        return None;
    }
    let values = match sys.read(data) {
        Ok(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) => config::json::parse(text).map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        },
        Err(e) if e.is_not_found() || e.kind() == Some(std::io::ErrorKind::PermissionDenied) => {
            debug!(sys, "{path} is a template; reading it unrendered: {e}");
            return None;
        }
        Err(e) => Err(e.to_string()),
    };
    let values = match values {
        Ok(values) => values,
        Err(e) => {
            warn_once(sys, format!("Could not apply Jinja template '{data}' to '{path}': {e}"));
            return None;
        }
    };
    match render(text, &variables(&values)) {
        Ok(rendered) => {
            if let Some(names) = rendered.undefined_names() {
                warn_once(
                    sys,
                    format!("Could not render jinja template variables in file '{path}': {names}"),
                );
            }
            debug!(sys, "Applied instance data in '{data}' to configuration loaded from '{path}'");
            Some(rendered.text)
        }
        Err(e) => {
            warn_once(sys, format!("Failed to render templated yaml config file '{path}'. {e}"));
            None
        }
    }
}

/// Logs a warning once, since a stage reads its configuration several times.
fn warn_once(sys: &System, text: String) {
    if !sys.log().logged_warnings().iter().any(|(_, logged)| *logged == text) {
        sys.log().record(Level::Warning, file!(), format_args!("{text}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scratch::TempDir;
    use system::WriteOptions;

    #[test]
    fn renders_with_instance_data_if_available() {
        let top = TempDir::new();
        let sys = System::new(&top);
        let of = |text: &str| render_settings(&sys, "/run/data", "/etc/a.cfg", text);
        let template = "## template: jinja\na: {{ v1.region }}\n";
        assert_eq!(of(template), None);
        assert!(sys.log().logged_warnings().is_empty());
        let put = |text: &str| sys.write("/run/data", text, WriteOptions::secret()).map(drop).unwrap();
        put(r#"{"v1": {"region": "north"}}"#);
        for (text, wanted) in [
            (template, Some("a: north\n")),
            ("##template: JINJA\nb: {{ region }}", Some("b: north")),
            ("## template: jinja\nc: {{ nope }}\n", Some("c: CI_MISSING_JINJA_VAR/nope\n")),
            ("## template: jinja\nd: {% if %}\n", None),
            ("a: {{ v1.region }}\n", None),
            ("## template: mako\n", None),
        ] {
            assert_eq!(of(text).as_deref(), wanted, "{text}");
            of(text);
        }
        put("{");
        assert_eq!(of(template), None);
        let logged: Vec<String> = sys.log().logged_warnings().into_iter().map(|(_, text)| text).collect();
        assert_eq!(logged.len(), 3, "{logged:?}");
        assert_eq!(
            logged[0],
            "Could not render jinja template variables in file '/etc/a.cfg': 'nope' (line 2)"
        );
        assert!(
            logged[1]
                .starts_with("Failed to render templated yaml config file '/etc/a.cfg'. template line 2")
        );
        assert!(logged[2].starts_with("Could not apply Jinja template '/run/data' to '/etc/a.cfg': "));
    }
}
