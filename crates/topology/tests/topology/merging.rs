//! Virtual network devices, and the parts that ranks join.

use topology::join;
use topology::merge::{MergeError, MergeLevel, MergeOptions, MergedTopology, merge};
use topology::xml::{Document, parse, write};

/// Two cards of two ports below a switch, a GPU beside each.
const TWO_CARDS: &str = r#"<system version="1">
  <cpu numaid="0" arch="arm64">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:11:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1"/>
      </pci>
      <pci busid="0000:12:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="90" rank="1" gdr="1"/>
      </pci>
      <pci busid="0000:13:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="8">
        <nic>
          <net name="a" dev="0" speed="100000" port="1" guid="0x1"/>
          <net name="b" dev="1" speed="50000" port="2" guid="0x1"/>
        </nic>
      </pci>
      <pci busid="0000:14:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="8">
        <nic>
          <net name="c" dev="5" speed="100000" port="1" guid="0x2"/>
        </nic>
      </pci>
    </pci>
  </cpu>
</system>
"#;

fn document() -> Document {
    parse("two-cards.xml", TWO_CARDS.as_bytes()).unwrap()
}

fn merged(options: &MergeOptions) -> MergedTopology {
    merge(&document(), options).unwrap().unwrap()
}

fn forced(groups: &str) -> MergeOptions {
    MergeOptions {
        forced: Some(groups.to_owned()),
        ..MergeOptions::default()
    }
}

#[test]
fn ports_of_a_card() {
    let merged = merged(&MergeOptions::default());
    let [device] = &merged.devices[..] else {
        panic!("{:?}", merged.devices)
    };
    assert_eq!((&*device.name, device.dev, device.lost), ("a+b", 3, false));
    assert_eq!(device.level, MergeLevel::Port);
    let text = write(&merged.document);
    let net = "<net name=\"a+b\" dev=\"3\" latency=\"0\" speed=\"150000\" port=\"1\" plane=\"16385\" guid=\"0x1\" net=\"1\"/>";
    assert!(text.contains(net), "{text}");
    assert!(
        !text.contains("name=\"a\"") && !text.contains("name=\"b\""),
        "{text}"
    );
    // The port that is alone is numbered as a plug-in numbers it.
    assert!(text.contains("<net name=\"c\" dev=\"2\""), "{text}");
}

#[test]
fn ports_of_several_cards() {
    let options = MergeOptions {
        level: MergeLevel::Pix,
        ..MergeOptions::default()
    };
    let merged = merged(&options);
    let names: Vec<&str> = merged.devices.iter().map(|device| &*device.name).collect();
    assert_eq!(names, ["a+b+c"]);
    let text = write(&merged.document);
    // Two cards of 8 lanes: 16 for the new function and for the switch above.
    let function = "<pci busid=\"0000:13:00.1\" class=\"0x020700\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">";
    assert!(text.contains(function), "{text}");
    assert!(!text.contains("0000:14:00.0"), "{text}");
}

#[test]
fn nothing_to_merge() {
    for options in [
        MergeOptions::default().without_groups(),
        MergeOptions {
            allowed: false,
            ..MergeOptions::default()
        },
        MergeOptions {
            same_rail: true,
            ..MergeOptions::default()
        },
        // A port that is named alone is used.
        forced("a"),
    ] {
        let merged = merged(&options);
        assert_eq!(merged.devices, [], "{options:?}");
    }
    let numbered = merge(&document(), &MergeOptions::default().without_groups());
    let numbered = numbered.unwrap().unwrap().document;
    let again = merge(&numbered, &MergeOptions::default().without_groups());
    assert_eq!(again, Ok(None));
}

#[test]
fn groups_by_name() {
    let merged = merged(&forced("b:2,c;;a"));
    let names: Vec<&str> = merged.devices.iter().map(|device| &*device.name).collect();
    assert_eq!(names, ["b+c"]);
    for (groups, expected) in [
        (
            "a,x",
            "NCCL_NET_FORCE_MERGE: the group `a,x` has 2 names, but 1 ports fit them (a, b, c); expected names of different ports, as NAME or NAME:PORT",
        ),
        (
            "a:2,b",
            "NCCL_NET_FORCE_MERGE: the group `a:2,b` has 2 names, but 1 ports fit them (a, b, c); expected names of different ports, as NAME or NAME:PORT",
        ),
        (
            ",",
            "NCCL_NET_FORCE_MERGE: the group `,` names no port, and NCCL never ends on that; expected names, as NAME or NAME:PORT",
        ),
    ] {
        let error = merge(&document(), &forced(groups)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let options = MergeOptions {
        allowed: false,
        ..forced("a,b")
    };
    let refused = merge(&document(), &options);
    assert!(
        matches!(refused, Err(MergeError::Refused { .. })),
        "{refused:?}"
    );
}

/// The positions of texts.
fn order(document: &Document, names: &[&str]) -> Vec<usize> {
    let text = write(document);
    names.iter().map(|name| text.find(name).unwrap()).collect()
}

#[test]
fn ranks_join_their_parts() {
    // The first rank's GPU and all ports come first, in the file's order.
    let joined = join::by_ranks(&document(), None).unwrap();
    let names = [
        "0000:11:00.0",
        "0000:13:00.0",
        "0000:14:00.0",
        "0000:12:00.0",
    ];
    assert!(order(&joined, &names).is_sorted(), "{}", write(&joined));
    assert_eq!(join::by_ranks(&joined, None), None);
    let swapped = join::by_ranks(&document(), Some(&[1, 0])).unwrap();
    let names = [
        "0000:12:00.0",
        "0000:13:00.0",
        "0000:14:00.0",
        "0000:11:00.0",
    ];
    assert!(order(&swapped, &names).is_sorted(), "{}", write(&swapped));
    assert_eq!(join::gpus_by_host(&document()), [2]);
}

#[test]
fn parts_that_no_rank_uses_are_left_out() {
    let text = TWO_CARDS.replace(" rank=\"1\"", "");
    let document = parse("one-rank.xml", text.as_bytes()).unwrap();
    let joined = join::by_ranks(&document, None).unwrap();
    assert!(
        !write(&joined).contains("0000:12:00.0"),
        "{}",
        write(&joined)
    );
}
