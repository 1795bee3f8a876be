//! Lines as a series in time for ParaView. A `.pvd` file lists times and files. A folder of the same name beside it has
//! one VTK PolyData file a time.
//!
//! A line through several times (a pathline) has a vertex in each file: the point at that very time, never one in
//! between. Its arrays are `seed`, `age` (time since the line's first point), `zone` and the fields. An ended particle
//! is in no later file. A particle may have a trail of its line: a poly-line up to the vertex, with the same arrays. If
//! a seed has a line at each time, a file has the lines of its time, with the arrays of `.vtp` files of lines.
//! `TimeValue` in the field data is the time, as VTK's own readers expect it.
//!
//! A few files are written at a time, so that memory is bounded and the lines are read few times. All of them are on
//! disk before the folder gets its name, and the list is written last. So every file of a list exists.

use super::columns::ColumnWriter;
use super::frame_folder::FrameFolder;
use super::spool::numbers;
use super::spooled_line::SpooledLine;
use super::totals::LineStride;
use super::vtp::{self, active, data_array, vtk_type, AppendedBlocks, FieldData, APPENDED, HEAD};
use super::{LineSpool, Moments, OutputError, OutputFile, Provenance};
// Into strings: `write!` cannot fail.
use std::fmt::Write as _;
use std::io::Write as _;
use std::ops::{ControlFlow, Range};
use std::path::Path;

/// Most files written at a time: each is an open file with its buffers.
const AT_A_TIME: usize = 32;

/// Smallest buffer of a column of a file of points.
const LEAST_BUFFER: usize = 1 << 10;

pub(crate) fn write(
    spool: &LineSpool,
    mut output: OutputFile,
    provenance: &Provenance,
    partial: bool,
    watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), OutputError> {
    let moments = &spool.layout().moments;
    let Some(mut folder) = output.take_folder() else {
        return Err(OutputError::Layout(format!("{}: it has no folder for its files", output.path().display())));
    };
    if *moments == Moments::One {
        return Err(OutputError::Target {
            path: output.path().to_path_buf(),
            reason: "a .pvd lists files of several times, and these lines are of one; write a .vtp".into(),
        });
    }
    let times = moments.times();
    let mut account = spool.account();
    // The list, the counts of each file, and the place of a line in each.
    let needs = times.len() * (size_of::<(f64, usize)>() + size_of::<FileCounts>() + 2 * size_of::<TrailStart>());
    if !account.grow(needs) {
        return Err(OutputError::Memory { needs: needs as u64 });
    }
    match moments {
        Moments::Through { times, trail } => {
            points(spool, &folder, (times, *trail), (provenance, partial), output.path(), watch)?
        }
        Moments::One | Moments::At { .. } => {
            for frame in 0..times.len() {
                if watch(frame as u64, times.len() as u64).is_break() {
                    return Err(OutputError::Cancelled { path: output.path().to_path_buf() });
                }
                let file = OutputFile::create(&folder.path(frame))?;
                let which = LineStride { first: frame as u64, every: times.len() as u64 };
                vtp::write(spool, which, &file, provenance, partial, &mut |_, _| ControlFlow::Continue(()))?;
                file.commit()?;
            }
            // Finished: too late to stop.
            let _ = watch(times.len() as u64, times.len() as u64);
        }
    }
    let mut listed: Vec<(f64, usize)> = times.iter().copied().zip(0..).collect();
    listed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let text = list(&folder, &listed);
    output.file().as_ref().write_all(text.as_bytes()).map_err(|e| OutputError::io(output.path(), "write", e))?;
    folder.commit(output.path())?;
    output.commit()?;
    Ok(())
}

/// The list's text, for files at rising `times`.
fn list(folder: &FrameFolder, times: &[(f64, usize)]) -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\"?>\n<VTKFile type=\"Collection\" version=\"0.1\" byte_order=\"LittleEndian\">\n  <Collection>\n",
    );
    let name = vtp::escape(folder.name());
    for (time, frame) in times {
        let file = vtp::escape(&folder.file_name(*frame));
        // The shortest number that reads back the same.
        let _ = writeln!(text, "    <DataSet timestep=\"{time:?}\" group=\"\" part=\"0\" file=\"{name}/{file}\"/>");
    }
    text.push_str("  </Collection>\n</VTKFile>\n");
    text
}

