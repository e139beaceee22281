//! Tests of the cache: names, versions, memory and descriptors.

use super::*;
use altway_select::{AltSvc, UnixTime};
use std::fs;

fn site() -> (tempfile::TempDir, Files) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("small"), "small").unwrap();
    fs::write(dir.path().join("large"), vec![7; 600_000]).unwrap();
    let files = Files::open(dir.path()).unwrap();
    (dir, files)
}

impl FileCache {
    /// Looks a file up for a client that takes no compressed form.
    pub(in crate::files) fn find_any(
        &mut self,
        files: &Files,
        target: &[u8],
        now: Instant,
    ) -> Option<Rc<Entry>> {
        self.find(
            files,
            TargetPath::of(target),
            || AcceptedCodings::of(std::iter::empty()),
            now,
        )
    }
}

fn cache() -> FileCache {
    FileCache::new(48 << 20, 100)
}

fn range(entry: &Entry, offset: u64) -> FileRange {
    match entry.reading(usize::try_from(offset).unwrap()) {
        Reading::File(range) => range,
        Reading::Memory(_) | Reading::Shared(_) => panic!("the file is in memory"),
    }
}

#[test]
fn a_file_is_looked_up_once_while_it_is_fresh() {
    let (dir, files) = site();
    let mut cache = cache();
    let now = Instant::now();
    let entry = cache.find_any(&files, b"/small?x=1", now).unwrap();
    assert_eq!(entry.whole().unwrap(), "small");
    fs::remove_file(dir.path().join("small")).unwrap();
    let again = cache
        .find_any(&files, b"/small", now + REVALIDATION_INTERVAL / 2)
        .unwrap();
    assert!(Rc::ptr_eq(&entry, &again));
    assert!(
        cache
            .find_any(&files, b"/small", now + REVALIDATION_INTERVAL)
            .is_none()
    );
    assert!(
        cache.find_any(&files, b"/small", now).is_none(),
        "forgotten"
    );
}

#[test]
fn a_file_has_one_entry_however_it_is_spelled() {
    let (dir, files) = site();
    fs::create_dir(dir.path().join("folder")).unwrap();
    fs::write(dir.path().join("folder/index.html"), "index").unwrap();
    let mut cache = cache();
    let now = Instant::now();
    let mut find = |path: &str| cache.find_any(&files, path.as_bytes(), now).unwrap();
    let small = find("/small");
    for path in ["//small", "/%73mall", "/sm%61ll?x", "///%73%6Dall"] {
        assert!(Rc::ptr_eq(&small, &find(path)), "{path}");
    }
    let index = find("/folder/");
    for path in ["//folder//", "/f%6Flder/"] {
        assert!(Rc::ptr_eq(&index, &find(path)), "{path}");
    }
    assert_eq!(cache.entries.len(), 2);
}

#[test]
fn a_change_is_seen_after_a_second() {
    let (dir, files) = site();
    let mut cache = cache();
    let now = Instant::now();
    let before = cache.find_any(&files, b"/small", now).unwrap();
    let kept = cache
        .find_any(&files, b"/small", now + REVALIDATION_INTERVAL)
        .unwrap();
    assert!(Rc::ptr_eq(&before, &kept), "unchanged");
    fs::write(dir.path().join("small"), "changed").unwrap();
    let after = cache
        .find_any(&files, b"/small", now + 2 * REVALIDATION_INTERVAL)
        .unwrap();
    assert_eq!(after.whole().unwrap(), "changed");
}

#[test]
fn a_large_file_comes_in_chunks_from_any_offset() {
    let (_dir, files) = site();
    let mut cache = cache();
    let entry = cache.find_any(&files, b"/large", Instant::now()).unwrap();
    assert!(entry.whole().is_none());
    let mut read = |offset, limit| cache.read(&range(&entry, offset), limit).unwrap().len();
    let all = usize::MAX;
    assert_eq!(read(0, all) as u64, CHUNK_BYTES);
    assert_eq!(read(1, all) as u64, CHUNK_BYTES - 1);
    assert_eq!(read(1, 10), 10);
    assert_eq!(read(CHUNK_BYTES, all) as u64, CHUNK_BYTES);
    assert_eq!(read(599_999, all), 1);
}

