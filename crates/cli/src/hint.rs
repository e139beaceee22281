//! Help after an error: one hint, chosen by the deepest cause that is known.
//!
//! The crates' errors say what happened; what to do about it at a command line is said here.

use crate::https_record::LookUpError;
use altway_emulate::Error as EmulateError;
use altway_lab::{BadLink, Error as LabError};
use altway_link::ChangeError;
use altway_load::Error as LoadError;
use altway_raw::Error as RawError;
use altway_record::PlanError;
use altway_serve::{Error as ServeError, InvalidFilesOptions};
use altway_site::{Error as SiteError, UploadFolderError};
use altway_upstream::Error as UpstreamError;
use rustix::io::Errno;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::{fmt, io};

/// A hint on what the file of a certificate has to hold.
const CERTIFICATE_FILE: &str = "a certificate's file is PEM: the server's own first, then those that signed it, without the root";

/// A certificate is of an old version of X.509.
const CERTIFICATE_VERSION: &str = "have it made anew, of version 3: `openssl x509 -req` makes those with `-extfile FILE` alone, where FILE has a line like `subjectAltName = DNS:example.org`";

/// A served folder is closed to the process.
const CLOSED_ROOT: &str = "let the user that altway runs as read it, and enter the folders above: `namei -l DIR` shows who may";

/// The certificate of altway's own authority has too many names.
pub(crate) const OWN_NAMES: &str = "altway's own authority makes one certificate for all names: have `certificate` name files for some sites, or get them by [acme]";

/// A mistake at the command line that no crate below could know of, with its mend.
#[derive(Debug)]
struct UsageError {
    what: String,
    mend: String,
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for UsageError {}

/// An error that says `what` is wrong, and hints at its `mend`.
pub(crate) fn usage_error(what: impl Into<String>, mend: impl Into<String>) -> anyhow::Error {
    UsageError {
        what: what.into(),
        mend: mend.into(),
    }
    .into()
}

/// The hint for `error`, if there is one: that of an error of ours before that of the system's, for
/// the same code means different things (a full disk, a limit of namespaces).
pub(crate) fn of(error: &anyhow::Error) -> Option<String> {
    let ours = error.chain().find_map(of_ours);
    ours.or_else(|| error.chain().find_map(of_io))
}

/// The hint that does not speak of options, if there is one: for what a configuration names.
pub(crate) fn of_configuration(error: &anyhow::Error) -> Option<String> {
    match error.downcast_ref::<UsageError>() {
        Some(usage_error) => Some(usage_error.mend.clone()),
        None => of_named(error),
    }
}

/// The hint on a folder, a certificate or a key that a configuration names and that can't be used; `None`: it is another
/// error.
pub(crate) fn of_named(error: &anyhow::Error) -> Option<String> {
    let upload = match error.downcast_ref() {
        Some(SiteError::Upload(error)) => Some(error),
        _ => error.downcast_ref(),
    };
    if let Some(error) = upload {
        return Some(of_uploads(error).into());
    }
    if let Some(SiteError::Upstream(error)) = error.downcast_ref() {
        return of_upstream(error).map(Into::into);
    }
    let hint = match error.downcast_ref::<ServeError>()? {
        ServeError::Root { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            CLOSED_ROOT
        }
        ServeError::Root { .. } | ServeError::RootNotDirectory { .. } => {
            "name a folder that is there, whose files are to be served"
        }
        ServeError::Fallback { .. } => "name a file of the folder, as \"/index.html\"",
        error @ (ServeError::ReadPem { .. }
        | ServeError::Pem { .. }
        | ServeError::NoCertificate { .. }
        | ServeError::ClientRoot { .. }
        | ServeError::NoKey { .. }
        | ServeError::EncryptedKey { .. }
        | ServeError::ChainOrder { .. }
        | ServeError::KeyMismatch { .. }
        | ServeError::CertificateVersion { .. }
        | ServeError::UntrustedChain { .. }
        | ServeError::Identity { .. }) => of_server_certificate(error)?,
        _ => return None,
    };
    Some(hint.into())
}

fn of_ours(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(usage_error) = error.downcast_ref::<UsageError>() {
        return Some(usage_error.mend.clone());
    }
    if let Some(error) = error.downcast_ref::<EmulateError>() {
        return of_emulate(error);
    }
    if error.is::<InvalidFilesOptions>() {
        return Some("`altway serve --help` says what is expected, under Files".into());
    }
    match error.downcast_ref::<SiteError>() {
        Some(SiteError::Upload(error)) => return Some(of_uploads(error).into()),
        Some(SiteError::Upstream(error)) => return of_upstream(error).map(Into::into),
        _ => {}
    }
    if error.is::<LookUpError>() {
        return Some("name a resolver that answers with --resolver, as in 127.0.0.53:53".into());
    }
    if error.is::<ChangeError>() {
        return Some("`altway emulate set --help` has examples".into());
    }
    if let Some(error) = error.downcast_ref::<BadLink>() {
        return Some(error.hint().into());
    }
    if let Some(LabError::Link(link)) = error.downcast_ref::<LabError>() {
        return Some(link.hint().into());
    }
    if let Some(error) = error.downcast_ref::<LabError>() {
        return of_lab(error);
    }
    if let Some(error) = error.downcast_ref::<ServeError>() {
        return of_serve(error);
    }
    if let Some(error) = error.downcast_ref::<LoadError>() {
        return of_load(error);
    }
    if let Some(error) = error.downcast_ref::<RawError>() {
        return of_raw(error);
    }
    match error.downcast_ref::<PlanError>()? {
        PlanError::Impossible { hint, .. } => Some(hint.clone()),
        PlanError::Delays(_) => Some("as in --delays '10ms,20ms..100ms by 20ms'".into()),
        _ => Some("the plans that ship are examples: see `altway lab plan print quick`".into()),
    }
}

fn of_uploads(error: &UploadFolderError) -> &'static str {
    match error {
        UploadFolderError::Unnamed { .. } => {
            "give a folder that the server may write to, on a file system that has O_TMPFILE: ext4, XFS, Btrfs, tmpfs, not NFS"
        }
        _ => "make the folder, and let the server's user write to it",
    }
}

