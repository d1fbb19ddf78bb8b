//! The instance data; status.json and result.json: the files, and their links in /run.

use std::io::ErrorKind;

use state::layout::{RESULT, STATUS};

use super::Repair;
use crate::finding::Findings;
use crate::machine::Machine;

pub fn check(machine: &Machine, checked: &mut Findings) {
    let (sys, layout) = (&machine.sys, &machine.layout);
    for path in [layout.instance_data(), layout.sensitive_instance_data()] {
        match state::read_json(sys, &path) {
            Err(e) if e.kind() == Some(ErrorKind::InvalidData) => {
                let remedy = "reboot: each boot writes it again";
                checked.error(&path, "damaged: not JSON, so query and templates cannot use it", remedy);
            }
            _ => {}
        }
    }
    for name in [STATUS, RESULT] {
        let (file, link) = (layout.data(name), layout.run(name));
        let mut paths = vec![file.clone()];
        // If the disk could not be written, it is a file and not a link.
        if !sys.is_link(&link) && sys.exists(&link) {
            paths.push(link.clone());
        }
        for path in paths {
            match state::read_json(sys, &path) {
                Ok(value) if value["v1"].is_object() => continue,
                Ok(_) => {}
                Err(e) if e.kind() == Some(ErrorKind::InvalidData) => {}
                Err(e) if e.is_not_found() => continue,
                Err(e) => {
                    checked.unread.push(e.to_string());
                    continue;
                }
            }
            let remedy = "the next boot writes it again; the results of this boot are in the log";
            let torn = checked.error(&path, "damaged: not the JSON of a boot's result", remedy);
            // On a running machine `status` must not say that nothing has run.
            if !sys.is_live() {
                torn.repair = Some(Repair::Remove);
                if sys.is_link(&link) {
                    checked.warning(&link, "points to the damaged file", "").repair = Some(Repair::Remove);
                }
            }
        }
        // `cloud-init clean` removes the directory.
        if sys.is_link(&link) && !sys.exists(&file) && sys.is_dir(layout.data("")) {
            let target = sys.read_link(&link).unwrap_or_default();
            let problem = format!("points to {target}, which does not exist");
            checked.warning(&link, problem, "").repair = Some(Repair::Remove);
        }
    }
}
