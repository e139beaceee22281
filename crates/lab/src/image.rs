//! Objects of any size that browsers read to their last byte: PNG images of one pixel, the rest of
//! which are chunks of random bytes before the pixel.
//!
//! A browser that finds no image in what it was told is one lets go of it in the middle.

use altway_record::LEAST_IMAGE;
use altway_units::DataSize;
use png::chunk::ChunkType;
use png::{BitDepth, ColorType, Encoder};
use std::io::{self, Write};

/// Private, and nothing that a reader must understand (PNG §5.4).
const FILLING: ChunkType = ChunkType(*b"loAd");

/// Length, type and check sum of a chunk (PNG §5.3).
const CHUNK_FRAME: u64 = 12;

/// The most that a chunk takes: readers refuse long ones that they don't know.
const CHUNK_LIMIT: u64 = 64 << 10;

/// Writes an object of that size, the same for the same size: an image from [`LEAST_IMAGE`] on, else
/// random bytes. Nobody can make it smaller.
pub(crate) fn write(sink: &mut impl Write, size: DataSize) -> io::Result<()> {
    let mut random = fastrand::Rng::with_seed(size.as_bytes());
    match size < LEAST_IMAGE {
        true => sink.write_all(&bytes(&mut random, size.as_bytes())),
        false => write_image(sink, size.as_bytes() - pixel_size()?, &mut random),
    }
}

/// Returns the size of an image without a filling, in bytes.
fn pixel_size() -> io::Result<u64> {
    let mut image = Vec::new();
    write_image(&mut image, 0, &mut fastrand::Rng::with_seed(0))?;
    Ok(image.len() as u64)
}

fn write_image(sink: &mut impl Write, filling: u64, random: &mut fastrand::Rng) -> io::Result<()> {
    let mut encoder = Encoder::new(sink, 1, 1);
    encoder.set_color(ColorType::Grayscale);
    encoder.set_depth(BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    let mut left = filling;
    while left > 0 {
        let chunk = next_chunk(left);
        writer.write_chunk(FILLING, &bytes(random, chunk - CHUNK_FRAME))?;
        left -= chunk;
    }
    writer.write_image_data(&[0])?;
    Ok(writer.finish()?)
}

/// Returns how many of the bytes left the next chunk takes, so that a last one has room for its frame.
fn next_chunk(left: u64) -> u64 {
    let rest = left.saturating_sub(CHUNK_LIMIT);
    if rest == 0 {
        left
    } else if rest < CHUNK_FRAME {
        CHUNK_LIMIT - CHUNK_FRAME
    } else {
        CHUNK_LIMIT
    }
}

fn bytes(random: &mut fastrand::Rng, count: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(count).expect("at most CHUNK_LIMIT")];
    random.fill(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(size: u64) -> Vec<u8> {
        let mut image = Vec::new();
        write(&mut image, DataSize::from_bytes(size)).unwrap();
        image
    }

    #[test]
    fn an_object_has_its_size_and_is_an_image_to_its_last_byte() {
        let of_chunks = |count: u64, more: u64| pixel_size().unwrap() + count * CHUNK_LIMIT + more;
        let edges = [
            of_chunks(1, 0),
            of_chunks(1, 1),
            of_chunks(1, 11),
            of_chunks(1, 12),
        ];
        for size in edges.into_iter().chain([100, 101, 1_000, 1_000_000]) {
            let image = image(size);
            assert_eq!(image.len() as u64, size);
            let read = |bytes: &[u8]| {
                let decoder = png::Decoder::new(io::Cursor::new(bytes.to_vec()));
                let mut reader = decoder.read_info().unwrap();
                reader.next_frame(&mut [0]).and_then(|_| reader.finish())
            };
            assert!(read(&image).is_ok(), "{size}");
            assert!(read(&image[..image.len() - 13]).is_err(), "{size}");
        }
    }

    #[test]
    fn what_is_too_small_for_an_image_has_its_size_all_the_same() {
        for size in [0, 1, 99] {
            assert_eq!(image(size).len() as u64, size);
        }
        assert!(pixel_size().unwrap() + CHUNK_FRAME <= LEAST_IMAGE.as_bytes());
    }

    #[test]
    fn an_object_is_always_the_same_and_does_not_compress_to_a_pattern() {
        let image = image(5_000);
        assert_eq!(image, self::image(5_000));
        assert!((0..=255_u8).filter(|value| image.contains(value)).count() > 200);
    }
}
