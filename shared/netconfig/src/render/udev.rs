//! udev rules that keep the names of NICs if the network service itself cannot: in addition to the files of eni and
//! sysconfig.

use crate::model::{LinkKind, Model};

use super::output::File;

/// Returns one rule for each NIC that is identified by its address.
pub fn rules(model: &Model, path: &str) -> File {
    let mut content = String::new();
    for link in model.links.iter().filter(|l| l.kind == LinkKind::Physical) {
        let Some(mac) = &link.mac else { continue };
        let driver = match &*link.drivers {
            [] => "?*".to_string(),
            drivers => drivers.join("|"),
        };
        let clauses = [
            "SUBSYSTEM==\"net\"".to_string(),
            "ACTION==\"add\"".to_string(),
            format!("DRIVERS==\"{driver}\""),
            format!("ATTR{{address}}==\"{mac}\""),
            format!("NAME=\"{}\"", link.name),
        ];
        content.push_str(&clauses.join(", "));
        content.push('\n');
    }
    File { keep_mode: true, optional: true, ..File::new(path, content) }
}
