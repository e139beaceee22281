//! The thread that looks after a group: names are resolved again, servers are checked. It ends with the group.

use crate::connect::Connector;
use crate::content::Content;
use crate::group::Shared;
use crate::http1::{Fields, RequestHead};
use crate::pool::SharedConnection as _;
use crate::proxy_protocol;
use crate::resolve::REFRESH;
use crate::{Address, Check, Protocol};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::Empty;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The time in which the thread ends after its group.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The longest time for one check.
const LONGEST_CHECK: Duration = Duration::from_secs(10);

/// Starts the thread, where there is something to look after.
pub(crate) fn start(group: &Arc<Shared>) -> io::Result<()> {
    let has_names = group
        .members
        .iter()
        .any(|member| name(&member.connector).is_some());
    if !has_names && group.options.check.is_none() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (group, members) = (Arc::downgrade(group), group.members.len());
    let run = move || {
        runtime.block_on(async {
            for member in 0..members {
                tokio::spawn(resolve(Weak::clone(&group), member));
                tokio::spawn(check(Weak::clone(&group), member));
            }
            while group.strong_count() > 0 {
                sleep(STOP_CHECK_INTERVAL).await;
            }
        });
        // A resolver that hangs is not waited for.
        runtime.shutdown_background();
    };
    let thread = thread::Builder::new().name("altway-upstream".into());
    thread.spawn(run).map(drop)
}

/// The name of a server that has to be resolved, with its port.
fn name(connector: &Connector) -> Option<(&str, u16)> {
    match &connector.server.address {
        Address::Tcp(host, port) if host.parse::<IpAddr>().is_err() => Some((host, *port)),
        _ => None,
    }
}

/// A name that is none of this network is mostly one that lacks something.
fn hint(host: &str) -> &'static str {
    match host.contains('.') || host == "localhost" {
        true => "",
        false => " (an application of this machine is `http://localhost:PORT`)",
    }
}

async fn resolve(group: Weak<Shared>, member: usize) {
    let mut fails = false;
    while let Some(group) = group.upgrade() {
        let connector = &group.members[member].connector;
        let Some((host, port)) = name(connector) else {
            return;
        };
        match connector.names.refresh(host, port).await {
            Ok(_) if fails => {
                fails = false;
                let server = &connector.server;
                tracing::warn!("the name of the upstream {server} is resolved again");
            }
            Ok(_) => {}
            // Said once: the resolver is asked again and again.
            Err(error) if !fails => {
                fails = true;
                let server = &connector.server;
                let again = REFRESH.as_secs();
                match connector.names.is_known() {
                    true => tracing::warn!(
                        "cannot resolve the name of the upstream {server}: {error}; its former addresses stay, and it \
                         is looked up again every {again} s"
                    ),
                    false => tracing::warn!(
                        "cannot resolve the name of the upstream {server}: {error}{}; until it can be, requests for it \
                         are answered 502 or 503; it is looked up again with each of them, and every {again} s",
                        hint(host)
                    ),
                }
            }
            Err(_) => {}
        }
        group.leave_former_addresses(member).await;
        drop(group);
        sleep(REFRESH).await;
    }
}

async fn check(group: Weak<Shared>, member: usize) {
    while let Some(group) = group.upgrade() {
        let Some(check) = &group.options.check else {
            return;
        };
        let (every, member) = (check.every, &group.members[member]);
        let is_sent = group.options.send_proxy_protocol;
        let preface = is_sent.then(|| proxy_protocol::header(None));
        let host = group.options.host.clone();
        let time = every.min(LONGEST_CHECK);
        let status = timeout(time, status(&member.connector, check, host, preface)).await;
        let failure = match status {
            Ok(Ok(status)) if status.is_success() || status.is_redirection() => None,
            Ok(Ok(status)) => Some(format!("is answered {}", status.as_u16())),
            Ok(Err(error)) => Some(format!("fails: {error}")),
            Err(_) => Some("is not answered in time".to_owned()),
        };
        let passed = failure.is_none();
        if let Some(failure) = failure {
            member.note_failure(format!("its check, GET {}, {failure}", check.path));
        }
        member.note(|health, now| health.checked(passed, now));
        drop(group);
        // Checks of several processes don't come together for long.
        sleep(every.mul_f64(0.9 + fastrand::f64() * 0.2)).await;
    }
}

/// The status with which a check is answered, over a connection of its own, which begins with `preface` and is not counted.
async fn status(
    connector: &Connector,
    check: &Check,
    host: Option<HeaderValue>,
    preface: Option<Vec<u8>>,
) -> Result<StatusCode, crate::BoxError> {
    let content = Content::new(Empty::<Bytes>::new(), 0, None);
    let host = host.unwrap_or_else(|| connector.server.authority());
    // The next check is to find the server at another of its addresses.
    let put_last = |address: Option<IpAddr>| {
        address
            .into_iter()
            .for_each(|it| connector.names.put_last(it));
    };
    const AGENT: HeaderValue = HeaderValue::from_static("altway health check");
    Ok(match connector.server.protocol {
        Protocol::Http1 => {
            let counters = Arc::default();
            let opened = connector.http1(preface.as_deref(), &counters).await;
            let (connection, address) = opened?;
            let fields = HeaderMap::from_iter([(header::HOST, host), (header::USER_AGENT, AGENT)]);
            let head = RequestHead {
                method: &Method::GET,
                target: &check.path,
                fields: Fields::Made(&fields),
                is_upgrade: false,
            };
            let mut exchange = connection.begin(head, content.attempt(None));
            let response = exchange.response(|_, _| {}).await;
            response.inspect_err(|_| put_last(address))?.status
        }
        Protocol::Http3 => {
            let uri = Uri::builder().scheme("https").authority(host.to_str()?);
            let request = Request::get(uri.path_and_query(check.path.as_str()).build()?);
            let request = request.header(header::USER_AGENT, AGENT).body(())?;
            let connection = connector.http3(LONGEST_CHECK, &Arc::default()).await?;
            let sent = connection.send(request, true, content.attempt(None), None);
            let response = sent.await.map_err(|failed| format!("{failed:?}"))?;
            response.status()
        }
        Protocol::Http2 => {
            let scheme = if connector.server.tls.is_some() {
                "https"
            } else {
                "http"
            };
            let uri = Uri::builder().scheme(scheme).authority(host.to_str()?);
            let request = Request::get(uri.path_and_query(check.path.as_str()).build()?);
            let request = request.header(header::USER_AGENT, AGENT).body(())?;
            let counters = Arc::default();
            let connection = connector.http2(preface.as_deref(), 1, &counters).await?;
            let sent = connection.send(request, content.attempt(None), None);
            let response = sent.await.map_err(|(error, _)| error);
            let response = response.inspect_err(|_| put_last(connection.address()))?;
            response.status()
        }
    })
}
