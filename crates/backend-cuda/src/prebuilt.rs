//! Prebuilt kernels: `cargo xtask kernels` compiles them into `kernels/prebuilt`.

use std::io::Read;

use device_runtime::{Kernel, LitmusKernel, source};
use sha2::{Digest, Sha256};

use crate::handles::digits;

/// The form of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// Machine code for one compute capability and later ones of the same major number.
    Cubin,
    /// PTX, which the driver compiles for this and later compute capabilities.
    Ptx,
}

/// Kernels that are compiled together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Those that run programs.
    Programs,
    /// Litmus kernels, which only `topo gpu-test` loads.
    Litmus,
}

impl Source {
    /// The source text.
    pub fn text(self) -> String {
        match self {
            Self::Programs => source::text(),
            Self::Litmus => source::litmus(),
        }
    }

    /// The name of the file with the entries.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Programs => "execute_program.cu",
            Self::Litmus => "litmus.cu",
        }
    }

    /// The names of the entries.
    pub fn entries(self) -> Vec<String> {
        match self {
            Self::Programs => Kernel::all().into_iter().map(Kernel::entry).collect(),
            Self::Litmus => {
                let all = LitmusKernel::ALL.into_iter();
                all.map(|it| it.entry().to_owned()).collect()
            }
        }
    }
}

/// An image that is built for each release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Its kernels.
    pub source: Source,
    /// Compute capability × 10, such as 90.
    pub capability: u32,
    /// The image's form.
    pub form: Form,
    /// The compiler's version.
    pub compiler: &'static str,
}

/// NVRTC 12.9 writes cubins that every driver of CUDA 12 loads whose GPUs it knows: 525 and newer,
/// and 570 and newer for compute capability 10.0 and 12.0. Those of NVRTC 13 need driver 580.
const CUBIN_COMPILER: &str = "12.9.86";

/// NVRTC 12.0 writes PTX 8.0, which drivers from 525 on compile.
const PTX_COMPILER: &str = "12.0.140";

const fn cubin(capability: u32) -> Target {
    Target {
        source: Source::Programs,
        capability,
        form: Form::Cubin,
        compiler: CUBIN_COMPILER,
    }
}

const PTX: Target = Target {
    form: Form::Ptx,
    compiler: PTX_COMPILER,
    ..cubin(75)
};

/// NVRTC 12.2 writes PTX 8.2, the first that has all instructions of multicasts. Drivers from 535
/// on compile it.
pub(crate) const MULTICAST_PTX: Target = Target {
    capability: 90,
    compiler: "12.2.140",
    ..PTX
};

const fn litmus(target: Target) -> Target {
    Target {
        source: Source::Litmus,
        ..target
    }
}

/// All targets.
pub const TARGETS: [Target; 19] = [
    cubin(70),
    cubin(75),
    cubin(80),
    cubin(86),
    cubin(89),
    cubin(90),
    cubin(100),
    cubin(120),
    PTX,
    MULTICAST_PTX,
    litmus(cubin(70)),
    litmus(cubin(75)),
    litmus(cubin(80)),
    litmus(cubin(86)),
    litmus(cubin(89)),
    litmus(cubin(90)),
    litmus(cubin(100)),
    litmus(cubin(120)),
    litmus(PTX),
];

impl Target {
    /// The name of the file in `kernels/prebuilt`.
    pub fn file(&self) -> String {
        let of = match self.source {
            Source::Programs => "",
            Source::Litmus => "litmus_",
        };
        match self.form {
            Form::Cubin => format!("{of}sm_{}.cubin.zst", self.capability),
            Form::Ptx => format!("{of}compute_{}.ptx.zst", self.capability),
        }
    }

    /// The compiler's option for this target.
    pub fn option(&self) -> String {
        let kind = match self.form {
            Form::Cubin => "sm",
            Form::Ptx => "compute",
        };
        format!("--gpu-architecture={kind}_{}", self.capability)
    }

    /// Whether a GPU with this compute capability can load it.
    pub const fn fits(&self, major: i32, minor: i32) -> bool {
        let own = self.capability as i32;
        match self.form {
            Form::Cubin => own / 10 == major && own % 10 <= minor,
            Form::Ptx => own <= major * 10 + minor,
        }
    }
}

