//! The instance that a datasource found, and its cache, which later stages and boots read.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use system::{Error, Result, System, WriteGroup, WriteOptions, debug, warning};

use crate::json::take;
use crate::layout::RAW_DATA;
use crate::previous_id::PreviousId;
use crate::{Layout, NetworkFormat, json};

/// The version of the cache's format. Unknown fields of a later version are kept.
const VERSION: u64 = 1;

/// Raw user-data or vendor-data; some datasources return a list of blobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Blobs(pub Vec<Vec<u8>>);

impl Blobs {
    /// Returns whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Vec::is_empty)
    }
}

/// The data that a datasource has about this machine. Empty text and `None` stand for unknown.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Instance {
    /// The instance ID.
    #[serde(rename = "instance-id")]
    pub id: String,
    /// The name in `datasource_list`, such as `NoCloud`.
    pub datasource: String,
    /// The description in status and log, such as `DataSourceNoCloud [seed=/dev/vdb]`.
    pub description: String,
    /// The stage in which user-data is processed and modules run.
    pub dsmode: DsMode,
    /// The hostname.
    pub local_hostname: Option<String>,
    /// Whether the hostname is used as it is: what follows its first dot is not split off as its domain.
    pub is_hostname_whole: bool,
    /// The SSH keys for the default user.
    pub public_keys: Vec<String>,
    /// The availability zone.
    pub availability_zone: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The number of this machine within its launch.
    pub launch_index: Option<i64>,
    /// `v1.cloud_name` of the instance-data.
    pub cloud_name: String,
    /// `v1.platform` of the instance-data.
    pub platform: String,
    /// `v1.subplatform` of the instance-data.
    pub subplatform: String,
    /// The random seed that some clouds provide (base64).
    pub random_seed: Option<String>,
    /// The network configuration.
    pub network: Option<NetworkConfig>,
    /// The cloud-config of the datasource itself, which vendor-data overrides.
    pub config: Value,
    /// The fetched metadata, which instance-data.json has as `ds`.
    pub crawled: Value,
    /// Names of keys that only root may read, in addition to the defaults.
    pub sensitive: Vec<String>,
    /// Block devices by the cloud's name for them (`ephemeral0` → `vdb`).
    pub devices: Map<String, Value>,
    /// How modules find the device of a name.
    pub device_search: DeviceSearch,
    /// The names of devices whose data are lost when the machine is stopped or moved. The module `mounts` writes a notice
    /// that says so on each of them.
    pub temporary_devices: Vec<String>,
    /// Events at which the network configuration is applied again, in addition to the datasource's defaults.
    pub update_events: Vec<String>,
    /// The service that takes the machine's public host keys, if the cloud has one.
    pub host_key_service: Option<HostKeyService>,
    /// Values that the datasource's identity check needs at a later boot (a serial number, a hash).
    pub check: Map<String, Value>,
    /// Fields of a later version, which are kept.
    #[serde(flatten)]
    pub other: Map<String, Value>,
    /// The user-data.
    #[serde(skip)]
    pub user_data: Blobs,
    /// The vendor-data.
    #[serde(skip)]
    pub vendor_data: Blobs,
    /// The second vendor-data.
    #[serde(skip)]
    pub vendor_data2: Blobs,
    /// The reason why stored raw data could not be read. The data is then unknown, although it is empty here.
    #[serde(skip)]
    pub raw_data_error: Option<String>,
    /// Whether the instance was reconstructed from text files because the cache could not be used. It is then never
    /// stored in the place of the cache.
    #[serde(skip)]
    pub is_reconstructed: bool,
}

/// How modules find the device of a name that the cloud defines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceSearch {
    /// The devices are those of this machine.
    #[default]
    Listed,
    /// The cloud may have named a device for another driver: `sdb` may be `vdb` or `xvdb`.
    Remapped,
    /// As `Remapped`; a file system whose label is the name is found too, and a swap area by the name `swap`.
    RemappedOrLabelled,
}

encoding::words! {
    /// The source of a network configuration, by upstream's name, as the log shows it.
    pub enum NetworkSource {
        /// `network-config=` or `ip=` on the kernel command line.
        CommandLine = "cmdline",
        /// Files that the initramfs left in /run.
        Initramfs = "initramfs",
        /// `network:` in /etc/cloud.
        System = "system_cfg",
        /// The datasource's metadata.
        Datasource = "ds",
        /// DHCP on the preferred NIC.
        Fallback = "fallback",
    }
}

