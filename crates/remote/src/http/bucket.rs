//! Object stores: object_store knows addresses and signatures, and lists keys.

use super::address::{Name, StoreKind};
use super::client::{Carrier, Connections, HeadNote, Slot};
use super::credentials::{self, AskedRegion, Built};
use super::fault::{advice, chain, error_code, AttemptFault, Passing, PassingKind, Refusal};
use super::origin::{Ask, AskedPart, ELSEWHERE};
use super::reply;
use object_store::list::PaginatedListOptions;
use object_store::path::Path as Key;
use object_store::{Extensions, GetOptions, GetRange};
use pager::error::PageErrorKind;
use pager::place::{Entry, FileKind};
use reqwest::header::HeaderMap;
use reqwest::{Response, StatusCode};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Mutex;

/// Keys of one page of a list: the most that S3 gives.
const PAGE: usize = 1000;
/// Time for the credentials, which may come from a service of the cloud.
const CREDENTIALS: Duration = Duration::from_secs(5);

/// A bucket with its credentials.
pub(super) struct Bucket {
    kind: StoreKind,
    name: String,
    /// For messages.
    server: String,
    connections: Arc<Connections>,
    /// Made by the first request, for credentials may have to be asked for.
    built: RwLock<Option<Arc<Built>>>,
    building: Mutex<()>,
}

/// One page of a list.
pub(super) struct ListPage {
    pub entries: Vec<Entry>,
    pub next: Option<String>,
}

impl Bucket {
    pub(super) fn new(kind: StoreKind, name: String, server: String, connections: Arc<Connections>) -> Self {
        Self { kind, name, server, connections, built: RwLock::default(), building: Mutex::default() }
    }

    pub(super) fn kind(&self) -> StoreKind {
        self.kind
    }

    pub(super) fn connections(&self) -> &Connections {
        &self.connections
    }

