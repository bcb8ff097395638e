//! The condition of GPUs and links, and bandwidths that were measured.

use records::bandwidth::{self, Direction};
use records::condition::Condition;
use records::peers::Access;
use records::{Bandwidths, Listings};

fn read(text: &str) -> Listings {
    let read = Listings::read("test", text.as_bytes()).expect(text);
    read.unwrap_or_default()
}

const QUERY: &str = r#"<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<timestamp>Thu Nov 20 10:00:00 2025</timestamp>
	<attached_gpus>2</attached_gpus>
	<gpu id="00000000:1B:00.0">
		<product_name>NVIDIA H100 80GB HBM3</product_name>
		<mig_mode><current_mig>Disabled</current_mig></mig_mode>
		<pci>
			<pci_gpu_link_info>
				<link_widths>
					<max_link_gen>5</max_link_gen>
					<max_link_width>16x</max_link_width>
					<current_link_width>8x</current_link_width>
				</link_widths>
			</pci_gpu_link_info>
		</pci>
		<clocks_event_reasons>
			<clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>
			<clocks_event_reason_hw_thermal_slowdown>Active</clocks_event_reason_hw_thermal_slowdown>
		</clocks_event_reasons>
		<ecc_errors>
			<volatile>
				<sram_uncorrectable_parity>0</sram_uncorrectable_parity>
				<dram_correctable>9</dram_correctable>
				<dram_uncorrectable>2</dram_uncorrectable>
			</volatile>
			<aggregate>
				<dram_uncorrectable>700</dram_uncorrectable>
			</aggregate>
		</ecc_errors>
		<remapped_rows>
			<remapped_row_pending>Yes</remapped_row_pending>
			<remapped_row_failure>No</remapped_row_failure>
		</remapped_rows>
		<fabric>
			<state>In Progress</state>
			<status>N/A</status>
			<cliqueId>7</cliqueId>
			<clusterUuid>3183419e-9edc</clusterUuid>
			<health><bandwidth>Degraded</bandwidth></health>
		</fabric>
		<gpu_recovery_action>Reset</gpu_recovery_action>
	</gpu>
	<gpu id="00000000:43:00.0">
		<product_name>NVIDIA H100 80GB HBM3</product_name>
		<pci><pci_gpu_link_info><link_widths>
			<max_link_width>16x</max_link_width>
			<current_link_width>16x</current_link_width>
		</link_widths></pci_gpu_link_info></pci>
		<fabric>
			<state>Completed</state>
			<status>Success</status>
		</fabric>
		<gpu_recovery_action>None</gpu_recovery_action>
	</gpu>
</nvidia_smi_log>
"#;

const QUERY_TEXT: &str = "
==============NVSMI LOG==============

Attached GPUs                             : 2
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    MIG Mode
        Current                           : Disabled
        Pending                           : Enabled
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 5
            Link Width
                Max                       : 16x
                Current                   : 8x
    Clocks Event Reasons
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Active
        SW Power Cap                      : Active
    Fabric
        State                             : In Progress
        Status                            : N/A
        CliqueId                          : 7
        ClusterUUID                       : 3183419e-9edc
        Health
            Bandwidth                     : Degraded
    ECC Errors
        Volatile
            SRAM Uncorrectable Parity     : 0
            DRAM Correctable              : 9
            DRAM Uncorrectable            : 2
        Aggregate
            DRAM Uncorrectable            : 700
    Remapped Rows
        Correctable Error                 : 0
        Pending                           : Yes
        Remapping Failure Occurred        : No
    GPU Recovery Action                   : Reset
    Clocks Event Reasons Counters
        HW Thermal Slowdown               : 700 us

GPU 00000000:43:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    PCI
        GPU Link Info
            Link Width
                Max                       : 16x
                Current                   : 16x
    Fabric
        State                             : Completed
        Status                            : Success
    GPU Recovery Action                   : None
";

