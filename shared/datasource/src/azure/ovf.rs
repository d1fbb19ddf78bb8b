//! ovf-env.xml: the settings given to Azure when the machine was created, on a disc in the drive at the first boot, and
//! the copy without the password that is kept for later boots and for Azure's own agent.

use roxmltree::Node;

use crate::document::fields::parse_switch;
use crate::document::xml::{self, escape};

const NAMESPACE: &str = "http://schemas.microsoft.com/windowsazure";
/// Replaces a password.
const REDACTED: &str = "REDACTED";
/// Azure accepts no longer passwords.
const MAX_PASSWORD_LENGTH: usize = 72;

/// The settings in the file. Empty text means that a setting is missing.
#[derive(Default, Clone, PartialEq, Eq)]
pub struct Ovf {
    pub host_name: Option<String>,
    pub user: Option<String>,
    pub password: Option<String>,
    pub custom_data: Vec<u8>,
    pub disable_password: Option<bool>,
    pub keys: Vec<Key>,
    /// The type of pre-provisioning, if the machine is pre-provisioned.
    pub pps_type: Option<String>,
    pub proxy_agent: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    Value(String),
    /// The fingerprint of a certificate of the wire server.
    Fingerprint(String),
}

/// The reason why the file cannot be used. It never contains content of the file.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// It is not XML.
    Malformed(String),
    /// An element is missing, occurs twice or has an invalid value.
    Invalid(String),
}

impl Error {
    /// Returns the reason in Azure's words.
    pub fn in_file(&self, name: &str) -> String {
        match self {
            Error::Malformed(what) => format!("error parsing {name}: {what}"),
            Error::Invalid(what) => format!("unexpected metadata parsing {name}: {what}"),
        }
    }
}

type Result<T> = std::result::Result<T, Error>;

/// Parses the file; returns `None` if it is not Azure's.
///
/// # Errors
///
/// Fails, naming the element, if the file is malformed.
pub fn parse(text: &str) -> Result<Option<Ovf>> {
    let document = xml::parse(text).map_err(Error::Malformed)?;
    let root = document.root_element();
    if children(root, "ProvisioningSection").next().is_none() {
        return Ok(None);
    }
    let section = required(root, "ProvisioningSection")?;
    let linux_set = required(section, "LinuxProvisioningConfigurationSet")?;
    let section = required(root, "PlatformSettingsSection")?;
    let platform = required(section, "PlatformSettings")?;
    required(linux_set, "HostName")?;
    let password = text_of(linux_set, "UserPassword")?;
    if password.as_ref().is_some_and(|p| p.chars().count() > MAX_PASSWORD_LENGTH) {
        return Err(Error::Invalid(format!("UserPassword: longer than {MAX_PASSWORD_LENGTH} characters")));
    }
    let custom_data = text_of(linux_set, "CustomData")?.unwrap_or_default();
    let custom_data = encoding::base64::decode(custom_data.as_bytes())
        .ok_or_else(|| Error::Invalid("CustomData: not base64".into()))?;
    let pps_type = match text_of(platform, "PreprovisionedVMType")? {
        None if flag(platform, "PreprovisionedVm")? == Some(true) => Some("Running".into()),
        pps_type => pps_type.filter(|p| p != "None"),
    };
    Ok(Some(Ovf {
        host_name: text_of(linux_set, "HostName")?,
        user: text_of(linux_set, "UserName")?,
        password,
        custom_data,
        disable_password: flag(linux_set, "DisableSshPasswordAuthentication")?,
        keys: read_keys(linux_set)?,
        pps_type,
        proxy_agent: flag(platform, "ProvisionGuestProxyAgent")? == Some(true),
    }))
}

impl Ovf {
    /// Returns the password, unless it was removed from this copy earlier.
    pub fn new_password(&self) -> Option<&str> {
        self.password.as_deref().filter(|p| *p != REDACTED)
    }
}

fn children<'d>(parent: Node<'d, 'd>, name: &'static str) -> impl Iterator<Item = Node<'d, 'd>> {
    parent.children().filter(move |child| child.has_tag_name((NAMESPACE, name)))
}

fn one<'d>(parent: Node<'d, 'd>, name: &'static str) -> Result<Option<Node<'d, 'd>>> {
    let mut found = children(parent, name);
    let (first, more) = (found.next(), found.count());
    match more {
        0 => Ok(first),
        _ => Err(Error::Invalid(format!("multiple configuration matches for '{name}' ({})", more + 1))),
    }
}

fn required<'d>(parent: Node<'d, 'd>, name: &'static str) -> Result<Node<'d, 'd>> {
    one(parent, name)?.ok_or_else(|| Error::Invalid(format!("missing configuration for '{name}'")))
}

fn text_of(parent: Node<'_, '_>, name: &'static str) -> Result<Option<String>> {
    Ok(one(parent, name)?.map(xml::direct_text).filter(|text| !text.trim().is_empty()))
}

