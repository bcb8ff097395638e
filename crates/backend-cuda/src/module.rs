//! The kernels of a GPU: prebuilt, kept from an earlier compilation, or compiled now.

use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::path::Path;

use cudarc::driver::{result, sys};
use device_runtime::{Kernel, LitmusKernel, source};
use files::Folder;
use sha2::{Digest, Sha256};

use crate::Options;
use crate::compiler::{Compiler, LONGEST_COMPILATION, OPTIONS};
use crate::error::{Error, words};
use crate::handles::digits;
use crate::prebuilt::{self, Source};

/// Limit on the size of kept kernels, bytes.
const MOST_KEPT: u64 = 256 << 20;

/// Origin of kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In the binary, under this file name.
    Prebuilt(String),
    /// Kept from an earlier compilation by this version of NVRTC.
    Kept(String),
    /// Compiled now by this version of NVRTC.
    Compiled(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prebuilt(name) => write!(f, "prebuilt ({name})"),
            Self::Kept(version) => write!(f, "compiled before by NVRTC {version}"),
            Self::Compiled(version) => write!(f, "compiled now by NVRTC {version}"),
        }
    }
}

/// Loaded kernels.
#[derive(Debug)]
pub struct Module<K = Kernel> {
    module: sys::CUmodule,
    /// Compute capability × 10 that the code is for.
    pub(crate) capability: u32,
    functions: Vec<(K, sys::CUfunction)>,
}

impl Module {
    /// Loads the kernels for the current device.
    ///
    /// # Errors
    /// No prebuilt kernels can be loaded, and there is no compiler.
    pub(crate) fn load(
        device: &str,
        major: i32,
        minor: i32,
        options: &Options,
    ) -> Result<(Self, Origin), Error> {
        let none = |why: String| Error::NoKernels {
            device: device.to_owned(),
            major,
            minor,
            why,
        };
        let mut tried = Vec::new();
        if !options.compile {
            for image in prebuilt::images(Source::Programs, major, minor) {
                let (target, image) = image.map_err(none)?;
                match Self::of_image(&image, target.capability, programs()) {
                    Ok(module) => return Ok((module, Origin::Prebuilt(target.file()))),
                    Err(why) => tried.push(format!("{}: {why}", target.file())),
                }
            }
        }
        let compiler = Compiler::open(options.nvrtc.as_deref());
        let compiler = match compiler {
            Ok(compiler) => compiler,
            Err(why) => {
                tried.push(format!(
                    "NVRTC, which would compile them, was not found ({why}); install one that is not newer than the \
                     driver (pip install nvidia-cuda-nvrtc-cu12, for drivers from 580 on nvidia-cuda-nvrtc, or the CUDA toolkit) and \
                     let LD_LIBRARY_PATH name its folder; on data-center GPUs, NVIDIA's package cuda-compat makes an old driver load \
                     newer kernels"
                ));
                return Err(none(tried.join("; ")));
            }
        };
        let version = format!("{}.{}", compiler.version.0, compiler.version.1);
        let capability = u32::try_from(10 * major + minor).unwrap_or_default();
        let text = source::text();
        let mut flags = vec![format!("--gpu-architecture=sm_{major}{minor}")];
        flags.extend(OPTIONS.map(str::to_owned));
        let name = kept_name(&text, &flags, &version);
        let cache = options.cache.as_deref();
        // Never load a file that another user wrote.
        let kept =
            cache.and_then(|folder| Folder::open(folder).ok()?.read(&name, MOST_KEPT).ok()?);
        if let Some(image) = kept
            && let Ok(module) = Self::of_image(&image, capability, programs())
        {
            return Ok((module, Origin::Kept(version)));
        }
        let compiled =
            compiler.compile_within(LONGEST_COMPILATION, "execute_program.cu", text, flags);
        let compiled = compiled.map_err(|why| {
            tried.push(why);
            none(tried.join("; "))
        })?;
        let module = Self::of_image(&compiled.cubin, capability, programs());
        let module = module.map_err(|why| {
            tried.push(format!("what NVRTC {version} compiled: {why}"));
            none(tried.join("; "))
        })?;
        if let Some(folder) = cache {
            // A failed write only costs time at the next start.
            let _ = keep(folder, &name, &compiled.cubin);
        }
        Ok((module, Origin::Compiled(version)))
    }
}

