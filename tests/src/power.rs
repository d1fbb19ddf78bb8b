//! Machines whose root is a file system on a disk that records each write and flush, and the disk as a power cut after any of
//! them leaves it.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::disks::run;
use crate::sandbox::Sandbox;
use crate::{clean_up, fail, tests_dir, work_dir};

/// A file system under test.
#[derive(Debug, Clone, Copy)]
pub struct FileSystem {
    /// The program that makes it, with options.
    pub mkfs: &'static str,
    /// The options of mount(8).
    pub options: &'static str,
}

/// A recorded write, as its place in the log; without length it is a flush.
#[derive(Debug, Clone, Copy)]
struct Write {
    offset: u64,
    start: usize,
    length: usize,
}

/// A disk before a boot, and what the boot wrote to it.
pub struct Recording {
    dir: PathBuf,
    kind: FileSystem,
    writes: Vec<Write>,
    log: Vec<u8>,
}

/// A disk that is mounted, until dropped.
pub struct Mounted {
    image: PathBuf,
    /// Where it is mounted.
    pub root: PathBuf,
}

/// A machine on a disk, which is unmounted and removed when dropped.
pub struct OnDisk {
    // Before the machine, whose directory it is in.
    _disk: Mounted,
    /// The machine.
    pub machine: Sandbox,
}

impl Mounted {
    fn new(image: &Path, kind: FileSystem, root: &Path) -> Mounted {
        run("mount", &["-o", &format!("loop,{}", kind.options), &text(image), &text(root)]);
        Mounted { image: image.into(), root: root.into() }
    }
}

