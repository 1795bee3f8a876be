//! Whole conversions: every option, limit and number of workers.

use super::*;

#[test]
fn every_codec_page_and_layout_reads_back() {
    let dir = TestDir::new("round");
    let zones = [[33, 17, 9], [5, 1, 1], [21, 6, 1], [1, 1, 1], [40, 3, 23]];
    for dtype in [DType::Float32, DType::Float64] {
        let c = case(&zones, dtype, 3);
        for (n, page) in [4, 8, 16, 32, 64].into_iter().enumerate() {
            for layout in [Layout::Cubed, Layout::Flat] {
                let dst = dir.path("s.zarr");
                let o = ConvertOptions { overwrite: true, ..options(page, layout, CODECS[n % 3]) };
                convert(&c.input, &dst, &o, &free, &mut |_| true).unwrap();
                check_store(&c, &dst);
            }
        }
        for codec in CODECS {
            let dst = dir.path("s.zarr");
            convert(
                &c.input,
                &dst,
                &ConvertOptions { overwrite: true, ..options(8, Layout::Cubed, codec) },
                &free,
                &mut |_| true,
            )
            .unwrap();
            check_store(&c, &dst);
        }
    }
    let flat = case(&[[19, 14, 1], [7, 8, 1]], DType::Float64, 2);
    let dst = dir.path("flat.zarr");
    convert(&flat.input, &dst, &options(4, Layout::Cubed, Codec::None), &free, &mut |_| true).unwrap();
    check_store(&flat, &dst);
}

#[test]
fn the_bytes_do_not_depend_on_limit_or_workers() {
    let dir = TestDir::new("limits");
    let c = case(&[[70, 41, 37], [9, 9, 9]], DType::Float32, 3);
    let mut first = None;
    for layout in [Layout::Cubed, Layout::Flat] {
        for (limit, workers) in [(1u64 << 30, 1), (64 << 20, 3), (12 << 20, 2), (9 << 20, 7)] {
            let dst = dir.path("s.zarr");
            let o = ConvertOptions {
                memory_limit: limit,
                workers,
                overwrite: true,
                ..options(8, layout, Codec::Zstd { level: 2 })
            };
            match convert(&c.input, &dst, &o, &free, &mut |_| true) {
                Ok(r) => assert!(r.memory <= limit),
                Err(FieldError::LimitTooSmall { needs, .. }) => {
                    assert!(needs > limit);
                    convert(&c.input, &dst, &ConvertOptions { memory_limit: needs, ..o }, &free, &mut |_| true)
                        .unwrap();
                }
                Err(e) => panic!("{e}"),
            }
            let d = digest(&dst);
            match &first {
                Some((l, f)) if *l == layout => assert!(*f == d, "{limit} {workers}"),
                _ => {
                    check_store(&c, &dst);
                    first = Some((layout, d));
                }
            }
        }
    }
    // The limit named by the error suffices, whatever is larger: pages are then read one at a time.
    for layout in [Layout::Cubed, Layout::Flat] {
        let mut o = options(32, layout, Codec::None);
        convert(&c.input, &dir.path("t"), &o, &free, &mut |_| true).unwrap();
        let whole = digest(&dir.path("t"));
        o.memory_limit = 1000;
        o.overwrite = true;
        let Err(FieldError::LimitTooSmall { needs, .. }) = convert(&c.input, &dir.path("t2"), &o, &free, &mut |_| true)
        else {
            panic!()
        };
        assert!(!dir.path("t2.partial").exists());
        o.memory_limit = needs;
        assert_eq!(convert(&c.input, &dir.path("t2"), &o, &free, &mut |_| true).unwrap().memory, needs);
        assert!(digest(&dir.path("t2")) == whole);
        // Part of the limit is in use elsewhere.
        o.memory_limit = 1 << 30;
        let used = |n: u64| -> Result<Box<dyn Any>, FieldError> {
            if n > needs * 2 {
                return Err(FieldError::LimitTooSmall { limit: needs * 2, needs: n, what: "x".into() });
            }
            Ok(Box::new(()))
        };
        assert!(convert(&c.input, &dir.path("t2"), &o, &used, &mut |_| true).unwrap().memory <= needs * 2);
        assert!(digest(&dir.path("t2")) == whole);
        std::fs::remove_dir_all(dir.path("t")).unwrap();
    }
}

#[test]
fn an_index_alone_has_the_same_levels() {
    let dir = TestDir::new("index");
    let c = case(&[[23, 18, 9], [5, 4, 1]], DType::Float64, 3);
    let o = options(8, Layout::Cubed, Codec::None);
    convert(&c.input, &dir.path("s.zarr"), &o, &free, &mut |_| true).unwrap();
    let store = Store::open(&dir.path("s.zarr")).unwrap();
    build_index(&c.input, &store.paging(), &dir.path("index"), 64 << 20, 2, &free, &mut |_| true).unwrap();
    let index = Store::open(&dir.path("index")).unwrap();
    assert!(!index.root.data);
    let mut pager = MemoryRegistrar::default();
    let ids = index.register(&mut pager);
    assert!(ids[0].arrays.is_empty());
    for z in 0..2 {
        check_levels(&c, &pager, &ids, &index, z);
    }
    let (a, b) = (digest(&dir.path("s.zarr")), digest(&dir.path("index")));
    assert!(b.iter().filter(|(n, _)| *n != "zarr.json").all(|(n, v)| a.get(n) == Some(v)));
    assert!(validated(&dir.path("index")).unwrap().is_ok());
    // The second time it exists already; with other pages it is made again.
    assert_eq!(
        build_index(&c.input, &store.paging(), &dir.path("index"), 64 << 20, 2, &free, &mut |_| true)
            .unwrap()
            .resumed_units,
        12
    );
    let other = field::store::layout::choose_pages(&c.input.catalog, 4, Layout::Flat);
    assert_eq!(
        build_index(&c.input, &other, &dir.path("index"), 64 << 20, 2, &free, &mut |_| true).unwrap().resumed_units,
        0
    );
}
