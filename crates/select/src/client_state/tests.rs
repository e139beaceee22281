//! A client's state in virtual time: what fades, what counts, and what may change how often.

use super::*;
use Transport::{Quic, Tcp};
use proptest::prelude::*;

const DAY: u64 = 86_400;

/// Noon of a day of a week that begins with day 0, a Monday.
fn day(day: u64) -> UnixTime {
    UnixTime::from_secs(1_795_392_000 + day * DAY + DAY / 2)
}

fn after(now: UnixTime, seconds: u64) -> UnixTime {
    now + Duration::from_secs(seconds)
}

fn known() -> ClientState {
    let mut known = ClientState::default();
    known.fade(day(0));
    known
}

#[test]
fn the_share_of_lost_packets_is_known_however_many_they_are() {
    let mut known = known();
    for _ in 0..100 {
        known.add_packets(1_000, 200);
    }
    let (sent, lost) = known.packets();
    assert!((lost / sent - 0.2).abs() < 1e-3, "{lost} of {sent}");
}

#[test]
fn half_of_the_packets_count_after_a_week() {
    let mut known = known();
    known.add_packets(10_000, 100);
    known.fade(day(7));
    assert_eq!(known.packets(), (5_000.0, 50.0));
}

#[test]
fn half_of_the_pages_count_after_two_weeks_and_say_the_same() {
    let mut known = known();
    for _ in 0..20 {
        known.add_residual(Quic, 0.5);
    }
    known.fade(day(14));
    let residuals = known.residuals(Quic);
    assert_eq!(residuals.pages, 10.0);
    assert!((residuals.sum - 5.0).abs() < 0.01, "{residuals:?}");
}

#[test]
fn many_packets_keep_their_share_of_losses() {
    let mut known = known();
    for _ in 0..1_000 {
        known.add_packets(1_000, 20);
    }
    let (sent, lost) = known.packets();
    assert!(
        sent <= 65_535.0 && (lost / sent - 0.02).abs() < 0.001,
        "{lost} of {sent}"
    );
}

#[test]
fn a_rate_is_the_mean_of_the_latest_eight() {
    let mut known = known();
    assert_eq!(known.rate(Tcp), None);
    known.add_rate(Tcp, Rate::Known(1e8));
    known.add_rate(Tcp, Rate::Known(4e8));
    let (ln, count) = known.rate(Tcp).unwrap();
    assert!((ln.exp() - 2e8).abs() < 1e4);
    assert_eq!((count, known.rate(Quic)), (2.0, None));
    for _ in 0..100 {
        known.add_rate(Tcp, Rate::Known(1e7));
    }
    let (ln, count) = known.rate(Tcp).unwrap();
    assert!((ln.exp() - 1e7).abs() < 1e5);
    assert_eq!(count, 7.0);
}

#[test]
fn what_was_measured_under_another_congestion_control_is_a_lower_bound_and_nothing_else() {
    let (cubic, bbr) = (Congestion::LossBased, Congestion::RateBased);
    let mut known = known();
    known.add_rtt(Tcp, Duration::from_millis(20));
    known.add_packets(1_000, 20);
    for transport in [Tcp, Quic] {
        known.add_rate(transport, Rate::Known(8e6));
        known.add_residual(transport, 0.5);
    }
    assert_eq!(known.under([cubic, cubic]), known);
    let changed = known.under([bbr, cubic]);
    assert_eq!(changed.rate(Tcp), None);
    assert_eq!(changed.residuals(Tcp), Residuals::default());
    assert!(
        (changed.floor() / 8e6).ln().abs() < 0.05,
        "{}",
        changed.floor()
    );
    // What belongs to the path stays, and what belongs to the other transport.
    assert_eq!(
        (changed.rtt(Tcp), changed.packets()),
        (known.rtt(Tcp), known.packets())
    );
    assert_eq!(changed.rate(Quic), known.rate(Quic));
    assert_eq!(changed.residuals(Quic), known.residuals(Quic));
    // It is not kept for the day on which the former comes back.
    assert_eq!(changed.under([cubic, cubic]).rate(Tcp), None);
}

#[test]
fn the_congestion_control_of_a_rate_is_kept_with_it() {
    for (tcp, quic) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut known = known();
        for (transport, by_rate) in [(Tcp, tcp), (Quic, quic)] {
            let congestion = if by_rate {
                Congestion::RateBased
            } else {
                Congestion::LossBased
            };
            known.set_congestion(transport, congestion);
            for _ in 0..9 {
                known.add_rate(transport, Rate::Known(8e6));
            }
        }
        let mut bytes = [0; SIZE];
        known.write(&mut bytes);
        assert_eq!(ClientState::read(&bytes), known);
    }
}

