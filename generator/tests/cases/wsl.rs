//! Windows Subsystem for Linux.

use super::{BASE, Case};

const WSL: &[(&str, &str)] = &[("SYSTEMD_VIRTUALIZATION", "container:wsl")];
const WSL_MOUNTS: (&str, &str) = (
    "/proc/mounts",
    "none /mnt/wsl tmpfs rw 0 0\nC:\\134 @ROOT@/mnt/c 9p rw,noatime,aname=drvfs;path=C:\\;uid=0 0 0\n",
);
const WSL_SHELL: (&str, &str) = ("/mnt/c/Windows/System32/cmd.exe", "#!/bin/sh\n");
const WSL_INIT: (&str, &str) =
    ("/init", "#!/bin/sh\n[ \"$2 $3 $4\" = '/u /c echo.%USERPROFILE%' ] && printf 'C\\0:\\0\\r\\0\\n\\0'\n");
const WSL_PATH: (&str, &str) = (
    "/bin/wslpath",
    "#!/bin/sh\n[ \"$1 $2\" = '-au C:' ] && echo @ROOT@/profile\n[ \"$1 $2\" = '-am /' ] && echo //wsl.localhost/U-24/\nexit 0\n",
);
const UBUNTU: (&str, &str) = ("/etc/os-release", "NAME=\"Ubuntu\"\nID=ubuntu\nVERSION_ID=\"24.04\"\n");
const HOSTS_INIT: Option<&str> = Some("upstream runs /init outside of PATH_ROOT");

pub const CASES: &[Case] = cases! {
    "wsl without a drive" {
        files: &[("/proc/mounts", "none / ext4 rw 0 0\n")],
        env: &[("SYSTEMD_VIRTUALIZATION", "container:wsl")],
    }
    "wsl, the file for all" {
        files: &[WSL_MOUNTS, WSL_SHELL, WSL_INIT, WSL_PATH, UBUNTU, ("/profile/.cloud-init/default.user-data", "")],
        env: WSL,
        config: "datasource_list: [ WSL, None ]\n",
        differs: HOSTS_INIT,
    }
    "wsl, the file of the release" {
        files: &[WSL_MOUNTS, WSL_SHELL, WSL_INIT, WSL_PATH, UBUNTU, ("/profile/.cloud-init/ubuntu-24.04.user-data", "")],
        env: WSL,
        config: "datasource_list: [ WSL, None ]\n",
        differs: HOSTS_INIT,
    }
    "wsl, the file of another release" {
        files: &[WSL_MOUNTS, WSL_SHELL, WSL_INIT, WSL_PATH, UBUNTU, ("/profile/.cloud-init/ubuntu-22.04.user-data", "")],
        env: WSL,
    }
    "wsl, Ubuntu Pro's agent" {
        files: &[WSL_MOUNTS, WSL_SHELL, WSL_INIT, WSL_PATH, UBUNTU, ("/profile/.ubuntupro/.cloud-init/agent.yaml", "")],
        env: WSL,
        config: "datasource_list: [ WSL, None ]\n",
        differs: HOSTS_INIT,
    }
    "wsl, Ubuntu Pro's agent elsewhere" {
        files: &[WSL_MOUNTS, WSL_SHELL, WSL_INIT, WSL_PATH, ("/etc/os-release", "NAME=Debian\nVERSION_ID=12\n"), ("/profile/.ubuntupro/.cloud-init/agent.yaml", "")],
        env: WSL,
    }
    "wsl without os-release" {
        files: &[WSL_MOUNTS, WSL_SHELL, WSL_INIT, WSL_PATH, ("/profile/.cloud-init/U-24.user-data", "")],
        env: WSL,
        config: "datasource_list: [ WSL, None ]\n",
        differs: HOSTS_INIT,
    }
    "wsl whose Windows says nothing" {
        files: &[WSL_MOUNTS, WSL_SHELL, ("/init", "#!/bin/sh\n"), WSL_PATH, UBUNTU, ("/profile/.cloud-init/default.user-data", "")],
        env: WSL,
    }
    "not wsl" {
        files: &[WSL_MOUNTS, WSL_SHELL, WSL_INIT, WSL_PATH, UBUNTU, ("/profile/.cloud-init/default.user-data", "")],
    }
};