#[test]
fn what_is_asked_for_in_small_parts_is_not_kept() {
    let (_dir, files) = site();
    let mut cache = cache();
    let entry = cache.find_any(&files, b"/large", Instant::now()).unwrap();
    for limit in [0, 1, READ_BYTES - 1] {
        assert_eq!(cache.read(&range(&entry, 5), limit).unwrap().len(), limit);
    }
    assert!(cache.chunks.is_empty());
}

#[test]
fn bytes_that_others_hold_count_until_they_let_go() {
    let (_dir, files) = site();
    let mut cache = FileCache::new(2 * CHUNK_BYTES as usize, 100);
    let entry = cache.find_any(&files, b"/large", Instant::now()).unwrap();
    let mut read = |offset| cache.read(&range(&entry, offset), usize::MAX).unwrap();
    let held = [read(0), read(CHUNK_BYTES)];
    assert_eq!(
        read(2 * CHUNK_BYTES).len(),
        READ_BYTES,
        "read for this response alone"
    );
    drop(held);
    assert_eq!(
        read(2 * CHUNK_BYTES).len() as u64,
        600_000 - 2 * CHUNK_BYTES
    );
}

#[test]
fn an_entry_that_nobody_asks_for_is_closed() {
    let (_dir, files) = site();
    let mut cache = cache();
    let now = Instant::now();
    let weak = Rc::downgrade(&cache.find_any(&files, b"/large", now).unwrap());
    cache
        .find_any(&files, b"/small", now + IDLE_ENTRY_LIFETIME)
        .unwrap();
    cache.sweep(now + IDLE_ENTRY_LIFETIME);
    assert!(weak.upgrade().is_some(), "asked for within the time");
    cache.sweep(now + REVALIDATION_INTERVAL + IDLE_ENTRY_LIFETIME);
    assert!(weak.upgrade().is_none());
    assert_eq!((cache.entries.len(), cache.open), (1, 0));
}

#[test]
fn a_site_that_was_replaced_leaves_neither_entries_nor_bytes() {
    for is_swept in [false, true] {
        let (dir, former) = site();
        let mut cache = cache();
        let now = Instant::now();
        let entry = cache.find_any(&former, b"/large", now).unwrap();
        for offset in [0, 300_000] {
            cache.read(&range(&entry, offset), usize::MAX).unwrap();
        }
        drop(entry);
        cache.sweep(now);
        assert_eq!((cache.entries.len(), cache.chunks.len()), (1, 2));
        drop(former);
        if is_swept {
            cache.sweep(now);
        } else {
            let files = Files::open(dir.path()).unwrap();
            cache.find_any(&files, b"/small", now).unwrap();
        }
        let left = usize::from(!is_swept);
        assert_eq!((cache.entries.len(), cache.chunks.len()), (left, 0));
        assert!(cache.latest.is_none() && cache.open == 0);
    }
}

#[test]
fn the_bytes_of_a_file_that_somebody_reads_stay() {
    let (_dir, files) = site();
    let mut cache = cache();
    let now = Instant::now();
    let entry = cache.find_any(&files, b"/large", now).unwrap();
    let reading = range(&entry, 0);
    cache.read(&reading, usize::MAX).unwrap();
    drop(entry);
    cache.sweep(now + REVALIDATION_INTERVAL + IDLE_ENTRY_LIFETIME);
    assert_eq!((cache.entries.len(), cache.chunks.len()), (0, 1));
}

