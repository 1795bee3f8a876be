//! A conversion of zones: its input, target, options and base.

use crate::base::Base;
use crate::input::ConvertInput;
use crate::options::ConvertOptions;
use field::paging::Paging;
use std::path::Path;

/// A conversion of zones, the input of a plan.
pub(crate) struct ConvertJob<'a> {
    pub input: &'a ConvertInput,
    pub dst: &'a Path,
    pub options: &'a ConvertOptions,
    /// The pages of data that stay in place: then only ranges and boxes are made.
    pub pages: Option<&'a [Paging]>,
    /// The store with the first steps.
    pub base: Option<&'a Base>,
}

impl<'a> ConvertJob<'a> {
    /// For all steps, with the data.
    pub fn new(input: &'a ConvertInput, dst: &'a Path, options: &'a ConvertOptions) -> Self {
        Self { input, dst, options, pages: None, base: None }
    }
}
