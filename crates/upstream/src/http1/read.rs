//! Reads from connections: into memory that all connections of a thread share, and from there into as much as was read.
//!
//! So a connection that waits holds nothing, and what waits for a client holds no more than its bytes. Where a server
//! is fast the bytes are read where they stay.

use bytes::{Bytes, BytesMut};
use std::cell::RefCell;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};

/// Bytes that are read at once.
pub(super) const READ: usize = 64 << 10;

/// Bytes that are worth the memory of a whole read: fewer are copied.
const MIN_WHOLE_READ: usize = READ / 2;

thread_local! {
    static SHARED: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ].into());
}

/// Reads what is there, `most` bytes of it where that is a good deal; nothing at the stream's end.
pub(super) fn poll<S: AsyncRead + Unpin>(
    stream: &mut S,
    cx: &mut Context<'_>,
    most: usize,
    is_fast: &mut bool,
) -> Poll<io::Result<Bytes>> {
    let read = match *is_fast && most >= MIN_WHOLE_READ {
        true => ready!(poll_in_place(stream, cx, most.min(READ)))?,
        false => ready!(poll_shared(stream, cx))?,
    };
    *is_fast = read.len() >= MIN_WHOLE_READ;
    Poll::Ready(Ok(read))
}

fn poll_shared<S: AsyncRead + Unpin>(
    stream: &mut S,
    cx: &mut Context<'_>,
) -> Poll<io::Result<Bytes>> {
    SHARED.with_borrow_mut(|shared| {
        let mut buffer = ReadBuf::new(shared);
        ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(Bytes::copy_from_slice(buffer.filled())))
    })
}

fn poll_in_place<S: AsyncRead + Unpin>(
    stream: &mut S,
    cx: &mut Context<'_>,
    size: usize,
) -> Poll<io::Result<Bytes>> {
    let mut buffer = BytesMut::with_capacity(size);
    let n = ready!(pin!(stream.read_buf(&mut buffer)).poll(cx))?;
    Poll::Ready(Ok(match n >= MIN_WHOLE_READ {
        true => buffer.freeze(),
        false => Bytes::copy_from_slice(&buffer),
    }))
}
