//! Plans as they are typed, and what is said of those that can't be.

use super::*;
use altway_document::File;
use proptest::prelude::*;

const SMALL: &str = r#"
        name = "small"
        rate = "5mbit"
        delay = ["0ms", "50ms"]
        size = "1MB"
        pairs = 3
    "#;

fn error(text: &str) -> String {
    text.parse::<Plan>().unwrap_err().to_string()
}

fn hint(more: &str) -> (String, String) {
    match format!("{SMALL}\n{more}").parse::<Plan>() {
        Err(PlanError::Impossible { what, hint }) => (what, hint),
        other => panic!("{other:?}"),
    }
}

fn with(more: &str) -> Plan {
    format!("{SMALL}\n{more}").parse().unwrap()
}

#[test]
fn fills_in_what_is_left_out() {
    let plan: Plan = SMALL.parse().unwrap();
    assert_eq!(plan.protocols, [Protocol::H2, Protocol::H3]);
    assert_eq!(plan.losses, [Ratio::ZERO]);
    assert_eq!(plan.congestions, [Congestion::Cubic]);
    assert_eq!(plan.topologies, [Topology::Direct]);
    assert_eq!(plan.servers, [ServerName::ALTWAY]);
    assert_eq!((plan.queues[0], plan.seed), (QueueLimit::Default, 1));
    assert_eq!((&plan.scenario, plan.stopping), (&Scenario::Download, None));
    assert!(plan.null_arm);
}

#[test]
fn cells_number_the_whole_matrix() {
    let plan: Plan = SMALL
        .replace("\"5mbit\"", "[\"5mbit\", \"unlimited\"]")
        .parse()
        .unwrap();
    let cells = plan.cells();
    assert_eq!(cells.len(), 4);
    assert_eq!((cells[2].index, cells[2].rate), (2, Rate::Unlimited));
    assert_eq!(cells[3].delay, Duration::from_millis(50));
    assert_eq!(plan.transfers(), 36);
    let without = Plan {
        null_arm: false,
        ..plan
    };
    assert_eq!(without.transfers(), 24);
}

