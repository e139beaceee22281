//! Routes that are answered with files: the words of a configuration as those of the server.

use crate::answers::fields_of;
use altway_config::{Coding, Files, OnTheFly, Route, Site};
use altway_serve::{ContentCoding, FilesOptions, HeaderRule, InvalidFilesOptions};

/// A rule that gives all responses a field.
type FieldRule = fn(&str, &str) -> Result<HeaderRule, InvalidFilesOptions>;

/// The files of a route, with the fields of the route and its site.
pub(crate) fn site(
    site: &Site,
    route: &Route,
    files: &Files,
) -> Result<altway_serve::Site, InvalidFilesOptions> {
    let options = options(site, route, files)?;
    Ok(altway_serve::Site::files_with(&files.root, options))
}

/// The options by which the files of a route are served.
///
/// # Errors
/// A field or a pattern is none that the server gives.
pub fn options(
    site: &Site,
    route: &Route,
    files: &Files,
) -> Result<FilesOptions, InvalidFilesOptions> {
    let mut options = FilesOptions::default();
    options.index.clone_from(&files.index);
    options.hidden = files.hidden;
    options.fallback = files.fallback.as_ref().map(|it| it.as_str().to_owned());
    options.clean_urls = files.clean_urls;
    options.precompressed = files.precompressed.iter().map(|it| coding(*it)).collect();
    options.listing = files.listing;
    options.compress = files.compress.iter().map(|it| on_the_fly(*it)).collect();
    // The first rule of a configuration counts, and the last one of the server.
    let cache = files.cache.iter().rev();
    let cache = cache.map(|rule| HeaderRule::cache_control(&rule.path.to_string(), &rule.value));
    options.headers = cache.collect::<Result<_, _>>()?;
    let fields = fields_of(site, route);
    for name in fields.keys() {
        let mut rule: FieldRule = HeaderRule::always;
        for value in fields.get_all(name) {
            let value = value.to_str().unwrap_or_default();
            options.headers.push(rule(name.as_str(), value)?);
            rule = HeaderRule::further;
        }
    }
    for page in &files.error_pages {
        options.error_pages.retain(|(of, _)| *of != page.status);
        let file = page.page.as_str().to_owned();
        options.error_pages.push((page.status, file));
    }
    Ok(options)
}

fn on_the_fly(coding: OnTheFly) -> ContentCoding {
    match coding {
        OnTheFly::Brotli => ContentCoding::Brotli,
        OnTheFly::Gzip => ContentCoding::Gzip,
        OnTheFly::Zstd => ContentCoding::Zstd,
    }
}

fn coding(coding: Coding) -> ContentCoding {
    match coding {
        Coding::Zstd => ContentCoding::Zstd,
        Coding::Brotli => ContentCoding::Brotli,
        Coding::Gzip => ContentCoding::Gzip,
    }
}
