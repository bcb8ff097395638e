//! NVRTC, the run-time compiler. It needs neither a driver nor a GPU.

use std::error::Error as _;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::time::Duration;

use libloading::Library;
use shared_memory::call_within;

use crate::presence::LONGEST_START;

/// The library's name.
const LIBRARY: &str = "libnvrtc.so";

/// How long a compilation may take, also on a slow processor that does other work.
pub const LONGEST_COMPILATION: Duration = Duration::from_secs(600);

/// Names of the library, newest last.
const NAMES: [&str; 2] = ["libnvrtc.so.12", "libnvrtc.so.13"];

/// A loaded NVRTC.
#[derive(Debug)]
pub struct Compiler {
    library: Library,
    /// Loaded first so that NVRTC finds it.
    _builtins: Option<Library>,
    /// NVRTC's version.
    pub version: (i32, i32),
}

/// The compiler's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilerOutput {
    /// Machine code; empty for a virtual architecture.
    pub cubin: Vec<u8>,
    /// PTX, without the terminating 0.
    pub ptx: Vec<u8>,
    /// The compiler's messages.
    pub log: String,
}

type Program = *mut c_void;

impl Compiler {
    /// Loads the library from a file, or by name from the loader's path.
    ///
    /// # Errors
    /// It cannot be loaded, or hangs while it is.
    pub fn open(file: Option<&Path>) -> Result<Self, String> {
        Self::open_within(LONGEST_START, file)
    }

    fn open_within(longest: Duration, file: Option<&Path>) -> Result<Self, String> {
        let file = file.map(Path::to_owned);
        let opened = call_within(longest, move || Self::load(file.as_deref()));
        opened.unwrap_or_else(|why| Err(format!("{LIBRARY}, loading it: {why}")))
    }

    fn load(file: Option<&Path>) -> Result<Self, String> {
        let candidates: Vec<PathBuf> = match file {
            Some(file) => vec![file.to_owned()],
            None => NAMES.iter().rev().map(PathBuf::from).collect(),
        };
        let builtins = file.and_then(builtins);
        let mut why = String::new();
        for candidate in candidates {
            // SAFETY: loading NVRTC runs its initializers, which is what every program that uses it
            // does.
            match unsafe { Library::new(&candidate) } {
                Ok(library) => {
                    let mut version = (0, 0);
                    // SAFETY: nvrtcVersion has this type.
                    let result = unsafe {
                        let call = library
                            .get::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>(
                                b"nvrtcVersion\0",
                            )
                            .map_err(|error| error.to_string())?;
                        call(&raw mut version.0, &raw mut version.1)
                    };
                    if result != 0 {
                        return Err(format!("NVRTC does not tell its version (error {result})"));
                    }
                    return Ok(Self {
                        library,
                        _builtins: builtins,
                        version,
                    });
                }
                Err(error) => {
                    // The source has the loader's message.
                    let words = error.source().map(ToString::to_string);
                    why = words.unwrap_or_else(|| format!("{}: {error}", candidate.display()));
                }
            }
        }
        Err(why)
    }

    /// As [`Self::compile`], but no longer than this.
    ///
    /// # Errors
    /// As [`Self::compile`]; or the library hangs.
    pub fn compile_within(
        self,
        longest: Duration,
        name: &'static str,
        text: String,
        options: Vec<String>,
    ) -> Result<CompilerOutput, String> {
        let (major, minor) = self.version;
        let compiled = call_within(longest, move || self.compile(name, &text, &options));
        compiled.unwrap_or_else(|why| {
            Err(format!(
                "NVRTC {major}.{minor} ({LIBRARY}), compiling {name}: {why}"
            ))
        })
    }

    /// Compiles a source text.
    ///
    /// # Errors
    /// The compiler's message.
    pub fn compile(
        &self,
        name: &str,
        text: &str,
        options: &[String],
    ) -> Result<CompilerOutput, String> {
        let text = CString::new(text).map_err(|error| error.to_string())?;
        let name = CString::new(name).map_err(|error| error.to_string())?;
        let options: Result<Vec<CString>, _> = options
            .iter()
            .map(|option| CString::new(option.as_str()))
            .collect();
        let options = options.map_err(|error| error.to_string())?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program: Program = std::ptr::null_mut();
        // SAFETY: the functions have the types of NVRTC's header; all strings live until the calls
        // return, and the program is destroyed once.
        unsafe {
            let create = self.function::<unsafe extern "C" fn(
                *mut Program,
                *const c_char,
                *const c_char,
                c_int,
                *const *const c_char,
                *const *const c_char,
            ) -> c_int>(b"nvrtcCreateProgram\0")?;
            let result = create(
                &raw mut program,
                text.as_ptr(),
                name.as_ptr(),
                0,
                std::ptr::null(),
                std::ptr::null(),
            );
            self.check(result, "create a program")?;
            let compile = self.function::<unsafe extern "C" fn(
                Program,
                c_int,
                *const *const c_char,
            ) -> c_int>(b"nvrtcCompileProgram\0")?;
            let result = compile(program, pointers.len() as c_int, pointers.as_ptr());
            let log = self.output(
                program,
                b"nvrtcGetProgramLogSize\0",
                b"nvrtcGetProgramLog\0",
            );
            let log = log.map(|log| String::from_utf8_lossy(trim(&log)).into_owned());
            let made = self.check(result, "compile").and_then(|()| {
                let cubin = self.output(program, b"nvrtcGetCUBINSize\0", b"nvrtcGetCUBIN\0");
                let ptx = self.output(program, b"nvrtcGetPTXSize\0", b"nvrtcGetPTX\0")?;
                Ok(CompilerOutput {
                    // A virtual architecture has none.
                    cubin: cubin.unwrap_or_default(),
                    ptx: trim(&ptx).to_vec(),
                    log: log.clone().unwrap_or_default(),
                })
            });
            let destroy = self.function::<unsafe extern "C" fn(*mut Program) -> c_int>(
                b"nvrtcDestroyProgram\0",
            )?;
            destroy(&raw mut program);
            made.map_err(|why| format!("{why}\n{}", log.unwrap_or_default()))
        }
    }

