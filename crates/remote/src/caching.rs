//! Which places have the disk cache before them.

use crate::disk_cache::{CachedPlace, DiskCache};
use pager::place::Place;
use std::sync::{Arc, PoisonError, RwLock};

/// The cache of this process, and the places behind it.
struct Caching {
    cache: Arc<DiskCache>,
    offline: bool,
    /// A place, and the same with the cache before it: each once, since sources of one place share its limits.
    places: Vec<(Arc<dyn Place>, Arc<CachedPlace>)>,
}

static CACHING: RwLock<Option<Caching>> = RwLock::new(None);

/// Puts a disk cache before all places that are found from now on; `None`: no cache. `offline`: no server is asked.
pub fn set_disk_cache(cache: Option<Arc<DiskCache>>, offline: bool) {
    let caching = cache.map(|cache| Caching { cache, offline, places: Vec::new() });
    *CACHING.write().unwrap_or_else(PoisonError::into_inner) = caching;
}

/// The disk cache of this process.
pub fn disk_cache() -> Option<Arc<DiskCache>> {
    CACHING.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(|caching| caching.cache.clone())
}

/// A place with the disk cache before it, if there is one.
pub(crate) fn cached(place: Arc<dyn Place>) -> Arc<dyn Place> {
    let known = |caching: &Caching| {
        let found = caching.places.iter().find(|(inner, _)| Arc::ptr_eq(inner, &place));
        found.map(|(_, cached)| cached.clone())
    };
    match &*CACHING.read().unwrap_or_else(PoisonError::into_inner) {
        None => return place,
        Some(caching) => {
            if let Some(cached) = known(caching) {
                return cached;
            }
        }
    }
    match &mut *CACHING.write().unwrap_or_else(PoisonError::into_inner) {
        None => place,
        Some(caching) => known(caching).unwrap_or_else(|| {
            let cached = Arc::new(CachedPlace::new(place.clone(), caching.cache.clone(), caching.offline));
            caching.places.push((place.clone(), cached.clone()));
            cached
        }),
    }
}