/// The hint on an error in how the servers behind a proxy are reached.
fn of_upstream(error: &UpstreamError) -> Option<&'static str> {
    match error {
        UpstreamError::Roots { .. } | UpstreamError::NoRoots { .. } => Some(
            "name a PEM file that this user may read: the certificates of the authorities that sign those of the servers",
        ),
        UpstreamError::ClientCertificateVersion { .. } => Some(CERTIFICATE_VERSION),
        UpstreamError::ClientChain { .. }
        | UpstreamError::ClientKey { .. }
        | UpstreamError::ClientCertificate { .. } => Some(
            "a client certificate's files are PEM: this server's own certificate first, and the key that it was made for",
        ),
        _ => None,
    }
}

fn of_io(error: &(dyn Error + 'static)) -> Option<String> {
    let io = error.downcast_ref::<io::Error>()?;
    let errno = Errno::from_io_error(io);
    if errno.is_some_and(|errno| [Errno::MFILE, Errno::NFILE].contains(&errno)) {
        return Some(
            "raise the limit of open files (`ulimit -n`, LimitNOFILE= in a unit): `altway doctor` says what it is"
                .into(),
        );
    }
    (io.kind() == io::ErrorKind::StorageFull).then(disk_full)
}

fn disk_full() -> String {
    "make room on the disk; a run of the lab goes on with `altway lab resume`".into()
}

fn of_emulate(error: &EmulateError) -> Option<String> {
    let hint = match error {
        EmulateError::UserNamespace { .. }
        | EmulateError::NoPrivilegeInside { .. }
        | EmulateError::Namespace { .. }
        | EmulateError::Tun { .. } => "run `altway doctor` to see which privilege is missing",
        EmulateError::Containment { source, .. } if source.kind() != io::ErrorKind::NotFound => {
            "the kernel has to have process namespaces (CONFIG_PID_NS) and let this user make them"
        }
        EmulateError::Containment { .. } => {
            "the program is looked for in the folders of PATH unless its name has a slash"
        }
        EmulateError::HostNeedsRoot => {
            "run as root, or give the far end a command with `--server COMMAND`"
        }
        EmulateError::CongestionControl { .. } => "run `altway doctor` to see which ones there are",
        EmulateError::NoBackend { .. } => {
            "run `altway doctor` to see what is missing, or choose with `--backend`"
        }
        EmulateError::Priority { .. } => "run as root, or ask for a nice value of 0 or more",
        EmulateError::BeyondEgress { .. } => "leave it out, or take another topology",
        EmulateError::NoHtb => {
            "load it with `modprobe sch_htb` as root, or take another topology than egress"
        }
        EmulateError::Unshapable { .. } | EmulateError::BeyondBackend { .. } => {
            "use `--backend tun` or `--backend packet` for that"
        }
        EmulateError::NoTc { .. } => "install iproute2 (Debian's name), or use another `--backend`",
        EmulateError::NoNetem | EmulateError::Tc { .. } => {
            "load it with `modprobe sch_netem` as root, or use another `--backend`"
        }
        EmulateError::NoInterface { .. } => "`ip link` lists the interfaces that there are",
        EmulateError::NoInterfaceIn { .. } => {
            "`ip address` lists the addresses that there are; a name like eth0 will do as well"
        }
        EmulateError::UnfitInterface { .. } => {
            "--between wants two Ethernet interfaces that are up and have no other master"
        }
        EmulateError::InterfaceInUse { .. } => {
            "end what uses it; what a killed link left goes with `altway emulate clean`"
        }
        EmulateError::NoForwarding => {
            "sysctl -w net.ipv4.ip_forward=1, or use `--backend packet` to be their wire"
        }
        EmulateError::LinkStopped => "see whether what is at the ends of the link still runs",
        EmulateError::Network { source, .. }
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            "run as root; in a container, add CAP_NET_ADMIN and CAP_NET_RAW"
        }
        EmulateError::Mtu { .. } => "1500 bytes is what Ethernet carries",
        EmulateError::ProxyListen { .. } => {
            "choose a port that nothing listens on; ports below 1024 are root's"
        }
        EmulateError::ProxyTarget { .. } => {
            "give its address, or a name that this host can look up"
        }
        EmulateError::Processors { .. } => "leave the pinning out, and the kernel chooses",
        EmulateError::PacketLog { .. } => "give --pcap a file in a folder that is there",
        EmulateError::NoLink => {
            "start one with `altway emulate … -- COMMAND`; only the user who did can change it"
        }
        EmulateError::UnknownLink { .. } | EmulateError::SeveralLinks { .. } => {
            "choose one with `--link`, by its name or the number of its process"
        }
        EmulateError::LinkSilent { .. } => "it may just have ended: see `altway emulate show`",
        _ => return None,
    };
    Some(hint.into())
}

