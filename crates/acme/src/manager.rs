//! The thread that orders certificates: takes the schedule's tasks, carries them out, and tells it what came of each.

mod event_loop;

use crate::authority::Authority;
use crate::certificate::Issued;
use crate::folder::Lock;
use crate::responder::Responder;
use crate::schedule::{NameStatus, SavedState, Validity};
use crate::{Error, Folder, OnDemand, Settings};
use event_loop::EventLoop;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// The time between two attempts at a lock that another process has.
const LOCK_INTERVAL: Duration = Duration::from_secs(1);

/// An event that an operator may want to know of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A certificate is in its file, and to be shown from now on.
    Issued {
        /// Name of the certificate.
        name: String,
        /// Validity of the certificate.
        validity: Validity,
    },
    /// A task has failed, and is tried again.
    Failed {
        /// The name that it was about.
        name: String,
        /// Reason of the failure, in words.
        message: String,
        /// The time to the next attempt, if that is known.
        retry_in: Option<Duration>,
        /// The certificate's time; `None`: there is none yet.
        validity: Option<Validity>,
    },
    /// Names on demand are others than before: their certificates are to be read again.
    OnDemand {
        /// Names that nobody uses any more, whose certificates are gone.
        forgotten: Vec<String>,
    },
    /// The folder is in use by another process, and is waited for.
    Waiting {
        /// Process number of the holder.
        holder: Option<u32>,
    },
}

/// A function that is told of events, on the thread that orders certificates: it should not wait.
pub type Observer = Box<dyn Fn(&Event) + Send>;

/// The state of all names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Each name, in alphabetical order.
    pub names: Vec<NameStatus>,
    /// Certificates that were issued since the process began.
    pub issued: u64,
    /// Failures since then.
    pub failed: u64,
}

/// The names that are ordered for, and where.
#[derive(Clone)]
struct Assignment {
    authority: Arc<Authority>,
    names: Arc<[String]>,
}

/// Orders certificates and renews them until the process ends. Clones are the same.
#[derive(Clone)]
pub struct Manager {
    assignment: watch::Sender<Assignment>,
    status: Arc<Mutex<Status>>,
}

/// Settings that were read and can be used from now on.
pub struct PreparedSettings(Arc<Authority>);

impl fmt::Debug for PreparedSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PreparedSettings")
            .field(&self.0.folder)
            .finish()
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager").finish_non_exhaustive()
    }
}

impl Manager {
    /// Takes the folder for this process, and reads the roots. `waits`: a process that has the folder is waited for once
    /// this is [started](OpenedFolder::start), for it is to end.
    ///
    /// # Errors
    /// The folder or the roots can't be used, or another process has the folder.
    pub fn open(settings: Settings, waits: bool) -> Result<OpenedFolder, Error> {
        let authority = Authority::new(settings)?;
        let (lock, holder) = match authority.folder.lock() {
            Err(Error::InUse { holder, .. }) if waits => (None, holder),
            lock => (Some(lock?), None),
        };
        Ok(OpenedFolder {
            authority,
            lock,
            holder,
            on_demand: OnDemand::default(),
        })
    }

    /// Reads what other settings name, and changes nothing yet.
    ///
    /// # Errors
    /// The roots or the URL of the question can't be used, or the folder is another one ([`Error::OtherFolder`]).
    pub fn prepare(&self, settings: Settings) -> Result<PreparedSettings, Error> {
        let current = Arc::clone(&self.assignment.borrow().authority);
        if current.settings == settings {
            return Ok(PreparedSettings(current));
        }
        let authority = Authority::new(settings)?;
        if authority.folder.root() != current.folder.root() {
            let folder = current.folder.root().to_owned();
            return Err(Error::OtherFolder { folder });
        }
        Ok(PreparedSettings(Arc::new(authority)))
    }

    /// Orders for these names by these settings from now on, and tries those at once that were refused before. Another
    /// directory is another authority, at which all is ordered anew that its folder does not have.
    pub fn replace(&self, prepared: PreparedSettings, names: &[String]) {
        self.assignment.send_replace(Assignment {
            authority: prepared.0,
            names: names.into(),
        });
    }

    /// Orders for these names from now on, by the same settings.
    pub fn replace_names(&self, names: &[String]) {
        let authority = Arc::clone(&self.assignment.borrow().authority);
        self.replace(PreparedSettings(authority), names);
    }

    /// The state of all names, as of the latest step or the latest minute.
    #[must_use]
    pub fn status(&self) -> Status {
        let status = self.status.lock();
        status.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A folder that is ready to be ordered into.
pub struct OpenedFolder {
    authority: Authority,
    /// The lock on the folder; `None`: another process has it.
    lock: Option<Lock>,
    holder: Option<u32>,
    on_demand: OnDemand,
}

impl fmt::Debug for OpenedFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedFolder")
            .field("folder", &self.authority.folder)
            .finish_non_exhaustive()
    }
}

impl OpenedFolder {
    /// Names that come at run time, for the server's handshakes. At first none is had on demand.
    #[must_use]
    pub fn on_demand(&self) -> OnDemand {
        self.on_demand.clone()
    }

    /// Begins to order certificates for these names, on a thread of its own. The server should listen by now.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(
        self,
        names: &[String],
        responder: Arc<dyn Responder>,
        observer: Observer,
    ) -> Result<Manager, Error> {
        let Self {
            authority,
            lock,
            holder,
            on_demand,
        } = self;
        let folder = authority.folder.clone();
        let (sender, receiver) = watch::channel(Assignment {
            authority: Arc::new(authority),
            names: names.into(),
        });
        let manager = Manager {
            assignment: sender,
            status: Arc::default(),
        };
        let status = Arc::clone(&manager.status);
        if lock.is_none() {
            observer(&Event::Waiting { holder });
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(Error::Thread)?;
        let event_loop = move || {
            let _lock = lock.unwrap_or_else(|| wait_for(&folder));
            let event_loop = EventLoop::new(receiver, on_demand, (responder, observer), status);
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, event_loop.run());
        };
        let thread = std::thread::Builder::new().name("acme".into());
        thread.spawn(event_loop).map_err(Error::Thread)?;
        Ok(manager)
    }
}

/// The lock, once the other process has ended.
fn wait_for(folder: &Folder) -> Lock {
    loop {
        match folder.lock() {
            Ok(lock) => return lock,
            Err(Error::InUse { .. }) => {}
            Err(error) => tracing::warn!("{error}: it is tried again"),
        }
        std::thread::sleep(LOCK_INTERVAL);
    }
}

/// The certificate's time and the memory of a name, as the folder has them.
fn kept(folder: &Folder, name: &str) -> (Option<Validity>, SavedState) {
    let held = Issued::kept(folder, name);
    let saved_state = folder.saved_state(name);
    let has_order = folder.order(name).is_file();
    let saved_state = SavedState {
        has_order,
        ..saved_state.unwrap_or_default()
    };
    (held.map(|held| held.validity), saved_state)
}

#[cfg(test)]
mod tests;