#[test]
fn every_axis_multiplies_the_matrix() {
    let plan = with(
        "topology = [\"direct\", \"proxied\"]\nclient = [\"altway\", \"curl\"]\n\
         server = [\"altway\", \"nginx\"]\nqueue = [\"default\", \"64KB\"]\n\
         connection = [\"cold\", \"warm\"]\nloss = [\"0%\", \"1%\"]",
    );
    assert_eq!(plan.cell_count(), 128);
    let cells = plan.cells();
    assert_eq!(cells.len(), 128);
    assert_eq!(cells[64].topology, Topology::Proxied);
    assert_eq!(cells[32].server.as_str(), "nginx");
    assert_eq!(cells[127].delay, Duration::from_millis(50));
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest_key() {
    assert_eq!(
        error(&SMALL.replace("delay", "dealy")),
        "line 4, column 9: unknown key `dealy`; did you mean `delay`?"
    );
    assert_eq!(
        error("colour = 1"),
        "line 1, column 1: unknown key `colour`"
    );
    let table = format!("{SMALL}\nscenario = \"mixed\"\n[mixed]\nsmallx = \"1KB\"");
    assert_eq!(
        error(&table),
        "line 10, column 1: unknown key `smallx`; did you mean `small`?"
    );
}

#[test]
fn impossible_values_are_named_with_key_and_line() {
    assert_eq!(
        error(&SMALL.replace("5mbit", "-5mbit")),
        "line 3, column 9: `rate`: `-5mbit` is not a bandwidth: it can't be negative"
    );
    let lossy = format!("{SMALL}\nloss = \"150%\"");
    assert!(error(&lossy).contains("`loss`: `150%` is not a ratio: it must be from 0% to 100%"));
    let slip = format!("{SMALL}\ntopology = \"ruoter\"");
    assert!(
        error(&slip).ends_with("did you mean `router`?"),
        "{}",
        error(&slip)
    );
    let slip = format!("{SMALL}\nscenario = \"pages\"");
    assert!(
        error(&slip).ends_with("did you mean `page`?"),
        "{}",
        error(&slip)
    );
    let later = format!("{SMALL}\nschema = 99");
    assert!(error(&later).contains("reads plans of schema 1 to"));
}

#[test]
fn missing_and_malformed_keys_are_errors() {
    assert_eq!(
        error(&SMALL.replace("pairs = 3", "")),
        "the key `pairs` is missing"
    );
    assert!(error(&SMALL.replace("pairs = 3", "pairs = 0")).contains("expected 1 to"));
    assert!(error(&SMALL.replace("\"small\"", "\"../etc\"")).contains("not a plan's name"));
    assert!(error(&SMALL.replace("1MB", "0B")).contains("0 bytes"));
    assert!(error("name = ").contains("line 1"));
    assert!(error(&SMALL.replace("\"5mbit\"", "5")).contains("expected a text or a list"));
}

#[test]
fn a_plan_that_would_never_end_is_refused() {
    let huge = SMALL.replace("[\"0ms\", \"50ms\"]", "\"0ms..999ms by 1ms\"");
    assert!(error(&huge.replace("pairs = 3", "pairs = 10000")).contains("30000000 transfers"));
}

#[test]
fn what_does_not_go_together_is_said_with_a_hint() {
    let says = |more: &str, what: &str| {
        let (found, hint) = hint(more);
        assert!(found.contains(what), "{found}");
        assert!(!hint.is_empty() && !hint.contains('\n'), "{hint}");
    };
    says(
        "scenario = \"mixed\"\nclient = \"curl\"",
        "`curl` can't do the scenario `mixed`",
    );
    says(
        "scenario = \"page\"",
        "`size` has no effect in the scenario `page`",
    );
    says(
        "[page]\nhtml = \"1KB\"",
        "[page] has no effect in the scenario `download`",
    );
    says(
        "scenario = \"repeat\"\nconnection = \"warm\"",
        "none of them is warm",
    );
    says(
        "scenario = \"repeat\"\n[repeat]\nvisits = 1",
        "1 visits make no returning client",
    );
    says(
        "scenario = \"mixed\"\n[mixed]\ncount = 0",
        "0 small objects",
    );
    says(
        "congestion = \"reno\"\nserver = \"caddy\"",
        "`caddy` can't be told its congestion control",
    );
    says(
        "congestion = \"bbr\"\nserver = \"caddy\"",
        "`caddy` can't be told its congestion control",
    );
    says(
        "server = [\"nginx\", \"nginx\"]",
        "two servers are called `nginx`",
    );
    says("sampling = \"adaptive\"", "fewer than 3 cells");
    says(
        "protocols = \"h2\"\nsampling = \"adaptive\"",
        "the line between two protocols",
    );
    says("[stop]\nhalf_width = \"3%\"", "nothing to stop early");
    says("[stop]\nleast_pairs = 3", "is after 3 pairs");
    says("warm_ups = 101", "`warm_ups` is 101");
    says("loss = \"100%\"", "nothing ever arrives");
    says(
        "[server]\ncommand = \"h2only {folder}\"\nprotocols = [\"h2\"]",
        "the server `h2only` does not speak HTTP/3",
    );
    let unlimited = SMALL.replace("5mbit", "unlimited");
    let queued = format!("{unlimited}\nqueue = \"1KB\"");
    assert!(error(&queued).contains("no effect on a link without a rate"));
}

#[test]
fn a_server_is_a_preset_or_a_command() {
    let plan = with(
        "[[server]]\ncommand = \"/opt/Bin/MyServer --root {folder}\"\n\
         [[server]]\nname = \"other\"\ncommand = \"x\"\nconfig = \"port {port}\"",
    );
    let names: Vec<_> = plan.servers.iter().map(ServerName::as_str).collect();
    assert_eq!(names, ["myserver", "other"]);
    assert_eq!(plan.commands[1].config.as_deref(), Some("port {port}"));
    assert_eq!(plan.commands[0].protocols.len(), 3);
    let slip = format!("{SMALL}\nserver = \"nginz\"");
    assert!(error(&slip).ends_with("did you mean `nginx`?"));
}

#[test]
fn a_page_has_its_sizes_in_words() {
    let text = SMALL.replace("size = \"1MB\"", "scenario = \"page\"");
    let page = format!("{text}\n[page]\nhtml = \"10KB\"\nobjects = [\"3 x 1KB\", \"20KB\"]");
    let plan: Plan = page.parse().unwrap();
    assert_eq!(plan.sizes, [DataSize::from_bytes(33_000)]);
    let bad = page.replace("3 x 1KB", "many x 1KB");
    assert!(error(&bad).contains("expected one like `20 x 15KB`"));
    let tight = page.replace("\"10KB\"", "\"100B\"");
    assert!(error(&tight).contains("has no room to name 4 objects"));
}

#[test]
fn a_browser_is_asked_only_for_what_it_can_do() {
    let small = with("client = [\"altway\", \"chromium\", \"firefox\"]");
    assert_eq!(small.cell_count(), 6);
    let refused = |text: &str| error(&format!("{text}\nclient = \"chromium\""));
    let repeat = refused(&format!("{SMALL}\nscenario = \"repeat\""));
    assert_eq!(
        repeat,
        "the client `chromium` can't do the scenario `repeat`"
    );
    let tiny = refused(&SMALL.replace("1MB", "99B"));
    assert!(
        tiny.contains("as images, which have 100B or more"),
        "{tiny}"
    );
    let page = SMALL.replace("size = \"1MB\"", "scenario = \"page\"");
    let of =
        |count: u32| format!("{page}\nclient = \"firefox\"\n[page]\nobjects = \"{count} x 1KB\"");
    assert!(of(250).parse::<Plan>().is_ok());
    assert!(error(&of(251)).contains("the times of 250 objects"));
}

fn files(from: Option<&str>, name: &str) -> Result<File, String> {
    let text = match name {
        "common.toml" => "rate = \"1mbit\"\ndelay = \"7ms\"\nsize = \"1KB\"\npairs = 9",
        "deep.toml" => "include = \"common.toml\"\ndelay = \"8ms\"",
        "slip.toml" => "rate = \"1mbit\"\ndealy = \"7ms\"",
        "wrong.toml" => "pairs = \"many\"",
        "loop.toml" => "include = \"loop.toml\"",
        "page.har" => {
            r#"{"log":{"entries":[{"request":{"url":"https://a/"},"response":{"status":200,"bodySize":5000}}]}}"#
        }
        _ => return Err(format!("cannot read {name}")),
    };
    let folder = from
        .and_then(|from| from.rsplit_once('/'))
        .map_or("", |(folder, _)| folder);
    Ok(File {
        name: format!("{folder}{name}"),
        text: text.into(),
    })
}

fn read(text: &str) -> Result<Plan, PlanError> {
    Plan::read(text, &mut files)
}

#[test]
fn what_a_plan_says_goes_before_what_it_includes() {
    let plan = read("include = \"deep.toml\"\nname = \"p\"\npairs = 2").unwrap();
    assert_eq!((plan.pairs, plan.rates[0].to_string()), (2, "1mbit".into()));
    assert_eq!(plan.delays, [Duration::from_millis(8)]);
    let plan = read("include = [\"deep.toml\", \"common.toml\"]\nname = \"p\"").unwrap();
    assert_eq!(plan.delays, [Duration::from_millis(7)]);
}

#[test]
fn a_slip_in_an_included_file_is_found_there() {
    let said = |text: &str| read(text).unwrap_err().to_string();
    assert_eq!(
        said("include = \"slip.toml\""),
        "slip.toml:2:1: unknown key `dealy`; did you mean `delay`?"
    );
    assert!(said("include = \"wrong.toml\"").starts_with("wrong.toml: "));
    assert_eq!(
        said("name = \"p\"\ninclude = \"none.toml\""),
        "line 2, column 1: `include`: cannot read none.toml"
    );
    assert!(said("include = \"loop.toml\"").contains("more than 16 files are included"));
}

#[test]
fn a_page_may_come_from_a_har_file() {
    let text = "name = \"p\"\nrate = \"1mbit\"\ndelay = \"0ms\"\npairs = 1\nscenario = \"page\"\n[page]\nhar = ";
    let plan = read(&format!("{text}\"page.har\"")).unwrap();
    assert_eq!(plan.sizes, [DataSize::from_bytes(5_000)]);
    let said = read(&format!("{text}\"common.toml\""))
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("line 7, column 1: `har`: cannot use common.toml: it is not a HAR file"),
        "{said}"
    );
}

