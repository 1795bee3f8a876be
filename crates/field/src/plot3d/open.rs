//! Opening: from paths to readings. Lists the files, determines the encoding of each, and converts text.

use super::ascii::ConversionProgress;
use super::assemble::assemble;
use super::cache::Shelf;
use super::dataset::Plot3d;
use super::evidence;
use super::input::Plot3dInput;
use super::meta::MetaFile;
use super::names;
use super::options::{Format, Kind, Order, Plot3dOptions};
use super::ordering;
use super::parts::{BinaryFile, OpenedFile, Parts};
use super::reading::{dims_text, Encoding, Expected, FileReading, ReadRequest};
use super::settings::{read_side_file, Plot3dSettings};
use super::sniff::{self, file_name, Sniffed};
use super::walk::Why;
use crate::catalog::{check_dt, check_times, DOUBT, EITHER};
use crate::error::FieldError;
use crate::file::{size_of, FileBytes};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Coordinates or conserved variables get a remark if a smaller share of them is plausible.
const ABSURD: f64 = 0.5;

/// The files of a dataset and all settings about them.
struct Plot3dFiles {
    grids: Vec<PathBuf>,
    q: Vec<PathBuf>,
    functions: Vec<PathBuf>,
    times: Option<Vec<f64>>,
    settings: Plot3dSettings,
    /// The settings file, if there is one.
    settings_path: Option<PathBuf>,
    /// Options of the command line, over those of the settings.
    options: Plot3dOptions,
    /// Options that only settle ambiguities.
    hints: Plot3dOptions,
}

impl Plot3dFiles {
    /// Also returns the first grid, open, unless `grid` is a file that names others.
    fn new(
        Plot3dInput { grids, q, function: functions, .. }: Plot3dInput<'_>,
        options: &Plot3dOptions,
    ) -> Result<(Self, Option<FileBytes>), FieldError> {
        let Some(grid) = grids.first() else { return Err(FieldError::Usage("no grid file is given".into())) };
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
            grids: grids.to_owned(),
            q: q.to_owned(),
            functions: functions.to_owned(),
            times: None,
            options: options.over(&settings.options),
            hints: Plot3dOptions::default(),
            settings,
            settings_path,
        };
        let io = |e| FieldError::io(grid, e);
        let first = FileBytes::open(grid).map_err(io)?;
        let names_others = MetaFile::is(&first).map_err(io)?;
        if names_others {
            let meta = MetaFile::read(grid)?;
            if !(q.is_empty() && functions.is_empty() && grids.len() == 1) {
                let message = format!("{}: a .p3d file names its own grid, q and function files", grid.display());
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
        Ok((plan, (!names_others).then_some(first)))
    }

    /// Number of steps. Each list has that many files, or one, or (except grids) none.
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
        // The options for all files come first because the command line is among them. `own` is more specific, but they
        // differ on a key only if the user overrides it or the settings file contradicts itself.
        Plot3dOptions { kind: None, ..self.options.over(own) }
    }
}

impl Plot3dFiles {
    /// Adds the settings to the error of a file that contradicts them, because the settings may be wrong.
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

/// A file whose encoding is not determined yet.
struct Candidate<'a> {
    path: &'a Path,
    source: FileBytes,
    cache_dir: &'a Path,
}

impl<'a> Candidate<'a> {
    fn open(path: &'a Path, cache_dir: &'a Path) -> Result<Self, FieldError> {
        Ok(Self { path, source: FileBytes::open(path).map_err(|e| FieldError::io(path, e))?, cache_dir })
    }

    /// The cache of the file, if it is text. Other files have none.
    fn shelf(&self, options: &Plot3dOptions) -> Result<Option<Shelf>, FieldError> {
        if !sniff::is_text(&self.source, options).map_err(|e| FieldError::io(self.path, e))? {
            return Ok(None);
        }
        Shelf::of(self.path, &self.source, self.cache_dir).map(Some)
    }

    /// The readings that fit, and why the others do not. Readings of text are cached; a cached note is used if `wanted`
    /// accepts it.
    fn look(
        &self,
        asked: ReadRequest<'_>,
        wanted: fn(&[FileReading]) -> bool,
        progress: ConversionProgress<'_>,
    ) -> Result<(Vec<FileReading>, Vec<Why>), FieldError> {
        let shelf = self.shelf(asked.options)?;
        if let Some(known) = shelf.as_ref().and_then(|s| s.readings(asked)).filter(|known| wanted(known)) {
            return Ok((known, Vec::new()));
        }
        let found = sniff::candidates(&self.source, self.path, asked, progress)?;
        if let Some(shelf) = shelf {
            shelf.keep(asked, &found.0);
        }
        Ok(found)
    }

