//! The check of a plan: values that can't be, and values that don't go together.

use super::{
    LEAST_MTU, MAX_ENVIRONMENTS, MAX_PAIRS, MAX_TRANSFERS, MAX_WARM_UPS, Plan, PlanError, Sampling,
};
use crate::scenario::{LEAST_IMAGE, MAX_OBJECTS, MAX_REPORTED_OBJECTS, MAX_VISITS};
use crate::{
    Client, Congestion, Connection, InitialWindow, MAX_VISIT_REQUESTS, Policy, Protocol,
    QueueLimit, Rate, Scenario, ServerName, Stopping, TimeOut,
};
use altway_units::{DataSize, Ratio};
use std::time::Duration;

impl Plan {
    pub(super) fn check(self) -> Result<Self, PlanError> {
        self.check_values()?;
        self.check_scenario()?;
        self.check_clients()?;
        self.check_servers()?;
        self.check_link()?;
        self.check_policies()?;
        self.check_running()?;
        Ok(self)
    }

    fn check_values(&self) -> Result<(), PlanError> {
        let name_is_good = (1..=64).contains(&self.name.len())
            && !self.name.starts_with('-')
            && self
                .name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !name_is_good {
            return Err(PlanError::Name(self.name.clone()));
        }
        if !(1..=MAX_PAIRS).contains(&self.pairs) {
            return Err(PlanError::Pairs(self.pairs));
        }
        if self.transfers() > MAX_TRANSFERS {
            return Err(PlanError::TooLarge(self.transfers()));
        }
        if self.sizes.contains(&DataSize::ZERO) {
            return Err(PlanError::EmptyObject);
        }
        refuse(
            self.losses.contains(&Ratio::ONE),
            || "with a `loss` of 100% nothing ever arrives",
            || "take a loss below 100%",
        )?;
        refuse(
            matches!(self.timeout, TimeOut::After(time) if time < Duration::from_millis(1)),
            || "with a `timeout` below 1 ms nothing ever arrives",
            || "leave `timeout` out to have one that suits each link",
        )
    }

    fn check_scenario(&self) -> Result<(), PlanError> {
        let warm = self.connections.contains(&Connection::Warm);
        refuse(
            warm && matches!(self.scenario, Scenario::Repeat(_)),
            || "the scenario `repeat` opens a connection for each visit: none of them is warm",
            || "leave `connection` out, or take another scenario",
        )?;
        match &self.scenario {
            Scenario::Download => Ok(()),
            Scenario::Page(page) => {
                let count = page.objects.len();
                refuse(
                    count > MAX_OBJECTS,
                    || {
                        format!(
                            "the page has {count} objects: at most {MAX_OBJECTS} can be fetched"
                        )
                    },
                    || "take fewer objects in [page]",
                )?;
                refuse(
                    page.objects.contains(&DataSize::ZERO),
                    || "the page has an object of 0 bytes",
                    || "leave it out of `objects`",
                )?;
                let html = page.html;
                refuse(
                    page.to_html().is_none(),
                    || format!("an HTML of {html} has no room to name {count} objects"),
                    || "raise `html` in [page]: an object takes some 30 bytes",
                )
            }
            Scenario::Mixed(mixed) => refuse(
                mixed.count == 0
                    || mixed.count as usize > MAX_OBJECTS
                    || mixed.small == DataSize::ZERO,
                || {
                    format!(
                        "{} small objects of {} can't be fetched",
                        mixed.count, mixed.small
                    )
                },
                || format!("[mixed] takes 1 to {MAX_OBJECTS} objects of at least 1 byte"),
            ),
            Scenario::Repeat(repeat) => refuse(
                !(2..=MAX_VISITS).contains(&repeat.visits),
                || format!("{} visits make no returning client", repeat.visits),
                || format!("[repeat] takes 2 to {MAX_VISITS} visits"),
            ),
        }
    }

    fn check_clients(&self) -> Result<(), PlanError> {
        let scenario = self.scenario.name();
        let curl = self.clients.contains(&Client::Curl);
        refuse(
            curl && !matches!(self.scenario, Scenario::Download),
            || format!("the client `curl` can't do the scenario `{scenario}`"),
            || "it does `download`; leave it out of `client`, or make a second plan",
        )?;
        let browser = self.clients.iter().find(|client| client.is_browser());
        browser.map_or(Ok(()), |browser| self.check_browser(browser.name()))
    }

