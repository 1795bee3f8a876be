//! The entry point of fuzzers.

use super::meta::MetaFile;
use super::options::{Format, Kind, Plot3dOptions};
use super::settings::Plot3dSettings;
use super::{ascii, names, ordering, reading, sniff};
use std::path::Path;

/// Passes bytes through every parser of this module. Parsers may refuse them but must not panic, and memory stays
/// within some thousand times their number.
pub fn fuzz_sniff(bytes: &[u8]) {
    let path = Path::new("fuzz");
    let mut free = |_, _| true;
    for kind in [Kind::Grid, Kind::Q, Kind::Function] {
        for format in [None, Some(Format::Ascii), Some(Format::Binary)] {
            let options = Plot3dOptions { format, ..Plot3dOptions::default() };
            let asked = reading::ReadRequest { kind, options: &options, expected: None };
            let Ok((fits, not)) = sniff::candidates(&bytes, path, asked, &mut free) else { continue };
            if fits.is_empty() {
                let _said = sniff::nothing_fits(&bytes, path, asked, &not, &mut free);
                continue;
            }
            let Ok(sniff::Sniffed { reading, .. }) = sniff::choose(&bytes, path, &options, fits) else { continue };
            if reading.encoding.format == Format::Ascii {
                // Text that adds up is converted, and the output discarded.
                let _ = ascii::convert(&bytes, path, &reading, path, &mut std::io::sink(), &mut free);
                continue;
            }
            let _ = ordering::order(&bytes, &reading);
            for n in 0..reading.zones.len().min(4) {
                if kind == Kind::Q {
                    let _ = reading.header(&bytes, n);
                }
                let data = &reading.zones[n].data;
                let mut seen = 0;
                data.runs(0, data.len(), &mut |run| seen += run.len);
                assert_eq!(seen, data.len(), "runs cover the payload");
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Plot3dSettings::parse(path, text);
        let _ = MetaFile::parse(path, text);
        let _ = names::group(&names::lines(text), 5, 3);
    }
}
