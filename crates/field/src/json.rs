//! JSON of long lists. Items are made one by one during writing.

use serde::ser::{Serialize, Serializer};

/// A list whose iterator is made anew for each writing.
///
/// ```
/// # use field::json::Each;
/// assert_eq!(serde_json::to_string(&Each(|| (1..4).map(|n| n * n))).unwrap(), "[1,4,9]");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Each<F>(pub F);

impl<F, I> Serialize for Each<F>
where
    F: Fn() -> I,
    I: IntoIterator<Item: Serialize>,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0())
    }
}
