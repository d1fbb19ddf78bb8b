//! Where a change is made: a directory that is open, and a name in it. All that creates, replaces, removes or gives away
//! a file resolves its path here and then works relative to the descriptor, so that a directory or a link that is
//! swapped meanwhile changes nothing.
//!
//! Symbolic links are followed as the machine would follow them, with one exception. A link that a user other than
//! root (or the caller) owns, or that stands in such a user's directory, is followed only to what the same user owns:
//! otherwise a user could have root write, or hand over, any file of the machine. In a directory that is writable for
//! everyone and not sticky, no link can be trusted.
//!
//! The usual path has no link in it and costs one openat2(2). Older kernels, and containers that forbid the call,
//! walk component by component, as does every path with a link.

use std::cell::{Cell, RefCell};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{DirBuilder, File};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat, renameat};
use nix::sys::stat::{FileStat, Mode, fchmod, fstat, fstatat, mkdirat};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, symlinkat, unlinkat};

use crate::Root;
use crate::root::{MAX_SYMLINKS, components};

/// What becomes of a link that is the last component of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrailingLink {
    /// It is meant itself.
    NoFollow,
    Follow,
}

/// How missing directories are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewDirectory {
    pub mode: u32,
    pub owner: (Option<u32>, Option<u32>),
}

/// The parents of a file that is written.
pub(crate) const DEFAULT_PARENTS: Option<NewDirectory> =
    Some(NewDirectory { mode: 0o755, owner: (None, None) });

/// A directory that is open, and a name in it.
#[derive(Debug)]
pub(crate) struct ResolvedPath {
    dir: OwnedFd,
    name: OsString,
    /// What has the name; a link only if it was not to be followed.
    pub old: Option<FileStat>,
    /// How many directories were made for it.
    pub made: usize,
    /// The name is a link of procfs, which only the kernel can follow (`/proc/self/fd/1`).
    is_magic: bool,
}

/// What resolving paths learns for the next one.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResolverCache {
    /// openat2(2) is not there, or not allowed.
    no_openat2: Cell<bool>,
    /// A link that was followed, no user can change, and leads here: `/var/lib/cloud/instance`.
    link: RefCell<Option<(PathBuf, PathBuf)>>,
}

/// A link that is not followed. It is kept apart from the errors of the kernel.
#[derive(Debug)]
struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

fn refuse(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, Refused(why))
}

/// Whether a place was not reached because of the rule on users' links.
pub(crate) fn is_refused(e: &io::Error) -> bool {
    e.get_ref().is_some_and(|inner| inner.is::<Refused>())
}

/// A user's link that was followed: what it leads to has to be theirs.
struct UserLink {
    link: PathBuf,
    /// `None`: anyone may have put it there.
    user: Option<u32>,
}

impl UserLink {
    fn refusal(&self) -> io::Error {
        let link = self.link.display();
        refuse(match self.user {
            Some(user) => {
                format!("not following the link {link} of uid {user} to what is not owned by uid {user}")
            }
            None => format!("not following the link {link}: everyone can write to its directory"),
        })
    }
}

fn directory() -> OFlag {
    OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
}

fn kind(stat: &FileStat) -> u32 {
    stat.st_mode & libc::S_IFMT
}

pub(crate) fn is_link(stat: &FileStat) -> bool {
    kind(stat) == libc::S_IFLNK
}

pub(crate) fn is_directory(stat: &FileStat) -> bool {
    kind(stat) == libc::S_IFDIR
}

pub(crate) fn is_regular(stat: &FileStat) -> bool {
    kind(stat) == libc::S_IFREG
}

/// Root and whoever runs this do not have to be kept from anything.
fn is_trusted(user: u32) -> bool {
    user == 0 || user == nix::unistd::geteuid().as_raw()
}

/// Whether somebody else can put names into a directory. Root's own group is root.
fn is_foreign(dir: &FileStat) -> bool {
    !is_trusted(dir.st_uid) || dir.st_mode & 0o002 != 0 || (dir.st_mode & 0o020 != 0 && dir.st_gid != 0)
}

