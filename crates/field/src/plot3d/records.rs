//! Division of a zone into Fortran records.
//!
//! The manual writes a zone with one statement (WHOLE), or one a plane (PLANES), and each statement gives a record.
//! Other writers use a statement for each of x, y, z or the q variables, whole or plane by plane, or one for iblank.
//! The payload is the same and only record marks differ, so only the walk through a file depends on them.

use super::options::{Format, Order};
use super::reading::Encoding;

/// The part of a zone in one record.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Records {
    /// The whole zone. Also used for files without records.
    Zone,
    /// Each plane, with all its arrays.
    Plane,
    /// Each array: x, y, z, iblank, or a variable.
    Array,
    /// Each plane of each array.
    ArrayPlane,
    /// The coordinates, then iblank: of the zone in WHOLE order, of each plane in PLANES order.
    Coordinates,
}

/// One record of a zone's data.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct ZoneRecord {
    /// Its number in the zone.
    pub number: u64,
    /// Its length without marks.
    pub bytes: u64,
    /// Plane k and array, if the record holds only one.
    pub plane: Option<u64>,
    pub array: Option<u64>,
}

impl Records {
    /// The orders and records in which files of a format come.
    pub(super) fn all(format: Format, iblank: bool) -> &'static [(Order, Self)] {
        use Order::{Planes, Whole};
        const ALL: [(Order, Records); 8] = [
            (Whole, Records::Zone),
            (Planes, Records::Plane),
            (Planes, Records::Zone),
            (Whole, Records::Array),
            (Whole, Records::ArrayPlane),
            (Planes, Records::ArrayPlane),
            (Whole, Records::Coordinates),
            (Planes, Records::Coordinates),
        ];
        match (format, iblank) {
            (Format::Fortran, true) => &ALL,
            (Format::Fortran, false) => &ALL[..6],
            _ => &[(Whole, Records::Zone), (Planes, Records::Zone)],
        }
    }

    /// Description for `info`, unless the order implies it.
    pub(super) const fn describe(self) -> Option<&'static str> {
        match self {
            Self::Zone | Self::Plane => None,
            Self::Array => Some("a record for each array"),
            Self::ArrayPlane => Some("a record for each plane of each array"),
            Self::Coordinates => Some("iblank in a record of its own"),
        }
    }

    /// The records of a zone, in the order of writing. The zone has `planes` planes of `points` points, and `variables`
    /// floating-point variables. The zone's bytes are known to fit 64 bits.
    pub(super) fn parts(
        self,
        e: &Encoding,
        points: u64,
        planes: u64,
        variables: u64,
    ) -> Box<dyn Iterator<Item = ZoneRecord>> {
        let (width, iblank) = (e.precision.bytes(), u64::from(e.iblank));
        let arrays = variables + iblank;
        let all = (variables * width + iblank * 4) * points;
        let array = move |v: u64| if v < variables { width * points } else { 4 * points };
        let part = |number, bytes, plane, array| ZoneRecord { number, bytes, plane, array };
        // Coordinates, then iblank.
        let two = [variables * width * points, 4 * points];
        let whole = e.order == Order::Whole;
        match self {
            Self::Zone => Box::new(std::iter::once(part(0, all * planes, None, None))),
            Self::Plane => Box::new((0..planes).map(move |k| part(k, all, Some(k), None))),
            Self::Array => Box::new((0..arrays).map(move |v| part(v, array(v) * planes, None, Some(v)))),
            Self::ArrayPlane => Box::new((0..arrays * planes).map(move |n| {
                let (v, k) = if whole { (n / planes, n % planes) } else { (n % arrays, n / arrays) };
                part(n, array(v), Some(k), Some(v))
            })),
            Self::Coordinates if whole => {
                Box::new((0..2).map(move |n| part(n, two[n as usize] * planes, None, (n == 1).then_some(variables))))
            }
            Self::Coordinates => Box::new(
                (0..2 * planes)
                    .map(move |n| part(n, two[(n % 2) as usize], Some(n / 2), (n % 2 == 1).then_some(variables))),
            ),
        }
    }
}

impl ZoneRecord {
    /// Name of the record for errors: `plane 3 of array 2 of zone 1`.
    pub(super) fn words(&self, e: &Encoding, zone: usize) -> String {
        let mut words = String::new();
        if let Some(k) = self.plane {
            words.push_str(&format!("plane {} of ", k + 1));
        }
        match self.array {
            Some(_) if e.records == Records::Coordinates => words.push_str("iblank of "),
            Some(v) => words.push_str(&format!("array {} of ", v + 1)),
            None if e.records == Records::Coordinates => words.push_str("the coordinates of "),
            None => {}
        }
        words + &format!("zone {}", zone + 1)
    }
}
