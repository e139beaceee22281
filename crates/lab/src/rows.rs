//! The rows of a transfer, made from the reports of its client and its link, and its fault if it
//! does not count.

use crate::workers::Task;
use altway_emulate::{Invalid, LinkReport};
use altway_record::{Plan, Protocol, RequestRecord, Sample, Visit};
use std::time::Duration;

/// A transfer counts when the 99th percentile of the link's lateness is within the link's own limit,
/// or below this share of the transfer's time. A late link was seen to move a transfer by less than
/// twice that percentile where it was above 3 ms (docs/decisions/0012), so by less than 1 % at this
/// share: a third of the band within which protocols count as equal.
const LATENESS_SHARE: f64 = 0.005;

/// The reports and counters of one transfer.
#[derive(Debug)]
pub(crate) struct Observation<'a> {
    pub(crate) task: &'a Task,
    pub(crate) started_unix_ms: i64,
    pub(crate) report: LinkReport,
    pub(crate) client_switches: u64,
    pub(crate) server_switches: u64,
    pub(crate) client_cpu: Option<Duration>,
    pub(crate) server_cpu: Option<Duration>,
    /// The client's records, or the reason why there are none.
    pub(crate) fetched: Result<Vec<RequestRecord>, String>,
}

impl Observation<'_> {
    /// The rows of the transfer, at least one, without their ordinal; valid when there is no fault.
    pub(crate) fn rows(&self, plan: &Plan) -> Vec<Sample> {
        let transfer = &self.task.transfer;
        let (cell, protocol) = (&transfer.cell, transfer.arm.protocol);
        let visit = plan.visit(cell, protocol);
        let (records, failure) = match &self.fetched {
            Ok(records) => (records.as_slice(), fault_of(records, &visit, protocol)),
            Err(failure) => (&[][..], Some(failure.clone())),
        };
        let compared = plan.compared_us(cell, records);
        let fault = failure
            .or_else(|| link_fault(&self.report, compared))
            .or_else(|| {
                let nothing = "nothing of it can be compared".to_owned();
                compared.is_none().then_some(nothing)
            });
        let mut row = self.row();
        row.valid = fault.is_none();
        row.fault = fault.unwrap_or_default();
        row.compared_us = compared;
        row.requests = u32::try_from(records.len().max(1)).unwrap_or(u32::MAX);
        let of_record = |(request, record): (u32, &RequestRecord)| {
            let mut row = row.clone();
            row.request = request;
            fill_in_request(&mut row, record);
            row.session = session_of(&visit, record);
            row
        };
        let rows: Vec<_> = (0..).zip(records).map(of_record).collect();
        if rows.is_empty() { vec![row] } else { rows }
    }

    /// A row with the values that are the same in all rows of the transfer.
    fn row(&self) -> Sample {
        let transfer = &self.task.transfer;
        let cell = transfer.cell;
        let (up, down) = (&self.report.up, &self.report.down);
        Sample {
            ordinal: 0,
            block: transfer.block,
            cell: cell.index,
            attempt: self.task.attempt,
            request: 0,
            requests: 1,
            protocol: transfer.arm.protocol,
            null_arm: transfer.arm.null_arm,
            protocol_used: None,
            topology: cell.topology,
            server: cell.server,
            client: cell.client,
            congestion: cell.congestion,
            initial_window_packets: cell.initial_window,
            certificate: cell.certificate,
            certificate_compression: cell.certificate_compression,
            connection: cell.connection,
            link: cell.link,
            queue: cell.queue,
            rate_bps: cell.rate.limit().map(altway_units::Bandwidth::as_bps),
            delay_us: micros(cell.delay),
            loss_ppb: cell.loss.as_parts_per_billion(),
            size_bytes: cell.size.as_bytes(),
            link_seed: transfer.link_seed,
            started_unix_ms: self.started_unix_ms,
            start_us: 0,
            connect_us: None,
            first_byte_us: None,
            total_us: None,
            compared_us: None,
            body_bytes: 0,
            up_packets: up.packets_in,
            // Packets dropped as UDP have no column of their own.
            up_lost_packets: up.packets_lost + up.packets_udp_dropped,
            up_queue_dropped_packets: up.packets_queue_dropped,
            down_packets: down.packets_in,
            down_lost_packets: down.packets_lost + down.packets_udp_dropped,
            down_queue_dropped_packets: down.packets_queue_dropped,
            down_backlog_max_bytes: down.bytes_backlog_max,
            codel_dropped_packets: up.packets_codel_dropped + down.packets_codel_dropped,
            duplicated_packets: up.packets_duplicated + down.packets_duplicated,
            reordered_packets: up.packets_reordered + down.packets_reordered,
            corrupted_packets: up.packets_corrupted + down.packets_corrupted,
            beside: self.task.beside,
            lateness_us_p99: self.report.lateness_us_p99,
            hidden_drops_packets: self.report.hidden_drops,
            client_involuntary_switches: self.client_switches,
            server_involuntary_switches: self.server_switches,
            client_cpu_us: self.client_cpu.map(micros),
            server_cpu_us: self.server_cpu.map(micros),
            policy: transfer.arm.policy,
            session: 0,
            alt_svc_ma_s: None,
            valid: false,
            fault: String::new(),
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn fill_in_request(row: &mut Sample, record: &RequestRecord) {
    row.protocol_used = record.protocol_used;
    row.start_us = record.start_us;
    row.connect_us = record.connect_us;
    row.first_byte_us = record.first_byte_us;
    row.total_us = record.error.is_none().then_some(record.total_us);
    row.body_bytes = record.bytes;
    row.alt_svc_ma_s = record.alt_svc_ma_s;
}

/// The session of its visit that a request is of, from 0.
fn session_of(visit: &Visit, record: &RequestRecord) -> u32 {
    let of_session = u32::try_from(visit.requests.len().max(1)).unwrap_or(u32::MAX);
    record.item / of_session
}

/// The reason for which the records do not count, if they do not.
fn fault_of(records: &[RequestRecord], visit: &Visit, protocol: Protocol) -> Option<String> {
    let wanted = visit.request_count();
    let mut faults = records
        .iter()
        .zip(visit.requests.iter().cycle())
        .filter_map(|(record, request)| {
            let learns = visit.learn_http3 && record.item == 0;
            let expected = match visit.sessions {
                // Over what it goes is what is measured.
                Some(_) => None,
                None if learns => Some(Protocol::H2),
                None => Some(protocol),
            };
            let fault = request_fault(record, expected, request.size_bytes).or_else(|| {
                let silent = learns && !record.alt_svc;
                silent.then(|| "the server did not say that there is HTTP/3".to_owned())
            })?;
            Some(match wanted {
                1 => fault,
                _ => format!("request {}: {fault}", record.item),
            })
        });
    faults.next().or_else(|| {
        let made = records.len();
        (made != wanted).then(|| format!("{made} of {wanted} requests were made"))
    })
}

fn request_fault(record: &RequestRecord, expected: Option<Protocol>, size: u64) -> Option<String> {
    if let Some(error) = &record.error {
        return Some(error.clone());
    }
    if let Some(expected) = expected.filter(|one| record.protocol_used != Some(*one)) {
        return Some(format!("the request did not use {}", expected.name()));
    }
    if record.status != Some(200) {
        let status = record.status.unwrap_or(0);
        return Some(format!("the server answered {status}"));
    }
    (record.bytes != size).then(|| format!("{} of {size} bytes came", record.bytes))
}

/// The fault of the link, if it did not do what it should have.
fn link_fault(report: &LinkReport, total_us: Option<u64>) -> Option<String> {
    let invalid = report.validity().err()?;
    let late_enough_to_matter = match invalid {
        #[expect(
            clippy::cast_precision_loss,
            reason = "microseconds of a transfer fit 2^53"
        )]
        Invalid::Late { p99_us, .. } => {
            total_us.is_none_or(|total| p99_us > total as f64 * LATENESS_SHARE)
        }
        _ => true,
    };
    late_enough_to_matter.then(|| invalid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transfer;
    use altway_emulate::Backend;
    use altway_record::Shard;

    fn plan(more: &str) -> Plan {
        let text = format!(
            "name = \"p\"\nrate = \"5mbit\"\ndelay = \"1ms\"\nsize = \"1KB\"\npairs = 1\n{more}"
        );
        text.parse().unwrap()
    }

    fn record(item: u32) -> RequestRecord {
        RequestRecord {
            connection: 0,
            stream: item,
            item,
            protocol: Protocol::H3,
            protocol_used: Some(Protocol::H3),
            start_us: 0,
            connect_us: Some(1),
            first_byte_us: Some(2),
            total_us: 3,
            bytes: 1_000,
            status: Some(200),
            alt_svc: false,
            alt_svc_ma_s: None,
            error: None,
        }
    }

    fn late(p99: f64, drops: u64) -> LinkReport {
        let direction = altway_emulate::DirectionReport::default();
        LinkReport {
            up: direction,
            down: direction,
            backend: Backend::Tun,
            backend_reason: String::new(),
            realtime_priority: Some(true),
            arrivals_by_kernel: Some(true),
            lateness_us_p50: Some(0.0),
            lateness_us_p99: Some(p99),
            lateness_us_max: Some(p99),
            lateness_limit_us: 1_000.0,
            hidden_drops: drops,
            hidden_drops_interfaces: drops,
            hidden_drops_sockets: 0,
            hidden_drops_thread: 0,
            involuntary_switches: 0,
            router: None,
        }
    }

    fn rows(plan: &Plan, fetched: Result<Vec<RequestRecord>, String>) -> Vec<Sample> {
        let transfers = crate::schedule(plan, Shard::WHOLE);
        let is_h3 = |one: &&Transfer| one.arm.protocol == Protocol::H3;
        let task = Task {
            transfer: *transfers.iter().find(is_h3).unwrap(),
            attempt: 2,
            beside: 3,
        };
        let seen = Observation {
            task: &task,
            started_unix_ms: 0,
            report: late(0.0, 0),
            client_switches: 0,
            server_switches: 0,
            client_cpu: Some(Duration::from_nanos(7_999)),
            server_cpu: None,
            fetched,
        };
        seen.rows(plan)
    }

    fn fault(change: impl FnOnce(&mut RequestRecord)) -> String {
        let mut record = record(0);
        change(&mut record);
        rows(&plan(""), Ok(vec![record])).remove(0).fault
    }

    #[test]
    fn only_a_whole_answer_over_the_right_protocol_counts() {
        assert_eq!(fault(|_| ()), "");
        let fallback = fault(|record| record.protocol_used = Some(Protocol::H2));
        assert_eq!(fallback, "the request did not use HTTP/3");
        assert_eq!(fault(|record| record.bytes = 999), "999 of 1000 bytes came");
        let missing = fault(|record| record.status = Some(404));
        assert_eq!(missing, "the server answered 404");
        assert_eq!(fault(|record| record.error = Some("reset".into())), "reset");
    }

    #[test]
    fn processor_time_is_in_whole_microseconds_and_empty_where_nobody_knows_it() {
        let row = &rows(&plan(""), Ok(vec![record(0)]))[0];
        assert_eq!((row.client_cpu_us, row.server_cpu_us), (Some(7), None));
    }

    #[test]
    fn a_failed_request_has_no_time_and_a_client_that_failed_has_one_row() {
        let failed = RequestRecord {
            error: Some("reset".into()),
            ..record(0)
        };
        let row = &rows(&plan(""), Ok(vec![failed]))[0];
        assert_eq!(
            (row.total_us, row.compared_us, row.valid),
            (None, None, false)
        );
        let nothing = rows(&plan(""), Err("gone".into()));
        assert_eq!((nothing.len(), nothing[0].requests), (1, 1));
        assert_eq!(nothing[0].fault, "gone");
    }

    #[test]
    fn a_transfer_of_several_requests_has_a_row_of_each() {
        let plan = plan("connection = \"warm\"");
        let opener = RequestRecord {
            bytes: 125,
            ..record(0)
        };
        let whole = rows(&plan, Ok(vec![opener.clone(), record(1)]));
        assert_eq!(whole.len(), 2);
        assert!(whole.iter().all(|row| row.valid && row.requests == 2));
        assert!(
            whole
                .iter()
                .all(|row| row.compared_us == Some(3) && (row.attempt, row.beside) == (2, 3))
        );
        assert_eq!((whole[0].request, whole[1].request), (0, 1));
        let half = rows(&plan, Ok(vec![opener]));
        assert_eq!(half[0].fault, "1 of 2 requests were made");
    }

    #[test]
    fn http3_that_is_learned_must_have_been_offered() {
        let plan = plan("scenario = \"repeat\"\n[repeat]\nvisits = 2");
        let first = RequestRecord {
            protocol_used: Some(Protocol::H2),
            alt_svc: true,
            ..record(0)
        };
        assert!(rows(&plan, Ok(vec![first.clone(), record(1)]))[0].valid);
        let silent = RequestRecord {
            alt_svc: false,
            alt_svc_ma_s: None,
            ..first
        };
        let fault = &rows(&plan, Ok(vec![silent, record(1)]))[0].fault;
        assert_eq!(
            fault,
            "request 0: the server did not say that there is HTTP/3"
        );
    }

    #[test]
    fn sessions_may_go_over_any_protocol_and_add_up() {
        let plan = plan("policy = [\"h2\", \"h3\", \"learned\"]");
        let over_h2 = RequestRecord {
            protocol_used: Some(Protocol::H2),
            alt_svc_ma_s: Some(60),
            ..record(0)
        };
        let later = RequestRecord {
            start_us: 100,
            ..record(1)
        };
        let made = [over_h2, later, record(2)];
        let whole = rows(&plan, Ok(made.to_vec()));
        assert!(
            whole
                .iter()
                .all(|row| row.valid && row.compared_us == Some(9)),
            "{whole:?}"
        );
        let sessions: Vec<_> = whole.iter().map(|row| row.session).collect();
        assert_eq!(sessions, [0, 1, 2]);
        assert_eq!(
            (whole[0].alt_svc_ma_s, whole[1].alt_svc_ma_s),
            (Some(60), None)
        );
        let cut = rows(&plan, Ok(made[..2].to_vec()));
        assert_eq!(cut[0].fault, "2 of 3 requests were made");
    }

    #[test]
    fn a_late_link_matters_by_the_time_of_the_transfer() {
        // 0.5 % of 1 s are 5 ms.
        assert_eq!(link_fault(&late(5_000.0, 0), Some(1_000_000)), None);
        assert!(link_fault(&late(5_001.0, 0), Some(1_000_000)).is_some());
        assert_eq!(link_fault(&late(1_000.0, 0), Some(1)), None);
        assert!(link_fault(&late(1_001.0, 0), None).is_some());
        assert!(link_fault(&late(0.0, 1), Some(1_000_000)).is_some());
    }
}