/// Whether users can rename or replace what others have in a directory.
fn is_unprotected(dir: &FileStat) -> bool {
    dir.st_mode & 0o002 != 0 && dir.st_mode & libc::S_ISVTX == 0
}

impl Root {
    /// Finds the place of a path, making missing directories if asked to.
    pub(crate) fn find(
        &self,
        path: &Path,
        last: TrailingLink,
        missing: Option<NewDirectory>,
    ) -> io::Result<ResolvedPath> {
        let known = self.follow_cached_link(path);
        let path = known.as_deref().unwrap_or(path);
        if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
            match self.open_without_links(parent, missing) {
                Ok((dir, made)) => {
                    let old = if made > 0 { None } else { stat_of(&dir, name)? };
                    if last == TrailingLink::NoFollow || !old.as_ref().is_some_and(is_link) {
                        return Ok(ResolvedPath { dir, name: name.into(), old, made, is_magic: false });
                    }
                }
                Err(Errno::ELOOP) => {}
                Err(e) => return Err(e.into()),
            }
        }
        self.walk(path, Some(last), missing)
    }

    /// Makes a directory that is missing, and its parents; one that is there is left as it is. How many were made.
    pub(crate) fn make_directory(&self, path: &Path, new: NewDirectory) -> io::Result<usize> {
        let known = self.follow_cached_link(path);
        let path = known.as_deref().unwrap_or(path);
        if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
            match self.open_without_links(parent, Some(new)) {
                Ok((above, made)) if new.make(&above, name)? => return Ok(made + 1),
                // There is something; a link perhaps.
                Ok(_) | Err(Errno::ELOOP) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(self.walk(path, None, Some(new))?.made)
    }

    /// Opens a directory with no link in its path; `ELOOP` if there may be one, which is for `walk` to find out.
    fn open_without_links(
        &self,
        path: &Path,
        missing: Option<NewDirectory>,
    ) -> nix::Result<(OwnedFd, usize)> {
        if self.cache().no_openat2.get() {
            return Err(Errno::ELOOP);
        }
        let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC);
        let links = ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let opened = if self.is_machine() {
            openat2(AT_FDCWD, &Path::new("/").join(path), how.resolve(links))
        } else {
            let inside = path.strip_prefix("/").unwrap_or(path);
            let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
            openat2(self.open_root(missing)?, inside, how.resolve(links | ResolveFlag::RESOLVE_IN_ROOT))
        };
        match opened {
            Ok(dir) => Ok((dir, 0)),
            Err(Errno::ENOENT) => {
                let (Some(new), Some(parent), Some(name)) = (missing, path.parent(), path.file_name()) else {
                    return Err(Errno::ENOENT);
                };
                let (above, made) = self.open_without_links(parent, missing)?;
                let made = made + usize::from(new.make(&above, name)?);
                Ok((openat(&above, name, directory(), Mode::empty())?, made))
            }
            // Seccomp filters that do not know the call say EPERM. EAGAIN: directories were renamed meanwhile.
            Err(Errno::ENOSYS | Errno::EPERM) => {
                self.cache().no_openat2.set(true);
                Err(Errno::ELOOP)
            }
            Err(Errno::EAGAIN) => Err(Errno::ELOOP),
            Err(e) => Err(e),
        }
    }

    /// The root itself, which is the caller's own choice. An image may begin with nothing.
    fn open_root(&self, missing: Option<NewDirectory>) -> nix::Result<OwnedFd> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let open = || openat(AT_FDCWD, self.as_path(), flags, Mode::empty());
        match (open(), missing) {
            (Err(Errno::ENOENT), Some(new)) => {
                let made = DirBuilder::new().recursive(true).mode(new.mode).create(self.as_path());
                made.map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(libc::ENOENT)))?;
                open()
            }
            (top, _) => top,
        }
    }

    /// The path behind the link that was followed before, if it begins with that and it still leads there.
    fn follow_cached_link(&self, path: &Path) -> Option<PathBuf> {
        let known = self.cache().link.borrow();
        let (link, target) = known.as_ref()?;
        let rest = path.strip_prefix(link).ok().filter(|rest| !rest.as_os_str().is_empty())?;
        let now = std::fs::read_link(self.as_path().join(link.strip_prefix("/").unwrap_or(link))).ok()?;
        (link.parent()?.join(now) == *target).then(|| target.join(rest))
    }

    /// Resolves a path by hand. `last` is `None` for a path that is a directory's.
    fn walk(
        &self,
        path: &Path,
        last: Option<TrailingLink>,
        missing: Option<NewDirectory>,
    ) -> io::Result<ResolvedPath> {
        let mut todo: Vec<Vec<u8>> = components(path);
        todo.reverse();
        let mut walk = Walk { dirs: vec![(self.open_root(missing)?, OsString::new())], user_link: None };
        let (mut links, mut made) = (0, 0);
        let mut found = (OsString::from("."), None, false);
        while let Some(name) = todo.pop() {
            if name == b".." {
                walk.up();
                continue;
            }
            let name = OsStr::from_bytes(&name).to_os_string();
            let is_last = todo.is_empty() && last.is_some();
            if !is_last {
                match openat(walk.dir()?, &*name, directory(), Mode::empty()) {
                    Ok(next) => {
                        walk.dirs.push((next, name));
                        continue;
                    }
                    Err(Errno::ENOENT) => {
                        walk.check()?;
                        let (next, is_new) = walk.make(&name, missing.ok_or(Errno::ENOENT)?)?;
                        made += usize::from(is_new);
                        walk.dirs.push((next, name));
                        continue;
                    }
                    Err(Errno::ENOTDIR | Errno::ELOOP) => {}
                    Err(e) => return Err(e.into()),
                }
            }
            let stat = stat_of(walk.dir()?, &name)?;
            if !stat.as_ref().is_some_and(is_link) || is_last && last == Some(TrailingLink::NoFollow) {
                if !is_last {
                    return Err(Errno::ENOTDIR.into());
                }
                found = (name, stat, false);
                continue;
            }
            links += 1;
            if links > MAX_SYMLINKS {
                return Err(Errno::ELOOP.into());
            }
            // The link itself: another one may have its name a moment later.
            let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let link = openat(walk.dir()?, &*name, flags, Mode::empty())?;
            let stat = fstat(&link)?;
            if !is_link(&stat) {
                return Err(Errno::EAGAIN.into());
            }
            walk.enter_user_link(&name, stat.st_uid)?;
            // The text of a link in /proc need not be where it leads.
            if walk.user_link.is_none()
                && self.is_machine()
                && fstatfs(walk.dir()?)?.filesystem_type() == PROC_SUPER_MAGIC
            {
                if is_last {
                    found = (name, None, true);
                } else {
                    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
                    let next = openat(walk.dir()?, &*name, flags, Mode::empty())?;
                    walk.dirs.push((next, name));
                }
                continue;
            }
            let target = PathBuf::from(readlinkat(&link, "")?);
            if walk.is_trusted_path()? {
                let path = walk.path(Some(&name));
                let leads = path.parent().unwrap_or(&path).join(&target);
                if !components(&leads).contains(&b"..".to_vec()) {
                    *self.cache().link.borrow_mut() = Some((path, leads));
                }
            }
            if target.is_absolute() {
                walk.dirs.truncate(1);
            }
            todo.extend(components(&target).into_iter().rev());
        }
        let (name, old, is_magic) = found;
        walk.check()?;
        let Some((dir, _)) = walk.dirs.pop() else { return Err(Errno::ENOENT.into()) };
        let mut resolved = ResolvedPath { dir, name, old, made, is_magic };
        if resolved.is_magic || resolved.name == "." {
            resolved.old = Some(fstatat(&resolved.dir, &*resolved.name, AtFlags::empty())?);
        }
        Ok(resolved)
    }
}

