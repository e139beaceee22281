//! A [`Status`] in Prometheus' text format, version 0.0.4.
//!
//! Written by hand: the format is a line a sample, and the libraries for it write OpenMetrics, whose counters
//! `promtool check metrics` finds without help text.

use crate::{DurationStatus, SiteStatus, Status, UpstreamStatus};
use altway_serve::{DURATION_BUCKETS_MS, INCIDENT_KINDS};
use std::fmt::{Display, Write as _};

/// The media type of the format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Families one after the other.
#[derive(Default)]
struct Text(String);

/// A family that gets samples.
struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Text {
    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        let text = &mut self.0;
        write(
            text,
            format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"),
        );
        Family { text, name }
    }

    fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "counter", help)
    }

    fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "gauge", help)
    }
}

impl Family<'_> {
    fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.sample_of("", labels, value);
    }

    /// A sample of one of a histogram's series.
    fn sample_of(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        for (index, (name, value)) in labels.iter().enumerate() {
            let open = if index == 0 { '{' } else { ',' };
            let value = escaped(value);
            write(self.text, format_args!("{open}{name}=\"{value}\""));
        }
        let close = if labels.is_empty() { "" } else { "}" };
        write(self.text, format_args!("{close} {value}\n"));
    }

    /// The series of a histogram: counts of what is within each bound and not within the one before, the last of what is
    /// longer than all.
    fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        bounds_ms: &[u64],
        buckets: &[u64],
        sum_s: f64,
    ) {
        let mut count = 0;
        for (place, in_bucket) in buckets.iter().enumerate() {
            count += in_bucket;
            let bound = bounds_ms.get(place);
            let bound = bound.map(|ms| (*ms as f64 / 1e3).to_string());
            let bound = ("le", bound.as_deref().unwrap_or("+Inf"));
            self.sample_of("_bucket", &[labels, &[bound]].concat(), count);
        }
        self.sample_of("_sum", labels, sum_s);
        self.sample_of("_count", labels, count);
    }
}

fn write(text: &mut String, what: std::fmt::Arguments<'_>) {
    text.write_fmt(what).expect("a string takes everything");
}