fn of_lab(error: &LabError) -> Option<String> {
    let hint = match error {
        error if error.is_disk_full() => return Some(disk_full()),
        LabError::Folder { action, source, .. }
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            match *action {
                "create" => "name a folder that you may write to: `--runs DIR`",
                _ => "run it as the user who measured, or with a copy of the folder",
            }
        }
        LabError::Alone { .. } => "name the samples.csv of one run, or its whole folder",
        LabError::NoRun(_) => "run folders are named runs/TIMESTAMP-PLAN",
        LabError::InUse(_) => "wait for the other altway to end, or stop it with Ctrl-C",
        LabError::OtherBuild { .. } => {
            "start a new run: transfers of two builds can't be compared with each other"
        }
        LabError::OldSchema { .. } => "draw it again with `altway lab report`, or start a new run",
        LabError::NoServer { .. } | LabError::NoClient { .. } => {
            "install it so that it is found by PATH, or leave it out of the plan"
        }
        LabError::Samples { .. } => {
            "take the file from a copy; without that line, `altway lab resume` makes its transfer again"
        }
        LabError::NoCongestion { .. } => {
            "as root, `modprobe tcp_bbr` loads bbr; or leave it out of the plan"
        }
        LabError::UnsupportedProtocol { .. } => {
            "leave that protocol out of `protocols`, or install a version that speaks it"
        }
        LabError::NoAltSvc { .. } => "leave it out of `client`, or install one with alt-svc",
        LabError::Silent { .. } => {
            "see whether its command serves the folder over that protocol, and at {address}:{port}"
        }
        LabError::EmptyShard { .. } => {
            "take no more shards than the plan has cells, or with adaptive sampling maps of delay and loss"
        }
        LabError::DifferentRuns { .. } => {
            "merge the shards of one plan, measured by one build of altway"
        }
        LabError::TooManyFailures { .. } => "run `altway doctor` to see what hinders this machine",
        _ => return None,
    };
    Some(hint.into())
}