encoding::words! {
    /// The stage in which an instance's user-data is processed and its modules run.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(from = "String", rename_all = "kebab-case")]
    pub enum DsMode {
        /// After networking; also what an unknown value in an older cache stands for.
        #[default]
        Net = "net",
        /// Before networking.
        Local = "local",
        /// The data is ignored.
        Disabled = "disabled",
    }
}

impl From<String> for DsMode {
    fn from(text: String) -> DsMode {
        DsMode::from_word(&text).unwrap_or_default()
    }
}

/// A service that takes the machine's public SSH host keys, each in a PUT request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostKeyService {
    /// The URL, to which a slash and the type of the key are added.
    pub url: String,
    /// The names and values of the headers that requests need.
    pub headers: Vec<(String, String)>,
}

/// A network configuration and its format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkConfig {
    /// The format.
    pub format: NetworkFormat,
    /// The configuration.
    #[serde(default)]
    pub content: Value,
    /// The file that it was read from, for messages; empty if unknown.
    #[serde(default)]
    pub source: String,
    /// The positions of its values in that file (`config::source_map::positions`); empty for formats other than YAML.
    #[serde(default)]
    pub positions: String,
}

/// The content of the cache.
#[derive(Debug, Clone)]
pub enum Cached {
    /// An instance.
    Instance(Box<Instance>),
    /// A pickle: the instance was set up by Python's cloud-init.
    Python {
        /// The instance ID, from the text files beside the pickle.
        id: Option<String>,
    },
    /// The cache cannot be read, or is not valid.
    Corrupt,
    /// There is no cache.
    Missing,
}

impl Instance {
    /// Returns everything but the raw data, as the cache has it.
    pub fn to_json(&self) -> Value {
        // All keys are strings, so this cannot fail.
        let mut all = serde_json::to_value(self).unwrap_or_default();
        all["version"] = VERSION.into();
        all
    }

    fn from_json(value: Value) -> Option<Instance> {
        let Value::Object(mut all) = value else { return None };
        all.remove("version");
        let all = &mut all;
        let instance = Instance {
            id: take(all, "instance-id")?,
            datasource: take(all, "datasource")?,
            description: take(all, "description")?,
            dsmode: take(all, "dsmode")?,
            local_hostname: take(all, "local-hostname")?,
            is_hostname_whole: take(all, "is-hostname-whole")?,
            public_keys: take(all, "public-keys")?,
            availability_zone: take(all, "availability-zone")?,
            region: take(all, "region")?,
            launch_index: take(all, "launch-index")?,
            cloud_name: take(all, "cloud-name")?,
            platform: take(all, "platform")?,
            subplatform: take(all, "subplatform")?,
            random_seed: take(all, "random-seed")?,
            network: take(all, "network")?,
            config: take(all, "config")?,
            crawled: take(all, "crawled")?,
            sensitive: take(all, "sensitive")?,
            devices: take(all, "devices")?,
            device_search: take(all, "device-search")?,
            temporary_devices: take(all, "temporary-devices")?,
            update_events: take(all, "update-events")?,
            host_key_service: take(all, "host-key-service")?,
            check: take(all, "check")?,
            other: std::mem::take(all),
            ..Instance::default()
        };
        (!instance.id.is_empty() && !instance.datasource.is_empty()).then_some(instance)
    }

    /// Writes the cache, and the raw data beside it, for the instance that the link already points at. A pickle of Python's
    /// cloud-init is kept, so that a downgrade loses nothing; the cache is then written to /run.
    ///
    /// # Errors
    /// Fails if a file cannot be written.
    pub fn store(&self, sys: &System, layout: &Layout) -> Result<()> {
        let mut files = sys.write_group();
        self.store_in(&mut files, layout)?;
        files.finish().map(drop)
    }

