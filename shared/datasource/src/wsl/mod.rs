//! WSL: files in the profile of the Windows user, by the name of the instance, and those that Ubuntu Pro's agent and
//! Landscape have put there.

pub(crate) mod merge;
pub(crate) mod windows;

use config::Node;
use state::{Blobs, Instance};
use system::{Command, Error, Result, System, debug, error, info, warning};

use crate::document::{assignments, fields};
use crate::{Datasource, IdentityCheck, Search, document, media, standard};
use merge::UserData;

const NAME: &str = "WSL";

pub const WSL: Datasource = Datasource { check, ..Datasource::new(NAME, find) };

const DEFAULT_ID: &str = "iid-datasource-wsl";

/// The directories of this instance's files, and their names.
pub(crate) struct Paths {
    /// The name of the instance.
    pub name: String,
    /// The directory that Ubuntu Pro's agent writes.
    pub pro: String,
    /// The user's directory.
    pub user: String,
}

/// Asks Windows where the files are; `None` if this is not WSL.
fn paths(sys: &System) -> Result<Option<Paths>> {
    if !windows::is_wsl(sys) {
        debug!(sys, "WSL: not detected ({} does not exist)", windows::WSLPATH);
        return Ok(None);
    }
    let Some(home) = windows::profile(sys)? else { return Ok(None) };
    Ok(Some(Paths {
        name: windows::instance_name(sys)?,
        pro: format!("{home}/.ubuntupro/.cloud-init"),
        user: format!("{home}/.cloud-init"),
    }))
}

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    paths(ctx.sys)?.map_or(Ok(None), |paths| read_instance(ctx, &paths))
}

pub(crate) fn read_instance(ctx: &Search<'_>, paths: &Paths) -> Result<Option<Instance>> {
    let sys = ctx.sys;
    let metadata = metadata(sys, paths)?;
    let id = document::text(&metadata, "instance-id").unwrap_or_default();
    let (mut agent, mut user) = (None, None);
    if ctx.config.at_path(&["system_info", "distro"]).and_then(Node::as_str) == Some("ubuntu") {
        let request_id = Some(id.as_str()).filter(|id| *id != DEFAULT_ID && landscape_takes_request_id(sys));
        let pro = |name: &str| read_pro(sys, &format!("{}/{name}", paths.pro), request_id);
        agent = pro("agent.yaml");
        user = pro(&format!("{}.user-data", paths.name));
    }
    if user.is_none() && sys.is_dir(&paths.user) {
        match user_file(sys, paths) {
            Some(path) => user = read(sys, &path),
            None if agent.is_some() => info!(sys, "{}: no file with user-data", paths.user),
            None => error!(sys, "WSL: {}: no file with user-data", paths.user),
        }
    }
    let Some(user_data) = merge::merge(sys, agent, user) else { return Ok(None) };
    let mut instance =
        standard::from_metadata(NAME, &format!("DataSource{NAME}"), "unknown".into(), &metadata);
    instance.user_data = Blobs(vec![user_data]);
    Ok(Some(instance))
}

/// Reads the metadata of the instance. The agent's file takes precedence over the user's.
fn metadata(sys: &System, paths: &Paths) -> Result<Node> {
    for directory in [&paths.pro, &paths.user] {
        let path = format!("{directory}/{}.meta-data", paths.name);
        let Some(bytes) = media::read_optional(sys, &path)? else { continue };
        let mut metadata = document::parse_map(&path, &bytes)?;
        fields::drop_invalid(sys, &path, &mut metadata, standard::FIELDS);
        // With a default ID, the machine would become another instance.
        if document::text(&metadata, "instance-id").is_none() {
            return Err(Error::new(format!("{path}: instance-id: required, but missing")));
        }
        return Ok(metadata);
    }
    debug!(sys, "WSL: no metadata for {}; using the instance-id {DEFAULT_ID}", paths.name);
    Ok(Node::from([("instance-id", DEFAULT_ID.into())]))
}

/// Returns whether landscape-config has the option for the ID of an installation.
fn landscape_takes_request_id(sys: &System) -> bool {
    let command = Command::new(["landscape-config", "--help"]).timeout(windows::TIMEOUT).read_only();
    match sys.run(&command) {
        Ok(output) => output.text().contains("--installation-request-id"),
        Err(e) => {
            warning!(sys, "{e}; not setting landscape.client.installation_request_id");
            false
        }
    }
}

/// Reads a file of Ubuntu Pro; `None` if it does not exist.
fn read_pro(sys: &System, path: &str, request_id: Option<&str>) -> Option<UserData> {
    if !sys.is_file(path) {
        return None;
    }
    let mut user_data = read(sys, path)?;
    if let Some(id) = request_id {
        user_data.set_request_id(id);
    }
    Some(user_data)
}

