//! Routes that are answered with files: the words of a configuration as those of the server.

use crate::answers::fields_of;
use altway_config::{Coding, Files, Route, Site};
use altway_serve::{ContentCoding, FilesOptions, HeaderRule, InvalidFilesOptions};
use http::StatusCode;

/// The files of a route, with the fields of the route and its site.
pub(crate) fn site(
    site: &Site,
    route: &Route,
    files: &Files,
) -> Result<altway_serve::Site, InvalidFilesOptions> {
    let mut options = FilesOptions::default();
    options.index.clone_from(&files.index);
    options.hidden = files.hidden;
    options.fallback = files.fallback.as_ref().map(|it| it.as_str().to_owned());
    options.clean_urls = files.clean_urls;
    options.precompressed = files.precompressed.iter().map(|it| coding(*it)).collect();
    // The first rule of a configuration counts, and the last one of the server.
    let cache = files.cache.iter().rev();
    let cache = cache.map(|rule| HeaderRule::cache_control(&rule.path.to_string(), &rule.value));
    options.headers = cache.collect::<Result<_, _>>()?;
    for (name, value) in &fields_of(site, route) {
        let value = value.to_str().unwrap_or_default();
        options
            .headers
            .push(HeaderRule::always(name.as_str(), value)?);
    }
    for page in &files.error_pages {
        let Ok(status) = StatusCode::from_u16(page.status) else {
            continue;
        };
        options.error_pages.retain(|(of, _)| *of != status);
        options
            .error_pages
            .push((status, page.page.as_str().to_owned()));
    }
    Ok(altway_serve::Site::files_with(&files.root, options))
}

fn coding(coding: Coding) -> ContentCoding {
    match coding {
        Coding::Zstd => ContentCoding::Zstd,
        Coding::Brotli => ContentCoding::Brotli,
        Coding::Gzip => ContentCoding::Gzip,
    }
}
