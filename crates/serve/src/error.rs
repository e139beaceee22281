//! Errors that keep a server from starting or end it, and those of making certificates.

use crate::BoxError;
use std::error::Error as _;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Reasons why the server can't run, or a certificate can't be used. What clients do is never an error of the server:
/// it closes their connection and goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory to serve is missing or closed to us.
    #[error("cannot open the directory `{path}`")]
    Root {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The path to serve is not a directory.
    #[error("`{path}` is not a directory")]
    RootNotDirectory {
        /// The path that was given.
        path: PathBuf,
    },
    /// Options of files that can't be used.
    #[error(transparent)]
    FilesOptions(#[from] crate::InvalidFilesOptions),
    /// The file to answer with where nothing is found is not there.
    #[error("the fallback `{path}` is no file that can be read")]
    Fallback {
        /// The file.
        path: PathBuf,
    },
    /// The port is in use by another socket.
    #[error("{transport} port {} of {} is in use by another program", address.port(), address.ip())]
    PortInUse {
        /// The address to listen at.
        address: SocketAddr,
        /// `TCP` or `UDP`.
        transport: &'static str,
    },
    /// [`serve`](crate::serve) was awaited outside of a Tokio runtime.
    #[error("no Tokio runtime is there: the server must be awaited inside of one")]
    NoRuntime,
    /// The folder in which is kept what the server has learnt can't be used.
    #[error("cannot use the state folder `{path}`")]
    State {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file of a policy's surface can't be read, or holds none.
    #[error("cannot read the surface `{path}`")]
    Surface {
        /// The file.
        path: PathBuf,
        /// The reason why it can't be read or used.
        source: BoxError,
    },
    /// No port number is free for TCP and UDP at the same time.
    #[error("found no port number that is free for both TCP and UDP")]
    NoFreePort,
    /// The socket can't be made or bound.
    #[error("cannot listen on {transport} {address}")]
    Listen {
        /// The address to listen at.
        address: SocketAddr,
        /// `TCP` or `UDP`.
        transport: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The kernel lacks the congestion control.
    #[error("this kernel has no TCP congestion control `{name}`")]
    Congestion {
        /// The name of the congestion control.
        name: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The number of threads is larger than connection IDs can name.
    #[error("{threads} threads are more than the {max} that are allowed")]
    TooManyThreads {
        /// The number that it would be.
        threads: usize,
        /// The number that is allowed.
        max: usize,
    },
    /// The number of [`Options::listeners`](crate::Options::listeners) is larger than a server can
    /// have.
    #[error("{found} further addresses are too many: a server has {max} at most")]
    TooManyListeners {
        /// The number that it would be.
        found: usize,
        /// The number that is allowed.
        max: usize,
    },
    /// A further address with TLS, where the first one has none.
    #[error(
        "a further address has TLS, and the first one is clear text, so that there is no certificate"
    )]
    ListenerWithoutCertificate,
    /// The number of sockets passed for an address is none that the workers can share.
    #[error(
        "{found} {transport} sockets were passed for {address}: expected {expected}, by the number of threads"
    )]
    PassedSockets {
        /// Address of the sockets.
        address: SocketAddr,
        /// `TCP` or `UDP`.
        transport: &'static str,
        /// The number that there are.
        found: usize,
        /// The numbers that can be shared out, in words.
        expected: String,
    },
    /// A root for clients' certificates can't be one.
    #[error("`{path}` holds no root for clients' certificates")]
    ClientRoot {
        /// The file.
        path: PathBuf,
        /// The reason why it is none.
        source: BoxError,
    },
    /// A list of revoked certificates can't be understood.
    #[error("`{path}` holds no list of revoked certificates")]
    Revocation {
        /// The file.
        path: PathBuf,
        /// The reason why it can't be understood.
        source: BoxError,
    },
    /// The number of keys of session tickets is zero, or too large.
    #[error("{found} keys of session tickets: 1 to {max} are expected")]
    TicketKeys {
        /// The number that there are.
        found: usize,
        /// The number that is allowed.
        max: usize,
    },
    /// A key of session tickets can't be read.
    #[error("cannot read the key of session tickets `{path}`")]
    ReadTicketKey {
        /// The key's file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A key of session tickets is shorter than 32 bytes, or longer than 1,024.
    #[error("`{path}` is no key of session tickets: 32 to 1024 random bytes are expected")]
    TicketKeySize {
        /// The key's file.
        path: PathBuf,
    },
    /// [`Options::limits`](crate::Options::limits) under which no client could be served.
    #[error(transparent)]
    Limits(#[from] crate::InvalidLimits),
    /// The file at the path of a takeover is no socket; it is left alone.
    #[error("`{path}` is not a socket")]
    TakeoverNotSocket {
        /// The path that was given.
        path: PathBuf,
    },
    /// The socket for takeovers can't be made.
    #[error("cannot wait for takeovers at `{path}`")]
    TakeoverListen {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The socket for takeovers is there, but the server behind it can't be reached.
    #[error("cannot reach the server at `{path}`")]
    TakeoverConnect {
        /// The path of the server's socket.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The server to take over from is another user's, who may want to deceive us.
    #[error("the server at `{path}` belongs to another user, {uid}")]
    TakeoverOfAnother {
        /// The path of the server's socket.
        path: PathBuf,
        /// The user's number.
        uid: u32,
    },
    /// The server to take over from has other sockets than we want.
    #[error("cannot take over from the server at `{path}`: its {what} is {theirs}, not {ours}")]
    TakeoverDiffers {
        /// The path of the server's socket.
        path: PathBuf,
        /// The name of the property that differs.
        what: &'static str,
        /// The running server's value.
        theirs: String,
        /// The value of this process.
        ours: String,
    },
    /// The server to take over from hands nothing over.
    #[error("cannot take over from the server at `{path}`: {reason}")]
    TakeoverRefused {
        /// The path of the server's socket.
        path: PathBuf,
        /// The reason that the server gives.
        reason: String,
    },
    /// The server to take over from has ended, or doesn't keep to the protocol.
    #[error("the server at `{path}` broke the takeover off")]
    TakeoverBroken {
        /// The path of the server's socket.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A PEM file can't be read.
    #[error("cannot read `{path}`")]
    ReadPem {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file isn't PEM, or what's in it is broken.
    #[error("`{path}` is not a valid PEM file")]
    Pem {
        /// The file.
        path: PathBuf,
        /// The reason why it can't be parsed.
        source: BoxError,
    },
    /// A PEM file without a certificate.
    #[error("`{path}` holds no certificate")]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// A PEM file without a private key.
    #[error("`{path}` holds no private key")]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// A private key that a password is needed for.
    #[error("the private key `{path}` is encrypted, and a server has no password for it")]
    EncryptedKey {
        /// The file.
        path: PathBuf,
    },
    /// The key belongs to a certificate of the chain, which is not its first.
    #[error(
        "the key `{key}` belongs to certificate {place} of the chain `{certificate}`, not to the first"
    )]
    ChainOrder {
        /// The chain's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The place in the chain of the certificate that the key belongs to.
        place: usize,
    },
    /// The key belongs to another certificate.
    #[error("the key `{key}` does not belong to the certificate `{certificate}`")]
    KeyMismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// A certificate that TLS does not take, because it is of an old version of X.509.
    #[error("the certificate `{path}` is of version {version} of X.509, which clients refuse")]
    CertificateVersion {
        /// The chain's file.
        path: PathBuf,
        /// The version.
        version: u32,
    },
    /// No client believes the chain, even if it trusts the last certificate.
    #[error("the chain `{path}` can't be shown to clients: {reason}")]
    UntrustedChain {
        /// The chain's file.
        path: PathBuf,
        /// The fault of the chain, in a sentence.
        reason: String,
    },
    /// Certificate or key are of a kind that can't be used.
    #[error("certificate `{certificate}` and key `{key}` cannot be used")]
    Identity {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The reason why they can't be used.
        source: BoxError,
    },
    /// An OCSP response can't be read.
    #[error("cannot read the OCSP response `{path}`")]
    ReadOcsp {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file isn't a basic OCSP response (RFC 6960 section 4.2.1).
    #[error("`{path}` is not an OCSP response in DER")]
    NotOcsp {
        /// The file.
        path: PathBuf,
    },
    /// The responder gave no answer, and this file holds why.
    #[error("`{path}` holds no answer but the OCSP responder's refusal: {status}")]
    OcspFailed {
        /// The file.
        path: PathBuf,
        /// RFC 6960's name of it, such as `TryLater`.
        status: String,
    },
    /// An OCSP response that doesn't speak of the certificate.
    #[error("the OCSP response `{path}` is for another certificate")]
    OcspOfAnother {
        /// The file.
        path: PathBuf,
    },
    /// An OCSP response that doesn't vouch for the certificate.
    #[error("the OCSP response `{path}` says that the certificate is {status}")]
    OcspNotGood {
        /// The file.
        path: PathBuf,
        /// `revoked` or `unknown`.
        status: &'static str,
    },
    /// An OCSP response whose time is over.
    #[error("the OCSP response `{path}` was valid until {until} only")]
    OcspExpired {
        /// The file.
        path: PathBuf,
        /// The response's `nextUpdate`.
        until: String,
    },
    /// A site made by [`Site::dispatched`](crate::Site::dispatched) has another such site among its own.
    #[error("a site that is chosen among several cannot itself be one of several")]
    NestedDispatch,
    /// TLS can't be set up.
    #[error("cannot set up TLS")]
    Tls(#[source] BoxError),
    /// HTTP/3 can't be set up.
    #[error("cannot set up HTTP/3")]
    Http3(#[from] altway_http3::Error),
    /// The event loop of a worker or of the acceptor can't be created, or has failed.
    #[error("a worker cannot go on")]
    Worker(#[source] io::Error),
    /// A defect of this crate ended the acceptor, or ended workers more often than they are restarted
    /// ([`Server::run`](crate::Server::run)).
    #[error("a worker panicked; this is a defect of altway")]
    WorkerPanicked,
    /// Threads have not ended in time after a stop: a system call holds them. They end with the process.
    #[error("after {} s these threads have not ended: {}", waited.as_secs_f64(), threads.join(", "))]
    ThreadsStuck {
        /// Names of the threads.
        threads: Vec<String>,
        /// The time since the stop: the grace and what is allowed beyond it.
        waited: std::time::Duration,
    },
    /// The user has no home folder, so there is no place for certificates.
    #[error("found no data directory for certificates: neither XDG_DATA_HOME nor HOME is set")]
    NoDataDirectory,
    /// A certificate store's file or directory can't be used.
    #[error("cannot {action} `{path}`")]
    CertificateStore {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The file or directory of the attempt.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A certificate in the store can't be understood.
    #[error("`{path}` is damaged: {reason}")]
    CertificateDamaged {
        /// The file.
        path: PathBuf,
        /// The reason why it can't be understood.
        reason: String,
    },
    /// The authority's certificate is there but its key is not; a new one would be another
    /// authority, which nobody trusts yet.
    #[error("the certificate authority `{certificate}` has lost its key `{key}`")]
    AuthorityKeyMissing {
        /// The authority's certificate.
        certificate: PathBuf,
        /// The path at which the authority's key is expected.
        key: PathBuf,
    },
    /// The authority expires before a leaf of it would.
    #[error("the certificate authority `{certificate}` has expired or soon will")]
    AuthorityExpired {
        /// The authority's certificate.
        certificate: PathBuf,
    },
    /// A name that no certificate can be made for.
    #[error("`{name}` is neither a host name, `*.` and a host name, nor an IP address")]
    BadName {
        /// The name that was given.
        name: String,
    },
    /// A certificate was to hold more names than it should.
    #[error("a certificate for {count} names is more than the {max} that are allowed")]
    TooManyNames {
        /// The number that it would be.
        count: usize,
        /// The number that is allowed.
        max: usize,
    },
    /// A certificate can't be made.
    #[error("cannot make a certificate")]
    Generate(#[source] BoxError),
    /// altway does not know where this system keeps its trusted authorities.
    #[error("this system's trust store is unknown (neither Debian's nor Fedora's)")]
    UnknownTrustStore,
    /// The command that rebuilds the trust store failed.
    #[error("`{command}` failed: {reason}")]
    TrustCommand {
        /// The command line.
        command: String,
        /// The command's exit status, or why it did not start.
        reason: String,
    },
}

impl Error {
    pub(crate) fn tls(error: rustls::Error) -> Self {
        Self::Tls(error.into())
    }

    pub(crate) fn generate(error: rcgen::Error) -> Self {
        Self::Generate(error.into())
    }

    /// The same error for whoever asks before it is returned: the cause is in its text.
    pub(crate) fn to_io(&self) -> io::Error {
        let causes = std::iter::successors(self.source(), |it| (**it).source());
        let text = causes.fold(self.to_string(), |text, cause| format!("{text}: {cause}"));
        io::Error::new(self.kind(), text)
    }

    fn kind(&self) -> io::ErrorKind {
        let cause = self.source().and_then(|it| it.downcast_ref::<io::Error>());
        match self {
            Self::PortInUse { .. } => io::ErrorKind::AddrInUse,
            _ => cause.map_or(io::ErrorKind::Other, io::Error::kind),
        }
    }
}

/// Conversion for programs whose `main` returns `io::Result`, as with `axum::serve`.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::new(error.kind(), error)
    }
}
