//! The solutions that a walk saw.

use plan::Pattern;

use super::record::Record;

/// The best solution that an attempt saw, whether or not it was better than the known one.
#[derive(Debug, Clone, Copy)]
pub(super) struct BestSolution {
    /// Most channels of a solution, 0 when there was none. All have the same bandwidth, so these
    /// are the best.
    pub channels: usize,
    /// Fewest links among solutions with so many channels.
    pub hops: i32,
}

impl BestSolution {
    pub(super) const NOTHING: Self = Self {
        channels: 0,
        hops: i32::MAX,
    };

    pub(super) fn note(&mut self, solution: &Record) {
        self.merge(Self {
            channels: solution.channels,
            hops: solution.hops,
        });
    }

    pub(super) fn merge(&mut self, other: Self) {
        if other.channels > self.channels {
            *self = other;
        } else if other.channels == self.channels {
            self.hops = self.hops.min(other.hops);
        }
    }

    /// With so many more links in front.
    pub(super) const fn after(self, hops: i32) -> Self {
        Self {
            hops: self.hops.saturating_add(hops),
            ..self
        }
    }

    /// Whether one of the solutions could replace `best` in an attempt like `current`.
    pub(super) fn could_replace(&self, current: &Record, best: &Record) -> bool {
        if self.channels == 0 {
            return false;
        }
        let product = current.product_of(self.channels);
        let best_product = best.product_as(current.pattern);
        product > best_product
            || match current.pattern {
                Pattern::Nvls => self.channels > best.channels,
                _ => {
                    product == best_product
                        && current.pattern == best.pattern
                        && current.cross_nic == best.cross_nic
                        && self.hops < best.hops
                }
            }
    }
}
