//! An object store, by a server on this machine that speaks as much of S3. One test, for the settings are the process's.

mod support;

use pager::error::PageErrorKind;
use pager::place::{self, Entry, FileKind, FileReader, PlaceFile};
use pager::source::conformance;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use support::{Asked, Handler, Server};

/// Keys and their bytes, and whether requests must be signed.
#[derive(Default)]
struct FakeBucket {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    signed: AtomicBool,
}

type Reply = (u16, Vec<(String, String)>, Vec<u8>);

fn error(status: u16, code: &str) -> Reply {
    (status, Vec::new(), format!("<Error><Code>{code}</Code><Message>secret</Message></Error>").into_bytes())
}

impl FakeBucket {
    fn reply(&self, asked: &Asked) -> Reply {
        let authorization = asked.headers.get("authorization");
        let signed = authorization.is_some_and(|a| a.starts_with("AWS4-HMAC-SHA256 Credential=KEY/"));
        if self.signed.load(SeqCst) != signed || (!signed && authorization.is_some()) {
            return error(403, "AccessDenied");
        }
        let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
        let Some(key) = path.strip_prefix("/bucket") else { return error(404, "NoSuchBucket") };
        let key = key.trim_start_matches('/').replace("%20", " ");
        if query.contains("list-type=2") {
            return (200, Vec::new(), self.list(query).into_bytes());
        }
        let objects = self.objects.lock().unwrap();
        let Some(bytes) = objects.get(&key) else { return error(404, "NoSuchKey") };
        let tag = format!("\"{:x}\"", bytes.iter().fold(7u64, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(*b))));
        if asked.headers.get("if-match").is_some_and(|wanted| *wanted != tag) {
            return error(412, "PreconditionFailed");
        }
        let mut headers = vec![("ETag".to_owned(), tag), ("Last-Modified".to_owned(), support::DATE.to_owned())];
        match asked.range() {
            None => {
                headers.push(("Content-Length".into(), bytes.len().to_string()));
                (200, headers, bytes.clone())
            }
            Some((begin, _)) if begin >= bytes.len() => {
                headers.push(("Content-Range".into(), format!("bytes */{}", bytes.len())));
                (416, headers, b"<Error><Code>InvalidRange</Code></Error>".to_vec())
            }
            Some((begin, last)) => {
                let end = (last + 1).min(bytes.len());
                headers.push(("Content-Range".into(), format!("bytes {begin}-{}/{}", end - 1, bytes.len())));
                (206, headers, bytes[begin..end].to_vec())
            }
        }
    }

    /// Pages of two names.
    fn list(&self, query: &str) -> String {
        let of = |name: &str| {
            let value = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
            value.unwrap_or_default().replace("%2F", "/")
        };
        let (prefix, after) = (of("prefix"), of("continuation-token"));
        let mut names: Vec<(String, Option<usize>)> = Vec::new();
        for (key, bytes) in self.objects.lock().unwrap().iter() {
            let Some(rest) = key.strip_prefix(&prefix) else { continue };
            match rest.split_once('/') {
                Some((folder, _)) => names.push((format!("{prefix}{folder}/"), None)),
                None => names.push((key.clone(), Some(bytes.len()))),
            }
        }
        names.dedup();
        names.retain(|(name, _)| *name > after);
        let more = names.len() > 2;
        names.truncate(2);
        let next = names.last().filter(|_| more).map(|(name, _)| name.clone());
        let items = names.iter().map(|(name, size)| match size {
            None => format!("<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>"),
            Some(size) => format!(
                "<Contents><Key>{name}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>\
                 <ETag>\"a\"</ETag><Size>{size}</Size></Contents>"
            ),
        });
        let token = next.map(|name| format!("<NextContinuationToken>{name}</NextContinuationToken>"));
        format!(
            "<ListBucketResult><Name>bucket</Name><IsTruncated>{more}</IsTruncated>{}{}</ListBucketResult>",
            items.collect::<String>(),
            token.unwrap_or_default()
        )
    }
}

fn stat(url: &str) -> Result<place::FileStat, PageErrorKind> {
    place::stat(&[PathBuf::from(url)]).remove(0)
}

