//! The lines of a spool in a file of any format.

use super::totals::LineStride;
use super::{csv, frames, npz, parquet, vtp, LineSpool, OutputError, OutputFile, OutputFormat, Provenance, SpoolStats};
use std::ops::ControlFlow;

impl LineSpool {
    /// Writes all lines in seed order and gives the file its name.
    ///
    /// A `partial` result may lack lines: its arrays say so, and a seed without a line has the reason `unfinished`.
    /// `watch` gets the number of written lines and of all, now and then. When it breaks, no part of the file is left.
    /// The spool can be written again to another file, unless it stopped while pieces of lines were joined.
    ///
    /// # Errors
    /// [`OutputError::Incomplete`] when lines are missing and `partial` is false; others when the file cannot be written.
    pub fn write(
        &mut self,
        output: OutputFile,
        provenance: &Provenance,
        partial: bool,
        watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<SpoolStats, OutputError> {
        if !partial {
            self.check_complete()?;
        }
        let seeds = self.seeds();
        self.gather(&mut || match watch(0, seeds) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(OutputError::Cancelled { path: output.path().to_path_buf() }),
        })?;
        match output.format() {
            OutputFormat::Npz => npz::write(self, &output, provenance, partial, watch)?,
            OutputFormat::Vtp => vtp::write(self, LineStride::ALL, &output, provenance, partial, watch)?,
            OutputFormat::Csv => csv::write(self, &output, watch)?,
            OutputFormat::Parquet => parquet::write(self, &output, provenance, partial, watch)?,
            OutputFormat::Pvd => {
                frames::write(self, output, provenance, partial, watch)?;
                return Ok(self.stats());
            }
            OutputFormat::Ply | OutputFormat::Glb => {
                return Err(OutputError::Target {
                    path: output.path().to_path_buf(),
                    reason: "lines are written as .vtp, .npz, .parquet, .pvd or .csv".into(),
                })
            }
        }
        output.commit()?;
        Ok(self.stats())
    }
}
