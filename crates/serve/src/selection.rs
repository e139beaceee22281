//! Observation of clients, and the protocol that each is offered: the selector that all workers
//! share, and the hosts that decisions are made for.
//!
//! [`counters`] reads the transports, [`observer`] makes observations of what one connection does, [`state`] keeps
//! what was learnt over a restart. How it is decided is left to `altway-select`.

pub(crate) mod busy;
pub(crate) mod counters;
mod hosts;
pub(crate) mod load;
mod log;
pub(crate) mod observer;
mod own_model;
pub(crate) mod state;

use crate::request::beacon::Reporter;
use crate::{BoxError, Certificates, Error, HostPolicy, Options, Policy};
use altway_select::{
    BeaconCounts, BeaconReport, ClassSummary, ClassTiming, Client, ClientClass, Config, Congestion,
    Decision, DecisionRequest, Explanation, Hints, LoggedBeacon, LoggedProtocol, Model,
    Observation, Page, Secret, SelectionEntry, Selector, Surface, TooManyBeacons, Transport,
    UnixTime,
};
use altway_units::Ratio;
pub(crate) use hosts::{HostIndex, HostNames, NamedHost};
use hosts::{HostPolicyEntry, Hosts};
pub use log::SelectionLog;
use own_model::OwnModel;
use state::StateFolder;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The selector with the hosts that it decides for. Shared by all workers.
#[derive(Debug)]
pub(crate) struct Selection {
    selector: Selector,
    /// The policy of hosts that have none of their own.
    policy: Policy,
    hosts: Hosts,
    state: Option<StateFolder>,
    log: Option<SelectionLog>,
    /// The beacon of names that have none of their own.
    beacon: Option<Ratio>,
}

impl Selection {
    /// A selector by the options, which knows what the state folder has kept.
    ///
    /// # Errors
    /// The surface's file or the state folder can't be read, or holds something else.
    pub(crate) fn new(options: &Options, congestion: [Congestion; 2]) -> Result<Self, Error> {
        let folder = options.state.as_deref();
        let fault = |source| Error::State {
            path: folder.map(Path::to_owned).unwrap_or_default(),
            source,
        };
        let state = folder.map(|path| StateFolder::open(path, options.user));
        let state = state.transpose().map_err(fault)?;
        let secret = match &state {
            Some(state) => state.secret(),
            None => random_secret()?,
        };
        let surface = surface(&options.policy)?;
        let mut config = Config::with_surface(secret, &options.policy, surface);
        if let Some(model) = &options.model {
            config.model = Box::new(OwnModel {
                model: Arc::clone(model),
                policy: config.model,
            });
        }
        config.congestion = congestion;
        let selector = Selector::new(config);
        if let Some(state) = &state
            && let Some(kept) = state.kept().map_err(fault)?
            && let Err(error) = selector.restore(&kept, now())
        {
            state.put_aside(&error);
        }
        let selection = Self {
            selector,
            policy: options.policy.clone(),
            hosts: Hosts::new(),
            state,
            log: options.selection_log.clone(),
            beacon: options.beacon,
        };
        selection.recall_hosts();
        Ok(selection)
    }

    /// A selection that knows nobody and keeps nothing.
    #[cfg(test)]
    pub(crate) fn of(policy: &altway_select::ModelKind) -> Self {
        Self {
            selector: Selector::new(Config::new(Secret::new([7; 16]), policy)),
            policy: policy.clone(),
            hosts: Hosts::new(),
            state: None,
            log: None,
            beacon: None,
        }
    }

    /// The names of these certificates, each with a host to decide for.
    pub(crate) fn certificate_names(&self, certificates: &Certificates) -> HostNames {
        let names: Vec<_> = certificates.dns_names().collect();
        let named = names.iter().map(|name| HostPolicyEntry {
            name,
            policy: None,
            beacon: self.beacon,
        });
        self.names(named)
    }

    /// The given names, each with a host to decide for by its policy.
    ///
    /// # Errors
    /// A surface's file can't be read, or holds something else.
    pub(crate) fn host_names(&self, hosts: &[HostPolicy]) -> Result<HostNames, Error> {
        let mut models: Vec<(&Policy, Arc<dyn Model>)> = Vec::new();
        let mut named = Vec::with_capacity(hosts.len());
        for HostPolicy {
            name,
            policy,
            beacon,
        } in hosts
        {
            let known = models.iter().find(|(of, _)| *of == policy);
            let model = match known {
                _ if *policy == self.policy => None,
                Some((_, model)) => Some(Arc::clone(model)),
                None => {
                    let model = model(policy)?;
                    models.push((policy, Arc::clone(&model)));
                    Some(model)
                }
            };
            let policy = model.map(|model| (policy.to_string(), model));
            named.push(HostPolicyEntry {
                name,
                policy,
                beacon: *beacon,
            });
        }
        Ok(self.names(named))
    }

