//! Arguments that tell netem to shape a direction, or the reason why it can't.
//!
//! A direction is one netem for loss and delay, and inside of it, where there is a rate, a second for
//! the queue and the rate. Two, because netem has one counter for all that it drops: so what the inner
//! one dropped is the queue's, and the rest was lost. The order differs from the link model's (delay
//! comes before the queue), which moves no packet: all are delayed alike.

use altway_link::{
    Config, Discipline, Distribution, Jitter, LossModel, Queue, Rate, Shift, UdpTreatment,
};
use altway_units::{Bandwidth, DataSize, Ratio};
use std::time::Duration;

/// The most packets that wait in one netem, as in a link of `altway-link`: 1 Gbit/s with 400 ms of
/// delay holds 33,334.
const MOST_PACKETS: u64 = 262_144;

/// The header of Ethernet, which is no part of the rate.
const ETHERNET_HEADER: u64 = 14;

/// Part of a configuration that netem can't be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("netem has nothing for {0}")]
pub struct Unshapable(&'static str);

/// The arguments of `tc` for one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Loss and delay.
    pub(crate) path: String,
    /// The queue and the rate, if there is one.
    pub(crate) bottleneck: Option<String>,
    /// Distribution of jitter of which the kernel has a table; beside it, true if jitter asks for
    /// none.
    table: Option<Distribution>,
    is_uniform: bool,
    copies: bool,
}

impl Shape {
    /// Shapes packets of up to `mtu` bytes of IP as `config` says.
    ///
    /// # Errors
    /// netem has nothing that does the same.
    pub(crate) fn of(config: &Config, mtu: u16) -> Result<Self, Unshapable> {
        if config.discipline != Discipline::DropTail {
            return Err(Unshapable("CoDel for its queue"));
        }
        // What tc's policer dropped would stand in no counter of netem's.
        if config.udp != UdpTreatment::Pass {
            return Err(Unshapable("UDP that is blocked or policed"));
        }
        let rate = match &config.rate {
            Rate::Unlimited => None,
            Rate::Fixed(rate) => Some(*rate),
            Rate::Trace(_) => return Err(Unshapable("a rate that follows a trace")),
        };
        let words = [
            delay(config)?,
            loss(&config.loss)?,
            duplication(config)?,
            reordering(config)?,
            // Even if there is none: what is not named at a change stays as it was.
            format!(" corrupt {}", config.corruption),
        ];
        let jitter = (!config.jitter.spread.is_zero()).then_some(config.jitter.distribution);
        Ok(Self {
            path: format!("netem limit {MOST_PACKETS}{}", words.concat()),
            bottleneck: rate.map(|rate| bottleneck(rate, config.queue, mtu)),
            table: jitter.filter(|distribution| *distribution != Distribution::Uniform),
            is_uniform: jitter == Some(Distribution::Uniform),
            copies: config.duplication != Ratio::ZERO,
        })
    }

    /// Turns this shape into `next` so that no packet in it is lost: what the kernel can't be
    /// told to forget stays.
    ///
    /// # Errors
    /// The part that stays would shape too.
    pub(crate) fn turned_into(&self, next: Self) -> Result<Self, Unshapable> {
        if self.bottleneck.is_some() && next.copies {
            return Err(Unshapable("copies of packets where a rate was"));
        }
        if self.table.is_some() && next.is_uniform {
            return Err(Unshapable("uniform jitter where another was"));
        }
        let no_rate = || format!("netem limit {MOST_PACKETS} rate 0bit");
        let stays = self.bottleneck.is_some().then(no_rate);
        Ok(Self {
            bottleneck: next.bottleneck.or(stays),
            table: next.table.or(self.table),
            ..next
        })
    }

    /// The lines of a `tc` batch that turn this shape of an interface into `next`.
    pub(crate) fn lines_to(&self, next: &Self, interface: &str) -> Vec<String> {
        let mut lines = vec![format!(
            "qdisc change dev {interface} root handle {PATH} {}",
            next.path
        )];
        let word = if self.bottleneck.is_some() {
            "change"
        } else {
            "add"
        };
        lines.extend(next.bottleneck_line(word, interface));
        lines
    }

    fn bottleneck_line(&self, word: &str, interface: &str) -> Option<String> {
        let bottleneck = self.bottleneck.as_ref()?;
        Some(format!(
            "qdisc {word} dev {interface} parent {PATH}1 handle {BOTTLENECK} {bottleneck}"
        ))
    }

    /// The lines of a `tc` batch that give an interface this shape.
    pub(crate) fn lines(&self, interface: &str) -> Vec<String> {
        let mut lines = vec![format!(
            "qdisc add dev {interface} root handle {PATH} {}",
            self.path
        )];
        lines.extend(self.bottleneck_line("add", interface));
        lines
    }
}

/// The handles of the two, by which their counters are told apart.
pub(crate) const PATH: &str = "1:";
pub(crate) const BOTTLENECK: &str = "2:";

