//! The configuration of a server: TOML text to a [`Config`], and that to a checked [`Plan`] of sites.
//!
//! [`read`] takes a text and gives a plan, or *all* that is wrong with it: each [`Fault`] with file, line
//! and column, a sentence, and a hint. The options of a command line build the same [`Config`], and
//! [`Config::to_toml`] prints the text that equals it.
//!
//! Pure: text in, values out. Included files come through [`ConfigFiles`]; folders, certificates and keys
//! are named here and opened by others. Left to others: what the words do (`serve`, `site`).
//!
//! ```
//! use altway_config::{Action, NoFiles, read};
//!
//! let plan = read("altway.toml", r#"
//!     [[site]]
//!     names = ["example.org", "*.example.org"]
//!     policy = "surface"
//!
//!     [[site.route]]
//!     files = "/srv/www"
//!     fallback = "/index.html"
//! "#, &mut NoFiles)?;
//! let route = &plan.sites()[0].routes[0];
//! assert!(matches!(&route.action, Action::Files(files) if files.index == ["index.html"]));
//!
//! let faults = read("altway.toml", "[listen]\nhtps = [\"*:443\"]", &mut NoFiles).unwrap_err();
//! assert_eq!(faults.to_string(), "\
//! altway.toml:1:1: no [[site]] says what is served
//!   hint: add [[site]] with `default = true` and a [[site.route]] with `files = \"DIR\"`
//! altway.toml:2:1: unknown key `htps` in [listen]
//!   hint: did you mean `https`?");
//! # Ok::<(), altway_config::Faults>(())
//! ```
#![warn(clippy::disallowed_methods)]

mod acme;
mod config;
mod fault;
pub mod keys;
mod limits;
mod plan;
mod print;
mod proxy;
mod read;
mod schema;
mod site;
mod upload;
mod values;

pub use acme::{Acme, AcmeChallenge, AcmeOnDemand, ExternalAccount, Issuer, OnDemandNames};
pub use altway_units::{BadNetwork, BadPrefixLengths, Network, PrefixLengths};
pub use config::{
    Config, Congestion, DEFAULT_PORT, EarlyData, Listen, Listener, Log, LogFormat, MAX_LISTENERS,
    MAX_THREADS, Protocol, Protocols, Sandbox, Security, Spread, Transport,
};
pub use fault::{Fault, Faults, MAX_FAULTS};
pub use limits::Limits;
pub use plan::{Places, Plan};
pub use print::PrintExtent;
pub use proxy::{
    FieldChanges, HealthCheck, MAX_ATTEMPTS, MAX_KEEP_BODY, MAX_UPSTREAMS, Proxy, ProxyRetry,
    ProxyTimeouts,
};
pub use read::{ConfigFiles, MAX_INCLUDED, MAX_TEXT, NoFiles, read, read_with_places};
pub use schema::schema;
pub use site::{
    Action, CacheRule, Certificate, ClientCertificates, Coding, ErrorPage, Files,
    MAX_RESPONSE_BODY, MAX_ROUTES, MAX_SITES, OnTheFly, Redirect, Respond, Route, Secret, Site,
};
pub use upload::{MAX_CONCURRENT_UPLOADS, MAX_UPLOAD_PARTS, Upload, UploadMethod};
pub use values::{
    AcmeProfile, AskUrl, BadAcmeValue, BadAddress, BadBalance, BadCheckPath, BadField, BadHost,
    BadPathPrefix, BadPattern, BadRetry, BadServerId, BadSiteName, BadTarget, BadTlsName,
    BadUpstream, BadUrlPath, Balance, CheckPath, DirectoryUrl, Email, FieldPattern, HeaderField,
    HostValue, ListenAddress, PathPattern, PathPrefix, RedirectTarget, Requested, Retry, ServerId,
    SiteName, TlsName, Upstream, UpstreamPlace, UpstreamProtocol, UrlPath,
};
