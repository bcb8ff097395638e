//! JSON of nccl-tests (`-J`) and of `topo run --json`.

use std::borrow::Cow;
use std::sync::Arc;

use program::{Collective, Protocol};
use serde_json::Value;

use crate::results::facts::{setting, version_of_code};
use crate::results::program_name;
use crate::results::values::{Damage, Device, Figures, Ran, Row, Table, Tool, agrees};

/// Most rows and GPUs of a file.
const MOST: usize = 1 << 18;

/// Why a JSON file holds no measurements.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// It is no JSON.
    #[error("{file}: {message}; expected JSON of nccl-tests (-J) or of topo")]
    Syntax {
        /// The file.
        file: String,
        /// The parser's message, with the line.
        message: String,
    },
    /// A value is missing or another one.
    #[error("{file}: `{path}` is {found}; expected {expected}")]
    Value {
        /// The file.
        file: String,
        /// The value's place.
        path: String,
        /// The value.
        found: String,
        /// The expected value.
        expected: &'static str,
    },
}

/// Reads the table of a JSON file.
///
/// # Errors
/// It is no JSON of nccl-tests or `topo run`.
pub fn read(file: &str, text: &str) -> Result<Table, JsonError> {
    let value: Value = serde_json::from_str(text).map_err(|error| JsonError::Syntax {
        file: file.to_owned(),
        message: error.to_string(),
    })?;
    let reader = Reader { file };
    match value.get("format").and_then(Value::as_str) {
        Some("topo-run") => reader.topo_run(&value),
        _ => reader.nccl_tests(&value),
    }
}

struct Reader<'a> {
    file: &'a str,
}

