//! The Unix socket at which a server waits for the process that is to take its place.
//!
//! The socket passes from process to process like the others, so that the path always leads to the
//! one that serves. The file stays when the last of them ends; nobody answers there then, and the
//! next server to be started replaces it.

use crate::Error;
use rustix::fs::{FileType, Mode, fchmod, lstat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with, sockopt,
};
use rustix::process::geteuid;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The user that may do everything anyway.
const ROOT: u32 = 0;

/// Processes that wait to be talked to.
const BACKLOG: i32 = 8;

/// The socket, listening.
#[derive(Debug)]
pub(crate) struct HandoverSocket(OwnedFd);

/// The answer of a path.
#[derive(Debug)]
pub(super) enum PathState {
    /// A server of this user.
    Server(OwnedFd),
    /// No file, or one that a server has left behind.
    NoServer,
}

impl HandoverSocket {
    /// Listens at `path`, in place of a server that has ended.
    ///
    /// # Errors
    /// The path is too long, its folder is missing or closed to us.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        try_open(path)
            .map(Self)
            .map_err(|error| listen_error(path, error))
    }

    /// A socket that was handed over.
    pub(super) fn from_descriptor(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// A watcher of the socket for an event loop.
    ///
    /// # Errors
    /// No descriptors are left, or the event loop doesn't take it.
    pub(super) fn watch(&self) -> io::Result<AsyncFd<OwnedFd>> {
        altway_socket::watch(self.0.try_clone()?, Interest::READABLE)
    }
}

/// The descriptor, to be handed over.
impl AsFd for HandoverSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The next process that wants to take over.
///
/// # Errors
/// The process is another user's, or no descriptors are left.
pub(super) async fn accept(socket: &AsyncFd<OwnedFd>) -> io::Result<AsyncFd<OwnedFd>> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let accept = |socket: &OwnedFd| Ok(accept_with(socket, flags)?);
    let peer = socket.async_io(Interest::READABLE, accept).await?;
    // Root may have given itself up after it bound the sockets: the next process is started by it again.
    let owner = owner(&peer)?;
    if owner != geteuid().as_raw() && owner != ROOT {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    altway_socket::watch(peer, Interest::READABLE)
}

/// Looks who is at `path`.
///
/// # Errors
/// The file is no socket, another user's, or closed to us.
pub(super) fn find(path: &Path) -> Result<PathState, Error> {
    match lstat(path) {
        Err(Errno::NOENT) => return Ok(PathState::NoServer),
        Err(error) => return Err(connect_error(path, error)),
        Ok(file) if FileType::from_raw_mode(file.st_mode) != FileType::Socket => {
            return Err(Error::TakeoverNotSocket { path: path.into() });
        }
        Ok(_) => {}
    }
    match try_connect(path) {
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(PathState::NoServer),
        Err(error) => Err(connect_error(path, error)),
        Ok(server) => match owner(&server).map_err(|error| broken(path, error))? {
            uid if uid == geteuid().as_raw() => Ok(PathState::Server(server)),
            uid => Err(Error::TakeoverOfAnother {
                path: path.into(),
                uid,
            }),
        },
    }
}

/// The talk with the server at `path` has failed.
pub(super) fn broken(path: &Path, source: io::Error) -> Error {
    Error::TakeoverBroken {
        path: path.into(),
        source,
    }
}

fn try_open(path: &Path) -> Result<OwnedFd, Errno> {
    if path.as_os_str().is_empty() {
        // The kernel would pick a name that nobody finds.
        return Err(Errno::NOENT);
    }
    let address = SocketAddrUnix::new(path)?;
    let socket = new_socket(SocketFlags::NONBLOCK)?;
    // The file gets the socket's mode: it is never open to others.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    if bind(&socket, &address) == Err(Errno::ADDRINUSE) {
        rustix::fs::unlink(path)?;
        bind(&socket, &address)?;
    }
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn try_connect(path: &Path) -> Result<OwnedFd, Errno> {
    let address = SocketAddrUnix::new(path)?;
    let socket = new_socket(SocketFlags::empty())?;
    connect(&socket, &address)?;
    Ok(socket)
}

fn new_socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// The user at the other end, as the kernel tells it.
fn owner(peer: impl AsFd) -> io::Result<u32> {
    Ok(sockopt::socket_peercred(peer)?.uid.as_raw())
}

fn connect_error(path: &Path, error: Errno) -> Error {
    Error::TakeoverConnect {
        path: path.into(),
        source: error.into(),
    }
}

