//! Requests for conversions, parsed from JSON.

use crate::append::RequestedPages;
use crate::options::{ConvertOptions, DEFAULT_CODEC};
use crate::volume::VolumeOptions;
use field::error::FieldError;
use field::options::{usage, Object};
use field::paging::Layout;
use field::store::codec::Codec;
use field::volume::store::Downsample;
use std::ops::RangeInclusive;

/// Allowed page edges of flows.
const FLOW_PAGES: RangeInclusive<usize> = 2..=256;
/// Allowed page edges of volumes.
const VOLUME_PAGES: RangeInclusive<usize> = 4..=256;

/// Layout and codec by name.
struct PageForm {
    layout: Layout,
    codec: Codec,
    codec_name: String,
}

impl PageForm {
    fn take(o: &mut Object) -> Result<Self, FieldError> {
        let name = o.text("layout")?.unwrap_or_else(|| Layout::Cubed.name().into());
        let layout =
            Layout::parse(&name).ok_or_else(|| usage(format!("no layout '{name}'; there are: cubed, flat")))?;
        let codec_name = o.text("codec")?.unwrap_or_else(|| DEFAULT_CODEC.into());
        Ok(Self { layout, codec: Codec::parse(&codec_name, None)?, codec_name })
    }
}

/// The requested page edge, if any.
fn page(o: &mut Object) -> Result<Option<usize>, FieldError> {
    Ok(o.whole("page")?.map(|n| usize::try_from(n).unwrap_or(usize::MAX)))
}

/// The request for the conversion of a flow.
#[derive(Clone, Debug)]
pub struct ConvertRequest {
    /// Fields of the store; empty: the arrays of the source.
    pub fields: Vec<String>,
    /// Options of the conversion; limit, workers and spans are the session's.
    pub options: ConvertOptions,
    /// The codec as the user named it.
    pub codec_name: String,
    /// Whether to estimate only.
    pub dry_run: bool,
    given: Vec<String>,
}

impl ConvertRequest {
    /// Reads `fields`, `page`, `layout`, `codec`, `resume`, `overwrite`, `dry_run`, `append` and `given`.
    ///
    /// # Errors
    /// [`FieldError`] for an invalid option, for options that exclude each other, and for an unknown one.
    pub fn take(mut o: Object) -> Result<Self, FieldError> {
        let fields = o.texts("fields")?;
        let page = page(&mut o)?.unwrap_or(ConvertOptions::default().page);
        if !FLOW_PAGES.contains(&page) {
            return Err(usage(format!(
                "a page edge of {page} is not between 2 and 256; 4, 8, 16, 32 and 64 are usual"
            )));
        }
        let PageForm { layout, codec, codec_name } = PageForm::take(&mut o)?;
        let (resume, overwrite, dry_run) = (o.truth("resume")?, o.truth("overwrite")?, o.truth("dry_run")?);
        let (append, given) = (o.truth("append")?, o.texts("given")?);
        o.done()?;
        if append && (overwrite || dry_run) {
            let other = if overwrite { "overwrite" } else { "dry-run" };
            return Err(usage(format!("--append and --{other} do not go together; leave one of them out")));
        }
        if append && !fields.is_empty() {
            return Err(usage(
                "--append adds steps to stores that hold all arrays of their source, and does not go with --fields; convert the whole \
                 series again, with --overwrite",
            ));
        }
        let options = ConvertOptions { page, layout, codec, resume, overwrite, append, ..ConvertOptions::default() };
        Ok(Self { fields, options, codec_name, dry_run, given })
    }

    /// The explicitly requested properties of pages, without defaults.
    pub fn asked_pages(&self) -> RequestedPages {
        let is = |name: &str| self.given.iter().any(|g| g == name);
        RequestedPages {
            page: is("page").then_some(self.options.page),
            layout: is("layout").then_some(self.options.layout),
            codec: is("codec").then_some(self.options.codec),
        }
    }
}

/// The request for the conversion of a volume.
#[derive(Clone, Debug)]
pub struct VolumeRequest {
    /// Options of the conversion; limit, workers and spans are the session's.
    pub options: VolumeOptions,
    /// The codec as the user named it.
    pub codec_name: String,
    /// Whether to estimate only.
    pub dry_run: bool,
}

impl VolumeRequest {
    /// Options: `page`, `layout`, `codec`, `levels`, `downsample`, `resume`, `overwrite`, `dry_run`.
    ///
    /// # Errors
    /// [`FieldError`] for an invalid option, and for an unknown one.
    pub fn parse(options: &str) -> Result<Self, FieldError> {
        let mut o = Object::parse(options, "convert options")?;
        let page = page(&mut o)?.unwrap_or(VolumeOptions::default().page);
        if !VOLUME_PAGES.contains(&page) {
            return Err(usage(format!(
                "a page edge of {page} is not between {} and {}; 16, 32 and 64 are usual",
                VOLUME_PAGES.start(),
                VOLUME_PAGES.end()
            )));
        }
        let PageForm { layout, codec, codec_name } = PageForm::take(&mut o)?;
        let levels = o.whole("levels")?.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let downsample = o.text("downsample")?.map(|name| downsample(&name)).transpose()?;
        let (resume, overwrite) = (o.truth("resume")?, o.truth("overwrite")?);
        let dry_run = o.truth("dry_run")?;
        o.done()?;
        let options =
            VolumeOptions { page, layout, codec, levels, downsample, resume, overwrite, ..VolumeOptions::default() };
        Ok(Self { options, codec_name, dry_run })
    }
}

fn downsample(name: &str) -> Result<Downsample, FieldError> {
    Downsample::parse(name).ok_or_else(|| {
        let known = Downsample::ALL.map(Downsample::name).join(", ");
        usage(format!("no way to downsample is called '{name}'; there are: {known}"))
    })
}
