//! The profile that `topo run --calibrate` keeps for its user, one for each machine.
//!
//! It is a file of the user's cache folder, which only this user can read and write. A file of
//! another machine, or of another version of this program, is not used.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use files::{Folder, ReadError, Replaces};
use thiserror::Error;

use crate::profile::{Profile, ProfileError};

/// Largest profile that is read, bytes.
const LIMIT: u64 = 4 << 20;

/// Most bytes of /proc/cpuinfo that are read: machines with a thousand processors have 2 MB.
const CPUINFO_LIMIT: u64 = 16 << 20;

/// The beginning of such a file, without which none is replaced.
const BEGIN: &str = "format = ";

/// The name of the built-in profile.
pub const BUILT_IN: &str = "built-in";

/// A profile, and what its reader should know.
#[derive(Debug, Clone, Default)]
pub struct FoundProfile {
    /// The profile.
    pub profile: Arc<Profile>,
    /// Why a kept profile is not used.
    pub ignored: Option<String>,
}

/// A named profile that cannot be used.
#[derive(Debug, Error)]
pub enum NamedProfileError {
    /// The file cannot be read.
    #[error("cannot read the CPU cost profile {}: {why}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The reason.
        why: ReadError,
    },
    /// It is no profile.
    #[error(transparent)]
    Wrong(#[from] ProfileError),
}

/// The profile to use: the named one, or the one that was kept in the user's cache folder for this
/// machine, or the built-in one. `named` is a file, or [`BUILT_IN`].
///
/// # Errors
/// The named file cannot be read, or is no profile.
pub fn find(named: Option<&Path>, cache: Option<&Path>) -> Result<FoundProfile, NamedProfileError> {
    let of = |profile| FoundProfile {
        profile,
        ignored: None,
    };
    if let Some(file) = named {
        if file.as_os_str() == BUILT_IN {
            return Ok(of(Profile::built_in()));
        }
        let text = files::read_text(file, LIMIT).map_err(|why| NamedProfileError::Unreadable {
            file: file.to_owned(),
            why,
        })?;
        let profile = Profile::from_toml(&file.display().to_string(), &text)?;
        return Ok(of(Arc::new(profile)));
    }
    Ok(match cache.map_or(Ok(None), read) {
        Ok(kept) => of(kept.map_or_else(Profile::built_in, Arc::new)),
        Err(error) => FoundProfile {
            profile: Profile::built_in(),
            ignored: Some(format!(
                "the kept CPU cost profile is not used: {error}; calibrate again, or remove the file"
            )),
        },
    })
}

/// The profile that was kept for this machine.
fn read(cache: &Path) -> Result<Option<Profile>, ProfileError> {
    if !cache.is_dir() {
        return Ok(None);
    }
    let name = file_name();
    let path = cache.join(&name).display().to_string();
    let wrong = |problem: String| ProfileError {
        file: path.clone(),
        problem,
    };
    // An error names the file.
    let bytes = Folder::open(cache).and_then(|it| it.read(&name, LIMIT));
    let Some(bytes) = bytes.map_err(|error| wrong(error.to_string()))? else {
        return Ok(None);
    };
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is not text".to_owned()))?;
    let profile = Profile::from_toml(&path, &text)?;
    if profile.machine != machine() {
        let (found, here) = (&profile.machine, machine());
        return Err(wrong(format!("it is of `{found}`, and this is `{here}`")));
    }
    Ok(Some(profile))
}

/// Keeps a profile of this machine, in a file that is whole or as before. Returns its path.
///
/// # Errors
/// The folder cannot be made, or the file cannot be written.
pub fn keep(cache: &Path, profile: &Profile) -> Result<PathBuf, ProfileError> {
    let name = file_name();
    let path = cache.join(&name);
    let failed = |problem: String| ProfileError {
        file: path.display().to_string(),
        problem,
    };
    let text = profile.to_toml()?;
    std::fs::create_dir_all(cache).map_err(|error| failed(error.to_string()))?;
    let folder = Folder::open(cache).map_err(|error| failed(error.to_string()))?;
    let written = folder.write(&name, text.as_bytes(), Replaces::Begins(BEGIN));
    written.map_err(|error| failed(error.to_string()))?;
    Ok(path)
}