fn listen_error(path: &Path, error: Errno) -> Error {
    Error::TakeoverListen {
        path: path.into(),
        source: error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    /// The user `nobody` of most systems: not this one.
    const ANOTHER: u32 = 65_534;

    /// Variables that tell [`acts_as_another_user`] what to do, and at which path.
    const ACT: &str = "ALTWAY_TEST_ACT";
    const AT: &str = "ALTWAY_TEST_AT";

    /// This program as another user, in a folder that is open to all; `None`, and it is said, where that
    /// can't be.
    fn another_user(act: &str, path: &Path) -> Option<Child> {
        let folder = path.parent().unwrap();
        set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
        let mut other = Command::new(std::env::current_exe().unwrap());
        other.args([
            "--exact",
            "takeover::handover_socket::tests::acts_as_another_user",
        ]);
        other.args(["--ignored", "--nocapture", "--quiet"]);
        other.env(ACT, act).env(AT, path).current_dir("/");
        other.stdin(Stdio::piped()).stdout(Stdio::piped());
        other.stderr(Stdio::null());
        match other.uid(ANOTHER).gid(ANOTHER).spawn() {
            Ok(child) => Some(child),
            Err(error) => {
                eprintln!("SKIPPED: no process of another user: {error}");
                None
            }
        }
    }

    /// Returns the result that the other user reported.
    fn told(other: &mut Child) -> String {
        let lines = BufReader::new(other.stdout.take().unwrap()).lines();
        let mut told = lines.map_while(Result::ok);
        told.find_map(|line| Some(line.split_once("told: ")?.1.to_owned()))
            .unwrap_or_default()
    }

    #[test]
    #[ignore = "others run it in a process of another user"]
    fn acts_as_another_user() {
        let path = std::env::var_os(AT).unwrap();
        let path = Path::new(&path);
        assert_eq!(geteuid().as_raw(), ANOTHER);
        let _listening = match std::env::var(ACT).unwrap().as_str() {
            "connect" => {
                let said = match try_connect(path) {
                    Ok(_) => "connected".to_owned(),
                    Err(error) => format!("{:?}", error.kind()),
                };
                println!("told: {said}");
                None
            }
            _ => {
                let socket = HandoverSocket::open(path).unwrap();
                set_permissions(path, Permissions::from_mode(0o666)).unwrap();
                println!("told: listening");
                Some(socket)
            }
        };
        // Until the one who asked has seen what it wants to see.
        let _ = io::stdin().read_line(&mut String::new());
    }

    #[tokio::test]
    async fn another_user_is_refused_whatever_the_modes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let socket = HandoverSocket::open(&path).unwrap();
        let watched = socket.watch().unwrap();
        let Some(mut other) = another_user("connect", &path) else {
            return;
        };
        assert_eq!(
            told(&mut other),
            "PermissionDenied",
            "by the mode of the file"
        );
        drop(other.stdin.take());
        other.wait().unwrap();

        set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let mut other = another_user("connect", &path).unwrap();
        assert_eq!(told(&mut other), "connected");
        let refused = accept(&watched).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        drop(other.stdin.take());
        other.wait().unwrap();

        let own = try_connect(&path).unwrap();
        assert!(accept(&watched).await.is_ok());
        drop(own);
    }

    #[test]
    fn a_server_of_another_user_is_not_talked_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let Some(mut other) = another_user("listen", &path) else {
            return;
        };
        assert_eq!(told(&mut other), "listening");
        match find(&path) {
            Err(Error::TakeoverOfAnother { uid, .. }) => assert_eq!(uid, ANOTHER),
            found => panic!("{found:?}"),
        }
        drop(other.stdin.take());
        other.wait().unwrap();
    }

    #[test]
    fn a_server_is_found_until_it_has_ended_and_its_file_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        assert!(matches!(find(&path), Ok(PathState::NoServer)));
        for _ in 0..2 {
            let socket = HandoverSocket::open(&path).unwrap();
            assert!(matches!(find(&path), Ok(PathState::Server(_))));
            drop(socket);
            assert!(path.exists());
            assert!(matches!(find(&path), Ok(PathState::NoServer)));
        }
    }

    #[test]
    fn only_its_owner_may_connect() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let _socket = HandoverSocket::open(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_is_no_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(find(&path), Err(Error::TakeoverNotSocket { .. })));
        assert!(path.exists());
    }

    #[test]
    fn a_place_that_cannot_be_listened_at_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let long = dir.path().join("x".repeat(200));
        for path in [dir.path().join("no/folder"), long, "".into()] {
            let error = HandoverSocket::open(&path).unwrap_err();
            assert!(matches!(error, Error::TakeoverListen { .. }), "{error}");
        }
    }
}