#[test]
fn both_forms_of_a_query_give_one_condition() {
    let sick = Condition {
        bus_id: "0000:1b:00.0".to_owned(),
        name: "NVIDIA H100 80GB HBM3".to_owned(),
        width: Some(8),
        most_width: Some(16),
        most_generation: Some(5),
        slowed: vec!["heat, by the hardware"],
        errors: 2,
        is_remap_pending: true,
        has_remap_failed: false,
        fabric: Some("In Progress".to_owned()),
        is_fabric_degraded: true,
        clique: Some(("3183419e-9edc".to_owned(), "7".to_owned())),
        is_partitioned: false,
        recovery: Some("Reset".to_owned()),
    };
    let well = Condition {
        bus_id: "0000:43:00.0".to_owned(),
        name: sick.name.clone(),
        width: Some(16),
        most_width: Some(16),
        ..Condition::default()
    };
    let one_line = QUERY.replace(['\n', '\t'], "");
    for text in [QUERY, &one_line, QUERY_TEXT] {
        let facts = read(text);
        assert_eq!(facts.conditions, [sick.clone(), well.clone()], "{text}");
        // The names also help to make a topology.
        let ids = facts.gpus.iter().map(|it| it.bus_id.as_deref());
        let ids: Vec<_> = ids.collect();
        assert_eq!(ids, [Some("0000:1b:00.0"), Some("0000:43:00.0")]);
    }
}

#[test]
fn a_matrix_of_access_is_none_of_nearness() {
    let text = " \tGPU0\tGPU1\tGPU2\t\n GPU0\tX\tOK\tCNS\t\n GPU1\tOK\tX\tDR\t\n GPU2\tCNS\tDR\tX\t\n\n\
                Legend:\n\n  X    = Self\n  OK   = Status Ok\n";
    let near =
        "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNV18\tNV18\nGPU1\tNV18\t X \tNV18\nGPU2\tNV18\tNV18\t X\n";
    for both in [format!("{text}\n{near}"), format!("{near}\n{text}")] {
        let facts = read(&both);
        let peers = facts.peers.expect("a matrix of access");
        assert_eq!(peers.access[0][0], Access::Itself);
        let refused: Vec<_> = peers.refused().map(|it| (it.0, it.1)).collect();
        assert_eq!(refused, [(0, 2), (1, 2)]);
        assert_eq!(facts.matrix.expect("nearness").devices.len(), 3);
    }
    // It lacks a row.
    assert_eq!(read(" \tGPU0\tGPU1\n GPU0\tX\tOK\n").peers, None);
}

#[test]
fn links_are_up_down_or_unknown() {
    let text = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n\
                GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-2)\n\t Link 0: 26.562 GB/s\n\t Link 1: 25 GB/s\n\
                \t Link 2: of another kind\n\t Link 77: 26.562 GB/s\n";
    let links = read(text).links;
    let states: Vec<_> = links.iter().map(|it| (it.gpu, it.up, it.down)).collect();
    assert_eq!(states, [(0, 1, 2), (1, 3, 0)]);
    assert_eq!(
        (links[1].slowest, links[1].fastest),
        (Some(25.0), Some(26.562))
    );
}

#[test]
fn ports_of_rdma_link_are_those_of_ibstat() {
    let text = "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1\n\
                link mlx5_1/1 state DOWN physical_state DISABLED\n1/1: mlx5_2/1: state DOWN physical_state POLLING\n";
    let adapters = read(text).adapters;
    let ports: Vec<_> = adapters
        .iter()
        .map(|it| (it.name.as_str(), it.is_active))
        .collect();
    let expected = [
        ("mlx5_0", Some(true)),
        ("mlx5_1", Some(false)),
        ("mlx5_2", Some(false)),
    ];
    assert_eq!(ports, expected);
}

/// Data goes from the row to the column, whatever the program prints.
#[test]
fn bandwidths_go_from_the_row_to_the_column() {
    let table = "           0         1         2\n 0       N/A     11.00     12.00\n 1     21.00       N/A     22.50\n \
                 2      0.00     32.00       N/A\n";
    let write = format!(
        "Running device_to_device_memcpy_write_ce.\nmemcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)\n{table}\n\
         SUM device_to_device_memcpy_write_ce 98.50\n"
    );
    let [it]: [Bandwidths; 1] = read(&write).bandwidths.try_into().expect("one matrix");
    assert_eq!(it.method.program, "nvbandwidth");
    assert_eq!(it.method.test, "device_to_device_memcpy_write_ce");
    assert_eq!(it.direction, Direction::One);
    let pairs: Vec<_> = it.pairs().collect();
    let written = [
        (0, 1, 11.0),
        (0, 2, 12.0),
        (1, 0, 21.0),
        (1, 2, 22.5),
        (2, 0, 0.0),
        (2, 1, 32.0),
    ];
    assert_eq!(pairs, written);
    // A reader gets what it asks for.
    let read_back = read(&write.replace("write_ce", "read_ce").replace("<-", "->")).bandwidths;
    assert_eq!(
        (read_back[0].values[1][0], read_back[0].values[0][1]),
        (Some(11.0), Some(21.0))
    );
    let both = write.replace("<- GPU(column)", "<-> GPU(column) Total");
    assert_eq!(read(&both).bandwidths[0].direction, Direction::Both);
    let none = [
        write.replace("<- GPU(column)", "<-> GPU(column) Write1"),
        write.replace("GPU(row)", "CPU(row)"),
        write.replace(" 2      0.00     32.00       N/A\n", ""),
    ];
    for text in none {
        assert_eq!(read(&text).bandwidths, [], "{text}");
    }
    let odd = write.replace(" 1     21.00", " 1     2one");
    let refused = Listings::read("test", odd.as_bytes()).expect_err("a cell is no number");
    let refused = refused.to_string();
    assert!(refused.contains("row GPU1, column GPU0"), "{refused}");
}