#[test]
fn a_cell_may_stop_early_from_twelve_pairs_on() {
    let plan = |stop: &str| {
        let text = SMALL.replace("pairs = 3", "pairs = 50");
        format!("{text}\n[stop]\n{stop}").parse::<Plan>()
    };
    assert_eq!(plan("").unwrap().stopping, Some(Stopping::default()));
    let own = plan("looks = 2\nhalf_width = \"1%\"")
        .unwrap()
        .stopping
        .unwrap();
    assert_eq!((own.least_pairs, own.looks), (12, 2));
    assert!(
        plan("looks = 1")
            .unwrap_err()
            .to_string()
            .contains("1 looks")
    );
    assert!(
        plan("half_width = \"0%\"")
            .unwrap_err()
            .to_string()
            .contains("never reached")
    );
}

#[test]
fn survives_a_round_trip_through_json() {
    let all = "scenario = \"repeat\"\nserver = [\"altway\", {command = \"x {port}\"}]\nsampling = \"grid\"";
    for plan in [SMALL.parse().unwrap(), with(all)] {
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "[a-z\\[\\]=\"0-9%. \\n]{0,120}") {
        let _ = text.parse::<Plan>();
    }

    #[test]
    fn the_cells_are_as_many_as_said_and_all_different(
        delays in 1_usize..5, losses in 1_usize..4, topologies in 1_usize..5, null_arm: bool,
    ) {
        let list = |count: usize, unit: &str| (0..count).map(|i| format!("\"{i}{unit}\"")).collect::<Vec<_>>().join(", ");
        let topologies = ["\"direct\"", "\"router\"", "\"proxied\"", "\"egress\""][..topologies].join(", ");
        let text = format!(
            "name = \"p\"\nrate = \"5mbit\"\nsize = \"1MB\"\npairs = 2\nnull_arm = {null_arm}\n\
             delay = [{}]\nloss = [{}]\ntopology = [{topologies}]", list(delays, "ms"), list(losses, "%"),
        );
        let plan: Plan = text.parse().unwrap();
        let cells = plan.cells();
        prop_assert_eq!(cells.len() as u64, plan.cell_count());
        prop_assert_eq!(plan.transfers(), plan.cell_count() * 2 * (2 + u64::from(null_arm)));
        for (index, cell) in cells.iter().enumerate() {
            prop_assert_eq!(cell.index as usize, index);
            let alike = |other: &&Cell| Cell { index: 0, ..**other } == Cell { index: 0, ..*cell };
            prop_assert_eq!(cells.iter().filter(alike).count(), 1);
        }
    }
}

