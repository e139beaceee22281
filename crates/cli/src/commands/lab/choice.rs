//! The offer that `altway serve` would make the client of a run over each of its links, for who looks at the lab for the
//! first time.

use crate::printer::Printer;
use altway_lab::plans;
use altway_record::{Cell, Client, Manifest, Protocol, Sample, Scenario};
use altway_report::{Choice, Run};
use altway_select::model::SurfaceModel;
use altway_select::{ClientClass, Congestion, Exchange, Offer, Surface};
use anyhow::Result;

/// bit/s of a link without a limit.
const UNLIMITED: f64 = 1e11;

/// Prints altway's choices below the table of the plan that runs when none is named.
pub(super) fn print(manifest: &Manifest, samples: &[Sample], printer: &Printer) -> Result<()> {
    if manifest.plan.name != plans::DEFAULT {
        return Ok(());
    }
    let model = SurfaceModel::learned(Surface::embedded().clone());
    let scenario = &manifest.plan.scenario;
    let choose = |cell: &Cell| choose(&model, scenario, cell);
    if let Some(text) = altway_report::choices(&Run { manifest, samples }, &choose)? {
        printer.data(&format!("\n{text}"))?;
    }
    Ok(())
}

fn choose(model: &SurfaceModel, scenario: &Scenario, cell: &Cell) -> Choice {
    #[expect(
        clippy::cast_precision_loss,
        reason = "rates and sizes are far below 2^53"
    )]
    let float = |number: u64| number as f64;
    let rate = cell
        .rate
        .limit()
        .map_or(UNLIMITED, |rate| float(rate.as_bps()));
    let rtt = 2.0 * cell.delay.as_secs_f64();
    let (predicted_offer, predicted) = model.choose(
        class_of(cell.client),
        rate,
        rtt,
        cell.loss.as_f64(),
        [cell.congestion.tcp(), cell.congestion.quic()].map(Congestion::of_name),
        &exchange(scenario, float(cell.size.as_bytes())),
    );
    Choice {
        protocol: match predicted_offer {
            Offer::Http3 => Protocol::H3,
            Offer::Http2 => Protocol::H2,
        },
        predicted,
    }
}

/// A cold transfer of the cell's size: a page's objects come after its HTML.
fn exchange(scenario: &Scenario, size: f64) -> Exchange {
    let (document, many) = match scenario {
        Scenario::Page(page) => {
            #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
            let html = page.html.as_bytes() as f64;
            (html, page.objects.len() > 3)
        }
        _ => (size, false),
    };
    Exchange {
        document,
        objects: size - document,
        many,
        setup2: 2.0,
        setup3: 1.0,
    }
}

/// The class by which the server knows a client from its User-Agent.
fn class_of(client: Client) -> ClientClass {
    let class = match client {
        Client::Altway => "altway-other",
        Client::Curl => "curl-other",
        Client::Chromium => "chromium-linux",
        Client::Firefox => "firefox-linux",
    };
    class.parse().unwrap_or(ClientClass::OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_has_a_class_and_a_long_path_favours_http3() {
        let all = [
            Client::Altway,
            Client::Curl,
            Client::Chromium,
            Client::Firefox,
        ];
        assert!(
            all.iter()
                .all(|client| class_of(*client) != ClientClass::OTHER)
        );
        let plan = plans::read(plans::DEFAULT).unwrap();
        let model = SurfaceModel::learned(Surface::embedded().clone());
        let choices: Vec<_> = plan
            .cells()
            .iter()
            .map(|cell| choose(&model, &plan.scenario, cell))
            .collect();
        assert!(
            choices
                .windows(2)
                .all(|pair| pair[1].predicted < pair[0].predicted)
        );
        assert_eq!(choices.last().unwrap().protocol, Protocol::H3);
    }
}