    fn names<'a>(&self, named: impl IntoIterator<Item = HostPolicyEntry<'a>>) -> HostNames {
        let names = self.hosts.names(named, self.beacon);
        self.recall_hosts();
        names
    }

    /// Lets new hosts go on with the pages that the state folder has of them.
    fn recall_hosts(&self) {
        for host in self.hosts.iter() {
            self.selector.recall(host);
        }
    }

    /// Names the client at the other end of a connection to `host`, which has begun; whether it had been offered HTTP/3.
    pub(crate) fn connected(
        &self,
        (address, hints): (IpAddr, &Hints<'_>),
        host: HostIndex,
        transport: Transport,
        now: UnixTime,
    ) -> (Client, bool) {
        let client = self.selector.client(address, hints);
        let host = self.hosts.get(host);
        let offered = self.selector.connected(&client, host, transport, now);
        (client, offered)
    }

    /// The name of a host; empty for that of all others.
    pub(crate) fn host_name(&self, host: HostIndex) -> &str {
        self.hosts.get(host).name()
    }

    pub(crate) fn decide(
        &self,
        client: &Client,
        host: HostIndex,
        moment: &DecisionRequest,
    ) -> Decision {
        self.selector.decide(client, self.hosts.get(host), moment)
    }

    pub(crate) fn observe(
        &self,
        client: &Client,
        host: HostIndex,
        observation: &Observation,
        now: UnixTime,
    ) {
        let host = self.hosts.get(host);
        if let Some(alarm) = self.selector.observe(client, host, observation, now) {
            tracing::warn!(%alarm, "clients of a class take other times than predicted: it is learnt anew");
        }
    }

    /// The selection log, if there is one.
    pub(crate) fn log(&self) -> Option<&SelectionLog> {
        self.log.as_ref()
    }

    /// Logs what was decided for a client, with the page that it has loaded.
    pub(crate) fn record(
        &self,
        client: &Client,
        (host, protocol): (HostIndex, LoggedProtocol),
        page: Option<&Page>,
        decision: &Decision,
        moment: &DecisionRequest,
    ) {
        if let Some(log) = &self.log {
            let host = self.hosts.get(host);
            let evidence = self.selector.evidence(client, host, moment);
            let whom = (moment.now, client.key(), client.class());
            let place = (host.name(), protocol);
            log.add(&SelectionEntry::new(whom, place, page, decision, evidence));
        }
    }

    /// Takes what a browser reports, and logs it.
    ///
    /// # Errors
    /// The client's network has sent as many reports as it may.
    pub(crate) fn beacon(
        &self,
        from: &Reporter,
        report: &BeaconReport,
        now: UnixTime,
    ) -> Result<(), TooManyBeacons> {
        let transport = match from.protocol {
            LoggedProtocol::H3 => Transport::Quic,
            LoggedProtocol::H1 | LoggedProtocol::H2 => Transport::Tcp,
        };
        let page = from.page.as_ref();
        let bias = self
            .selector
            .beacon(&from.client, transport, report, page, now)?;
        if let (Some(log), Some(decision)) = (&self.log, &from.decision) {
            let host = self.hosts.get(from.host);
            let moment = DecisionRequest {
                min_rtt: from.min_rtt,
                ..DecisionRequest::new(now, transport)
            };
            let evidence = self.selector.evidence(&from.client, host, &moment);
            let whom = (now, from.client.key(), from.client.class());
            let place = (host.name(), from.protocol);
            let mut entry = SelectionEntry::new(whom, place, None, decision, evidence);
            entry.beacon = Some(LoggedBeacon::of(report, bias));
            log.add(&entry);
        }
        Ok(())
    }

    /// The timing's bias of each class by browsers' reports, and counts of these.
    pub(crate) fn timing(&self) -> (Vec<ClassTiming>, BeaconCounts) {
        (self.selector.timing(), self.selector.beacon_counts())
    }

    /// Addresses and classes of which something is known.
    pub(crate) fn clients(&self) -> usize {
        self.selector.clients()
    }

    /// Explains what a client would be told: of each class that is known at the address, or of one.
    pub(crate) fn explain(
        &self,
        address: IpAddr,
        class: Option<ClientClass>,
        host: HostIndex,
        moment: &DecisionRequest,
    ) -> Vec<Explanation> {
        let host = self.hosts.get(host);
        let client = self.selector.client(address, &Hints::default());
        match class {
            Some(class) => {
                let client = client.with_class(class);
                vec![self.selector.explain(&client, host, moment)]
            }
            None => self.selector.explain_address(&client, host, moment),
        }
    }

    /// Summarises what is known of each class.
    pub(crate) fn summary(&self) -> Vec<ClassSummary> {
        self.selector.summary()
    }

    /// Writes what is known to the state folder, if there is one. May wait for the disk.
    pub(crate) fn save(&self) {
        if let Some(state) = &self.state {
            state.save(&self.selector.snapshot(self.hosts.iter(), now()));
        }
    }

    /// True if [`save`](Self::save) does anything.
    pub(crate) fn is_kept(&self) -> bool {
        self.state.is_some()
    }

    /// Takes the state folder for this process, if there is one, and warns where another one has it.
    pub(crate) fn take_state(&self) {
        if let Some(state) = &self.state
            && !state.take()
        {
            let path = state.path().display();
            tracing::warn!(
                "the state folder `{path}` is in use by another process: what is learnt of clients here is not kept \
                 before that one has ended"
            );
        }
    }

    /// Says to whom the state folder belongs from now on: to another process, or to this one.
    pub(crate) fn handed_over(&self, to_another: bool) {
        if let Some(state) = &self.state {
            state.hand_over(to_another);
        }
    }
}