fn flag(parent: Node<'_, '_>, name: &'static str) -> Result<Option<bool>> {
    Ok(text_of(parent, name)?.map(|text| parse_switch(&text) == Some(true)))
}

fn read_keys(linux_set: Node<'_, '_>) -> Result<Vec<Key>> {
    let Some(ssh) = one(linux_set, "SSH")? else { return Ok(Vec::new()) };
    let Some(keys) = one(ssh, "PublicKeys")? else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for key in children(keys, "PublicKey") {
        match (text_of(key, "Value")?, text_of(key, "Fingerprint")?) {
            (Some(value), _) => all.push(Key::Value(value.trim().to_string())),
            (None, Some(print)) => all.push(Key::Fingerprint(print.trim().to_string())),
            (None, None) => {}
        }
    }
    Ok(all)
}

/// Returns the file without passwords: every element with the name of the user's password is emptied, in any namespace.
/// `None` if the file cannot be parsed, so that passwords cannot be found.
pub fn redacted(text: &str) -> Option<String> {
    let document = xml::parse(text).ok()?;
    let (mut kept, mut done) = (String::with_capacity(text.len()), 0);
    for element in document.descendants().filter(Node::is_element) {
        let range = xml::content_range(element);
        // An element inside another one is removed with it.
        if element.tag_name().name().contains("UserPassword") && !range.is_empty() && range.start >= done {
            kept.push_str(text.get(done..range.start)?);
            kept.push_str(REDACTED);
            done = range.end;
        }
    }
    kept.push_str(text.get(done..)?);
    Some(kept)
}