impl Reader<'_> {
    fn wrong(&self, path: String, found: Option<&Value>, expected: &'static str) -> JsonError {
        let found = match found {
            None => "missing".to_owned(),
            Some(Value::Object(_)) => "an object".to_owned(),
            Some(Value::Array(items)) => format!("a list of {}", items.len()),
            Some(value) => value.to_string().chars().take(80).collect(),
        };
        JsonError::Value {
            file: self.file.to_owned(),
            path,
            found,
            expected,
        }
    }

    fn list<'v>(&self, value: &'v Value, name: &str) -> Result<&'v [Value], JsonError> {
        let found = value.get(name);
        match found.and_then(Value::as_array) {
            Some(items) if items.len() <= MOST => Ok(items),
            _ => Err(self.wrong(name.to_owned(), found, "a list of sizes with their times")),
        }
    }

    fn whole(&self, row: &Value, path: &str, name: &str) -> Result<u64, JsonError> {
        let found = row.get(name);
        found
            .and_then(Value::as_u64)
            .ok_or_else(|| self.wrong(format!("{path}.{name}"), found, "a whole number"))
    }

    fn nccl_tests(&self, value: &Value) -> Result<Table, JsonError> {
        let results = self.list(value, "results")?;
        let texts = |name: &str| {
            let list = value.get(name).and_then(Value::as_array);
            list.into_iter().flatten().filter_map(Value::as_str)
        };
        let named = texts("args").find_map(program_name::in_text);
        let (program, collective) = named.map_or((None, None), |it| (Some(it.0), it.1));
        let code = value.get("nccl_version").map(ToString::to_string);
        let config = value.get("config");
        let devices = config.and_then(|it| it.get("devices")?.as_array());
        let mut table = Table {
            file: self.file.to_owned(),
            program,
            collective,
            nccl: code.and_then(|code| version_of_code(&code)),
            devices: Arc::new(
                devices
                    .into_iter()
                    .flatten()
                    .take(MOST)
                    .filter_map(device)
                    .collect(),
            ),
            settings: Arc::new(
                texts("env")
                    .chain(texts("args"))
                    .filter_map(setting)
                    .collect(),
            ),
            average_bus_gbps: value
                .pointer("/average_bus_bandwidth/bandwidth")
                .and_then(number),
            out_of_bounds: value
                .pointer("/out_of_bounds/count")
                .and_then(Value::as_u64),
            ..Table::default()
        };
        for (at, row) in results.iter().enumerate() {
            let path = format!("results[{at}]");
            let text = |name: &str| row.get(name).and_then(Value::as_str).map(str::trim);
            let root = text("root").and_then(|it| it.parse().ok());
            let read = Row {
                bytes: self.whole(row, &path, "size")?,
                count: self.whole(row, &path, "count")?,
                element: text("type").unwrap_or_default().to_owned().into(),
                reduction: text("redop")
                    .filter(|it| *it != "none")
                    .map(|it| it.to_owned().into()),
                root: root.or_else(|| row.get("root")?.as_u64()?.try_into().ok()),
                out_of_place: self.placement(row, &path, "out_of_place", NCCL_TESTS)?,
                in_place: self.placement(row, &path, "in_place", NCCL_TESTS)?,
                ..Row::default()
            };
            keep(&mut table, read);
        }
        if table.program.is_none() {
            table.collective = program_name::guess(&table.rows, table.rank_count());
            table.is_guessed = table.collective.is_some();
        }
        table.leave_out_contradictions();
        Ok(table)
    }

    fn topo_run(&self, value: &Value) -> Result<Table, JsonError> {
        let rows = self.list(value, "rows")?;
        let named = value.get("collective");
        let is_named = |it: &&Collective| Some(it.command_name()) == named.and_then(Value::as_str);
        let collective = Collective::ALL.iter().find(is_named).copied();
        let expected = "a collective, such as all-reduce";
        let collective =
            collective.ok_or_else(|| self.wrong("collective".to_owned(), named, expected))?;
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let number_of = |name: &str| value.get(name)?.as_u64()?.try_into().ok();
        let mut table = Table {
            file: self.file.to_owned(),
            tool: Tool::TopoRun,
            collective: Some(collective),
            ranks: number_of("ranks"),
            average_bus_gbps: value.get("average_bus_bandwidth_gbps").and_then(number),
            ..Table::default()
        };
        for (at, row) in rows.iter().enumerate() {
            let path = format!("rows[{at}]");
            let read = Row {
                line: 0,
                bytes: self.whole(row, &path, "bytes")?,
                count: self.whole(row, &path, "count")?,
                element: text("type").unwrap_or_default().into(),
                reduction: text("op").map(Cow::Owned),
                root: number_of("root"),
                out_of_place: self.placement(row, &path, "out_of_place", TOPO_RUN)?,
                in_place: self.placement(row, &path, "in_place", TOPO_RUN)?,
                ran: row.get("out_of_place").and_then(ran).map(Box::new),
                predicted_us: row.get("predicted_us").and_then(number),
            };
            keep(&mut table, read);
        }
        table.leave_out_contradictions();
        Ok(table)
    }

    fn placement(
        &self,
        row: &Value,
        path: &str,
        name: &str,
        keys: Keys,
    ) -> Result<Option<Figures>, JsonError> {
        let Some(placement) = row.get(name).filter(|it| !it.is_null()) else {
            return Ok(None);
        };
        let value = |key: &str| placement.get(key).and_then(number);
        let place = || format!("{path}.{name}");
        let time = keys
            .time
            .iter()
            .find_map(|key| value(key))
            .filter(|it| *it > 0.0);
        let Some(time_us) = time else {
            let path = format!("{}.{}", place(), keys.time[0]);
            let found = keys.time.iter().find_map(|key| placement.get(key));
            return Err(self.wrong(path, found, "a time in µs above 0"));
        };
        let bandwidth = |key: &str| {
            value(key).filter(|it| *it >= 0.0).ok_or_else(|| {
                let path = format!("{}.{key}", place());
                self.wrong(path, placement.get(key), "a bandwidth in GB/s")
            })
        };
        Ok(Some(Figures {
            time_us,
            algorithm_gbps: bandwidth(keys.algorithm)?,
            bus_gbps: bandwidth(keys.bus)?,
            wrong: value(keys.wrong)
                .filter(|it| *it >= 0.0)
                .map(|it| it as u64),
        }))
    }
}

/// Keeps a row, unless it has no time, or a bandwidth that is not its size by its time.
fn keep(table: &mut Table, row: Row) {
    let expected = |it: &Figures| row.bytes as f64 / it.time_us / 1e3;
    let is_it = |it: &Figures| agrees(it.algorithm_gbps, expected(it));
    if row.measured().is_none() {
        table.leave_out(Damage::Cut, 0);
    } else if !row.placements().all(is_it) {
        table.leave_out(Damage::Contradiction(row.bytes), 0);
    } else {
        table.rows.push(row);
    }
}