/// The model of a policy, with its surface.
fn model(policy: &Policy) -> Result<Arc<dyn Model>, Error> {
    Ok(policy.build(&surface(policy)?).into())
}

/// The surface of a policy: that of its file, or the embedded one.
fn surface(policy: &Policy) -> Result<Surface, Error> {
    let Some(file) = policy.file() else {
        return Ok(Surface::embedded().clone());
    };
    let fault = |source: BoxError| Error::Surface {
        path: file.into(),
        source,
    };
    let text =
        altway_folder::read_text_file(Path::new(file)).map_err(|error| fault(error.into()))?;
    Surface::parse(&text).map_err(|error| fault(error.into()))
}

fn random_secret() -> Result<Secret, Error> {
    let random = crate::random::random()?;
    let mut key = [0; 16];
    key.copy_from_slice(&random[..16]);
    Ok(Secret::new(key))
}

/// Whole seconds of the wall clock.
pub(crate) fn unix_time(time: SystemTime) -> UnixTime {
    UnixTime::from_secs(
        time.duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs(),
    )
}

fn now() -> UnixTime {
    unix_time(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Security, Site};
    use altway_select::Start;
    use altway_units::DataSize;
    use std::time::Duration;

    /// A server with this state folder, and its host of `name`.
    fn server(options: &Options, name: &str) -> (Selection, HostIndex) {
        let selection = Selection::new(options, [Congestion::LossBased; 2]).unwrap();
        let hosts = [HostPolicy::new("downloads.test", Policy::default())];
        let host = selection.host_names(&hosts).unwrap().find(name.as_bytes());
        (selection, host.index)
    }

    /// Seconds that somebody whom nobody knows is predicted over HTTP/2.
    fn predicted((selection, host): &(Selection, HostIndex)) -> f64 {
        let address = IpAddr::from([198, 51, 100, 1]);
        let client = selection.selector.client(address, &Hints::default());
        let moment = DecisionRequest::new(now(), Transport::Tcp);
        let decision = selection.decide(&client, *host, &moment);
        decision.prediction.unwrap().h2
    }

    #[test]
    fn after_a_restart_a_host_knows_what_its_visitors_load() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::new(Site::files(folder.path()), Security::ClearText);
        options.state = Some(folder.path().join("state"));
        let page = Page {
            first: DataSize::from_bytes(10_000_000),
            rest: DataSize::ZERO,
            responses: 1,
            start: Start::Cold,
            time: Duration::from_secs(1),
            waited: None,
        };
        let seen = Observation {
            page: Some(page),
            ..Observation::new(Transport::Quic)
        };
        let mut known = Vec::new();
        for name in ["downloads.test", "192.0.2.7"] {
            let new = server(&options, name);
            let before = predicted(&new);
            let (selection, host) = &new;
            let visitor = ([192, 0, 2, 1].into(), &Hints::default());
            let (client, _) = selection.connected(visitor, *host, Transport::Quic, now());
            selection.observe(&client, *host, &seen, now());
            selection.save();
            known.push(predicted(&new));
            assert!(
                known.last() > Some(&(1.5 * before)),
                "{name}: {known:?} {before}"
            );
        }
        for (name, expected) in ["downloads.test", "192.0.2.7"].iter().zip(known) {
            assert_eq!(predicted(&server(&options, name)), expected, "{name}");
        }
    }
}