fn of_serve(error: &ServeError) -> Option<String> {
    let hint = match error {
        ServeError::RootNotDirectory { path } if path.extension() == Some("toml".as_ref()) => {
            return Some(format!(
                "a configuration is served by `altway serve --config {}`",
                path.display()
            ));
        }
        ServeError::Root { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            CLOSED_ROOT
        }
        ServeError::Root { .. } | ServeError::RootNotDirectory { .. } => {
            "give the folder whose files are to be served: `altway serve DIR`"
        }
        ServeError::Listen {
            address, source, ..
        } => return of_listen(*address, source).map(Into::into),
        ServeError::Fallback { .. } => "name a file of the folder, as `--fallback index.html`",
        ServeError::FilesOptions(_) => "`altway serve --help` says what is expected, under Files",
        ServeError::PortInUse { .. } | ServeError::NoFreePort => {
            "choose another port with `--port`, in a configuration in `[listen]`; 0 is any that is free"
        }
        // Of the system's own refusals the system's hint is said.
        ServeError::State { source, .. }
            if source.kind() == io::ErrorKind::PermissionDenied && source.get_ref().is_some() =>
        {
            "take away what another user has put there, or name a folder that is root's, or that of `user`"
        }
        ServeError::State { source, .. } => return of_state(source).map(Into::into),
        ServeError::Congestion { .. } => "run `altway doctor` to see which ones there are",
        ServeError::TakeoverNotSocket { .. } | ServeError::TakeoverListen { .. } => {
            "give a path, for instance /run/altway/takeover, in a folder of this user's that is there"
        }
        ServeError::TakeoverConnect { .. } | ServeError::TakeoverOfAnother { .. } => {
            "run as the same user as the server that is to be replaced"
        }
        ServeError::TakeoverDiffers { .. } => "use its --bind, --port and --h2c, or stop it first",
        ServeError::TakeoverRefused { .. } => "try again in a while, or stop it first",
        ServeError::TakeoverBroken { .. } => {
            "try again; if another takeover was under way, it has won"
        }
        ServeError::TooManyThreads { .. } => "leave out --threads to have one per core",
        ServeError::PassedSockets { .. } => {
            "in the socket's unit, repeat `ListenDatagram=` as often as there are threads, with `ReusePort=yes`, or leave one"
        }
        _ => return of_server_certificate(error).map(Into::into),
    };
    Some(hint.into())
}

/// A certificate of the server, its key, or what comes with them.
fn of_server_certificate(error: &ServeError) -> Option<&'static str> {
    Some(match error {
        ServeError::NoDataDirectory => "name a certificate by --cert and its key by --key",
        ServeError::CertificateStore { source, .. }
            if matches!(
                source.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            "run as the user that the folder belongs to, have XDG_DATA_HOME name another, or name a certificate by \
             --cert and its key by --key"
        }
        ServeError::TooManyNames { .. } => OWN_NAMES,
        ServeError::ReadPem { .. } => "name a file that is there, and that this user may read",
        ServeError::Pem { .. } | ServeError::NoCertificate { .. } => CERTIFICATE_FILE,
        ServeError::ClientRoot { .. } => {
            "a file of roots is PEM: the certificates of the authorities that sign those of clients"
        }
        ServeError::NoKey { .. } => "a key's file is PEM, with `BEGIN PRIVATE KEY`",
        ServeError::EncryptedKey { .. } => {
            "`openssl pkey -in KEY -out PLAIN` takes the password away; let PLAIN be its owner's alone (mode 600)"
        }
        ServeError::ChainOrder { .. } => {
            "put the server's own certificate first into the file, then those that signed it, without the root"
        }
        ServeError::KeyMismatch { .. } => {
            "name the key that the certificate was made for: `openssl x509 -noout -pubkey -in CERT` and \
             `openssl pkey -pubout -in KEY` print the same of a pair"
        }
        ServeError::CertificateVersion { .. } => CERTIFICATE_VERSION,
        ServeError::UntrustedChain { .. } => {
            "a chain's file is PEM: the server's own certificate, then each that signed the one before it, and the \
             server's key"
        }
        ServeError::Identity { .. } => "keys of ECDSA, Ed25519 and RSA can be used",
        ServeError::ReadOcsp { .. } | ServeError::NotOcsp { .. } => {
            "--ocsp wants what `openssl ocsp -respout FILE` writes; without --ocsp nothing is stapled"
        }
        ServeError::OcspFailed { .. }
        | ServeError::OcspOfAnother { .. }
        | ServeError::OcspExpired { .. } => {
            "ask the certificate's OCSP responder anew, or leave out --ocsp to staple nothing"
        }
        ServeError::OcspNotGood { .. } => "have the certificate replaced: clients will refuse it",
        ServeError::AuthorityKeyMissing { .. } | ServeError::AuthorityExpired { .. } => {
            "move the folder of the authority away; the next `altway certs` makes a new one"
        }
        ServeError::UnknownTrustStore => "add the authority by hand: `altway certs` says how",
        ServeError::TrustCommand { .. } => "the system's trust store is changed as root only",
        _ => return None,
    })
}

