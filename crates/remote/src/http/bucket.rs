//! Object stores: object_store knows addresses and signatures, and lists keys.

use super::address::{Kind, Name};
use super::client::{Carrier, Connections, Slot};
use super::credentials::{self, Built, Region};
use super::fault::{advice, chain, Fault, Passing, PassingKind};
use super::line::{Attempts, Line};
use super::origin::Ask;
use object_store::list::PaginatedListOptions;
use object_store::path::Path as Key;
use object_store::{Extensions, GetOptions, GetRange};
use pager::error::PageErrorKind;
use pager::place::{Entry, FileKind};
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
    kind: Kind,
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
    pub(super) fn new(kind: Kind, name: String, server: String, connections: Arc<Connections>) -> Self {
        Self { kind, name, server, connections, built: RwLock::default(), building: Mutex::default() }
    }

    pub(super) fn kind(&self) -> Kind {
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

    async fn built(&self, region: &Region) -> Result<Arc<Built>, PageErrorKind> {
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
    pub(super) async fn send(&self, ask: Ask<'_>) -> Result<Response, Fault> {
        let built = match self.known() {
            Some(built) => built,
            None => self.built(&Region::Usual).await?,
        };
        let reply = self.send_as(&built, ask).await?;
        let elsewhere = matches!(reply.status(), StatusCode::MOVED_PERMANENTLY | StatusCode::BAD_REQUEST)
            || reply.status() == StatusCode::TEMPORARY_REDIRECT;
        let region = reply.headers().get("x-amz-bucket-region").and_then(|region| region.to_str().ok());
        match region.filter(|region| elsewhere && built.may_move_to(region)) {
            Some(region) => {
                let built = self.built(&Region::Named(region.to_owned())).await?;
                self.send_as(&built, ask).await
            }
            None => Ok(reply),
        }
    }

    async fn send_as(&self, built: &Built, ask: Ask<'_>) -> Result<Response, Fault> {
        let Name::Key(key, _) = ask.name else { unreachable!("the names of a bucket are keys") };
        let slot = Slot::default();
        let mut extensions = Extensions::new();
        extensions.insert(slot.clone());
        let options = GetOptions {
            range: ask.range.map(|(begin, end)| GetRange::Bounded(begin..end)),
            if_match: ask.condition.map(str::to_owned),
            head: ask.range.is_none(),
            extensions,
            ..GetOptions::default()
        };
        let asked = built.store.get_opts(key, options).await;
        match slot.take() {
            Some(sent) => sent.map_err(|e| Fault::of(&self.server, &e)),
            // It was never sent.
            None => Err(asked.err().map_or_else(
                || PageErrorKind::Io("its request was not sent".into()).into(),
                |e| self.unsent(built, &e),
            )),
        }
    }

    /// The fault of a request for which no credentials could be had.
    fn unsent(&self, built: &Built, e: &object_store::Error) -> Fault {
        let message = format!("its credentials cannot be had: {}: {}", chain(e), advice(self.kind, built.anonymous));
        PageErrorKind::Unauthorized { server: self.server.clone(), message }.into()
    }

    /// A page of the names below a folder, by one attempt.
    pub(super) async fn list(
        &self,
        line: &Line,
        folder: &Key,
        most: usize,
        from: Option<String>,
    ) -> Result<ListPage, Fault> {
        let built = match self.known() {
            Some(built) => built,
            None => self.built(&Region::Usual).await?,
        };
        let prefix = if folder.as_ref().is_empty() { String::new() } else { format!("{folder}/") };
        let options = PaginatedListOptions {
            delimiter: Some("/".into()),
            max_keys: Some(most.clamp(1, PAGE)),
            page_token: from,
            ..PaginatedListOptions::default()
        };
        let asked = built.lists.list_paginated(Some(&prefix).filter(|p| !p.is_empty()).map(String::as_str), options);
        let deadline = line.options.connect + line.options.first_byte + line.options.stall;
        let Ok(page) = tokio::time::timeout(deadline, asked).await else {
            let message = format!("no list within {:.1} s", deadline.as_secs_f64());
            return Err(Passing::new(PassingKind::Silence, message).into());
        };
        let page = page.map_err(|e| self.list_fault(&built, &e))?;
        let name = |key: &Key| key.as_ref().strip_prefix(&prefix).filter(|name| !name.is_empty()).map(str::to_owned);
        let folders = page.result.common_prefixes.iter().filter_map(name);
        let mut entries: Vec<Entry> = folders.map(|name| Entry { name, kind: FileKind::Folder, size: 0 }).collect();
        // A key that ends in `/` is what some tools make to show an empty folder.
        let files = page.result.objects.iter().filter_map(|o| Some((name(&o.location)?, o.size)));
        entries.extend(files.map(|(name, size)| Entry { name, kind: FileKind::File, size }));
        Ok(ListPage { entries, next: page.page_token })
    }

    fn list_fault(&self, built: &Built, e: &object_store::Error) -> Fault {
        let server = self.server.clone();
        let text = chain(e);
        match e {
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                let message = format!("it does not let the bucket be listed: {}", advice(self.kind, built.anonymous));
                PageErrorKind::Unauthorized { server, message }.into()
            }
            object_store::Error::NotFound { .. } => {
                let message = "there is no such bucket: check its name and region".to_owned();
                PageErrorKind::Protocol { server, message }.into()
            }
            // A status of the server that says "later", or a broken connection.
            _ if ["status code: 4", "status code: 3", "BareRedirect"].iter().any(|sign| text.contains(sign)) => {
                let first: String = text.chars().take(200).collect();
                PageErrorKind::Protocol { server, message: first }.into()
            }
            _ => Passing::new(PassingKind::Broken, text.chars().take(200).collect::<String>()).into(),
        }
    }

    /// The names in a folder.
    ///
    /// # Errors
    /// [`PageErrorKind::Missing`] for a folder without any, [`PageErrorKind::TooMany`] beyond `most`.
    pub(super) async fn list_all(&self, line: &Line, folder: &Key, most: usize) -> Result<Vec<Entry>, PageErrorKind> {
        let mut found = Vec::new();
        let mut from = None;
        loop {
            let mut attempts = Attempts::new(line);
            let page = loop {
                match self.list(line, folder, (most - found.len()).saturating_add(1), from.clone()).await {
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
}
