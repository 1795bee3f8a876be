//! The request for a conversion of zones.

use crate::base::Base;
use crate::input::ConvertInput;
use crate::options::ConvertOptions;
use field::paging::Paging;
use std::path::Path;

/// The input and the result of a conversion.
pub(crate) struct ConvertRequest<'a> {
    pub input: &'a ConvertInput,
    pub dst: &'a Path,
    pub options: &'a ConvertOptions,
    /// The pages of data that stay in place: then only ranges and boxes are made.
    pub pages: Option<&'a [Paging]>,
    /// The store with the first steps.
    pub base: Option<&'a Base>,
}

impl<'a> ConvertRequest<'a> {
    /// For all steps, with the data.
    pub fn new(input: &'a ConvertInput, dst: &'a Path, options: &'a ConvertOptions) -> Self {
        Self { input, dst, options, pages: None, base: None }
    }
}
