//! From the order of files, a plane of values a component, to the order of frames, all components of a point together.

/// Puts `planes` (`components` planes of as many elements of `size` bytes) point by point into `frame`. Bytes beyond the whole
/// points of the shorter side stay.
pub fn interleave(planes: &[u8], frame: &mut [u8], components: usize, size: usize) {
    match size {
        4 => spread::<4>(planes, frame, components),
        8 => spread::<8>(planes, frame, components),
        _ => spread::<1>(planes, frame, components),
    }
}

fn spread<const N: usize>(planes: &[u8], frame: &mut [u8], components: usize) {
    let (from, to) = (planes.as_chunks::<N>().0, frame.as_chunks_mut::<N>().0);
    let points = from.len().min(to.len()) / components.max(1);
    if components == 3 {
        // The arrays that lines are traced through: bounds known, so that the loop is copies and nothing else.
        let ((x, rest), to) = (from.split_at(points), to.as_chunks_mut::<3>().0);
        let (y, z) = rest.split_at(points);
        for (((to, x), y), z) in to.iter_mut().zip(x).zip(y).zip(z) {
            *to = [*x, *y, *z];
        }
        return;
    }
    for (n, point) in to.chunks_exact_mut(components.max(1)).enumerate().take(points) {
        for (c, to) in point.iter_mut().enumerate() {
            *to = from[c * points + n];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_value_is_where_its_point_is(components in 1usize..7, points in 1usize..50, size in prop::sample::select(vec![1usize, 4, 8])) {
            let planes: Vec<u8> = (0..components * points * size).map(|n| (n * 7 % 251) as u8).collect();
            let mut frame = vec![0; planes.len()];
            interleave(&planes, &mut frame, components, size);
            for c in 0..components {
                for n in 0..points {
                    let want = &planes[(c * points + n) * size..][..size];
                    prop_assert_eq!(&frame[(n * components + c) * size..][..size], want);
                }
            }
        }
    }
}