#[test]
fn a_lower_bound_only_rises() {
    let mut known = known();
    assert_eq!(known.floor(), 0.0);
    known.add_rate(Tcp, Rate::AtLeast(2e8));
    known.add_rate(Tcp, Rate::AtLeast(1e7));
    assert!(
        known.floor() <= 2e8 && known.floor() > 1.9e8,
        "{}",
        known.floor()
    );
}

/// The rate over TCP of a client whose pages over TCP showed `floors` at least, and `later` one over QUIC 5 Mbit/s.
fn rate_over_tcp(floors: &[f64], later: u64) -> Option<f64> {
    let mut known = known();
    known.connected(Tcp, 0, day(0));
    for floor in floors {
        known.add_rate(Tcp, Rate::AtLeast(*floor));
    }
    let mut bytes = [0; SIZE];
    known.write(&mut bytes);
    known = ClientState::read(&bytes);
    known.connected(Quic, 0, after(day(0), later));
    known.add_rate(Quic, Rate::Known(5e6));
    known.rate(Tcp).map(|(ln, _)| ln.exp())
}

#[test]
fn a_lower_bound_of_tcp_far_above_the_rate_over_quic_of_the_same_visit_is_its_rate() {
    let known = rate_over_tcp(&[3e7, 2e6], 600).unwrap();
    assert!((2.8e7..=3e7).contains(&known), "{known}");
    assert_eq!(rate_over_tcp(&[3e7], 601), None, "another visit");
    assert_eq!(rate_over_tcp(&[7e6], 60), None, "not far above");
    assert_eq!(rate_over_tcp(&[], 60), None);
}

#[test]
fn a_rate_measured_over_tcp_replaces_the_bound_that_was_taken_for_one() {
    let mut known = known();
    known.connected(Tcp, 0, day(0));
    known.add_rate(Tcp, Rate::AtLeast(3e7));
    known.add_rate(Quic, Rate::Known(5e6));
    assert!(known.rate(Tcp).unwrap().0.exp() > 2.8e7);
    let mut bytes = [0; SIZE];
    known.write(&mut bytes);
    known = ClientState::read(&bytes);
    known.add_rate(Tcp, Rate::Known(6e6));
    let measured = known.rate(Tcp).unwrap();
    assert!((measured.0.exp() / 6e6 - 1.0).abs() < 1e-3 && measured.1 == 1.0);
    // The bound is no longer that of the path.
    known.add_rate(Quic, Rate::Known(5e6));
    assert_eq!(known.rate(Tcp).unwrap(), measured);
}

#[test]
fn what_quic_showed_at_least_says_nothing_of_tcp() {
    let mut known = known();
    known.add_rate(Quic, Rate::AtLeast(3e7));
    known.add_rate(Quic, Rate::Known(5e6));
    assert_eq!(known.rate(Tcp), None);
}

#[test]
fn a_client_is_forgotten_after_30_days() {
    let known = known();
    assert!(!known.is_forgotten(day(29)) && !known.is_forgotten(day(30)));
    assert!(known.is_forgotten(day(31)));
}

#[test]
fn connections_within_30_s_are_one_visit() {
    let mut known = known();
    assert!(known.connected(Tcp, 0, day(1)));
    assert!(!known.connected(Tcp, 0, after(day(1), 29)));
    assert!(known.connected(Tcp, 0, after(day(1), 30)));
    assert!(!known.connected(Tcp, 0, after(day(1), 31)));
}

#[test]
fn a_clock_that_was_years_ahead_and_was_set_right_holds_nothing_up() {
    let mut known = ClientState::default();
    known.fade(day(3_650));
    known.connected(Tcp, 0, day(3_650));
    known.add_packets(10_000, 100);
    known.fade(day(0));
    assert!(known.connected(Tcp, 0, day(0)));
    assert!(!known.connected(Tcp, 0, after(day(0), 29)));
    known.fade(day(7));
    assert_eq!(known.packets(), (5_000.0, 50.0));
    assert!(known.is_forgotten(day(38)));
}

#[test]
fn three_offers_without_an_arrival_say_that_udp_is_blocked() {
    let mut known = known();
    for visit in 0..4 {
        assert_eq!(known.is_udp_blocked(), visit >= 4);
        let begin = day(1 + visit);
        for parallel in 0..6 {
            known.connected(Tcp, 0, after(begin, parallel));
        }
        known.offer_sent(0);
    }
    assert_eq!((known.offers, known.arrivals), (3, 0));
    assert!(known.is_udp_blocked());
    known.connected(Quic, 0, day(9));
    assert!(!known.is_udp_blocked());
}