/// Reads user-data. A file that cannot be read is logged as an error and ignored.
fn read(sys: &System, path: &str) -> Option<UserData> {
    let bytes = sys.read(path).inspect_err(|e| error!(sys, "user-data ignored: {e}")).ok()?;
    Some(UserData::new(path, bytes))
}

/// Returns the file with user-data that is most specific to this instance. Windows ignores the case of names.
fn user_file(sys: &System, paths: &Paths) -> Option<String> {
    let release = sys.read_at_most("/etc/os-release", 64 << 10).unwrap_or_default();
    let existing = sys.list(&paths.user).unwrap_or_default();
    file_names(&String::from_utf8_lossy(&release), &paths.name).into_iter().find_map(|wanted| {
        let found = existing.iter().find(|name| name.to_lowercase() == wanted.to_lowercase())?;
        Some(format!("{}/{found}", paths.user))
    })
}

/// Returns the names of files with user-data for a release (the text of os-release) and an instance, the most specific
/// first.
fn file_names(release: &str, instance: &str) -> Vec<String> {
    let values = assignments::parse(release).values;
    let value = |key: &str| values.get(key).filter(|text| !text.is_empty());
    let id = match value("ID").map(String::as_str) {
        // As cloud-init's templates call it.
        Some("rhel") => "redhat",
        id => id.unwrap_or_default(),
    };
    let version = value("VERSION_ID").or_else(|| value("VERSION_CODENAME")).map(String::as_str);
    vec![
        format!("{instance}.user-data"),
        format!("{id}-{}.user-data", version.unwrap_or_default()),
        format!("{id}-all.user-data"),
        "default.user-data".into(),
    ]
}

/// Compares the instance-id with that in the metadata file.
fn check(ctx: &Search<'_>, cached: &Instance) -> IdentityCheck {
    let current = || -> Result<Option<String>> {
        let Some(paths) = paths(ctx.sys)? else { return Ok(None) };
        Ok(document::text(&metadata(ctx.sys, &paths)?, "instance-id"))
    };
    match current() {
        Ok(Some(id)) if id.trim() == cached.id => IdentityCheck::Same,
        Ok(Some(id)) => IdentityCheck::Different(format!("the metadata file has instance-id {}", id.trim())),
        Ok(None) => IdentityCheck::Unknown("Windows did not report where the metadata is".into()),
        Err(e) => IdentityCheck::Unknown(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without them the machine would become another instance.
    #[test]
    fn a_missing_id_or_cmd_is_an_error() {
        let top = scratch::TempDir::new();
        let sys = System::new(&*top);
        let paths = Paths { name: "U".into(), pro: "/pro".into(), user: "/user".into() };
        assert!(metadata(&sys, &paths).is_ok());
        for (text, wanted) in
            [("instance-id: i-1\n", ""), ("a: b\n", "instance-id: required"), ("[a]\n", "a map")]
        {
            top.put("/user/U.meta-data", text);
            let error = metadata(&sys, &paths).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(wanted) && error.is_empty() == wanted.is_empty(), "{text}: {error}");
        }
        top.put("/proc/mounts", "C: /mnt/c 9p rw,aname=drvfs;path=C: 0 0\n");
        assert!(windows::profile(&sys).unwrap_err().to_string().contains("cmd.exe below /mnt/c"));
        let cmd = "/mnt/c/Windows/System32/cmd.exe";
        sys.write(cmd, "", system::WriteOptions::mode(0o755)).unwrap();
        // WSL's /init, which runs it, is missing.
        assert!(windows::profile(&sys).unwrap_err().to_string().contains("/init"));
    }

    #[test]
    fn seed_names_depend_on_the_release() {
        for (release, expected) in [
            (
                "ID=ubuntu\nVERSION_ID=\"24.04\"\n",
                ["U.user-data", "ubuntu-24.04.user-data", "ubuntu-all.user-data"],
            ),
            (
                "ID='debian'\nVERSION_CODENAME=forky",
                ["U.user-data", "debian-forky.user-data", "debian-all.user-data"],
            ),
            ("ID=rhel\nVERSION_ID=9", ["U.user-data", "redhat-9.user-data", "redhat-all.user-data"]),
            ("", ["U.user-data", "-.user-data", "-all.user-data"]),
        ] {
            let names = file_names(release, "U");
            assert_eq!(
                (&names[..3], &*names[3]),
                (&expected.map(String::from)[..], "default.user-data"),
                "{release}"
            );
        }
    }
}
