//! The fields of each zone for a method, and the memory of a block.

use super::CoreSpec;
use field::dataset::Dataset;
use field::error::FieldError;
use field::locator::ZoneFields;
use field::nodes::Zone;
use field::quantity::Quantity;
use kernels::cores::block::{CoreBlock, BLOCK};
use kernels::cores::Method;
use pager::{PageId, Pager};
use runtime::session::Session;
use std::sync::Arc;

/// The reads of one purpose: fields with consecutive values.
pub(super) type Fields = Vec<Quantity>;

/// Stages in which a block is read, each with its own fields.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ReadStage {
    /// The use of nodes: iblank, and lambda2 if it decides.
    Mark,
    /// Position and both vectors.
    Set,
    /// The input of strength, at points.
    Strength,
    /// The user's fields, at kept points.
    Scalars,
}

/// A zone that may have cores.
pub(super) struct ZonePlan {
    /// Number in the dataset.
    pub zone: usize,
    /// Blocks along i, j, k.
    pub blocks: [u32; 3],
    /// Number of its first task.
    first: u64,
    /// The arrays of its fields.
    pub info: ZoneFields,
    mark: Fields,
    set: Fields,
    strength: Fields,
    scalars: Fields,
}

impl ZonePlan {
    /// The fields of a stage.
    pub fn fields(&self, stage: ReadStage) -> &Fields {
        match stage {
            ReadStage::Mark => &self.mark,
            ReadStage::Set => &self.set,
            ReadStage::Strength => &self.strength,
            ReadStage::Scalars => &self.scalars,
        }
    }
}

/// The plan of a run.
pub(super) struct CorePlan {
    pub dataset: Arc<Dataset>,
    pub method: Method,
    pub step: usize,
    pub min_strength: f64,
    pub zones: Vec<ZonePlan>,
    /// Components of the sampled fields.
    pub components: usize,
    tasks: u64,
    /// Most bytes of the pages of one box and one stage, and of deriving one of them.
    box_bytes: u64,
    making: u64,
}

/// The memory of a task.
#[derive(Copy, Clone, Debug)]
pub(super) struct Size {
    /// Planes of nodes.
    pub planes: u32,
    /// Boxes of pages that are requested together.
    pub ahead: usize,
    /// Tasks at a time.
    pub active: usize,
}

/// Fields beside velocity of a method, by name: the inputs of strength, and the second vector. For lambda2 all inputs
/// of the two vectors.
struct MethodFields {
    mark: Vec<String>,
    set: Vec<String>,
    strength: Vec<String>,
}

impl MethodFields {
    fn of(method: Method, u: &str) -> Self {
        let rows = |of: &dyn Fn(&str) -> String| ["x", "y", "z"].map(of).to_vec();
        match method {
            Method::SujudiHaimes => {
                let row = rows(&|a| format!("dot(grad({u}.{a}), {u})")).join(", ");
                Self {
                    mark: Vec::new(),
                    set: vec![u.to_owned(), format!("vector({row})")],
                    strength: rows(&|a| format!("grad({u}.{a})")),
                }
            }
            Method::Levy => {
                Self { mark: Vec::new(), set: vec![u.to_owned(), format!("curl({u})")], strength: Vec::new() }
            }
            Method::Lambda2 => {
                let lambda2 = format!("lambda2({u})");
                let hessian = rows(&|a| format!("grad(grad({lambda2}).{a})"));
                let gradient = [format!("grad({lambda2})")].into_iter();
                let strength = [lambda2.clone()].into_iter().chain(hessian.clone()).chain([u.to_owned()]);
                Self { mark: vec![lambda2], set: gradient.chain(hessian).collect(), strength: strength.collect() }
            }
        }
    }
}

impl CorePlan {
    /// Resolves names, and registers the derived fields that the method needs.
    pub fn new(session: &Session, spec: &CoreSpec) -> Result<Self, FieldError> {
        let before = session.dataset();
        let is_vector = |z: &Zone| Quantity::named(z, &spec.field).map(|q| q.components());
        session.derive(std::slice::from_ref(&spec.field))?;
        let dataset = session.dataset();
        drop(before);
        let sizes: Vec<Option<usize>> = dataset.zones.iter().map(is_vector).collect();
        if sizes.iter().all(Option::is_none) {
            return Err(dataset.unknown_field(&spec.field));
        }
        if let Some(n) = sizes.iter().flatten().find(|n| **n != 3) {
            return Err(FieldError::Usage(format!(
                "vortex cores are of a vector of three components; '{}' has {n}",
                spec.field
            )));
        }
        let solid = |z: &Zone| z.dims().iter().all(|n| *n > 1);
        if !dataset.zones.iter().any(solid) {
            return Err(FieldError::Usage(
                "vortex cores are lines in space, and no zone of the data has a volume".into(),
            ));
        }
        let names = MethodFields::of(spec.method, &spec.field);
        let all = names.mark.iter().chain(&names.set).chain(&names.strength).chain(&spec.scalars);
        session.derive(&all.collect::<Vec<_>>())?;
        let dataset = session.dataset();
        dataset.check_names(&spec.scalars)?;
        let (mut zones, mut tasks, mut components) = (Vec::new(), 0u64, None);
        for (zone, z) in dataset.zones.iter().enumerate().filter(|(n, z)| sizes[*n].is_some() && solid(z)) {
            let named = |names: &[String]| -> Result<Fields, FieldError> {
                names.iter().map(|n| dataset.quantity(zone, n)).collect()
            };
            let xyz = Quantity::Stored { array: z.xyz, components: z.arrays[z.xyz].components };
            let mut mark: Fields =
                z.iblank.map(|array| Quantity::Stored { array, components: 1 }).into_iter().collect();
            mark.extend(named(&names.mark)?);
            let mut set = vec![xyz];
            set.extend(named(&names.set)?);
            let info = dataset.zone_fields(zone, spec.step)?;
            let scalars = named(&spec.scalars)?;
            dataset.uses.quantities(&scalars);
            let blocks = z.cells().map(|n| n.div_ceil(BLOCK));
            let sum: usize = scalars.iter().map(|q| q.components()).sum();
            if *components.get_or_insert(sum) != sum {
                return Err(FieldError::Usage(
                    "a sampled field has unlike numbers of components in different zones".into(),
                ));
            }
            zones.push(ZonePlan {
                zone,
                blocks,
                first: tasks,
                info,
                mark,
                set,
                strength: named(&names.strength)?,
                scalars,
            });
            tasks += blocks.iter().map(|n| u64::from(*n)).product::<u64>();
        }
        let mut plan = Self {
            dataset,
            method: spec.method,
            step: spec.step,
            min_strength: spec.min_strength,
            zones,
            components: components.unwrap_or(0),
            tasks,
            box_bytes: 0,
            making: 0,
        };
        (plan.box_bytes, plan.making) = plan.pages_bytes(&session.pager);
        Ok(plan)
    }