/// The names of the values of a placement.
#[derive(Clone, Copy)]
struct Keys {
    time: &'static [&'static str],
    algorithm: &'static str,
    bus: &'static str,
    wrong: &'static str,
}

const NCCL_TESTS: Keys = Keys {
    time: &["time", "cpu_time"],
    algorithm: "alg_bw",
    bus: "bus_bw",
    wrong: "nwrong",
};

const TOPO_RUN: Keys = Keys {
    time: &["time_us"],
    algorithm: "algorithm_bandwidth_gbps",
    bus: "bus_bandwidth_gbps",
    wrong: "wrong",
};

/// A finite number. nccl-tests writes NaN as a text.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|it| it.is_finite())
}

fn device(value: &Value) -> Option<Device> {
    let number = |name: &str| value.get(name)?.as_u64()?.try_into().ok();
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    Some(Device {
        rank: number("rank")?,
        group: number("group").unwrap_or(0),
        host: text("hostname").to_owned(),
        number: number("device").unwrap_or(0),
        bus: text("device_hex").to_owned(),
        model: text("device_info").to_owned(),
    })
}

/// The choice that `topo run` reports.
fn ran(placement: &Value) -> Option<Ran> {
    let protocol = placement.get("protocol").and_then(Value::as_str);
    Some(Ran {
        algorithm: placement.get("algorithm")?.as_str()?.to_owned(),
        protocol: protocol.and_then(|it| it.parse::<Protocol>().ok()),
        channels: placement
            .get("channels")
            .and_then(Value::as_u64)?
            .try_into()
            .ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NCCL: &str = r#"{"version":3,"args":["./all_gather_perf","-g","2"],
        "env":["NCCL_ALGO=Ring","HOME=/root"],"nccl_version":23007,
        "config":{"devices":[{"rank":0,"group":0,"pid":1,"hostname":"a","device":0,
        "device_hex":"0000:1b:00","device_info":"H100"},{"rank":1,"hostname":"a","device":1}]},
        "results":[{"size":8,"count":1,"type":"float","redop":"none","root":"    -1",
        "out_of_place":{"time":9.5,"alg_bw":0.0,"bus_bw":0.0,"nwrong":"nan"},"in_place":null}]}"#;

    #[test]
    fn nccl_tests_and_topo_run_are_read() {
        let table = read("a.json", NCCL).unwrap();
        assert_eq!(table.collective, Some(Collective::AllGather));
        assert_eq!(table.nccl.as_deref(), Some("2.30.7"));
        assert_eq!((table.rank_count(), table.host_count()), (Some(2), Some(1)));
        let algorithm = ("NCCL_ALGO".to_owned(), "Ring".to_owned());
        assert_eq!(*table.settings, [algorithm]);
        let row = &table.rows[0];
        assert_eq!((row.reduction.as_deref(), row.root), (None, None));
        assert_eq!(
            row.measured().map(|it| (it.time_us, it.wrong)),
            Some((9.5, None))
        );
        let run = r#"{"format":"topo-run","version":1,"collective":"all-reduce","ranks":4,
            "type":"f32","op":"sum","root":null,"rows":[{"bytes":1024,"count":256,
            "out_of_place":{"algorithm":"ring","transfer":"fifo","protocol":"LL","channels":2,
            "time_us":10.0,"algorithm_bandwidth_gbps":0.1,"bus_bandwidth_gbps":0.15,"wrong":0},
            "in_place":null,"predicted_us":9.0,"planned":null}]}"#;
        let table = read("b.json", run).unwrap();
        assert_eq!((table.tool, table.rank_count()), (Tool::TopoRun, Some(4)));
        assert_eq!(table.rows[0].predicted_us, Some(9.0));
        assert_eq!(
            table.rows[0].ran.as_ref().and_then(|it| it.protocol),
            Some(Protocol::Ll)
        );
    }

    #[test]
    fn mistakes_are_named() {
        let message = |text: &str| read("x.json", text).unwrap_err().to_string();
        assert_eq!(
            message("{}"),
            "x.json: `results` is missing; expected a list of sizes with their times"
        );
        assert_eq!(
            message(&NCCL.replace("\"time\":9.5", "\"time\":\"nan\"")),
            "x.json: `results[0].out_of_place.time` is \"nan\"; expected a time in µs above 0"
        );
        assert!(message("{").contains("line 1"));
    }
}