impl OnDisk {
    fn new(image: &Path, kind: FileSystem) -> OnDisk {
        let mut disk = None;
        let machine = Sandbox::on_disk("power", |root| disk = Some(Mounted::new(image, kind, root)));
        let machine = machine.live().before("on", "mount -t tmpfs tmpfs $root/run");
        OnDisk { _disk: disk.unwrap_or_else(|| fail("the disk was not mounted")), machine }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        unmount(&self.root);
        // The namespaces of the machine's programs keep the file system until they are gone.
        let is_attached = || !run("losetup", &["-j", &text(&self.image)]).is_empty();
        let deadline = Instant::now() + Duration::from_secs(20);
        while is_attached() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Recording {
    /// Makes a disk and prepares a machine on it with this user-data, then boots it and lets it run for some time. `noise` is
    /// another process that flushes a file all the time, which commits the names of all files but not their content.
    pub fn of_first_boot(kind: FileSystem, user_data: &str, noise: bool, then: Duration) -> Recording {
        let dir = empty_disk(kind, "320M");
        let disk = OnDisk::new(&dir.join("image"), kind);
        disk.machine.seed("user-data", user_data);
        disk.machine.run(&["on", "generator"]);
        for name in ["subuid", "subgid"] {
            crate::write(&disk.machine.path(&format!("/etc/{name}")), "");
        }
        drop(disk);
        Recording::of_boot(dir, kind, noise, then)
    }

    /// Makes a disk of this size, prepares it, and records what `work` writes to it.
    pub fn of_work(
        kind: FileSystem,
        size: &str,
        prepare: impl FnOnce(&Path),
        work: impl FnOnce(&Path),
    ) -> Recording {
        let dir = empty_disk(kind, size);
        prepare(&Mounted::new(&dir.join("image"), kind, &sub_directory(&dir, "mounted")).root);
        let at = dir.join("mounted");
        Recording::record(dir, kind, |disk| {
            let mounted = Mounted::new(disk, kind, &at);
            work(&mounted.root);
            mounted
        })
    }

    /// Does the same for the next boot after a power cut.
    pub fn of_next_boot(&self, cut: usize, noise: bool) -> Recording {
        let dir = work_dir("recording");
        self.write_image(&dir.join("image"), cut, None);
        Recording::of_boot(dir, self.kind, noise, Duration::ZERO)
    }

    fn of_boot(dir: PathBuf, kind: FileSystem, noise: bool, then: Duration) -> Recording {
        Recording::record(dir, kind, |disk| {
            let disk = OnDisk::new(disk, kind);
            let ended = AtomicBool::new(false);
            std::thread::scope(|scope| {
                if noise {
                    scope.spawn(|| flush_until(&disk.machine.root.join("srv/noise"), &ended));
                }
                let boot = disk.machine.boot();
                std::thread::sleep(then);
                ended.store(true, Ordering::Relaxed);
                assert!(boot.succeeded(), "{:?}\n{}\n{}", boot.codes, boot.output, disk.machine.log());
            });
            disk
        })
    }

    /// Records what `work` writes to the disk, which it mounts and returns mounted.
    fn record<T>(dir: PathBuf, kind: FileSystem, work: impl FnOnce(&Path) -> T) -> Recording {
        let (log, recorder) = (dir.join("log"), sub_directory(&dir, "recorder"));
        let mut recorded = start_recorder(&dir.join("image"), &log, &recorder);
        let mounted = work(&recorder.join("disk"));
        // What follows is written by the unmounting.
        let end = std::fs::metadata(&log).map_or(0, |log| log.len());
        drop(mounted);
        unmount(&recorder);
        let _ = recorded.wait();
        let mut bytes = std::fs::read(&log).unwrap_or_else(|e| fail(&e.to_string()));
        bytes.truncate(usize::try_from(end).unwrap_or_default());
        Recording { dir, kind, writes: parse(&bytes), log: bytes }
    }

    /// Returns the number of writes and flushes.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Returns whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Returns the number of flushes.
    pub fn flushes(&self) -> usize {
        self.writes.iter().filter(|write| write.length == 0).count()
    }

    /// Starts the machine as a power cut after `cut` writes leaves it. With a seed, each write since the last flush is on the disk or not
    /// at random.
    pub fn after_cut(&self, cut: usize, seed: Option<u64>) -> OnDisk {
        OnDisk::new(&self.cut_image(cut, seed), self.kind)
    }

    /// Mounts the disk as a power cut after `cut` writes leaves it; `seed` as in [`Recording::after_cut`].
    pub fn mounted_after_cut(&self, cut: usize, seed: Option<u64>) -> Mounted {
        Mounted::new(&self.cut_image(cut, seed), self.kind, &sub_directory(&self.dir, "mounted"))
    }

    fn cut_image(&self, cut: usize, seed: Option<u64>) -> PathBuf {
        let image = self.dir.join("cut");
        self.write_image(&image, cut, seed);
        image
    }

    fn write_image(&self, image: &Path, cut: usize, seed: Option<u64>) {
        let _ = std::fs::remove_file(image);
        run("cp", &["--sparse=always", &text(&self.dir.join("image")), &text(image)]);
        let file = File::options().write(true).open(image).unwrap_or_else(|e| fail(&e.to_string()));
        let writes = &self.writes[..cut];
        let flushed = writes.iter().rposition(|write| write.length == 0).unwrap_or(0);
        let mut state = seed.unwrap_or_default() | 1;
        for (number, write) in writes.iter().enumerate() {
            // A linear congruential generator: the same seed gives the same disk.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if number > flushed && seed.is_some() && state >> 63 == 1 {
                continue;
            }
            let content = &self.log[write.start..write.start + write.length];
            file.write_all_at(content, write.offset).unwrap_or_else(|e| fail(&e.to_string()));
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        clean_up(&self.dir);
    }
}

/// Makes a directory with an empty file system in the file `image`.
fn empty_disk(kind: FileSystem, size: &str) -> PathBuf {
    let dir = work_dir("recording");
    let image = dir.join("image");
    run("truncate", &["-s", size, &text(&image)]);
    let words: Vec<&str> = kind.mkfs.split(' ').collect();
    run(words[0], &[&words[1..], &[&text(&image)]].concat());
    dir
}

fn sub_directory(dir: &Path, name: &str) -> PathBuf {
    let dir = dir.join(name);
    std::fs::create_dir_all(&dir).unwrap_or_else(|e| fail(&e.to_string()));
    dir
}

fn start_recorder(image: &Path, log: &Path, directory: &Path) -> Child {
    let mut command = Command::new(tests_dir().join("lib/recorded-disk"));
    let started = command.args([image, log, directory]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut recorder = started.unwrap_or_else(|e| fail(&format!("recorded-disk: {e}")));
    let ready = recorder.stdout.as_mut().is_some_and(|out| out.read_exact(&mut [0; 6]).is_ok());
    assert!(ready, "recorded-disk is not ready");
    recorder
}

fn flush_until(path: &Path, ended: &AtomicBool) {
    while !ended.load(Ordering::Relaxed) {
        let _ = std::fs::write(path, "x").and_then(|()| File::open(path)?.sync_all());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn parse(log: &[u8]) -> Vec<Write> {
    let number =
        |place: usize| log[place..place + 8].iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
    let (mut writes, mut place) = (Vec::new(), 0);
    while place + 24 <= log.len() {
        let length = usize::try_from(number(place + 16)).unwrap_or_default();
        writes.push(Write { offset: number(place + 8), start: place + 24, length });
        place += 24 + length;
    }
    writes
}

fn unmount(at: &Path) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !Command::new("umount").arg(at).stderr(Stdio::null()).status().is_ok_and(|s| s.success()) {
        if Instant::now() > deadline {
            let _ = Command::new("umount").arg("-l").arg(at).status();
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