    fn check_browser(&self, browser: &str) -> Result<(), PlanError> {
        let scenario = self.scenario.name();
        refuse(
            !matches!(self.scenario, Scenario::Download | Scenario::Page(_)),
            || format!("the client `{browser}` can't do the scenario `{scenario}`"),
            || "it does `download` and `page`; leave it out of `client`, or make a second plan",
        )?;
        let mut objects = self.sizes.iter().map(|size| self.scenario.objects(*size));
        let (most, least) = (MAX_REPORTED_OBJECTS, LEAST_IMAGE);
        refuse(
            objects.clone().any(|of_one| of_one.len() > most),
            || {
                format!(
                    "the client `{browser}` tells the times of {most} objects of a page at most"
                )
            },
            || format!("take {most} objects or fewer in [page], or leave it out of `client`"),
        )?;
        refuse(
            objects.any(|of_one| of_one.iter().any(|size| *size < least)),
            || {
                format!(
                    "the client `{browser}` fetches objects as images, which have {least} or more"
                )
            },
            || format!("take objects of {least} or more, or leave it out of `client`"),
        )
    }

    fn check_servers(&self) -> Result<(), PlanError> {
        for server in self
            .servers
            .iter()
            .filter(|one| **one != ServerName::ALTWAY)
        {
            let chooses = self
                .congestions
                .iter()
                .any(|one| one.quic() != Congestion::Cubic.quic());
            refuse(
                chooses && self.protocols.contains(&Protocol::H3),
                || {
                    format!(
                        "the server `{server}` can't be told its congestion control over HTTP/3"
                    )
                },
                || "leave `congestion` out, or measure that server in a plan of its own",
            )?;
        }
        self.check_windows()?;
        self.check_compression()?;
        for command in &self.commands {
            let name = command.name;
            for protocol in &self.protocols {
                refuse(
                    !command.protocols.contains(protocol),
                    || format!("the server `{name}` does not speak {}", protocol.name()),
                    || {
                        format!(
                            "leave `{protocol}` out of `protocols`, or name it in that server's"
                        )
                    },
                )?;
            }
            let needs_h2 = matches!(self.scenario, Scenario::Repeat(_))
                && self.protocols.contains(&Protocol::H3);
            refuse(
                needs_h2 && !command.protocols.contains(&Protocol::H2),
                || format!("HTTP/3 is learned over HTTP/2, which `{name}` does not speak"),
                || "take another scenario for that server",
            )?;
        }
        let twice = |name: &ServerName| self.servers.iter().filter(|one| *one == name).count() > 1;
        let doubled = self.servers.iter().find(|name| twice(name));
        refuse(
            doubled.is_some(),
            || {
                format!(
                    "two servers are called `{}`",
                    doubled.copied().unwrap_or_default()
                )
            },
            || "give one of them another `name`",
        )
    }

    fn check_windows(&self) -> Result<(), PlanError> {
        let default = self.initial_windows == [InitialWindow::default()];
        let mut servers = self.servers.iter();
        let foreign = servers.find(|one| **one != ServerName::ALTWAY);
        refuse(
            !default && foreign.is_some() && self.protocols.contains(&Protocol::H3),
            || {
                let server = foreign.copied().unwrap_or_default();
                format!("the server `{server}` can't be told its initial window over HTTP/3")
            },
            || "leave `initial_window` out, or measure that server in a plan of its own",
        )
    }

    fn check_compression(&self) -> Result<(), PlanError> {
        let mut servers = self.servers.iter();
        let foreign = servers.find(|one| **one != ServerName::ALTWAY);
        refuse(
            self.certificate_compressions != [true] && foreign.is_some(),
            || {
                let server = foreign.copied().unwrap_or_default();
                format!("the server `{server}` can't be told whether to compress its certificates")
            },
            || "leave `certificate_compression` out, or measure that server in a plan of its own",
        )
    }

    fn check_link(&self) -> Result<(), PlanError> {
        let no_rate = self.rates.iter().all(|rate| *rate == Rate::Unlimited);
        refuse(
            no_rate && self.queues != [QueueLimit::Default],
            || "a `queue` has no effect on a link without a rate",
            || "leave `queue` out, or give a `rate`",
        )?;
        let mtu = self.mtu;
        refuse(
            mtu < LEAST_MTU,
            || format!("an `mtu` of {mtu} bytes is too small for QUIC"),
            || format!("take {LEAST_MTU} at least, or leave `mtu` out to have 1500"),
        )?;
        let environments = self.environment_count();
        refuse(
            environments > MAX_ENVIRONMENTS,
            || {
                format!(
                    "the plan has {environments} environments: at most {MAX_ENVIRONMENTS} are set up"
                )
            },
            || "take fewer topologies, congestion controls or initial windows",
        )
    }

