//! Reads metadata, user-data and vendor-data from the environment or from guestinfo.

use system::{Result, System};

use super::VMWARE;
use super::data::Data;
use super::metadata::{blobs, non_empty, parse};
use crate::Search;
use crate::firmware::guestinfo::Guestinfo;

/// A variable's encoding and value.
pub type Variable = Option<(Option<String>, String)>;

/// Returns the data in environment variables, which are used only if `VMX_GUESTINFO` is set as well.
pub fn read_environment(sys: &System) -> Option<Data> {
    // A program that works on an image has the environment of another machine.
    let is_set = std::env::var_os("VMX_GUESTINFO").is_some_and(|value| !value.is_empty());
    if !sys.is_live() || !is_set {
        return None;
    }
    let get = |name: &str| {
        let value = std::env::var_os(name)?.to_string_lossy().into_owned();
        non_empty(&value).map(Into::into)
    };
    let variable = |name: &str| -> Variable { Some((get(&format!("{name}_ENCODING")), get(name)?)) };
    let names = ["VMX_GUESTINFO_METADATA", "VMX_GUESTINFO_USERDATA", "VMX_GUESTINFO_VENDORDATA"];
    to_data(sys, "envvar", names, names.map(variable))
}

/// Returns the data in guestinfo; `None` if no variable is set, or no tool that could read them is installed.
///
/// # Errors
/// Fails if the tools cannot read a variable.
pub fn read_guestinfo(ctx: &Search<'_>) -> Result<Option<Data>> {
    let Some(guestinfo) = Guestinfo::of_search(ctx, VMWARE.name) else { return Ok(None) };
    let get = |key: &str| -> Result<Option<String>> {
        Ok(guestinfo.get(key)?.as_deref().and_then(non_empty).map(Into::into))
    };
    let variable = |key: &str| -> Result<Variable> {
        let Some(value) = get(key)? else { return Ok(None) };
        Ok(Some((get(&format!("{key}.encoding"))?, value)))
    };
    let values = [variable("metadata")?, variable("userdata")?, variable("vendordata")?];
    let names = ["guestinfo.metadata", "guestinfo.userdata", "guestinfo.vendordata"];
    Ok(to_data(ctx.sys, "guestinfo", names, values))
}

pub fn to_data(
    sys: &System,
    transport: &'static str,
    names: [&'static str; 3],
    values: [Variable; 3],
) -> Option<Data> {
    if values.iter().all(Option::is_none) {
        return None;
    }
    let [metadata, user_data, vendor_data] = values;
    let data = Data {
        transport,
        key: names[0],
        metadata: parse(sys, names[0], metadata),
        user_data: blobs(sys, names[1], user_data),
        vendor_data: blobs(sys, names[2], vendor_data),
        ..Data::default()
    };
    // Invalid metadata is not the same as none.
    Some(data).filter(|data| data.metadata.is_none() || !data.is_empty())
}
