//! The state that earlier boots recorded of this instance: the status reported to Azure, and the data it was set up from.

use serde_json::Value as Json;
use state::{Cached, Instance, Previous};

use super::NAME;
use crate::Search;

/// The key, among the values kept for the instance check, of the last status reported to Azure.
const REPORTED: &str = "reported";
/// The key of the SSH keys from certificates, by fingerprint.
const CERTIFICATE_KEYS: &str = "certificate-keys";

/// SSH keys of certificates, by the fingerprint of the certificate.
pub type CertificateKeys = Vec<(String, String)>;

/// The state that an earlier boot of this instance has recorded.
#[derive(Debug, Default)]
pub struct PreviousBoot {
    /// The status last reported to Azure; empty if unknown.
    pub reported: &'static str,
    /// Whether the instance was set up with data of the metadata service.
    pub has_imds: bool,
    /// Whether this is the first boot of the instance.
    pub is_new: bool,
    /// The keys that were read from certificates.
    pub certificate_keys: CertificateKeys,
}

impl PreviousBoot {
    /// Returns the state of a machine that no earlier boot has set up.
    pub fn none() -> PreviousBoot {
        PreviousBoot { is_new: true, ..PreviousBoot::default() }
    }

    pub fn read(ctx: &Search<'_>, id: &str) -> PreviousBoot {
        match Instance::load(ctx.sys, ctx.layout) {
            Cached::Instance(known) if known.datasource == NAME && known.id == id => PreviousBoot {
                reported: match known.check.get(REPORTED).and_then(Json::as_str) {
                    Some("ready") => "ready",
                    Some("failure") => "failure",
                    _ => "",
                },
                has_imds: known.crawled.pointer("/meta_data/imds/network").is_some(),
                is_new: false,
                certificate_keys: certificate_keys(&known),
            },
            // Python's cloud-init reported it, or Azure no longer waits for it.
            Cached::Python { id: Some(python_id) } if python_id == id => {
                PreviousBoot { reported: "ready", ..PreviousBoot::default() }
            }
            cached => {
                // A cache that cannot be read may have recorded a report. A second report would make Azure take the machine
                // for a new one: if in doubt, only another id makes another instance.
                let is_other_instance =
                    matches!(&cached, Cached::Instance(_) | Cached::Python { id: Some(_) });
                let is_new =
                    is_other_instance || Previous::read(ctx.sys, ctx.layout).is_new_id(ctx.layout, id);
                match is_new {
                    true => PreviousBoot::none(),
                    false => PreviousBoot { reported: "ready", has_imds: true, ..PreviousBoot::default() },
                }
            }
        }
    }
}

fn certificate_keys(known: &Instance) -> CertificateKeys {
    let keys = known.check.get(CERTIFICATE_KEYS).and_then(Json::as_object);
    let key = |(print, key): (&String, &Json)| Some((print.clone(), key.as_str()?.to_string()));
    keys.into_iter().flatten().filter_map(key).collect()
}

/// Records the state for the next boot.
pub fn record(instance: &mut Instance, reported: &str, keys: &CertificateKeys) {
    if !reported.is_empty() {
        instance.check.insert(REPORTED.into(), reported.into());
    }
    if !keys.is_empty() {
        let keys = keys.iter().map(|(print, key)| (print.clone(), Json::from(key.as_str())));
        instance.check.insert(CERTIFICATE_KEYS.into(), Json::Object(sort::collect(keys)));
    }
}
