//! Fills an instance from ovf-env.xml and the metadata. The metadata takes precedence, as it has later changes.

use std::collections::HashSet;

use config::{Map, Node};
use serde_json::{Value as Json, json};
use state::{Blobs, Instance};

use super::imds::{keys, text};
use super::ovf::{self, Key, Ovf};
use super::previous::CertificateKeys;
use crate::document::fields::parse_switch;
use crate::{Nic, Nics, standard};

/// Returns a UUID in lower case with the bytes of its first three groups in reverse order, which is the order of firmware before
/// SMBIOS 2.6; `None` if the text is not a UUID.
pub fn byte_swapped(uuid: &str) -> Option<String> {
    let groups: Vec<&str> = uuid.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|g| g.len()).collect();
    if lengths != [8, 4, 4, 4, 12] || !uuid.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit()) {
        return None;
    }
    let turned = |group: &&str| -> String {
        let pairs = group.as_bytes().chunks(2).rev();
        pairs.flat_map(|pair| pair.iter().map(|b| char::from(b.to_ascii_lowercase()))).collect()
    };
    let first = groups.iter().take(3).map(turned);
    Some(first.chain(groups.iter().skip(3).map(|g| g.to_lowercase())).collect::<Vec<_>>().join("-"))
}

/// Returns whether an id is one of two, in any case.
pub fn matches_either(id: &str, uuid: &str, byte_swapped: &str) -> bool {
    id.eq_ignore_ascii_case(uuid) || id.eq_ignore_ascii_case(byte_swapped)
}

/// Returns whether the metadata announces custom data and ovf-env.xml has none.
pub fn is_missing_custom_data(ovf: &Ovf, document: &Node) -> bool {
    let given = document.at_path(&["extended", "compute", "hasCustomData"]).and_then(Node::scalar_text);
    let is_given = given.is_some_and(|given| given.eq_ignore_ascii_case("true"));
    is_given && ovf.custom_data.is_empty()
}

/// The provisioning data of a machine, from all sources.
pub struct ProvisioningData<'a> {
    pub ovf: &'a Ovf,
    /// The document of the metadata service; null if there is none.
    pub document: &'a Node,
    /// The hash of the file's password.
    pub hash: Option<String>,
    /// The keys of the certificates that the file names by their fingerprints.
    pub certificate_keys: &'a CertificateKeys,
}

