//! Faults of certificates and keys that don't keep a server from using them, but should be mended.

use crate::certs::trust::quoted;
use rustix::process::geteuid;
use rustls::pki_types::CertificateDer;
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, X509Certificate};

/// A certificate with less than this left is warned of.
const EXPIRY_WARNING: Duration = Duration::from_hours(14 * 24);

/// A fault of an [`Identity`](crate::Identity) that its operator should know of. [`Display`](fmt::Display)
/// names the file and, for a key, the command that mends it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdentityWarning {
    /// A private key that others than its owner may read. One of another owner than the server's user
    /// may be shared with a group: through that the server itself reads it.
    ReadableKey {
        /// The key's file.
        path: PathBuf,
        /// The file's permissions, as `chmod` takes them.
        mode: u32,
        /// The shell command that takes them away from others.
        command: String,
    },
    /// A certificate whose time is over: clients refuse it.
    Expired {
        /// The chain's file.
        path: PathBuf,
        /// The certificate's place in the chain; 1: the server's own.
        place: usize,
        /// Last second of the certificate's validity.
        not_after: SystemTime,
    },
    /// A certificate whose time has not come: clients refuse it until then.
    NotYetValid {
        /// The chain's file.
        path: PathBuf,
        /// The certificate's place in the chain; 1: the server's own.
        place: usize,
        /// First second of the certificate's validity.
        not_before: SystemTime,
    },
    /// A certificate whose time is over within 14 days.
    ExpiresSoon {
        /// The chain's file.
        path: PathBuf,
        /// The certificate's place in the chain; 1: the server's own.
        place: usize,
        /// Last second of the certificate's validity.
        not_after: SystemTime,
    },
    /// A chain that does not fit into what QUIC may send before the client's address is validated (RFC
    /// 9000 section 8.1): three times what came from it, of most clients but browsers one datagram of
    /// 1,200 bytes. Handshakes with those take a round trip more.
    LongChain {
        /// The chain's file.
        path: PathBuf,
        /// The bytes of all its certificates.
        bytes: usize,
        /// The number of certificates.
        certificates: usize,
    },
}

impl IdentityWarning {
    /// Returns true if clients refuse the certificate now.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Expired { .. } | Self::NotYetValid { .. })
    }
}

impl fmt::Display for IdentityWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadableKey {
                path,
                mode,
                command,
            } => {
                let path = path.display();
                write!(
                    f,
                    "others than its owner can read the private key `{path}` (mode {mode:03o}); mend it by: {command}"
                )
            }
            Self::Expired {
                path,
                place,
                not_after,
            } => {
                let (which, when) = (certificate(path, *place), Minute(*not_after));
                write!(f, "{which} expired on {when}: clients refuse it")
            }
            Self::NotYetValid {
                path,
                place,
                not_before,
            } => {
                let (which, when) = (certificate(path, *place), Minute(*not_before));
                write!(f, "{which} is valid from {when} on: clients refuse it")
            }
            Self::ExpiresSoon {
                path,
                place,
                not_after,
            } => {
                let (which, when) = (certificate(path, *place), Minute(*not_after));
                write!(f, "{which} expires on {when}: renew it")
            }
            Self::LongChain {
                path,
                bytes,
                certificates,
            } => {
                let path = path.display();
                write!(
                    f,
                    "the chain `{path}` ({certificates} certificates, {bytes} bytes) costs QUIC clients whose \
                     hello is one datagram a round trip: leave out the root, or use ECDSA"
                )
            }
        }
    }
}

fn certificate(path: &Path, place: usize) -> String {
    let path = path.display();
    match place {
        1 => format!("the certificate `{path}`"),
        _ => format!("certificate {place} of the chain `{path}`"),
    }
}

/// A point in time, as people read it.
struct Minute(SystemTime);

impl fmt::Display for Minute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = OffsetDateTime::from(self.0);
        let (hour, minute, _) = time.to_hms();
        write!(f, "{} at {hour:02}:{minute:02} UTC", time.date())
    }
}

/// The first and the last second of a certificate (RFC 5280 section 4.1.2.5).
#[derive(Debug, Clone, Copy)]
pub(super) struct Validity {
    not_before: SystemTime,
    not_after: SystemTime,
}

impl Validity {
    /// The dates of a certificate; `None`: it can't be parsed, by clients neither.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let validity = parsed.validity();
        Some(Self {
            not_before: validity.not_before.to_datetime().into(),
            not_after: validity.not_after.to_datetime().into(),
        })
    }

    /// A warning of this certificate, at `place` in the chain `path`, if its dates give cause for one.
    pub(super) fn warning(
        self,
        path: &Path,
        place: usize,
        now: SystemTime,
    ) -> Option<IdentityWarning> {
        let Self {
            not_before,
            not_after,
        } = self;
        let path = path.into();
        if now > not_after {
            Some(IdentityWarning::Expired {
                path,
                place,
                not_after,
            })
        } else if now < not_before {
            Some(IdentityWarning::NotYetValid {
                path,
                place,
                not_before,
            })
        } else if not_after < now + EXPIRY_WARNING {
            Some(IdentityWarning::ExpiresSoon {
                path,
                place,
                not_after,
            })
        } else {
            None
        }
    }
}

