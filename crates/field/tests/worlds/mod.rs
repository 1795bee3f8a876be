//! Zones in memory whose arrays follow rules, for tests of fields derived from them.

#![allow(dead_code)] // each test uses a part

use field::catalog::DType;
use field::derive::page::{DerivedPages, OfStep};
use field::derive::Definitions;
use field::expression::compile::{compile, ZoneNames};
use field::expression::parse::parse;
use field::expression::run::Parts;
use field::nodes::{ArraySlot, Zone};
use field::quantity::FreeStream;
use field::translate::Translation;
use field::units::Unit;
use pager::{Located, Lookup, PageError, PageId, PageMap, Pager, PagerConfig};
use std::sync::Arc;

/// Values at a node.
pub type Rule = Arc<dyn Fn([usize; 3]) -> Vec<f64> + Send + Sync>;

/// Pages whose numbers follow a rule.
struct Ruled {
    translation: Translation,
    components: usize,
    dtype: DType,
    rule: Rule,
}

impl PageMap for Ruled {
    fn name(&self) -> &str {
        "ruled"
    }
    fn pages(&self) -> u64 {
        self.translation.count()
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.translation.component * self.components * self.dtype.size()
    }
    fn locate(&self, _: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        Located::Fill
    }
    fn decode(&self, _: PageId, _: &[u64], _: &[u8], _: &mut [u8], _: &mut [u8]) -> Result<(), PageError> {
        Ok(())
    }
    fn fill(&self, id: PageId, frame: &mut [u8]) {
        let (first, inside) = self.translation.extent(id.page);
        frame.fill(0xEE);
        for k in 0..inside[2] {
            for j in 0..inside[1] {
                for i in 0..inside[0] {
                    let at = [first[0] + i, first[1] + j, first[2] + k];
                    let n = self.translation.node(at).element * self.components;
                    for (c, v) in (self.rule)(at.map(|n| n as usize)).into_iter().enumerate() {
                        let size = self.dtype.size();
                        let to = &mut frame[(n + c) * size..(n + c + 1) * size];
                        match self.dtype {
                            DType::Float32 => to.copy_from_slice(&(v as f32).to_ne_bytes()),
                            DType::Float64 => to.copy_from_slice(&v.to_ne_bytes()),
                            DType::Int32 => to.copy_from_slice(&(v as i32).to_ne_bytes()),
                            DType::Uint8 => to[0] = v as u8,
                        }
                    }
                }
            }
        }
    }
    fn checked(&self) -> bool {
        false
    }
}

/// A zone in memory, and its pager.
pub struct World {
    pub pager: Arc<Pager>,
    pub zone: Zone,
}

impl World {
    pub fn new(dims: [usize; 3], page: [usize; 3], limit: u64, arrays: &[(&str, usize, DType, Rule)]) -> Self {
        let pager = Pager::new(PagerConfig { limit, ..PagerConfig::default() }).unwrap();
        let translation = Translation::new(dims, core::array::from_fn(|a| page[a].min(dims[a])));
        let slots = arrays.iter().map(|(name, components, dtype, rule)| {
            let (components, dtype, rule) = (*components, *dtype, rule.clone());
            let id = pager.add_array(Arc::new(Ruled { translation, components, dtype, rule }));
            ArraySlot { name: (*name).into(), id, components, dtype, steady: true, derived: false, making: 0 }
        });
        let arrays: Vec<ArraySlot> = slots.collect();
        let find = |n: &str| arrays.iter().position(|a| a.name == n);
        let (xyz, iblank) = (find("xyz").unwrap(), find("iblank"));
        let zone = Zone { name: "zone1".into(), translation, xyz, iblank, boxes: Vec::new(), arrays, uniform: None };
        Self { pager, zone }
    }

    pub fn checked(&self, text: &str) -> field::expression::CompiledExpression {
        let e = Definitions::default().expanded(&self.zone, &parse(text).unwrap()).unwrap();
        let names = ZoneNames {
            zone: &self.zone,
            unit: &|_| None,
            length: Some(Unit::parse("L").unwrap()),
            time: None,
            known: &Vec::new,
        };
        compile(&e, &names).unwrap_or_else(|w| panic!("{text}: {w:?}"))
    }

    /// All values of an expression, `[component][k][j][i]`.
    pub fn values(&self, text: &str, dtype: DType) -> Vec<f64> {
        let program = self.checked(text).program;
        let parts = Parts::of(&program).unwrap();
        let steps: Arc<[OfStep]> = Arc::new([OfStep { time: 2.5, gamma: 1.4, free: FreeStream::from(0.5) }]);
        let components = program.roots.len();
        let id = self.pager.add_array(Arc::new(DerivedPages::new("made".into(), &self.zone, parts, dtype, steps)));
        let t = &self.zone.translation;
        let [ni, nj, nk] = t.dims.map(|n| n as usize);
        let mut out = vec![f64::NAN; components * ni * nj * nk];
        let mut worker = self.pager.worker();
        for page in 0..t.count() {
            let id = PageId::new(id, 0, page);
            let _hold = self.pager.fetch(&[id]).unwrap();
            let Lookup::Here(bytes) = worker.page(id) else { panic!("held") };
            let (first, inside) = t.extent(page);
            for k in 0..inside[2] {
                for j in 0..inside[1] {
                    for i in 0..inside[0] {
                        let at = [first[0] + i, first[1] + j, first[2] + k];
                        for c in 0..components {
                            let n = (t.node(at).element * components + c) * dtype.size();
                            let v = if dtype == DType::Float32 {
                                f64::from(f32::from_ne_bytes(bytes[n..n + 4].try_into().unwrap()))
                            } else {
                                f64::from_ne_bytes(bytes[n..n + 8].try_into().unwrap())
                            };
                            let [i, j, k] = at.map(|n| n as usize);
                            out[((c * nk + k) * nj + j) * ni + i] = v;
                        }
                    }
                }
            }
            worker.release();
        }
        out
    }
}