impl ProvisioningData<'_> {
    /// Fills an instance that has its id. Returns the problems of the data that was ignored.
    pub fn fill(&self, instance: &mut Instance) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut metadata = Map::new();
        let document = if self.document.is_null() { Map::new().into() } else { self.document.clone() };
        metadata.insert("imds", document);
        metadata.insert("instance-id", instance.id.as_str());
        let host = text(self.document, &["compute", "osProfile", "computerName"]);
        metadata.insert_some("local-hostname", host.as_deref().or(self.ovf.host_name.as_deref()));
        let keys = keys(self.document).unwrap_or_else(|| {
            let keys = self.keys_of_ovf_env(&mut warnings);
            let nodes: Vec<Node> = keys.iter().map(|key| Node::from(key.as_str())).collect();
            metadata.insert_unless_empty("public-keys", nodes);
            keys
        });
        let metadata = Node::from(metadata);
        standard::fill(instance, &metadata);
        instance.public_keys = keys;
        instance.region = text(self.document, &["compute", "location"]);
        let domain = self.document.at_path(&["compute", "platformFaultDomain"]);
        instance.availability_zone = domain.filter(|d| !d.is_null()).and_then(Node::scalar_text);
        instance.user_data = self.user_data(&mut warnings);
        instance.config = self.config();
        instance.crawled = json!({ "meta_data": metadata.to_json() });
        warnings
    }

    fn keys_of_ovf_env(&self, warnings: &mut Vec<String>) -> Vec<String> {
        let mut keys = Vec::new();
        for key in &self.ovf.keys {
            let mut known = self.certificate_keys.iter();
            match key {
                Key::Value(key) => keys.push(key.clone()),
                Key::Fingerprint(print) => match known.find(|(of, _)| of.eq_ignore_ascii_case(print)) {
                    Some((_, key)) => keys.push(key.clone()),
                    None => warnings.push(format!(
                        "no certificate of the wire server has the fingerprint {print}, which ovf-env.xml names; \
                         ignoring this SSH key"
                    )),
                },
            }
        }
        keys
    }

    /// Returns the user-data: the custom data of the file, else the user-data of the service.
    fn user_data(&self, warnings: &mut Vec<String>) -> Blobs {
        if !self.ovf.custom_data.is_empty() {
            return Blobs(vec![self.ovf.custom_data.clone()]);
        }
        let Some(data) = text(self.document, &["compute", "userData"]) else { return Blobs::default() };
        match encoding::base64::decode(data.as_bytes()) {
            Some(data) => Blobs(vec![data]),
            None => {
                warnings.push("compute.userData of the metadata is not base64: it is ignored".into());
                Blobs::default()
            }
        }
    }

    /// Returns the cloud-config of the datasource: the first user and password authentication.
    fn config(&self) -> Json {
        let mut config = json!({});
        let of_service = text(self.document, &["compute", "osProfile", "adminUsername"]);
        let name = of_service.as_deref().or(self.ovf.user.as_deref());
        let user = &mut config["system_info"]["default_user"];
        if let Some(name) = name {
            user["name"] = name.into();
        }
        if self.ovf.password.is_some() {
            user["lock_passwd"] = false.into();
        }
        if let Some(hash) = &self.hash {
            user["hashed_passwd"] = hash.as_str().into();
        }
        if user.is_null() {
            config = json!({});
        }
        let of_ovf_env = self.ovf.disable_password.or(self.ovf.password.is_some().then_some(false));
        if let Some(disabled) = self.is_password_disabled().or(of_ovf_env) {
            config["ssh_pwauth"] = (!disabled).into();
        }
        config
    }

    fn is_password_disabled(&self) -> Option<bool> {
        let path = ["compute", "osProfile", "disablePasswordAuthentication"];
        parse_switch(&self.document.at_path(&path)?.scalar_text()?)
    }
}

/// Returns a configuration with DHCP on one NIC.
pub fn fallback(nic: &Nic) -> Json {
    let mut device = json!({ "dhcp4": true, "dhcp6": true, "set-name": nic.name });
    device["match"]["macaddress"] = nic.mac.as_str().into();
    if let Some(driver) = &nic.driver {
        device["match"]["driver"] = driver.as_str().into();
    }
    let mut config = json!({ "version": 2 });
    config["ethernets"][&nic.name] = device;
    config
}

/// Returns whether SSH keys are known only by the fingerprints of their certificates.
pub fn needs_certificates(ovf: &Ovf, document: &Node) -> bool {
    keys(document).is_none() && ovf.keys.iter().any(|key| matches!(key, Key::Fingerprint(_)))
}

/// Returns the MACs of the machine's NICs on Hyper-V's network that the metadata does not have.
pub fn missing_nics(document: &Node, nics: &Nics) -> Vec<String> {
    let Some(interfaces) = document.at_path(&["network", "interface"]).and_then(Node::as_seq) else {
        return Vec::new();
    };
    let plain = |mac: &str| mac.replace([':', '-'], "").to_lowercase();
    let known: HashSet<String> =
        interfaces.iter().filter_map(|i| Some(plain(i.get("macAddress")?.as_str()?))).collect();
    let on_hyper_v = nics.configurable.iter().filter(|nic| nic.driver.as_deref() == Some("hv_netvsc"));
    on_hyper_v.map(|nic| nic.mac.clone()).filter(|mac| !known.contains(&plain(mac))).collect()
}