fn delay(config: &Config) -> Result<String, Unshapable> {
    let Jitter {
        spread,
        distribution,
        may_reorder,
    } = config.jitter;
    if spread.is_zero() {
        return Ok(match config.delay {
            Duration::ZERO => String::new(),
            delay => format!(" delay {}", micros(delay)),
        });
    }
    if !may_reorder {
        return Err(Unshapable("jitter that keeps the order of packets"));
    }
    let distribution = match distribution {
        Distribution::Uniform => "",
        Distribution::Normal => " distribution normal",
        Distribution::Pareto => " distribution pareto",
    };
    let (delay, spread) = (micros(config.delay), micros(spread));
    Ok(format!(" delay {delay} {spread}{distribution}"))
}

/// Returns the time in µs: older versions of `tc` know no smaller unit, but fractions.
fn micros(time: Duration) -> String {
    let nanos = time.as_nanos();
    format!("{}.{:03}us", nanos / 1_000, nanos % 1_000)
}

fn loss(model: &LossModel) -> Result<String, Unshapable> {
    match model {
        LossModel::Random(ratio) => Ok(share("loss random", *ratio)),
        // p, r, 1-h and 1-k, as tc-netem(8) names them.
        LossModel::GilbertElliott(model) => Ok(format!(
            " loss gemodel {} {} {} {}",
            model.to_bad, model.to_good, model.loss_bad, model.loss_good
        )),
        _ => Err(Unshapable("a list of packets that are lost")),
    }
}

/// Newer kernels refuse a netem that duplicates beside another one, lest copies be copied for ever.
fn duplication(config: &Config) -> Result<String, Unshapable> {
    if config.duplication != Ratio::ZERO && config.rate != Rate::Unlimited {
        return Err(Unshapable("copies of packets together with a rate"));
    }
    Ok(share("duplicate", config.duplication))
}

fn reordering(config: &Config) -> Result<String, Unshapable> {
    let reordering = config.reordering;
    if reordering.share == Ratio::ZERO {
        return Ok(String::new());
    }
    if reordering.shift != Shift::AtOnce {
        return Err(Unshapable("reordering by a certain time"));
    }
    if config.delay.is_zero() {
        return Err(Unshapable("reordering without a delay"));
    }
    Ok(share("reorder", reordering.share))
}

fn share(word: &str, ratio: Ratio) -> String {
    if ratio == Ratio::ZERO {
        return String::new();
    }
    format!(" {word} {ratio}")
}

fn bottleneck(rate: Bandwidth, queue: Queue, mtu: u16) -> String {
    let (bps, limit) = (rate.as_bps(), queue_limit(rate, queue, mtu));
    format!("netem limit {limit} rate {bps}bit -{ETHERNET_HEADER}")
}

