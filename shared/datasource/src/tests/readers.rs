//! Reads the data of clouds whose medium or service a test cannot provide without privileges, from plain files.

use std::collections::BTreeMap;

use state::Instance;
use system::Result;

use crate::vmware::{self, transport};
use crate::{
    Search, altcloud, cloudsigma, document, ibmcloud, lxd, ovf, rbxcloud, scaleway, smartos, standard, wsl,
};

/// Reads an instance from files in a directory, each of which is a file of a disk, or a value of another medium.
pub type Reader = fn(&Search<'_>, &str) -> Result<Option<Instance>>;

/// Clouds whose medium a test cannot attach without privileges, or whose service serves privileged ports only.
pub const READERS: [(&str, Reader); 10] = [
    ("AltCloud", |ctx, at| {
        let (_, name) = altcloud::detect(ctx)?.unwrap_or((altcloud::Kind::Vsphere, String::new()));
        let user_data = altcloud::user_data(ctx.sys, at)?;
        Ok(user_data.map(|data| altcloud::instance(ctx.sys, &name, at, data)))
    }),
    ("CloudSigma", |ctx, at| {
        let context = cloudsigma::parse_context(&ctx.sys.read(format!("{at}/context"))?)?;
        cloudsigma::instance(ctx.sys, &context).map(Some)
    }),
    ("IBMCloud", |ctx, at| {
        let (_, instance) = ibmcloud::read(ctx.sys, at, "/dev/xvdh", ibmcloud::Variant::OsCode)?;
        Ok(Some(instance))
    }),
    ("LXD", |ctx, at| {
        let mut values = values(ctx, at)?;
        let metadata = values.remove("meta-data").unwrap_or_default();
        let devices = values.remove("devices").unwrap_or_default();
        let devices = config::json::value(&devices).unwrap_or_default();
        let parsed = document::parse_map("LXD /1.0/meta-data", &metadata)?;
        lxd::instance(ctx, &metadata, parsed, &values, &devices).map(Some)
    }),
    ("OVF", ovf::read_mounted_disc),
    ("RbxCloud", |ctx, at| rbxcloud::read(ctx.sys, at)),
    ("Scaleway", |ctx, at| {
        let mut values = values(ctx, at)?;
        let mut file = |name: &str| values.remove(name).unwrap_or_default();
        let metadata = document::parse_map("Scaleway's metadata", &file("conf"))?;
        let (user_data, vendor_data) =
            (standard::blob(file("user_data")), standard::blob(file("vendor_data")));
        // As fetched over IPv6.
        let (base, nic) = ("http://[fd00:42::42]".into(), "eth0".into());
        let documents = scaleway::Documents { metadata, user_data, vendor_data, lease: None, base, nic };
        scaleway::instance(ctx.sys, documents).map(Some)
    }),
    ("SmartOS", |ctx, at| {
        let mut values = values(ctx, at)?;
        let names = smartos::KEYS.map(|(name, key, _)| (name, key)).into_iter().chain(smartos::JSON_KEYS);
        let values = names.filter_map(|(name, key)| Some((name.to_string(), values.remove(key)?))).collect();
        smartos::instance(ctx, values, String::new()).map(Some)
    }),
    ("VMware", |ctx, at| {
        let values = values(ctx, at)?;
        let text = |key: &str| Some(String::from_utf8_lossy(values.get(key)?).into_owned());
        let variable = |key: &str| Some((text(&format!("{key}.encoding")), text(key)?));
        let names = ["metadata", "userdata", "vendordata"];
        let data = transport::to_data(ctx.sys, "guestinfo", names, names.map(variable));
        data.map(|data| vmware::build_instance(ctx, data)).transpose()
    }),
    ("WSL", |ctx, at| {
        wsl::read_instance(ctx, &wsl::Paths { name: "i".into(), pro: format!("{at}/pro"), user: at.into() })
    }),
];

/// Returns the content of each file of a directory.
fn values(ctx: &Search<'_>, at: &str) -> Result<BTreeMap<String, Vec<u8>>> {
    let names = ctx.sys.list(at)?;
    names.into_iter().map(|name| Ok((name.clone(), ctx.sys.read(format!("{at}/{name}"))?))).collect()
}
