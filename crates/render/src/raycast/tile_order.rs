//! The order of tiles along a Hilbert curve, so that concurrent tiles are neighbours and share pages.

/// Upper left pixels of the tiles of `edge` pixels that cover `rows` of a picture. Tiles without `wanted` pixels are
/// left out.
pub(super) fn tiles(
    width: u32,
    rows: core::ops::Range<u32>,
    edge: u32,
    wanted: Option<&(dyn Fn(u32, u32) -> bool + Sync)>,
) -> Vec<[u32; 2]> {
    let (across, down) = (width.div_ceil(edge), (rows.end - rows.start).div_ceil(edge));
    let side = across.max(down).max(1).next_power_of_two();
    let mut at: Vec<(u64, [u32; 2])> = Vec::with_capacity(across as usize * down as usize);
    for y in 0..down {
        for x in 0..across {
            at.push((along(side, x, y), [x * edge, rows.start + y * edge]));
        }
    }
    at.sort_unstable();
    let any = |[x, y]: &[u32; 2], wanted: &(dyn Fn(u32, u32) -> bool + Sync)| {
        let mut down = *y..(y + edge).min(rows.end);
        down.any(|y| (*x..(x + edge).min(width)).any(|x| wanted(x, y)))
    };
    at.into_iter().map(|(_, t)| t).filter(|t| wanted.is_none_or(|w| any(t, w))).collect()
}

/// Position of (x, y) along the curve through a square of `side`, a power of two.
fn along(side: u32, mut x: u32, mut y: u32) -> u64 {
    let (mut d, mut s) = (0u64, side / 2);
    while s > 0 {
        let (rx, ry) = (u32::from(x & s > 0), u32::from(y & s > 0));
        d += u64::from(s) * u64::from(s) * u64::from((3 * rx) ^ ry);
        if ry == 0 {
            if rx == 1 {
                (x, y) = ((side - 1) - x, (side - 1) - y);
            }
            (x, y) = (y, x);
        }
        s /= 2;
    }
    d
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_follow_each_other() {
        let t = tiles(256, 0..256, 16, None);
        assert_eq!(t.len(), 256);
        for w in t.windows(2) {
            assert_eq!(w[0][0].abs_diff(w[1][0]) + w[0][1].abs_diff(w[1][1]), 16, "{w:?}");
        }
        let odd = tiles(100, 32..70, 16, None);
        assert_eq!(odd.len(), 7 * 3);
        assert_eq!(tiles(100, 32..70, 16, Some(&|x, y| (x, y) == (99, 69))), [[96, 64]]);
        assert!(odd.iter().all(|t| t[0] < 100 && (32..70).contains(&t[1])));
    }
}