#[test]
fn a_visit_to_another_host_does_not_leave_an_offer_unanswered() {
    let mut known = known();
    for host in 0..8 {
        known.connected(Tcp, host, day(1 + u64::from(host)));
        known.offer_sent(host);
        let mut bytes = [0; SIZE];
        known.write(&mut bytes);
        known = ClientState::read(&bytes);
    }
    assert_eq!((known.offers, known.arrivals), (0, 0));
    known.connected(Tcp, 7, day(20));
    assert_eq!((known.offers, known.arrivals), (1, 0));
    known.offer_sent(7);
    known.connected(Quic, 3, day(21));
    assert_eq!((known.offers, known.arrivals), (2, 1));
}

#[test]
fn a_third_of_arrivals_is_enough() {
    let blocked = |offers, arrivals| {
        ClientState {
            offers,
            arrivals,
            ..known()
        }
        .is_udp_blocked()
    };
    assert!(!blocked(2, 0) && blocked(3, 0) && blocked(4, 0));
    assert!(blocked(4, 1) && !blocked(3, 1) && !blocked(2, 1));
}

#[test]
fn an_offer_that_is_taken_back_waits_a_day_and_then_longer_and_until_next_week() {
    let mut known = known();
    known.decide(0, true, day(0));
    known.decide(0, false, day(0));
    assert!(!known.may_offer_again(day(6), false), "once in this week");
    known.fade(day(7));
    assert!(known.may_offer_again(day(7), false));
    known.decide(0, true, day(7));
    known.decide(0, false, day(13));
    known.fade(day(14));
    let two_days = after(day(13), 2 * DAY);
    assert!(!known.may_offer_again(after(day(13), 2 * DAY - 3_600), false));
    assert!(known.may_offer_again(two_days, false));
}

#[test]
fn a_sure_lead_is_offered_again_at_once_but_once_a_week() {
    let mut known = known();
    known.decide(0, true, day(0));
    known.decide(0, false, day(0));
    assert!(!known.may_offer_again(day(0), false) && known.may_offer_again(day(0), true));
    known.decide(0, true, day(1));
    known.decide(0, false, day(1));
    assert!(!known.may_offer_again(day(2), true));
    known.fade(day(7));
    assert!(known.may_offer_again(day(7), true));
}

#[test]
fn what_stood_for_two_weeks_does_not_count_as_flapping() {
    let mut known = known();
    known.decide(0, true, day(0));
    known.decide(0, false, day(0));
    known.fade(day(8));
    known.decide(0, true, day(8));
    known.fade(day(30));
    known.decide(0, false, day(30));
    assert_eq!(known.level(), 1);
}

#[test]
fn hosts_have_their_own_decisions() {
    let mut known = known();
    known.decide(1, true, day(0));
    known.decide(2, false, day(0));
    assert_eq!(known.decision(1), Some(true));
    assert_eq!(known.decision(2), Some(false));
    assert_eq!(known.decision(3), None);
}

#[test]
fn an_arrival_over_quic_makes_entries_possible_again() {
    let mut known = known();
    known.clear_sent(1);
    assert!(known.is_cleared(1) && !known.is_cleared(2));
    known.connected(Quic, 0, day(0));
    assert!(!known.is_cleared(1));
}

proptest! {
    #[test]
    fn any_bytes_are_a_state_of_finite_numbers(bytes: [[u8; 16]; 3], days in 0_u64..100) {
        let mut state = [0; SIZE];
        state.copy_from_slice(bytes.as_flattened());
        let mut known = ClientState::read(&state);
        known.fade(day(days));
        known.connected(Quic, 0, day(days));
        known.connected(Tcp, 0, day(days + 1));
        known.decide(3, true, day(days));
        known.may_offer_again(day(days), false);
        known.add_packets(u64::MAX, u64::MAX);
        known.add_rtt(Tcp, Duration::MAX);
        known.add_rate(Quic, Rate::Known(f64::MAX));
        for transport in [Tcp, Quic] {
            known.add_residual(transport, 1.2);
            let residuals = known.residuals(transport);
            prop_assert!(residuals.sum.is_finite() && residuals.pages <= 32.0);
            prop_assert!(known.rate(transport).is_none_or(|(ln, _)| ln.is_finite()));
        }
        let (sent, lost) = known.packets();
        prop_assert!(lost <= sent + 0.1, "{lost} of {sent}");
    }

    #[test]
    fn a_state_reads_what_it_wrote(bytes: [[u8; 16]; 3]) {
        let mut state = [0; SIZE];
        state.copy_from_slice(bytes.as_flattened());
        let known = ClientState::read(&state);
        let mut written = [0; SIZE];
        known.write(&mut written);
        prop_assert_eq!(ClientState::read(&written), known);
    }
}

#[test]
fn the_loss_of_a_long_transfer_is_its_own_share() {
    let mut known = ClientState::default();
    known.add_packets(1_000_000, 9_000);
    let (sent, lost) = known.packets();
    assert!((lost / sent - 0.009).abs() < 1e-4, "{lost} of {sent}");
}
