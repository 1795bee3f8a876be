//! Lists of buckets, page by page.

use super::bucket::Bucket;
use super::line::{Attempts, ServerLine};
use object_store::path::Path as Key;
use pager::error::PageErrorKind;
use pager::place::Entry;

/// The names in a folder.
///
/// # Errors
/// [`PageErrorKind::Missing`] for a folder without any, [`PageErrorKind::TooMany`] beyond `most`.
pub(super) async fn list_all(
    line: &ServerLine,
    bucket: &Bucket,
    folder: &Key,
    most: usize,
) -> Result<Vec<Entry>, PageErrorKind> {
    let mut found = Vec::new();
    let mut from = None;
    loop {
        let mut attempts = Attempts::new(line);
        let page = loop {
            match bucket.list(folder, (most - found.len()).saturating_add(1), from.clone(), line.list_deadline()).await
            {
                Ok(page) => break page,
                Err(fault) => attempts.again(line, fault, false).await?,
            }
        };
        found.extend(page.entries);
        if found.len() > most {
            return Err(PageErrorKind::TooMany { most });
        }
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    if found.is_empty() && !folder.as_ref().is_empty() {
        return Err(PageErrorKind::Missing);
    }
    Ok(found)
}
