//! The parts of a dataset before assembly.

use super::reading::{Encoding, FileReading};
use super::settings::Plot3dSettings;
use crate::error::FieldError;
use std::path::PathBuf;

/// A binary file (the user's own, or its converted text) and its reading.
#[derive(Clone, Debug)]
pub(super) struct BinaryFile {
    pub path: PathBuf,
    pub reading: FileReading,
}

/// An opened file.
#[derive(Clone, Debug)]
pub(super) struct OpenedFile {
    /// Encoding of the user's file.
    pub text: Encoding,
    /// The user's file.
    pub given: PathBuf,
    pub part: BinaryFile,
}

/// All parts of a dataset.
pub(super) struct Parts {
    pub grids: Vec<OpenedFile>,
    pub q: Vec<OpenedFile>,
    pub functions: Vec<OpenedFile>,
    /// Names of functions.
    pub names: Vec<String>,
    pub steps: usize,
    pub times: Option<Vec<f64>>,
    /// Why times in the files are not used.
    pub untimed: String,
    /// The interval between steps, if the user gives one.
    pub dt: Option<f64>,
    pub settings: Plot3dSettings,
    /// The file of the settings.
    pub settings_path: PathBuf,
    pub guessed: Vec<String>,
    pub order_assumed: Vec<String>,
}

impl Parts {
    /// An error that the settings cause.
    pub fn in_settings(&self, message: String) -> FieldError {
        FieldError::format(&self.settings_path, message)
    }
}