    /// The arrays of a zone that a stage reads.
    fn arrays(of: &ZonePlan, stage: ReadStage) -> Vec<usize> {
        let mut arrays = ZoneFields { sampled: of.fields(stage).clone(), ..of.info.clone() }.arrays();
        arrays.sort_unstable();
        arrays.dedup();
        arrays
    }

    fn pages_bytes(&self, pager: &Pager) -> (u64, u64) {
        let (mut most, mut making) = (0, 0);
        for of in &self.zones {
            let z = &self.dataset.zones[of.zone];
            for stage in [ReadStage::Mark, ReadStage::Set, ReadStage::Strength, ReadStage::Scalars] {
                let arrays = Self::arrays(of, stage);
                let frame =
                    |a: &usize| pager.map(z.arrays[*a].id).page_bytes(PageId::new(z.arrays[*a].id, 0, 0)) as u64;
                // A page and its inputs.
                let sum: u64 = arrays.iter().map(frame).sum();
                most = most.max(sum);
                making = arrays.iter().map(|a| z.arrays[*a].making.max(frame(a))).fold(making, u64::max);
            }
        }
        (most, making)
    }

    /// Number of blocks.
    pub fn tasks(&self) -> u64 {
        self.tasks
    }

    /// The zone of a task and the lowest cell of its block.
    pub fn block(&self, task: u64) -> (usize, [u32; 3]) {
        let plan = self.zones.partition_point(|z| z.first <= task).max(1) - 1;
        let [ni, nj, _] = self.zones[plan].blocks.map(u64::from);
        let n = task - self.zones[plan].first;
        (plan, [n % ni, n / ni % nj, n / (ni * nj)].map(|n| n as u32 * BLOCK))
    }

    /// Bytes of the largest block with this many planes, and for points.
    fn block_bytes(&self, planes: u32) -> u64 {
        let of = |z: &ZonePlan| {
            let cells = self.dataset.zones[z.zone].cells().map(|n| n.min(BLOCK));
            CoreBlock::bytes_with(cells, planes) as u64
        };
        self.zones.iter().map(of).max().unwrap_or(0) + POINTS_BYTES
    }

    /// The memory of a task under a limit.
    pub fn size(&self, limit: u64, workers: usize) -> Size {
        // Slabs end where pages do, if that fits.
        let page = |z: &ZonePlan| self.dataset.zones[z.zone].translation.page[2];
        let thick = self.zones.iter().map(page).max().unwrap_or(1).min(BLOCK);
        let each = limit / 4 / (2 * workers.max(1)) as u64;
        let fits = |planes: &u32| self.block_bytes(*planes) <= each;
        let whole = (1..=BLOCK / thick).rev().map(|n| n * thick + 1).filter(|p| *p <= MOST_PLANES.max(thick + 1));
        let planes = whole.chain((2..=thick).rev()).find(fits).unwrap_or(2);
        let ahead = (limit / 32 / self.box_bytes.max(1)).clamp(1, 8) as usize;
        let room = self.block_bytes(planes) + ahead as u64 * self.box_bytes;
        let active = (limit / 2 / room.max(1)).clamp(1, MOST_ACTIVE) as usize;
        Size { planes, ahead, active }
    }

    /// Bytes of the smallest task with the pages of its largest step: a box, or those around the three nodes of a
    /// point.
    pub fn least_bytes(&self) -> u64 {
        self.block_bytes(2) + 3 * self.box_bytes + 2 * self.making
    }

    /// Bytes with which only pages wait for memory.
    pub fn enough_bytes(&self, workers: usize) -> u64 {
        2 * (self.least_bytes() + workers as u64 * (self.block_bytes(2) + self.box_bytes))
    }

    /// Stored numbers of a point beside its place: velocity, strength, normalized helicity, and the sampled fields.
    pub fn record_numbers(&self) -> usize {
        super::store::OWN + self.components
    }
}

/// Initial room for points of a block.
const POINTS_BYTES: u64 = 64 << 10;
/// More planes at a time save nothing.
const MOST_PLANES: u32 = 17;
/// Most blocks in progress.
const MOST_ACTIVE: u64 = 32;
