//! Pictures of one time step or of many, from one view or several.
//!
//! # Theory
//! Camera and ranges of colours are equal in all pictures, and depend on all of them. So all steps are gathered first,
//! in one pass through the series. The log keeps the geometry in memory up to a share of the limit, then in a file
//! without a name. Then camera and ranges are settled, and the pictures are drawn.
//!
//! Each picture contains the settled values and a digest of scene and data. A resumed run takes the values from an
//! existing picture. It gathers and draws only the missing pictures, step by step, and they equal those of one run.
//!
//! Invariants:
//! 1. All objects of a step are gathered before any of the next.
//! 2. Objects that do not change with time are gathered once.
//! 3. A picture gets its name when it is complete, with its digest.

use super::colour_maps::{says_ranges, settle_maps};
use super::depth_compositing::Lack;
use super::destination::{Out, PictureFile, DIGEST, SETTLED};
use super::document::{FilmSpec, SceneDocument, ViewSpec};
use super::drawing::{Captions, LayerSource, PictureContent, Shot, ViewParts};
use super::error_context::placed;
use super::frame_names::{fixed_point, numbered};
use super::gather::{is_steady, GatheredObject, Gatherer};
use super::geometry_log::{Arena, Range};
use super::moving_lines::MovingLines;
use super::objects::{LinesFrom, Object};
use super::parts;
use super::path::{on_path, Picture, PictureSteps};
use super::resume::{Digests, SharedParts, There};
use super::studio::{picture_limit, Studio, ARENA_SHARE};
use super::video::Video;
use field::error::FieldError;
use field::volume::Volume;
use pager::Event;
use runtime::limits::more_than;
use runtime::session::ProgressWatch;
use serde_json::{json, Map, Value};
use std::path::{Path, PathBuf};

/// Divisor: the share of the arena for geometry that does not change with time.
const FIXED_SHARE: u64 = 4;

/// Checks the destinations of pictures before any work.
///
/// # Errors
/// [`FieldError::Usage`] for impossible names, and the system's errors.
pub(super) fn check_outputs(document: &SceneDocument, output: &Path) -> Result<(), FieldError> {
    let own = document.views.iter().map(|v| v.output.as_path());
    let all: Vec<&Path> = if document.views.is_empty() { vec![output] } else { own.collect() };
    for (n, pattern) in all.iter().enumerate() {
        if all[..n].contains(pattern) {
            return Err(FieldError::Usage(format!(
                "{}: two views have this file; give each its own",
                pattern.display()
            )));
        }
        let name = match &document.film {
            Some(FilmSpec { fps: None, .. }) => numbered(pattern, 0).ok_or_else(|| {
                FieldError::Usage(format!(
                    "{}: pictures of many time steps need a place for their number in the name, as in out_%04d.png",
                    pattern.display()
                ))
            })?,
            _ => pattern.to_path_buf(),
        };
        // Made and dropped, so that a bad path ends the run at its start.
        drop(PictureFile::create(&name)?);
    }
    match &document.film {
        Some(FilmSpec { fps: Some(_), resume: true, .. }) => Err(FieldError::Usage(
            "a video cannot be resumed; write numbered pictures (-o out_%04d.png), which can".into(),
        )),
        _ => Ok(()),
    }
}

/// Gathered objects of one step that change with time.
struct StepFrame {
    step: usize,
    own: Vec<Option<GatheredObject>>,
}

impl StepFrame {
    /// All objects at this step.
    fn shown<'a>(&'a self, fixed: &'a [Option<GatheredObject>], arenas: [&'a Arena; 2]) -> Vec<LayerSource<'a>> {
        let each = self.own.iter().zip(fixed).enumerate();
        each.filter_map(|(number, (own, fixed))| match (own, fixed) {
            (Some(gathered), _) => Some(LayerSource { number, gathered, log: arenas[1].log() }),
            (None, Some(gathered)) => Some(LayerSource { number, gathered, log: arenas[0].log() }),
            (None, None) => None,
        })
        .collect()
    }
}

