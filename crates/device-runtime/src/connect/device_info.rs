//! The text that ranks exchange about their devices before they connect.

/// Separates parts of a text. It does not occur in drivers' texts.
pub(super) const BETWEEN: char = '\u{1f}';

/// The information of a rank about its device.
pub(super) struct DeviceInfo {
    pub device: String,
    /// Thread blocks that it can have resident at once.
    pub resident: u32,
    /// Whether NICs can access its memory.
    pub rdma: bool,
    /// A handle of its test memory, or why there is none.
    pub memory: Result<String, String>,
    /// Handle types of its multicasts, or why multicast is not supported.
    pub multicast: Result<Vec<String>, String>,
}

/// Writes a result as text.
pub(super) fn encode(result: Result<&str, &str>) -> String {
    match result {
        Ok(word) => format!("+{word}"),
        Err(why) => format!("-{}", why.replace('\n', " ")),
    }
}

/// Reads the text of [`encode`].
pub(super) fn decode(text: &str) -> Option<Result<String, String>> {
    match text.split_at_checked(1)? {
        ("+", word) => Some(Ok(word.to_owned())),
        ("-", why) => Some(Err(why.to_owned())),
        _ => None,
    }
}

impl DeviceInfo {
    /// The text for the other ranks, one line.
    pub fn text(&self) -> String {
        let Self {
            device,
            resident,
            rdma,
            ..
        } = self;
        let memory = encode(self.memory.as_deref().map_err(String::as_str));
        let kinds = self.multicast.as_ref().map(|kinds| kinds.join(" "));
        let kinds = encode(kinds.as_deref().map_err(|why| why.as_str()));
        format!("{device} {resident} {rdma} {memory}{BETWEEN}{kinds}").replace('\n', " ")
    }

    /// Reads the text of [`Self::text`].
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, ' ');
        let (device, resident) = (parts.next()?, parts.next()?);
        let (rdma, rest) = (parts.next()?, parts.next()?);
        let (memory, kinds) = rest.split_once(BETWEEN)?;
        let kinds = decode(kinds)?;
        Some(Self {
            device: device.to_owned(),
            resident: resident.parse().ok()?,
            rdma: rdma.parse().ok()?,
            memory: decode(memory)?,
            multicast: kinds.map(|kinds| kinds.split_whitespace().map(str::to_owned).collect()),
        })
    }
}

/// Resident blocks per rank on the device with the fewest.
pub(super) fn resident_blocks(infos: &[DeviceInfo]) -> u32 {
    let share = infos.iter().map(|own| {
        let beside = infos.iter().filter(|it| it.device == own.device).count();
        own.resident / u32::try_from(beside).unwrap_or(u32::MAX).max(1)
    });
    share.min().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ranks_say_survives_as_text() {
        let kinds = vec!["fabric".to_owned(), "descriptor".to_owned()];
        for (memory, multicast) in [
            (Ok("12:34".to_owned()), Ok(kinds)),
            (Ok("12".to_owned()), Ok(Vec::new())),
            (Err("there is none".to_owned()), Err("no switch".to_owned())),
        ] {
            let info = DeviceInfo {
                device: "GPU-1".to_owned(),
                resident: 264,
                rdma: memory.is_ok(),
                memory,
                multicast,
            };
            let read = DeviceInfo::parse(&info.text()).unwrap();
            assert_eq!(
                (read.device, read.resident, read.rdma, read.memory),
                (info.device, info.resident, info.rdma, info.memory)
            );
            assert_eq!(read.multicast, info.multicast);
        }
        assert!(DeviceInfo::parse("GPU-1 many true +1\u{1f}+").is_none());
        assert!(DeviceInfo::parse("GPU-1 264 true +1").is_none());
        assert!(DeviceInfo::parse("").is_none());
    }

    #[test]
    fn the_fullest_device_counts() {
        let info = |device: &str, resident| DeviceInfo {
            device: device.to_owned(),
            resident,
            rdma: false,
            memory: Ok(String::new()),
            multicast: Ok(Vec::new()),
        };
        assert_eq!(
            resident_blocks(&[info("a", 264), info("b", 264), info("a", 264)]),
            132
        );
        assert_eq!(resident_blocks(&[info("a", 264), info("b", 100)]), 100);
    }
}
