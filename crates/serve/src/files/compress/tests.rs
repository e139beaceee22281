//! Tests of what is kept of compressed forms, and for how long.

use super::*;
use crate::files::shared::OpenFiles;
use std::io::Read;

fn file(content: &[u8]) -> Arc<OpenFile> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    let metadata = file.metadata().unwrap();
    OpenFiles::default().share(file, &metadata)
}

/// Text that compresses to about a half.
fn text(size: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut letter = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        b'a' + (state >> 60) as u8
    };
    (0..size).map(|_| letter()).collect()
}

fn unpack(bytes: &[u8], coding: ContentCoding) -> Vec<u8> {
    let mut plain = Vec::new();
    match coding {
        ContentCoding::Brotli => brotli::BrotliDecompress(&mut &bytes[..], &mut plain).unwrap(),
        _ => {
            let mut decoder = flate2::read::GzDecoder::new(bytes);
            decoder.read_to_end(&mut plain).unwrap();
        }
    }
    plain
}

struct Kept {
    forms: Arc<Compressed>,
    background: Background,
}

impl Kept {
    fn new(max_bytes: usize) -> Self {
        Self {
            forms: Arc::new(Compressed::new(max_bytes)),
            background: Background::default(),
        }
    }

    fn get(&self, file: &Arc<OpenFile>, coding: ContentCoding) -> Option<Bytes> {
        match self.forms.get(file, coding, &self.background) {
            FormLookup::Now(bytes) => bytes,
            FormLookup::Later(bytes) => bytes.blocking_recv().unwrap(),
        }
    }

    fn is_kept(&self, file: &Arc<OpenFile>) -> bool {
        let kept = self.forms.kept(file.version(), ContentCoding::Gzip);
        kept.flatten().is_some()
    }
}

#[test]
fn a_form_is_made_once_and_is_that_of_the_file() {
    let kept = Kept::new(1 << 20);
    let content = text(100_000, 1);
    let file = file(&content);
    for coding in [ContentCoding::Brotli, ContentCoding::Gzip] {
        assert!(kept.forms.kept(file.version(), coding).is_none());
        let first = kept.get(&file, coding).unwrap();
        assert!(first.len() < content.len() * 2 / 3);
        assert!(unpack(&first, coding) == content);
        let again = kept.get(&file, coding).unwrap();
        assert_eq!(first.as_ptr(), again.as_ptr(), "the same bytes in memory");
    }
}

#[test]
fn all_that_wait_for_a_form_get_the_same() {
    let kept = Kept::new(1 << 20);
    let file = file(&text(200_000, 1));
    let get = || kept.forms.get(&file, ContentCoding::Gzip, &kept.background);
    let found: Vec<_> = (0..3).map(|_| get()).collect();
    let bytes = found.into_iter().map(|found| match found {
        FormLookup::Now(bytes) => bytes.unwrap(),
        FormLookup::Later(bytes) => bytes.blocking_recv().unwrap().unwrap(),
    });
    let addresses: Vec<_> = bytes.map(|bytes| bytes.as_ptr()).collect();
    assert!(addresses.iter().all(|address| *address == addresses[0]));
}

#[test]
fn whoever_has_gone_does_not_wait_for_a_form() {
    let kept = Kept::new(1 << 20);
    let file = file(&text(1_000, 1));
    let (go, wait) = std::sync::mpsc::channel::<()>();
    // The thread is busy, so that the form is not made.
    let is_busy = kept.background.add(move || _ = wait.recv());
    assert_eq!(is_busy, Ok(()));
    let get = || match kept.forms.get(&file, ContentCoding::Gzip, &kept.background) {
        FormLookup::Later(bytes) => bytes,
        FormLookup::Now(_) => panic!("it is not there"),
    };
    let first = get();
    (0..10_000).for_each(|_| drop(get()));
    let last = get();
    let key = (file.version(), ContentCoding::Gzip);
    match lock(&kept.forms.forms).get(&key) {
        Some(Form::Awaited(waiting)) => assert!(waiting.len() < 10, "{}", waiting.len()),
        _ => panic!("it is being made"),
    }
    drop(go);
    let [first, last] = [first, last].map(|it| it.blocking_recv().unwrap());
    assert!(first.is_some() && first == last);
}