#[test]
fn policies_are_arms_and_their_clients_come_back() {
    let plan = with("policy = [\"h2\", \"learned\", \"h3\"]");
    let policies: Vec<_> = plan.arms().iter().map(|arm| arm.policy).collect();
    let expected = [Policy::H2, Policy::Learned, Policy::H3, Policy::H2].map(Some);
    assert_eq!(policies, expected);
    assert_eq!((plan.transfers(), plan.sessions()), (24, 3));
    let visit = plan.visit(&plan.cells()[0], Protocol::H3);
    let apart = visit.sessions.unwrap().apart_ms;
    assert_eq!(apart, [10_000, 3_600_000]);
    let once = with("policy = [\"h2\", \"h3\"]\n[sessions]\napart = \"2min\"");
    assert_eq!((once.sessions(), once.apart[0].as_secs()), (2, 120));
}

#[test]
fn every_client_can_come_back_to_a_policy() {
    let all =
        "policy = [\"h2\", \"h3\"]\nclient = [\"altway\", \"chromium\", \"firefox\", \"curl\"]";
    let plan = with(all);
    for cell in plan.cells() {
        let visit = plan.visit(&cell, Protocol::H3);
        assert_eq!(visit.session_count(), 3, "{}", cell.client);
        assert_eq!(visit.check(), Ok(()));
        let apart = [0, 1, 2, 3].map(|session| visit.apart(session).map(|it| it.as_secs()));
        assert_eq!(apart, [None, Some(10), Some(3_600), None]);
    }
}

