use super::super::origin::OriginOptions;
use super::*;

fn table(name: &str, most_open: usize) -> (std::path::PathBuf, FileTable) {
    let folder = std::env::temp_dir().join(format!("farfield-served-files-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for n in 0..5u8 {
        std::fs::write(folder.join(format!("f{n}")), [n; 1000]).unwrap();
    }
    let served = [("data".to_owned(), folder.clone())];
    let (origins, local) = Origins::open(&served, &OriginOptions::default()).unwrap();
    let names = Names::open(&local).unwrap();
    (folder, FileTable { most_open, ..FileTable::new(names, origins) })
}

fn read(files: &FileTable, served: &Arc<ServedFile>) -> Result<Vec<u8>, State> {
    let mut out = Vec::with_capacity(100);
    match files.read(served, 900, 100, &mut out, false)? {
        Filled::All(n) => assert_eq!(n, out.len()),
        Filled::Waits(_) => panic!("this read waits"),
    }
    Ok(out)
}

#[test]
fn files_beyond_the_limit_are_opened_again_in_their_version() {
    let (folder, files) = table("limit", 2);
    let open = |n: u8| files.open(&format!("data/f{n}"), false).unwrap_or_else(|e| panic!("{n}: {e:?}"));
    let served: Vec<Arc<ServedFile>> = (0..5).map(open).collect();
    let count = || served.iter().filter(|file| file.open.lock().unwrap().is_some()).count();
    for round in 0..3 {
        for (n, file) in served.iter().enumerate() {
            assert_eq!(read(&files, file), Ok(vec![n as u8; 100]), "round {round}");
            assert!(count() <= 2);
        }
    }
    // A second client shares the file, and its descriptor.
    assert!(Arc::ptr_eq(&open(4), &served[4]));
    // What changes while it is closed has changed.
    assert!(served[0].open.lock().unwrap().is_none());
    std::fs::write(folder.join("f0"), [9; 1000]).unwrap();
    assert_eq!(read(&files, &served[0]), Err(State::Changed));
    assert!(files.now(&served[0]).unwrap() != served[0].told);
    std::fs::remove_file(folder.join("f1")).unwrap();
    assert_eq!(read(&files, &served[1]), Err(State::Missing));
    let again = open(0);
    assert_eq!(read(&files, &again), Ok(vec![9; 100]));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_read_ends_at_the_end() {
    let (folder, files) = table("end", 2);
    let served = files.open("data/f3", false).unwrap_or_else(|e| panic!("{e:?}"));
    for (offset, len, have) in [(990, 100, 10), (1000, 1, 0), (1 << 40, 5, 0), (u64::MAX - 2, 100, 0), (0, 0, 0)] {
        let mut out = Vec::with_capacity(len);
        let Ok(Filled::All(n)) = files.read(&served, offset, len, &mut out, false) else { panic!("{offset}") };
        assert_eq!((n, out.len()), (have, have), "{len} bytes at {offset}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
