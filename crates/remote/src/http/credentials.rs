//! Credentials of object stores: those that the clouds' own tools find, else none. A request without a signature reads
//! public data, and a wait for a service that no machine outside the cloud has would help nobody.

use super::address::StoreKind;
use super::client::Carrier;
use super::fault::chain;
use super::profile::Profile;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::list::PaginatedListStore;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use pager::error::PageErrorKind;
use std::sync::Arc;
use std::time::Duration;

/// Time in which the service for credentials of a cloud's machines connects: it is on the same host.
const METADATA: Duration = Duration::from_millis(300);

/// A store that can send requests.
pub(super) struct Built {
    pub store: Arc<dyn ObjectStore>,
    pub lists: Arc<dyn PaginatedListStore>,
    /// Whether requests are not signed.
    pub anonymous: bool,
    /// The region of S3; `None` if the address does not depend on one.
    region: Option<String>,
}

impl Built {
    /// Whether S3 can be asked in that region instead.
    pub(super) fn may_move_to(&self, region: &str) -> bool {
        let sound = !region.is_empty() && region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        sound && self.region.as_ref().is_some_and(|known| known != region)
    }
}

/// The region to ask in.
pub(super) enum AskedRegion {
    /// That of the settings.
    Usual,
    /// That of the bucket, which S3 has told.
    Named(String),
}

impl AskedRegion {
    pub(super) fn is_of(&self, built: &Built) -> bool {
        match self {
            Self::Usual => true,
            Self::Named(region) => built.region.as_ref() == Some(region),
        }
    }
}

pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn is_set(names: &[&str]) -> bool {
    names.iter().any(|name| variable(name).is_some())
}