#[test]
fn refuses_policies_that_can_not_be_compared() {
    let all = "policy = [\"h2\", \"h3\", \"learned\"]";
    for (more, what) in [
        (
            "policy = \"learned\"".to_owned(),
            "the better of HTTP/2 and HTTP/3",
        ),
        (
            format!("{all}\nprotocols = [\"h3\", \"h2\"]"),
            "the better of HTTP/2 and HTTP/3",
        ),
        (
            format!("{all}\nserver = \"caddy\""),
            "other servers have none",
        ),
        (
            format!("{all}\nscenario = \"repeat\""),
            "the scenario `repeat`",
        ),
        (
            format!("{all}\nconnection = \"warm\""),
            "none of them is warm",
        ),
        (
            format!("{all}\nsampling = \"adaptive\""),
            "by two protocols",
        ),
        (
            "[sessions]\napart = \"1h\"".to_owned(),
            "without a `policy`",
        ),
    ] {
        let (found, hint) = hint(&more);
        assert!(found.contains(what) && !hint.is_empty(), "{more}: {found}");
    }
    let unknown = error(&format!("{SMALL}\npolicy = [\"h2\", \"hq\"]"));
    assert!(unknown.contains("`hq`"), "{unknown}");
    let far = error(&format!("{SMALL}\n{all}\n[sessions]\napart = [\"far\"]"));
    assert!(far.contains("apart"), "{far}");
}

#[test]
fn congestion_controls_are_of_both_transports_or_of_each() {
    let text = "name = \"p\"\nrate = \"5mbit\"\ndelay = \"0ms\"\nsize = \"1MB\"\npairs = 1\n";
    let axis = "congestion = [\"cubic\", \"bbr\", \"tcp-bbr-quic-cubic\"]";
    let plan: Plan = format!("{text}{axis}\n").parse().unwrap();
    let both = |congestion: &Congestion| (congestion.tcp(), congestion.quic());
    let expected = [("cubic", "cubic"), ("bbr", "bbr"), ("bbr", "cubic")];
    assert_eq!(
        plan.congestions.iter().map(both).collect::<Vec<_>>(),
        expected
    );
    assert!(plan.to_toml().contains(axis), "{}", plan.to_toml());
    // QUIC keeps its default there, which is all that such a server can be asked for.
    let mixed = "congestion = \"tcp-bbr-quic-cubic\"\nserver = \"nginx\"";
    assert!(format!("{text}{mixed}").parse::<Plan>().is_ok());
}

#[test]
fn delays_beside_a_plan_take_the_place_of_its_own() {
    let plan = || -> Plan {
        let text = "name = \"p\"\nrate = \"5mbit\"\ndelay = \"0ms..200ms by 25ms\"\nsize = \"1MB\"\npairs = 5";
        text.parse().unwrap()
    };
    let over = |delays: &[&str]| {
        let delays: Vec<String> = delays.iter().map(ToString::to_string).collect();
        plan().over_delays(&delays)
    };
    let finer = over(&["0ms..2ms by 1ms", "2500us"]).unwrap();
    let expected = [0, 1_000, 2_000, 2_500].map(Duration::from_micros);
    assert_eq!(finer.delays, expected);
    assert_eq!((finer.pairs, finer.rates), (plan().pairs, plan().rates));
    let said = |delays: &[&str]| over(delays).unwrap_err().to_string();
    assert_eq!(said(&[]), "the delays can't be used: it has no values");
    assert_eq!(
        said(&["1ms", "1ms"]),
        "the delays can't be used: `1ms` stands twice"
    );
    assert!(said(&["fast"]).starts_with("the delays can't be used: "));
}
