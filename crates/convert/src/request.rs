//! What is asked of a conversion of zones.

use crate::base::Base;
use crate::input::ConvertInput;
use crate::options::ConvertOptions;
use field::paging::Paging;
use std::path::Path;

/// What a conversion is of, and what it makes.
pub(crate) struct ConvertRequest<'a> {
    pub input: &'a ConvertInput,
    pub dst: &'a Path,
    pub options: &'a ConvertOptions,
    /// The pages of data that stay where they are: then only ranges and boxes are made.
    pub pages: Option<&'a [Paging]>,
    /// The store that has the first steps already.
    pub base: Option<&'a Base>,
}

impl<'a> ConvertRequest<'a> {
    /// Of all steps, data and all.
    pub fn new(input: &'a ConvertInput, dst: &'a Path, options: &'a ConvertOptions) -> Self {
        Self { input, dst, options, pages: None, base: None }
    }
}