/// Writes a file of points for each time.
fn points(
    spool: &LineSpool,
    folder: &FrameFolder,
    (times, trail): (&[f64], f64),
    (provenance, partial): (&Provenance, bool),
    path: &Path,
    watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), OutputError> {
    let columns = spool.layout().fields.len() + 9;
    let room = spool.buffers_bytes() / 2;
    let batch = (room / (columns * LEAST_BUFFER)).clamp(1, AT_A_TIME).min(times.len().max(1));
    let buffer = (room / (columns * batch)).clamp(LEAST_BUFFER, spool.buffer_bytes());
    let mut bytes = vec![0; spool.buffer_bytes() / 8 * 8];
    let mut counts = vec![FileCounts::default(); times.len()];
    let passes = 1 + times.len().div_ceil(batch) as u64;
    let mut told = PassProgress { path, watch, passes, pass: 0, lines: spool.seeds() };
    each_line(spool, (times, trail), 0..times.len(), &mut bytes, &mut told, |_, _, _, found| {
        for f in found {
            counts[f.frame].particles += 1;
            counts[f.frame].points += f.point - f.first + 1;
        }
        Ok(())
    })?;
    let mut piece = vec![0; spool.buffer_bytes()];
    for first in (0..times.len()).step_by(batch) {
        let wanted = first..times.len().min(first + batch);
        told.pass += 1;
        let mut files = Vec::with_capacity(wanted.len());
        for frame in wanted.clone() {
            let (file, counts) = (OutputFile::create(&folder.path(frame))?, counts[frame]);
            files.push(PointFile::new(spool, file, (times[frame], trail > 0.0), counts, provenance, buffer)?);
        }
        each_line(spool, (times, trail), wanted, &mut bytes, &mut told, |line, entry, born, found| {
            let seed = spool.layout().moments.seed(line);
            found.iter().try_for_each(|f| files[f.frame - first].add(spool, entry, f, (seed, born), &mut piece))
        })?;
        files.into_iter().try_for_each(|file| file.finish(partial))?;
    }
    Ok(())
}

/// A point at the time of a file, and the first point of its trail.
struct TrailStart {
    frame: usize,
    first: u64,
    point: u64,
}

#[derive(Clone, Copy, Default)]
struct FileCounts {
    particles: u64,
    points: u64,
}

