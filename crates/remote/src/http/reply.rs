//! What replies say: the version of the file, the range, the time to wait.

use pager::place::FileVersion;
use reqwest::header::{HeaderMap, HeaderName, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, LAST_MODIFIED, RETRY_AFTER};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Longest time that a server may ask to be left alone.
const MOST_WAIT: Duration = Duration::from_secs(30);

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok().map(str::trim).filter(|text| !text.is_empty())
}

/// The version that a reply says: its ETag, else the generation (Google) or version (S3), else the time of the last
/// change. That is weak, for a file can change twice in a second. Without all of these only the size is compared.
pub(super) fn version(headers: &HeaderMap, size: u64) -> FileVersion {
    let named = |name: &'static str| text(headers, HeaderName::from_static(name)).map(|v| format!("version {v}"));
    let tag = text(headers, ETAG)
        .map(str::to_owned)
        .or_else(|| named("x-goog-generation"))
        .or_else(|| named("x-amz-version-id"))
        .or_else(|| text(headers, LAST_MODIFIED).map(|v| format!("modified {v}")));
    FileVersion { size, tag: tag.unwrap_or_default().into() }
}

/// The ETag for a conditional request. A weak one never matches there (RFC 9110, 13.1.1).
pub(super) fn condition(version: &FileVersion) -> Option<&str> {
    let tag = &*version.tag;
    (tag.len() >= 2 && tag.starts_with('"') && tag.ends_with('"')).then_some(tag)
}

/// The length that a reply announces.
pub(super) fn length(headers: &HeaderMap) -> Option<u64> {
    text(headers, CONTENT_LENGTH)?.parse().ok()
}

/// First byte, one past the last, and size of the whole file, as `bytes 0-9/100` says them.
pub(super) fn range(headers: &HeaderMap) -> Option<(u64, u64, u64)> {
    let (range, size) = text(headers, CONTENT_RANGE)?.strip_prefix("bytes ")?.split_once('/')?;
    let (begin, last) = range.split_once('-')?;
    let (begin, last, size): (u64, u64, u64) = (begin.parse().ok()?, last.parse().ok()?, size.parse().ok()?);
    (begin <= last && last < size).then_some((begin, last + 1, size))
}

/// The size of the file in the reply to a range past its end, as `bytes */100` says it.
pub(super) fn size_of_unsatisfied(headers: &HeaderMap) -> Option<u64> {
    text(headers, CONTENT_RANGE)?.strip_prefix("bytes */")?.parse().ok()
}

/// The range for messages.
pub(super) fn range_text(headers: &HeaderMap) -> String {
    text(headers, CONTENT_RANGE).map_or("no Content-Range".into(), |range| range.chars().take(80).collect())
}

/// The time for which the server wants no further request, bounded. It says seconds, or a date. A date is compared with
/// the reply's own, for clocks differ.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let told = text(headers, RETRY_AFTER)?;
    let wait = match told.parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let here = || SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|now| now.as_secs() as i64);
            let now = text(headers, DATE).and_then(seconds).or_else(here)?;
            u64::try_from(seconds(told)?.saturating_sub(now)).unwrap_or(0)
        }
    };
    Some(Duration::from_secs(wait).min(MOST_WAIT))
}

/// Nanoseconds since 1970 of the last change; 0 if the reply does not say it.
pub(super) fn modified_ns(headers: &HeaderMap) -> i64 {
    text(headers, LAST_MODIFIED).and_then(seconds).map_or(0, |s| s.saturating_mul(1_000_000_000))
}

/// Seconds since 1970 of `Sun, 06 Nov 1994 08:49:37 GMT`, the one form that servers send.
fn seconds(date: &str) -> Option<i64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut parts = date.split(", ").nth(1)?.split([' ', ':']);
    let mut number = || parts.next()?.parse::<i64>().ok();
    let day = number()?;
    let month = parts.next()?;
    let month = MONTHS.find(month).filter(|at| month.len() == 3 && at % 3 == 0)? as i64 / 3 + 1;
    let mut number = || parts.next()?.parse::<i64>().ok();
    let (year, hour, minute, second) = (number()?, number()?, number()?, number()?);
    if !(1..=9999).contains(&year) || !(1..=31).contains(&day) {
        return None;
    }
    // Days from 1 March of the year 0: the leap day is the last of its year.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1;
    Some((days - 719_468) * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn ranges_are_exact_or_none() {
        let of = |value| range(&headers(&[("content-range", value)]));
        assert_eq!(of("bytes 0-9/100"), Some((0, 10, 100)));
        for wrong in ["bytes 0-9/*", "bytes 9-0/100", "bytes 0-100/100", "bytes */100", "0-9/100", "bytes 0-9", ""] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!(size_of_unsatisfied(&headers(&[("content-range", "bytes */0")])), Some(0));
    }

    #[test]
    fn waits_are_seconds_or_dates() {
        let of = |pairs: &[(&'static str, &str)]| retry_after(&headers(pairs)).map(|wait| wait.as_secs());
        let now = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(of(&[("retry-after", "7")]), Some(7));
        assert_eq!(of(&[now, ("retry-after", "Sun, 06 Nov 1994 08:49:42 GMT")]), Some(5));
        assert_eq!(of(&[now, ("retry-after", "Sun, 06 Nov 1994 08:49:30 GMT")]), Some(0), "it is over");
        assert_eq!(of(&[now, ("retry-after", "Mon, 07 Nov 1994 08:49:30 GMT")]), Some(30), "bounded");
        assert_eq!(of(&[("retry-after", "Sun, 06 Nov 1994 08:49:42 GMT")]), Some(0), "by this machine's clock");
        assert_eq!(of(&[now, ("retry-after", "soon")]), None);
        assert_eq!(of(&[now]), None);
    }

    #[test]
    fn versions_and_dates_are_those_of_the_reply() {
        let date = ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(modified_ns(&headers(&[date])), 784_111_777_000_000_000);
        assert_eq!(
            modified_ns(&headers(&[("last-modified", "Thu, 29 Feb 2024 00:00:00 GMT")])),
            1_709_164_800 * 1_000_000_000
        );
        assert_eq!(modified_ns(&headers(&[("last-modified", "yesterday")])), 0);
        let tag = |pairs: &[(&'static str, &str)]| version(&headers(pairs), 5).tag.to_string();
        assert_eq!(tag(&[date, ("etag", "\"a\"")]), "\"a\"");
        assert_eq!(tag(&[date, ("x-goog-generation", "7")]), "version 7");
        assert_eq!(tag(&[date]), "modified Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(tag(&[]), "");
        let conditional = |tag: &str| condition(&FileVersion { size: 1, tag: tag.into() }).is_some();
        assert!(conditional("\"a\"") && !conditional("W/\"a\"") && !conditional("a") && !conditional(""));
    }
}
