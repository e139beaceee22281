//! Limits of what clients may cost a server: the options of `altway serve` for [`altway_serve::Limits`].

use super::translated;
use crate::hint::usage_error;
use crate::printer::Printer;
use altway_config::{Action, Limits as Config, Plan};
use altway_serve::{InvalidLimits, Limits as Bounds, PrefixLengths, Retry};
use altway_units::{DataSize, LeastRate, RequestLimit, duration};
use altway_upstream::{Group, MAX_KEPT};
use anyhow::Result;
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

/// Memory that a process has besides its workers: the program, queues of logs (4 MiB each), sessions for
/// early data (10 MiB), what is known of paths.
const PROCESS: DataSize = DataSize::from_bytes(24 << 20);

/// Every field of [`Bounds`]. Those of counts and sizes are of one worker.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits (counts and sizes are of one worker)")]
pub(crate) struct Limits {
    /// Memory of the whole process, split evenly among its workers: sets all limits, in the
    /// proportions of their defaults, so that they add up to it. Other options override single ones.
    #[arg(long, value_name = "SIZE")]
    max_memory: Option<DataSize>,
    /// Addresses that count as one client: leading bits of IPv4 and of IPv6. Behind a proxy all clients share its
    /// address: then raise the limits below that are for one client.
    #[arg(long, value_name = "BITS,BITS", default_value_t = PrefixLengths::default())]
    client_prefix: PrefixLengths,
    /// Open connections over TCP, and as many over QUIC; each counts as 56 KiB, over QUIC 75 KiB. From 90 % on those
    /// that are idle longest are closed to make room [default: 10000].
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_connections: Option<usize>,
    /// Connections of one client, over TCP and QUIC together [default: an eighth].
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_connections_per_client: Option<usize>,
    /// Handshakes in progress; each costs 26 KiB more than an idle connection [default: 2500].
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_handshakes: Option<usize>,
    /// Handshakes of one client in progress [default: as many as its connections].
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_handshakes_per_client: Option<usize>,
    /// Requests in progress; those beyond are answered 503, except the first 4 of each client (fewer if its share is
    /// smaller). Each costs 1 KiB, and possibly a file descriptor [default: 40000].
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_requests: Option<usize>,
    /// Requests of one client in progress [default: an eighth].
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_requests_per_client: Option<usize>,
    /// Rate at which one client may send requests, and how many at once after a pause, as in "200/s, burst 1000"; per
    /// s, min or h, or off. Requests beyond that are answered 429 with Retry-After [default: 10000/s, burst 50000;
    /// off for loopback addresses].
    #[arg(long, value_name = "RATE", hide_short_help = true)]
    requests_per_prefix: Option<RequestLimit>,
    /// Requests at the same time on one connection of HTTP/2 or HTTP/3 [default: 100].
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_concurrent_requests: Option<u32>,
    /// Bytes of responses that clients don't read and of unfinished heads, over TCP, and of requests that nobody
    /// reads (also over HTTP/3). Beyond it, a client that holds some is sent nothing more until it has read them
    /// [default: 64MiB].
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    max_held: Option<DataSize>,
    /// The same for one client [default: an eighth].
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    max_held_per_client: Option<DataSize>,
    /// Bytes over QUIC that clients have not acknowledged, that they may send before anybody reads them, and of
    /// unfinished heads. From half of it on a connection gets only what its path carries in three round trips
    /// [default: 256MiB].
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    max_quic_held: Option<DataSize>,
    /// The same for one client [default: an eighth].
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    max_quic_held_per_client: Option<DataSize>,
    /// Bytes of files that are kept in memory because they are asked for often [default: 48MiB].
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    max_cached: Option<DataSize>,
    /// Occasions on which QUIC clients must first prove their address (Retry, which costs them a round trip): always,
    /// never, or beyond this number of unfinished handshakes.
    #[arg(long, value_name = "WHEN", default_value_t = Retry::default(), hide_short_help = true)]
    retry: Retry,
    /// Time that a handshake may take [default: 10s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse, hide_short_help = true)]
    handshake_timeout: Option<Duration>,
    /// Time that the head of a request may take, which is answered 408 then, and that a connection over HTTP/1.1 may idle
    /// before it [default: 30s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse, hide_short_help = true)]
    header_timeout: Option<Duration>,
    /// Time that a connection may idle [default: 1min].
    #[arg(long, value_name = "TIME", value_parser = duration::parse, hide_short_help = true)]
    idle_timeout: Option<Duration>,
    /// Least rate at which a client may send the content of a request or take that of a response, as in "1kB/s after
    /// 10s": a transfer that moves less in such a time is ended [default: 100 bytes a second over --idle-timeout].
    #[arg(long, value_name = "RATE", hide_short_help = true)]
    slowest: Option<LeastRate>,
    /// Longest content of a request that is passed on to servers behind; longer ones are answered 413. Files read none
    /// [default: 100GB].
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    max_body: Option<DataSize>,
}

