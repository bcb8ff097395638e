//! Reads the graph of one search from a graph file, like NCCL.

use topology::xml::{c_float, c_int, c_unsigned_hexadecimal};
use topology::{Error as FileError, PathType, Warning};

use super::xml::{self, GraphDocument, GraphElement, GraphTag, MAX_WARNINGS};
use super::{FoundGraph, GpuAddress, GraphFile, MAX_CHANNELS, TYPES};
use crate::error::{Error, excerpt};
use crate::graph::{Graph, GraphChannel, GraphKind, Pattern};

impl GraphFile {
    /// Reads a graph file. `file` is its name in messages.
    ///
    /// # Errors
    /// The text is no graph file of version 1, not well-formed, or larger than NCCL's limits.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let document = xml::parse(file, text)?;
        let version = document.root.get("version");
        if version.map(c_int) != Some(1) {
            return Err(Error::GraphFile(FileError::new(
                document.root.place(&document.file, Some("version")),
                "the version of the graph file is not supported",
                version.map_or_else(|| "nothing".to_owned(), excerpt),
                "`version=\"1\"`",
            )));
        }
        Ok(Self { document })
    }

    /// Warnings about the whole file.
    pub fn warnings(&self) -> &[Warning] {
        &self.document.warnings
    }

    /// The graph of one kind, for a machine with these GPUs (all ranks of the system).
    ///
    /// Of several graphs of this kind the last one counts. With `cross_nic` false
    /// (`NCCL_CROSS_NIC=0`), graphs whose channels cross NICs are passed over.
    ///
    /// # Errors
    /// A graph lacks an attribute, has a value that no graph can have, or names a GPU that the
    /// machine lacks.
    pub fn graph(
        &self,
        kind: GraphKind,
        gpus: &[GpuAddress],
        cross_nic: bool,
    ) -> Result<FoundGraph, Error> {
        let mut reading = Reading {
            document: &self.document,
            kind,
            gpus,
            warnings: Vec::new(),
        };
        let mut graph: Option<Graph> = None;
        for element in &self.document.root.children {
            if reading.number(element, "id")? != kind as i32 {
                continue;
            }
            if !cross_nic && reading.number(element, "crossnic")? == 1 {
                let message = format!(
                    "the {kind} graph crosses NICs: NCCL passes over it because NCCL_CROSS_NIC is 0"
                );
                reading.warn(element, Some("crossnic"), message);
                continue;
            }
            if graph.is_some() {
                reading.warn(
                    element,
                    None,
                    format!("there is another {kind} graph: NCCL takes this one"),
                );
            }
            // As in NCCL, a later graph overwrites the channels of an earlier one and may keep
            // some.
            let earlier = graph.take().map(|graph| graph.channels).unwrap_or_default();
            graph = Some(reading.graph(element, earlier)?);
        }
        Ok(FoundGraph {
            graph,
            warnings: reading.warnings,
        })
    }
}

struct Reading<'a> {
    document: &'a GraphDocument,
    kind: GraphKind,
    gpus: &'a [GpuAddress],
    warnings: Vec<Warning>,
}