pub(super) struct Film<'a> {
    studio: &'a Studio<'a>,
    outputs: Vec<PathBuf>,
    pictures: Vec<Picture>,
    digests: Digests,
    /// Objects that do not change, once gathered, and which objects they are.
    fixed: Vec<Option<GatheredObject>>,
    is_fixed: Vec<bool>,
    arena: Arena,
    moving: Vec<Option<MovingLines>>,
    enough: u64,
}

impl<'a> Film<'a> {
    /// Checks the request.
    ///
    /// # Errors
    /// [`FieldError`]: missing steps and names, too small a limit.
    pub(super) fn new(
        studio: &'a Studio<'a>,
        output: &Path,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<Self, FieldError> {
        let Studio { document, .. } = studio;
        let (session, volume, pager) = (studio.flow(), studio.volume(), &studio.session.pager);
        let times = session.map_or(1, |s| s.dataset().catalog.times.len().max(1));
        let times = volume.map_or(times, |v| v.steps as usize);
        if document.step >= times && session.is_none() {
            let what = format!("there is no time step {}; there are {times}, counted from 0", document.step);
            return Err(FieldError::Usage(what).at("step"));
        }
        session.map_or(Ok(()), |s| s.dataset().check_step(document.step)).map_err(|e| e.at("step"))?;
        let pictures = match &document.film {
            _ if !document.path.is_empty() => on_path(document, times)?,
            Some(film) => film.frames.of(times)?.into_iter().map(|step| Picture { number: step, step }).collect(),
            None => vec![Picture { number: document.step, step: document.step }],
        };
        let is_fixed = |object: &Object| match (object, session) {
            (Object::Lines { from: LinesFrom::File(_), .. }, _) => true,
            (_, Some(session)) if document.film.is_some() => is_steady(document, session, object),
            _ => false,
        };
        let is_fixed: Vec<bool> = document.objects.iter().map(is_fixed).collect();
        let mut moving = Vec::with_capacity(document.objects.len());
        for (n, object) in document.objects.iter().enumerate() {
            moving.push(match (object, session) {
                (Object::Lines { from: LinesFrom::Trace(options), paint, tail, .. }, Some(session))
                    if is_path(options) =>
                {
                    let field = paint.map.as_ref().and_then(|m| document.map(m)).map(|m| m.field.as_str());
                    let spec = parts::trace(options.clone(), session, watch);
                    let made = spec.and_then(|spec| MovingLines::new(session, spec, field, *tail, watch));
                    Some(made.map_err(|e| placed(document, n, e))?)
                }
                (Object::Lines { tail: Some(_), .. }, _) => {
                    return Err(FieldError::Usage("scene: 'tail' is for pathlines; these lines have no time".into()))
                }
                _ => None,
            });
        }
        if moving.iter().any(Option::is_some) && pictures.windows(2).any(|w| w[1].step < w[0].step) {
            return Err(FieldError::Usage(
                "path: pathlines and streaklines go forward in time, and the steps of the path do not".into(),
            ));
        }
        let fixed_bytes = pager.ledger().limit() / ARENA_SHARE / FIXED_SHARE;
        // The limit named by an error of one object must also suffice for the next.
        let enough = document.objects.iter().any(|o| matches!(o, Object::Lines { .. }));
        let enough = session.filter(|_| enough).map_or(0, |s| picture_limit(s, document.size));
        Ok(Self {
            outputs: studio.outputs(output),
            pictures,
            digests: Digests::of(studio)?,
            fixed: document.objects.iter().map(|_| None).collect(),
            is_fixed,
            arena: Arena::new(pager, fixed_bytes as usize)?,
            moving,
            enough,
            studio,
        })
    }

    fn arena_of_frames(&self) -> Result<Arena, FieldError> {
        let bytes = self.studio.session.pager.ledger().limit() / ARENA_SHARE;
        Arena::new(&self.studio.session.pager, (bytes - bytes / FIXED_SHARE) as usize)
    }

    fn gather(
        &mut self,
        step: usize,
        arena: &mut Arena,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<StepFrame, FieldError> {
        let begun_us = self.studio.session.pager.now_us();
        let Studio { document, session, .. } = self.studio;
        let (flow, volume) = (self.studio.flow(), self.studio.volume());
        let mut own: Vec<Option<GatheredObject>> = document.objects.iter().map(|_| None).collect();
        // Particles come first, because they continue from the previous step.
        for (n, (moving, own)) in self.moving.iter_mut().zip(&mut own).enumerate() {
            if let (Some(moving), Some(session)) = (moving, flow) {
                let time = session.dataset().catalog.times[step];
                moving.go_to(session, time, watch).map_err(|e| placed(document, n, more_than(e, self.enough)))?;
                *own = Some(moving.gather(session, time, arena).map_err(|e| placed(document, n, e))?);
            }
        }
        for (n, object) in document.objects.iter().enumerate() {
            if own[n].is_some() || self.fixed[n].is_some() {
                continue;
            }
            let into = if self.is_fixed[n] { &mut self.arena } else { &mut *arena };
            let mut gatherer = Gatherer { document, step, flow, volume, session, arena: into };
            let gathered =
                gatherer.gather(object, watch).map_err(|e| placed(document, n, more_than(e, self.enough)))?;
            let place = if self.is_fixed[n] { &mut self.fixed[n] } else { &mut own[n] };
            *place = Some(gathered);
        }
        self.studio.tell_span("gather", begun_us);
        Ok(StepFrame { step, own })
    }

    fn shots(&self) -> Vec<(Shot<'a>, Option<&'a [usize]>)> {
        let (document, session) = (self.studio.document, self.studio.flow());
        let title = document.title.as_deref();
        if document.views.is_empty() {
            let (camera, path, size) = (&document.camera, &document.path[..], document.size);
            return vec![(Shot { document, session, camera, path, size, title }, None)];
        }
        let view = |v: &'a ViewSpec| {
            // A view's own camera is fixed.
            let (camera, path) = v.camera.as_ref().map_or((&document.camera, &document.path[..]), |own| (own, &[][..]));
            let title = v.title.as_deref().or(title);
            (
                Shot { document, session, camera, path, size: v.size.unwrap_or(document.size), title },
                v.objects.as_deref(),
            )
        };
        document.views.iter().map(view).collect()
    }

    /// State of the existing pictures, if they are kept.
    fn there(&self) -> There {
        let Some(FilmSpec { resume: true, fps: None, .. }) = self.studio.document.film else { return There::default() };
        let shots = self.shots();
        let said = |ranges: &[[f64; 2]], seen: &[ViewParts]| {
            says_ranges(self.studio.document, ranges)
                && shots.iter().zip(seen).all(|((shot, _), seen)| seen.chosen.is_said_by(shot.camera))
        };
        let names = |step: usize| self.outputs.iter().filter_map(|o| numbered(o, step)).collect::<Vec<_>>();
        let pictures = self.pictures.iter().map(|p| (p.number, names(p.number)));
        There::of(&self.digests, pictures, self.outputs.len(), &said)
    }

    /// Makes the pictures, and returns their report.
    ///
    /// # Errors
    /// [`FieldError`]; an interruption.
    pub(super) fn make(mut self, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
        let There { common: known, lack, other, why } = self.there();
        let mut made = FilmSummary {
            frames: Vec::new(),
            bytes: 0,
            drawn: Vec::new(),
            lack: Lack::default(),
            partial: false,
            redrawn: (other, why),
        };
        let common = if let Some((ranges, seen)) = known {
            let none: Vec<Range> = self.studio.document.objects.iter().map(|_| Range::EMPTY).collect();
            let maps = settle_maps(self.studio.document, &none, self.studio.flow(), Some(&ranges))?;
            let common = SharedParts { maps, seen };
            let (wanted, there): (Vec<Picture>, Vec<Picture>) =
                self.pictures.iter().partition(|p| lack.contains(&p.number));
            made.frames.extend(there.into_iter().map(|p| (p, true)));
            let total = wanted.len();
            let mut last: Option<(StepFrame, Arena)> = None;
            for (n, picture) in wanted.into_iter().enumerate() {
                let mut told = by_frame(watch, "drawing", n, total);
                let (frame, arena) = match last.take().filter(|(f, _)| f.step == picture.step) {
                    Some(same) => same,
                    None => {
                        let mut arena = self.arena_of_frames()?;
                        (self.gather(picture.step, &mut arena, &mut told)?, arena)
                    }
                };
                let shown = frame.shown(&self.fixed, [&self.arena, &arena]);
                self.draw(picture, &shown, &common, &mut [], &mut made, &mut told)?;
                last = Some((frame, arena));
            }
            made.frames.sort_unstable_by_key(|(p, _)| p.number);
            common
        } else {
            let mut arena = self.arena_of_frames()?;
            let mut steps: Vec<usize> = self.pictures.iter().map(|p| p.step).collect();
            if self.moving.iter().all(Option::is_none) {
                steps.sort_unstable();
            }
            steps.dedup();
            let (mut frames, total) = (Vec::with_capacity(steps.len()), steps.len());
            for (n, step) in steps.into_iter().enumerate() {
                let mut told = by_frame(watch, "gathering", n, total);
                frames.push(self.gather(step, &mut arena, &mut told)?);
            }
            let common = self.settle(&frames, &arena, &mut by_frame(watch, "drawing", 0, total))?;
            let mut videos = self.videos()?;
            let total = self.pictures.len();
            for (n, picture) in self.pictures.iter().enumerate() {
                let mut told = by_frame(watch, "drawing", n, total);
                let Some(frame) = frames.iter().find(|f| f.step == picture.step) else { continue };
                let shown = frame.shown(&self.fixed, [&self.arena, &arena]);
                self.draw(*picture, &shown, &common, &mut videos, &mut made, &mut told)?;
            }
            for video in videos {
                made.bytes += video.finish()?;
            }
            common
        };
        Ok(self.report(made, &common))
    }

    fn videos(&self) -> Result<Vec<Video>, FieldError> {
        let Some(fps) = self.studio.document.film.as_ref().and_then(|f| f.fps) else { return Ok(Vec::new()) };
        let each = self.shots().into_iter().zip(&self.outputs);
        each.map(|((shot, _), output)| Video::begin(output, shot.size, fps)).collect()
    }

    /// Settles the shared properties of all pictures of `frames`.
    fn settle(
        &self,
        frames: &[StepFrame],
        arena: &Arena,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<SharedParts, FieldError> {
        let objects = self.studio.document.objects.len();
        let shown: Vec<Vec<LayerSource<'_>>> =
            frames.iter().map(|f| f.shown(&self.fixed, [&self.arena, arena])).collect();
        let mut ranges = vec![Range::EMPTY; objects];
        for one in shown.iter().flatten() {
            ranges[one.number] = ranges[one.number].union(one.gathered.range());
        }
        let maps = settle_maps(self.studio.document, &ranges, self.studio.flow(), None)?;
        let words = frames.first().map(|f| self.words(f.step, false)).unwrap_or_default();
        // The words of a single picture are known; those of several differ.
        let partial = frames.len() == 1 && shown.iter().flatten().any(|s| s.gathered.failed.is_some());
        let words = Captions { partial, ..words };
        let seen = self.shots().into_iter().map(|(shot, which)| {
            let some: Vec<Vec<LayerSource<'_>>> = shown.iter().map(|f| only(f, which)).collect();
            shot.settle(&some, &maps, &words, &self.studio.session.pager, watch)
        });
        let seen = seen.collect::<Result<Vec<_>, _>>()?;
        Ok(SharedParts { maps, seen })
    }

    fn words(&self, step: usize, partial: bool) -> Captions {
        if let Some(volume) = self.studio.volume() {
            return of_volume(volume, self.studio.document, step, partial);
        }
        let Some(session) = self.studio.flow() else { return Captions { partial, ..Captions::default() } };
        let dataset = session.dataset();
        let length_unit = Some(dataset.length_unit()).filter(|u| u != "grid unit");
        let catalog = &dataset.catalog;
        let many = catalog.times.len() > 1;
        let wanted = self.studio.document.time.unwrap_or(many) && !catalog.times.is_empty();
        if wanted {
            dataset.uses.note(field::usage::Use::Time);
        }
        let moment = self.studio.document.moments.get(step);
        let time = wanted.then(|| match (moment, catalog.times_counted) {
            (Some(moment), _) => moment.clone(),
            (None, true) => format!("step {step}"),
            (None, false) => {
                let unit = Some(catalog.time_units.as_str()).filter(|u| !["", "1"].contains(u));
                let t = fixed_point(catalog.times[step], &catalog.times);
                format!("t = {t}{}", unit.map(|u| format!(" {u}")).unwrap_or_default())
            }
        });
        Captions { time, partial, length_unit, axes: None }
    }

    /// Draws a picture of all views, into `videos` if there are some.
    fn draw(
        &self,
        picture: Picture,
        shown: &[LayerSource<'_>],
        common: &SharedParts,
        videos: &mut [Video],
        made: &mut FilmSummary,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<(), FieldError> {
        let document = self.studio.document;
        let pager = &self.studio.session.pager;
        let begun_us = pager.now_us();
        pager.record(|| Event::FrameStart { frame: picture.number as u64 });
        let partial = shown.iter().any(|s| s.gathered.failed.is_some());
        let next = self.pictures.iter().skip_while(|p| p.number != picture.number).nth(1).map(|p| p.step);
        let (words, steps) = (self.words(picture.step, partial), PictureSteps { shown: picture.step, next });
        let mut text = vec![("Software", concat!("Farfield ", env!("CARGO_PKG_VERSION")).to_owned())];
        if let Some(time) = &words.time {
            text.extend([("Time", time.trim_start_matches("t = ").to_owned()), ("Step", picture.step.to_string())]);
        }
        // A resumed run must not keep an incomplete picture.
        if document.film.is_some() && !partial {
            text.extend([(DIGEST, self.digests.mark()), (SETTLED, common.text())]);
        }
        for (n, (shot, which)) in self.shots().into_iter().enumerate() {
            let (some, seen) = (only(shown, which), common.seen[n].on_path(shot.path, picture.number));
            let content = PictureContent { shown: &some, maps: &common.maps, words: &words, steps };
            if let Some(video) = videos.get_mut(n) {
                made.lack += shot.draw(&content, &seen, self.studio, &mut Out::Video(video), watch)?;
                let bytes = 3 * u64::from(shot.size[0]) * u64::from(shot.size[1]);
                pager.record(|| Event::Send { bytes, name: "ffmpeg".into() });
                continue;
            }
            let pattern = &self.outputs[n];
            let name = document.film.as_ref().and_then(|_| numbered(pattern, picture.number));
            let mut file = PictureFile::create(name.as_deref().unwrap_or(pattern))?;
            let text: &[(&'static str, String)] =
                if words.time.is_some() || document.film.is_some() { &text } else { &[] };
            let out = &mut Out::Png(&mut file, text);
            made.lack += shot.draw(&content, &seen, self.studio, out, watch)?;
            made.bytes += file.commit()?;
        }
        pager.record(|| Event::FrameEnd { frame: picture.number as u64 });
        self.studio.tell_span("draw", begun_us);
        made.frames.push((picture, false));
        made.partial |= partial;
        made.drawn = drawn(shown);
        Ok(())
    }

    fn report(&self, made: FilmSummary, common: &SharedParts) -> Value {
        let document = self.studio.document;
        let maps = common.maps.iter();
        let maps: Map<String, Value> =
            maps.map(|m| (m.name.clone(), json!({"field": m.field, "range": m.shown(), "units": m.units}))).collect();
        let mut found = json!({
            "output": self.outputs[0], "size": self.shots()[0].0.size, "maps": maps, "drawn": made.drawn,
            "camera": common.seen[0].chosen.json(), "bytes_written": made.bytes,
            "partial": made.partial || made.lack.any(), "pixels_missing": made.lack.gaps,
        });
        if document.budget_s.is_some() {
            found["pixels_filled"] = made.lack.filled.into();
        }
        if !document.views.is_empty() {
            let views = self.shots().into_iter().zip(&self.outputs).zip(&common.seen);
            found["views"] = views
                .map(|(((shot, _), output), seen)| json!({"output": output, "size": shot.size, "camera": seen.chosen.json()}))
                .collect();
        }
        if document.film.is_some() {
            let times = self.studio.session.dataset().catalog.times.clone();
            let frames = made.frames.iter();
            if let (pictures @ 1.., why) = made.redrawn {
                found["redrawn"] = json!({"pictures": pictures, "why": why});
            }
            found["frames"] = frames
                .map(|(p, was_there)| {
                    json!({"frame": p.number, "step": p.step, "time": times.get(p.step), "was_there": was_there})
                })
                .collect();
        }
        found
    }
}

/// Captions of a picture of a volume.
fn of_volume(volume: &Volume, document: &SceneDocument, step: usize, partial: bool) -> Captions {
    let spec = &volume.spec;
    let wanted = document.time.unwrap_or(spec.times.len() > 1) && !spec.times.is_empty();
    let time = wanted.then(|| match document.moments.get(step) {
        Some(moment) => moment.clone(),
        None => {
            let unit = Some(spec.time_units.as_str()).filter(|u| !["", "1"].contains(u));
            let unit = unit.map(|u| format!(" {u}")).unwrap_or_default();
            format!("t = {}{unit}", fixed_point(spec.times[step], &spec.times))
        }
    });
    let axes = spec.anatomy.as_ref().and_then(|letters| {
        let all: Vec<String> = letters.chars().map(String::from).collect();
        <[String; 3]>::try_from(all).ok()
    });
    let length_unit = Some(spec.length_unit.clone()).filter(|u| !["voxel", "1"].contains(&u.as_str()));
    Captions { time, partial, length_unit, axes }
}

struct FilmSummary {
    /// The pictures, and whether they existed.
    frames: Vec<(Picture, bool)>,
    bytes: u64,
    /// The objects of the last picture.
    drawn: Vec<Value>,
    partial: bool,
    /// Pixels with gaps, and filled pixels.
    lack: Lack,
    /// Number of existing pictures that do not match, and why.
    redrawn: (usize, &'static str),
}

/// Descriptions of objects.
fn drawn(shown: &[LayerSource<'_>]) -> Vec<Value> {
    let name = |n: usize| {
        let g = shown[n].gathered;
        // Two traces of one scene have the same name.
        let before = shown[..n].iter().filter(|b| b.gathered.name == g.name).count();
        let name = if before > 0 { format!("{} {}", g.name, before + 1) } else { g.name.clone() };
        let mut found = json!({"kind": g.kind, "name": name, "primitives": g.primitives()});
        if let Some(failure) = &g.failed {
            found["failure"] = failure.as_str().into();
        }
        found
    };
    (0..shown.len()).map(name).collect()
}

/// The objects of a view.
fn only<'a>(shown: &[LayerSource<'a>], which: Option<&[usize]>) -> Vec<LayerSource<'a>> {
    shown.iter().filter(|s| which.is_none_or(|w| w.contains(&s.number))).copied().collect()
}

/// Whether options of a trace are for particles in time.
fn is_path(options: &Value) -> bool {
    matches!(options["kind"].as_str(), Some("pathline" | "streakline"))
}

/// Turns the progress of one picture into that of all.
fn by_frame<'w, 'c>(
    watch: &'w mut ProgressWatch<'c>,
    what: &'static str,
    n: usize,
    total: usize,
) -> impl FnMut(&str, f64, f64) -> bool + use<'w, 'c> {
    move |phase, done, of| {
        if total < 2 {
            return watch(phase, done, of);
        }
        let share = if of > 0.0 { (done / of).clamp(0.0, 1.0) } else { 0.0 };
        // The phases of one picture follow each other. Only drawing has a known length.
        let part = if phase == "drawing" { share } else { 0.0 };
        watch(
            if what == "drawing" { "drawing pictures" } else { "gathering time steps" },
            n as f64 + part,
            total as f64,
        )
    }
}