impl Limits {
    /// The same as `[limits]` of a configuration.
    ///
    /// # Errors
    /// A count is 0.
    pub(crate) fn config(&self) -> Result<Config> {
        let concurrent = self.max_concurrent_requests;
        let concurrent = concurrent.map(|count| {
            NonZeroU32::new(count).ok_or_else(|| zero("max_concurrent_requests", Spelling::Options))
        });
        Ok(Config {
            max_memory: self.max_memory,
            client_prefix: self.client_prefix,
            max_connections: count("max_connections", self.max_connections)?,
            max_connections_per_client: count(
                "max_connections_per_client",
                self.max_connections_per_client,
            )?,
            max_handshakes: count("max_handshakes", self.max_handshakes)?,
            max_handshakes_per_client: count(
                "max_handshakes_per_client",
                self.max_handshakes_per_client,
            )?,
            max_requests: count("max_requests", self.max_requests)?,
            max_requests_per_client: count(
                "max_requests_per_client",
                self.max_requests_per_client,
            )?,
            requests_per_prefix: self.requests_per_prefix,
            max_concurrent_requests: concurrent.transpose()?,
            max_held: self.max_held,
            max_held_per_client: self.max_held_per_client,
            max_quic_held: self.max_quic_held,
            max_quic_held_per_client: self.max_quic_held_per_client,
            max_cached: self.max_cached,
            retry: translated(self.retry),
            handshake_timeout: self.handshake_timeout,
            header_timeout: self.header_timeout,
            idle_timeout: self.idle_timeout,
            slowest: self.slowest,
            max_body: self.max_body,
        })
    }
}

fn count(field: &'static str, given: Option<usize>) -> Result<Option<NonZeroUsize>> {
    let count = |count| NonZeroUsize::new(count).ok_or_else(|| zero(field, Spelling::Options));
    given.map(count).transpose()
}

/// The spelling of limits in errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// The spelling as an option: `--max-held`.
    Options,
    /// The spelling as a key of a configuration: `max-held`.
    Keys,
}

/// The number of workers, and the memory that the process has for servers behind beside the limits.
pub(crate) type Workers = (NonZeroUsize, DataSize);

/// Memory that `workers` hold for the servers behind of a plan: connections, and content that is kept for another
/// attempt.
pub(crate) fn of_upstreams(plan: &Plan, workers: NonZeroUsize) -> DataSize {
    let routes = plan.sites().iter().flat_map(|site| &site.routes);
    let groups = routes.filter_map(|route| match &route.action {
        Action::Proxy(proxy) => altway_site::upstream_options(proxy).ok(),
        _ => None,
    });
    let each: Vec<_> = groups.map(|options| Group::memory(&options)).collect();
    if each.is_empty() {
        return DataSize::ZERO;
    }
    let connections = each.into_iter().fold(0, u64::saturating_add);
    let connections = connections.saturating_mul(workers.get() as u64);
    DataSize::from_bytes(connections.saturating_add(MAX_KEPT as u64))
}