#[test]
fn json_and_text_of_nvbandwidth_agree() {
    let json = r#"{"nvbandwidth": {"git_version": "v0.8", "testcases": [
        {"name": "host_to_device_memcpy_ce", "status": "Passed", "bandwidth_matrix": [["26.0", "25.9"]],
         "bandwidth_description": "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)"},
        {"name": "device_to_device_memcpy_read_ce", "status": "Passed",
         "bandwidth_description": "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
         "bandwidth_matrix": [["N/A", "276.07"], ["270.5", "N/A"]]},
        {"name": "device_to_device_bidirectional_memcpy_read_ce", "status": "Passed",
         "bandwidth_description": "memcpy CE GPU(row) <-> GPU(column) Total bandwidth (GB/s)",
         "bandwidth_matrix": [["N/A", "1"], ["1", "N/A"], ["N/A", "2"], ["2", "N/A"], ["N/A", "3"], ["3", "N/A"]]},
        {"name": "device_to_device_memcpy_write_ce", "status": "Waived"}]}}"#;
    let [one, both]: [Bandwidths; 2] = bandwidth::json(json.as_bytes())
        .unwrap()
        .try_into()
        .unwrap();
    let text = "Running device_to_device_memcpy_read_ce.\nmemcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n\
                           0         1\n 0       N/A    276.07\n 1    270.50       N/A\n";
    assert_eq!(read(text).bandwidths, [one]);
    assert_eq!(both.values, [[None, Some(3.0)], [Some(3.0), None]]);
    assert!(bandwidth::json(b"{\"nvbandwidth\": 3}").is_err());
}

#[test]
fn matrices_of_the_latency_test_have_their_method() {
    let table = "   D\\D     0      1 \n     0 1529.61   5.91 \n     1   6.91 1531.12 \n";
    let text = format!(
        "P2P Connectivity Matrix\n     D\\D     0     1\n     0\t     1     1\n     1\t     1     1\n\
         Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n{table}\
         Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n{table}\
         Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)\n{table}\
         P2P=Disabled Latency Matrix (us)\n   GPU     0      1 \n     0   1.55   9.59 \n     1   9.60   1.56 \n"
    );
    let found = read(&text).bandwidths;
    let methods: Vec<_> = found
        .iter()
        .map(|it| {
            (
                it.method.test.as_str(),
                it.method.by_peer_access,
                it.direction,
            )
        })
        .collect();
    let expected = [
        (
            "Unidirectional P2P=Disabled Bandwidth",
            false,
            Direction::One,
        ),
        (
            "Unidirectional P2P=Enabled Bandwidth (P2P Writes)",
            true,
            Direction::One,
        ),
        ("Bidirectional P2P=Enabled Bandwidth", true, Direction::Both),
    ];
    assert_eq!(methods, expected);
    assert_eq!(found[1].values, [[None, Some(5.91)], [Some(6.91), None]]);
}

#[test]
fn serial_numbers_and_packets_are_read() {
    let head = "01:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0)\n";
    let port = "\tCapabilities: [68] Express (v2) Upstream Port, MSI 00\n";
    let number = |text: &str| {
        let serial = format!("\tCapabilities: [100 v1] Device Serial Number {text}\n");
        let facts = read(&format!("{head}{port}{serial}"));
        assert!(facts.pci[0].is_upstream);
        facts.pci[0].serial.clone()
    };
    let serial = "00-80-5e-4e-c7-25-dc-08";
    assert_eq!(number(serial).as_deref(), Some(serial));
    assert_eq!(number("00-00-00-00-00-00-00-00"), None);
    assert_eq!(number("00-80-5e"), None);
    let facts = read("hca_id:\tmlx5_0\n\t\tmax_mtu:\t4096 (5)\n\t\tactive_mtu:\t1024 (3)\n");
    let adapter = &facts.adapters[0];
    assert_eq!((adapter.mtu, adapter.most_mtu), (Some(1024), Some(4096)));
}
