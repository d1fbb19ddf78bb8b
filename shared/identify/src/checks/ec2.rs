//! Ec2: Amazon EC2, and clouds with a compatible metadata service.

use crate::checks::rules;
use crate::dmi_fields::Dmi;
use crate::facts::Facts;
use crate::lookup::{self, ConfigFile};
use crate::verdict::{Answer, Verdict, found, maybe, not_found};

pub fn ec2(facts: &Facts<'_>) -> Verdict {
    let seed = rules::check_seed(facts, "Ec2");
    if seed.answer == Answer::Found {
        return seed;
    }
    if facts.is_container() {
        return not_found("this is a container");
    }
    let uuid = facts.roots.line(&facts.paths.hypervisor.join("uuid")).unwrap_or_default();
    if let Some(reason) = platform(facts.dmi(), &uuid) {
        return found(reason);
    }
    let strict = strict_id(facts);
    if strict == "true" {
        return not_found("not a known platform with EC2's metadata service, and strict_id is true");
    }
    let mut verdict = maybe(format!("strict_id is {strict}"));
    verdict.extra = Some(format!("datasource: {{Ec2: {{strict_id: \"{strict}\"}}}}"));
    verdict
}

/// Returns the evidence for a platform with EC2's metadata service.
pub(crate) fn platform(dmi: &Dmi, hypervisor_uuid: &str) -> Option<String> {
    if let Some(reason) = rules::evidence_in_dmi(dmi, "Ec2") {
        return Some(reason);
    }
    if clouds::is_outscale(&dmi.sys_vendor, &dmi.product_name) {
        return Some("dmi product_name is '3DS Outscale VM'".into());
    }
    if hypervisor_uuid.starts_with("ec2") {
        return Some("the hypervisor's uuid starts with ec2".into());
    }
    if clouds::is_ec2_uuid(&dmi.product_uuid) {
        return Some("dmi product_uuid starts with ec2".into());
    }
    None
}

/// Returns whether an unknown platform is skipped (`true`), tried (`false`) or tried with a warning.
fn strict_id(facts: &Facts<'_>) -> String {
    const DEFAULT: &str = "true";
    let settings = facts.settings();
    let of_config = || {
        let counts = |file: &&ConfigFile| {
            let name = file.path.rsplit('/').next().unwrap_or_default();
            file.path == facts.paths.config.to_string() || name.to_ascii_lowercase().contains("ec2")
        };
        let files: Vec<ConfigFile> = facts.config().iter().filter(counts).cloned().collect();
        lookup::last_value(&files, "strict_id")
    };
    let value = match &settings.strict_id_on_command_line {
        Some(word) if word.is_empty() => None,
        Some(word) => Some(word.clone()),
        None => of_config().filter(|v| !v.is_empty()).or_else(|| settings.strict_id_in_file.clone()),
    };
    let Some(value) = value else { return DEFAULT.into() };
    let pause = value.strip_prefix("warn,").and_then(|rest| rest.chars().next());
    if ["true", "false", "warn"].contains(&value.as_str()) || pause.is_some_and(|c| c.is_ascii_digit()) {
        return value;
    }
    facts.log.warning(format!("strict_id: expected true, false, warn or warn,SECONDS; using {DEFAULT}"));
    DEFAULT.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firmware_decides_which_platform_it_is() {
        type Set<'a> = &'a dyn Fn(&mut Dmi);
        let cases: [(Set<'_>, &str, bool); 10] = [
            (&|_| {}, "", false),
            (&|_| {}, "ec2abc", true),
            (&|_| {}, "EC2abc", false),
            (&|d| d.product_uuid = "EC2F58AF-2DAD-C57E".into(), "", true),
            (&|d| d.product_uuid = "AF582FEC-AD2D".into(), "", true),
            (&|d| d.product_uuid = "AF58FFEC-AD2D".into(), "", false),
            (&|d| d.product_uuid = "12345678-ec2".into(), "", false),
            (&|d| d.product_serial = "srv-1.gb1.brightbox.com".into(), "", true),
            (&|d| d.product_name = "3DS Outscale VM".into(), "", false),
            (&|d| d.sys_vendor = "Tilaa".into(), "", true),
        ];
        for (n, (set, uuid, expected)) in cases.into_iter().enumerate() {
            let mut dmi = Dmi::default();
            set(&mut dmi);
            assert_eq!(platform(&dmi, uuid).is_some(), expected, "{n}");
        }
    }
}