    fn known(&self) -> Option<Arc<Built>> {
        self.built.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn is_anonymous(&self) -> bool {
        self.known().is_some_and(|built| built.anonymous)
    }

    async fn built(&self, region: &AskedRegion) -> Result<Arc<Built>, PageErrorKind> {
        let _one = self.building.lock().await;
        if let Some(built) = self.known().filter(|built| region.is_of(built)) {
            return Ok(built);
        }
        let carrier = Carrier(self.connections.clone());
        let made = tokio::time::timeout(CREDENTIALS, credentials::build(self.kind, &self.name, region, carrier)).await;
        let built = made.unwrap_or_else(|_| {
            let message = "its credentials did not come in time".to_owned();
            Err(PageErrorKind::Unauthorized { server: self.server.clone(), message })
        })?;
        let built = Arc::new(built);
        *self.built.write().unwrap_or_else(PoisonError::into_inner) = Some(built.clone());
        Ok(built)
    }

    /// Sends a request, and waits for the head of its reply. S3 says where a bucket of another region is.
    pub(super) async fn send(&self, ask: Ask<'_>) -> Result<Response, AttemptFault> {
        let built = match self.known() {
            Some(built) => built,
            None => self.built(&AskedRegion::Usual).await?,
        };
        let reply = self.send_as(&built, ask).await?;
        match self.elsewhere(&built, reply.status(), reply.headers()).await? {
            Some(built) => self.send_as(&built, ask).await,
            None => Ok(reply),
        }
    }

    /// The store of the region where S3 says that the bucket is, if that is another one.
    async fn elsewhere(
        &self,
        built: &Built,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<Option<Arc<Built>>, PageErrorKind> {
        let region = headers.get("x-amz-bucket-region").and_then(|region| region.to_str().ok());
        let moved =
            matches!(status, StatusCode::MOVED_PERMANENTLY | StatusCode::TEMPORARY_REDIRECT | StatusCode::BAD_REQUEST);
        match region.filter(|region| moved && built.may_move_to(region)) {
            Some(region) => self.built(&AskedRegion::Named(region.to_owned())).await.map(Some),
            None => Ok(None),
        }
    }

    async fn send_as(&self, built: &Built, ask: Ask<'_>) -> Result<Response, AttemptFault> {
        let Name::Key(key, _) = ask.name else { return Err(PageErrorKind::Unsupported(ELSEWHERE.into()).into()) };
        let range = match ask.part {
            AskedPart::Head => None,
            AskedPart::Bytes(begin, end) => Some(GetRange::Bounded(begin..end)),
            AskedPart::Last(len) => Some(GetRange::Suffix(len)),
        };
        let slot = Slot::default();
        let mut extensions = Extensions::new();
        extensions.insert(slot.clone());
        let options = GetOptions {
            range,
            if_match: ask.condition.map(str::to_owned),
            head: matches!(ask.part, AskedPart::Head),
            extensions,
            ..GetOptions::default()
        };
        let asked = built.store.get_opts(key, options).await;
        match slot.take() {
            Some(sent) => sent.map_err(|e| AttemptFault::of(&self.server, &e)),
            // It was never sent.
            None => Err(asked.err().map_or_else(
                || PageErrorKind::Io("its request was not sent".into()).into(),
                |e| self.unsent(built, &e),
            )),
        }
    }

    /// The fault of a request for which no credentials could be had.
    fn unsent(&self, built: &Built, e: &object_store::Error) -> AttemptFault {
        let message = format!("its credentials cannot be had: {}: {}", chain(e), advice(self.kind, built.anonymous));
        PageErrorKind::Unauthorized { server: self.server.clone(), message }.into()
    }

    /// A page of the names below a folder, by one attempt.
    pub(super) async fn list(
        &self,
        folder: &Key,
        most: usize,
        from: Option<String>,
        deadline: Duration,
    ) -> Result<ListPage, AttemptFault> {
        let listed = async {
            let built = match self.known() {
                Some(built) => built,
                None => self.built(&AskedRegion::Usual).await?,
            };
            let (page, note) = self.list_as(&built, folder, most, from.clone()).await;
            let moved = match (&page, note.get()) {
                (Err(_), Some((status, headers))) => self.elsewhere(&built, *status, headers).await?,
                _ => None,
            };
            match moved {
                Some(built) => {
                    let (page, note) = self.list_as(&built, folder, most, from).await;
                    page.map_err(|e| self.list_fault(&built, &e, &note))
                }
                None => page.map_err(|e| self.list_fault(&built, &e, &note)),
            }
        };
        match tokio::time::timeout(deadline, listed).await {
            Ok(page) => page,
            Err(_) => {
                let message = format!("no list within {:.1} s", deadline.as_secs_f64());
                Err(Passing::new(PassingKind::Silence, message).into())
            }
        }
    }

    async fn list_as(
        &self,
        built: &Built,
        folder: &Key,
        most: usize,
        from: Option<String>,
    ) -> (object_store::Result<ListPage>, HeadNote) {
        let prefix = if folder.as_ref().is_empty() { String::new() } else { format!("{folder}/") };
        let note = HeadNote::default();
        let mut extensions = Extensions::new();
        extensions.insert(note.clone());
        let options = PaginatedListOptions {
            delimiter: Some("/".into()),
            max_keys: Some(most.clamp(1, PAGE)),
            page_token: from,
            extensions,
            ..PaginatedListOptions::default()
        };
        let asked = Some(prefix.as_str()).filter(|prefix| !prefix.is_empty());
        let listed = built.lists.list_paginated(asked, options).await;
        let page = listed.map(|page| {
            // A key that ends in `/` is what some tools make to show an empty folder.
            let name =
                |key: &Key| key.as_ref().strip_prefix(&prefix).filter(|name| !name.is_empty()).map(str::to_owned);
            let folders = page.result.common_prefixes.iter().filter_map(name);
            let mut entries: Vec<Entry> = folders.map(|name| Entry { name, kind: FileKind::Folder, size: 0 }).collect();
            let files = page.result.objects.iter().filter_map(|o| Some((name(&o.location)?, o.size)));
            entries.extend(files.map(|(name, size)| Entry { name, kind: FileKind::File, size }));
            ListPage { entries, next: page.page_token }
        });
        (page, note)
    }

    fn list_fault(&self, built: &Built, e: &object_store::Error, note: &HeadNote) -> AttemptFault {
        let text = chain(e);
        match note.get() {
            None => Passing::new(PassingKind::Broken, text.chars().take(200).collect::<String>()).into(),
            // The list itself is no list.
            Some((status, _)) if status.is_success() => {
                let message = format!("its list cannot be read: {}", text.chars().take(100).collect::<String>());
                PageErrorKind::Protocol { server: self.server.clone(), message }.into()
            }
            Some((status, headers)) => {
                let refusal = Refusal {
                    server: &self.server,
                    kind: self.kind,
                    anonymous: built.anonymous,
                    status: *status,
                    code: error_code(&text),
                    wait: reply::retry_after(headers),
                };
                AttemptFault::of_status(refusal)
            }
        }
    }
}