/// How far a path is resolved.
struct Walk {
    /// The directories from the root down to this one, with their names.
    dirs: Vec<(OwnedFd, OsString)>,
    user_link: Option<UserLink>,
}

impl Walk {
    fn dir(&self) -> io::Result<&OwnedFd> {
        self.dirs.last().map(|(dir, _)| dir).ok_or_else(|| Errno::ENOENT.into())
    }

    /// `..`, which stops at the root.
    fn up(&mut self) {
        if self.dirs.len() > 1 {
            self.dirs.pop();
        }
    }

    fn path(&self, name: Option<&OsStr>) -> PathBuf {
        Path::new("/").join(self.dirs.iter().map(|(_, name)| &**name).chain(name).collect::<PathBuf>())
    }

    /// The link of that name, which belongs to `owner`, is about to be followed.
    fn enter_user_link(&mut self, name: &OsStr, owner: u32) -> io::Result<()> {
        let dir = fstat(self.dir()?)?;
        let user = match [owner, dir.st_uid].into_iter().find(|user| !is_trusted(*user)) {
            None if !is_unprotected(&dir) => return Ok(()),
            user => user,
        };
        match &self.user_link {
            Some(user_link) if user_link.user == user => {}
            // Nothing can be owned by both.
            Some(user_link) => return Err(user_link.refusal()),
            None => self.user_link = Some(UserLink { link: self.path(Some(name)), user }),
        }
        Ok(())
    }

