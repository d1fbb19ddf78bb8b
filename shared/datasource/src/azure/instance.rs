//! Builds the instance from ovf-env.xml and the metadata.

use config::Node;
use serde_json::json;
use state::{Instance, NetworkConfig, NetworkFormat};
use system::{Error, Result, System, error, warning};

use super::NAME;
use super::facts::{self, ProvisioningData};
use super::ovf::{Key, Ovf};
use super::previous::CertificateKeys;
use super::seed::{OVF_ENV, Seed};
use super::settings::Settings;
use crate::document::fields;
use crate::{Search, standard};

/// Random bytes that the host gives its guests.
const RANDOM_SEED: &str = "/sys/firmware/acpi/tables/OEM0";
const MAX_RANDOM_SEED: u64 = 1 << 20;

/// The data that the instance is made of.
pub struct InstanceData<'a> {
    pub id: &'a str,
    pub seed: Option<&'a Seed>,
    /// The document of the metadata service; null if there is none.
    pub document: &'a Node,
    pub certificate_keys: &'a CertificateKeys,
}

impl InstanceData<'_> {
    /// Builds the instance. Invalid data is skipped with a warning.
    ///
    /// # Errors
    ///
    /// Fails if the password cannot be hashed.
    pub fn instance(&self, ctx: &Search<'_>) -> Result<Instance> {
        let sys = ctx.sys;
        let ovf = &self.seed.map(|seed| usable(sys, &seed.ovf)).unwrap_or_default();
        let hash = ovf.new_password().map(|password| hash_password(sys, password)).transpose()?;
        let source = self.source();
        let mut instance =
            standard::instance(NAME, &format!("DataSource{NAME} [seed={source}]"), source.into());
        instance.id = self.id.to_string();
        instance.subplatform = match source {
            "IMDS" => "imds (IMDS)".into(),
            disc if disc.starts_with("/dev") => format!("config-disk ({disc})"),
            directory => format!("seed-dir ({directory})"),
        };
        let data =
            ProvisioningData { ovf, document: self.document, hash, certificate_keys: self.certificate_keys };
        for message in data.fill(&mut instance) {
            warning!(sys, "Azure: {message}");
        }
        if facts::is_missing_custom_data(ovf, self.document) {
            error!(sys, "Azure: the metadata service says that there is custom data, but {source} has none");
        }
        add_random_seed(sys, &mut instance);
        instance.network = self.network(ctx);
        let settings = Settings::of(ctx);
        instance.devices = sort::collect(settings.disk_aliases().map(|(k, v)| (k.to_string(), v.into())));
        instance.devices.insert("ephemeral0".into(), settings.ephemeral_disk().into());
        instance.temporary_devices = vec!["ephemeral0".into()];
        standard::record_machine(sys, &mut instance);
        Ok(instance)
    }

    /// Returns where the machine's data come from, as upstream names it.
    pub fn source(&self) -> &str {
        self.seed.map_or("IMDS", |seed| seed.source.as_str())
    }

    /// Returns the text of ovf-env.xml to keep; `None` if it is kept already or cannot be kept without the password.
    pub fn ovf_env(&self, instance: &Instance, data_dir: &str) -> Option<String> {
        match self.seed {
            Some(seed) if seed.source == data_dir => None,
            Some(seed) => seed.redacted(),
            None => Some(facts::generate_ovf_env(instance)),
        }
    }

    /// Returns the network configuration of the metadata, or DHCP on the preferred NIC if the metadata has none. The
    /// driver distinguishes that NIC from the accelerated one with the same MAC that Azure may attach beneath it.
    fn network(&self, ctx: &Search<'_>) -> Option<NetworkConfig> {
        let settings = Settings::of(ctx);
        let nics = ctx.machine.nics();
        let interfaces = self.document.at_path(&["network", "interface"]).and_then(Node::as_seq);
        if settings.is_set("apply_network_config", true) && interfaces.is_some_and(|i| !i.is_empty()) {
            for mac in facts::missing_nics(self.document, &nics) {
                warning!(ctx.sys, "Azure: network.interface of the metadata has no entry for the NIC {mac}");
            }
            let network = self.document.get("network").map(Node::to_json);
            let content = json!({
                "network": network,
                "apply_network_config_for_secondary_ips":
                    settings.is_set("apply_network_config_for_secondary_ips", true),
                "apply_network_config_set_name": settings.is_set("apply_network_config_set_name", true),
            });
            let source = standard::metadata_of(NAME);
            return Some(standard::network_in(NetworkFormat::AzureImds, content, &source));
        }
        let config = facts::fallback(&nics.candidates.into_iter().next()?);
        Some(standard::network_in(NetworkFormat::Yaml, config, "Azure: DHCP on the preferred NIC"))
    }
}

/// Returns the settings of the file without strings that are too long or have control characters, which are reported.
fn usable(sys: &System, ovf: &Ovf) -> Ovf {
    let place = |name: &str| format!("Azure: {OVF_ENV}: {name}");
    let line = |name: &str, text: &str| fields::valid_line(sys, &place(name), text).map(String::from);
    let valid_keys = |text: &str| fields::valid_keys(sys, &place("PublicKey.Value"), text);
    let key = |key: &Key| -> Vec<Key> {
        match key {
            Key::Value(text) => valid_keys(text).into_iter().map(Key::Value).collect(),
            Key::Fingerprint(text) => {
                Vec::from_iter(line("PublicKey.Fingerprint", text).map(Key::Fingerprint))
            }
        }
    };
    Ovf {
        host_name: ovf.host_name.as_deref().and_then(|text| line("HostName", text.trim())),
        user: ovf.user.as_deref().and_then(|text| line("UserName", text.trim())),
        keys: ovf.keys.iter().flat_map(key).collect(),
        ..ovf.clone()
    }
}

fn add_random_seed(sys: &System, instance: &mut Instance) {
    let Ok(seed) = sys.read_at_most(RANDOM_SEED, MAX_RANDOM_SEED) else { return };
    let seed = encoding::base64::encode(&seed);
    instance.crawled["meta_data"]["random_seed"] = seed.as_str().into();
    instance.sensitive.push("random_seed".into());
    instance.random_seed = Some(seed);
}

fn hash_password(sys: &System, password: &str) -> Result<String> {
    let random = sys.random_bytes(16)?.try_into().map_err(|_| Error::new("too few random bytes"))?;
    encoding::crypt::sha512_crypt(password.as_bytes(), &encoding::crypt::salt(random)).map_err(Error::new)
}