/// The bounds of each of so many workers.
///
/// # Errors
/// Nobody could be served under them.
pub(crate) fn bounds(
    limits: &Config,
    workers: Workers,
    spelling: Spelling,
    printer: &Printer,
) -> Result<Bounds> {
    let bounds = checked(limits, workers, spelling)?;
    let sum = memory(&bounds, workers.0) + workers.1;
    if let Some(memory) = limits.max_memory.filter(|memory| *memory < sum) {
        let name = named("max_memory", spelling);
        let sum = in_mebibytes(sum);
        printer.warn(&format!(
            "the limits add up to {sum}, more than {name} {memory}"
        ));
    }
    Ok(bounds)
}

/// The same without a word on their sum.
pub(crate) fn checked(limits: &Config, workers: Workers, spelling: Spelling) -> Result<Bounds> {
    let mut bounds = match limits.max_memory {
        Some(memory) => within(memory, workers, spelling)?,
        None => Bounds::default(),
    };
    set_counts(&mut bounds, limits);
    set_sizes(&mut bounds, limits);
    set_times(&mut bounds, limits);
    let good = bounds.check();
    good.map_err(|error| refused(error, spelling))?;
    Ok(bounds)
}

fn set_counts(bounds: &mut Bounds, limits: &Config) {
    let count = |count: Option<NonZeroUsize>| count.map(NonZeroUsize::get);
    set(&mut bounds.max_connections, count(limits.max_connections));
    bounds.max_connections_per_client = count(limits.max_connections_per_client);
    set(&mut bounds.max_handshakes, count(limits.max_handshakes));
    bounds.max_handshakes_per_client = count(limits.max_handshakes_per_client);
    set(&mut bounds.max_requests, count(limits.max_requests));
    bounds.max_requests_per_client = count(limits.max_requests_per_client);
    bounds.requests_per_prefix = limits.requests_per_prefix;
    let concurrent = limits.max_concurrent_requests.map(NonZeroU32::get);
    set(&mut bounds.max_concurrent_requests, concurrent);
    bounds.client_prefix = limits.client_prefix;
    bounds.retry = translated(limits.retry);
}

fn set_sizes(bounds: &mut Bounds, limits: &Config) {
    let wide = |size: Option<DataSize>| size.map(DataSize::as_bytes);
    let count = |size| wide(size).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    set(&mut bounds.max_held_bytes, count(limits.max_held));
    bounds.max_held_bytes_per_client = count(limits.max_held_per_client);
    set(&mut bounds.max_quic_held_bytes, wide(limits.max_quic_held));
    bounds.max_quic_held_bytes_per_client = wide(limits.max_quic_held_per_client);
    set(&mut bounds.max_cached_bytes, wide(limits.max_cached));
}

fn set_times(bounds: &mut Bounds, limits: &Config) {
    set(&mut bounds.handshake_timeout, limits.handshake_timeout);
    set(&mut bounds.header_timeout, limits.header_timeout);
    set(&mut bounds.idle_timeout, limits.idle_timeout);
    bounds.slowest = limits.slowest;
}

fn set<T>(bound: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *bound = given;
    }
}

/// The most that the process holds: its workers, under these bounds each, and itself.
pub(super) fn memory(bounds: &Bounds, workers: NonZeroUsize) -> DataSize {
    let each = bounds.memory().as_bytes();
    DataSize::from_bytes(each.saturating_mul(workers.get() as u64)) + PROCESS
}

/// The size rounded up to whole MiB: exact figures would be long.
pub(super) fn in_mebibytes(size: DataSize) -> DataSize {
    const MIB: u64 = 1 << 20;
    DataSize::from_bytes(size.as_bytes().div_ceil(MIB).saturating_mul(MIB))
}

