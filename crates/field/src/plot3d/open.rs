//! From paths to readings: which files there are, what each of them is, and which text has to be converted.

use super::ascii::Progress;
use super::assemble::{assemble, Opened, Part, Parts};
use super::bytes::FileBytes;
use super::cache;
use super::evidence;
use super::meta::MetaFile;
use super::names;
use super::options::{Format, Kind, Order, Plot3dOptions};
use super::reading::{Expected, Reading};
use super::settings::{read_side_file, Plot3dSettings};
use super::sniff::{self, file_name, Sniffed};
use super::Plot3d;
use crate::error::FieldError;
use std::path::{Path, PathBuf};

/// Coordinates of which fewer than this share look like lengths are remarked upon.
const ABSURD: f64 = 0.5;

/// The files of a dataset and what is said about them.
struct Plan {
    grids: Vec<PathBuf>,
    q: Vec<PathBuf>,
    functions: Vec<PathBuf>,
    times: Option<Vec<f64>>,
    settings: Plot3dSettings,
    /// Where they stand.
    settings_file: PathBuf,
    /// Command line over settings.
    options: Plot3dOptions,
    /// What only settles ambiguities.
    hints: Plot3dOptions,
}

impl Plan {
    fn new(grid: &Path, q: &[PathBuf], functions: &[PathBuf], options: &Plot3dOptions) -> Result<Self, FieldError> {
        let (settings, settings_file) = Plot3dSettings::beside(grid)?;
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
            // Where there is no such file, what else may hold settings is the grid's place (a `.p3d` file).
            settings_file: settings_file.unwrap_or_else(|| grid.to_owned()),
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

/// Opens files one after the other and collects what there is to say about them.
struct Opener<'a> {
    plan: &'a Plan,
    cache_dir: &'a Path,
    progress: Progress<'a>,
    guessed: Vec<String>,
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
    let mut opener = Opener { plan: &plan, cache_dir, progress, guessed: Vec::new() };
    let first = opener.grid()?;
    let expected =
        Expected { dims: first.part.reading.dims().collect(), dimension: first.part.reading.encoding.dimension };
    let mut grids = vec![first];
    opener.rest(Kind::Grid, &plan.grids, &expected, &mut grids)?;
    let mut q = Vec::new();
    opener.rest(Kind::Q, &plan.q, &expected, &mut q)?;
    let mut functions = Vec::new();
    opener.rest(Kind::Function, &plan.functions, &expected, &mut functions)?;
    let names = opener.function_names()?;
    let guessed = opener.guessed;
    let steps = plan.steps()?;
    let Plan { times, settings, settings_file, .. } = plan;
    assemble(Parts { grids, q, functions, names, steps, times, settings, settings_file, guessed })
}

impl Opener<'_> {
    /// The first grid. Where it can be read in several ways, the file beside it may go with only one of them.
    fn grid(&mut self) -> Result<Opened, FieldError> {
        let path = &self.plan.grids[0];
        let options = self.plan.options(Kind::Grid);
        if let Some(opened) = self.converted(path, Kind::Grid, &options, None)? {
            return Ok(opened);
        }
        let source = FileBytes::open(path).map_err(|e| FieldError::io(path, e))?;
        let mut fits = sniff::some_fit(&source, path, Kind::Grid, &options, None, self.progress)?;
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
        let opened = self.finish(&source, path, &options, fits)?;
        self.guessed.extend(remark);
        Ok(opened)
    }

