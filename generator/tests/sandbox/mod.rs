//! A small root for each case, and the real binary run on it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub struct Sandbox(pub PathBuf);

impl Sandbox {
    pub fn new(name: &str) -> Sandbox {
        let top = std::env::temp_dir().join(format!("identify-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&top);
        // As when generators run: systemd runs, and /run/cloud-init is empty.
        std::fs::create_dir_all(top.join("run/systemd")).unwrap();
        // Without it the host's dmidecode would run.
        std::fs::create_dir_all(top.join("sys/class/dmi/id")).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_cloud-init-generator"), top.join("ds-identify"))
            .unwrap();
        Sandbox(top)
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    #[allow(dead_code)]
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    /// Adds a device that the kernel lists, with the content of an image.
    #[allow(dead_code)]
    pub fn device(&self, name: &str, content: &[u8]) {
        self.write(&format!("/sys/class/block/{name}/size"), format!("{}\n", content.len() / 512));
        self.write(&format!("/dev/{name}"), content);
    }

    /// Runs a program (ours or upstream's) on this root, with this environment.
    pub fn run(&self, program: &Path, arguments: &[&str], env: &[(&str, &str)]) -> Output {
        Command::new(program)
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("PATH_ROOT", &self.0)
            .envs(env.iter().copied())
            .output()
            .unwrap()
    }

    #[allow(dead_code)]
    pub fn identify(&self, env: &[(&str, &str)]) -> Output {
        self.run(&self.path("ds-identify"), &[], env)
    }

    /// Returns what ds-identify wrote to /run/cloud-init.
    #[allow(dead_code)]
    pub fn config(&self) -> String {
        self.read("/run/cloud-init/cloud.cfg")
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the start of an ISO 9660 file system with this label: its primary volume descriptor and the end of the
/// descriptors (ECMA-119, 8.4 and 8.3), which identification reads.
#[allow(dead_code)]
pub fn iso(label: &str) -> Vec<u8> {
    const SECTOR: usize = 2048;
    const ROOT_SECTOR: u8 = 20;
    let mut image = vec![0_u8; 1 << 20];
    // The records "." and ".." of the root directory. libblkid since 2.42 reads both.
    let record = |name: u8| {
        let mut record = [0_u8; 34];
        record[0] = 34;
        (record[2], record[9]) = (ROOT_SECTOR, ROOT_SECTOR);
        record[10..18].copy_from_slice(&[0, 8, 0, 0, 0, 0, 8, 0]);
        record[25] = 2;
        record[28..32].copy_from_slice(&[1, 0, 0, 1]);
        (record[32], record[33]) = (1, name);
        record
    };
    let descriptor = &mut image[16 * SECTOR..];
    descriptor[..7].copy_from_slice(b"\x01CD001\x01");
    descriptor[40..72].fill(b' ');
    descriptor[40..40 + label.len()].copy_from_slice(label.as_bytes());
    descriptor[80..88].copy_from_slice(&[0, 2, 0, 0, 0, 0, 2, 0]);
    descriptor[128..132].copy_from_slice(&[0, 8, 8, 0]);
    descriptor[156..190].copy_from_slice(&record(0));
    descriptor[SECTOR..SECTOR + 7].copy_from_slice(b"\xffCD001\x01");
    let root = &mut image[usize::from(ROOT_SECTOR) * SECTOR..];
    root[..34].copy_from_slice(&record(0));
    root[34..68].copy_from_slice(&record(1));
    image
}
