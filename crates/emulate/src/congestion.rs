//! The default congestion control of TCP in a namespace.
//!
//! The kernel lets a namespace other than the first use only what stands in the list
//! net.ipv4.tcp_allowed_congestion_control, which is one for the whole machine. Cubic is not in it
//! where another one is the machine's default. A default once set stays, so root needs to widen the
//! list for a moment only.

use crate::Error;
use crate::namespace::Namespace;
use crate::sysctl;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::io;
use std::os::fd::OwnedFd;

const DEFAULT: &str = "net.ipv4.tcp_congestion_control";
const AVAILABLE: &str = "net.ipv4.tcp_available_congestion_control";
const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";

/// The names in the kernel's lists are shorter than 128 bytes together (TCP_CA_BUF_MAX).
const LIST_MAX: usize = 256;

/// Returns the congestion controls that the kernel has at the moment, separated by blanks.
pub(crate) fn available() -> String {
    read_or_unknown(AVAILABLE)
}

/// Returns the congestion controls that namespaces may use, separated by blanks.
pub(crate) fn allowed() -> String {
    read_or_unknown(ALLOWED)
}

/// The default of the namespace of the calling thread.
pub(crate) fn default() -> String {
    read_or_unknown(DEFAULT)
}

/// Makes `name` the default of the namespace of the calling thread. `host` is the namespace whose
/// list of allowed ones may be widened for a moment.
pub(crate) fn set_default(name: &str, host: &Namespace) -> Result<(), Error> {
    let refused = |source| Error::CongestionControl {
        name: name.to_owned(),
        available: available(),
        allowed: allowed(),
        source,
    };
    match sysctl::write(DEFAULT, name) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        done => return done.map_err(refused),
    }
    let _allowed_for_now = host.run(|| Ok(Allowance::grant(name)))?.map_err(refused)?;
    sysctl::write(DEFAULT, name).map_err(refused)
}

/// A further name in the list of allowed ones, until it is dropped.
#[derive(Debug)]
struct Allowance {
    list: OwnedFd,
    before: Vec<u8>,
}

impl Allowance {
    fn grant(name: &str) -> io::Result<Self> {
        let path = sysctl::path(ALLOWED);
        let list = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        // Two programs that do this at once would put back each other's lists. The lock ends with
        // the file.
        flock(&list, FlockOperation::LockExclusive)?;
        let mut before = vec![0; LIST_MAX];
        let length = rustix::io::pread(&list, &mut *before, 0)?;
        before.truncate(length);
        let wider = [before.trim_ascii(), b" ", name.as_bytes()].concat();
        let allowance = Self { list, before };
        allowance.set(&wider)?;
        Ok(allowance)
    }

    fn set(&self, list: &[u8]) -> io::Result<()> {
        rustix::io::pwrite(&self.list, list, 0)?;
        Ok(())
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        if let Err(error) = self.set(&self.before) {
            tracing::warn!(%error, "cannot put {ALLOWED} back to what it was");
        }
    }
}

fn read_or_unknown(parameter: &str) -> String {
    sysctl::read(parameter).unwrap_or_else(|_| "unknown".to_owned())
}