impl Reading<'_> {
    fn graph(
        &mut self,
        element: &GraphElement,
        earlier: Vec<GraphChannel>,
    ) -> Result<Graph, Error> {
        let cross_nic = self.number(element, "crossnic")?;
        let pattern = self.number(element, "pattern")?;
        let Some(pattern) = Pattern::from_number(pattern) else {
            return Err(self.error(
                element,
                "pattern",
                "no such pattern",
                pattern.to_string(),
                "1 to 6",
            ));
        };
        let stated = self.number(element, "nchannels")?;
        let graph = Graph {
            kind: self.kind,
            pattern,
            cross_nic,
            same_channels: self.number(element, "samechannels")? != 0,
            bw_intra: c_float(self.text(element, "speedintra")?),
            bw_inter: c_float(self.text(element, "speedinter")?),
            latency_inter: element.get("latencyinter").map_or(0.0, c_float),
            type_intra: self.path_type(element, "typeintra")?,
            type_inter: self.path_type(element, "typeinter")?,
            channels: self.channels(element, stated, earlier)?,
        };
        Ok(graph)
    }

    fn channels(
        &mut self,
        element: &GraphElement,
        stated: i32,
        earlier: Vec<GraphChannel>,
    ) -> Result<Vec<GraphChannel>, Error> {
        let listed = element.children.len();
        let too_many = |found: usize| {
            let expected = format!("at most {MAX_CHANNELS}");
            self.error(
                element,
                "nchannels",
                "there are more channels than NCCL has room for",
                found.to_string(),
                &expected,
            )
        };
        if listed > MAX_CHANNELS {
            return Err(too_many(listed));
        }
        let wanted = usize::try_from(stated).unwrap_or(0);
        if wanted > MAX_CHANNELS {
            return Err(too_many(wanted));
        }
        let mut channels = earlier;
        for (index, child) in element.children.iter().enumerate() {
            let channel = self.channel(child)?;
            match channels.get_mut(index) {
                Some(slot) => *slot = channel,
                None => channels.push(channel),
            }
        }
        if stated < 0 {
            self.warn(
                element,
                Some("nchannels"),
                format!("nchannels is {stated}: NCCL takes this for no channels"),
            );
        } else if wanted < listed {
            let message = format!(
                "{listed} channels are listed: NCCL uses only the first {wanted}, as nchannels says"
            );
            self.warn(element, Some("nchannels"), message);
        } else if wanted > channels.len() {
            let message = format!(
                "nchannels is {wanted}, but {} channels are listed: NCCL takes rank 0 for every GPU of the missing ones; \
                 they are left out here",
                channels.len()
            );
            self.warn(element, Some("nchannels"), message);
        }
        channels.truncate(wanted);
        Ok(channels)
    }

    fn channel(&mut self, element: &GraphElement) -> Result<GraphChannel, Error> {
        let mut ranks = Vec::new();
        let mut nets = Vec::new();
        for child in &element.children {
            let dev = c_unsigned_hexadecimal(self.text(child, "dev")?);
            if child.tag == GraphTag::Net {
                nets.push(dev as i64);
            } else {
                ranks.push(self.rank(child, dev)?);
            }
        }
        if ranks.len() > self.gpus.len() || nets.len() > 2 {
            // NCCL would write into the next channel, or past the last one.
            let found = format!("{} GPUs and {} network ports", ranks.len(), nets.len());
            let expected = format!(
                "at most {} GPUs (those of the machine) and 2 network ports",
                self.gpus.len()
            );
            let place = element.place(&self.document.file, None);
            return Err(FileError::new(place, "the channel is too long", found, expected).into());
        }
        if self.kind == GraphKind::Nvls {
            // Only the head has a meaning.
            ranks.truncate(1);
        }
        self.check_ranks(element, &ranks);
        if nets.len() == 1 {
            let message =
                "the channel has one network port: NCCL leaves the host through the port with id 0"
                    .to_owned();
            self.warn(element, None, message);
        }
        let nets = match *nets.as_slice() {
            [] => None,
            [enter] => Some([enter, 0]),
            [enter, leave, ..] => Some([enter, leave]),
        };
        Ok(GraphChannel { ranks, nets })
    }

    fn rank(&mut self, element: &GraphElement, dev: u64) -> Result<i32, Error> {
        if let Some(rank) = element.get("rank") {
            return Ok(c_int(rank));
        }
        // The last match, as in NCCL: several ranks may share a device.
        let gpu = self.gpus.iter().rfind(|gpu| gpu.id().0 == dev);
        gpu.map(|gpu| gpu.rank).ok_or_else(|| {
            let expected = "a GPU of this machine (host and NVML number, in hexadecimal); was the file made for other GPUs?";
            self.error(element, "dev", "the machine has no such GPU", format!("{dev:#x}"), expected)
        })
    }

    /// NCCL accepts any ranks here, and fails later or crashes if they are not the machine's.
    fn check_ranks(&mut self, element: &GraphElement, ranks: &[i32]) {
        let mut missing: Vec<i32> = self.gpus.iter().map(|gpu| gpu.rank).collect();
        let mut wrong = None;
        for rank in ranks {
            match missing.iter().position(|other| other == rank) {
                Some(index) => _ = missing.swap_remove(index),
                None => wrong = wrong.or(Some(*rank)),
            }
        }
        let message = if let Some(rank) = wrong {
            format!(
                "rank {rank} is not in this machine, or twice in the channel: NCCL fails with such a graph"
            )
        } else if ranks.is_empty() {
            "the channel has no GPU: NCCL takes rank 0".to_owned()
        } else if self.kind != GraphKind::Nvls
            && let Some(rank) = missing.iter().min()
        {
            format!(
                "the channel lacks rank {rank}: NCCL takes rank 0 for every GPU that is missing, and fails"
            )
        } else {
            return;
        };
        self.warn(element, None, message);
    }

    fn path_type(&mut self, element: &GraphElement, name: &str) -> Result<PathType, Error> {
        let text = self.text(element, name)?;
        // As in NCCL, text after the type is ignored.
        if let Some(known) = TYPES
            .into_iter()
            .find(|path_type| text.starts_with(path_type.name()))
        {
            return Ok(known);
        }
        let message = format!(
            "{} is no path type of a graph file: NCCL takes it for LOC",
            excerpt(text)
        );
        self.warn(element, Some(name), message);
        Ok(PathType::Loc)
    }

    fn number(&self, element: &GraphElement, name: &str) -> Result<i32, Error> {
        self.text(element, name).map(c_int)
    }

    fn text<'e>(&self, element: &'e GraphElement, name: &str) -> Result<&'e str, Error> {
        Ok(element.require(&self.document.file, name)?)
    }

    fn error(
        &self,
        element: &GraphElement,
        name: &str,
        problem: &str,
        found: String,
        expected: &str,
    ) -> Error {
        FileError::new(
            element.place(&self.document.file, Some(name)),
            problem,
            found,
            expected,
        )
        .into()
    }

    fn warn(&mut self, element: &GraphElement, attribute: Option<&str>, message: String) {
        let place = element.place(&self.document.file, attribute);
        // One warning of a kind is enough: a wrong file is usually wrong in every channel.
        if self.warnings.len() < MAX_WARNINGS
            && !self
                .warnings
                .iter()
                .any(|warning| warning.message == message)
        {
            self.warnings.push(Warning { place, message });
        }
    }
}
