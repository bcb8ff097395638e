//! Fits the model to measured times.

use crate::Profile;
use crate::model::{Model, PARAMETERS};

/// How far a fitted parameter may be from the usual one, as a factor. Times that hardly depend on a
/// parameter would let it drift.
const FURTHEST: f64 = 4.0;

/// Passes over all parameters when they are fitted.
const PASSES: u32 = 60;

impl Model {
    /// The model whose times are nearest to a profile's measured ones, on a logarithmic scale. What
    /// no measurement depends on stays as it is here.
    pub fn fit(&self, profile: &Profile) -> Self {
        let mut model = *self;
        let mut error = model.error(profile);
        let mut factor = 2.0;
        for _ in 0..PASSES {
            let before = error;
            for parameter in 0..PARAMETERS {
                for change in [factor, 1.0 / factor] {
                    let mut other = model;
                    *other.parameter(parameter) *= change;
                    let usual = self.parameters()[parameter];
                    let ratio = *other.parameter(parameter) / usual;
                    if !(1.0 / FURTHEST..=FURTHEST).contains(&ratio) {
                        continue;
                    }
                    let changed = other.error(profile);
                    if changed < error {
                        (model, error) = (other, changed);
                    }
                }
            }
            if error >= before {
                factor = f64::sqrt(factor);
            }
        }
        model
    }

    /// How far predicted times are from measured ones: the mean of the logarithms of their ratios,
    /// without signs, so that single times that other programs disturbed count little.
    pub fn error(&self, profile: &Profile) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        for measured in &profile.measured {
            let Some(choice) = measured.choice() else {
                continue;
            };
            let shape = measured.shape(profile.cores);
            let sizes = profile.sizes.iter().skip(measured.first);
            for (bytes, time) in sizes.zip(&measured.times_us) {
                let predicted = self.predict(measured.collective, &choice, &shape, *bytes);
                if let Some(predicted) = predicted {
                    sum += (predicted.time_us() / time).ln().abs();
                    count += 1.0;
                }
            }
        }
        if count > 0.0 { sum / count } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_model_is_fitted_to_the_built_in_times() {
        let profile = Profile::default();
        let fitted = Model::USUAL.fit(&profile);
        assert!(
            profile.model.error(&profile) < 1.01 * fitted.error(&profile),
            "copy the fitted model to default.toml: {fitted:#?}"
        );
    }

    #[test]
    fn a_fit_finds_the_model_behind_the_times() {
        let mut profile = Profile::default();
        let behind = Model {
            switch_us: 5.0,
            signal_us: 0.5,
            copy_gb_s: 3.0,
            ..profile.model
        };
        for measured in &mut profile.measured {
            let choice = measured.choice().expect("the file is right");
            let shape = measured.shape(2);
            for (time, bytes) in measured.times_us.iter_mut().zip(&profile.sizes) {
                let known = behind.predict(measured.collective, &choice, &shape, *bytes);
                *time = known.map_or(*time, |it| it.time_us());
            }
        }
        let fitted = Model::USUAL.fit(&profile);
        assert!(fitted.error(&profile) < 0.05);
        assert!((fitted.switch_us / 5.0).ln().abs() < 0.3, "{fitted:#?}");
    }
}
