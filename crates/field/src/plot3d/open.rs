//! From paths to readings: which files there are, what each of them is, and which text has to be converted.

use super::ascii::Progress;
use super::assemble::{assemble, Opened, Part, Parts};
use super::bytes::FileBytes;
use super::cache::Shelf;
use super::evidence;
use super::meta::MetaFile;
use super::names;
use super::options::{Format, Kind, Order, Plot3dOptions};
use super::ordering;
use super::reading::{dims_text, Encoding, Expected, Reading};
use super::settings::{read_side_file, Plot3dSettings};
use super::sniff::{self, file_name, Sniffed};
use super::walk::Why;
use super::Plot3d;
use crate::catalog::DOUBT;
use crate::error::FieldError;
use std::path::{Path, PathBuf};

/// Coordinates and conserved variables of which fewer than this share look like such are remarked upon.
const ABSURD: f64 = 0.5;

/// The files of a dataset and what is said about them.
struct Plan {
    grids: Vec<PathBuf>,
    q: Vec<PathBuf>,
    functions: Vec<PathBuf>,
    times: Option<Vec<f64>>,
    settings: Plot3dSettings,
    /// Where the settings stand, if there are any.
    settings_path: Option<PathBuf>,
    /// Command line over settings.
    options: Plot3dOptions,
    /// What only settles ambiguities.
    hints: Plot3dOptions,
}

impl Plan {
    fn new(grid: &Path, q: &[PathBuf], functions: &[PathBuf], options: &Plot3dOptions) -> Result<Self, FieldError> {
        let (settings, settings_path) = Plot3dSettings::beside(grid)?;
        if let Some(kind @ (Kind::Q | Kind::Function)) = options.kind {
            return Err(FieldError::Usage(format!(
                "{}: a {} file is opened with its grid: GRID+{}=FILE",
                grid.display(),
                if kind == Kind::Q { "solution (q)" } else { "function" },
                if kind == Kind::Q { "q" } else { "f" },
            )));
        }
        let mut plan = Self {
            grids: vec![grid.to_owned()],
            q: q.to_owned(),
            functions: functions.to_owned(),
            times: None,
            options: options.over(&settings.options),
            hints: Plot3dOptions::default(),
            settings,
            settings_path,
        };
        if MetaFile::is(grid)? {
            let meta = MetaFile::read(grid)?;
            if !(q.is_empty() && functions.is_empty()) {
                let message = format!("{}: a .p3d file names its own q and function files", grid.display());
                return Err(FieldError::Usage(message));
            }
            if meta.binding {
                plan.options = plan.options.over(&meta.settings.options);
            } else {
                plan.hints = meta.settings.options;
            }
            plan.settings.reference.gamma = plan.settings.reference.gamma.or(meta.settings.reference.gamma);
            let gas = &mut plan.settings.reference.gas_constant;
            *gas = gas.or(meta.settings.reference.gas_constant);
            if plan.settings.names.is_empty() {
                plan.settings.names = meta.settings.names;
            }
            (plan.grids, plan.q, plan.functions) = (meta.grids, meta.q, meta.functions);
            plan.times = Some(meta.times);
        }
        plan.steps()?;
        Ok(plan)
    }

    /// Number of steps; each list has that many files, or one, or (but for grids) none.
    fn steps(&self) -> Result<usize, FieldError> {
        let steps = self.grids.len().max(self.q.len()).max(self.functions.len());
        for (what, list) in [("grid", &self.grids), ("q", &self.q), ("function", &self.functions)] {
            if list.len() > 1 && list.len() != steps {
                let message =
                    format!("there are {} {what} files for {steps} steps: give one, or one a step", list.len());
                return Err(FieldError::Usage(message));
            }
        }
        Ok(steps)
    }

    fn options(&self, kind: Kind) -> Plot3dOptions {
        let own = match kind {
            Kind::Grid => &self.settings.grid,
            Kind::Q => &self.settings.q,
            Kind::Function => &self.settings.function,
        };
        // `own` is more special than the options for all files, but the command line is above both; where they differ
        // on the same key the settings file contradicts itself or the user overrides it.
        Plot3dOptions { kind: None, ..self.options.over(own) }
    }
}

impl Plan {
    /// Names the settings in the error of a file that is not what they say: it may well be they that are wrong.
    fn blame(&self, e: FieldError) -> FieldError {
        let said: Vec<String> =
            [&self.settings.options, &self.settings.grid, &self.settings.q, &self.settings.function]
                .iter()
                .flat_map(|o| o.words())
                .map(|(key, word)| format!("{key} {word}"))
                .collect();
        match (e, &self.settings_path) {
            (FieldError::Format { path, message }, Some(settings)) if !said.is_empty() => FieldError::Format {
                path,
                message: format!("{message}\n{} says: {}", settings.display(), said.join(", ")),
            },
            (e, _) => e,
        }
    }
}

