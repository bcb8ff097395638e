//! The module `toporing._native`: communicators on memory at addresses, and the planner's answers
//! as JSON. The Python package around it (`python/toporing`) gives them types.
//!
//! In reading order: [`error`], [`signals`], [`held`], [`outcome`], [`notifier`], [`kept`],
//! [`work`], [`numbers`], [`comm`], [`plan`].

pub mod comm;
pub mod error;
pub mod held;
pub mod kept;
pub mod notifier;
pub mod numbers;
pub mod outcome;
pub mod plan;
pub mod signals;
pub mod work;

use pyo3::prelude::*;

/// The module.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("CommError", py.get_type::<error::CommError>())?;
    module.add("CommTimeoutError", py.get_type::<error::CommTimeoutError>())?;
    module.add_class::<comm::Comm>()?;
    module.add_class::<work::Work>()?;
    module.add("TYPES", numbers::types())?;
    module.add("OPERATIONS", numbers::operations())?;
    module.add("COLLECTIVES", numbers::collectives())?;
    module.add_function(wrap_pyfunction!(comm::unique_id, module)?)?;
    module.add_function(wrap_pyfunction!(comm::free_unique_id, module)?)?;
    module.add_function(wrap_pyfunction!(comm::call_site, module)?)?;
    module.add_function(wrap_pyfunction!(notifier::give_turn, module)?)?;
    module.add("PlanError", py.get_type::<plan::PlanError>())?;
    module.add_class::<plan::Planned>()?;
    module.add_function(wrap_pyfunction!(plan::ask, module)?)?;
    module.add_function(wrap_pyfunction!(plan::text, module)?)?;
    module.add_function(wrap_pyfunction!(plan::questions, module)?)?;
    module.add_function(wrap_pyfunction!(plan::machine, module)?)?;
    module.add_function(wrap_pyfunction!(plan::documents, module)?)?;
    module.add_function(wrap_pyfunction!(plan::document, module)?)?;
    module.add_function(wrap_pyfunction!(plan::machines, module)?)?;
    module.add_function(wrap_pyfunction!(plan::versions, module)?)?;
    module.add_function(wrap_pyfunction!(plan::read_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(plan::read, module)?)
}