    /// Whether any reading fits.
    fn fits(&self, asked: ReadRequest<'_>, progress: ConversionProgress<'_>) -> Result<bool, FieldError> {
        Ok(!self.look(asked, |_| true, progress)?.0.is_empty())
    }

    /// The readings that fit, at least one.
    fn readings(
        &self,
        asked: ReadRequest<'_>,
        progress: ConversionProgress<'_>,
    ) -> Result<Vec<FileReading>, FieldError> {
        // A note without readings does not give the reason.
        let (fits, not) = self.look(asked, |known| !known.is_empty(), progress)?;
        if fits.is_empty() {
            return Err(sniff::nothing_fits(&self.source, self.path, asked, &not, progress));
        }
        Ok(fits)
    }
}

/// Opens files one after the other and collects the remarks about them.
struct Opener<'a> {
    plan: &'a Plot3dFiles,
    cache_dir: &'a Path,
    progress: ConversionProgress<'a>,
    guessed: Vec<String>,
    /// Files whose order is assumed without any evidence.
    order_assumed: Vec<String>,
    /// Format and order of the grid, if its order is known. The same program probably wrote the other files.
    order: Option<(Format, Order)>,
}

pub(super) fn open(
    given: Plot3dInput<'_>,
    options: &Plot3dOptions,
    cache_dir: &Path,
    progress: ConversionProgress<'_>,
) -> Result<Plot3d, FieldError> {
    let dt = given.dt;
    check_dt(dt)?;
    let (plan, first) = Plot3dFiles::new(given, options)?;
    let mut opener =
        Opener { plan: &plan, cache_dir, progress, guessed: Vec::new(), order_assumed: Vec::new(), order: None };
    let [grids, q, functions] = opener.all(first).map_err(|e| plan.blame(e))?;
    let functions_named = opener.function_names()?;
    let names = [&plan.grids, &plan.q, &plan.functions].into_iter().flatten().map(|p| file_name(p));
    let guessed = merged(opener.guessed, &names.collect());
    let order_assumed = opener.order_assumed;
    let steps = plan.steps()?;
    let said = given.times;
    check_times(said, steps)?;
    let times = plan.times.or_else(|| (!said.is_empty()).then(|| said.to_vec()));
    let settings = plan.settings;
    let settings_path = plan.settings_path.unwrap_or_else(|| plan.grids[0].clone());
    let names = functions_named;
    let untimed = given.untimed.to_owned();
    assemble(Parts {
        grids,
        q,
        functions,
        names,
        steps,
        times,
        untimed,
        dt,
        settings,
        settings_path,
        guessed,
        order_assumed,
    })
}

