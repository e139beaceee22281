//! Tests of the queue with writers that block and fail.

use super::*;

/// Longer than a writer takes on a busy machine.
const SECONDS: Duration = Duration::from_secs(60);

/// Bytes that were written, and whether writing blocks or fails.
#[derive(Clone, Default)]
struct BlockingWriter(Arc<(Mutex<WriterState>, Condvar)>);

#[derive(Default)]
struct WriterState {
    written: Vec<u8>,
    shut: bool,
    /// Calls that wait.
    waiting: usize,
    fails: bool,
}

impl BlockingWriter {
    fn set(&self, change: impl FnOnce(&mut WriterState)) {
        change(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
    }

    fn wait_for(&self, condition: impl Fn(&WriterState) -> bool) {
        let gated = self.0.0.lock().unwrap();
        let waited = self
            .0
            .1
            .wait_timeout_while(gated, SECONDS, |it| !condition(it));
        assert!(!waited.unwrap().1.timed_out());
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.0.lock().unwrap().written.clone()).unwrap()
    }
}

impl Write for BlockingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut gated = self.0.0.lock().unwrap();
        gated.waiting += 1;
        self.0.1.notify_all();
        gated = self.0.1.wait_while(gated, |it| it.shut).unwrap();
        gated.waiting -= 1;
        if gated.fails {
            return Err(io::ErrorKind::StorageFull.into());
        }
        gated.written.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_is_stuck_holds_nobody_up_and_what_it_misses_is_counted() {
    let writer = BlockingWriter::default();
    writer.set(|it| it.shut = true);
    let log = LogWriter::with_capacity(100, writer.clone()).unwrap();
    log.push(b"first\n").unwrap();
    writer.wait_for(|it| it.waiting == 1);
    let line = [b"x".repeat(9), b"\n".to_vec()].concat();
    // 6 bytes are being written: there is room for nine lines of 10.
    let pushed = (0..20).filter(|_| log.push(&line).is_ok()).count();
    assert_eq!(pushed, 9);
    assert_eq!(log.push(&line), Err(Dropped { in_all: 12 }));
    assert!(!log.drain(Duration::from_millis(20)), "it is stuck");
    writer.set(|it| it.shut = false);
    assert!(log.drain(SECONDS));
    let text = writer.text();
    assert_eq!(text.matches("xxxxxxxxx\n").count(), 9, "{text}");
    assert_eq!(text.matches(" dropped=12 reason=").count(), 1, "{text}");
    log.push(b"last\n").unwrap();
    assert!(log.drain(SECONDS));
    assert!(writer.text().ends_with("\nlast\n"));
}

#[test]
fn lines_that_a_full_disk_refuses_are_counted_and_reported_when_it_takes_lines_again() {
    let writer = BlockingWriter::default();
    writer.set(|it| it.fails = true);
    let log = LogWriter::start(writer.clone()).unwrap();
    for _ in 0..3 {
        log.push(b"a\nb\n").unwrap();
        assert!(log.drain(SECONDS));
    }
    assert!(log.take_failure().is_some());
    assert_eq!(log.take_failure(), None, "told once");
    writer.set(|it| it.fails = false);
    log.push(b"c\n").unwrap();
    assert!(log.drain(SECONDS));
    let text = writer.text();
    assert!(
        text.starts_with("c\n") && text.contains(" dropped=6 "),
        "{text}"
    );
}

#[test]
fn what_waits_goes_to_the_writer_that_replaces_another() {
    let [old, new] = [BlockingWriter::default(), BlockingWriter::default()];
    let log = LogWriter::start(old.clone()).unwrap();
    log.push(b"a\n").unwrap();
    assert!(log.drain(SECONDS));
    old.set(|it| it.shut = true);
    log.push(b"b\n").unwrap();
    old.wait_for(|it| it.waiting == 1);
    log.push(b"c\n").unwrap();
    log.replace(new.clone());
    old.set(|it| it.shut = false);
    assert!(log.drain(SECONDS));
    assert_eq!(
        (old.text().as_str(), new.text().as_str()),
        ("a\nb\n", "c\n")
    );
}

#[test]
fn lines_are_written_after_the_last_handle_is_gone() {
    let writer = BlockingWriter::default();
    writer.set(|it| it.shut = true);
    let log = LogWriter::start(writer.clone()).unwrap();
    log.push(b"a\n").unwrap();
    writer.wait_for(|it| it.waiting == 1);
    log.push(b"b\n").unwrap();
    drop(log);
    writer.set(|it| it.shut = false);
    writer.wait_for(|it| it.written.ends_with(b"b\n"));
}

#[test]
fn buffers_are_queued_in_their_order_and_come_back_empty_also_where_there_is_no_room() {
    let writer = BlockingWriter::default();
    writer.set(|it| it.shut = true);
    let log = LogWriter::with_capacity(16, writer.clone()).unwrap();
    log.push(b"first\n").unwrap();
    writer.wait_for(|it| it.waiting == 1);
    let push = |line: &str| {
        let mut buffer = line.as_bytes().to_vec();
        let pushed = log.push_buffer(&mut buffer);
        assert!(buffer.is_empty());
        pushed
    };
    assert_eq!(push("a\n"), Ok(()), "nothing waits");
    assert_eq!(push("bcd\n"), Ok(()), "behind another");
    let line = "longer than the rest\n";
    assert_eq!(push(line), Err(Dropped { in_all: 1 }));
    writer.set(|it| it.shut = false);
    assert!(log.drain(SECONDS));
    let text = writer.text();
    assert!(text.starts_with("first\na\nbcd\n"), "{text}");
    assert!(text.contains(" dropped=1 "), "{text}");
}
