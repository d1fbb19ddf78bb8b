//! apk_configure: the repositories of Alpine's apk.

use config::schema::{NULL, map};
use system::{Result, WriteOptions, debug};

use crate::values::text_values::Line;
use crate::{Context, Frequency, Module};

pub const MODULE: Module =
    Module::if_set::<Keys>("apk_configure", Frequency::Instance, run).repeatable().on(&["alpine"]);

const REPOSITORIES: &str = "/etc/apk/repositories";

config::keys! {
    pub struct Alpine {
        /// The URL of the mirror.
        base_url: Line = "https://dl-cdn.alpinelinux.org/alpine";
        /// Enable the community repository.
        community_enabled: bool = false;
        /// Enable the testing repository.
        testing_enabled: bool = false;
        /// The release, such as `v3.20`, or `edge`.
        version: Line;
    }
    pub struct Apk {
        /// Do not change /etc/apk/repositories.
        preserve_repositories: bool = false;
        /// The repositories of Alpine Linux.
        alpine_repo: Option<Alpine>, types [NULL, map(Alpine::TABLE).min(1)];
        /// The base URL of a local repository.
        local_repo_base_url: Option<Line>;
    }
    pub struct Keys {
        /// Contents of /etc/apk/repositories.
        apk_repos: Option<Apk>, within min(1);
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    // The file is replaced only if everything that it will contain is valid.
    let Some(apk) = context.fully_valid_key(|k: Keys| k.apk_repos)? else { return Ok(()) };
    let sys = context.sys;
    if apk.preserve_repositories {
        debug!(sys, "{REPOSITORIES} is kept: apk_repos.preserve_repositories is set");
        return Ok(());
    }
    let Some(alpine) = apk.alpine_repo.filter(|alpine| !alpine.version.0.is_empty()) else {
        debug!(sys, "{REPOSITORIES} is kept: no release is set in apk_repos.alpine_repo");
        return Ok(());
    };
    let local = apk.local_repo_base_url.unwrap_or_default().0;
    sys.write(REPOSITORIES, render(&alpine, &local), WriteOptions::default()).map(drop)
}

fn render(alpine: &Alpine, local: &str) -> String {
    let (base, version) = (&alpine.base_url.0, &alpine.version.0);
    let mut out = format!(
        "#\n# Created by cloud-init\n#\n# This file is written on first boot of an instance\n#\n\n{base}/{version}/main\n"
    );
    if alpine.community_enabled {
        out.push_str(&format!("{base}/{version}/community\n"));
    }
    if alpine.testing_enabled {
        if version != "edge" {
            out.push_str("#\n# Testing - using with non-Edge installation may cause problems!\n#\n");
        }
        out.push_str(&format!("{base}/edge/testing\n"));
    }
    if !local.is_empty() {
        out.push_str(&format!("\n#\n# Local repo\n#\n{local}/{version}\n"));
    }
    out.push('\n');
    out
}