#[test]
fn a_bucket_is_a_place() {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
        std::env::remove_var(name);
    }
    let server = Server::start();
    let bucket = Arc::new(FakeBucket::default());
    bucket.signed.store(true, SeqCst);
    let replying = bucket.clone();
    let handler: Handler = Box::new(move |asked| Some(replying.reply(asked)));
    server.handle(handler);
    std::env::set_var("AWS_CONFIG_FILE", "/nonexistent");
    std::env::set_var("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent");
    std::env::set_var("AWS_ENDPOINT_URL", server.url("").trim_end_matches('/'));
    std::env::set_var("AWS_ACCESS_KEY_ID", "KEY");
    std::env::set_var("AWS_SECRET_ACCESS_KEY", "TOPSECRET");
    std::env::set_var("AWS_REGION", "eu-west-1");
    remote::register();
    let of = |url: &str| place::of(Path::new(url)).unwrap().unwrap();

    let number = AtomicUsize::new(0);
    conformance::check(|bytes| {
        let key = format!("a b/f{}", number.fetch_add(1, SeqCst));
        bucket.objects.lock().unwrap().insert(key.clone(), bytes);
        let url = format!("s3://bucket/{key}");
        Arc::new(PlaceFile::new(of(&url), Path::new(&url)))
    });

    let put = |key: &str| bucket.objects.lock().unwrap().insert(key.into(), key.as_bytes().to_vec());
    for key in ["wing.zarr/zarr.json", "wing.zarr/c/0", "wing.zarr/c/1", "wing.zarr/q/0", "x", "y"] {
        put(key);
    }
    let names = |url: &str, most: usize| {
        let mut found = place::list(Path::new(url), most)?;
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok::<Vec<Entry>, PageErrorKind>(found)
    };
    let entry = |name: &str, kind, size| Entry { name: name.into(), kind, size };
    let expected =
        [entry("c", FileKind::Folder, 0), entry("q", FileKind::Folder, 0), entry("zarr.json", FileKind::File, 19)];
    assert_eq!(names("s3://bucket/wing.zarr", 3).as_deref(), Ok(&expected[..]));
    assert_eq!(names("s3://bucket/wing.zarr/", 9).as_deref(), Ok(&expected[..]));
    assert_eq!(names("s3://bucket/wing.zarr", 2), Err(PageErrorKind::TooMany { most: 2 }));
    assert_eq!(names("s3://bucket/none", 2), Err(PageErrorKind::Missing));
    assert_eq!(names("s3://bucket", 9).unwrap().len(), 4);
    assert!(matches!(names("s3://other/a", 9), Err(PageErrorKind::Protocol { .. })));

    assert_eq!(stat("s3://bucket/wing.zarr").unwrap().kind, FileKind::Folder);
    assert_eq!(stat("s3://bucket/wing.zarr/").unwrap().kind, FileKind::Folder);
    assert_eq!(stat("s3://bucket/wing.zarr/c/0").unwrap().version.size, 13);
    assert_eq!(stat("s3://bucket/wing.zarr/c/7"), Err(PageErrorKind::Missing));
    assert_eq!(stat("s3://bucket/wing"), Err(PageErrorKind::Missing));
    assert_eq!(FileReader::open(Path::new("s3://bucket/none")).err(), Some(PageErrorKind::Missing));
    let Err(PageErrorKind::Protocol { message, .. }) = FileReader::open(Path::new("s3://other/a")) else {
        panic!("no such bucket")
    };
    assert!(message.contains("NoSuchBucket"), "{message}");

    // A replaced object, while it is read.
    let url = "s3://bucket/y";
    let reader = PlaceFile::new(of(url), Path::new(url));
    assert_eq!(pager::source::Source::size(&reader), Ok(1));
    bucket.objects.lock().unwrap().insert("y".into(), vec![7; 1]);
    let opened = FileReader::open(Path::new(url)).and_then(|file| file.read_up_to(0, 1));
    assert!(matches!(&opened, Err(PageErrorKind::Changed { is, .. }) if is.contains("of 1 bytes")), "{opened:?}");

    // Wrong and missing credentials.
    let signed = of("s3://bucket/x");
    bucket.signed.store(false, SeqCst);
    let Err(PageErrorKind::Unauthorized { server: name, message }) = stat("s3://bucket/zz") else { panic!("refused") };
    assert!(name == "s3://bucket" && message.contains("AWS_ACCESS_KEY_ID"), "{name}: {message}");
    let Err(PageErrorKind::Unauthorized { message, .. }) = FileReader::open(Path::new("s3://bucket/zzz")) else {
        panic!("refused")
    };
    assert!(message.contains("AccessDenied") && !message.to_lowercase().contains("secret"), "{message}");
    std::env::set_var("AWS_NO_SIGN_REQUEST", "YES");
    assert!(!Arc::ptr_eq(&signed, &of("s3://bucket/x")), "other credentials, another place");
    assert_eq!(stat("s3://bucket/x").unwrap().version.size, 1);
    for name in ["AWS_NO_SIGN_REQUEST", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
        std::env::remove_var(name);
    }
    let begun = std::time::Instant::now();
    assert_eq!(stat("s3://bucket/wing.zarr/q/0").unwrap().version.size, 13, "without any credentials");
    assert!(begun.elapsed().as_secs_f64() < 1.0);
    bucket.signed.store(true, SeqCst);
    let Err(PageErrorKind::Unauthorized { message, .. }) = stat("s3://bucket/zzzz") else { panic!("refused") };
    assert!(message.contains("not signed"), "{message}");

    // Keys of a profile.
    let folder = std::env::temp_dir().join(format!("farfield-s3-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("credentials");
    std::fs::write(&file, "[lab]\naws_access_key_id = KEY\naws_secret_access_key = TOPSECRET\n").unwrap();
    std::env::set_var("AWS_SHARED_CREDENTIALS_FILE", &file);
    std::env::set_var("AWS_PROFILE", "lab");
    assert_eq!(stat("s3://bucket/wing.zarr/c/1").unwrap().version.size, 13);
    std::env::set_var("AWS_PROFILE", "none");
    assert!(matches!(stat("s3://bucket/zz0"), Err(PageErrorKind::Unsupported(m)) if m.contains("AWS_PROFILE")));
    std::fs::remove_dir_all(&folder).unwrap();
}