#[test]
fn a_head_is_made_anew_with_the_second_and_with_the_offer() {
    let (_dir, files) = site();
    let mut cache = cache();
    let entry = cache.find_any(&files, b"/small", Instant::now()).unwrap();
    let made = Cell::new(0);
    let head = |millis: u64, offer| {
        let second = UnixTime::from_secs(millis / 1000);
        let head = entry.head(second, offer, |_| made.set(made.get() + 1));
        head.headers()["content-length"].clone()
    };
    assert_eq!(head(1000, None), "5");
    head(1999, None);
    assert_eq!(made.get(), 1);
    head(2000, None);
    assert_eq!(made.get(), 2);
    let offered = |port| Offered {
        alt_svc: AltSvc::Clear,
        port,
    };
    head(2000, Some(offered(443)));
    assert_eq!(made.get(), 3);
    head(2000, Some(offered(8443)));
    assert_eq!(made.get(), 4, "the client of another listener");
    head(2000, None);
    head(2000, Some(offered(443)));
    assert_eq!(made.get(), 4, "clients in turn");
    (1..=9).for_each(|port| _ = head(2000, Some(offered(port))));
    assert_eq!(entry.heads.borrow().len(), MAX_HEADS);
}

#[test]
fn what_is_no_plain_file_is_not_found() {
    let (dir, files) = site();
    fs::create_dir(dir.path().join("folder")).unwrap();
    let mut cache = cache();
    for path in [
        "/none", "/folder", "/folder/", "/../x", "/%zz", "small", "*",
    ] {
        let found = cache.find_any(&files, path.as_bytes(), Instant::now());
        assert!(found.is_none(), "{path}");
    }
}

#[test]
fn entries_and_descriptors_are_bounded_whatever_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let many = 2 * MAX_ENTRIES.get();
    for n in 0..many {
        fs::write(dir.path().join(n.to_string()), "x").unwrap();
    }
    for n in 0..50 {
        let large = vec![0; usize::try_from(MAX_WHOLE_FILE).unwrap() + 1];
        fs::write(dir.path().join(format!("large{n}")), large).unwrap();
    }
    let files = Files::open(dir.path()).unwrap();
    let mut cache = FileCache::new(48 << 20, 10);
    let now = Instant::now();
    for n in 0..many {
        cache
            .find_any(&files, format!("/{n}").as_bytes(), now)
            .unwrap();
        let large = format!("/large{}", n % 50);
        cache.find_any(&files, large.as_bytes(), now).unwrap();
        assert!(cache.open <= 10);
    }
    assert!(cache.entries.len() <= MAX_ENTRIES.get());
    let open = cache.entries.iter().filter(|(_, entry)| entry.is_open());
    assert_eq!(open.count(), cache.open);
    cache.clear();
    assert_eq!((cache.entries.len(), cache.open), (0, 0));
}

fn variants() -> (tempfile::TempDir, Files) {
    let (dir, _) = site();
    for name in ["small", "large"] {
        for ending in [".br", ".gz"] {
            let content = match name {
                "small" => ending.into(),
                _ => vec![1; 20_000],
            };
            fs::write(dir.path().join(format!("{name}{ending}")), content).unwrap();
        }
    }
    let options = crate::FilesOptions {
        precompressed: ContentCoding::ALL.into(),
        ..crate::FilesOptions::default()
    };
    let files = Files::open_with(dir.path(), options).unwrap();
    (dir, files)
}

fn accepting(line: &'static str) -> impl FnOnce() -> AcceptedCodings {
    move || AcceptedCodings::of([line.as_bytes()].into_iter())
}