/// A socket that can't be bound, at a port that is not in use.
fn of_listen(address: SocketAddr, source: &io::Error) -> Option<&'static str> {
    let is_link_local = match address.ip() {
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
        IpAddr::V4(_) => false,
    };
    match source.kind() {
        io::ErrorKind::InvalidInput if is_link_local => Some(
            "an address of fe80::/10 is that of an interface, which can't be named here: listen at all addresses",
        ),
        io::ErrorKind::PermissionDenied if address.port() < 1024 => Some(
            "ports below 1024 are root's: start it as root with --user (`user` in a configuration), or give it \
             CAP_NET_BIND_SERVICE, as the unit in packaging/ does; or choose another port",
        ),
        io::ErrorKind::AddrNotAvailable => Some(
            "`ip address` lists the addresses of this machine; without --bind it listens at all of them",
        ),
        _ => None,
    }
}

/// A state folder that can't be used.
fn of_state(source: &io::Error) -> Option<&'static str> {
    match source.kind() {
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::NotFound
        | io::ErrorKind::AlreadyExists
        | io::ErrorKind::NotADirectory => {
            Some("name a folder that the server's user may write to, or one that it may make")
        }
        io::ErrorKind::InvalidData => Some(
            "restore the file from a backup, or remove it: the server then learns of its clients anew",
        ),
        _ => None,
    }
}

fn of_raw(error: &RawError) -> Option<String> {
    let hint = match error {
        RawError::Connect { .. } | RawError::Foreign { .. } | RawError::Resolve { .. } => {
            "start `altway raw serve` there, and name its host and port; a firewall may let TCP pass \
             and not UDP"
        }
        RawError::Handshake { reason, .. } => {
            return of_certificate(reason).or_else(|| {
                Some("something else may listen there: `altway raw serve` tells its port".into())
            });
        }
        RawError::Lost { .. } | RawError::Silent { .. } => {
            "see whether `altway raw serve` still runs there; --timeout says how long to be patient"
        }
        RawError::Congestion { .. } => "run `altway doctor` to see which ones there are",
        RawError::PortInUse { .. } => {
            "choose another port with `--port`, or 0 for any that is free"
        }
        RawError::Pem { .. } => CERTIFICATE_FILE,
        RawError::Trust(error) => return of_load(error),
        _ => return None,
    };
    Some(hint.into())
}

fn of_load(error: &LoadError) -> Option<String> {
    let reason = match error {
        LoadError::NeverConnected { reason, .. } if reason.contains("refused") => {
            return Some(
                "see whether a server listens at that port: of TCP, for HTTP/3 of UDP".into(),
            );
        }
        LoadError::NeverConnected { reason, .. } | LoadError::Lost { reason, .. } => reason,
        LoadError::AltSvcNeedsHttp3 { .. }
        | LoadError::EarlyDataNeedsHttp3 { .. }
        | LoadError::QuicVersionNeedsHttp3 { .. } => {
            return Some("add `--protocol h3`".into());
        }
        LoadError::EarlyDataStreams { .. } => {
            return Some("leave out `--streams`, and raise `--connections`".into());
        }
        LoadError::Url { .. } | LoadError::NotHttp { .. } => {
            return Some("give the whole URL, like https://localhost:8443/".into());
        }
        LoadError::Http3NeedsHttps { .. } => {
            return Some("give an https:// URL, or `--protocol h2`".into());
        }
        LoadError::Resolve { .. } => {
            return Some(
                "look for a typing error in the name, or name the server's address".into(),
            );
        }
        LoadError::NoCa { .. } => {
            return Some("name a CA file with --ca, or install ca-certificates".into());
        }
        _ => return None,
    };
    of_certificate(reason)
}

/// A server's certificate that the client doesn't believe.
fn of_certificate(reason: &str) -> Option<String> {
    let certificate = reason.contains("certificate") || reason.contains("UnknownIssuer");
    certificate.then(|| {
        "name the authority with --ca (`altway certs` tells where altway's own is), or use \
         --insecure"
            .into()
    })
}

#[cfg(test)]
mod tests;
