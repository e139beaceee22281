//! Sites, their routes, and what routes do.

use crate::{HeaderField, Issuer, PathPattern, Proxy, RedirectTarget, SiteName, Upload, UrlPath};
use altway_document::words;
use altway_select::ModelKind;
use altway_units::{DataSize, Ratio};
use std::path::PathBuf;

/// The most sites of a configuration.
pub const MAX_SITES: usize = 10_000;

/// The most routes of a site.
pub const MAX_ROUTES: usize = 1_000;

/// The longest body of a `respond`, in bytes.
pub const MAX_RESPONSE_BODY: usize = 64 << 10;

/// One site: `[[site]]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Site {
    /// The names of its hosts, none twice over all sites.
    pub names: Vec<SiteName>,
    /// True if the site has the requests for hosts that no site has, and connections without a name. At most one site
    /// is the default.
    pub is_default: bool,
    /// Certificates of the site: of each name the first that suits the client. None: they come from
    /// [`issuer`](Self::issuer).
    pub certificates: Vec<Certificate>,
    /// The origin that is said, where there are no certificates.
    pub issued_by: Option<Issuer>,
    /// The certificates that its clients are asked for; `None`: none.
    pub client_certificates: Option<ClientCertificates>,
    /// The policy by which a client's protocol is chosen.
    pub policy: ModelKind,
    /// The share of page views whose browsers report how long the page took, above 0; `None`: there is no beacon.
    pub beacon: Option<Ratio>,
    /// Fields of all its responses. Of one name may be several.
    pub headers: Vec<HeaderField>,
    /// The longest content of a request that its routes with `proxy` pass on, unless they say something else; `None`: as
    /// [`Limits`](crate::Limits) say.
    pub max_body: Option<DataSize>,
    /// Routes of the site; of those that match a request's path the first has it, and where none does the answer is
    /// 404.
    pub routes: Vec<Route>,
}

/// A certificate and its key: `certificate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// PEM file of the chain, the server's own first.
    pub chain: PathBuf,
    /// Private key of the certificate, PEM.
    pub key: Secret,
    /// File of an OCSP response for it, DER.
    pub ocsp: Option<PathBuf>,
}

/// The certificates that a site's clients are asked for: `client-certificates`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificates {
    /// PEM file of the authorities that sign them.
    pub roots: PathBuf,
    /// Files of the authorities' lists of revoked certificates (RFC 5280 section 5), PEM or DER; none: no list is looked at.
    pub revocation: Vec<PathBuf>,
    /// True if clients without a certificate are refused.
    pub required: bool,
}

/// The place of a secret. It is looked up when it is needed, and again at each reload.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Secret {
    /// The content of a file.
    File(PathBuf),
    /// The value of a variable of the environment.
    Env(String),
    /// A credential of systemd: the content of the file of this name in `$CREDENTIALS_DIRECTORY`.
    Credential(String),
}

/// A route: the action on some of a site's requests, `[[site.route]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The paths of those requests.
    pub path: PathPattern,
    /// Fields of its responses; one that the site has as well replaces all of that name there.
    pub headers: Vec<HeaderField>,
    /// The action.
    pub action: Action,
}

/// The action on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Answered with a file.
    Files(Files),
    /// Carried to a server behind this one.
    Proxy(Box<Proxy>),
    /// Sent elsewhere.
    Redirect(Redirect),
    /// Answered with what stands in the configuration.
    Respond(Respond),
    /// Stored.
    Upload(Upload),
}

/// The files of a folder: `files`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The folder. A request's whole path is looked up below it, whichever route it came by.
    pub root: PathBuf,
    /// Names of the files that stand for their folder, best first; none: a folder has no page of its own.
    pub index: Vec<String>,
    /// The page that stands for every path of which there is no file, with status 200, for applications of
    /// one page.
    pub fallback: Option<UrlPath>,
    /// True if `/about` is answered with `about.html` where there is no `about`.
    pub clean_urls: bool,
    /// True if a folder without index is answered with a list of its files.
    pub listing: bool,
    /// Encodings for which a file's neighbour (`app.js.br`) is sent where it is there, best first.
    pub precompressed: Vec<Coding>,
    /// Encodings that are made on the fly of types that are text, best first.
    pub compress: Vec<OnTheFly>,
    /// Values of Cache-Control; of those that match a request's path the first counts.
    pub cache: Vec<CacheRule>,
    /// Pages for statuses, each once.
    pub error_pages: Vec<ErrorPage>,
    /// True if files and folders are served whose names begin with a dot; `/.well-known` always is.
    pub hidden: bool,
}

impl Files {
    /// The files of a folder, with the default of every other key.
    #[must_use]
    pub fn of(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            index: vec!["index.html".into()],
            fallback: None,
            clean_urls: false,
            listing: false,
            precompressed: Vec::new(),
            compress: Vec::new(),
            cache: Vec::new(),
            error_pages: Vec::new(),
            hidden: false,
        }
    }
}

words! {
    /// An encoding of content (RFC 9110 section 8.4.1) that a file's neighbour may have.
    Coding, "an encoding" {
        /// RFC 8878; files end with `.zst`.
        Zstd = "zstd",
        /// RFC 7932; files end with `.br`.
        Brotli = "br",
        /// RFC 1952; files end with `.gz`.
        Gzip = "gzip",
    }
}

words! {
    /// An encoding of content that can be made on the fly.
    OnTheFly, "an encoding that is made on the fly" {
        /// RFC 7932.
        Brotli = "br",
        /// RFC 1952.
        Gzip = "gzip",
        /// RFC 8878, in builds that have its encoder.
        Zstd = "zstd",
    }
}

/// A value of Cache-Control for some paths: an entry of `cache`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheRule {
    /// The paths.
    pub path: PathPattern,
    /// The value, which can be sent (RFC 9110 section 5.5).
    pub value: String,
}

/// The page for a status: an entry of `error-pages`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorPage {
    /// 400 to 599.
    pub status: u16,
    /// The page, in the folder of the route.
    pub page: UrlPath,
}

/// A redirect: `redirect`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// The target of the redirect.
    pub to: RedirectTarget,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

impl Redirect {
    /// The status when none is given: permanent, with the same method (RFC 9110 section 15.4.9).
    pub const DEFAULT_STATUS: u16 = 308;

    /// The statuses that there are.
    pub const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];
}

/// An answer that stands in the configuration: `respond`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Respond {
    /// 200 to 599.
    pub status: u16,
    /// The content, at most [`MAX_RESPONSE_BODY`] bytes; none with 204 and 304. It is
    /// `text/plain; charset=utf-8` unless `headers` say another type.
    pub body: String,
    /// Fields of the answer; one that the route or the site has as well replaces all of that name there.
    pub headers: Vec<HeaderField>,
}
