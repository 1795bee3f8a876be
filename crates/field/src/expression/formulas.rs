//! Derived fields of the conserved variables as parts of expressions.

use super::compile::{Compiler, Id, One, Operand, Two, ZoneConstant};
use crate::quantity::Derived;

impl Compiler<'_> {
    /// The formulas of `quantity.rs`, operation by operation, so that the numbers are the same.
    pub(super) fn derived(&mut self, d: Derived) -> Vec<Id> {
        use Derived::*;
        let s = self.sources;
        let nothing = self.constant(f64::NAN);
        let density = s.density.map_or(nothing, |a| self.input(a, 0));
        let gamma = match s.gamma.filter(|_| d.needs_energy()) {
            Some(a) => self.input(a, 0),
            None => self.node(Operand::Given(ZoneConstant::Gamma)),
        };
        let one = self.constant(1.0);
        let m = s.momentum.map_or([nothing; 3], |a| self.vector(a));
        let inverse = self.two(Two::Divide, one, density);
        let v = m.map(|m| self.two(Two::Multiply, m, inverse));
        if d == Velocity {
            return v.to_vec();
        }
        let squares = v.map(|v| self.two(Two::Multiply, v, v));
        let xy = self.two(Two::Add, squares[0], squares[1]);
        let sum = self.two(Two::Add, xy, squares[2]);
        let half = self.constant(0.5);
        let kinetic = self.two(Two::Multiply, half, sum);
        let two = self.constant(2.0);
        let twice = self.two(Two::Multiply, two, kinetic);
        let speed = self.one(One::Sqrt, twice);
        let energy = s.energy.map_or(nothing, |a| self.input(a, 0));
        let less = self.two(Two::Subtract, gamma, one);
        let of_flow = self.two(Two::Multiply, density, kinetic);
        let of_heat = self.two(Two::Subtract, energy, of_flow);
        let pressure = self.two(Two::Multiply, less, of_heat);
        let weighed = self.two(Two::Multiply, gamma, pressure);
        let squared = self.two(Two::Divide, weighed, density);
        let sound = self.one(One::Sqrt, squared);
        let total = self.two(Two::Divide, energy, density);
        let internal = self.two(Two::Subtract, total, kinetic);
        let scalar = match d {
            Velocity | VelocityX => v[0],
            VelocityY => v[1],
            VelocityZ => v[2],
            VelocityMagnitude => speed,
            Pressure => pressure,
            PressureCoefficient => {
                let scale = self.node(Operand::Given(ZoneConstant::PressureScale));
                let relative = self.two(Two::Divide, pressure, scale);
                let free = self.two(Two::Divide, one, gamma);
                let above = self.two(Two::Subtract, relative, free);
                let mach = self.node(Operand::Given(ZoneConstant::Mach));
                let half_mach = self.two(Two::Multiply, half, mach);
                let dynamic = self.two(Two::Multiply, half_mach, mach);
                self.two(Two::Divide, above, dynamic)
            }
            Temperature => {
                let r = self.node(Operand::Given(ZoneConstant::GasConstant));
                let by = self.two(Two::Multiply, density, r);
                self.two(Two::Divide, pressure, by)
            }
            Mach => self.two(Two::Divide, speed, sound),
            SoundSpeed => sound,
            Entropy => {
                let (scale, rho) = (
                    self.node(Operand::Given(ZoneConstant::PressureScale)),
                    self.node(Operand::Given(ZoneConstant::Density)),
                );
                let relative = self.two(Two::Divide, weighed, scale);
                let denser = self.two(Two::Divide, density, rho);
                let power = self.two(Two::Power, denser, gamma);
                let ratio = self.two(Two::Divide, relative, power);
                let log = self.one(One::Log, ratio);
                self.two(Two::Divide, log, less)
            }
            InternalEnergy => internal,
            KineticEnergy => kinetic,
            StagnationEnergy => total,
            Enthalpy => self.two(Two::Multiply, gamma, internal),
        };
        vec![scalar]
    }
}