#[test]
fn each_form_has_an_entry_that_is_believed_no_longer_than_its_source() {
    let (dir, files) = variants();
    let mut cache = cache();
    let now = Instant::now();
    let mut find = |line, now| {
        cache
            .find(&files, TargetPath::of(b"/small"), accepting(line), now)
            .unwrap()
    };
    let brotli = find("br", now);
    assert_eq!(brotli.whole().unwrap(), ".br");
    assert_eq!(find("gzip", now).whole().unwrap(), ".gz");
    assert_eq!(find("", now).whole().unwrap(), "small");
    let half = now + REVALIDATION_INTERVAL / 2;
    assert!(Rc::ptr_eq(&brotli, &find("br, gzip", half)));
    assert!(!brotli.is_fresh(now + REVALIDATION_INTERVAL));
    assert!(
        Rc::ptr_eq(&brotli, &find("br", now + REVALIDATION_INTERVAL)),
        "unchanged"
    );
    fs::write(dir.path().join("small.br"), "another").unwrap();
    let later = now + 2 * REVALIDATION_INTERVAL;
    assert_eq!(find("br", later).whole().unwrap(), "another");
    fs::remove_file(dir.path().join("small.br")).unwrap();
    assert_eq!(find("br, gzip", later).whole().unwrap(), "another", "fresh");
    assert_eq!(
        find("br, gzip", later + REVALIDATION_INTERVAL)
            .whole()
            .unwrap(),
        ".gz"
    );
}

#[test]
fn open_files_of_all_forms_count() {
    let (dir, files) = variants();
    let mut cache = FileCache::new(1 << 20, 3);
    let now = Instant::now();
    for line in ["br", "gzip", "br", ""] {
        let found = cache.find(&files, TargetPath::of(b"/large"), accepting(line), now);
        assert!(found.is_some());
    }
    assert_eq!((cache.open, cache.entries.len()), (3, 1));
    fs::write(dir.path().join("other"), vec![1; 20_000]).unwrap();
    cache
        .find(&files, TargetPath::of(b"/other"), accepting("br"), now)
        .unwrap();
    assert_eq!((cache.open, cache.entries.len()), (1, 1));
    cache
        .find(&files, TargetPath::of(b"/large"), accepting("br"), now)
        .unwrap();
    assert_eq!((cache.open, cache.entries.len()), (3, 2));
    cache
        .find(&files, TargetPath::of(b"/large"), accepting("gzip"), now)
        .unwrap();
    assert_eq!((cache.open, cache.entries.len()), (3, 1));
    cache.sweep(now + REVALIDATION_INTERVAL + IDLE_ENTRY_LIFETIME);
    assert_eq!((cache.open, cache.entries.len()), (0, 0));
}

#[test]
fn another_folder_in_the_place_of_the_served_one_leaves_no_entry_of_it() {
    let dir = tempfile::tempdir().unwrap();
    for release in ["1", "2"] {
        fs::create_dir(dir.path().join(release)).unwrap();
        for name in ["a", "b", "a.gz"] {
            fs::write(dir.path().join(release).join(name), release).unwrap();
        }
    }
    let link = dir.path().join("current");
    std::os::unix::fs::symlink("1", &link).unwrap();
    let options = crate::FilesOptions {
        precompressed: vec![ContentCoding::Gzip],
        ..crate::FilesOptions::default()
    };
    let files = Files::open_with(&link, options).unwrap();
    let mut cache = cache();
    let now = Instant::now();
    let plain = cache.find_any(&files, b"/a", now).unwrap();
    let gzip = cache
        .find(&files, TargetPath::of(b"/a"), accepting("gzip"), now)
        .unwrap();
    assert!(plain.is_fresh(now) && gzip.is_fresh(now));
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("2", &link).unwrap();
    assert!(Rc::ptr_eq(
        &plain,
        &cache.find_any(&files, b"/a", now).unwrap()
    ));
    files.look_for_change(Instant::now() + Duration::from_secs(1));
    let other = cache.find_any(&files, b"/b", now).unwrap();
    assert_eq!(other.whole().unwrap(), "2");
    assert!(
        !plain.is_fresh(now) && !gzip.is_fresh(now),
        "also for who knows them"
    );
    assert_eq!(
        cache.find_any(&files, b"/a", now).unwrap().whole().unwrap(),
        "2"
    );
}