fn escaped(value: &str) -> String {
    let value = value.replace('\\', r"\\");
    value.replace('"', r#"\""#).replace('\n', r"\n")
}

/// The whole answer to `/metrics`.
pub(crate) fn exposition(status: &Status) -> String {
    let mut text = Text::default();
    about(&mut text, status);
    protocols(&mut text, status);
    durations(&mut text, status);
    selection(&mut text, status);
    sites(&mut text, status);
    upstreams(&mut text, &status.upstreams);
    refused(&mut text, status);
    acme(&mut text, status);
    text.0
}

fn about(text: &mut Text, status: &Status) {
    let mut build = text.gauge("altway_build_info", "The version that runs; always 1.");
    build.sample(&[("version", &status.version)], 1);
    let mut start = text.gauge(
        "process_start_time_seconds",
        "Begin of the process, since 1970.",
    );
    start.sample(&[], status.since);
    let process = &status.process;
    if let Some(bytes) = process.resident_bytes {
        let mut memory = text.gauge("process_resident_memory_bytes", "Memory in use.");
        memory.sample(&[], bytes);
    }
    if let Some(files) = process.open_files {
        let mut open = text.gauge("process_open_fds", "Open file descriptors.");
        open.sample(&[], files);
    }
    if let Some(most) = process.max_open_files {
        let mut most_open = text.gauge(
            "process_max_fds",
            "Open file descriptors that there may be.",
        );
        most_open.sample(&[], most);
    }
    if let Some(millis) = process.cpu_ms {
        let mut time = text.counter("process_cpu_seconds_total", "Processor time.");
        time.sample(&[], millis as f64 / 1000.0);
    }
    if let Some(dropped) = process.udp_dropped {
        let help = "Datagrams that the kernel dropped because the buffers of the server's UDP sockets were full.";
        text.counter("altway_udp_dropped_total", help)
            .sample(&[], dropped);
    }
    if let Some(reload) = &status.reload {
        let help = "Whether the latest reload of the configuration succeeded.";
        let mut success = text.gauge("altway_config_last_reload_success", help);
        success.sample(&[], u8::from(reload.success));
        let help = "Time of the latest reload of the configuration, since 1970.";
        text.gauge("altway_config_last_reload_timestamp_seconds", help)
            .sample(&[], reload.at);
    }
}

fn protocols(text: &mut Text, status: &Status) {
    let each = &status.protocols;
    let mut opened = text.counter("altway_connections_total", "Connections by protocol.");
    for it in each {
        opened.sample(&[("protocol", &it.protocol)], it.connections);
    }
    let mut open = text.gauge("altway_open_connections", "Connections that are there.");
    for it in each {
        open.sample(&[("protocol", &it.protocol)], it.open_connections);
    }
    let help = "Responses by protocol and class of status.";
    let mut responses = text.counter("altway_responses_total", help);
    for it in each {
        for (class, count) in CLASSES.iter().zip(it.responses).skip(1) {
            responses.sample(&[("protocol", &it.protocol), ("class", class)], count);
        }
    }
    let help = "Bytes of responses' contents, without heads and framing.";
    let mut bytes = text.counter("altway_content_bytes_total", help);
    for it in each {
        bytes.sample(&[("protocol", &it.protocol)], it.content_bytes);
    }
}

/// The histogram of OpenTelemetry's semantic conventions, in its name for Prometheus.
fn durations(text: &mut Text, status: &Status) {
    let help = "Seconds from a request's head to its response's last byte.";
    let mut histogram = text.family("http_server_request_duration_seconds", "histogram", help);
    for it in &status.protocols {
        for (class, durations) in CLASSES.iter().zip(&it.durations).skip(1) {
            let labels = [("protocol", it.protocol.as_str()), ("class", class)];
            let DurationStatus { buckets, sum_s } = durations;
            histogram.histogram(&labels, &DURATION_BUCKETS_MS, buckets, *sum_s);
        }
    }
    let help = "Requests that are in progress.";
    text.gauge("http_server_active_requests", help)
        .sample(&[], status.active_requests);
    let pool = &status.quic_pool;
    if pool.limit_bytes > 0 {
        let help = "Memory that HTTP/3 connections hold of what they may hold together.";
        text.gauge("altway_quic_pool_bytes", help)
            .sample(&[], pool.bytes);
        let help = "Memory that HTTP/3 connections may hold together.";
        text.gauge("altway_quic_pool_limit_bytes", help)
            .sample(&[], pool.limit_bytes);
        let help = "Handshakes over QUIC that are over, by what came of them.";
        let mut handshakes = text.counter("altway_quic_handshakes_total", help);
        for (result, count) in &status.quic_handshakes {
            handshakes.sample(&[("result", result)], count);
        }
    }
}

fn sites(text: &mut Text, status: &Status) {
    if status.sites.is_empty() {
        return;
    }
    let help = "Responses by the configured name of their site and class of status; empty for all other names.";
    let mut responses = text.counter("altway_site_responses_total", help);
    for it in &status.sites {
        for (class, count) in CLASSES.iter().zip(it.responses).skip(1) {
            responses.sample(&[("site", &it.name), ("class", class)], count);
        }
    }
    let help = "Responses by their site, the protocol that they offered and the kind of reason.";
    let mut offers = text.counter("altway_offers_total", help);
    for (site, it) in each(status, |it| &it.reasons) {
        let labels = [("site", site), ("offer", &it.offer), ("reason", &it.reason)];
        offers.sample(&labels, it.count);
    }
    let help = "Connections by the site of their first response, by protocol, and by whether their client had been offered \
                HTTP/3 before.";
    let mut arrivals = text.counter("altway_arrivals_total", help);
    for (site, it) in each(status, |it| &it.arrivals) {
        let offered = if it.offered { "true" } else { "false" };
        let labels = [
            ("site", site),
            ("protocol", &it.protocol),
            ("offered", offered),
        ];
        arrivals.sample(&labels, it.count);
    }
}

/// The entries of a list that every site has, each with the site's name.
fn each<'s, T: 's>(
    status: &'s Status,
    of: impl Fn(&'s SiteStatus) -> &'s Vec<T>,
) -> impl Iterator<Item = (&'s str, &'s T)> {
    let sites = status.sites.iter();
    sites.flat_map(move |site| of(site).iter().map(|it| (&*site.name, it)))
}

fn selection(text: &mut Text, status: &Status) {
    if status.predicted.iter().any(Option::is_some) {
        let help = "Predicted share of time that HTTP/3 saves, mean over the responses that offered this protocol.";
        let mut gain = text.gauge("altway_predicted_gain_ratio", help);
        for (offer, difference) in ["h2", "h3"].into_iter().zip(status.predicted) {
            if let Some(difference) = difference {
                gain.sample(&[("offer", offer)], -difference.exp_m1());
            }
        }
    }
    pages(text, status);
    let help = "Clients (address and class) of which something is known.";
    text.gauge("altway_known_clients", help)
        .sample(&[], status.clients.known);
    let help = "Clients that HTTP/3 was offered and that never came over it, by class.";
    let mut blocked = text.gauge("altway_udp_blocked_clients", help);
    for it in &status.clients.classes {
        blocked.sample(&[("class", &it.class)], it.udp_blocked);
    }
    let help = "Bytes a second that clients of a class take over QUIC, as learnt.";
    let mut limits = text.gauge("altway_class_limit_bytes_per_second", help);
    for it in &status.clients.classes {
        limits.sample(&[("class", &it.class)], (it.limit_bps / 8.0).round());
    }
}

/// The times of pages, where some were measured.
fn pages(text: &mut Text, status: &Status) {
    let each = status.protocols.iter().map(|it| (&it.protocol, &it.pages));
    let measured = |it: &DurationStatus| it.buckets.iter().any(|count| *count > 0);
    let each: Vec<_> = each.filter(|(_, it)| measured(&it.times)).collect();
    if each.is_empty() {
        return;
    }
    let help = "Seconds from the first request of a page to the acknowledgement of its last byte.";
    let mut times = text.family("altway_page_duration_seconds", "histogram", help);
    for (protocol, it) in &each {
        let DurationStatus { buckets, sum_s } = &it.times;
        times.histogram(
            &[("protocol", protocol)],
            &DURATION_BUCKETS_MS,
            buckets,
            *sum_s,
        );
    }
    let help = "Share of the time that pages were predicted to take over the other transport and did not take.";
    let mut gain = text.gauge("altway_measured_gain_ratio", help);
    for (protocol, it) in &each {
        if let Some(share) = it.gain() {
            gain.sample(&[("protocol", protocol)], share);
        }
    }
}

/// A figure of a server behind a proxy: name, whether it only grows, help, value.
type UpstreamFigure = (&'static str, bool, &'static str, fn(&UpstreamStatus) -> u64);

const UPSTREAM_FIGURES: [UpstreamFigure; 5] = [
    (
        "altway_upstream_healthy",
        false,
        "Whether a server behind a proxy is given requests.",
        |it| u64::from(it.healthy),
    ),
    (
        "altway_upstream_requests_total",
        true,
        "Requests to a server behind a proxy, those that were sent again included.",
        |it| it.requests,
    ),
    (
        "altway_upstream_retries_total",
        true,
        "Requests that were sent again after this server had failed.",
        |it| it.retries,
    ),
    (
        "altway_upstream_ejections_total",
        true,
        "Times that a server behind a proxy was left alone for its failures, or found down by a check.",
        |it| it.ejections,
    ),
    (
        "http_client_active_requests",
        false,
        "Requests to a server behind a proxy whose responses have not ended.",
        |it| it.in_progress,
    ),
];

fn upstreams(text: &mut Text, upstreams: &[UpstreamStatus]) {
    if upstreams.is_empty() {
        return;
    }
    let labels =
        |it: &'_ UpstreamStatus| [("pool", it.pool.clone()), ("server", it.server.clone())];
    for (name, grows, help, value) in UPSTREAM_FIGURES {
        let kind = if grows { "counter" } else { "gauge" };
        let mut family = text.family(name, kind, help);
        for it in upstreams {
            let labels = labels(it);
            family.sample(
                &labels
                    .each_ref()
                    .map(|(name, value)| (*name, value.as_str())),
                value(it),
            );
        }
    }
    let help = "Requests to which a server behind a proxy has given no response, by reason.";
    let mut failures = text.counter("altway_upstream_failures_total", help);
    for it in upstreams {
        for (reason, count) in &it.failures {
            let labels = [
                ("pool", it.pool.as_str()),
                ("server", &it.server),
                ("reason", reason),
            ];
            failures.sample(&labels, count);
        }
    }
    let help = "Connections to a server behind a proxy, with requests and without.";
    let mut connections = text.gauge("http_client_open_connections", help);
    for it in upstreams {
        let active = it.open_connections.saturating_sub(it.idle_connections);
        for (state, count) in [("active", active), ("idle", it.idle_connections)] {
            let labels = [
                ("pool", it.pool.as_str()),
                ("server", &it.server),
                ("state", state),
            ];
            connections.sample(&labels, count);
        }
    }
    let help = "Seconds from a request to a server behind a proxy to the head of its response.";
    let mut histogram = text.family("http_client_request_duration_seconds", "histogram", help);
    for it in upstreams {
        let labels = [("pool", it.pool.as_str()), ("server", it.server.as_str())];
        histogram.histogram(
            &labels,
            &it.latency_bounds_ms,
            &it.latency,
            it.latency_sum_s,
        );
    }
}

fn refused(text: &mut Text, status: &Status) {
    let help = "Refusals and limits struck, by kind.";
    let mut incidents = text.counter("altway_incidents_total", help);
    // From 0, so that the first one is an increase.
    for kind in INCIDENT_KINDS {
        let count = status.incidents.get(kind).copied();
        incidents.sample(&[("kind", kind)], count.unwrap_or_default());
    }
    if let Some(dropped) = status.log_dropped {
        let help = "Lines that the access log did not take in time.";
        text.counter("altway_log_dropped_total", help)
            .sample(&[], dropped);
    }
    if let Some(dropped) = status.selection_log_dropped {
        let help = "Lines that the selection log did not take in time.";
        text.counter("altway_selection_log_dropped_total", help)
            .sample(&[], dropped);
    }
    let help = "Last second of each certificate, since 1970, by its first name.";
    let mut expiry = text.gauge("altway_certificate_expiry_timestamp_seconds", help);
    for (place, it) in status.certificates.iter().enumerate() {
        if let Some(at) = it.not_after {
            let place = (place + 1).to_string();
            let name = it.names.first().map_or("", String::as_str);
            expiry.sample(&[("certificate", &place), ("name", name)], at);
        }
    }
}

fn acme(text: &mut Text, status: &Status) {
    let Some(acme) = &status.acme else {
        return;
    };
    let help = "Certificates by ACME: orders and renewals by what came of them.";
    let mut orders = text.counter("altway_acme_orders_total", help);
    orders.sample(&[("result", "issued")], acme.issued);
    orders.sample(&[("result", "failed")], acme.failed);
    let help = "Failures one after the other since the name's latest certificate by ACME.";
    let mut failures = text.gauge("altway_acme_failures", help);
    for it in &acme.names {
        failures.sample(&[("name", &it.name)], it.failures);
    }
    let help = "Time at which the name's certificate by ACME is renewed, since 1970.";
    let mut renewals = text.gauge("altway_acme_renewal_timestamp_seconds", help);
    for it in &acme.names {
        if let Some(at) = it.renew_at {
            renewals.sample(&[("name", &it.name)], at);
        }
    }
}

#[cfg(test)]
mod tests;