impl Opener<'_> {
    /// Grids, q files, function files.
    fn all(&mut self, first: Option<FileBytes>) -> Result<[Vec<OpenedFile>; 3], FieldError> {
        let plan = self.plan;
        let path = &plan.grids[0];
        let first = match first {
            Some(source) => Candidate { path, source, cache_dir: self.cache_dir },
            None => Candidate::open(path, self.cache_dir)?,
        };
        let first = self.grid(&first)?;
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

    /// Opens the first grid. If it has several readings, the file beside it may match only one.
    fn grid(&mut self, file: &Candidate<'_>) -> Result<OpenedFile, FieldError> {
        let options = self.plan.options(Kind::Grid);
        let asked = ReadRequest { kind: Kind::Grid, options: &options, expected: None };
        let mut fits = file.readings(asked, self.progress)?;
        let mate = [(Kind::Q, self.plan.q.first()), (Kind::Function, self.plan.functions.first())];
        let mate = mate.into_iter().find_map(|(kind, path)| path.map(|p| (kind, p)));
        let mut remark = None;
        if let (true, Some((kind, mate))) = (fits.len() > 1, mate) {
            let goes = self.that_go_with(&fits, kind, mate)?;
            if let [one] = goes[..] {
                fits = vec![fits.swap_remove(one)];
                remark = Some(format!(
                    "{}: its size fits several readings; {} goes with one of them.",
                    file_name(file.path),
                    file_name(mate)
                ));
            }
        }
        let opened = self.finish(file, &options, fits)?;
        self.guessed.extend(remark);
        Ok(opened)
    }

    /// The readings of a grid that the file `mate` matches.
    fn that_go_with(&mut self, fits: &[FileReading], kind: Kind, mate: &Path) -> Result<Vec<usize>, FieldError> {
        let mate = Candidate::open(mate, self.cache_dir)?;
        let options = self.plan.options(kind);
        let mut goes = Vec::new();
        for (n, reading) in fits.iter().enumerate() {
            let expected = Expected { dims: reading.dims().collect(), dimension: reading.encoding.dimension };
            let asked = ReadRequest { kind, options: &options, expected: Some(&expected) };
            if mate.fits(asked, self.progress)? {
                goes.push(n);
            }
        }
        Ok(goes)
    }

    /// Opens the remaining files of a list. Each is first tested with the encoding of the one before.
    fn rest(
        &mut self,
        kind: Kind,
        paths: &[PathBuf],
        expected: &Expected,
        opened: &mut Vec<OpenedFile>,
    ) -> Result<(), FieldError> {
        let options = self.plan.options(kind);
        for path in &paths[opened.len()..] {
            // A run writes all its steps alike. A file is sniffed afresh only if the last encoding fails.
            if let Some(last) = opened.last() {
                if last.part.path == *path {
                    opened.push(last.clone());
                    continue;
                }
            }
            let file = Candidate::open(path, self.cache_dir)?;
            if let Some(last) = opened.last().filter(|last| last.text.format != Format::Ascii) {
                let as_last = options.over(&last.text.options());
                let remarks = self.guessed.len();
                match self.file(&file, ReadRequest { kind, options: &as_last, expected: Some(expected) }) {
                    Ok(found) => {
                        if found.text == last.text && self.guessed.len() > remarks {
                            // The remark on the encoding repeats another file's; other remarks are new.
                            self.guessed.remove(remarks);
                        }
                        opened.push(found);
                        continue;
                    }
                    Err(FieldError::Interrupted) => return Err(FieldError::Interrupted),
                    // The fresh attempt reports the error.
                    Err(_) => self.guessed.truncate(remarks),
                }
            }
            let found = self.file(&file, ReadRequest { kind, options: &options, expected: Some(expected) });
            opened.push(found.map_err(|e| cut_off(e, &file, opened.first()))?);
        }
        let alike = opened.iter().skip(1).filter(|o| o.text == opened[0].text).count();
        if let (true, Some(first)) = (alike > 0, paths.first()) {
            self.guessed.push(format!("{alike} more files are written like {}.", file_name(first)));
        }
        Ok(())
    }

    /// Determines the encoding of one file, and converts it if it is text.
    fn file(&mut self, file: &Candidate<'_>, asked: ReadRequest<'_>) -> Result<OpenedFile, FieldError> {
        let fits = file.readings(asked, self.progress)?;
        self.finish(file, asked.options, fits)
    }

    /// Chooses among the readings of a file, by its values or by the `.p3d` file, and converts text.
    fn finish(
        &mut self,
        file: &Candidate<'_>,
        options: &Plot3dOptions,
        fits: Vec<FileReading>,
    ) -> Result<OpenedFile, FieldError> {
        let (source, path) = (&file.source, file.path);
        let hinted: Vec<FileReading> = fits.iter().filter(|r| r.encoding.allowed(&self.plan.hints)).cloned().collect();
        let sniffed = match sniff::choose(source, path, options, fits) {
            Err(FieldError::Ambiguous { .. }) if hinted.len() == 1 => sniff::choose(source, path, options, hinted)?,
            other => other?,
        };
        let (part_path, reading) = match sniffed.reading.encoding.format {
            Format::Ascii => {
                let shelf = Shelf::of(path, source, self.cache_dir)?;
                let made = shelf.converted(source, path, &sniffed.reading, self.progress);
                made.map_err(|e| e.in_cache(self.cache_dir))?
            }
            _ => (path.to_owned(), sniffed.reading.clone()),
        };
        self.opened(file, &sniffed, options, BinaryFile { path: part_path, reading })
    }

    /// Settles the order of a file's numbers and describes the file.
    fn opened(
        &mut self,
        file: &Candidate<'_>,
        sniffed: &Sniffed,
        options: &Plot3dOptions,
        mut part: BinaryFile,
    ) -> Result<OpenedFile, FieldError> {
        let path = file.path;
        let mut text = sniffed.reading.encoding;
        let mut sentence = text.describe();
        let several = part.reading.dims().any(|d| d[2] > 1);
        let io = |e| FieldError::io(path, e);
        if part.reading.order_is_open() && options.order.is_none() && several {
            let told = match text.format {
                // The converted text: pages are read from it.
                Format::Ascii => ordering::order(&FileBytes::open(&part.path).map_err(io)?, &part.reading),
                _ => ordering::order(&file.source, &part.reading),
            };
            let told = told.map_err(io)?;
            let by_records = part.reading.also.is_some();
            // One record a zone is how WHOLE is written, so there the grid's order is no evidence.
            let proves = by_records || text.format != Format::Fortran;
            let grid = self.order.filter(|g| proves && g.0 == text.format).map(|g| g.1);
            part.reading.put_in(told.or(grid).unwrap_or(text.order));
            (text.order, text.records) = (part.reading.encoding.order, part.reading.encoding.records);
            sentence = text.describe();
            match (told, grid) {
                (Some(Order::Whole), _) if text.format == Format::Fortran && !by_records => {}
                (Some(Order::Whole), _) => {
                    sentence.push_str(", WHOLE order (planes follow each other smoothly in it alone)")
                }
                (Some(Order::Planes), _) => sentence.push_str(" (planes follow each other smoothly in it alone)"),
                (None, Some(order)) => {
                    sentence.push_str(&format!(", {} order as the grid", order.word().to_uppercase()))
                }
                (None, None) if by_records => sentence.push_str(&format!(
                    " assumed: it {EITHER}, and its values do not tell which they are; --plot3d-order whole takes them for arrays, \
                     --plot3d-order planes ends this warning"
                )),
                (None, None) if text.format == Format::Fortran => {}
                (None, None) => {
                    self.order_assumed.push(file_name(path));
                    sentence.push_str(
                        ", WHOLE order assumed (its values do not tell it from PLANES; --plot3d-order planes chooses that)",
                    );
                }
            }
            if text.kind == Kind::Grid {
                self.order = told.map(|o| (text.format, o));
            }
        } else if several {
            if text.kind == Kind::Grid {
                self.order = Some((text.format, text.order));
            }
            // The order by records and sizes is checked against the values.
            let told = ordering::order(&file.source, &part.reading).map_err(io)?;
            if let Some(other) = told.filter(|o| options.order.is_none() && *o != text.order) {
                let word = |o: Order| o.word().to_uppercase();
                sentence.push_str(&format!(
                    ", though its planes follow each other smoothly in {} order alone: {DOUBT} those of {} order (--plot3d-order {} \
                     chooses the other)",
                    word(other),
                    word(text.order),
                    other.word()
                ));
            }
        }
        self.guessed.push(format!("{}: {sentence}.", file_name(path)));
        self.guessed.extend(sniffed.remarks.iter().cloned());
        self.doubt(file, &text, &part)?;
        Ok(OpenedFile { text, given: path.to_owned(), part })
    }

    /// Remarks on implausible numbers. Runs only once their order is settled: under another order even good numbers are
    /// implausible.
    fn doubt(&mut self, file: &Candidate<'_>, text: &Encoding, part: &BinaryFile) -> Result<(), FieldError> {
        if text.format == Format::Ascii || text.kind == Kind::Function {
            return Ok(());
        }
        let share = evidence::plausibility(&file.source, &part.reading).map_err(|e| FieldError::io(file.path, e))?;
        if share < ABSURD {
            let what = if text.kind == Kind::Grid { "coordinates" } else { "densities, momenta and energies" };
            self.guessed.push(format!("{}: the sizes add up, but {DOUBT} {what}.", file_name(file.path)));
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

/// Merges sentences that are equal but for the file.
fn merged(sentences: Vec<String>, names: &HashSet<String>) -> Vec<String> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for sentence in sentences {
        let of_file = sentence.split_once(": ").filter(|(name, _)| names.contains(*name));
        let (name, text) = of_file.map_or((None, sentence.as_str()), |(name, text)| (Some(name.to_owned()), text));
        match all.iter_mut().find(|(t, files)| t == text && !files.is_empty() && name.is_some()) {
            Some((_, files)) => files.extend(name),
            None => all.push((text.to_owned(), name.into_iter().collect())),
        }
    }
    let said = |(text, files): (String, Vec<String>)| match &files[..] {
        [] => text,
        [one] => format!("{one}: {text}"),
        [first, ..] => format!("In {} of {} files ({first}, ...): {text}", files.len(), names.len()),
    };
    all.into_iter().map(said).collect()
}

/// The error of a file of a series that is shorter than the first one. During a run the last file may still be growing.
fn cut_off(e: FieldError, file: &Candidate<'_>, first: Option<&OpenedFile>) -> FieldError {
    let text = matches!(e, FieldError::Interrupted) || first.is_none_or(|f| f.text.format == Format::Ascii);
    let whole = first.filter(|_| !text).and_then(|f| Some((f, size_of(&f.given).ok()?)));
    match whole {
        Some((first, size)) if file.source.size() < size => {
            let why = match e {
                FieldError::Format { message, .. } => message,
                e => e.to_string(),
            };
            let message = format!(
                "has {} bytes, and {}, which is of the same series, has {size}: it is cut off, or still being written. Wait until it \
                 is whole, or leave it out of the pattern.\n{why}",
                file.source.size(),
                file_name(&first.given)
            );
            FieldError::format(file.path, message)
        }
        _ => e,
    }
}

impl FileReading {
    /// The difference between this and `other`, in words for each. `None` if they have the same zones and variables, in
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
