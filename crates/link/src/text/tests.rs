//! Texts that are read, texts that are refused and how, and that everything printed is read as it
//! was.

use super::*;
use proptest::prelude::*;
use std::time::Duration;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn percent(percent: u32) -> Ratio {
    Ratio::from_percent(percent).unwrap()
}

#[test]
fn reads_jitters() {
    let jitter = |distribution, may_reorder| {
        Ok(Jitter {
            spread: ms(5),
            distribution,
            may_reorder,
        })
    };
    assert_eq!("5ms".parse(), jitter(Distribution::Uniform, false));
    assert_eq!(
        " 5 ms  normal ".parse(),
        jitter(Distribution::Normal, false)
    );
    assert_eq!(
        "5ms pareto keep-order".parse(),
        jitter(Distribution::Pareto, false)
    );
    assert_eq!(
        "5ms may-reorder".parse(),
        jitter(Distribution::Uniform, true)
    );
    assert_eq!("none".parse(), Ok(Jitter::default()));
}

#[test]
fn reads_losses() {
    assert_eq!("1%".parse(), Ok(LossModel::Random(percent(1))));
    assert_eq!("none".parse(), Ok(LossModel::default()));
    let bursts = GilbertElliott::from_bursts(percent(1), 4).unwrap();
    let bursts = Ok(LossModel::GilbertElliott(bursts));
    assert_eq!("gilbert 1% burst 4".parse(), bursts);
    assert_eq!("gilbert p 0.2525253% r 25%".parse(), bursts);
    assert_eq!(
        "gilbert p 0.2525253%  r 25% good 0% bad 100%".parse(),
        bursts
    );
    let list = PacketList::new(&[3..=3, 7..=7, 10..=12]).unwrap();
    assert_eq!("packets 3 7 10-12".parse(), Ok(LossModel::Packets(list)));
}

#[test]
fn reads_queues() {
    let bytes = Queue::Bytes(DataSize::from_bytes(65_536));
    assert_eq!("64KiB".parse(), Ok(bytes));
    assert_eq!("100ms".parse(), Ok(Queue::Time(ms(100))));
    assert_eq!("50packets".parse(), Ok(Queue::Packets(50)));
    assert_eq!("1 packet".parse(), Ok(Queue::Packets(1)));
    assert_eq!("none".parse(), Ok(Queue::Unlimited));
}

#[test]
fn reads_reorderings() {
    let reordering = |share, shift| {
        let share = percent(share);
        Ok(Reordering { share, shift })
    };
    assert_eq!("25%".parse(), reordering(25, Shift::AtOnce));
    assert_eq!("1% early 5ms".parse(), reordering(1, Shift::Early(ms(5))));
    assert_eq!("1% late 5ms".parse(), reordering(1, Shift::Late(ms(5))));
    assert_eq!("none".parse(), Ok(Reordering::default()));
}

#[test]
fn reads_treatments_of_udp() {
    assert_eq!("pass".parse(), Ok(UdpTreatment::Pass));
    assert_eq!(" block ".parse(), Ok(UdpTreatment::Block));
    let rate = "5mbit".parse().unwrap();
    let police = |burst| {
        let burst = DataSize::from_bytes(burst);
        Ok(UdpTreatment::Police(Policer { rate, burst }))
    };
    assert_eq!("rate 5mbit".parse(), police(65_536));
    assert_eq!("rate  5mbit burst 64KB".parse(), police(64_000));
    let printed = "rate 5mbit".parse::<UdpTreatment>().unwrap().to_string();
    assert_eq!(printed, "rate 5mbit burst 64KiB");
}