/// Generates the file for a machine that had none.
pub fn generate_ovf_env(instance: &Instance) -> String {
    let user = instance.config["system_info"]["default_user"]["name"].as_str().unwrap_or_default();
    let disable = instance.config.get("ssh_pwauth").and_then(Json::as_bool).map(|takes| !takes);
    ovf::generate_ovf_env(instance.local_hostname.as_deref().unwrap_or_default(), user, disable)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "10203040-5060-7080-90a0-b0c0d0e0f000";

    fn ovf() -> Ovf {
        Ovf {
            host_name: Some("of-file".into()),
            user: Some("fay".into()),
            password: Some("secret".into()),
            custom_data: b"custom".to_vec(),
            keys: vec![Key::Value("ssh-rsa F".into()), Key::Fingerprint("AB".into())],
            ..Ovf::default()
        }
    }

    fn filled(ovf: &Ovf, document: &Json, hash: Option<&str>) -> (Instance, Vec<String>) {
        let mut instance = Instance { id: UUID.into(), ..Instance::default() };
        let document = &Node::from_json(document);
        let certificate_keys = &vec![("cd".into(), "ssh-rsa CD".into())];
        let hash = hash.map(Into::into);
        let data = ProvisioningData { ovf, document, hash, certificate_keys };
        let warnings = data.fill(&mut instance);
        (instance, warnings)
    }

    #[test]
    fn byte_swapped_uuids_are_the_same_machine() {
        for (uuid, expected) in [
            (UUID, Some("40302010-6050-8070-90a0-b0c0d0e0f000")),
            ("ABCDEF01-2345-6789-ABCD-EF0123456789", Some("01efcdab-4523-8967-abcd-ef0123456789")),
            ("10203040-5060-7080-90a0b0c0d0e0f000", None),
            ("1020304g-5060-7080-90a0-b0c0d0e0f000", None),
            ("Not Settable", None),
            ("", None),
        ] {
            assert_eq!(byte_swapped(uuid).as_deref(), expected, "{uuid}");
        }
        assert!(matches_either("40302010-6050-8070-90A0-B0C0D0E0F000", UUID, &byte_swapped(UUID).unwrap()));
        assert!(!matches_either("", UUID, &byte_swapped(UUID).unwrap()));
    }

    #[test]
    fn ovf_env_suffices_without_imds() {
        let (instance, warnings) = filled(&ovf(), &Json::Null, Some("$6$x"));
        assert_eq!((&*instance.id, instance.local_hostname.as_deref()), (UUID, Some("of-file")));
        assert_eq!(instance.public_keys, ["ssh-rsa F"]);
        assert_eq!(instance.user_data, Blobs(vec![b"custom".to_vec()]));
        let user = json!({"default_user": {"name": "fay", "lock_passwd": false, "hashed_passwd": "$6$x"}});
        assert_eq!(instance.config, json!({"system_info": user, "ssh_pwauth": true}));
        assert!(warnings.len() == 1 && warnings[0].contains("fingerprint AB"), "{warnings:?}");
        assert!(!instance.crawled.to_string().contains("secret"));
    }

    #[test]
    fn imds_overrides_ovf_env() {
        let document = json!({"compute": {
            "osProfile": {"adminUsername": "ida", "computerName": "of-service", "disablePasswordAuthentication": "true"},
            "publicKeys": [{"keyData": "ssh-rsa AAAA ida"}], "userData": "dXNl\ncg==", "location": "westeurope",
            "platformFaultDomain": "1"}});
        let (instance, warnings) = filled(&ovf(), &document, None);
        assert_eq!(instance.local_hostname.as_deref(), Some("of-service"));
        assert_eq!((instance.public_keys.join(""), warnings.len()), ("ssh-rsa AAAA ida".into(), 0));
        assert_eq!(instance.user_data, Blobs(vec![b"custom".to_vec()]));
        assert_eq!(
            instance.config,
            json!({"system_info": {"default_user": {"name": "ida", "lock_passwd": false}}, "ssh_pwauth": false})
        );
        assert_eq!(
            (instance.region.as_deref(), instance.availability_zone.as_deref()),
            (Some("westeurope"), Some("1"))
        );
        let (instance, _) = filled(&Ovf::default(), &document, None);
        assert_eq!(instance.user_data, Blobs(vec![b"user".to_vec()]));
        // Not a boolean word: the file decides, or the image.
        let document = json!({"compute": {"osProfile": {"disablePasswordAuthentication": "maybe"}}});
        let allows = |ovf: &Ovf| filled(ovf, &document, None).0.config["ssh_pwauth"].clone();
        assert_eq!((allows(&ovf()), allows(&Ovf::default())), (json!(true), Json::Null));
        let document = json!({"compute": {"userData": "?"}});
        let (instance, warnings) = filled(&Ovf::default(), &document, None);
        assert_eq!((instance.user_data, instance.config, warnings.len()), (Blobs::default(), json!({}), 1));
    }

    #[test]
    fn missing_custom_data_is_noticed() {
        let of = Node::from_json(&json!({"extended": {"compute": {"hasCustomData": true}}}));
        let none = Ovf::default();
        assert!(is_missing_custom_data(&none, &of) && !is_missing_custom_data(&ovf(), &of));
        assert!(!is_missing_custom_data(&none, &Node::null()));
    }

    #[test]
    fn certificates_are_needed_only_for_keys_without_value() {
        let mut file = ovf();
        assert!(needs_certificates(&file, &Node::null()));
        let of_service = json!({"compute": {"publicKeys": [{"keyData": "ssh-rsa AAAA ida"}]}});
        assert!(!needs_certificates(&file, &Node::from_json(&of_service)));
        file.keys = vec![Key::Fingerprint("CD".into()), Key::Value("ssh-rsa F".into())];
        let (instance, warnings) = filled(&file, &Json::Null, None);
        assert_eq!(
            (instance.public_keys, warnings.len()),
            (vec!["ssh-rsa CD".into(), "ssh-rsa F".into()], 0)
        );
        file.keys.remove(0);
        assert!(!needs_certificates(&file, &Node::null()));
    }

    #[test]
    fn nics_without_metadata_are_reported() {
        let nic =
            |mac: &str, driver: &str| Nic { mac: mac.into(), driver: Some(driver.into()), ..Nic::default() };
        let configurable = vec![
            nic("00:0d:3a:00:00:01", "hv_netvsc"),
            nic("00:0d:3a:00:00:02", "hv_netvsc"),
            nic("x", "mlx5"),
        ];
        let nics = Nics { configurable, ..Nics::default() };
        let document = json!({"network": {"interface": [{"macAddress": "000D3A000001"}, {}, 3]}});
        assert_eq!(missing_nics(&Node::from_json(&document), &nics), ["00:0d:3a:00:00:02"]);
        assert!(missing_nics(&Node::null(), &nics).is_empty());
    }

    #[test]
    fn fallback_matches_the_driver_and_ovf_env_round_trips() {
        let mut nic = Nic { name: "eth0".into(), mac: "00:0d:3a:00:00:01".into(), driver: None };
        assert_eq!(fallback(&nic)["ethernets"]["eth0"]["match"], json!({"macaddress": "00:0d:3a:00:00:01"}));
        nic.driver = Some("hv_netvsc".into());
        assert_eq!(fallback(&nic)["ethernets"]["eth0"]["match"]["driver"], "hv_netvsc");
        let (instance, _) = filled(&ovf(), &Json::Null, None);
        let again = ovf::parse(&generate_ovf_env(&instance)).unwrap().unwrap();
        assert_eq!((again.host_name, again.user), (ovf().host_name, ovf().user));
        assert_eq!((again.disable_password, again.password), (Some(false), None));
    }
}