fn says_yes(name: &str) -> bool {
    variable(name).is_some_and(|v| matches!(v.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on"))
}

/// Whether the service for credentials of a cloud's machines answers here.
async fn has_metadata(host: &str) -> bool {
    matches!(tokio::time::timeout(METADATA, tokio::net::TcpStream::connect(host)).await, Ok(Ok(_)))
}

/// Retries and deadlines are those of the place.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

fn client_options() -> ClientOptions {
    ClientOptions::new().with_allow_http(true).with_timeout_disabled().with_connect_timeout_disabled()
}

/// Makes the store of a bucket.
///
/// # Errors
/// [`PageErrorKind::Unsupported`] with what to set, for settings that make no store.
pub(super) async fn build(
    kind: StoreKind,
    bucket: &str,
    region: &AskedRegion,
    carrier: Carrier,
) -> Result<Built, PageErrorKind> {
    match kind {
        StoreKind::S3 => s3(bucket, region, carrier).await,
        StoreKind::Google => google(bucket, carrier).await,
        StoreKind::Azure => azure(bucket, carrier).await,
        StoreKind::Web => Err(PageErrorKind::Unsupported("a web server has no buckets".into())),
    }
}

fn unusable(e: &object_store::Error) -> PageErrorKind {
    PageErrorKind::Unsupported(format!("the settings of the object store cannot be used: {}", chain(e)))
}

async fn s3(bucket: &str, region: &AskedRegion, carrier: Carrier) -> Result<Built, PageErrorKind> {
    use AmazonS3ConfigKey::{AccessKeyId, DefaultRegion, Endpoint, S3Endpoint, SecretAccessKey, Token};
    let mut anonymous = says_yes("AWS_NO_SIGN_REQUEST") || says_yes("AWS_SKIP_SIGNATURE");
    let profile = Profile::read()?;
    // Keys of the environment go before those of a profile, unless a profile is named.
    let from_profile =
        !anonymous && profile.access_key_id.is_some() && (profile.named || !is_set(&["AWS_ACCESS_KEY_ID"]));
    let mut builder = AmazonS3Builder::new();
    let mut set = |key: AmazonS3ConfigKey, value: &str| {
        builder = std::mem::take(&mut builder).with_config(key, value);
    };
    let texts =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    for (name, value) in texts.filter(|(name, value)| name.starts_with("AWS_") && !value.is_empty()) {
        match name.to_ascii_lowercase().parse() {
            // A token belongs to its keys.
            Ok(AccessKeyId | SecretAccessKey | Token) if from_profile => {}
            Ok(key) => set(key, &value),
            Err(_) => {}
        }
    }
    let of_profile = [
        (DefaultRegion, &profile.region, !is_set(&["AWS_REGION", "AWS_DEFAULT_REGION"])),
        (Endpoint, &profile.endpoint_url, !is_set(&["AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3"])),
        (AccessKeyId, &profile.access_key_id, from_profile),
        (SecretAccessKey, &profile.secret_access_key, from_profile),
        (Token, &profile.session_token, from_profile),
    ];
    for (key, value, wanted) in of_profile {
        if let Some(value) = value.as_ref().filter(|_| wanted) {
            set(key, value);
        }
    }
    if let AskedRegion::Named(region) = region {
        builder = builder.with_region(region);
    }
    let has_endpoint = [Endpoint, S3Endpoint].iter().any(|key| builder.get_config_value(key).is_some());
    let services = ["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"];
    let given = builder.get_config_value(&AccessKeyId).is_some()
        || is_set(&services)
        || is_set(&["AWS_CONTAINER_CREDENTIALS_FULL_URI"]);
    if !given && !anonymous {
        let other = profile.other_source.filter(|_| profile.named);
        if let Some(source) = other {
            return Err(PageErrorKind::Unsupported(format!(
                "the profile {} has its credentials from {source}, which is not read here; \
                 run: eval $(aws configure export-credentials --format env)",
                profile.name
            )));
        }
        let none = has_endpoint || says_yes("AWS_EC2_METADATA_DISABLED");
        anonymous = none || !has_metadata("169.254.169.254:80").await;
    }
    let make = |anonymous: bool| {
        let builder = builder.clone().with_bucket_name(bucket).with_skip_signature(anonymous);
        let builder = builder.with_retry(no_retries()).with_client_options(client_options());
        builder.with_http_connector(carrier.clone()).build().map_err(|e| unusable(&e))
    };
    let mut store = make(anonymous)?;
    // A machine of the cloud that has no role.
    if !given && !anonymous && store.credentials().get_credential().await.is_err() {
        anonymous = true;
        store = make(anonymous)?;
    }
    let region = builder.get_config_value(&AmazonS3ConfigKey::Region);
    let region = region.or_else(|| builder.get_config_value(&DefaultRegion)).unwrap_or_else(|| "us-east-1".into());
    let store = Arc::new(store);
    Ok(Built { store: store.clone(), lists: store, anonymous, region: (!has_endpoint).then_some(region) })
}

async fn google(bucket: &str, carrier: Carrier) -> Result<Built, PageErrorKind> {
    let builder = GoogleCloudStorageBuilder::from_env();
    let mut anonymous = says_yes("GOOGLE_SKIP_SIGNATURE");
    // Whether a service is asked for credentials, which may have none.
    let mut asked = false;
    if !anonymous {
        use GoogleConfigKey::{ApplicationCredentials, BearerToken, ServiceAccount, ServiceAccountKey};
        let keys = [ApplicationCredentials, BearerToken, ServiceAccount, ServiceAccountKey];
        let known = variable("HOME").map(|home| format!("{home}/.config/gcloud/application_default_credentials.json"));
        let given = keys.iter().any(|key| builder.get_config_value(key).is_some())
            || known.is_some_and(|file| std::path::Path::new(&file).exists());
        let host = variable("GCE_METADATA_HOST").unwrap_or_else(|| "metadata.google.internal".into());
        asked = !given;
        anonymous = !given && !has_metadata(&format!("{host}:80")).await;
    }
    let make = |anonymous: bool| {
        let builder = builder.clone().with_bucket_name(bucket).with_skip_signature(anonymous);
        let builder = builder.with_retry(no_retries()).with_client_options(client_options());
        builder.with_http_connector(carrier.clone()).build().map_err(|e| unusable(&e))
    };
    let mut store = make(anonymous)?;
    if asked && !anonymous && store.credentials().get_credential().await.is_err() {
        anonymous = true;
        store = make(anonymous)?;
    }
    let store = Arc::new(store);
    Ok(Built { store: store.clone(), lists: store, anonymous, region: None })
}

async fn azure(bucket: &str, carrier: Carrier) -> Result<Built, PageErrorKind> {
    use AzureConfigKey::{AccessKey, AccountName, ClientSecret, FederatedTokenFile, MsiEndpoint, SasKey, Token};
    use AzureConfigKey::{Endpoint, UseAzureCli, UseEmulator};
    let mut builder = MicrosoftAzureBuilder::from_env();
    // `az://container@account/key` names the account, too.
    let (container, account) = bucket.split_once('@').map_or((bucket, None), |(c, account)| (c, Some(account)));
    let account = account.map(|a| a.split('.').next().unwrap_or(a).to_owned());
    let known = builder.get_config_value(&AccountName).is_some();
    // The name that the cloud's own tool uses.
    let account = account.or_else(|| variable("AZURE_STORAGE_ACCOUNT").filter(|_| !known));
    if let Some(account) = &account {
        builder = builder.with_account(account);
    }
    let emulator = builder.get_config_value(&UseEmulator).is_some_and(|v| v == "true");
    if !known && account.is_none() && !emulator {
        let message = "set AZURE_STORAGE_ACCOUNT_NAME, or name the account: az://container@account/name";
        return Err(PageErrorKind::Unsupported(message.into()));
    }
    let mut anonymous = says_yes("AZURE_SKIP_SIGNATURE");
    let mut asked = false;
    if !anonymous && !emulator {
        let keys = [AccessKey, ClientSecret, FederatedTokenFile, MsiEndpoint, SasKey, Token, UseAzureCli];
        let given = keys.iter().any(|key| builder.get_config_value(key).is_some_and(|v| v != "false"));
        let elsewhere = builder.get_config_value(&Endpoint).is_some();
        asked = !given;
        anonymous = !given && (elsewhere || !has_metadata("169.254.169.254:80").await);
    }
    let make = |anonymous: bool| {
        let builder = builder.clone().with_container_name(container).with_skip_signature(anonymous);
        let builder = builder.with_retry(no_retries()).with_client_options(client_options());
        builder.with_http_connector(carrier.clone()).build().map_err(|e| unusable(&e))
    };
    let mut store = make(anonymous)?;
    if asked && !anonymous && store.credentials().get_credential().await.is_err() {
        anonymous = true;
        store = make(anonymous)?;
    }
    let store = Arc::new(store);
    Ok(Built { store: store.clone(), lists: store, anonymous, region: None })
}