    /// Does the same as [`Instance::store`] in a group of files.
    ///
    /// # Errors
    /// As for [`Instance::store`].
    pub fn store_in<'a>(&'a self, files: &mut WriteGroup<'a>, layout: &Layout) -> Result<()> {
        // If any raw file could not be read, none is overwritten: the data here is empty or incomplete.
        for (name, raw) in self.raw_files().into_iter().filter(|_| self.raw_data_error.is_none()) {
            // As upstream, an empty file if there is no data.
            files.write(layout.instance(name), raw_file_content(raw), WriteOptions::secret().durable())?;
        }
        self.store_cache(files, layout)
    }

    /// Does the same as [`Instance::store`] for the cache alone.
    ///
    /// # Errors
    /// Fails if the cache cannot be written.
    pub fn store_without_raw_data(&self, sys: &System, layout: &Layout) -> Result<()> {
        let mut files = sys.write_group();
        self.store_cache(&mut files, layout)?;
        files.finish().map(drop)
    }

    fn store_cache(&self, files: &mut WriteGroup<'_>, layout: &Layout) -> Result<()> {
        let sys = files.system();
        let how = WriteOptions::mode(0o400).durable();
        let of_this_boot = self.is_reconstructed || is_pickle(sys, layout);
        let path = if of_this_boot { layout.runtime_cache() } else { layout.cache() };
        let mut all = self.to_json();
        if let Ok(stored) = json::read(sys, &path) {
            keep_unknown_fields(&mut all, stored);
        }
        files.write(path, json::to_text(&all, 1).into_bytes(), how)
    }

    fn raw_files(&self) -> [(&'static str, &Blobs); 3] {
        let [user, vendor, vendor2] = RAW_DATA;
        [(user, &self.user_data), (vendor, &self.vendor_data), (vendor2, &self.vendor_data2)]
    }

    /// Reconstructs the instance from the text files beside the cache, for a boot that finds no datasource while the cache
    /// is a pickle or damaged.
    pub fn from_text_files(sys: &System, layout: &Layout) -> Option<Instance> {
        let id = PreviousId::read(sys, layout).known()?.to_string();
        let described = sys.read_text(layout.datasource()).ok()?;
        // `DataSourceNoCloud: DataSourceNoCloud [seed=/dev/sr0]`
        let (class, description) = described.trim().split_once(": ")?;
        let name = class.strip_prefix("DataSource").unwrap_or(class);
        // The classes of the two stages: no datasource has a name that ends so.
        let without_stage = ["Local", "Net"].into_iter().find_map(|end| name.strip_suffix(end));
        let datasource = without_stage.unwrap_or(name).to_string();
        let mut instance = Instance {
            id,
            platform: datasource.to_lowercase(),
            cloud_name: "unknown".into(),
            subplatform: "unknown".into(),
            description: description.to_string(),
            datasource,
            is_reconstructed: true,
            ..Instance::default()
        };
        instance.read_raw_files(sys, layout);
        Some(instance)
    }

    fn read_raw_files(&mut self, sys: &System, layout: &Layout) {
        let is_reconstructed = self.is_reconstructed;
        let mut read = |name: &str| match read_raw(sys, &layout.instance(name)) {
            Ok(raw) => raw,
            // Older releases of Python's cloud-init had fewer kinds of vendor-data.
            Err(e) if e.is_not_found() && is_reconstructed && name != RAW_DATA[0] => Blobs::default(),
            Err(e) => {
                self.raw_data_error.get_or_insert(e.to_string());
                Blobs::default()
            }
        };
        let [user, vendor, vendor2] = RAW_DATA.map(&mut read);
        (self.user_data, self.vendor_data, self.vendor_data2) = (user, vendor, vendor2);
    }

    /// Reads the cache and the raw data. A cache that cannot be read is logged and leads to a search; as that finds the same
    /// ID, no module runs again.
    pub fn load(sys: &System, layout: &Layout) -> Cached {
        let mut cached = Instance::load_without_raw_data(sys, layout);
        if let Cached::Instance(instance) = &mut cached {
            instance.read_raw_files(sys, layout);
        }
        cached
    }

    /// Does the same as [`Instance::load`] without the raw data, which may be large.
    pub fn load_without_raw_data(sys: &System, layout: &Layout) -> Cached {
        let broken = if is_pickle(sys, layout) {
            Cached::Python { id: PreviousId::read(sys, layout).known().map(String::from) }
        } else {
            match read_cache(sys, &layout.cache()) {
                Ok(instance) => return Cached::Instance(instance),
                Err(e) if e.is_not_found() => {
                    debug!(sys, "no cache at {}", layout.cache());
                    return Cached::Missing;
                }
                Err(e) => {
                    warning!(sys, "{e}; searching for a datasource");
                    Cached::Corrupt
                }
            }
        };
        // The instance that a stage of this boot found instead.
        match read_cache(sys, &layout.runtime_cache()) {
            Ok(mut instance) => {
                instance.is_reconstructed = matches!(broken, Cached::Corrupt);
                Cached::Instance(instance)
            }
            Err(e) => {
                if !e.is_not_found() {
                    warning!(sys, "{e}; searching for a datasource");
                }
                broken
            }
        }
    }
}

