//! The opening of files that a server appends to, as root, before it goes on as another user.

use altway_folder::{PathWalk, Trust, refused};
use rustix::fs::{FileType, Mode, OFlags, fcntl_setfl, fstat, openat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a file to append to. A missing file is made, readable by its owner only (mode 600).
///
/// Root follows no symbolic link of another user's, nor appends to a file that has a second name in a folder of another
/// user's: whoever has a log's folder could have root append to any file, or make one anywhere.
///
/// # Errors
/// The file can't be made or opened, or it is a pipe that nobody reads from, or a link leads to it that root does not
/// follow.
pub fn open_log(path: &Path) -> io::Result<File> {
    let opened = match geteuid().is_root() {
        true => open_as_root(path),
        false => open_as_user(path),
    };
    let file = opened.map_err(|error| name_unread_pipe(path, error))?;
    // The opening alone is not to wait for a reader: what is written waits for one that is slow.
    fcntl_setfl(&file, OFlags::APPEND)?;
    Ok(file)
}

fn open_as_user(path: &Path) -> io::Result<File> {
    File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
}

fn name_unread_pipe(path: &Path, error: io::Error) -> io::Error {
    let has_no_reader = error.raw_os_error() == Some(Errno::NXIO.raw_os_error());
    match has_no_reader && path.metadata().is_ok_and(|it| it.file_type().is_fifo()) {
        true => io::Error::other("it is a pipe that nobody reads from"),
        false => error,
    }
}

fn open_as_root(path: &Path) -> io::Result<File> {
    let found = PathWalk::new(path, Trust::Root)?.open(open_file)?;
    let (stat, folder) = (fstat(&found.file)?, fstat(&found.folder)?);
    let is_plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if is_plain && stat.st_nlink > 1 && folder.st_uid != 0 {
        let what = format!("has a second name, in a folder of user {}", folder.st_uid);
        return Err(refused(&found.name, &what));
    }
    Ok(File::from(found.file))
}

fn open_file(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
    let flags = flags | OFlags::NONBLOCK;
    openat(folder, name, flags, Mode::RUSR | Mode::WUSR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, fcntl_getfl, mkfifoat};
    use std::fs;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    #[test]
    fn root_follows_no_link_of_another_users_to_a_log() {
        if !geteuid().is_root() {
            eprintln!("SKIPPED: root alone gives links away");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("victim")).unwrap();
        fs::create_dir_all(at("logs/sub")).unwrap();
        fs::write(at("victim/cron"), "precious").unwrap();
        let is_refused = |name: &str| {
            let error = open_log(&at(name)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
            assert_eq!(fs::read_dir(at("victim")).unwrap().count(), 1, "{name}");
        };
        lchown(at("logs"), Some(7), Some(7)).unwrap();
        for (name, target) in [
            ("file", "victim/cron"),
            ("new", "victim/new"),
            ("folder", "victim"),
            ("link", "logs/file"),
        ] {
            let link = at("logs").join(name);
            symlink(at(target), &link).unwrap();
            lchown(&link, Some(7), Some(7)).unwrap();
        }
        for name in ["logs/file", "logs/new", "logs/folder/new", "logs/link"] {
            is_refused(name);
        }
        // Root's own link leads to another's.
        symlink("logs/file", at("own")).unwrap();
        is_refused("own");
        fs::hard_link(at("victim/cron"), at("logs/second")).unwrap();
        is_refused("logs/second");
        assert_eq!(fs::read_to_string(at("victim/cron")).unwrap(), "precious");
    }

    #[test]
    fn a_log_is_found_by_links_of_ones_own_and_through_descriptors() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("there/sub")).unwrap();
        symlink("there/sub", at("folder")).unwrap();
        symlink(at("folder/../log"), at("link")).unwrap();
        symlink("loop", at("loop")).unwrap();
        let append = |path: &Path, text: &str| {
            let mut log = open_log(path).unwrap_or_else(|it| panic!("{}: {it}", path.display()));
            log.write_all(text.as_bytes()).unwrap();
        };
        append(&at("link"), "one ");
        append(&at("there/log"), "two ");
        let log = File::open(at("there/log")).unwrap();
        append(
            Path::new(&format!("/proc/self/fd/{}", log.as_raw_fd())),
            "three",
        );
        let found = fs::read_to_string(at("there/log")).unwrap();
        assert_eq!(found, "one two three");
        let mode = fs::metadata(at("there/log")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for name in ["loop", "there/log/x", "missing/log", "there"] {
            assert!(open_log(&at(name)).is_err(), "{name}");
        }
        let relative = Path::new("Cargo.toml");
        assert!(open_log(relative).is_ok() && relative.is_file());
        assert!(open_log(Path::new("")).is_err() && open_log(Path::new("/")).is_err());
    }

    #[test]
    fn a_pipe_is_a_log_while_somebody_reads_from_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        mkfifoat(CWD, &path, Mode::RWXU).unwrap();
        let error = open_log(&path).unwrap_err().to_string();
        assert_eq!(error, "it is a pipe that nobody reads from");
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let mut reader = File::from(rustix::fs::open(&path, flags, Mode::empty()).unwrap());
        let mut log = open_log(&path).unwrap();
        log.write_all(b"a line").unwrap();
        let mut read = [0; 16];
        assert_eq!(reader.read(&mut read).unwrap(), 6);
        let flags = fcntl_getfl(&log).unwrap();
        assert!(flags.contains(OFlags::APPEND) && !flags.contains(OFlags::NONBLOCK));
    }
}
