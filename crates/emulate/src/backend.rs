//! The mover of a link's packets: the backends that there are, and the one that is taken where none
//! was asked for.

use crate::namespace::Namespace;
use crate::netlink::Netlink;
use crate::tun::Tun;
use crate::{Error, netem, packet};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The mover of a link's packets.
///
/// | | shaped by | wants | seeds | lateness |
/// |---|---|---|---|---|
/// | `tun` | the link thread | `/dev/net/tun` | kept | measured |
/// | `packet` | the link thread | packet sockets | kept | measured |
/// | `netem` | the kernel | netem in it, and the program `tc` | not kept | not known |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Backend {
    /// A TUN interface at each end, between which a thread moves the packets.
    Tun,
    /// A virtual Ethernet interface at each end, whose packets a thread moves by packet sockets
    /// (AF_PACKET).
    Packet,
    /// A router between the ends, in which the kernel's netem shapes both directions. What a seed
    /// loses is chance, the queue is counted in full packets, and nobody knows how late packets are. A
    /// delay that becomes shorter while the link runs lets later packets overtake.
    Netem,
}

/// A backend, and why it was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) backend: Backend,
    pub(crate) reason: String,
}

/// A text that is not the name of a backend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no backend: expected auto, tun, packet or netem")]
pub struct UnknownBackend(String);

impl Backend {
    /// Backends in the order in which they are tried.
    const ALL: [Self; 3] = [Self::Tun, Self::Packet, Self::Netem];

    /// The name: `tun`, `packet` or `netem`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tun => "tun",
            Self::Packet => "packet",
            Self::Netem => "netem",
        }
    }

    /// Returns what a measurement over it lacks, in a sentence; `None` where nothing is lacking.
    #[must_use]
    pub fn limitation(self) -> Option<&'static str> {
        match self {
            Self::Tun | Self::Packet => None,
            Self::Netem => Some(
                "netem keeps no seeds: what is lost differs from run to run; its queue counts packets, \
                 and how late they are is not known",
            ),
        }
    }

    /// Returns the reason why it can't be used here, if it can't be.
    fn obstacle(self) -> Option<String> {
        match self {
            Self::Tun => Tun::open_device()
                .err()
                .map(|error| format!("/dev/net/tun can't be opened ({error})")),
            Self::Packet => packet::try_out()
                .err()
                .map(|error| format!("packet sockets can't be used ({error})")),
            Self::Netem => netem_obstacle(),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Backend {
    type Err = UnknownBackend;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|backend| backend.name() == text);
        named.ok_or_else(|| UnknownBackend(text.to_owned()))
    }
}

/// The backend `asked` for; else the first that this machine has.
pub(crate) fn choose(asked: Option<Backend>) -> Result<Choice, Error> {
    choose_by(asked, &Backend::ALL, Backend::obstacle)
}

/// The same for ends that shape what they send, for which a TUN interface is no Ethernet.
pub(crate) fn choose_for_egress(asked: Option<Backend>) -> Result<Choice, Error> {
    if asked == Some(Backend::Tun) {
        let (backend, what) = (Backend::Tun, "shaping where packets leave an end");
        return Err(Error::BeyondBackend { backend, what });
    }
    choose_by(asked, &Backend::ALL[1..], Backend::obstacle)
}

/// The same between two interfaces of this namespace, where a TUN interface has no place.
pub(crate) fn choose_between(asked: Option<Backend>) -> Result<Choice, Error> {
    if asked == Some(Backend::Tun) {
        return Err(Error::NoBackend {
            obstacles: "tun joins two namespaces, not two interfaces".to_owned(),
        });
    }
    choose_by(asked, &Backend::ALL[1..], |backend| match backend {
        Backend::Packet => packet::try_here()
            .err()
            .map(|error| format!("packet sockets can't be used ({error})")),
        _ => (!netem::has_tc()).then(|| "there is no program `tc`".to_owned()),
    })
}

fn choose_by(
    asked: Option<Backend>,
    candidates: &[Backend],
    obstacle: impl Fn(Backend) -> Option<String>,
) -> Result<Choice, Error> {
    if let Some(backend) = asked {
        let reason = "it was asked for".to_owned();
        return Ok(Choice { backend, reason });
    }
    let mut obstacles = Vec::new();
    for backend in candidates.iter().copied() {
        match obstacle(backend) {
            Some(obstacle) => obstacles.push(obstacle),
            None if obstacles.is_empty() => {
                let reason = "it is the first choice".to_owned();
                return Ok(Choice { backend, reason });
            }
            None => {
                let reason = obstacles.join(", ");
                return Ok(Choice { backend, reason });
            }
        }
    }
    Err(Error::NoBackend {
        obstacles: obstacles.join("; "),
    })
}

fn netem_obstacle() -> Option<String> {
    if !netem::has_tc() {
        return Some("there is no program `tc`".to_owned());
    }
    let known = Namespace::create()
        .and_then(|scratch| scratch.run(|| Netlink::open()?.knows_qdisc("netem")));
    match known {
        Ok(true) => None,
        Ok(false) => Some("this kernel has no netem".to_owned()),
        Err(error) => Some(format!("netem could not be tried ({error})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(closed: &[Backend]) -> Result<Choice, Error> {
        let closed = closed.to_vec();
        choose_by(None, &Backend::ALL, |backend| {
            closed.contains(&backend).then(|| format!("no {backend}"))
        })
    }

    #[test]
    fn a_name_means_the_backend_that_has_it() {
        for backend in Backend::ALL {
            assert_eq!(backend.to_string().parse(), Ok(backend));
        }
        let unknown = "TUN".parse::<Backend>().unwrap_err();
        assert!(unknown.to_string().contains("tun, packet or netem"));
    }

    #[test]
    fn the_first_that_can_be_used_is_taken_and_the_reason_names_the_others() {
        assert_eq!(closed(&[]).unwrap().backend, Backend::Tun);
        let second = closed(&[Backend::Tun]).unwrap();
        assert_eq!(
            (second.backend, second.reason.as_str()),
            (Backend::Packet, "no tun")
        );
        let third = closed(&[Backend::Tun, Backend::Packet]).unwrap();
        assert_eq!(
            (third.backend, third.reason.as_str()),
            (Backend::Netem, "no tun, no packet")
        );
    }

    #[test]
    fn none_is_an_error_that_says_what_hinders_each() {
        let error = closed(&Backend::ALL).unwrap_err().to_string();
        assert!(error.contains("no tun; no packet; no netem"), "{error}");
    }

    #[test]
    fn what_was_asked_for_is_taken_untried() {
        let asked = choose_by(Some(Backend::Netem), &Backend::ALL, |_| {
            Some("closed".into())
        });
        assert_eq!(asked.unwrap().backend, Backend::Netem);
    }
}
