//! Values of a configuration that no other crate has: each is valid by its type.

mod acme;
mod address;
mod header;
mod host;
mod path_prefix;
mod pattern;
mod quic;
mod target;
mod upstream;
mod url_path;

pub use acme::{AcmeProfile, AskUrl, BadAcmeValue, DirectoryUrl, Email};
pub use address::{BadAddress, ListenAddress};
pub(crate) use header::is_value as is_field_value;
pub use header::{BadField, FieldPattern, HeaderField};
pub use host::{BadSiteName, SiteName};
pub use path_prefix::{BadPathPrefix, PathPrefix};
pub use pattern::{BadPattern, PathPattern};
pub use quic::{BadRetry, BadServerId, Retry, ServerId};
pub use target::{BadTarget, RedirectTarget, Requested};
pub use upstream::{
    BadBalance, BadCheckPath, BadHost, BadTlsName, BadUpstream, Balance, CheckPath, HostValue,
    TlsName, Upstream, UpstreamPlace, UpstreamProtocol,
};
pub use url_path::{BadUrlPath, UrlPath};