/// Copies the fields of a later version, and that version, from the stored cache of the same instance. Metadata that is
/// fetched again does not have them.
fn keep_unknown_fields(all: &mut Value, stored: Value) {
    let (Value::Object(all), Value::Object(stored)) = (all, stored) else { return };
    if all.get("instance-id") != stored.get("instance-id") {
        return;
    }
    for (key, value) in stored {
        let is_later = key == "version" && value.as_u64().is_some_and(|version| version > VERSION);
        if is_later || !all.contains_key(&key) {
            all.insert(key, value);
        }
    }
}

fn read_cache(sys: &System, path: &str) -> Result<Box<Instance>> {
    let instance = Instance::from_json(json::read(sys, path)?);
    instance.map(Box::new).ok_or_else(|| Error::new(format!("{path}: not a valid instance cache")))
}

/// Returns whether the cache is a pickle. Protocol 2 and later begin with 0x80 (PEP 307); protocols 0 and 1, which Python 2
/// wrote, begin with the opcode of a class or a tuple. A JSON cache begins with another byte.
/// Returns whether Python's cloud-init set up the instance.
pub(crate) fn is_pickle(sys: &System, layout: &Layout) -> bool {
    sys.read_head(layout.cache(), 1)
        .is_ok_and(|bytes| bytes.first().is_some_and(|byte| [0x80, b'c', b'('].contains(byte)))
}

fn raw_file_content(raw: &Blobs) -> Cow<'_, [u8]> {
    match &raw.0[..] {
        [] => Cow::default(),
        [one] => one.into(),
        many => {
            let items: Vec<_> = many.iter().map(|b| String::from_utf8_lossy(b).into_owned()).collect();
            Value::from(items).to_string().into_bytes().into()
        }
    }
}

/// Reads raw data. A missing file is an error, as it is written before the cache.
fn read_raw(sys: &System, path: &str) -> Result<Blobs> {
    let bytes = sys.read(path)?;
    if bytes.is_empty() {
        return Ok(Blobs::default());
    }
    // A list that this program wrote has far fewer items than the limit: what has more is a single text of the user.
    if bytes.first() == Some(&b'[')
        && json::check(path, &bytes).is_ok()
        && let Ok(items) = serde_json::from_slice::<Vec<String>>(&bytes)
    {
        return Ok(Blobs(items.into_iter().map(String::into_bytes).collect()));
    }
    Ok(Blobs(vec![bytes]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_survive() {
        let text = r#"{"version": 9, "instance-id": "i-1", "datasource": "NoCloud", "new": {"x": 1},
                       "network": {"format": "yaml", "content": {"version": 2}}}"#;
        let instance = Instance::from_json(serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!(instance.dsmode, DsMode::Net);
        assert_eq!(instance.network.as_ref().unwrap().format, NetworkFormat::Yaml);
        let again = instance.to_json();
        assert_eq!(again["new"]["x"], 1);
        assert_eq!(Instance::from_json(again).unwrap(), instance);
        let service = HostKeyService { url: "http://h/keys".into(), headers: vec![("a".into(), "b".into())] };
        let update_events = vec!["boot".to_string()];
        let instance = Instance { host_key_service: Some(service), update_events, ..instance };
        assert_eq!(Instance::from_json(instance.to_json()).unwrap(), instance);
    }

    #[test]
    fn fields_of_a_later_version_survive_a_new_search() {
        let stored =
            serde_json::json!({"version": 9, "instance-id": "i-1", "new": {"x": 1}, "platform": "old"});
        let found = Instance {
            id: "i-1".into(),
            datasource: "NoCloud".into(),
            platform: "p".into(),
            ..Instance::default()
        };
        let mut all = found.to_json();
        keep_unknown_fields(&mut all, stored.clone());
        assert_eq!(
            (&all["version"], &all["new"]["x"], &all["platform"]),
            (&9.into(), &1.into(), &"p".into())
        );
        let mut other = Instance { id: "i-2".into(), ..found }.to_json();
        keep_unknown_fields(&mut other, stored);
        assert!(other.get("new").is_none() && other["version"] == VERSION);
    }

    #[test]
    fn invalid_caches_are_rejected() {
        for text in ["[]", "{}", r#"{"instance-id": "", "datasource": "x"}"#, r#"{"instance-id": 1}"#] {
            assert_eq!(Instance::from_json(serde_json::from_str(text).unwrap()), None);
        }
    }
}