/// The bounds of a worker in a process that may hold `memory`.
fn within(
    memory: DataSize,
    (workers, of_upstreams): Workers,
    spelling: Spelling,
) -> Result<Bounds> {
    let beside = PROCESS + of_upstreams;
    let rest = memory.as_bytes().saturating_sub(beside.as_bytes());
    let each = DataSize::from_bytes(rest / workers.get() as u64);
    Bounds::for_memory(each).map_err(|_| {
        let least = Bounds::MIN_MEMORY.as_bytes();
        let needed = DataSize::from_bytes(least.saturating_mul(workers.get() as u64)) + beside;
        let (max_memory, threads) = (named("max_memory", spelling), named("threads", spelling));
        usage_error(
            format!("{max_memory} {memory} is too little for {threads} {workers}"),
            match beside > PROCESS {
                true => format!(
                    "give {needed} or more, fewer {threads}, or fewer `upstream-requests`: a worker takes 64MiB, and the \
                     connections to the servers behind {}",
                    in_mebibytes(of_upstreams)
                ),
                false => format!("give {needed} or more, or fewer {threads}: a worker takes 64MiB"),
            },
        )
    })
}

fn refused(error: InvalidLimits, spelling: Spelling) -> anyhow::Error {
    match error {
        InvalidLimits::Zero(field) => zero(field, spelling),
        InvalidLimits::ShareAboveAll { limit, share, all } => {
            let own = named(&format!("{limit}_per_client"), spelling);
            let whole = named(limit, spelling);
            usage_error(
                format!("{own} is {share}, and {whole}, which it is a share of, {all}"),
                format!("raise {whole}, or lower {own}"),
            )
        }
        other => other.into(),
    }
}

fn zero(field: &str, spelling: Spelling) -> anyhow::Error {
    usage_error(
        format!("{} must be more than 0", named(field, spelling)),
        "leave it out for its default: `altway serve --help` lists them",
    )
}

