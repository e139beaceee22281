//! The admin socket: binds it, and answers on a thread of its own.

use crate::answer::plain;
use crate::{Address, Admin};
use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::convert::Infallible;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Builder;
use tokio::sync::{Mutex, Semaphore, oneshot};
use tokio::time::timeout;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Connections at a time; more wait.
const MAX_CONNECTIONS: usize = 16;

/// The time that a head may take to come.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection is closed after this, so that one that idles does not keep others out.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);

/// The pause when no connection can be accepted, as without file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The admin socket can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The socket can't be bound.
    #[error("cannot listen at the admin socket `{at}`")]
    Bind {
        /// The address.
        at: Address,
        /// The system's error.
        source: io::Error,
    },
    /// Another process answers there.
    #[error("another process answers at the admin socket `{0}`")]
    InUse(Address),
    /// The thread can't be started.
    #[error("cannot start the thread of the admin socket")]
    Thread(#[source] io::Error),
}

/// Ends the thread when it is dropped, and removes the Unix socket that it made.
struct Running {
    _end: oneshot::Sender<Infallible>,
    socket: Option<MadeSocket>,
}

/// A Unix socket in the file system, told from a later one at the same path by its inode.
struct MadeSocket {
    path: PathBuf,
    inode: u64,
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

pub(crate) fn start(
    admin: Admin,
    at: &Address,
    replace: bool,
) -> Result<impl Send + use<>, StartError> {
    let fault = |source| StartError::Bind {
        at: at.clone(),
        source,
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(StartError::Thread)?;
    let entered = runtime.enter();
    let (listener, socket) = match at {
        Address::Unix(path) => {
            if !replace && UnixStream::connect(path).is_ok() {
                return Err(StartError::InUse(at.clone()));
            }
            let (listener, socket) = bind(path).map_err(fault)?;
            let listener = UnixListener::from_std(listener).map_err(fault)?;
            (Listener::Unix(listener), Some(socket))
        }
        Address::Loopback(address) => {
            let listener = bind_loopback(*address).map_err(fault)?;
            (Listener::Tcp(listener), None)
        }
    };
    drop(entered);
    let (end, mut ended) = oneshot::channel();
    let serve = move || {
        runtime.block_on(async move {
            tokio::select! {
                () = listen(listener, admin) => {}
                _ = &mut ended => {}
            }
        });
    };
    let thread = thread::Builder::new().name("admin".into()).spawn(serve);
    thread.map_err(StartError::Thread)?;
    Ok(Running { _end: end, socket })
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(MadeSocket { path, inode }) = &self.socket else {
            return;
        };
        // A server that has taken over has put its own in the place.
        if fs::symlink_metadata(path).is_ok_and(|it| it.ino() == *inode) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Binds beside `path` and moves the socket there, so that there is always one that answers, with its mode.
fn bind(path: &Path) -> io::Result<(StdUnixListener, MadeSocket)> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(new);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = bind_own(&new)?;
    let made = (|| {
        let inode = fs::symlink_metadata(&new)?.ino();
        if fs::symlink_metadata(path).is_ok_and(|it| !is_socket(&it)) {
            let text = "a file that is no socket is in its place";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        fs::rename(&new, path)?;
        listener.set_nonblocking(true)?;
        Ok(inode)
    })();
    match made {
        Ok(inode) => {
            let path = path.to_owned();
            Ok((listener, MadeSocket { path, inode }))
        }
        Err(error) => {
            let _ = fs::remove_file(&new);
            Err(error)
        }
    }
}

/// Binds a socket that is its owner's alone from the first. No mode is given to the path afterwards: whoever has the folder
/// could have put a link to another file there.
fn bind_own(path: &Path) -> io::Result<StdUnixListener> {
    let kind = (SocketType::STREAM, SocketFlags::CLOEXEC);
    let socket = socket_with(AddressFamily::UNIX, kind.0, kind.1, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn is_socket(file: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    file.file_type().is_socket()
}

fn bind_loopback(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn listen(listener: Listener, admin: Admin) {
    let admin = Arc::new(admin);
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let reloads = Arc::new(Mutex::new(()));
    loop {
        let permit = Arc::clone(&room).acquire_owned().await;
        let accepted = match &listener {
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                let shared = (Arc::clone(&admin), Arc::clone(&reloads));
                tokio::spawn(handle_connection(stream, shared, true, permit));
            }),
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                let shared = (Arc::clone(&admin), Arc::clone(&reloads));
                tokio::spawn(handle_connection(stream, shared, false, permit));
            }),
        };
        if let Err(error) = accepted {
            tracing::debug!(%error, "no connection at the admin socket");
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
        }
    }
}

/// `reloads`: held by the reload that goes on.
async fn handle_connection<P>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    (admin, reloads): (Arc<Admin>, Arc<Mutex<()>>),
    is_private: bool,
    _permit: P,
) {
    let answer = service_fn(|request| {
        let response = admin.answer(&request, is_private);
        let shared = (Arc::clone(&admin), Arc::clone(&reloads));
        async {
            Ok::<_, Infallible>(match response {
                Some(response) => response,
                None => reload(shared).await,
            })
        }
    });
    let mut http = http1::Builder::new();
    let http = http
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT);
    let connection = http.serve_connection(TokioIo::new(stream), answer);
    // Whatever ends it: the other end asks again.
    let _ = timeout(CONNECTION_TIMEOUT, connection).await;
}

/// Reloads on a thread of its own, so that others are answered meanwhile; one reload after the other.
async fn reload((admin, reloads): (Arc<Admin>, Arc<Mutex<()>>)) -> Response<Full<Bytes>> {
    let turn = reloads.lock_owned().await;
    let (send, answered) = oneshot::channel();
    let answer = move || {
        // Whoever has asked may be gone.
        let _ = send.send(admin.answer_reload());
        drop(turn);
    };
    let failed = match thread::Builder::new().name("reload".into()).spawn(answer) {
        Ok(_) => match answered.await {
            Ok(response) => return response,
            Err(_) => "the reload panicked; this is a defect of altway\n".into(),
        },
        Err(error) => format!("there is no thread to be had for the reload: {error}\n"),
    };
    plain(StatusCode::INTERNAL_SERVER_ERROR, failed)
}