    /// Whether no directory on the way here, and no link, can be changed by a user.
    fn is_trusted_path(&self) -> io::Result<bool> {
        if self.user_link.is_some() {
            return Ok(false);
        }
        for (dir, _) in &self.dirs {
            let stat = fstat(dir)?;
            if is_foreign(&stat) && (!is_trusted(stat.st_uid) || stat.st_mode & libc::S_ISVTX == 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A user's link led here: the directory has to be theirs.
    fn check(&self) -> io::Result<()> {
        match &self.user_link {
            Some(user_link) if user_link.user != Some(fstat(self.dir()?)?.st_uid) => Err(user_link.refusal()),
            _ => Ok(()),
        }
    }

    fn make(&self, name: &OsStr, new: NewDirectory) -> io::Result<(OwnedFd, bool)> {
        let new = match &self.user_link {
            // Their link made us make it.
            Some(_) => {
                let dir = fstat(self.dir()?)?;
                NewDirectory { owner: (Some(dir.st_uid), Some(dir.st_gid)), ..new }
            }
            None => new,
        };
        let is_new = new.make(self.dir()?, name)?;
        Ok((openat(self.dir()?, name, directory(), Mode::empty())?, is_new))
    }
}

impl NewDirectory {
    /// Makes it, with just this mode and owner, unless there is something (`false`).
    fn make(self, dir: &OwnedFd, name: &OsStr) -> nix::Result<bool> {
        match mkdirat(dir, name, Mode::from_bits_truncate(self.mode)) {
            Ok(()) => {}
            Err(Errno::EEXIST) => return Ok(false),
            Err(e) => return Err(e),
        }
        let is_right = |stat: &FileStat| {
            let (uid, gid) = self.owner;
            uid.is_none_or(|uid| uid == stat.st_uid)
                && gid.is_none_or(|gid| gid == stat.st_gid)
                && stat.st_mode & 0o7777 == self.mode
        };
        if is_right(&fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW)?) {
            return Ok(true);
        }
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let made = openat(dir, name, flags, Mode::empty())?;
        // Somebody may have put another directory in its place, which is not ours to open or to give away.
        if is_foreign(&fstat(dir)?) && !(is_trusted(fstat(&made)?.st_uid) && is_empty(&made)?) {
            return Err(Errno::EACCES);
        }
        chown_if_permitted(&made, self.owner)?;
        fchmod(&made, Mode::from_bits_truncate(self.mode))?;
        Ok(true)
    }
}

fn is_empty(dir: &OwnedFd) -> nix::Result<bool> {
    let mut dir = Dir::openat(dir, ".", OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    for entry in dir.iter() {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Gives an open file to a user and a group. Without privileges owners are left alone: an image in a folder may be built
/// without them, and in a user namespace, where root is root but only over the ids that are mapped in it.
fn chown_if_permitted(file: impl AsFd, (uid, gid): (Option<u32>, Option<u32>)) -> nix::Result<()> {
    match chown(file, (uid, gid)) {
        Err(Errno::EPERM) if !nix::unistd::geteuid().is_root() => Ok(()),
        Err(Errno::EINVAL) => Ok(()),
        other => other,
    }
}

fn stat_of(dir: &OwnedFd, name: &OsStr) -> nix::Result<Option<FileStat>> {
    match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::ENOENT) => Ok(None),
        Err(e) => Err(e),
    }
}

impl ResolvedPath {
    /// A path of the host in a directory that nobody else can enter: a plan's.
    pub fn from_host_path(path: &Path) -> io::Result<ResolvedPath> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let dir = openat(AT_FDCWD, parent, flags, Mode::empty())?;
        let old = stat_of(&dir, name)?;
        Ok(ResolvedPath { dir, name: name.into(), old, made: 0, is_magic: false })
    }

    /// The same place with what has the name, and how many directories are new: a plan's overlay shows neither.
    pub fn with_state(self, old: Option<FileStat>, made: usize) -> ResolvedPath {
        ResolvedPath { old, made, ..self }
    }

    /// Opens what is there, or makes it with `mode` (with `O_CREAT`). A link is not followed, a FIFO not waited for.
    pub fn open(&self, flags: OFlag, mode: u32) -> io::Result<File> {
        let no_follow = if self.is_magic { OFlag::empty() } else { OFlag::O_NOFOLLOW };
        let flags = flags | no_follow | OFlag::O_CLOEXEC | OFlag::O_NOCTTY | OFlag::O_NONBLOCK;
        Ok(openat(&self.dir, &*self.name, flags, Mode::from_bits_truncate(mode))?.into())
    }

    /// Opens what is there for a change in place, which is refused if somebody else may have put it there: by a hard
    /// link, for one.
    pub fn open_for_change(&self, flags: OFlag) -> io::Result<File> {
        let file = self.open(flags, 0)?;
        self.check(&fstat(&file)?)?;
        Ok(file)
    }

    /// Whether an open file may be changed in place.
    pub fn check(&self, file: &FileStat) -> io::Result<()> {
        // Who has no privileges can give none away.
        if !nix::unistd::geteuid().is_root() {
            return Ok(());
        }
        let dir = fstat(&self.dir)?;
        if self.is_magic || !is_foreign(&dir) || (!is_trusted(dir.st_uid) && file.st_uid == dir.st_uid) {
            return Ok(());
        }
        let is_ours = is_trusted(file.st_uid) || is_trusted(dir.st_uid);
        // Its only name is this one, now as when it was opened.
        let is_only = |stat: &FileStat| {
            (stat.st_dev, stat.st_ino) == (file.st_dev, file.st_ino)
                && (stat.st_nlink == 1 || is_directory(stat))
        };
        if is_ours && is_only(file) && stat_of(&self.dir, &self.name)?.as_ref().is_some_and(is_only) {
            return Ok(());
        }
        Err(refuse(format!(
            "refusing a file of uid {} with {} hard links in a directory of uid {}",
            file.st_uid, file.st_nlink, dir.st_uid
        )))
    }

    /// Gives what is there another owner, another mode, or both.
    pub fn set_attributes(&self, owner: (Option<u32>, Option<u32>), mode: Option<u32>) -> io::Result<()> {
        let stat = self.old.map_or_else(|| stat_of(&self.dir, &self.name), |stat| Ok(Some(stat)))?;
        let stat = stat.ok_or(Errno::ENOENT)?;
        let opened = if is_regular(&stat) || is_directory(&stat) {
            self.open(OFlag::O_RDONLY, 0)
        } else {
            Err(Errno::EACCES.into())
        };
        match opened {
            Ok(file) => {
                self.check(&fstat(&file)?)?;
                chown(&file, owner)?;
                // After the owner, since that clears set-user-ID bits.
                mode.map_or(Ok(()), |mode| fchmod(&file, Mode::from_bits_truncate(mode)))?;
            }
            // What cannot be read, or does something when it is opened.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                let file = self.open(OFlag::O_PATH, 0)?;
                self.check(&fstat(&file)?)?;
                let (uid, gid) = owner;
                if uid.is_some() || gid.is_some() {
                    nix::unistd::fchownat(
                        &file,
                        "",
                        uid.map(Uid::from_raw),
                        gid.map(Gid::from_raw),
                        AtFlags::AT_EMPTY_PATH,
                    )?;
                }
                if let Some(mode) = mode {
                    use std::os::fd::AsRawFd;
                    use std::os::unix::fs::PermissionsExt;
                    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
                    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
                }
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// A new file beside it, open to write, and its name. `mode` is narrowed to its owner's bits.
    pub fn temporary(&self, mode: u32) -> io::Result<(OsString, File)> {
        self.with_temporary_name(|name| {
            let flags =
                OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            openat(&self.dir, name, flags, Mode::from_bits_truncate(mode & 0o700))
        })
        .map(|(name, file)| (name, file.into()))
    }

    /// Removes the temporaries in this directory, and in those below it down to `depth`, that [`ResolvedPath::temporary`] and
    /// [`ResolvedPath::link`] made before the time `before` (since the epoch): regular files with one name and links,
    /// root's or the caller's. Links are not followed, and what somebody else owns is not entered. How many.
    pub fn remove_stale_temporaries(&self, depth: usize, before: Duration) -> io::Result<usize> {
        let Some(old) = self.old.filter(is_directory) else {
            return Err(io::ErrorKind::NotADirectory.into());
        };
        let mut left = MAX_SCANNED;
        Ok(remove_stale_temporaries(&self.dir, &self.name, (depth, before, old.st_dev), &mut left)?)
    }

    /// Tries names until one is free. They cannot be foreseen, so that nobody can take them.
    fn with_temporary_name<T>(&self, make: impl Fn(&OsStr) -> nix::Result<T>) -> io::Result<(OsString, T)> {
        const MAX_NAMES: usize = 16;
        // A name of 255 bytes has no room for a suffix, so it is cut.
        let short: String = self.name.to_string_lossy().chars().take(50).collect();
        for _ in 0..MAX_NAMES {
            let chance = std::hash::RandomState::new().build_hasher().finish();
            let name = OsString::from(format!(".{short}.{chance}.new"));
            match make(&name) {
                Ok(made) => return Ok((name, made)),
                Err(Errno::EEXIST) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Err(Errno::EEXIST.into())
    }

    /// The temporary of that name becomes what is here.
    pub fn replace_with(&self, temporary: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.dir, temporary, &self.dir, &*self.name)?)
    }

    /// Removes the temporary of that name.
    pub fn discard(&self, temporary: &OsStr) {
        let _ = unlinkat(&self.dir, temporary, UnlinkatFlags::NoRemoveDir);
    }

    /// Puts a symbolic link here, over what is there.
    pub fn link(&self, target: &str) -> io::Result<()> {
        let (temporary, ()) = self.with_temporary_name(|name| symlinkat(target, &self.dir, name))?;
        self.replace_with(&temporary).inspect_err(|_| self.discard(&temporary))
    }

    /// The target of the link that is here.
    pub fn read_link(&self) -> Option<PathBuf> {
        readlinkat(&self.dir, &*self.name).ok().map(PathBuf::from)
    }

    /// Gives what is here another name, over what has that.
    pub fn rename_to(&self, to: &ResolvedPath) -> io::Result<()> {
        Ok(renameat(&self.dir, &*self.name, &to.dir, &*to.name)?)
    }

    /// Removes a file or a link.
    pub fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.dir, &*self.name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self) -> io::Result<()> {
        Ok(unlinkat(&self.dir, &*self.name, UnlinkatFlags::RemoveDir)?)
    }

    /// Removes a directory with all that is in it; links are not followed.
    pub fn remove_dir_all(&self) -> io::Result<()> {
        Ok(remove_dir_all(&self.dir, &self.name)?)
    }
}

/// Gives an open file to a user and a group; nothing to give is no call.
fn chown(file: impl AsFd, (uid, gid): (Option<u32>, Option<u32>)) -> nix::Result<()> {
    if uid.is_none() && gid.is_none() {
        return Ok(());
    }
    fchown(file, uid.map(Uid::from_raw), gid.map(Gid::from_raw))
}

/// So many names are looked at by one sweep.
const MAX_SCANNED: usize = 50_000;

/// `.NAME.NUMBER.new`, as [`ResolvedPath::temporary`] names a file while it is written.
fn is_temporary(name: &[u8]) -> bool {
    let inner = name.strip_prefix(b".").and_then(|n| n.strip_suffix(b".new"));
    let Some((name, number)) = inner.and_then(|n| Some(n.split_at(n.iter().rposition(|b| *b == b'.')?)))
    else {
        return false;
    };
    let number = str::from_utf8(&number[1..]).unwrap_or_default();
    !name.is_empty() && number.parse::<u64>().is_ok_and(|n| n.to_string() == number)
}

fn remove_stale_temporaries(
    dir: &OwnedFd,
    name: &OsStr,
    limits: (usize, Duration, u64),
    left: &mut usize,
) -> nix::Result<usize> {
    let (depth, before, device) = limits;
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let inner = openat(dir, name, flags, Mode::empty())?;
    let stat = fstat(&inner)?;
    if is_foreign(&stat) || stat.st_dev != device {
        return Ok(0);
    }
    let (mut names, mut below) = (Vec::new(), Vec::new());
    for entry in Dir::openat(&inner, ".", flags, Mode::empty())?.iter() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let list = match entry.file_type() {
            _ if is_temporary(name) => &mut names,
            Some(nix::dir::Type::Directory) if depth > 0 && !matches!(name, b"." | b"..") => &mut below,
            _ => continue,
        };
        *left = left.checked_sub(1).ok_or(Errno::E2BIG)?;
        list.push(OsStr::from_bytes(name).to_os_string());
    }
    let mut count = 0;
    for name in names {
        let Some(stat) = stat_of(&inner, &name)? else { continue };
        let is_ours = (is_regular(&stat) && stat.st_nlink == 1 || is_link(&stat)) && is_trusted(stat.st_uid);
        let seconds = u64::try_from(stat.st_mtime).unwrap_or_default();
        let changed = Duration::new(seconds, u32::try_from(stat.st_mtime_nsec).unwrap_or_default());
        if is_ours && changed < before {
            unlinkat(&inner, &*name, UnlinkatFlags::NoRemoveDir)?;
            count += 1;
        }
    }
    for name in below {
        // One that is gone, or that cannot be read, does not keep the others.
        count +=
            remove_stale_temporaries(&inner, &name, (depth - 1, before, device), left).or_else(
                |e| match e {
                    Errno::E2BIG => Err(e),
                    _ => Ok(0),
                },
            )?;
    }
    Ok(count)
}

fn remove_dir_all(dir: &OwnedFd, name: &OsStr) -> nix::Result<()> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let inner = openat(dir, name, flags, Mode::empty())?;
    let names: Vec<OsString> = Dir::openat(&inner, ".", flags, Mode::empty())?
        .iter()
        .map(|entry| entry.map(|e| OsStr::from_bytes(e.file_name().to_bytes()).to_os_string()))
        .collect::<nix::Result<_>>()?;
    for name in names.iter().filter(|name| *name != "." && *name != "..") {
        match unlinkat(&inner, &**name, UnlinkatFlags::NoRemoveDir) {
            Err(Errno::EISDIR) => remove_dir_all(&inner, name)?,
            Err(Errno::ENOENT) => {}
            other => other?,
        }
    }
    unlinkat(dir, name, UnlinkatFlags::RemoveDir)
}

#[cfg(test)]
#[path = "resolved_path_tests.rs"]
mod tests;
