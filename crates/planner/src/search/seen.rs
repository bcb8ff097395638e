//! What a walk came across.

use plan::Pattern;

use super::record::Record;

/// The best that an attempt came across, whether or not it was better than what was known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// Channels × bandwidth; below 0 when there was no solution.
    pub product: f32,
    /// Fewest links among solutions with that product.
    pub hops: i32,
    /// Most channels.
    pub channels: usize,
}

impl Seen {
    pub const NOTHING: Self = Self {
        product: -1.0,
        hops: i32::MAX,
        channels: 0,
    };

    pub fn note(&mut self, solution: &Record) {
        self.merge(Self {
            product: solution.product(),
            hops: solution.hops,
            channels: solution.channels,
        });
    }

    pub fn merge(&mut self, other: Self) {
        if other.product > self.product {
            (self.product, self.hops) = (other.product, other.hops);
        } else if other.product == self.product {
            self.hops = self.hops.min(other.hops);
        }
        self.channels = self.channels.max(other.channels);
    }

    /// With so many more links in front.
    pub const fn after(self, hops: i32) -> Self {
        Self {
            hops: self.hops.saturating_add(hops),
            ..self
        }
    }

    /// Whether one of the solutions could replace `best` in an attempt like `current`.
    pub fn could_replace(&self, current: &Record, best: &Record) -> bool {
        let product = best.product_as(current.pattern);
        self.product > product
            || match current.pattern {
                Pattern::Nvls => self.channels > best.channels,
                _ => {
                    self.product == product
                        && current.pattern == best.pattern
                        && current.cross_nic == best.cross_nic
                        && self.hops < best.hops
                }
            }
    }
}
