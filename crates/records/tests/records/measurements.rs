//! Bandwidths between GPUs: matrices, totals of transfers at once, pages with tables of both.

use records::bandwidth::Direction;
use records::{Measurements, Total};

fn read(text: &str) -> Measurements {
    Measurements::read("test", text.as_bytes()).expect(text)
}

fn value(read: &Measurements, matrix: usize, from: usize, to: usize) -> Option<f32> {
    read.matrices[matrix].values[from][to]
}

const FANS: &str = "\
Running one_to_all_write_ce.
memcpy CE GPU(column) -> All GPUs total bandwidth (GB/s)
          0         1         2
0     50.50     51.50    N/A

Running all_to_one_write_ce.
memcpy CE All Gpus -> GPU(column) total bandwidth (GB/s)
          0         1         2
0     40.50     41.50     42.50

SUM all_to_one_write_ce 124.50
";

#[test]
fn nvbandwidth_gives_totals_of_fans() {
    let read = read(FANS);
    let totals: Vec<(&[(usize, usize)], f32)> = read
        .totals
        .iter()
        .map(|total| (&total.transfers[..], total.gbps))
        .collect();
    assert_eq!(
        totals,
        [
            (&[(0, 1), (0, 2)][..], 50.5),
            (&[(1, 0), (1, 2)], 51.5),
            (&[(1, 0), (2, 0)], 40.5),
            (&[(0, 1), (2, 1)], 41.5),
            (&[(0, 2), (1, 2)], 42.5),
        ]
    );
    assert_eq!(read.totals[0].method.test, "one_to_all_write_ce");
}

#[test]
fn json_has_matrices_and_totals() {
    let read = read(
        r#"{"nvbandwidth": {"testcases": [
        {"name": "device_to_device_memcpy_write_ce",
         "bandwidth_description": "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)",
         "bandwidth_matrix": [["N/A", "53.1"], ["52.9", "N/A"]]},
        {"name": "all_to_one_read_ce",
         "bandwidth_description": "memcpy CE All Gpus <- GPU(column) total bandwidth (GB/s)",
         "bandwidth_matrix": [["51.0", "52.0"]]}]}}"#,
    );
    assert_eq!(value(&read, 0, 0, 1), Some(53.1));
    let first: Option<&Total> = read.totals.first();
    assert_eq!(
        first.map(|it| (&it.transfers[..], it.gbps)),
        Some((&[(0, 1)][..], 51.0))
    );
}

#[test]
fn all_pairs_at_once_are_a_matrix() {
    let read = read(
        "Simultaneous P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0      1\n     0    N/A  10.5\n     1  11.5    N/A\n",
    );
    assert_eq!(read.matrices[0].direction, Direction::All);
    assert_eq!(value(&read, 0, 0, 1), Some(10.5));
}

const PAGE: &str = "\
# A machine

### Full Unidirectional Bandwidth Matrix (GB/s)

```
 Dst→   GPU0   GPU1   GPU2
GPU0:    —     53.9   36.6
GPU1:  53.8     —     36.9
GPU2:  39.7   39.5     —
```

### Bidirectional P2P=Enabled Bandwidth Matrix (everything on)

```
   D\\D     0      1
     0    —    102
     1   104    —
```

### P2P=Enabled Write Latency (µs)

```
   GPU     0      1
     0   1.28   0.45
     1   0.52   1.32
```

### Write Bandwidth Matrix

**Group B (GPU 2–3):**

```
         GPU 2  GPU 3
GPU 2      -     56.2
GPU 3     56.3    -
```

| Test | Total BW | Notes |
|---|---|---|
| 2 flows: GPU0→GPU2 + GPU1→GPU3 (same switch) | 53.9 GB/s | shared |
| **one** (GPU0→2 + GPU1→2) | **40.1 GB/s** | |
| GPU0,1→GPU2,3 | 7.4 GB/s | not read |
| PIX | 54 GB/s | names no GPU |

| Path | Write (GB/s) | Read (GB/s) |
|---|---|---|
| GPU0→GPU1 | 36.8 | 40.1 |
| GPU0→GPU1 | 7.39 µs | – |
";

#[test]
fn pages_have_matrices_and_rows_of_transfers() {
    let read = read(PAGE);
    let directions: Vec<Direction> = read.matrices.iter().map(|it| it.direction).collect();
    assert_eq!(
        directions,
        [Direction::One, Direction::Both, Direction::One]
    );
    assert_eq!(value(&read, 0, 0, 2), Some(36.6));
    assert_eq!(value(&read, 0, 2, 0), Some(39.7));
    assert_eq!(value(&read, 1, 1, 0), Some(104.0));
    assert_eq!(value(&read, 2, 2, 3), Some(56.2));
    assert_eq!(read.matrices[2].pairs().count(), 2);
    let totals: Vec<(&[(usize, usize)], f32)> = read
        .totals
        .iter()
        .map(|total| (&total.transfers[..], total.gbps))
        .collect();
    assert_eq!(
        totals,
        [
            (&[(0, 2), (1, 3)][..], 53.9),
            (&[(0, 2), (1, 2)], 40.1),
            (&[(0, 1)], 36.8),
        ]
    );
}

#[test]
fn what_holds_no_bandwidth_is_refused() {
    let error = Measurements::read("x.txt", b"nothing here\n").map(|_| ());
    let text = error.expect_err("nothing is there").to_string();
    assert!(text.starts_with("x.txt"), "{text}");
    assert!(text.contains("no bandwidths between GPUs"), "{text}");
    let error = Measurements::read("x.json", b"{\"other\": 1}").map(|_| ());
    let text = error.expect_err("no nvbandwidth").to_string();
    assert!(text.contains("nvbandwidth"), "{text}");
}

const LATENCY: &str = "\
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1
     0 1500.0   55.1
     1   54.9 1500.0
P2P=Disabled Latency Matrix (us)
   GPU     0      1
     0   1.30  14.10
     1  14.20   1.30

   CPU     0      1
     0   2.30   6.10
     1   6.20   2.30
P2P=Enabled Latency (P2P Writes) Matrix (us)
   GPU     0      1
     0   1.30   0.36
     1   0.44   1.30

   CPU     0      1
     0   2.30   1.10
     1   1.20   2.30
";

#[test]
fn latencies_are_those_of_gpus_with_peer_access() {
    let read = read(LATENCY);
    let latencies = read.latencies.as_ref().unwrap();
    assert_eq!(
        latencies.test,
        "P2P=Enabled Latency (P2P Writes) Matrix (us)"
    );
    let of = |from, to| latencies.between(from, to);
    assert_eq!(
        [of(0, 1), of(1, 0), of(0, 0), of(2, 0)],
        [Some(0.36), Some(0.44), None, None]
    );
    assert_eq!(read.matrices.len(), 1);
}