    fn check_running(&self) -> Result<(), PlanError> {
        let warm_ups = self.warm_ups;
        refuse(
            warm_ups > MAX_WARM_UPS,
            || format!("`warm_ups` is {warm_ups}: at most {MAX_WARM_UPS} are made"),
            || "one is enough to fill caches",
        )?;
        if let Some(stopping) = &self.stopping {
            self.check_stopping(stopping)?;
        }
        self.check_placement()?;
        let adaptive = self.sampling == Sampling::Adaptive;
        refuse(
            adaptive && self.protocols.len() != 2,
            || "adaptive sampling looks for the line between two protocols",
            || "name exactly two `protocols`, or take `sampling = \"grid\"`",
        )?;
        refuse(
            adaptive && self.cell_count() < 3,
            || "adaptive sampling has nothing to choose from: the plan has fewer than 3 cells",
            || "take `sampling = \"grid\"`",
        )
    }

    fn check_policies(&self) -> Result<(), PlanError> {
        if self.policies.is_empty() {
            return Ok(());
        }
        let has_both = [Policy::H2, Policy::H3]
            .iter()
            .all(|one| self.policies.contains(one));
        refuse(
            !has_both || self.protocols != [Protocol::H2, Protocol::H3],
            || "policies are held against the better of HTTP/2 and HTTP/3",
            || "name `h2` and `h3` in `policy`, and leave `protocols` out",
        )?;
        let servers = self.servers.iter();
        let foreign = servers.filter(|one| **one != ServerName::ALTWAY).count();
        refuse(
            foreign > 0,
            || "`policy` is an option of `altway serve`: other servers have none",
            || "leave `server` out",
        )?;
        let scenario = self.scenario.name();
        refuse(
            !matches!(self.scenario, Scenario::Download | Scenario::Page(_)),
            || {
                format!(
                    "clients of a `policy` come back by themselves: not in the scenario `{scenario}`"
                )
            },
            || "take `download` or `page`",
        )?;
        refuse(
            self.connections != [Connection::Cold],
            || "each session of a `policy` begins with new connections: none of them is warm",
            || "leave `connection` out",
        )?;
        refuse(
            self.stopping.is_some() || self.sampling == Sampling::Adaptive,
            || "cells are left early by two protocols, not by policies",
            || "leave [stop] and `sampling` out",
        )?;
        let visit = self.visit(&self.cells()[0], Protocol::H3);
        refuse(
            visit.check().is_err(),
            || {
                format!(
                    "{} sessions have {} requests",
                    self.sessions(),
                    visit.request_count()
                )
            },
            || {
                format!(
                    "take a smaller page, or fewer sessions: at most {MAX_VISIT_REQUESTS} are made"
                )
            },
        )
    }

    fn check_stopping(&self, stopping: &Stopping) -> Result<(), PlanError> {
        let (first, least, pairs) = (stopping.least_pairs, Stopping::LEAST_PAIRS, self.pairs);
        refuse(
            first < least,
            || format!("the first look of [stop] is after {first} pairs"),
            || format!("fewer than {least} pairs make intervals that are too narrow"),
        )?;
        refuse(
            first >= pairs,
            || format!("with {pairs} `pairs` at most there is nothing to stop early"),
            || "raise `pairs`, or leave [stop] out",
        )?;
        let most = Stopping::MAX_LOOKS;
        refuse(
            !(2..=most).contains(&stopping.looks),
            || format!("{} looks can't stop a cell early", stopping.looks),
            || format!("[stop] takes 2 to {most} looks"),
        )?;
        refuse(
            stopping.half_width == Ratio::ZERO,
            || "a `half_width` of 0% is never reached",
            || "3% is the band within which protocols count as equal",
        )
    }
}

fn refuse<W: Into<String>, H: Into<String>>(
    impossible: bool,
    what: impl FnOnce() -> W,
    hint: impl FnOnce() -> H,
) -> Result<(), PlanError> {
    if impossible {
        let (what, hint) = (what().into(), hint().into());
        return Err(PlanError::Impossible { what, hint });
    }
    Ok(())
}
