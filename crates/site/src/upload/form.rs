//! Forms: the files of a multipart/form-data content (RFC 7578), each on its way to the disk as it arrives.
//!
//! `multer` finds the parts. It would read as much as there is at once, and heads of any length: what it is fed here is
//! bounded on both counts.

use super::content::{BATCH, Content};
use super::disposition::Disposition;
use super::folder::{Place, Unnamed};
use super::name;
use super::refusal::Refusal;
use super::{Uploads, append};
use bytes::Bytes;
use cap_std::fs::Dir;
use futures_util::Stream;
use http::{HeaderMap, StatusCode, header};
use http_body::Body;
use multer::{Field, Multipart};
use std::collections::HashSet;
use std::fmt::Display;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

/// The longest boundary (RFC 2046 section 5.1.1).
const MAX_BOUNDARY: usize = 70;

/// Bytes that the head of a part may take, the boundary and what stands before it among them, and a piece more.
const MAX_HEAD: usize = 16 << 10;

/// A file of a form that is whole.
#[derive(Debug)]
pub(super) struct Part {
    /// Name of its field.
    pub(super) field: String,
    pub(super) place: Place,
    pub(super) file: Box<Unnamed>,
}

/// Takes the boundary of a form from the fields of its request.
///
/// # Errors
/// The content is no form, or has no boundary.
pub(super) fn boundary(fields: &HeaderMap) -> Result<String, Refusal> {
    let no_form = || {
        let detail = "POST takes a form here: multipart/form-data";
        Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail)
    };
    let media_type = fields.get(header::CONTENT_TYPE);
    let media_type = media_type.and_then(|it| it.to_str().ok());
    let boundary = multer::parse_boundary(media_type.ok_or_else(no_form)?);
    match boundary {
        Ok(boundary) if (1..=MAX_BOUNDARY).contains(&boundary.len()) => Ok(boundary),
        Ok(_) => Err(Refusal::malformed(
            "the boundary of the form is not of 1 to 70 characters",
        )),
        Err(multer::Error::NoBoundary) => Err(Refusal::malformed("the form has no boundary")),
        Err(_) => Err(no_form()),
    }
}

/// Writes the files of a form to files without names in `folder`.
///
/// # Errors
/// The form can't be read, has too much, or has a file that can't be stored.
pub(super) async fn receive<B>(
    uploads: &Uploads,
    folder: &Arc<Dir>,
    boundary: String,
    content: Content<B>,
) -> Result<Vec<Part>, Refusal>
where
    B: Body<Data = Bytes, Error: Display> + Unpin + Send,
{
    let head = Arc::new(AtomicUsize::new(0));
    let feed = Feed {
        content,
        head: Arc::clone(&head),
        turn: 0,
    };
    let mut form = Multipart::new(feed, boundary);
    let (mut parts, mut names, mut count) = (Vec::new(), HashSet::new(), 0);
    loop {
        head.store(0, Ordering::Relaxed);
        let field = form.next_field().await.map_err(refused)?;
        let Some(mut field) = field else {
            return Ok(parts);
        };
        head.store(DATA, Ordering::Relaxed);
        count += 1;
        if count > uploads.plan().parts {
            let detail = format!("the form has more than {} parts", uploads.plan().parts);
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
        }
        let disposition = disposition(field.headers())?;
        let Some(sent) = disposition.file_name else {
            while field.chunk().await.map_err(refused)?.is_some() {}
            continue;
        };
        // What browsers send of a field for files in which none was chosen.
        if sent.is_empty() {
            nothing(&mut field).await?;
            continue;
        }
        let name = name::without_folders(&sent);
        let name = name.map_err(|error| Refusal::malformed(error.to_string()))?;
        if !names.insert(name.to_owned()) {
            let detail = format!("the form has two files `{}`", name.escape_debug());
            return Err(Refusal::new(StatusCode::CONFLICT, detail));
        }
        let place = Place {
            folder: Arc::clone(folder),
            name: name.to_owned(),
            if_taken: uploads.if_taken(),
        };
        let file = file(uploads, &place, &mut field).await?;
        parts.push(Part {
            field: disposition.name,
            place,
            file,
        });
    }
}

async fn file(
    uploads: &Uploads,
    place: &Place,
    field: &mut Field<'_>,
) -> Result<Box<Unnamed>, Refusal> {
    let mut file = Box::new(uploads.begin(place.clone(), 0).await?);
    while let Some(piece) = field.chunk().await.map_err(refused)? {
        if !piece.is_empty() {
            file = append(&uploads.0.folder.disk, file, vec![piece]).await?;
        }
    }
    Ok(file)
}

async fn nothing(field: &mut Field<'_>) -> Result<(), Refusal> {
    while let Some(piece) = field.chunk().await.map_err(refused)? {
        if !piece.is_empty() {
            return Err(Refusal::malformed("a file of the form has no name"));
        }
    }
    Ok(())
}

fn disposition(fields: &HeaderMap) -> Result<Disposition, Refusal> {
    let Some(value) = fields.get(header::CONTENT_DISPOSITION) else {
        return Err(Refusal::malformed(
            "a part of the form has no Content-Disposition",
        ));
    };
    Disposition::parse(value.as_bytes()).map_err(|error| Refusal::malformed(error.to_string()))
}

/// The refusal of the content, or of the form.
fn refused(error: multer::Error) -> Refusal {
    match error {
        multer::Error::StreamReadFailed(error) => match error.downcast::<Refusal>() {
            Ok(refusal) => *refusal,
            Err(error) => Refusal::malformed(error.to_string()),
        },
        error => Refusal::malformed(format!("the form can't be read: {error}")),
    }
}

/// Stands in place of a head's length while content is read.
const DATA: usize = usize::MAX;

/// The source that `multer` reads: [`BATCH`] bytes, and a piece more, before it has to look at them.
struct Feed<B> {
    content: Content<B>,
    /// Bytes since the last part ended.
    head: Arc<AtomicUsize>,
    /// Bytes since it was made to look.
    turn: usize,
}

impl<B> Stream for Feed<B>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    type Item = Result<Bytes, Refusal>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.turn >= BATCH {
            this.turn = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let head = this.head.load(Ordering::Relaxed);
        // It has seen all that came before this turn.
        if this.turn == 0 && head != DATA && head > MAX_HEAD {
            let detail = "the head of a part of the form is too long";
            let refusal = Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, detail);
            return Poll::Ready(Some(Err(refusal)));
        }
        let polled = this.content.poll_piece(cx);
        if polled.is_pending() {
            this.turn = 0;
        }
        let piece = ready!(polled);
        if let Some(Ok(piece)) = &piece {
            this.turn += piece.len().max(1);
            if head != DATA {
                this.head.fetch_add(piece.len(), Ordering::Relaxed);
            }
        }
        Poll::Ready(piece)
    }
}
