//! The place of an attack: its server, its extent, and the checks that it makes.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use crate::oracle::Check;
use crate::process::Usage;
use crate::server::{Server, Target};

/// The extent of an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Some 3 s against a debug build, on any machine.
    Quick,
    /// The size of the attack when it succeeded, against a release build on a quiet machine.
    Full,
}

impl Scale {
    /// One of two values.
    pub fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// All that an attack works with.
pub struct AttackContext<'a> {
    /// The server under attack.
    pub server: &'a mut Server,
    /// The extent asked for.
    pub scale: Scale,
    /// Usage of the server before the attack.
    pub idle: Usage,
    pub(crate) checks: Vec<Check>,
}

impl AttackContext<'_> {
    /// The address of attackers.
    pub const ATTACKER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// The server's address and certificate.
    #[must_use]
    pub fn target(&self) -> Target {
        self.server.target().clone()
    }

    /// One of two values, by the extent.
    pub fn pick<T>(&self, quick: T, full: T) -> T {
        self.scale.pick(quick, full)
    }

    /// Usage of the server now.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage::of(self.server.pid())
    }

    /// Notes whether a bar is met.
    pub fn check(
        &mut self,
        what: impl Into<String>,
        bar: impl Into<String>,
        measured: impl Into<String>,
        met: bool,
    ) {
        self.checks.push(Check {
            what: what.into(),
            bar: bar.into(),
            measured: measured.into(),
            met,
        });
    }

    /// Notes whether a figure is at most `bar`.
    pub fn check_at_most(&mut self, what: &str, bar: f64, measured: f64, unit: &str) {
        let (met, bar) = (measured <= bar, format!("≤ {bar}{unit}"));
        self.check(what, bar, format!("{measured:.1}{unit}"), met);
    }
}

/// Waits until `is_so`; whether it was within `limit`.
pub(crate) fn within(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !is_so() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}
