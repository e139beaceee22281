//! Configurations that are right.

use crate::{Disk, folder};
use altway_config::{
    AcmeChallenge, Action, Coding, Config, Files, Issuer, Limits, LogFormat, NoFiles, OnTheFly,
    PathPattern, Plan, PrintExtent, Proxy, Route, Secret, Security, Site, read,
};
use std::path::Path;

fn whole() -> Plan {
    let folder = folder("good");
    let text = std::fs::read_to_string(format!("{folder}/altway.toml")).unwrap();
    read("altway.toml", &text, &mut Disk { folder }).unwrap_or_else(|faults| panic!("{faults}"))
}

fn files(route: &Route) -> &Files {
    match &route.action {
        Action::Files(files) => files,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_process_keeps_and_asks_of_its_clients_is_read() {
    let plan = whole();
    let config = plan.config();
    let account = (config.user.as_deref(), config.group.as_deref());
    assert_eq!(account, (Some("altway"), Some("ssl-cert")));
    let sandbox = &config.sandbox;
    assert!(sandbox.is_on && sandbox.read.len() == 2);
    assert_eq!(sandbox.write, [Path::new("/srv/incoming")]);
    let clients = plan.sites()[0].client_certificates.as_ref().unwrap();
    assert_eq!(clients.roots, Path::new("/etc/ssl/clients.pem"));
    assert!(!clients.required);
}

#[test]
fn every_key_is_read() {
    let plan = whole();
    let config = plan.config();
    assert_eq!(config.state.as_deref(), Some(Path::new("/var/lib/altway")));
    assert_eq!(config.listen.listeners[0].address.to_string(), "*:443");
    let securities = config.listen.listeners.iter().map(|it| it.security);
    let securities: Vec<_> = securities.collect();
    let (tls, redirect, clear) = (Security::Tls, Security::Redirect, Security::ClearText);
    assert_eq!(securities, [tls, tls, redirect, clear]);
    assert_eq!(config.listen.listeners[1].protocols.to_string(), "h1");
    assert_eq!(config.listen.alt_svc_port.map(u16::from), Some(443));
    let own = config.listen.listeners[1].alt_svc_port.map(u16::from);
    assert_eq!(own, Some(9443));
    assert_eq!(config.ticket_keys.len(), 2);
    assert_eq!(config.listen.proxy_protocol_from.len(), 2);
    assert_eq!(config.admin.as_deref(), Some("/run/altway/admin.sock"));
    let rate = config.limits.requests_per_prefix.map(|it| it.to_string());
    assert_eq!(rate.as_deref(), Some("30/min, burst 60"));
    assert_eq!(
        config.limits.slowest.map(altway_units::LeastRate::bytes),
        Some(10_000)
    );
    assert_eq!(config.limits.max_requests.map(usize::from), Some(10_000));
    assert_eq!(config.limits.retry.to_string(), "never");
    assert_eq!(config.log.access.as_deref(), Some(Path::new("-")));
    assert_eq!(config.log.format, LogFormat::Json);
    let acme = config.acme.as_ref().unwrap();
    assert_eq!(acme.email.as_ref().unwrap().to_string(), "ops@example.org");
    assert_eq!(acme.directory.as_str(), "https://ca.example:14000/dir");
    let account = acme.external_account.as_ref().unwrap();
    assert_eq!(account.key, Secret::Credential("eab".into()));
    let site = &plan.sites()[0];
    assert_eq!(site.policy.to_string(), "surface:surface.toml");
    assert_eq!(site.certificates[1].key, Secret::Credential("ecdsa".into()));
    assert_eq!(site.headers.len(), 3);
    let served = files(&site.routes[4]);
    assert_eq!(
        served.precompressed,
        [Coding::Zstd, Coding::Brotli, Coding::Gzip]
    );
    assert_eq!(served.compress, [OnTheFly::Brotli, OnTheFly::Gzip]);
    let Action::Proxy(proxy) = &site.routes[2].action else {
        panic!("{:?}", site.routes[2].action);
    };
    assert_eq!(proxy.upstreams.len(), 4);
    assert_eq!(proxy.balance.to_string(), "hash:x-user");
    assert_eq!((proxy.retry.attempts, proxy.upstream_requests), (3, 100));
    assert_eq!(proxy.timeouts.idle.as_secs(), 3_600);
    let max_body = proxy.max_body.map(altway_units::DataSize::as_bytes);
    assert_eq!(max_body, Some(10_000_000));
    assert!(proxy.trust[0].contains([10, 9, 8, 7].into()));
    let prefixes = (&proxy.strip_prefix, &proxy.add_prefix);
    let prefix = |text: &str| Some(text.parse().unwrap());
    assert_eq!(prefixes, (&prefix("/api"), &prefix("/v2")));
    let name = proxy.server_name.as_ref().map(ToString::to_string);
    assert_eq!(name.as_deref(), Some("api.internal"));
    let shown = proxy.client_certificate.as_ref().map(|it| &it.key);
    assert_eq!(shown, Some(&Secret::Credential("client".into())));
    assert!(proxy.send_proxy_protocol);
    assert_eq!(proxy.request_headers.remove[1].as_str(), "x-internal-*");
    assert_eq!(proxy.request_headers.append.len(), 2);
    assert_eq!(proxy.response_headers.set[0].to_string(), "x-from: api");
    let patterns: Vec<_> = served
        .cache
        .iter()
        .map(|rule| rule.path.to_string())
        .collect();
    assert_eq!(
        patterns,
        ["/z/*", "/assets/*", "/*"],
        "the order in which they were written"
    );
    assert_eq!(served.error_pages[0].page.as_str(), "/404.html");
    // The site's, where the route says nothing.
    assert!(served.hidden);
    assert!(!files(&site.routes[3]).hidden);
}

#[test]
fn of_the_limits_of_content_the_nearest_counts() {
    let plan = whole();
    let site = &plan.sites()[0];
    let Action::Proxy(own) = &site.routes[2].action else {
        panic!("{:?}", site.routes[2].action);
    };
    let other = Proxy::to(own.upstreams.clone());
    let most = |site: &Site, proxy: &Proxy| {
        let most = plan.config().limits.body_limit(site, proxy);
        most.to_string()
    };
    assert_eq!(most(site, own), "10MB");
    assert_eq!(most(site, &other), "100MB");
    assert_eq!(most(&Site::default(), &other), "1GB");
    let limits = Limits::default();
    assert_eq!(
        limits.body_limit(&Site::default(), &other),
        Limits::MAX_BODY
    );
}

#[test]
fn included_sites_follow_in_the_order_of_their_files_and_their_paths_begin_in_their_folder() {
    let plan = whole();
    let names: Vec<_> = plan.sites()[1..]
        .iter()
        .map(|site| site.names[0].to_string())
        .collect();
    assert_eq!(names, ["a.example", "b.example"]);
    assert_eq!(files(&plan.sites()[1].routes[0]).root, Path::new("sites/a"));
    assert_eq!(files(&plan.sites()[2].routes[0]).root, Path::new("/srv/b"));
}

#[test]
fn sites_with_names_and_without_certificates_have_theirs_by_acme() {
    let text = r#"
        state = "/state"
        [listen]
        https = "*:443"
        http = "*:80"
        [acme]
        [[site]]
        names = ["a.example", "b.example"]
        route = [{ files = "a" }]
        [[site]]
        names = ["c.example", "*.d.example"]
        certificate = "own"
        route = [{ files = "c" }]
        [[site]]
        names = ["e.example"]
        certificate = { chain = "e.pem", key = "e.key" }
        route = [{ files = "e" }]
        [[site]]
        default = true
        route = [{ files = "f" }]
    "#;
    let plan = read("altway.toml", text, &mut NoFiles).unwrap();
    assert_eq!(plan.acme_names(), ["a.example", "b.example"]);
    let folder = plan.acme_folder().unwrap();
    assert_eq!(folder, Path::new("/state/acme"));
    let (http, tls) = (AcmeChallenge::Http01, AcmeChallenge::TlsAlpn01);
    assert_eq!(plan.acme_challenges(), [http, tls]);
    let issuers = plan.sites().iter().map(|site| site.issuer(true));
    let issuers: Vec<_> = issuers.collect();
    let (acme, own) = (Some(Issuer::Acme), Some(Issuer::Own));
    assert_eq!(issuers, [acme, own, None, own]);
    for shown in [PrintExtent::Given, PrintExtent::All] {
        let text = plan.config().to_toml(shown);
        let again = read("altway.toml", &text, &mut NoFiles);
        assert_eq!(again.as_ref(), Ok(&plan), "{text}");
    }
    let without = text.replace("http = \"*:80\"", "");
    let plan = read("altway.toml", &without, &mut NoFiles).unwrap();
    assert_eq!(plan.acme_challenges(), [tls], "nobody could ask at port 80");
}

#[test]
fn what_is_printed_gives_the_same_again() {
    let plan = whole();
    for shown in [PrintExtent::Given, PrintExtent::All] {
        let text = plan.config().to_toml(shown);
        let again = read("altway.toml", &text, &mut NoFiles);
        assert_eq!(
            again.unwrap_or_else(|faults| panic!("{faults}\n{text}")),
            plan
        );
    }
}

#[test]
fn a_host_finds_the_site_of_its_exact_name_before_a_wildcard_before_the_default() {
    let text = r#"
        [[site]]
        names = ["*.example.org"]
        route = [{ files = "wildcard" }]
        [[site]]
        names = ["www.example.org"]
        route = [{ files = "exact" }]
        [[site]]
        default = true
        route = [{ files = "default" }]
    "#;
    let plan = read("altway.toml", text, &mut NoFiles).unwrap();
    for (host, expected) in [
        ("www.example.org", "exact"),
        ("WWW.example.org.", "exact"),
        ("api.example.org", "wildcard"),
        ("a.b.example.org", "default"),
        ("example.org", "default"),
        ("192.0.2.1", "default"),
    ] {
        let site = plan.site_of(host).unwrap();
        assert_eq!(files(&site.routes[0]).root, Path::new(expected), "{host}");
    }
}

#[test]
fn what_is_built_by_hand_is_checked_alike() {
    let faults = Plan::check(Config::default()).unwrap_err();
    assert!(
        faults
            .to_string()
            .starts_with("no [[site]] says what is served\n  hint: ")
    );
    let route = |path: PathPattern| Route {
        path,
        headers: Vec::new(),
        action: Action::Files(Files::of("a")),
    };
    let site = Site {
        is_default: true,
        routes: vec![
            route(PathPattern::All),
            route(PathPattern::Suffix(".png".into())),
        ],
        ..Site::default()
    };
    let config = Config {
        sites: vec![site],
        ..Config::default()
    };
    let faults = Plan::check(config.clone()).unwrap_err();
    assert!(
        faults
            .to_string()
            .contains("an earlier one, `/*`, has all of `*.png`"),
        "{faults}"
    );
    let mut config = config;
    config.sites[0].routes.swap(0, 1);
    assert!(Plan::check(config).is_ok());
}

#[test]
fn a_redirect_leads_to_what_an_earlier_route_has_or_another_site() {
    let text = "[listen]\nhttps = [\"*:443\"]\n\n\
        [[site]]\nnames = [\"a.example\"]\n\
        [[site.route]]\npath = \"/app/login\"\nrespond = { body = \"login\" }\n\
        [[site.route]]\npath = \"/app/*\"\nredirect = { to = \"/app/login\" }\n\
        [[site.route]]\npath = \"/new/*\"\nfiles = \"www\"\n\
        [[site.route]]\nredirect = { to = \"/new/{rest}{query}\" }\n\n\
        [[site]]\nnames = [\"www.a.example\", \"*.a.example\"]\n\
        route = [{ redirect = { to = \"https://a.example{path}{query}\" } }]\n\n\
        [[site]]\nnames = [\"b.example\"]\n\
        route = [{ redirect = { to = \"https://b.example:8443{path}\" } }]\n\n\
        [[site]]\ndefault = true\nroute = [{ redirect = { to = \"https://{host}{path}\" } }]\n";
    let disk = &mut Disk {
        folder: folder("good"),
    };
    read("altway.toml", text, disk).unwrap_or_else(|faults| panic!("{faults}"));
}
