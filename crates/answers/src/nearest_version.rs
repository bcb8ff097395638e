//! The version as which to plan a job that some version of NCCL ran.

use planner::NcclVersion;

/// The version as which to plan what `said` ran, such as `2.27.7+cuda12.9`, and what a reader must
/// know about it; `None` is unknown.
pub(crate) fn nearest(said: Option<&str>) -> (NcclVersion, Option<String>) {
    let Some(said) = said else {
        let newest = NcclVersion::NEWEST;
        return (
            newest,
            Some(format!(
                "the log does not say its version: planned as NCCL {newest} decides"
            )),
        );
    };
    let number = said.split('+').next().unwrap_or(said);
    let mut parts = number.split('.').map_while(|it| it.parse::<u32>().ok());
    let (major, minor) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if let Ok(version) = format!("{major}.{minor}").parse::<NcclVersion>() {
        let is_other = version.name() != number;
        let note =
            is_other.then(|| format!("planned as NCCL {version} decides; the log is of {said}"));
        return (version, note);
    }
    let version = match (major, minor) < (2, 27) {
        true => NcclVersion::ALL[0],
        false => NcclVersion::NEWEST,
    };
    let note =
        format!("NCCL {said} is not modelled: planned as NCCL {version} decides, which may differ");
    (version, Some(note))
}
