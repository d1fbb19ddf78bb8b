//! Jinja templates among the files of the system configuration (/etc/cloud/cloud.cfg and cloud.cfg.d): they are rendered with
//! the instance data, once that exists.

use system::{Level, System, debug};

use crate::{Kind, kind, render, variables};

/// Renders a file with the instance data in `data`, for [`config::settings::Sources::render`]. Returns `None` if the file is to
/// be read unrendered: there is no instance data, this user may not read it, or rendering failed, which is logged.
pub fn render_settings(sys: &System, data: &str, path: &str, text: &str) -> Option<(String, Vec<u32>)> {
    if kind(text) != Some(Kind::Jinja) {
        return None;
    }
    // A stage reads its configuration several times.
    let warn_once = |text: String| {
        if !sys.log().logged_warnings().iter().any(|(_, logged)| *logged == text) {
            sys.log().record(Level::Warning, file!(), format_args!("{text}"));
        }
    };
    let values = match sys.read(data) {
        Ok(bytes) => String::from_utf8(bytes)
            .map_err(|e| e.to_string())
            .and_then(|text| config::json::parse(&text).map_err(|e| e.to_string())),
        Err(e) if e.is_not_found() || e.kind() == Some(std::io::ErrorKind::PermissionDenied) => {
            debug!(sys, "{path} is a template; reading it unrendered: {e}");
            return None;
        }
        Err(e) => Err(e.to_string()),
    };
    let values = values
        .map_err(|e| warn_once(format!("Could not apply Jinja template '{data}' to '{path}': {e}")))
        .ok()?;
    match render(text, &variables(&values)) {
        Ok(rendered) => {
            if let Some(names) = rendered.undefined_names() {
                warn_once(format!("Could not render jinja template variables in file '{path}': {names}"));
            }
            debug!(sys, "Applied instance data in '{data}' to configuration loaded from '{path}'");
            Some((rendered.text, rendered.lines))
        }
        Err(e) => {
            warn_once(format!("Failed to render templated yaml config file '{path}'. {e}"));
            None
        }
    }
}
