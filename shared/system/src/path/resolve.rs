//! From a path to an open directory and a name: by openat2(2) where the path has no link, else by walking it.

use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat};
use nix::sys::stat::Mode;

use super::new_directory::NewDirectory;
use super::ownership::{is_foreign, is_link, is_trusted, is_unprotected, stat_of};
use super::resolved::ResolvedPath;
use super::user_link::UserLink;
use crate::Root;
use crate::large_files::{PROC, fstat, fstatfs, stat_at};
use crate::root::{MAX_SYMLINKS, components};

/// The treatment of a link that is the last component of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrailingLink {
    /// The path means the link itself.
    NoFollow,
    /// The path means the link's target.
    Follow,
}

fn directory_flags() -> OFlag {
    OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
}

impl Root {
    /// Resolves a path for a change, creating `missing` parent directories if given.
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
                        return Ok(ResolvedPath::new(dir, name.into(), old, made));
                    }
                }
                Err(Errno::ELOOP) => {}
                Err(e) => return Err(e.into()),
            }
        }
        self.walk(path, Some(last), missing)
    }

    /// Creates a directory and its missing parents; existing ones are left unchanged. Returns the number of new ones.
    pub(crate) fn make_directory(&self, path: &Path, new: NewDirectory) -> io::Result<usize> {
        let known = self.follow_cached_link(path);
        let path = known.as_deref().unwrap_or(path);
        if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
            match self.open_without_links(parent, Some(new)) {
                Ok((above, made)) if new.create(&above, name, self.is_machine())? => return Ok(made + 1),
                // The name exists; it may be a link.
                Ok(_) | Err(Errno::ELOOP) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(self.walk(path, None, Some(new))?.made)
    }

    /// Opens a directory whose path has no link. Fails with `ELOOP` if it may have one, which [`Root::walk`] then finds out.
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
                let made = made + usize::from(new.create(&above, name, self.is_machine())?);
                Ok((openat(&above, name, directory_flags(), Mode::empty())?, made))
            }
            // Seccomp filters that do not know the call return EPERM. EAGAIN: a directory was renamed in the meantime.
            Err(Errno::ENOSYS | Errno::EPERM) => {
                self.cache().no_openat2.set(true);
                Err(Errno::ELOOP)
            }
            Err(Errno::EAGAIN) => Err(Errno::ELOOP),
            Err(e) => Err(e),
        }
    }

    /// Opens the root directory, which is the caller's choice and may be a link. It is created if missing: an image may start
    /// empty.
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

    /// Returns the path with the cached link replaced by its target, if the path starts with that link and the link still
    /// has that target.
    fn follow_cached_link(&self, path: &Path) -> Option<PathBuf> {
        let known = self.cache().link.borrow();
        let (link, target) = known.as_ref()?;
        let rest = path.strip_prefix(link).ok().filter(|rest| !rest.as_os_str().is_empty())?;
        let now = std::fs::read_link(self.as_path().join(link.strip_prefix("/").unwrap_or(link))).ok()?;
        (link.parent()?.join(now) == *target).then(|| target.join(rest))
    }

    /// Resolves a path component by component. `last` is `None` if the whole path is a directory's.
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
                match openat(walk.dir()?, &*name, directory_flags(), Mode::empty()) {
                    Ok(next) => {
                        walk.dirs.push((next, name));
                        continue;
                    }
                    Err(Errno::ENOENT) => {
                        walk.check()?;
                        let new = missing.ok_or(Errno::ENOENT)?;
                        let (next, is_new) = walk.create(&name, new, self.is_machine())?;
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
            // Opens the link itself: its name may refer to another link a moment later.
            let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let link = openat(walk.dir()?, &*name, flags, Mode::empty())?;
            let stat = fstat(&link)?;
            if !is_link(&stat) {
                return Err(Errno::EAGAIN.into());
            }
            walk.enter_user_link(&name, stat.st_uid)?;
            // The text of a link in procfs need not be its target.
            if walk.user_link.is_none() && self.is_machine() && fstatfs(walk.dir()?)?.0 == PROC {
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
        if is_magic {
            return Ok(ResolvedPath::magic(dir, name, made)?);
        }
        let old = if name == "." { Some(stat_at(&dir, &name)?) } else { old };
        Ok(ResolvedPath::new(dir, name, old, made))
    }
}

/// The state of a component-wise resolution.
struct Walk {
    /// The directories from the root to the current one, with their names.
    dirs: Vec<(OwnedFd, OsString)>,
    user_link: Option<UserLink>,
}

impl Walk {
    fn dir(&self) -> io::Result<&OwnedFd> {
        self.dirs.last().map(|(dir, _)| dir).ok_or_else(|| Errno::ENOENT.into())
    }

    /// Enters `..`, which stops at the root.
    fn up(&mut self) {
        if self.dirs.len() > 1 {
            self.dirs.pop();
        }
    }

    fn path(&self, name: Option<&OsStr>) -> PathBuf {
        Path::new("/").join(self.dirs.iter().map(|(_, name)| &**name).chain(name).collect::<PathBuf>())
    }

    /// Applies the rule on users' links to the link `name`, owned by `owner`, which is about to be followed.
    fn enter_user_link(&mut self, name: &OsStr, owner: u32) -> io::Result<()> {
        let dir = fstat(self.dir()?)?;
        let user = match [owner, dir.st_uid].into_iter().find(|user| !is_trusted(*user)) {
            None if !is_unprotected(&dir) => return Ok(()),
            user => user,
        };
        match &self.user_link {
            Some(user_link) if user_link.user == user => {}
            // The path has links of two users, and no target can be owned by both.
            Some(user_link) => return Err(user_link.refusal()),
            None => self.user_link = Some(UserLink { link: self.path(Some(name)), user }),
        }
        Ok(())
    }

    /// Returns whether no directory or link on the way here can be changed by a user.
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

    /// Fails if a user's link led here and the directory is not that user's.
    fn check(&self) -> io::Result<()> {
        match &self.user_link {
            Some(user_link) if user_link.user != Some(fstat(self.dir()?)?.st_uid) => Err(user_link.refusal()),
            _ => Ok(()),
        }
    }

    fn create(&self, name: &OsStr, new: NewDirectory, is_live: bool) -> io::Result<(OwnedFd, bool)> {
        let new = match &self.user_link {
            // It is created because of a user's link, so that user gets it.
            Some(_) => {
                let dir = fstat(self.dir()?)?;
                NewDirectory { owner: (Some(dir.st_uid), Some(dir.st_gid)), ..new }
            }
            None => new,
        };
        let is_new = new.create(self.dir()?, name, is_live)?;
        Ok((openat(self.dir()?, name, directory_flags(), Mode::empty())?, is_new))
    }
}