    /// # Safety
    /// The function has this type.
    unsafe fn function<T>(&self, name: &[u8]) -> Result<libloading::Symbol<'_, T>, String> {
        // SAFETY: the caller's promise.
        unsafe { self.library.get(name) }.map_err(|error| error.to_string())
    }

    /// # Safety
    /// The program is alive, and the functions are a pair that tells a size and fills as many
    /// bytes.
    unsafe fn output(&self, program: Program, size: &[u8], fill: &[u8]) -> Result<Vec<u8>, String> {
        let mut bytes: usize = 0;
        // SAFETY: the caller's promise; the buffer is as long as the library says.
        unsafe {
            let size = self.function::<unsafe extern "C" fn(Program, *mut usize) -> c_int>(size)?;
            self.check(size(program, &raw mut bytes), "tell a size")?;
            let mut buffer = vec![0_u8; bytes];
            let fill =
                self.function::<unsafe extern "C" fn(Program, *mut c_char) -> c_int>(fill)?;
            self.check(fill(program, buffer.as_mut_ptr().cast()), "give its output")?;
            Ok(buffer)
        }
    }

    fn check(&self, result: c_int, what: &str) -> Result<(), String> {
        if result == 0 {
            return Ok(());
        }
        // SAFETY: nvrtcGetErrorString has this type and returns a static string.
        let text = unsafe {
            let call = self.function::<unsafe extern "C" fn(c_int) -> *const c_char>(
                b"nvrtcGetErrorString\0",
            )?;
            CStr::from_ptr(call(result)).to_string_lossy().into_owned()
        };
        let (major, minor) = self.version;
        Err(format!("NVRTC {major}.{minor} cannot {what}: {text}"))
    }
}

/// Removes the terminating 0.
fn trim(bytes: &[u8]) -> &[u8] {
    bytes.strip_suffix(&[0]).unwrap_or(bytes)
}

/// Loads NVRTC's library of built-in functions from the same folder.
fn builtins(file: &Path) -> Option<Library> {
    let folder = file.parent()?;
    let mut names: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            name.is_some_and(|name| name.starts_with("libnvrtc-builtins.so"))
        })
        .collect();
    names.sort();
    // SAFETY: as for NVRTC itself.
    names
        .pop()
        .and_then(|name| unsafe { Library::new(name) }.ok())
}

/// Options of every compilation besides the architecture.
pub const OPTIONS: [&str; 1] = ["--std=c++17"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_compiler_is_an_error() {
        let error = Compiler::open(Some(Path::new("/nonexistent/libnvrtc.so"))).unwrap_err();
        assert!(error.contains("/nonexistent/libnvrtc.so"), "{error}");
    }

    /// Builds a library from a source text, in a folder.
    fn library(source: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let [text, library] = ["it.c", "libnvrtc.so"].map(|it| folder.path().join(it));
        std::fs::write(&text, source).unwrap();
        let mut compiler = std::process::Command::new("cc");
        let built = compiler
            .args(["-shared", "-fPIC", "-o"])
            .args([&library, &text]);
        assert!(built.status().unwrap().success(), "the C compiler");
        (folder, library)
    }

    #[test]
    fn a_compiler_that_hangs_is_an_error() {
        let (_folder, file) = library(
            "#include <unistd.h>
            int nvrtcVersion(int *major, int *minor) { *major = 12, *minor = 9; return 0; }
            int nvrtcCreateProgram(void) { return 0; }
            int nvrtcCompileProgram(void) { for (;;) pause(); }\n",
        );
        let compiler = Compiler::open(Some(&file)).unwrap();
        let longest = Duration::from_millis(10);
        let compiled = compiler.compile_within(longest, "a.cu", String::new(), Vec::new());
        let why = "NVRTC 12.9 (libnvrtc.so), compiling a.cu: it did not return within 0.01 s";
        assert_eq!(compiled, Err(why.to_owned()));
    }

    #[test]
    fn a_compiler_that_hangs_when_loaded_is_an_error() {
        let (_folder, file) = library(
            "#include <unistd.h>
            int nvrtcVersion(int *major, int *minor) { for (;;) pause(); }\n",
        );
        let opened = Compiler::open_within(Duration::from_millis(10), Some(&file));
        let why = "libnvrtc.so, loading it: it did not return within 0.01 s";
        assert_eq!(opened.map(|it| it.version), Err(why.to_owned()));
    }
}
