//! What a dataset is assembled from.

use super::reading::{Encoding, FileReading};
use super::settings::Plot3dSettings;
use crate::error::FieldError;
use std::path::PathBuf;

/// A binary file (what the user gave, or what its text was converted to) and how it is read.
#[derive(Clone, Debug)]
pub(super) struct BinaryFile {
    pub path: PathBuf,
    pub reading: FileReading,
}

/// A file that was opened.
#[derive(Clone, Debug)]
pub(super) struct OpenedFile {
    /// How the user's file is written.
    pub text: Encoding,
    /// The user's file.
    pub given: PathBuf,
    pub part: BinaryFile,
}

/// Everything that makes a dataset.
pub(super) struct Parts {
    pub grids: Vec<OpenedFile>,
    pub q: Vec<OpenedFile>,
    pub functions: Vec<OpenedFile>,
    /// Names of functions.
    pub names: Vec<String>,
    pub steps: usize,
    pub times: Option<Vec<f64>>,
    /// Why times that files give are not used.
    pub untimed: String,
    /// How far apart the steps are, where the user says so.
    pub dt: Option<f64>,
    pub settings: Plot3dSettings,
    /// Where they stand.
    pub settings_path: PathBuf,
    pub guessed: Vec<String>,
    pub order_assumed: Vec<String>,
}

impl Parts {
    /// An error that the settings have caused.
    pub fn in_settings(&self, message: String) -> FieldError {
        FieldError::format(&self.settings_path, message)
    }
}
