//! Modules, functions and occupancy.

use std::ffi::{CString, c_char};

use cudarc::driver::sys::{CUfunction_attribute as Attribute, CUresult};

use crate::answer::{Answer, Section, ensure, refuse};
use crate::arguments::{Out, text};
use crate::call::entry_points;
use crate::driver::{Driver, Function, Module, current};
use crate::execution::{Emulator, blocks_per_multiprocessor};
use crate::image;
use crate::table::Found;

const SECTION: Section = Section::Module;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// Most threads of a block.
pub const MOST_THREADS: u32 = 1024;

/// A kernel of the current context by its handle.
pub fn function(driver: &Driver, device: usize, handle: u64) -> Answer<Function> {
    let invalid = |rule: &str| refuse(CUresult::CUDA_ERROR_INVALID_HANDLE, SECTION, rule);
    match driver.objects().functions.find(handle) {
        Found::Live(found) if found.device == device => Ok(found.clone()),
        Found::Live(_) => invalid("the function is of another context than the current one"),
        Found::Dead => invalid("the function's module was unloaded"),
        Found::Unknown => invalid("the handle is no function"),
    }
}

entry_points! {
    /// Loads a module.
    fn cuModuleLoadData(module: Out<u64>, pointer: *const u8) {
        let (driver, device) = current()?;
        driver.settle(device);
        driver.not_while_capturing()?;
        let bytes = image::read(pointer)?;
        let gpu = &driver.machine.gpus[device];
        let image = image::load(&bytes, gpu.sm, driver.machine.setup.driver)?;
        let number = driver.objects().modules.insert(Module { device, image });
        module.put(number, SECTION)
    }

    /// Unloads a module with its functions.
    fn cuModuleUnload(module: u64) {
        let (driver, device) = current()?;
        driver.settle(device);
        let mut objects = driver.objects();
        let invalid = |rule: &str| refuse(CUresult::CUDA_ERROR_INVALID_HANDLE, SECTION, rule);
        match objects.modules.find(module) {
            Found::Live(found) if found.device == device => {}
            Found::Live(_) => return invalid("the module is of another context than the current one"),
            Found::Dead => return invalid("the module was unloaded before"),
            Found::Unknown => return invalid("the handle is no module"),
        }
        objects.functions.take(|it| it.module == module);
        objects.modules.remove(module);
        Ok(())
    }

    /// A kernel of a module.
    fn cuModuleGetFunction(result: Out<u64>, module: u64, name: *const c_char) {
        let (driver, device) = current()?;
        let name = text(name, SECTION)?;
        let emulator = Emulator::get(driver.machine.setup.emulator.as_deref())?;
        let mut objects = driver.objects();
        let error = CUresult::CUDA_ERROR_INVALID_HANDLE;
        let Found::Live(loaded) = objects.modules.find(module) else {
            return refuse(error, SECTION, "the handle is no loaded module");
        };
        ensure(loaded.device == device, error, SECTION, "the module is of another context")?;
        let capability = loaded.image.capability;
        let found = loaded.image.functions.iter().find(|it| it.name == name);
        let error = CUresult::CUDA_ERROR_NOT_FOUND;
        let Some(found) = found.cloned() else {
            return refuse(error, SECTION, format!("the module has no function `{name}`"));
        };
        let name = CString::new(name).unwrap_or_default();
        let Some(parameters) = emulator.parameters(&name) else {
            return refuse(error, Section::Machine, format!("the emulator has no kernel {name:?}"));
        };
        let function = Function { device, module, name, registers: found.registers, capability, parameters };
        let number = objects.functions.insert(function);
        result.put(number, SECTION)
    }

    /// An attribute of a kernel.
    fn cuFuncGetAttribute(result: Out<i32>, attribute: u32, handle: u64) {
        let (driver, device) = current()?;
        let found = function(driver, device, handle)?;
        let is = |wanted: Attribute| attribute == wanted as u32;
        let value = match () {
            () if is(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS) => found.registers,
            () if is(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) => MOST_THREADS,
            () if is(Attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION) => driver.machine.gpus[device].sm,
            () => return refuse(INVALID, SECTION, format!("attribute {attribute} is not known of a phantom")),
        };
        result.put(value as i32, SECTION)
    }

    /// Blocks of a kernel that a multiprocessor holds at once.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: Out<i32>, handle: u64, threads: i32, _shared: usize) {
        let (driver, device) = current()?;
        let found = function(driver, device, handle)?;
        let threads = u32::try_from(threads).unwrap_or_default();
        let range = 1..=MOST_THREADS;
        ensure(range.contains(&threads), INVALID, Section::Occupancy, "the block size is out of range")?;
        let gpu = &driver.machine.gpus[device];
        let count = blocks_per_multiprocessor(gpu, found.registers, threads);
        blocks.put(count as i32, Section::Occupancy)
    }
}