#[test]
fn says_what_would_have_been_right() {
    fn refusal<T: FromStr<Err = Error> + fmt::Debug>(text: &str) -> String {
        text.parse::<T>().unwrap_err().to_string()
    }
    for text in [
        "",
        "5",
        "5ms gaussian",
        "normal",
        "-5ms",
        "5ms normal normal",
    ] {
        assert!(
            refusal::<Jitter>(text).contains("like `5ms normal`"),
            "{text}"
        );
    }
    assert!(refusal::<LossModel>("150%").contains("from 0% to 100%"));
    assert!(refusal::<LossModel>("").contains("is not a ratio"));
    for text in [
        "gilbert",
        "gilbert 1%",
        "gilbert 1% burst",
        "gilbert 1% burst x",
        "gilbert p 1%",
    ] {
        assert!(
            refusal::<LossModel>(text).contains("gilbert 1% burst 4"),
            "{text}"
        );
    }
    assert_eq!(
        refusal::<LossModel>("gilbert 90% burst 2"),
        "90% of the packets can't be lost in bursts of 2: at least one packet lies between two bursts"
    );
    for text in [
        "packets",
        "packets 0",
        "packets 2 1",
        "packets 5-4",
        "packets -1",
        "packets 1,2",
    ] {
        assert!(
            refusal::<LossModel>(text).contains("packets 3 7 10-12"),
            "{text}"
        );
    }
    for text in ["", "50", "fast", "-1packets", "4294967296packets"] {
        assert!(refusal::<Queue>(text).contains("`50packets`"), "{text}");
    }
    for text in ["1% 5ms", "1% late", "1% late 5", "1% soon 5ms"] {
        assert!(
            refusal::<Reordering>(text).contains("`1% late 5ms`"),
            "{text}"
        );
    }
    assert!(refusal::<Reordering>("101%").contains("from 0% to 100%"));
    assert!(refusal::<Discipline>("red").contains("drop-tail or codel"));
    for text in ["", "none", "drop", "5mbit", "rate", "rate 5mbit burst"] {
        assert!(
            refusal::<UdpTreatment>(text).contains("`rate 5mbit burst 64KiB`"),
            "{text}"
        );
    }
}

fn any_ratio() -> impl Strategy<Value = Ratio> {
    (0..=1_000_000_000_u32).prop_map(|parts| Ratio::from_parts_per_billion(parts).unwrap())
}

fn any_duration() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_nanos)
}

fn check<T: FromStr<Err = Error> + fmt::Display + fmt::Debug + PartialEq>(value: &T) {
    let text = value.to_string();
    assert!(!text.contains(','), "{text}");
    assert_eq!(text.parse::<T>().as_ref(), Ok(value), "{text}");
}

proptest! {
    #[test]
    fn reads_every_jitter_that_it_prints(spread in any_duration(), kind in 0..3_usize, may_reorder: bool) {
        let distribution = [Distribution::Uniform, Distribution::Normal, Distribution::Pareto][kind];
        check(&Jitter { spread, distribution, may_reorder });
    }

    #[test]
    fn reads_every_loss_that_it_prints(
        ratios in [any_ratio(), any_ratio(), any_ratio(), any_ratio()],
        numbers in prop::collection::btree_set(1_u64.., 2..20),
    ) {
        let [to_bad, to_good, loss_good, loss_bad] = ratios;
        check(&LossModel::Random(to_bad));
        check(&LossModel::GilbertElliott(GilbertElliott { to_bad, to_good, loss_good, loss_bad }));
        let numbers: Vec<u64> = numbers.into_iter().collect();
        let ranges: Vec<_> = numbers.chunks_exact(2).map(|pair| pair[0]..=pair[1]).collect();
        check(&LossModel::Packets(PacketList::new(&ranges).unwrap()));
    }

    #[test]
    fn reads_every_queue_and_reordering_that_it_prints(
        bytes: u64, packets: u32, time in any_duration(), share in any_ratio(),
    ) {
        check(&Queue::Bytes(DataSize::from_bytes(bytes)));
        check(&Queue::Packets(packets));
        check(&Queue::Time(time));
        check(&Queue::Unlimited);
        for shift in [Shift::AtOnce, Shift::Early(time), Shift::Late(time)] {
            check(&Reordering { share, shift });
        }
        check(&Discipline::DropTail);
        check(&Discipline::CoDel);
    }

    #[test]
    fn takes_any_text_without_a_panic(text: String, words in "(gilbert|packets|5ms|1%|burst|[0-9-]{1,25}| ){1,8}") {
        for text in [text, words] {
            let _ = text.parse::<Jitter>();
            let _ = text.parse::<LossModel>();
            let _ = text.parse::<Queue>();
            let _ = text.parse::<Reordering>();
        }
    }
}
