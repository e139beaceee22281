//! Network namespaces without a name: they live as long as a file descriptor or a process holds
//! them, so nothing is left behind even when this process is killed.

use crate::Error;
use nix::sched::{CloneFlags, unshare};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::{io, panic, thread};

/// A handle on a network namespace.
#[derive(Debug, Clone)]
pub(crate) struct Namespace(Arc<OwnedFd>);

impl Namespace {
    /// Makes a new, empty one.
    pub(crate) fn create() -> Result<Self, Error> {
        on_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| failed("create")(errno.into()))?;
            Self::current()
        })?
    }

    /// The one that the calling thread is in.
    pub(crate) fn current() -> Result<Self, Error> {
        let file = File::open("/proc/thread-self/ns/net").map_err(failed("open"))?;
        Ok(Self(Arc::new(file.into())))
    }

    /// Runs `task` on a thread of its own inside the namespace, and waits for it.
    ///
    /// Sockets and TUN files that it opens belong to the namespace for good, wherever they are
    /// used later.
    pub(crate) fn run<T: Send>(
        &self,
        task: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        on_thread(|| {
            self.join().map_err(failed("enter"))?;
            task()
        })?
    }

    /// Moves the calling thread into the namespace. Makes no allocation and takes no lock, so it
    /// can be called between fork and exec.
    pub(crate) fn join(&self) -> io::Result<()> {
        let kind = Some(LinkNameSpaceType::Network);
        Ok(move_into_link_name_space(self.0.as_fd(), kind)?)
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Runs `task` on a thread that ends with it, so that what it does to its thread is undone.
fn on_thread<T: Send>(task: impl FnOnce() -> T + Send) -> Result<T, Error> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("altway-netns".into())
            .spawn_scoped(scope, task)
            .map_err(failed("start a thread for"))?;
        Ok(thread
            .join()
            .unwrap_or_else(|panic| panic::resume_unwind(panic)))
    })
}

fn failed(attempted: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Namespace { attempted, source }
}
