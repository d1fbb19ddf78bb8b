//! Failures of a stage in systemd's journal, with fields for programs and with IDs that `journalctl -x` explains
//! (packaging/systemd/cloud-init.catalog). A stage without failures sends nothing.

use state::StageStatus;

use crate::Boot;

/// A part of a message, and the ID of its explanation; the first one that the message contains counts.
const FAILURES: [(&str, &str); 10] = [
    ("No instance datasource found", "e7827b1bbafc4fef9c227835874cccd9"),
    ("applying the network configuration", "00807a3def9242bbb4df2e6f70d3c220"),
    ("user-data and vendor-data: ", "351cd61b887d44ce99919e206c7032e2"),
    ("skipping cloud-config", "9b40fc256eea49409525dbaaa7d7e2a5"),
    ("could not verify instance", "93b4b4686cc84009816b46100c83a118"),
    ("was interrupted by", "33c9c633eadf4a67b932ac0bdc2c366b"),
    ("did not complete in this boot", "f04d0844b6d74c3c8954c33d2f2397bd"),
    ("Running module package", "7267ba62f4734c11a41dd23624c4b1da"),
    ("Running module scripts", "d176416863d1401598e690047d1e85ff"),
    ("Running module ", "08e623af41714bcdb55e016f9cfa9828"),
];

/// Sends the failures of a stage to the journal.
pub(crate) fn send_failures(boot: &Boot, record: &StageStatus) {
    for message in record.errors.iter().chain(record.recoverable_errors.values().flatten()) {
        let Some((_, id)) = FAILURES.iter().find(|(part, _)| message.contains(part)) else { continue };
        let module = message.strip_prefix("Running module ").and_then(|rest| rest.split(' ').next());
        let mut fields = vec![
            ("MESSAGE", message.as_str()),
            ("MESSAGE_ID", id),
            ("PRIORITY", "3"),
            ("SYSLOG_IDENTIFIER", "cloud-init"),
        ];
        fields.extend(module.map(|module| ("CLOUD_INIT_MODULE", module)));
        boot.sys.send_to_journal(&fields);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_catalog_explains_each_failure() {
        let catalog = include_str!("../../../packaging/systemd/cloud-init.catalog");
        let explained: Vec<&str> = catalog.lines().filter_map(|line| line.strip_prefix("-- ")).collect();
        assert_eq!(explained, super::FAILURES.map(|(_, id)| id));
    }
}