/// Returns a file for the agent and for later boots, for a machine without one.
pub fn generate_ovf_env(host_name: &str, user: &str, disable_password: Option<bool>) -> String {
    let element = |name: &str, text: &str| match text {
        "" => String::new(),
        text => format!("<w:{name}>{}</w:{name}>", escape(text)),
    };
    let disable = disable_password.map(|d| d.to_string()).unwrap_or_default();
    let linux_set = [
        element("ConfigurationSetType", "LinuxProvisioningConfiguration"),
        element("UserName", user),
        element("DisableSshPasswordAuthentication", &disable),
        format!("<w:HostName>{}</w:HostName>", escape(host_name)),
    ];
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
         <o:Environment xmlns:o=\"http://schemas.dmtf.org/ovf/environment/1\" xmlns:w=\"{NAMESPACE}\">\n\
         <w:ProvisioningSection><w:Version>1.0</w:Version><w:LinuxProvisioningConfigurationSet>{}\
         </w:LinuxProvisioningConfigurationSet></w:ProvisioningSection>\n\
         <w:PlatformSettingsSection><w:Version>1.0</w:Version><w:PlatformSettings>\
         <w:ProvisionGuestAgent>true</w:ProvisionGuestAgent></w:PlatformSettings></w:PlatformSettingsSection>\n\
         </o:Environment>\n",
        linux_set.concat()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(linux: &str, platform: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?>\n<Environment xmlns=\"http://schemas.dmtf.org/ovf/environment/1\" \
             xmlns:wa=\"{NAMESPACE}\">\n<wa:ProvisioningSection><wa:LinuxProvisioningConfigurationSet>{linux}\
             </wa:LinuxProvisioningConfigurationSet></wa:ProvisioningSection><wa:PlatformSettingsSection>\
             <wa:PlatformSettings>{platform}</wa:PlatformSettings></wa:PlatformSettingsSection></Environment>"
        )
    }

    #[test]
    fn every_element_is_read_and_the_password_redacted() {
        let text = file(
            "<wa:HostName>vm</wa:HostName><wa:UserName>zoe</wa:UserName><wa:UserPassword>a&amp;b</wa:UserPassword>\
             <wa:DisableSshPasswordAuthentication>false</wa:DisableSshPasswordAuthentication>\
             <wa:CustomData>I2Ns\n b3Vk</wa:CustomData><wa:SSH><wa:PublicKeys><wa:PublicKey>\
             <wa:Fingerprint>AB</wa:Fingerprint><wa:Path>/x</wa:Path></wa:PublicKey><wa:PublicKey>\
             <wa:Fingerprint>CD</wa:Fingerprint><wa:Value> ssh-rsa A </wa:Value></wa:PublicKey><wa:PublicKey/>\
             </wa:PublicKeys></wa:SSH>",
            "<wa:PreprovisionedVm>false</wa:PreprovisionedVm><wa:ProvisionGuestProxyAgent>true\
             </wa:ProvisionGuestProxyAgent>",
        );
        let ovf = parse(&text).unwrap().unwrap();
        let unwrapped = |text: &Option<String>| text.clone().unwrap_or_default();
        assert_eq!([unwrapped(&ovf.host_name), unwrapped(&ovf.user)], ["vm", "zoe"]);
        assert_eq!(ovf.new_password(), Some("a&b"));
        assert_eq!((&*ovf.custom_data, ovf.disable_password), (&b"#cloud"[..], Some(false)));
        assert_eq!(ovf.keys, [Key::Fingerprint("AB".into()), Key::Value("ssh-rsa A".into())]);
        assert_eq!((ovf.pps_type.as_deref(), ovf.proxy_agent), (None, true));
        let kept = redacted(&text).unwrap();
        assert_eq!(kept, text.replace("a&amp;b", "REDACTED"));
        let again = parse(&kept).unwrap().unwrap();
        assert_eq!((again.new_password(), unwrapped(&again.password)), (None, "REDACTED".into()));
    }

    #[test]
    fn invalid_files_are_rejected_with_the_element() {
        const HOST: &str = "<wa:HostName/>";
        let longest = format!("{HOST}<wa:UserPassword>{}</wa:UserPassword>", "ü".repeat(72));
        let too_long = longest.replacen('ü', "üü", 1);
        for (text, expected) in [
            (file(HOST, ""), "good"),
            (file("", ""), "unexpected metadata parsing x: missing configuration for 'HostName'"),
            (
                file(&HOST.repeat(2), ""),
                "unexpected metadata parsing x: multiple configuration matches for 'HostName' (2)",
            ),
            (
                file(&format!("{HOST}<wa:CustomData>?</wa:CustomData>"), ""),
                "unexpected metadata parsing x: CustomData: not base64",
            ),
            (file(&longest, ""), "good"),
            (file(&too_long, ""), "unexpected metadata parsing x: UserPassword: longer than 72 characters"),
            (
                file(HOST, "").replace(":PlatformSettingsS", ":S"),
                "unexpected metadata parsing x: missing configuration for 'PlatformSettingsSection'",
            ),
            (file(HOST, "").replace("<wa:P", "<P").replace("</wa:P", "</P"), "another's"),
            ("<Environment/>".into(), "another's"),
            ("<Environment>".into(), "error parsing x: an element is not closed"),
        ] {
            let outcome = match parse(&text) {
                Ok(found) => if found.is_some() { "good" } else { "another's" }.to_string(),
                Err(e) => e.in_file("x"),
            };
            assert_eq!(outcome, expected, "{text}");
        }
    }

    #[test]
    fn pps_type_overrides_the_preprovisioned_flag() {
        for (platform, expected) in [
            ("<wa:PreprovisionedVm>true</wa:PreprovisionedVm>", Some("Running")),
            ("<wa:PreprovisionedVMType>Savable</wa:PreprovisionedVMType>", Some("Savable")),
            ("<wa:PreprovisionedVMType>None</wa:PreprovisionedVMType>", None),
            ("<wa:PreprovisionedVMType/>", None),
        ] {
            let ovf = parse(&file("<wa:HostName>x</wa:HostName>", platform)).unwrap().unwrap();
            assert_eq!(ovf.pps_type.as_deref(), expected, "{platform}");
        }
    }

    #[test]
    fn flags_have_upstreams_spellings() {
        for (text, flag) in [
            ("true", Some(true)),
            (" True\n", Some(true)),
            ("TRUE", Some(true)),
            ("1", Some(true)),
            ("Yes", Some(true)),
            ("on", Some(true)),
            ("false", Some(false)),
            ("False", Some(false)),
            ("0", Some(false)),
            ("no", Some(false)),
            ("OFF", Some(false)),
            ("", None),
            ("enabled", None),
            ("2", None),
        ] {
            assert_eq!(parse_switch(text), flag, "{text}");
        }
    }

    #[test]
    fn passwords_are_redacted_in_any_notation() {
        let nested = "<a><UserPassword>x<b:UserPassword xmlns:b='u'>y</b:UserPassword></UserPassword><UserPassword/>\
                      <OldUserPassword>z</OldUserPassword></a>";
        let expected = "<a><UserPassword>REDACTED</UserPassword><UserPassword/>\
                        <OldUserPassword>REDACTED</OldUserPassword></a>";
        assert_eq!(redacted(nested).as_deref(), Some(expected));
        // A password in pieces, and one behind a `>` in an attribute.
        let pieces = "<a><UserPassword b='>'>x<![CDATA[y]]>z<!-- w --></UserPassword ></a>";
        assert_eq!(redacted(pieces).as_deref(), Some("<a><UserPassword b='>'>REDACTED</UserPassword ></a>"));
        assert_eq!(redacted("<a>"), None);
        let ovf = parse(&generate_ovf_env("vm & co", "zoe", Some(true))).unwrap().unwrap();
        assert_eq!((ovf.host_name.as_deref(), ovf.user.as_deref()), (Some("vm & co"), Some("zoe")));
        assert_eq!(ovf.disable_password, Some(true));
        assert_eq!(parse(&generate_ovf_env("vm", "", None)).unwrap().unwrap().user, None);
    }
}