/// The compressed images, in the order of [`TARGETS`].
const IMAGES: [&[u8]; 19] = [
    include_bytes!("../../../kernels/prebuilt/sm_70.cubin.zst"),
    include_bytes!("../../../kernels/prebuilt/sm_75.cubin.zst"),
    include_bytes!("../../../kernels/prebuilt/sm_80.cubin.zst"),
    include_bytes!("../../../kernels/prebuilt/sm_86.cubin.zst"),
    include_bytes!("../../../kernels/prebuilt/sm_89.cubin.zst"),
    include_bytes!("../../../kernels/prebuilt/sm_90.cubin.zst"),
    include_bytes!("../../../kernels/prebuilt/sm_100.cubin.zst"),
    include_bytes!("../../../kernels/prebuilt/sm_120.cubin.zst"),
    include_bytes!("../../../kernels/prebuilt/compute_75.ptx.zst"),
    include_bytes!("../../../kernels/prebuilt/compute_90.ptx.zst"),
    include_bytes!("../../../kernels/prebuilt/litmus_sm_70.cubin.zst"),
    include_bytes!("../../../kernels/prebuilt/litmus_sm_75.cubin.zst"),
    include_bytes!("../../../kernels/prebuilt/litmus_sm_80.cubin.zst"),
    include_bytes!("../../../kernels/prebuilt/litmus_sm_86.cubin.zst"),
    include_bytes!("../../../kernels/prebuilt/litmus_sm_89.cubin.zst"),
    include_bytes!("../../../kernels/prebuilt/litmus_sm_90.cubin.zst"),
    include_bytes!("../../../kernels/prebuilt/litmus_sm_100.cubin.zst"),
    include_bytes!("../../../kernels/prebuilt/litmus_sm_120.cubin.zst"),
    include_bytes!("../../../kernels/prebuilt/litmus_compute_75.ptx.zst"),
];

/// SHA-256 of the current sources, hexadecimal.
pub fn fingerprint() -> String {
    let mut digest = Sha256::new();
    for source in [Source::Programs, Source::Litmus] {
        digest.update(source.text());
    }
    digits(&digest.finalize())
}

/// Images of a source that a GPU can load, best first. PTX ends with a 0. Each is unpacked when it
/// is asked for, because mostly only the first is. An error: the image is damaged.
pub fn images(
    source: Source,
    major: i32,
    minor: i32,
) -> impl Iterator<Item = Result<(Target, Vec<u8>), String>> {
    let mut fitting: Vec<(Target, &[u8])> = TARGETS
        .into_iter()
        .zip(IMAGES)
        .filter(|(target, _)| target.source == source)
        .filter(|(target, image)| target.fits(major, minor) && !image.is_empty())
        .collect();
    fitting.sort_by_key(|(target, _)| (target.form == Form::Ptx, u32::MAX - target.capability));
    fitting.into_iter().map(|(target, image)| {
        let mut bytes = unpack(image).map_err(|why| format!("{}: {why}", target.file()))?;
        if target.form == Form::Ptx {
            bytes.push(0);
        }
        Ok((target, bytes))
    })
}

/// Decompresses an image.
///
/// # Errors
/// The image is damaged.
pub fn unpack(image: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let decoder = ruzstd::decoding::StreamingDecoder::new(image);
    let mut decoder = decoder.map_err(|error| error.to_string())?;
    decoder
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of the sources of the images, written by `cargo xtask kernels`.
    const SOURCES: &str = include_str!("../../../kernels/prebuilt/sources.sha256");

    #[test]
    fn the_newest_machine_code_comes_first() {
        let fit = |major, minor| {
            images(Source::Programs, major, minor)
                .map(|it| it.unwrap().0.file())
                .collect::<Vec<_>>()
        };
        let ptx = ["compute_90.ptx.zst", "compute_75.ptx.zst"];
        assert_eq!(fit(9, 0), ["sm_90.cubin.zst", ptx[0], ptx[1]]);
        assert_eq!(
            fit(8, 7),
            ["sm_86.cubin.zst", "sm_80.cubin.zst", "compute_75.ptx.zst"]
        );
        assert_eq!(fit(11, 0), ptx);
        assert_eq!(fit(7, 0), ["sm_70.cubin.zst"]);
        assert_eq!(fit(6, 1), [] as [&str; 0]);
        let litmus = images(Source::Litmus, 9, 0).next().unwrap().unwrap();
        assert_eq!(litmus.0.file(), "litmus_sm_90.cubin.zst");
    }

    #[test]
    fn every_image_has_every_kernel() {
        for (target, image) in TARGETS.iter().zip(IMAGES) {
            let bytes = unpack(image).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            for entry in target.source.entries() {
                assert!(text.contains(&entry), "{}: {entry}", target.file());
            }
            let elf = bytes.starts_with(b"\x7fELF");
            assert_eq!(elf, target.form == Form::Cubin, "{}", target.file());
        }
    }

    #[test]
    fn newer_code_has_multicasts() {
        for (target, image) in TARGETS.iter().zip(IMAGES) {
            let is_of_programs = target.source == Source::Programs;
            if is_of_programs && target.form == Form::Ptx {
                let text = String::from_utf8(unpack(image).unwrap()).unwrap();
                let has = text.contains("multimem.ld_reduce");
                assert_eq!(has, target.capability >= 90, "{}", target.file());
            }
        }
    }

    #[test]
    fn images_are_of_these_sources() {
        assert_eq!(
            SOURCES.trim(),
            fingerprint(),
            "the kernels were changed; run `cargo xtask kernels`"
        );
    }
}