/// The bytes that a server may send of its certificates and its signature before it knows the client's address: three
/// times a datagram of 1,200 bytes (RFC 9000 sections 8.1 and 14.1), without some 250 bytes of other TLS
/// messages and 200 of packet headers, frames and tags.
const FIRST_FLIGHT: usize = 3 * 1_200 - 450;

/// Bytes that the message adds for each certificate (RFC 8446 section 4.4.2).
const ENTRY: usize = 5;

/// A warning of the chain `path`, if it is too long for a server's first flight; `signature`: the bytes of
/// what its key signs with.
pub(super) fn of_length(
    path: &Path,
    chain: &[CertificateDer<'_>],
    signature: usize,
) -> Option<IdentityWarning> {
    let bytes = chain.iter().map(|one| one.len()).sum::<usize>();
    let flight = bytes + ENTRY * chain.len() + signature;
    (flight > FIRST_FLIGHT).then(|| IdentityWarning::LongChain {
        path: path.into(),
        bytes,
        certificates: chain.len(),
    })
}

/// A warning of the key `path`, if `file` (its metadata) lets others read it.
pub(super) fn of_key(path: &Path, file: &Metadata) -> Option<IdentityWarning> {
    // A pipe is gone once it has been read.
    if !file.is_file() {
        return None;
    }
    let command = mending(file.mode(), file.uid(), geteuid().as_raw())?;
    Some(IdentityWarning::ReadableKey {
        path: path.into(),
        mode: file.mode() & 0o777,
        command: command.replace("KEY", &quoted(path)),
    })
}

/// The command for a key `KEY` of `owner` with this `mode`, if others than `user` may read it.
///
/// A key of another owner's is read through its group, if not by everybody: a group is then how it is
/// meant to be shared.
fn mending(mode: u32, owner: u32, user: u32) -> Option<String> {
    let is_ours = owner == user || user == 0;
    match is_ours {
        true => (mode & 0o044 != 0).then(|| "chmod go-rwx KEY".into()),
        false => (mode & 0o004 != 0).then(|| format!("chown {user} KEY && chmod go-rwx KEY")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Option<&str> = Some("chmod go-rwx KEY");

    #[test]
    fn a_key_that_group_or_others_may_read_is_mended_by_chmod() {
        for (mode, expected) in [
            (0o100_600, None),
            (0o100_400, None),
            (0o100_622, None),
            (0o100_640, OURS),
            (0o100_604, OURS),
            (0o100_644, OURS),
        ] {
            for (owner, user) in [(1000, 1000), (0, 0), (1000, 0)] {
                let command = mending(mode, owner, user);
                assert_eq!(command.as_deref(), expected, "{mode:o} {owner} {user}");
            }
        }
    }

    #[test]
    fn a_key_of_another_owner_may_be_shared_with_the_group_but_not_with_all() {
        assert_eq!(mending(0o640, 0, 1000), None);
        let command = mending(0o644, 0, 1000);
        let expected = "chown 1000 KEY && chmod go-rwx KEY";
        assert_eq!(command.as_deref(), Some(expected));
    }

    #[test]
    fn a_chain_is_warned_of_from_the_byte_on_that_no_longer_fits() {
        let chain = |bytes: usize| [vec![0; 1_000].into(), CertificateDer::from(vec![0; bytes])];
        let fits = FIRST_FLIGHT - 1_000 - 2 * ENTRY - 256;
        let path = Path::new("chain.pem");
        assert_eq!(of_length(path, &chain(fits), 256), None);
        let warning = of_length(path, &chain(fits + 1), 256).unwrap().to_string();
        let expected = "the chain `chain.pem` (2 certificates, 2885 bytes) costs QUIC clients";
        assert!(warning.starts_with(expected), "{warning}");
    }

    #[test]
    fn a_later_certificate_of_the_chain_is_told_by_its_place() {
        let warning = |place| IdentityWarning::Expired {
            path: "chain.pem".into(),
            place,
            not_after: SystemTime::UNIX_EPOCH - Duration::from_mins(1),
        };
        let date = "expired on 1969-12-31 at 23:59 UTC: clients refuse it";
        let own = format!("the certificate `chain.pem` {date}");
        let second = format!("certificate 2 of the chain `chain.pem` {date}");
        assert_eq!(warning(1).to_string(), own);
        assert_eq!(warning(2).to_string(), second);
    }
}
