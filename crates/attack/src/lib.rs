//! Hostile clients against `altway serve`, and an oracle that measures what they do to it.
//!
//! An [`Attack`] is a bounded piece of malice. [`run`] starts the real binary for it, with one worker on loopback, has a
//! bystander ask over HTTP/1.1, HTTP/2 and HTTP/3 from another address meanwhile, watches the process
//! from outside, and checks what must hold: memory above idle while the attack lasts and after it,
//! descriptors, the bystander's service, the life of the process; and what the attack itself checks.
//! Each attack has a quick form for the tests of every change and a full one for a quiet machine.

pub mod attacks;
pub mod bystander;
pub mod client;
mod context;
mod oracle;
pub mod process;
pub mod server;

pub use attacks::ALL;
pub use context::{AttackContext, Scale};
pub use oracle::{Check, Report, run};

use bystander::Protocol;
use server::Setup;
use std::time::Duration;

/// An attack and the bounds of what it may cost.
pub struct Attack {
    /// Name of the attack, for the command line.
    pub name: &'static str,
    /// A sentence: who does what.
    pub about: &'static str,
    /// True if it has a quick form, of some 3 s at most.
    pub quick: bool,
    /// The server that it is made against.
    pub setup: fn(Scale) -> Setup,
    /// Protocols that the bystander speaks.
    pub bystander: &'static [Protocol],
    /// Bound of the resident memory above idle, in bytes.
    pub memory: u64,
    /// Time for which the server may keep what clients left that went without a word: over QUIC there is no telling
    /// that a client has gone but its silence.
    pub lingers: Duration,
    /// The attack itself. Its connections end when it returns.
    pub run: fn(&mut AttackContext<'_>) -> anyhow::Result<()>,
    /// Further checks once the bystander has stopped: they may end the server.
    pub afterwards: Option<fn(&mut AttackContext<'_>) -> anyhow::Result<()>>,
}

impl Attack {
    /// An attack against a server with default settings that all protocols reach, with a bound of 64 MiB.
    pub(crate) const fn new(
        name: &'static str,
        about: &'static str,
        run: fn(&mut AttackContext<'_>) -> anyhow::Result<()>,
    ) -> Self {
        Self {
            name,
            about,
            quick: true,
            setup: |_| Setup {
                options: Vec::new(),
                max_files: None,
                unread_stderr: false,
            },
            bystander: &[Protocol::H1, Protocol::H2, Protocol::H3],
            memory: 64 << 20,
            lingers: Duration::ZERO,
            run,
            afterwards: None,
        }
    }

    /// Restricts the attack to full runs.
    pub(crate) const fn only_in_full(mut self) -> Self {
        self.quick = false;
        self
    }

    /// Sets another server to attack.
    pub(crate) const fn against(mut self, setup: fn(Scale) -> Setup) -> Self {
        self.setup = setup;
        self
    }

    /// Makes the attack run against a server in clear text, with a bystander to match.
    pub(crate) const fn in_clear_text(mut self) -> Self {
        self.setup = |_| Setup::with(&["--h2c"]);
        self.bystander = &[Protocol::H1Clear];
        self
    }

    /// Adds further checks once the bystander has stopped.
    pub(crate) const fn then(
        mut self,
        afterwards: fn(&mut AttackContext<'_>) -> anyhow::Result<()>,
    ) -> Self {
        self.afterwards = Some(afterwards);
        self
    }

    /// The same attack, whose clients over QUIC go without a word, so that the server keeps them for so many seconds.
    pub(crate) const fn lingering(mut self, seconds: u64) -> Self {
        self.lingers = Duration::from_secs(seconds);
        self
    }

    /// Sets another bound of memory, in MiB.
    pub(crate) const fn within(mut self, mebibytes: u64) -> Self {
        self.memory = mebibytes << 20;
        self
    }
}

/// The attack of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Attack> {
    ALL.iter()
        .copied()
        .flatten()
        .find(|attack| attack.name == name)
}

/// Lets this process open as many descriptors as it may: attackers need one for each connection.
pub fn raise_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // The attacks say themselves what they could not open.
    let _ = setrlimit(Resource::Nofile, limit);
}