/// A file while it is found out what it is.
struct Candidate<'a> {
    path: &'a Path,
    source: FileBytes,
    /// What is kept of it, should it be text.
    shelf: Shelf,
}

impl<'a> Candidate<'a> {
    fn open(path: &'a Path, cache_dir: &Path) -> Result<Self, FieldError> {
        // Before it is read: should the file change in between, what is kept is of the time before, which never comes again.
        let shelf = Shelf::of(path, cache_dir)?;
        Ok(Self { path, source: FileBytes::open(path).map_err(|e| FieldError::io(path, e))?, shelf })
    }

    /// The readings that fit and why the others do not. Those of text are kept.
    fn look(
        &self,
        kind: Kind,
        options: &Plot3dOptions,
        expected: Option<&Expected>,
        progress: Progress<'_>,
    ) -> Result<(Vec<Reading>, Vec<Why>), FieldError> {
        let found = sniff::candidates(&self.source, self.path, kind, options, expected, progress)?;
        let mut tried = found.0.iter().map(|r| &r.encoding).chain(found.1.iter().map(|w| &w.encoding));
        if tried.any(|e| e.format == Format::Ascii) {
            self.shelf.keep(kind, options, expected, &found.0);
        }
        Ok(found)
    }

    /// Whether any reading fits.
    fn fits(
        &self,
        kind: Kind,
        options: &Plot3dOptions,
        expected: &Expected,
        progress: Progress<'_>,
    ) -> Result<bool, FieldError> {
        match self.shelf.readings(kind, options, Some(expected)) {
            Some(known) => Ok(!known.is_empty()),
            None => Ok(!self.look(kind, options, Some(expected), progress)?.0.is_empty()),
        }
    }

    /// The readings that fit, at least one.
    fn readings(
        &self,
        kind: Kind,
        options: &Plot3dOptions,
        expected: Option<&Expected>,
        progress: Progress<'_>,
    ) -> Result<Vec<Reading>, FieldError> {
        if let Some(known) = self.shelf.readings(kind, options, expected).filter(|known| !known.is_empty()) {
            return Ok(known);
        }
        let (fits, not) = self.look(kind, options, expected, progress)?;
        if fits.is_empty() {
            return Err(sniff::nothing_fits(&self.source, self.path, kind, options, expected, &not, progress));
        }
        Ok(fits)
    }
}

/// Opens files one after the other and collects what there is to say about them.
struct Opener<'a> {
    plan: &'a Plan,
    cache_dir: &'a Path,
    progress: Progress<'a>,
    guessed: Vec<String>,
    /// Format and order of the grid, where the latter is known: the files beside it are likely written by the same hand.
    order: Option<(Format, Order)>,
}

pub(super) fn open(
    grid: &Path,
    q: &[PathBuf],
    functions: &[PathBuf],
    options: &Plot3dOptions,
    cache_dir: &Path,
    progress: Progress<'_>,
) -> Result<Plot3d, FieldError> {
    let plan = Plan::new(grid, q, functions, options)?;
    let mut opener = Opener { plan: &plan, cache_dir, progress, guessed: Vec::new(), order: None };
    let [grids, q, functions] = opener.all().map_err(|e| plan.blame(e))?;
    let names = opener.function_names()?;
    let guessed = opener.guessed;
    let steps = plan.steps()?;
    let (times, settings) = (plan.times, plan.settings);
    let settings_path = plan.settings_path.unwrap_or_else(|| grid.to_owned());
    assemble(Parts { grids, q, functions, names, steps, times, settings, settings_path, guessed })
}