/// The first point of a line within `trail` of `time`, before `point`, which is at that time.
fn trail_of(spool: &LineSpool, entry: &SpooledLine, point: u64, time: f64, trail: f64) -> Result<u64, OutputError> {
    let (mut low, mut high) = (0, point);
    while low < high && trail > 0.0 {
        let middle = low + (high - low) / 2;
        let mut bytes = [0; 8];
        spool.read_part(entry, 1, middle, &mut bytes)?;
        if (time - f64::from_le_bytes(bytes)).abs() <= trail {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(high)
}

/// The progress of the passes.
struct PassProgress<'a> {
    path: &'a Path,
    watch: &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    passes: u64,
    pass: u64,
    lines: u64,
}

/// Passes on each line's points at the times of some files, in the line's order, and the time of its first point.
fn each_line(
    spool: &LineSpool,
    (times, trail): (&[f64], f64),
    wanted: Range<usize>,
    bytes: &mut [u8],
    told: &mut PassProgress<'_>,
    mut take: impl FnMut(u64, &SpooledLine, f64, &[TrailStart]) -> Result<(), OutputError>,
) -> Result<(), OutputError> {
    let mut found = Vec::new();
    for line in 0..spool.seeds() {
        let done = told.lines * told.pass + line;
        if line % 256 == 0 && (told.watch)(done, told.lines * told.passes).is_break() {
            return Err(OutputError::Cancelled { path: told.path.to_path_buf() });
        }
        let Some(entry) = spool.entry(line)?.filter(|e| e.points > 0) else { continue };
        found.clear();
        let (mut at, mut born) = (0, f64::NAN);
        while at < entry.points {
            let count = (entry.points - at).min(bytes.len() as u64 / 8);
            let piece = &mut bytes[..8 * count as usize];
            spool.read_part(&entry, 1, at, piece)?;
            for (n, time) in numbers(piece, f64::from_le_bytes).enumerate() {
                let point = at + n as u64;
                if point == 0 {
                    born = time;
                }
                if let Ok(frame) = times.binary_search_by(|t| t.total_cmp(&time)) {
                    let again = found.last().is_some_and(|f: &TrailStart| f.frame == frame);
                    if wanted.contains(&frame) && !again {
                        found.push(TrailStart { frame, first: trail_of(spool, &entry, point, time, trail)?, point });
                    }
                }
            }
            at += count;
        }
        take(line, &entry, born, &found)?;
    }
    Ok(())
}

/// An unfinished file of points. Columns 0, 2, 3, ... are the parts of a line; the age replaces part 1.
struct PointFile {
    file: OutputFile,
    columns: ColumnWriter,
    blocks: AppendedBlocks,
    field_data: FieldData,
    text: String,
    /// Column of the seeds.
    seeds: usize,
    /// Columns of the vertices: points, ends.
    verts: [usize; 2],
    /// Columns of the trails.
    lines: Option<[usize; 2]>,
    written: FileCounts,
}

impl PointFile {
    fn new(
        spool: &LineSpool,
        file: OutputFile,
        (time, trails): (f64, bool),
        counts: FileCounts,
        provenance: &Provenance,
        buffer: usize,
    ) -> Result<Self, OutputError> {
        let layout = spool.layout();
        let FileCounts { particles, points: n } = counts;
        let mut blocks = AppendedBlocks::default();
        for bytes in spool.part_bytes() {
            // The age is as wide as the time that it replaces.
            blocks.add(n * bytes);
        }
        let seeds = blocks.add(8 * n);
        let verts = [blocks.add(8 * particles), blocks.add(8 * particles)];
        let lines = trails.then(|| [blocks.add(8 * n), blocks.add(8 * particles)]);
        let streamed = blocks.count();
        let field_data = FieldData::new(&mut blocks, provenance, &[("seeds", spool.seeds())], Some(time));
        if !blocks.fit() {
            return Err(OutputError::Layout("the points are too many for one file".into()));
        }
        let mut text = String::from(HEAD);
        field_data.text(&mut text, &blocks);
        let drawn = if trails { particles } else { 0 };
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            text,
            "    <Piece NumberOfPoints=\"{n}\" NumberOfVerts=\"{particles}\" NumberOfLines=\"{drawn}\" NumberOfStrips=\"0\" NumberOfPolys=\"0\">"
        );
        let _ = writeln!(text, "      <PointData{}>", active(&layout.fields, spool.names()));
        let age = if spool.names().iter().any(|n| n == "age") { "particle_age" } else { "age" };
        data_array(&mut text, "Int64", "seed", 1, None, "", blocks.offset(seeds));
        data_array(&mut text, "Float64", age, 1, None, &provenance.time_unit, blocks.offset(1));
        data_array(&mut text, "Int32", "zone", 1, None, "", blocks.offset(2));
        for (part, (field, name)) in layout.fields.iter().zip(spool.names()).enumerate() {
            let offset = blocks.offset(3 + part);
            data_array(&mut text, vtk_type(field.dtype), name, field.components, None, &field.unit, offset);
        }
        text.push_str("      </PointData>\n      <Points>\n");
        data_array(&mut text, "Float64", "Points", 3, None, &provenance.length_unit, blocks.offset(0));
        text.push_str("      </Points>\n");
        for (kind, columns) in [("Verts", Some(verts)), ("Lines", lines)] {
            let Some([connectivity, offsets]) = columns else { continue };
            let _ = writeln!(text, "      <{kind}>");
            data_array(&mut text, "Int64", "connectivity", 1, None, "", blocks.offset(connectivity));
            data_array(&mut text, "Int64", "offsets", 1, None, "", blocks.offset(offsets));
            let _ = writeln!(text, "      </{kind}>");
        }
        text.push_str("    </Piece>\n  </PolyData>\n");
        text.push_str(APPENDED);
        let mut columns = ColumnWriter::new(&file, buffer);
        let (lengths, _) = blocks.lengths(text.len());
        for (block, (_, bytes)) in lengths.iter().enumerate().take(streamed) {
            columns.add(blocks.data_at(block, text.len()), Some(*bytes), b"");
        }
        let written = FileCounts::default();
        Ok(Self { file, columns, blocks, field_data, text, seeds, verts, lines, written })
    }

    /// Adds a particle of a line with its first point at time `born`.
    fn add(
        &mut self,
        spool: &LineSpool,
        entry: &SpooledLine,
        found: &TrailStart,
        (seed, born): (u64, f64),
        piece: &mut [u8],
    ) -> Result<(), OutputError> {
        let count = found.point - found.first + 1;
        for (part, bytes) in spool.part_bytes().into_iter().enumerate() {
            let most = (piece.len() as u64 / bytes).max(1);
            let mut done = 0;
            while done < count {
                let some = most.min(count - done);
                let piece = &mut piece[..(some * bytes) as usize];
                spool.read_part(entry, part, found.first + done, piece)?;
                if part == 1 {
                    for time in piece.chunks_exact_mut(8) {
                        let age = numbers(time, f64::from_le_bytes).next().map_or(f64::NAN, |t| (t - born).abs());
                        time.copy_from_slice(&age.to_le_bytes());
                    }
                }
                self.columns.put(part, piece)?;
                done += some;
            }
        }
        let before = self.written.points;
        self.written = FileCounts { particles: self.written.particles + 1, points: before + count };
        for point in before..before + count {
            self.columns.put(self.seeds, &seed.to_le_bytes())?;
            if let Some([connectivity, _]) = self.lines {
                self.columns.put(connectivity, &point.to_le_bytes())?;
            }
        }
        if let Some([_, offsets]) = self.lines {
            self.columns.put(offsets, &self.written.points.to_le_bytes())?;
        }
        self.columns.put(self.verts[0], &(before + count - 1).to_le_bytes())?;
        self.columns.put(self.verts[1], &self.written.particles.to_le_bytes())
    }

    fn finish(self, partial: bool) -> Result<(), OutputError> {
        vtp::frame(&self.columns, &self.text, &self.blocks)?;
        self.field_data.write(&self.columns, &self.blocks, self.text.len(), partial)?;
        self.columns.finish()?;
        self.file.commit()?;
        Ok(())
    }
}
