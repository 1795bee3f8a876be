//! A real web server, where there is one: nginx.

mod support;

use pager::place::{self, FileKind};
use pager::source::conformance;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use support::reads::{register, source};

struct Nginx {
    child: Child,
    folder: PathBuf,
    port: u16,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
        let _gone = std::fs::remove_dir_all(&self.folder);
    }
}

/// `None`: there is no nginx here.
fn start() -> Option<Nginx> {
    let folder = std::env::temp_dir().join(format!("farfield-nginx-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("data")).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let at = folder.display();
    let paths =
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|name| format!("{name}_temp_path {at}/{name};"));
    let settings = format!(
        "daemon off; master_process off; pid {at}/pid; error_log {at}/log; events {{}}\n\
         http {{ access_log off; {} server {{ listen 127.0.0.1:{port}; root {at}/data; }} }}",
        paths.join(" ")
    );
    let file = folder.join("nginx.conf");
    std::fs::write(&file, settings).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-p").arg(&folder).arg("-c").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(child) = command.spawn() else {
        std::fs::remove_dir_all(&folder).unwrap();
        return None;
    };
    let nginx = Nginx { child, folder, port };
    let begun = std::time::Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(10), "nginx does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(nginx)
}

#[test]
fn nginx_is_a_place() {
    register();
    let Some(nginx) = start() else {
        eprintln!("skipped: there is no nginx (apt-get install nginx-light)");
        return;
    };
    let number = AtomicUsize::new(0);
    conformance::check(|bytes| {
        let name = format!("f{}", number.fetch_add(1, SeqCst));
        std::fs::write(nginx.folder.join("data").join(&name), bytes).unwrap();
        source(&format!("http://127.0.0.1:{}/{name}", nginx.port))
    });
    std::fs::create_dir(nginx.folder.join("data/wing zarr")).unwrap();
    std::fs::write(nginx.folder.join("data/wing zarr/zarr.json"), "{}").unwrap();
    let names = ["f0", "f1", "wing zarr", "wing zarr/", "wing zarr/zarr.json", "none", "none/"];
    let urls: Vec<PathBuf> =
        names.iter().map(|name| format!("http://127.0.0.1:{}/{name}", nginx.port).into()).collect();
    let found = place::stat(&urls);
    let kinds: Vec<_> =
        found.iter().map(|found| found.as_ref().ok().map(|stat| (stat.kind, stat.version.size))).collect();
    let (file, folder) = (|size| Some((FileKind::File, size)), Some((FileKind::Folder, 0)));
    assert_eq!(kinds, [file(300_001), file(0), folder, folder, file(2), None, None], "{found:?}");
}