    /// Which of the readings of a grid the file `mate` goes with.
    fn that_go_with(&mut self, fits: &[Reading], kind: Kind, mate: &Path) -> Result<Vec<usize>, FieldError> {
        let source = FileBytes::open(mate).map_err(|e| FieldError::io(mate, e))?;
        let options = self.plan.options(kind);
        let mut goes = Vec::new();
        for (n, reading) in fits.iter().enumerate() {
            let expected = Expected { dims: reading.dims().collect(), dimension: reading.encoding.dimension };
            let (its, _) = sniff::candidates(&source, mate, kind, &options, Some(&expected), self.progress)?;
            if !its.is_empty() {
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
        if let Some(opened) = self.converted(path, kind, options, expected)? {
            return Ok(opened);
        }
        let source = FileBytes::open(path).map_err(|e| FieldError::io(path, e))?;
        let fits = sniff::some_fit(&source, path, kind, options, expected, self.progress)?;
        self.finish(&source, path, options, fits)
    }

    /// Chooses among the readings of a file, by its values or by what the `.p3d` file says, and converts text.
    fn finish(
        &mut self,
        source: &FileBytes,
        path: &Path,
        options: &Plot3dOptions,
        fits: Vec<Reading>,
    ) -> Result<Opened, FieldError> {
        let hinted: Vec<Reading> = fits.iter().filter(|r| r.encoding.allowed(&self.plan.hints)).cloned().collect();
        let sniffed = match sniff::choose(source, path, fits) {
            Err(FieldError::Ambiguous { .. }) if hinted.len() == 1 => sniff::choose(source, path, hinted)?,
            other => other?,
        };
        let kind = sniffed.reading.encoding.kind;
        if sniffed.reading.encoding.format == Format::Ascii {
            let done = cache::make(source, path, sniffed, options, self.cache_dir, self.progress)?;
            return Ok(self.opened(path, &done.sniffed, options, Part { path: done.path, reading: done.binary }));
        }
        if kind == Kind::Grid {
            let share = evidence::plausibility(source, &sniffed.reading).map_err(|e| FieldError::io(path, e))?;
            if share < ABSURD {
                self.guessed.push(format!(
                    "{}: the sizes add up, but most of its numbers do not look like coordinates.",
                    file_name(path)
                ));
            }
        }
        let part = Part { path: path.to_owned(), reading: sniffed.reading.clone() };
        Ok(self.opened(path, &sniffed, options, part))
    }

    /// The file as it was converted before, if it was.
    fn converted(
        &mut self,
        path: &Path,
        kind: Kind,
        options: &Plot3dOptions,
        expected: Option<&Expected>,
    ) -> Result<Option<Opened>, FieldError> {
        let Some(done) = cache::find(path, kind, options, self.cache_dir)? else { return Ok(None) };
        let reading = &done.sniffed.reading;
        let goes = expected
            .is_none_or(|x| x.dimension == reading.encoding.dimension && reading.dims().eq(x.dims.iter().copied()));
        if !goes {
            return Ok(None);
        }
        let part = Part { path: done.path, reading: done.binary };
        Ok(Some(self.opened(path, &done.sniffed, options, part)))
    }

    fn opened(&mut self, path: &Path, sniffed: &Sniffed, options: &Plot3dOptions, part: Part) -> Opened {
        let text = sniffed.reading.encoding;
        let mut sentence = format!("{}: {}", file_name(path), text.describe());
        let unsaid = text.order == Order::Whole && text.format != Format::Fortran && options.order.is_none();
        if unsaid && part.reading.dims().any(|d| d[2] > 1) {
            sentence.push_str(", WHOLE order assumed (nothing in such a file tells it from PLANES)");
        }
        sentence.push('.');
        self.guessed.push(sentence);
        self.guessed.extend(sniffed.remarks.iter().cloned());
        Opened { text, part }
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
    /// Whether `other` holds the same zones with the same variables in numbers of the same width.
    pub(super) fn same_shape(&self, other: &Self) -> bool {
        let variables = |r: &Self| r.zones.iter().map(|z| (z.dims, z.variables)).collect::<Vec<_>>();
        let (a, b) = (&self.encoding, &other.encoding);
        (a.precision, a.dimension, a.iblank) == (b.precision, b.dimension, b.iblank)
            && variables(self) == variables(other)
    }
}