/// The option, or the key, for a field of [`Bounds`].
fn named(field: &str, spelling: Spelling) -> String {
    let name = field.replace("_bytes", "").replace('_', "-");
    match spelling {
        Spelling::Options => format!("--{name}"),
        Spelling::Keys => format!("`{name}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Parser)]
    struct Serve {
        #[command(flatten)]
        limits: Limits,
    }

    fn bounds(workers: usize, options: &[&str]) -> Result<Bounds, String> {
        let line = ["serve"].iter().chain(options);
        let limits = Serve::parse_from(line).limits;
        let workers = NonZeroUsize::new(workers).unwrap();
        let printer = &Printer::new(true);
        let config = limits.config();
        let workers = (workers, DataSize::ZERO);
        let bounds = config.and_then(|it| super::bounds(&it, workers, Spelling::Options, printer));
        bounds.map_err(|error| error.to_string())
    }

    #[test]
    fn what_servers_behind_take_is_part_of_the_memory() {
        const MIB: u64 = 1 << 20;
        let limits = Config {
            max_memory: Some(DataSize::from_bytes(256 * MIB)),
            ..Config::default()
        };
        let one = NonZeroUsize::MIN;
        let checked = |mib| {
            let workers = (one, DataSize::from_bytes(mib * MIB));
            checked(&limits, workers, Spelling::Options)
        };
        let (without, with) = (checked(0).unwrap(), checked(100).unwrap());
        assert!(with.max_requests < without.max_requests);
        let sum = memory(&with, one).as_bytes() + 100 * MIB;
        assert!(sum <= 256 * MIB, "{sum}");
        let error = checked(200).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("--max-memory 256MiB is too little"),
            "{error}"
        );
    }

    #[test]
    fn without_options_the_limits_are_the_defaults() {
        assert_eq!(bounds(4, &[]), Ok(Bounds::default()));
    }

    #[test]
    fn the_help_names_the_defaults_that_there_are() {
        let help = Serve::command().render_long_help().to_string();
        let bounds = Bounds::default();
        let mib = |bytes: u64| DataSize::from_bytes(bytes).to_string();
        for (option, default) in [
            ("--max-connections", bounds.max_connections.to_string()),
            ("--max-handshakes", bounds.max_handshakes.to_string()),
            ("--max-requests", bounds.max_requests.to_string()),
            (
                "--max-concurrent-requests",
                bounds.max_concurrent_requests.to_string(),
            ),
            ("--max-held", mib(bounds.max_held_bytes as u64)),
            ("--max-quic-held", mib(bounds.max_quic_held_bytes)),
            ("--max-cached", mib(bounds.max_cached_bytes)),
            ("--max-body", Config::MAX_BODY.to_string()),
            (
                "--handshake-timeout",
                duration::format(bounds.handshake_timeout),
            ),
            ("--header-timeout", duration::format(bounds.header_timeout)),
            ("--idle-timeout", duration::format(bounds.idle_timeout)),
        ] {
            let (_, about) = help.split_once(&format!("{option} <")).expect(option);
            let (about, _) = about.split_once("\n\n").unwrap_or((about, ""));
            let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(about.contains(&format!("[default: {default}]")), "{about}");
        }
    }

    #[test]
    fn each_field_has_the_option_that_errors_name() {
        let command = Serve::command();
        let known = |option: &str| {
            let mut arguments = command.get_arguments();
            arguments.any(|it| {
                it.get_long()
                    .is_some_and(|long| option == format!("--{long}"))
            })
        };
        let shown = format!("{:?}", Bounds::default());
        let fields = shown
            .split([' ', '{', ','])
            .filter_map(|it| it.strip_suffix(':'));
        let fields: Vec<_> = fields.filter(|field| !field.starts_with("ipv")).collect();
        assert_eq!(fields.len(), 20, "{fields:?}");
        for field in fields {
            assert!(known(&named(field, Spelling::Options)), "{field}");
        }
    }

    #[test]
    fn a_count_of_0_is_named_by_its_option() {
        let error = bounds(1, &["--max-requests", "0"]).unwrap_err();
        assert_eq!(error, "--max-requests must be more than 0");
    }

    #[test]
    fn the_defaults_that_a_configuration_tells_are_those_that_there_are() {
        let bounds = Bounds::default();
        let size = |bytes: u64| format!("{:?}", DataSize::from_bytes(bytes).to_string());
        let time = |time| format!("{:?}", duration::format(time));
        for (name, default) in [
            (
                "client-prefix",
                format!("{:?}", bounds.client_prefix.to_string()),
            ),
            ("max-connections", bounds.max_connections.to_string()),
            ("max-handshakes", bounds.max_handshakes.to_string()),
            ("max-requests", bounds.max_requests.to_string()),
            (
                "max-concurrent-requests",
                bounds.max_concurrent_requests.to_string(),
            ),
            ("max-held", size(bounds.max_held_bytes as u64)),
            ("max-quic-held", size(bounds.max_quic_held_bytes)),
            ("max-cached", size(bounds.max_cached_bytes)),
            ("max-body", size(Config::MAX_BODY.as_bytes())),
            ("retry", bounds.retry.to_string()),
            ("handshake-timeout", time(bounds.handshake_timeout)),
            ("header-timeout", time(bounds.header_timeout)),
            ("idle-timeout", time(bounds.idle_timeout)),
        ] {
            let mut keys = altway_config::keys::LIMITS.keys.iter();
            let key = keys.find(|key| key.name == name).expect(name);
            assert_eq!(key.default, default, "{name}");
        }
    }

    #[test]
    fn the_memory_of_a_process_is_split_among_its_workers() {
        let memory: DataSize = "1GiB".parse().unwrap();
        for workers in [1, 4] {
            let bounds = bounds(workers, &["--max-memory", "1GiB"]).unwrap();
            let sum = super::memory(&bounds, NonZeroUsize::new(workers).unwrap());
            assert!(sum <= memory, "{sum}");
            assert!(sum.as_bytes() * 100 > memory.as_bytes() * 90, "{sum}");
        }
    }

    #[test]
    fn single_limits_override_what_follows_from_the_memory() {
        let options = ["--max-memory", "128MiB", "--max-requests", "7"];
        let bounds = bounds(1, &options).unwrap();
        assert_eq!(bounds.max_requests, 7);
        assert!(bounds.max_connections < Bounds::default().max_connections);
        assert_eq!(bounds.max_cached_bytes % 1024, 0);
    }
}