#[test]
fn a_panic_of_the_compressor_leaves_nobody_waiting_and_the_file_as_it_is() {
    let kept = Kept::new(1 << 20);
    let file = file(&text(10_000, 1));
    let (release, released) = std::sync::mpsc::channel::<()>();
    let busy = move || {
        let _ = released.recv();
    };
    kept.background.add(busy).unwrap();
    let awaited = kept.forms.get(&file, ContentCoding::Gzip, &kept.background);
    let key = (file.version(), ContentCoding::Gzip);
    kept.forms.make_by(key, || panic!("on purpose"));
    let FormLookup::Later(mut awaited) = awaited else {
        panic!("the thread is busy");
    };
    assert_eq!(awaited.try_recv().unwrap(), None);
    assert_eq!(kept.forms.kept(file.version(), key.1), Some(None));
    assert!(kept.get(&file, ContentCoding::Gzip).is_none());
    drop(release);
}

#[test]
fn what_does_not_get_smaller_is_not_tried_again() {
    let kept = Kept::new(1 << 20);
    let noise: Vec<u8> = text(4000, 3)
        .iter()
        .zip(text(4000, 5))
        .map(|(a, b)| a << 4 | b)
        .collect();
    let packed = compress(&file(&noise), ContentCoding::Gzip).unwrap();
    let twice = file(&packed.map_or(noise, |packed| packed.to_vec()));
    assert!(kept.get(&twice, ContentCoding::Gzip).is_none());
    let known = kept.forms.kept(twice.version(), ContentCoding::Gzip);
    assert_eq!(known, Some(None));
}

#[test]
fn what_was_asked_for_longest_ago_goes_and_what_is_held_counts() {
    let files: Vec<_> = (0..4).map(|seed| file(&text(10_000, seed))).collect();
    let size = compress(&files[0], ContentCoding::Gzip)
        .unwrap()
        .unwrap()
        .len();
    let kept = Kept::new(size * 5 / 2);
    let held = kept.get(&files[0], ContentCoding::Gzip).unwrap();
    kept.get(&files[1], ContentCoding::Gzip).unwrap();
    kept.get(&files[0], ContentCoding::Gzip).unwrap();
    kept.get(&files[2], ContentCoding::Gzip).unwrap();
    assert!(kept.is_kept(&files[0]) && kept.is_kept(&files[2]));
    assert!(!kept.is_kept(&files[1]));
    let also_held = kept.get(&files[2], ContentCoding::Gzip).unwrap();
    assert!(
        kept.get(&files[3], ContentCoding::Gzip).is_none(),
        "no room"
    );
    drop((held, also_held));
    assert!(kept.get(&files[3], ContentCoding::Gzip).is_some());
}

#[test]
fn a_file_that_has_changed_has_no_form() {
    let mut on_disk = tempfile::tempfile().unwrap();
    on_disk.write_all(&text(1000, 1)).unwrap();
    let metadata = on_disk.metadata().unwrap();
    let opened = OpenFiles::default().share(on_disk.try_clone().unwrap(), &metadata);
    on_disk.write_all(b"more").unwrap();
    let kept = Kept::new(1 << 20);
    assert!(kept.get(&opened, ContentCoding::Gzip).is_none());
    assert!(
        kept.forms
            .kept(opened.version(), ContentCoding::Gzip)
            .is_none()
    );
}

#[test]
fn text_is_compressible_and_pictures_are_not() {
    let is = |kind| is_compressible(&HeaderValue::from_static(kind));
    for kind in [
        "text/html; charset=utf-8",
        "Application/JSON",
        "image/svg+xml",
        "text/x",
    ] {
        assert!(is(kind), "{kind}");
    }
    for kind in [
        "image/png",
        "application/gzip",
        "video/mp4",
        "font/woff2",
        "application/zip",
    ] {
        assert!(!is(kind), "{kind}");
    }
}
