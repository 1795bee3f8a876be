//! Clients, by their token or else by their address, and the limits of connections.

use super::super::secure::{TokenHash, TokenList};
use super::super::wire::Hello;
use super::counts::ByteRate;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// What makes connections one client's.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum ClientKey {
    Token(TokenHash),
    Address(IpAddr),
}

/// One client.
pub(super) struct Client {
    key: ClientKey,
    /// Its number, unique in this process.
    pub(super) number: u64,
    pub(super) name: String,
    pub(super) connections: Arc<AtomicU32>,
    pub(super) requests: AtomicU64,
    pub(super) bytes: AtomicU64,
    /// Requests that wait or are being answered.
    pub(super) under_way: AtomicU64,
    pub(super) rate: ByteRate,
    revoked: AtomicBool,
}

impl Client {
    /// Whether its token is taken no longer.
    pub(super) fn is_revoked(&self) -> bool {
        self.revoked.load(Relaxed)
    }
}

#[derive(Default)]
struct Present {
    clients: HashMap<ClientKey, Arc<Client>>,
    addresses: HashMap<IpAddr, usize>,
    connections: usize,
    serial: u64,
}

/// All clients.
pub(super) struct Clients {
    tokens: TokenList,
    stagers: RwLock<Vec<TokenHash>>,
    /// Whether whoever comes may read. Never so again once there was a token: with the last one revoked, nobody may.
    open: AtomicBool,
    present: Mutex<Present>,
    most: usize,
    most_of_address: usize,
}

impl Clients {
    pub(super) fn new(tokens: Vec<(String, TokenHash)>, most: usize, most_of_address: usize) -> Self {
        let open = AtomicBool::new(tokens.is_empty());
        let list = TokenList::default();
        list.set(tokens);
        Self { tokens: list, stagers: RwLock::default(), open, present: Mutex::default(), most, most_of_address }
    }

    fn present(&self) -> std::sync::MutexGuard<'_, Present> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the tokens. Clients whose token is gone are cut at their next request.
    pub(super) fn set_tokens(&self, tokens: Vec<(String, TokenHash)>) {
        if !tokens.is_empty() {
            self.open.store(false, Relaxed);
        }
        self.tokens.set(tokens);
        for client in self.present().clients.values() {
            let stays = match client.key {
                ClientKey::Token(hash) => self.tokens.name(&hash).is_some(),
                ClientKey::Address(_) => self.open.load(Relaxed),
            };
            client.revoked.store(!stays, Relaxed);
        }
    }

    /// Replaces the tokens that may stage.
    pub(super) fn set_stagers(&self, stagers: Vec<TokenHash>) {
        *self.stagers.write().unwrap_or_else(PoisonError::into_inner) = stagers;
    }

    /// Whether a client may change what is served.
    pub(super) fn may_stage(&self, client: &Client) -> bool {
        match client.key {
            ClientKey::Token(hash) => self.stagers.read().unwrap_or_else(PoisonError::into_inner).contains(&hash),
            ClientKey::Address(_) => self.open.load(Relaxed),
        }
    }

    /// A connection arrives. Whether there is room for it.
    pub(super) fn arrive(&self, address: IpAddr) -> bool {
        let mut present = self.present();
        let of_address = present.addresses.get(&address).copied().unwrap_or(0);
        if present.connections >= self.most || of_address >= self.most_of_address {
            return false;
        }
        present.connections += 1;
        *present.addresses.entry(address).or_default() += 1;
        true
    }

    /// Whether an address has as many connections as it may have.
    pub(super) fn is_full_for(&self, address: IpAddr) -> bool {
        self.present().addresses.get(&address).is_some_and(|count| *count >= self.most_of_address)
    }

    /// A connection that arrived is gone.
    pub(super) fn leave(&self, address: IpAddr, client: Option<&Arc<Client>>) {
        let mut present = self.present();
        present.connections = present.connections.saturating_sub(1);
        if let Some(count) = present.addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                present.addresses.remove(&address);
            }
        }
        if let Some(client) = client {
            if client.connections.fetch_sub(1, Relaxed) == 1 {
                present.clients.remove(&client.key);
            }
        }
    }

    /// The client of a HELLO.
    ///
    /// # Errors
    /// The reason for the client, if it shows no token that is taken.
    pub(super) fn hello(&self, hello: &Hello, address: IpAddr) -> Result<Arc<Client>, &'static str> {
        let (key, name) = match hello.token {
            None if self.open.load(Relaxed) => (ClientKey::Address(address), address.to_string()),
            None => return Err("it wants a token, and none was shown; set FARFIELD_TOKEN"),
            // Without tokens, whoever comes may read; a token shown to the wrong server gives nothing away that was not
            // given already.
            Some(_) if self.open.load(Relaxed) => (ClientKey::Address(address), address.to_string()),
            Some(token) => {
                let hash = TokenHash::of(&token);
                let name = self.tokens.name(&hash);
                (ClientKey::Token(hash), name.ok_or("it does not know the token, or has revoked it")?)
            }
        };
        let mut present = self.present();
        present.serial += 1;
        let number = present.serial;
        let client = present.clients.entry(key).or_insert_with(|| {
            Arc::new(Client {
                key,
                number,
                name,
                connections: Arc::default(),
                requests: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
                under_way: AtomicU64::new(0),
                rate: ByteRate::new(),
                revoked: AtomicBool::new(false),
            })
        });
        client.connections.fetch_add(1, Relaxed);
        Ok(client.clone())
    }

    /// Connections now, and the clients.
    pub(super) fn list(&self) -> (usize, Vec<Arc<Client>>) {
        let present = self.present();
        (present.connections, present.clients.values().cloned().collect())
    }
}