/// What tells machines apart whose profiles differ: the processors, as the kernel names them, how
/// many there are, the memory, and the version of this program.
pub fn machine() -> &'static str {
    static MACHINE: LazyLock<String> = LazyLock::new(|| {
        let text = files::read_text(Path::new("/proc/cpuinfo"), CPUINFO_LIMIT);
        let text = text.unwrap_or_default();
        let values = |wanted: &'static str| {
            let lines = text.lines().filter_map(|line| line.split_once(':'));
            let of = lines.filter(move |(name, _)| name.trim() == wanted);
            of.map(|(_, value)| value.trim())
        };
        let model = values("model name").next();
        let count = values("processor").count();
        let model = model.unwrap_or(std::env::consts::ARCH);
        let gib = shared_memory::machine_bytes() >> 30;
        let version = env!("CARGO_PKG_VERSION");
        format!("{model}, {count} processors, {gib} GiB, topo {version}")
    });
    &MACHINE
}

/// The name of this machine's file: home folders may be shared by machines.
fn file_name() -> OsString {
    // FNV-1a: any short hash that never changes.
    let bytes = machine().bytes();
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("cpu-{hash:016x}.toml").into()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn kept() -> Profile {
        Profile {
            name: "calibrated".to_owned(),
            machine: machine().to_owned(),
            ..Profile::default()
        }
    }

    #[test]
    fn a_kept_profile_is_found_again_on_its_machine_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("deep/topo");
        let found = || find(None, Some(&cache)).expect("no file is named");
        assert!(Arc::ptr_eq(&found().profile, &Profile::built_in()));
        let path = keep(&cache, &kept()).expect("it is kept");
        keep(&cache, &kept()).expect("it is replaced");
        assert_eq!((*found().profile).clone(), kept());
        assert_eq!(fs::read_dir(&cache).expect("a folder").count(), 1);
        let built_in = find(Some(Path::new(BUILT_IN)), Some(&cache)).expect("no file is named");
        assert!(Arc::ptr_eq(&built_in.profile, &Profile::built_in()));
        // A file of another machine or version, text that is no profile, and what others write.
        let other = Profile {
            machine: "another".to_owned(),
            ..kept()
        };
        let other = other.to_toml().expect("it is a profile");
        let old = other.replacen("format = 4", "format = 3", 1);
        let text = kept().to_toml().expect("it is a profile");
        let retyped = text.replacen("cores = 2", "cores = \"2\"", 1);
        let endless = text.replacen("times-us = [", "times-us = [1e999, ", 1);
        let huge = text.replacen("sizes = [8,", "sizes = [99999999999999999999,", 1);
        let cut = &text[..text.len() - 2];
        let ignored = |what: &str| {
            let found = found();
            assert!(Arc::ptr_eq(&found.profile, &Profile::built_in()), "{what}");
            let sentence = found.ignored.unwrap_or_default();
            assert!(
                sentence.contains(what) && sentence.contains("cpu-"),
                "{sentence}"
            );
        };
        for (text, what) in [
            (other.as_str(), "`another`"),
            (&old, "format = 3"),
            ("", "TOML"),
            ("\u{0}", "TOML"),
            (cut, "TOML"),
            (&retyped, "cores"),
            (&endless, "times"),
            (&huge, "TOML"),
        ] {
            fs::write(&path, text).expect("it is written");
            ignored(what);
        }
        fs::write(&path, vec![b' '; 5 << 20]).expect("it is written");
        ignored("");
        let everyone = fs::Permissions::from_mode(0o666);
        keep(&cache, &kept()).unwrap_err();
        fs::remove_file(&path).expect("it is there");
        keep(&cache, &kept()).expect("it is kept");
        fs::set_permissions(&path, everyone).expect("it is ours");
        ignored("");
        fs::remove_file(&path).expect("it is there");
        symlink("/dev/zero", &path).expect("a link");
        ignored("");
    }

    /// A limit on the length of files, which a shell sets for this test in another process, fails a
    /// write as a full disk does.
    #[test]
    fn a_full_disk_leaves_the_old_file() {
        const FOLDER: &str = "TOPO_TEST_FULL_DISK";
        if let Some(folder) = std::env::var_os(FOLDER) {
            keep(Path::new(&folder), &kept()).unwrap_err();
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = keep(folder.path(), &kept()).expect("it is kept");
        let before = fs::read(&path).expect("it was written");
        let limited = "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact \"$1\"";
        let mut command = std::process::Command::new("sh");
        command.args(["-c", limited]);
        command.arg(std::env::current_exe().expect("this test"));
        command.arg("kept::tests::a_full_disk_leaves_the_old_file");
        let output = command.env(FOLDER, folder.path()).output();
        let output = output.expect("there is a shell");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        assert!(text.contains("1 passed"), "{text}");
        assert_eq!(fs::read(&path).expect("it is there"), before);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
}