impl Opener<'_> {
    /// Grids, q files, function files.
    fn all(&mut self) -> Result<[Vec<Opened>; 3], FieldError> {
        let plan = self.plan;
        let first = self.grid()?;
        let reading = &first.part.reading;
        let expected = Expected { dims: reading.dims().collect(), dimension: reading.encoding.dimension };
        let mut all = [vec![first], Vec::new(), Vec::new()];
        for (kind, paths, opened) in
            [(Kind::Grid, &plan.grids, 0), (Kind::Q, &plan.q, 1), (Kind::Function, &plan.functions, 2)]
        {
            self.rest(kind, paths, &expected, &mut all[opened])?;
        }
        Ok(all)
    }

    /// The first grid. Where it can be read in several ways, the file beside it may go with only one of them.
    fn grid(&mut self) -> Result<Opened, FieldError> {
        let path = &self.plan.grids[0];
        let options = self.plan.options(Kind::Grid);
        let file = Candidate::open(path, self.cache_dir)?;
        let mut fits = file.readings(Kind::Grid, &options, None, self.progress)?;
        let mate = [(Kind::Q, self.plan.q.first()), (Kind::Function, self.plan.functions.first())];
        let mate = mate.into_iter().find_map(|(kind, path)| path.map(|p| (kind, p)));
        let mut remark = None;
        if let (true, Some((kind, mate))) = (fits.len() > 1, mate) {
            let goes = self.that_go_with(&fits, kind, mate)?;
            if let [one] = goes[..] {
                fits = vec![fits.swap_remove(one)];
                remark = Some(format!(
                    "{}: its size fits several readings; {} goes with one of them.",
                    file_name(path),
                    file_name(mate)
                ));
            }
        }
        let opened = self.finish(&file, &options, fits)?;
        self.guessed.extend(remark);
        Ok(opened)
    }

    /// Which of the readings of a grid the file `mate` goes with.
    fn that_go_with(&mut self, fits: &[Reading], kind: Kind, mate: &Path) -> Result<Vec<usize>, FieldError> {
        let mate = Candidate::open(mate, self.cache_dir)?;
        let options = self.plan.options(kind);
        let mut goes = Vec::new();
        for (n, reading) in fits.iter().enumerate() {
            let expected = Expected { dims: reading.dims().collect(), dimension: reading.encoding.dimension };
            if mate.fits(kind, &options, &expected, self.progress)? {
                goes.push(n);
            }
        }
        Ok(goes)
    }

    /// The files of a list that are not open yet. The first found decides how the next are tried first.
    fn rest(
        &mut self,
        kind: Kind,
        paths: &[PathBuf],
        expected: &Expected,
        opened: &mut Vec<Opened>,
    ) -> Result<(), FieldError> {
        let options = self.plan.options(kind);
        for path in &paths[opened.len()..] {
            // A run writes all its steps alike; only where that fails is a file looked at afresh.
            if let Some(last) = opened.last() {
                if last.part.path == *path {
                    opened.push(last.clone());
                    continue;
                }
                let as_last = options.over(&last.text.options());
                let remarks = self.guessed.len();
                if last.text.format != Format::Ascii {
                    if let Ok(file) = self.file(path, kind, &as_last, Some(expected)) {
                        if file.text == last.text {
                            self.guessed.truncate(remarks);
                        }
                        opened.push(file);
                        continue;
                    }
                }
            }
            let file = self.file(path, kind, &options, Some(expected))?;
            opened.push(file);
        }
        let alike = opened.iter().skip(1).filter(|o| o.text == opened[0].text).count();
        if let (true, Some(first)) = (alike > 0, paths.first()) {
            self.guessed.push(format!("{alike} more files are written like {}.", file_name(first)));
        }
        Ok(())
    }

    /// Finds out what one file is; converts it if it is text.
    fn file(
        &mut self,
        path: &Path,
        kind: Kind,
        options: &Plot3dOptions,
        expected: Option<&Expected>,
    ) -> Result<Opened, FieldError> {
        let file = Candidate::open(path, self.cache_dir)?;
        let fits = file.readings(kind, options, expected, self.progress)?;
        self.finish(&file, options, fits)
    }

    /// Chooses among the readings of a file, by its values or by what the `.p3d` file says, and converts text.
    fn finish(
        &mut self,
        file: &Candidate<'_>,
        options: &Plot3dOptions,
        fits: Vec<Reading>,
    ) -> Result<Opened, FieldError> {
        let (source, path) = (&file.source, file.path);
        let hinted: Vec<Reading> = fits.iter().filter(|r| r.encoding.allowed(&self.plan.hints)).cloned().collect();
        let sniffed = match sniff::choose(source, path, options, fits) {
            Err(FieldError::Ambiguous { .. }) if hinted.len() == 1 => sniff::choose(source, path, options, hinted)?,
            other => other?,
        };
        let (part_path, reading) = match sniffed.reading.encoding.format {
            Format::Ascii => file.shelf.converted(source, path, &sniffed.reading, self.progress)?,
            _ => (path.to_owned(), sniffed.reading.clone()),
        };
        self.opened(path, &sniffed, options, Part { path: part_path, reading })
    }

    /// Settles the order of a file's numbers and says what the file is.
    fn opened(
        &mut self,
        path: &Path,
        sniffed: &Sniffed,
        options: &Plot3dOptions,
        mut part: Part,
    ) -> Result<Opened, FieldError> {
        let mut text = sniffed.reading.encoding;
        let mut sentence = text.describe();
        let several = part.reading.dims().any(|d| d[2] > 1);
        if text.order == Order::Whole && options.order.is_none() && several {
            let source = FileBytes::open(&part.path).map_err(|e| FieldError::io(&part.path, e))?;
            let told = ordering::order(&source, &part.reading).map_err(|e| FieldError::io(&part.path, e))?;
            // Records that hold a zone each are how WHOLE is written, so there the grid proves nothing.
            let grid = self.order.filter(|g| g.0 == text.format && text.format != Format::Fortran).map(|g| g.1);
            text.order = told.or(grid).unwrap_or(Order::Whole);
            part.reading.encoding.order = text.order;
            sentence = text.describe();
            match (told, grid) {
                (Some(Order::Whole), _) if text.format == Format::Fortran => {}
                (Some(Order::Whole), _) => {
                    sentence.push_str(", WHOLE order (planes follow each other smoothly in it alone)")
                }
                (Some(Order::Planes), _) => sentence.push_str(" (planes follow each other smoothly in it alone)"),
                (None, Some(order)) => {
                    sentence.push_str(&format!(", {} order as the grid", order.word().to_uppercase()))
                }
                (None, None) if text.format == Format::Fortran => {}
                (None, None) => sentence.push_str(
                    ", WHOLE order assumed (its values do not tell it from PLANES; --plot3d-order planes chooses that)",
                ),
            }
            if text.kind == Kind::Grid {
                self.order = told.map(|o| (text.format, o));
            }
        } else if text.kind == Kind::Grid && several {
            self.order = Some((text.format, text.order));
        }
        self.guessed.push(format!("{}: {sentence}.", file_name(path)));
        self.guessed.extend(sniffed.remarks.iter().cloned());
        self.doubt(path, &text, &part)?;
        Ok(Opened { text, given: path.to_owned(), part })
    }

    /// Remarks upon numbers that do not look like what they should be. Only once their order is settled: under another one even
    /// good numbers do not.
    fn doubt(&mut self, path: &Path, text: &Encoding, part: &Part) -> Result<(), FieldError> {
        if text.format == Format::Ascii || text.kind == Kind::Function {
            return Ok(());
        }
        let io = |e| FieldError::io(path, e);
        let source = FileBytes::open(path).map_err(io)?;
        if evidence::plausibility(&source, &part.reading).map_err(io)? < ABSURD {
            let what = if text.kind == Kind::Grid { "coordinates" } else { "densities, momenta and energies" };
            self.guessed.push(format!("{}: the sizes add up, but {DOUBT} {what}.", file_name(path)));
        }
        Ok(())
    }

    /// Names of functions: from the settings, else from a `.nam` file beside the function file or the grid.
    fn function_names(&mut self) -> Result<Vec<String>, FieldError> {
        if !self.plan.settings.names.is_empty() {
            return Ok(self.plan.settings.names.clone());
        }
        let Some(first) = self.plan.functions.first() else { return Ok(Vec::new()) };
        let mut whole = first.as_os_str().to_owned();
        whole.push(".nam");
        for path in [PathBuf::from(whole), first.with_extension("nam"), self.plan.grids[0].with_extension("nam")] {
            if let Some(text) = read_side_file(&path)? {
                self.guessed.push(format!("Names of functions come from {}.", file_name(&path)));
                return Ok(names::lines(&text));
            }
        }
        Ok(Vec::new())
    }
}

impl Reading {
    /// In what this and `other` differ, in words for each, unless they hold the same zones with the same variables in
    /// numbers of the same width.
    pub(super) fn difference(&self, other: &Self) -> Option<(String, String)> {
        let words = |text: &dyn Fn(&Self) -> String| Some((text(self), text(other)));
        let (a, b) = (&self.encoding, &other.encoding);
        if !self.dims().eq(other.dims()) {
            return words(&|r| {
                let first: Vec<String> = r.dims().take(3).map(|d| dims_text(&d, 3)).collect();
                format!(
                    "{} zones ({}{})",
                    r.zones.len(),
                    first.join(", "),
                    if r.zones.len() > 3 { ", ..." } else { "" }
                )
            });
        }
        let differs = self.zones.iter().zip(&other.zones).position(|(a, b)| a.variables != b.variables);
        if let Some(n) = differs {
            let what = if a.kind == Kind::Function { "functions" } else { "variables" };
            return words(&|r| format!("{} {what} in zone {}", r.zones[n].variables, n + 1));
        }
        if (a.precision, a.dimension, a.iblank) != (b.precision, b.dimension, b.iblank) {
            return words(&|r| r.encoding.describe());
        }
        None
    }
}