/// The queue in full packets, at least one.
pub(crate) fn queue_limit(rate: Bandwidth, queue: Queue, mtu: u16) -> u64 {
    let packets = |bytes: DataSize| bytes.as_bytes() / u64::from(mtu);
    let limit = match queue {
        Queue::Bytes(bytes) => packets(bytes),
        Queue::Packets(packets) => packets.into(),
        Queue::Time(time) => packets(rate.data_in(time)),
        Queue::Unlimited => MOST_PACKETS,
    };
    limit.clamp(1, MOST_PACKETS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_link::{Change, GilbertElliott, PacketList};

    #[test]
    fn a_link_that_changes_nothing_is_a_netem_that_does_nothing() {
        let shape = Shape::of(&Config::default(), 1_500).unwrap();
        let lines = shape.lines("server");
        assert_eq!(
            lines,
            ["qdisc add dev server root handle 1: netem limit 262144 corrupt 0%"]
        );
    }

    fn fixed(mbit: u64) -> Rate {
        Rate::from(Bandwidth::from_mbit(mbit))
    }

    #[test]
    fn loss_and_delay_go_to_the_outer_and_the_rate_to_the_inner() {
        let config = Config {
            rate: fixed(20),
            delay: Duration::from_nanos(12_500_001),
            loss: "0.5%".parse::<Ratio>().unwrap().into(),
            queue: Queue::default_for(&fixed(20)),
            ..Config::default()
        };
        let lines = Shape::of(&config, 1_500).unwrap().lines("x");
        // 250,000 bytes are 166 full packets and a part of one.
        assert_eq!(
            lines,
            [
                "qdisc add dev x root handle 1: netem limit 262144 delay 12500.001us loss random 0.5% corrupt 0%",
                "qdisc add dev x parent 1:1 handle 2: netem limit 166 rate 20000000bit -14",
            ]
        );
    }

    #[test]
    fn jitter_bursts_of_loss_and_corruption_are_told_in_netems_words() {
        let ratio = |text: &str| text.parse::<Ratio>().unwrap();
        let bursts = GilbertElliott {
            to_bad: ratio("0.25%"),
            to_good: ratio("25%"),
            loss_good: ratio("0.1%"),
            loss_bad: ratio("100%"),
        };
        let config = Config {
            delay: Duration::from_millis(25),
            jitter: Jitter {
                spread: Duration::from_millis(5),
                distribution: Distribution::Normal,
                may_reorder: true,
            },
            loss: LossModel::GilbertElliott(bursts),
            duplication: ratio("2%"),
            corruption: ratio("3%"),
            ..Config::default()
        };
        assert_eq!(
            Shape::of(&config, 1_500).unwrap().path,
            "netem limit 262144 delay 25000.000us 5000.000us distribution normal \
             loss gemodel 0.25% 25% 100% 0.1% duplicate 2% corrupt 3%"
        );
    }

    #[test]
    fn what_netem_has_nothing_for_is_refused_by_name() {
        let refusal = |config: Config| Shape::of(&config, 1_500).unwrap_err().to_string();
        let in_order = Jitter {
            spread: Duration::from_millis(5),
            ..Jitter::default()
        };
        assert!(
            refusal(Config {
                jitter: in_order,
                ..Config::default()
            })
            .contains("order")
        );
        let discipline = Discipline::CoDel;
        assert!(
            refusal(Config {
                discipline,
                ..Config::default()
            })
            .contains("CoDel")
        );
        let udp = UdpTreatment::Block;
        assert!(
            refusal(Config {
                udp,
                ..Config::default()
            })
            .contains("netem has nothing for UDP that is blocked")
        );
        let list = PacketList::new(&[1..=1]).unwrap();
        let loss = LossModel::Packets(list);
        assert!(
            refusal(Config {
                loss,
                ..Config::default()
            })
            .contains("list")
        );
        let copies = Config {
            rate: fixed(1),
            duplication: "1%".parse().unwrap(),
            ..Config::default()
        };
        assert!(refusal(copies).contains("copies"));
    }

    fn shape(words: &str) -> Shape {
        let (mut up, mut down) = (Config::default(), Config::default());
        let change: Change = words.parse().unwrap();
        change.apply(&mut up, &mut down);
        Shape::of(&up, 1_500).unwrap()
    }

    fn turned(before: &Shape, words: &str) -> Result<(Shape, Vec<String>), Unshapable> {
        let after = before.turned_into(shape(words))?;
        let lines = before.lines_to(&after, "x");
        Ok((after, lines))
    }

    #[test]
    fn a_running_shape_is_changed_where_it_is() {
        let free = shape("delay 5ms");
        let (slow, lines) = turned(&free, "delay 1ms, rate 12mbit, queue 9packets").unwrap();
        assert_eq!(
            lines,
            [
                "qdisc change dev x root handle 1: netem limit 262144 delay 1000.000us corrupt 0%",
                "qdisc add dev x parent 1:1 handle 2: netem limit 9 rate 12000000bit -14",
            ]
        );
        let (free, lines) = turned(&slow, "loss 1%").unwrap();
        assert_eq!(
            lines,
            [
                "qdisc change dev x root handle 1: netem limit 262144 loss random 1% corrupt 0%",
                "qdisc change dev x parent 1:1 handle 2: netem limit 262144 rate 0bit",
            ]
        );
        // It is there for good.
        let (_, lines) = turned(&free, "corrupt 1%").unwrap();
        assert!(lines[1].ends_with("limit 262144 rate 0bit"), "{lines:?}");
    }

    #[test]
    fn what_the_kernel_does_not_forget_is_no_part_of_another_shape() {
        let refusal = |before, words| turned(&shape(before), words).unwrap_err().to_string();
        let jitter = "delay 9ms, jitter 2ms normal may-reorder";
        let uniform = "delay 9ms, jitter 2ms may-reorder";
        assert!(refusal(jitter, uniform).contains("uniform jitter where another was"));
        assert!(refusal("rate 1mbit", "duplicate 1%").contains("where a rate was"));
        let (calm, _) = turned(&shape(jitter), "delay 9ms").unwrap();
        assert!(turned(&calm, uniform).is_err());
        assert!(turned(&calm, jitter).is_ok());
    }

    #[test]
    fn a_queue_is_at_least_a_packet_and_at_most_what_the_link_model_holds() {
        let rate = Bandwidth::from_mbit(12).unwrap();
        let limit = |queue| queue_limit(rate, queue, 1_500);
        let bytes = |bytes| limit(Queue::Bytes(DataSize::from_bytes(bytes)));
        assert_eq!(
            [bytes(0), bytes(1_499), bytes(1_500), bytes(3_000)],
            [1, 1, 1, 2]
        );
        assert_eq!(bytes(u64::MAX), MOST_PACKETS);
        assert_eq!(limit(Queue::Unlimited), MOST_PACKETS);
        assert_eq!(limit(Queue::Packets(7)), 7);
        // 12 Mbit/s are a full packet each millisecond.
        assert_eq!(limit(Queue::Time(Duration::from_millis(9))), 9);
    }
}
