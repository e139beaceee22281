//! The log as a reader of others' making sees it.

use super::*;
use altway_link::DropReason;
use altway_units::Timestamp;
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, PcapNGReader};
use std::fs::File;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns what a reader finds: a line for each block.
fn read(path: &Path) -> Vec<String> {
    let mut reader = PcapNGReader::new(1 << 20, File::open(path).unwrap()).unwrap();
    let mut found = Vec::new();
    loop {
        match reader.next() {
            Ok((length, block)) => {
                found.extend(line(&block));
                reader.consume(length);
            }
            Err(PcapError::Eof) => return found,
            Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn line(block: &PcapBlockOwned<'_>) -> Option<String> {
    let PcapBlockOwned::NG(block) = block else {
        panic!("not pcapng");
    };
    Some(match block {
        Block::SectionHeader(_) => "section".into(),
        Block::InterfaceDescription(interface) => {
            assert_eq!(interface.linktype, Linktype(101));
            assert_eq!(interface.if_tsresol, 9);
            let name = interface.options.iter().find(|option| option.code.0 == 2);
            format!("interface {}", text(name.unwrap().value()))
        }
        Block::EnhancedPacket(packet) => {
            let at = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            assert!(now.as_nanos().abs_diff(at.into()) < 60_000_000_000, "{at}");
            let comment = packet.options.iter().find(|option| option.code.0 == 1);
            let comment = comment.map(|option| text(option.value()));
            let flags = packet
                .options
                .iter()
                .find(|option| option.code.0 == 2)
                .unwrap();
            let bytes = packet.packet_data();
            assert_eq!(
                (packet.caplen, packet.origlen),
                (bytes.len() as u32, bytes.len() as u32)
            );
            format!(
                "{} {} {bytes:?} {comment:?}",
                packet.if_id,
                flags.value()[0]
            )
        }
        Block::InterfaceStatistics(statistics) => format!("statistics {}", statistics.if_id),
        other => panic!("{other:?}"),
    })
}

/// Returns the text without its padding, which this reader takes for a part of the value.
fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value)
        .trim_end_matches('\0')
        .to_owned()
}

fn now() -> Timestamp {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Timestamp::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

fn entry(side: Side, packet_event: PacketEvent, packet: &[u8]) -> Entry<'_> {
    let at = now();
    Entry {
        side,
        packet_event,
        at,
        packet,
    }
}

#[test]
fn a_reader_finds_what_was_logged_at_each_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.pcapng");
    let (log, mut recorder) = PacketLog::create(&path).unwrap();
    recorder.record(entry(Side::Client, PacketEvent::Came, &[0x45, 1]));
    recorder.record(entry(Side::Server, PacketEvent::Left, &[0x45, 1]));
    let lost = PacketEvent::Dropped(DropReason::Loss);
    recorder.record(entry(Side::Server, PacketEvent::Came, &[0x45, 2, 3]));
    recorder.correct(entry(Side::Server, lost, &[0x45, 2, 3]));
    drop(recorder);
    let report = log.finish();
    assert_eq!((report.packets_logged, report.packets_missed), (3, 0));
    assert_eq!(
        read(&path),
        [
            "section",
            "interface client",
            "interface server",
            "0 1 [69, 1] None",
            "1 2 [69, 1] None",
            "1 1 [69, 2, 3] Some(\"dropped by the emulated link: loss\")",
            "statistics 0",
            "statistics 1",
        ]
    );
}

#[test]
fn no_packet_is_in_the_log_twice_or_in_part_however_many_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.pcapng");
    let (log, mut recorder) = PacketLog::create(&path).unwrap();
    let packet = vec![0x45; 1_500];
    for _ in 0..100_000 {
        recorder.record(entry(Side::Client, PacketEvent::Came, &packet));
    }
    drop(recorder);
    let report = log.finish();
    assert_eq!(report.packets_logged + report.packets_missed, 100_000);
    assert_eq!(read(&path).len() as u64, report.packets_logged + 5);
}

#[test]
fn a_disk_that_takes_nothing_costs_the_log_and_never_the_link() {
    // It answers every write with ENOSPC.
    let Err(error) = PacketLog::create(Path::new("/dev/full")) else {
        panic!("nothing can be written there");
    };
    assert!(error.to_string().contains("/dev/full"), "{error}");
}

#[test]
fn packets_are_counted_when_the_writer_does_not_keep_up() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || File::open(pipe).unwrap()
    });
    let (log, mut recorder) = PacketLog::create(&pipe).unwrap();
    let stuck = reader.join().unwrap();
    let packet = vec![0x45; 60_000];
    for _ in 0..1_000 {
        recorder.record(entry(Side::Client, PacketEvent::Came, &packet));
    }
    let report = log.report();
    assert!(report.packets_missed > 300, "{report:?}");
    assert_eq!(report.packets_logged + report.packets_missed, 1_000);
    // The writer gets an error now, and the log ends.
    drop((stuck, recorder));
    let report = log.finish();
    assert!(report.error.unwrap().contains("Broken pipe"));
}

#[test]
fn what_is_old_is_handed_over_before_the_chunk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.pcapng");
    let (_log, mut recorder) = PacketLog::create(&path).unwrap();
    assert_eq!(recorder.flush_due(), None);
    recorder.record(entry(Side::Client, PacketEvent::Came, &[0x45]));
    let due = recorder.flush_due().unwrap();
    recorder.flush(Timestamp::ZERO);
    assert_eq!(recorder.flush_due(), Some(due));
    recorder.flush(due);
    assert_eq!(recorder.flush_due(), None);
    for _ in 0..5_000 {
        if read(&path).len() == 4 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it never came to the file");
}