/// The kernels that run programs, with the names of their entries.
fn programs() -> Vec<(Kernel, String)> {
    let all = Kernel::all().into_iter();
    all.map(|kernel| (kernel, kernel.entry())).collect()
}

impl Module<LitmusKernel> {
    /// Loads the litmus kernels for the current device.
    ///
    /// # Errors
    /// The driver refuses all prebuilt ones, or none fits.
    pub(crate) fn litmus(major: i32, minor: i32) -> Result<Self, String> {
        let mut tried = Vec::new();
        for image in prebuilt::images(Source::Litmus, major, minor) {
            let (target, image) = image?;
            let all = LitmusKernel::ALL.into_iter();
            let all = all.map(|kernel| (kernel, kernel.entry().to_owned()));
            match Self::of_image(&image, target.capability, all.collect()) {
                Ok(module) => return Ok(module),
                Err(why) => tried.push(format!("{}: {why}", target.file())),
            }
        }
        Err(format!(
            "no litmus kernels for a GPU of compute capability {major}.{minor}: {}",
            tried.join("; ")
        ))
    }
}

impl<K: Copy + PartialEq> Module<K> {
    /// Loads an image for a compute capability (× 10), and looks up its kernels by the names of
    /// their entries.
    fn of_image(image: &[u8], capability: u32, all: Vec<(K, String)>) -> Result<Self, String> {
        // SAFETY: the image was unpacked or compiled without error; PTX ends with a 0.
        let module = unsafe { result::module::load_data(image.as_ptr().cast()) }.map_err(words)?;
        let mut loaded = Self {
            module,
            capability,
            functions: Vec::new(),
        };
        for (kernel, entry) in all {
            let name = CString::new(entry.as_str()).map_err(|error| error.to_string())?;
            // SAFETY: the module was loaded just now.
            let found = unsafe { result::module::get_function(module, name) };
            let function =
                found.map_err(|error| format!("{entry} is not in it: {}", words(error)))?;
            // Triggers the driver's lazy loading: later, a running kernel could wait for it.
            // SAFETY: the function was found just now.
            let asked = unsafe {
                result::function::get_function_attribute(
                    function,
                    sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_NUM_REGS,
                )
            };
            asked.map_err(words)?;
            loaded.functions.push((kernel, function));
        }
        Ok(loaded)
    }

    /// Returns a kernel's function.
    pub(crate) fn function(&self, kernel: K) -> Option<sys::CUfunction> {
        let found = self.functions.iter().find(|(known, _)| *known == kernel);
        found.map(|(_, function)| *function)
    }
}

impl<K> Drop for Module<K> {
    fn drop(&mut self) {
        // SAFETY: loaded once, in the context that is current; nothing runs.
        let _ = unsafe { result::module::unload(self.module) };
    }
}

/// The file name of kept kernels for these sources, flags and compiler.
fn kept_name(text: &str, flags: &[String], version: &str) -> OsString {
    let mut digest = Sha256::new();
    for part in [text, &flags.join(" "), version] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part.as_bytes());
    }
    let digest = digest.finalize();
    format!("kernels-{}.cubin", digits(&digest[..16])).into()
}

/// Writes a file with access for this user only, because it will be executed.
fn keep(folder: &Path, name: &OsStr, image: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all(folder)?;
    Folder::open(folder)?.write(name, image, files::Replaces::Any)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_depends_on_everything() {
        let flags = |architecture: &str| vec![architecture.to_owned()];
        let files = [
            kept_name("a", &flags("sm_90"), "13.0"),
            kept_name("b", &flags("sm_90"), "13.0"),
            kept_name("a", &flags("sm_80"), "13.0"),
            kept_name("a", &flags("sm_90"), "13.1"),
        ];
        for (at, file) in files.iter().enumerate() {
            assert!(!files[..at].contains(file));
        }
    }
}
